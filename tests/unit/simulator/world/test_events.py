"""Events of the simulated world: true probabilities are calibrated, and martingales, against their outcomes."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bot.core.clock import SeededRandom
from bot.simulator.world.events import ContestEvent, IntervalEvent, PassageEvent, ThresholdEvent, ValueEvent
from bot.simulator.world.random_walks import STEP_DAYS, RandomWalk

MANY = 3_000


def walk(name: str, seed: int = 3, **fields: float) -> RandomWalk:
    return RandomWalk(name=name, chance=SeededRandom(seed), **{"days": 60.0, "start": 0.0, "sigma": 0.4, **fields})


def above(name: str) -> ThresholdEvent:
    return ThresholdEvent(walk=walk(name), until=60.0, level=0.8, shock=1.0)


def reached(name: str) -> PassageEvent:
    return PassageEvent(walk=walk(name, drift=0.01), until=60.0, level=3.0)


def calibrated(chances: Sequence[float], happened: Sequence[bool]) -> float:
    """Return the p-value of Spiegelhalter's test of calibration."""
    p, y = np.array(chances), np.array(happened, dtype=float)
    inner = (p > 0.0) & (p < 1.0)
    p, y = p[inner], y[inner]
    z = ((y - p) * (1 - 2 * p)).sum() / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    return float(2 * stats.norm.sf(abs(z)))


@pytest.mark.parametrize("make", [above, reached])
@pytest.mark.parametrize("day", [0.0, 31.1, 55.0])
def test_chances_are_calibrated(make: Callable[[str], ThresholdEvent | PassageEvent], day: float) -> None:
    events = [make(f"n{number}") for number in range(MANY)]
    chances, happened = [event.probability(day) for event in events], [event.happened for event in events]
    assert calibrated(chances, happened) > 0.01
    assert np.mean(chances) == pytest.approx(np.mean(happened), abs=0.03)


@pytest.mark.parametrize("make", [above, reached])
def test_chances_do_not_drift(make: Callable[[str], ThresholdEvent | PassageEvent]) -> None:
    events = [make(f"m{number}") for number in range(MANY)]
    moves = [event.probability(40.0) - event.probability(10.0) for event in events]
    assert stats.ttest_1samp(moves, 0.0).pvalue > 0.01


@pytest.mark.parametrize("make", [above, reached])
def test_in_the_end_a_chance_is_what_happened(make: Callable[[str], ThresholdEvent | PassageEvent]) -> None:
    for number in range(50):
        event = make(f"e{number}")
        assert event.probability(60.0) == event.probability(99.0) == float(event.happened)


def test_a_level_that_was_reached_stays_reached() -> None:
    event = next(one for number in range(200) if (one := reached(f"r{number}")).reached_on < 40.0)
    assert event.probability(event.reached_on) == 1.0
    assert event.probability(event.reached_on - STEP_DAYS) < 1.0
    assert event.probability_by(50.0, 45.0) == 1.0


def test_the_law_of_the_first_passage_is_that_of_the_inverse_gaussian() -> None:
    drift, sigma, level = 0.3, 0.7, 4.0
    event = PassageEvent(walk=walk("p", drift=drift, sigma=sigma), until=60.0, level=level)
    shape = (level / sigma) ** 2
    wald = stats.invgauss(mu=level / drift / shape, scale=shape)
    for day in (2.0, 10.0, 25.0, 60.0):
        assert event.probability_by(0.0, day) == pytest.approx(wald.cdf(day), rel=1e-9)


def test_a_strong_pull_away_does_not_overflow() -> None:
    event = PassageEvent(walk=walk("d", drift=-5.0, sigma=0.1), until=60.0, level=4.0)
    assert event.probability(0.0) == 0.0


def test_a_level_that_is_behind_is_refused() -> None:
    with pytest.raises(ValueError, match="starts below"):
        PassageEvent(walk=walk("x", start=5.0), until=60.0, level=4.0)


def field(name: str) -> ContestEvent:
    walks = {
        letter: walk(f"{name}{letter}", sigma=0.3, start=start)
        for letter, start in zip("abc", (0, 0.5, 1), strict=True)
    }
    return ContestEvent(walks=walks, until=60.0, shock=0.8)


def bands(name: str) -> IntervalEvent:
    return IntervalEvent(walk=walk(name), until=60.0, limits=(-1.0, 1.0), names=("loss", "draw", "win"), shock=0.5)


@pytest.mark.parametrize("make", [field, bands])
def test_shares_are_calibrated_and_sum_to_one(make: Callable[[str], ContestEvent | IntervalEvent]) -> None:
    events = [make(f"n{number}") for number in range(MANY // 3)]
    shares = [event.probabilities(20.0) for event in events]
    assert all(sum(one.values()) == pytest.approx(1.0, abs=1e-9) for one in shares)
    for name in shares[0]:
        happened = [event.winner == name for event in events]
        assert calibrated([one[name] for one in shares], happened) > 0.01
    assert events[0].probabilities(60.0) == {name: float(name == events[0].winner) for name in shares[0]}


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5), st.floats(0.3, 2.0))
def test_the_winner_of_a_field_is_that_of_numerical_integration(starts: list[float], shock: float) -> None:
    walks = {str(n): walk(f"w{n}", start=start, sigma=0.1) for n, start in enumerate(starts)}
    shares = ContestEvent(walks=walks, until=60.0, shock=shock).probabilities(0.0)
    spread = float(np.hypot(0.1 * np.sqrt(60.0), shock))

    def density(x: float) -> float:
        others = np.prod([stats.norm.cdf(x, start, spread) for start in starts[1:]])
        return float(stats.norm.pdf(x, starts[0], spread) * others)

    expected, _ = integrate.quad(density, starts[0] - 10 * spread, starts[0] + 10 * spread)
    assert shares["0"] == pytest.approx(expected, abs=1e-6)


def test_a_level_has_the_law_of_its_walk() -> None:
    values = np.array([-1.0, 0.5, 1.0, 4.0])
    plain = ValueEvent(walk=walk("l", start=1.0), until=60.0)
    assert plain.cdf(0.0, values) == pytest.approx(stats.norm.cdf(values, 1.0, 0.4 * np.sqrt(60.0)))
    price = ValueEvent(walk=walk("l", start=1.0, sigma=0.05), until=60.0, geometric=True)
    expected = stats.lognorm.cdf(values, s=0.05 * np.sqrt(60.0), scale=np.e)
    assert price.cdf(0.0, values) == pytest.approx(expected)
    assert price.cdf(60.0, np.array([price.final_value * 0.999, price.final_value * 1.001])).tolist() == [0.0, 1.0]
