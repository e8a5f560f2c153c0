"""A small version of the third part of `make crash`; and the campaign finds what it is there to find."""

from pathlib import Path

import pytest

from tests.crash.outbox import Plan, campaign


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_killed_at_commits_and_writes_nothing_leaves_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    tally = campaign(Plan(kills=40, seed=7), tmp_path)
    assert tally.kills >= 40
    assert tally.effects > 0
    assert tally.quiet > 0
    assert {"before a commit", "inside a transaction", "after a commit"} <= set(tally.where)
