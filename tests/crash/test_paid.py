from pathlib import Path

import pytest

from tests.crash.paid_calls_campaign import PaidCallsPlan, campaign


@pytest.mark.crash
@pytest.mark.timeout(420)
@pytest.mark.parametrize("seed", [3])
def test_killed_amid_trials_nothing_is_paid_for_twice_and_the_numbers_are_the_same(tmp_path: Path, seed: int) -> None:
    """A small version of the second half of `make crash`."""
    tally = campaign(PaidCallsPlan(kills=2, questions=3, seed=seed), tmp_path)
    assert tally.kills >= 2
    assert tally.forecasts == 3 * tally.scenarios
