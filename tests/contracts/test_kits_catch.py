"""The kits that the venues here are held to are worth something: a dozen ways to break an adapter are caught by each.

Each way is a class or function that breaks a sound double in one respect, with the check that it must fail; the sound
one passes all checks. They are run where they are written, in ``tests/unit/testing``; what is counted here is that no
kit, and no check of a kit, is without them.
"""

from collections.abc import Sequence

import pytest

from bot.testing.planner_contract import OrderPlannerContract
from bot.testing.price_feed_contract import PriceFeedContract
from bot.testing.question_list_contract import QuestionListContract
from bot.testing.spec_contract import PluginSpecContract
from bot.testing.submitter_contracts import SealingSubmitterContract, SubmitterContract
from bot.testing.trading_contract import TradingSubmitterContract
from bot.testing.venue_contracts import ArchiveContract, ClosingPlannerContract, QuestionReaderContract, VenueContract
from tests.contracts.test_all_venues import kit_classes
from tests.contracts.test_planners import PLANNER_MISTAKES
from tests.contracts.test_typical_mistakes import LIST_MISTAKES
from tests.unit.testing import (
    test_archive_contract,
    test_closing_contract,
    test_feed_contract,
    test_sealing_contracts,
    test_submitter_contract,
    test_venue_contract,
)
from tests.unit.testing.correct_venue import checks_of

A_DOZEN = 12
BREAKS: Sequence[tuple[type, Sequence[tuple[str, object]]]] = [
    (VenueContract, test_venue_contract.VENUE_MUTANTS),
    (QuestionListContract, [(check, fault) for check, fault, _ in LIST_MISTAKES]),
    (OrderPlannerContract, [(check, fault) for check, fault, _ in PLANNER_MISTAKES]),
    (ArchiveContract, test_archive_contract.ARCHIVE_MUTANTS),
    (ClosingPlannerContract, test_closing_contract.CLOSING_MUTANTS),
    (SubmitterContract, test_submitter_contract.SUBMITTER_MUTANTS),
    (SealingSubmitterContract, test_sealing_contracts.SEALER_MUTANTS),
    (TradingSubmitterContract, test_sealing_contracts.TRADER_MUTANTS),
    (PriceFeedContract, test_feed_contract.FEED_MUTANTS),
    (QuestionReaderContract, test_feed_contract.FINDER_MUTANTS),
]


@pytest.mark.parametrize(("kit", "breaks"), BREAKS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_dozen_breaks_are_caught_by_each_kit_and_one_by_each_check(
    kit: type, breaks: Sequence[tuple[str, object]]
) -> None:
    assert len(set(breaks)) >= A_DOZEN
    assert {check for check, _ in breaks} == set(checks_of(kit))


def test_every_kit_that_a_venue_is_held_to_is_among_them() -> None:
    known = {kit for kit, _ in BREAKS}
    held = {kit for one in kit_classes() for kit in one.__mro__ if kit.__module__.startswith("bot.testing")}
    assert held - {PluginSpecContract} <= known
