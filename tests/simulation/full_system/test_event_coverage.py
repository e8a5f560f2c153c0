"""What a programme of simulations never met is counted, and fails a long one."""

from dataclasses import replace

import pytest

from bot.execution.gate.rules import RULES
from bot.store.intents import NEXT_INTENT_STATES
from tests.simulation.full_system.event_coverage import (
    LARGE_FACTOR,
    MORE_DAYS,
    NORMAL_DAYS,
    UNREACHED,
    build_report,
    count_events,
    describe_report,
    known_events,
)
from tests.unit.execution.gate.decision_contexts import case

LAST = "outbox absent -> planned"


def test_each_rule_and_each_move_of_the_outbox_can_come_up() -> None:
    known = known_events()
    assert all(any(name.startswith(f"rule {rule.name}, ") for name in known) for rule in RULES)
    moves = {f"outbox {before} -> {after}" for before, nexts in NEXT_INTENT_STATES.items() for after in nexts}
    assert moves <= {*known}


def test_an_objection_counts_once_for_its_rule_and_once_for_the_place_that_words_it() -> None:
    context = case()
    [rule] = [one for one in RULES if one.name == "check_lock"]
    with count_events() as found:
        assert rule.objection(context) is None
        assert not found
        assert rule.objection(replace(context, lock_reason="ada thinks")) is not None
    assert found == {"rule check_lock, deciding": 1, "hold check_lock": 1}
    with count_events() as found:
        pass
    assert rule.objection(replace(context, lock_reason="ada thinks")) is not None
    assert not found


def test_one_that_never_came_up_fails_a_programme_of_normal_size_alone() -> None:
    expected = [name for name in known_events() if name not in {*UNREACHED, *MORE_DAYS}]
    all_but_one = {name: 1 for name in expected if name != LAST}
    long, short = (build_report(days, [all_but_one]) for days in (NORMAL_DAYS, NORMAL_DAYS - 1.0))
    assert (long.missing, long.fails) == ((LAST,), True)
    assert (short.missing, short.fails) == ((LAST,), False)
    assert [*describe_report(long)][-1] == f"NOT COVERED: 1 never came up: {LAST}"
    whole = build_report(NORMAL_DAYS, [all_but_one, {LAST: 2}])
    assert (whole.missing, whole.fails, whole.counts[LAST]) == ((), False, 2)


def test_what_needs_more_days_is_expected_of_a_large_programme() -> None:
    expected = {name: 1 for name in known_events() if name not in {*UNREACHED, *MORE_DAYS}}
    assert set(build_report(LARGE_FACTOR * NORMAL_DAYS, [expected]).missing) == set(MORE_DAYS)


@pytest.mark.parametrize("names", [MORE_DAYS, UNREACHED])
def test_what_is_excused_exists_and_has_a_reason(names: dict[str, str]) -> None:
    assert {*names} <= {*known_events()}
    assert all(len(why) > 10 for why in names.values())
