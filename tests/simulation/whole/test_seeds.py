"""``make simulate`` as CI runs it: 64 seeds of three days each."""

import pytest

from tests.simulation.whole.called import simulated

SEEDS, AT_ONCE = 64, 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_in_three_days_of_any_seed_no_invariant_breaks(first: int, worker_id: str) -> None:
    # Each worker of the tests keeps to a processor of its own.
    place = worker_id.removeprefix("gw").replace("master", "0")
    options = ("--first", str(first), "--seeds", str(AT_ONCE), "--days", "3", "--place", place)
    done = simulated(*options, within_s=580.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{AT_ONCE} seeds, " in done.stdout
    assert " 0 violated" in done.stdout
