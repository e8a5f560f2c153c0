"""A small version of the third part of `make crash`; and the campaign finds what it is there to find."""

from pathlib import Path

import pytest

from bot.testing.venues.faults import Fault
from tests.crash.grounds import GROUNDS
from tests.crash.outbox import Plan, campaign, hunt


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_killed_at_commits_and_writes_nothing_leaves_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    tally = campaign(Plan(kills=50, seed=7), tmp_path)
    assert tally.kills >= 50
    assert tally.effects > 0
    assert tally.fills > 0
    assert tally.quiet > 0
    assert set(GROUNDS) <= set(tally.stories)
    assert any(name.endswith("on paper") for name in tally.stories)
    assert {"before a commit", "inside a transaction", "after a commit"} <= set(tally.where)
    assert {"before the wire", "on the wire", "after the wire"} & set(tally.where)
    assert {str(Fault.LATE), str(Fault.DROPPED_AFTER)} <= set(tally.faults)


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
    """All of them: `python -m tests.crash.outbox --mutants`."""
    tally, violation = hunt(Plan(kills=400, seed=2, mutant=mutant), tmp_path)
    assert violation is not None, tally
    assert str(violation).startswith(f"{broken}: ")
