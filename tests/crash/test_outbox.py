"""A small version of the third part of `make crash`; and the campaign finds what it is there to find."""

from pathlib import Path

import pytest

from bot.simulator.faults import RequestFault
from tests.crash.outbox_campaign import OutboxCampaignPlan, campaign, hunt
from tests.crash.venue_servers import SCENARIO_VENUES


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_killed_at_commits_and_writes_nothing_leaves_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    tally = campaign(OutboxCampaignPlan(kills=20, seed=7), tmp_path)
    # Eight stories at once, each venue live and on paper, are killed far more often until the first of them ends.
    assert tally.kills >= 50
    assert tally.effects > 0
    assert tally.fills > 0
    assert tally.quiet > 0
    assert set(SCENARIO_VENUES) <= set(tally.scenarios)
    assert any(name.endswith("on paper") for name in tally.scenarios)
    assert {"before a commit", "inside a transaction", "after a commit"} <= set(tally.where)
    assert {"before the wire", "on the wire", "after the wire"} & set(tally.where)
    assert {str(RequestFault.LATE), str(RequestFault.DROPPED_AFTER)} <= set(tally.faults)


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        ("no-arm", "I4"),
        pytest.param("no-fence", "I1", marks=pytest.mark.slow),
        pytest.param("no-brake", "I4", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_is_broken_is_found_out(tmp_path: Path, mutant: str, broken: str) -> None:
    """All of them: `python -m tests.crash.outbox_campaign --mutants`."""
    tally, violation = hunt(OutboxCampaignPlan(kills=400, seed=5, mutant=mutant), tmp_path)
    assert violation is not None, tally
    assert str(violation).startswith(f"{broken}: ")
