"""Walks of the simulated world: their paths obey the laws that they state."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from bot.core.clock import SeededRandom
from bot.simulator.world.random_walks import NormalLaw, RandomWalk, normal_cdf

CHANCE = SeededRandom(7)


def walk(name: str = "a", **fields: float) -> RandomWalk:
    return RandomWalk(name=name, chance=CHANCE, **{"days": 100.0, "start": 1.0, "sigma": 0.5, **fields})


def test_the_normal_law_is_that_of_scipy() -> None:
    for x in (-9.0, -1.3, 0.0, 0.4, 6.0):
        assert normal_cdf(x) == pytest.approx(stats.norm.cdf(x), rel=1e-12)


def test_a_certain_law_knows_no_middle() -> None:
    assert NormalLaw(mean=1.0, deviation=0.0).above(0.9) == 1.0
    assert NormalLaw(mean=1.0, deviation=0.0).above(1.0) == 0.0


def test_the_same_seed_and_name_make_the_same_path_whatever_was_asked_before() -> None:
    first = walk("a").path
    walk("b").path.sum()
    assert np.array_equal(first, walk("a").path)
    assert not np.array_equal(first, walk("b").path)
    assert not np.array_equal(
        first, RandomWalk(name="a", chance=SeededRandom(8), days=100.0, start=1.0, sigma=0.5).path
    )


def test_a_path_begins_at_its_start_and_lasts_its_days() -> None:
    assert walk().path.shape == (401,)
    assert walk().at(0.0) == 1.0
    assert walk().at(1e9) == walk().path[-1]


@pytest.mark.parametrize("pull", [0.0, 0.15])
def test_ends_have_the_law_that_was_stated_in_the_middle(pull: float) -> None:
    places = []
    for number in range(2_000):
        one = walk(f"n{number}", days=30.0, drift=0.1, pull=pull)
        law = one.distribution(12.3, 30.0)
        places.append((one.at(30.0) - law.mean) / law.deviation)
    assert stats.kstest(places, "norm").pvalue > 0.01


def test_laws_of_two_legs_make_the_law_of_both() -> None:
    one = walk(drift=0.3, pull=0.2)
    near = one.distribution_after(2.0, 3.0)
    far = one.distribution_after(near.mean, 4.0)
    whole = one.distribution_after(2.0, 7.0)
    assert far.mean == pytest.approx(whole.mean)
    kept = math.exp(-0.2 * 4.0)
    assert math.hypot(near.deviation * kept, far.deviation) == pytest.approx(whole.deviation)


def test_what_is_over_is_certain() -> None:
    law = walk().distribution(50.0, 20.0)
    assert law == NormalLaw(mean=walk().at(20.0), deviation=0.0)


@pytest.mark.parametrize("wrong", [{"days": 0.0}, {"sigma": 0.0}, {"pull": -1.0}])
def test_what_is_no_walk_is_refused(wrong: Mapping[str, float]) -> None:
    with pytest.raises(ValueError, match="a: a walk needs days"):
        walk("a", **wrong)


def test_before_the_world_there_is_nothing_to_know() -> None:
    with pytest.raises(ValueError, match="before the world began"):
        walk().at(-0.5)
