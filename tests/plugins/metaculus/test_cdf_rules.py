"""CDFs against docs/facts/metaculus.md#validation, and the nearest valid one against an optimiser."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from bot.stats.arrays import FloatArray
from plugins.metaculus.cdf_rules import CdfRules
from tests.plugins.metaculus.documented_samples import records

CLOSED = CdfRules(steps=200, open_lower=False, open_upper=False)
OPEN = CdfRules(steps=200, open_lower=True, open_upper=True)
UPPER = CdfRules(steps=200, open_lower=False, open_upper=True)
TEN = CdfRules(steps=10, open_lower=False, open_upper=True)
FIFTY = CdfRules(steps=50, open_lower=False, open_upper=False)


def line(first: float, last: float, points: int = 201) -> list[float]:
    return [first + (last - first) * n / (points - 1) for n in range(points)]


def with_step(rules: CdfRules, size: float) -> list[float]:
    """A CDF from 0 to 1 with one step of that size in the middle, the others equal."""
    other = (1.0 - size) / (rules.steps - 1)
    steps = [size if n == rules.steps // 2 else other for n in range(rules.steps)]
    return [0.0, *(float(value) for value in np.cumsum(steps)[:-1]), 1.0]


@pytest.mark.parametrize(
    ("rules", "cdf"),
    [
        (CLOSED, line(0.0, 1.0)),
        (CLOSED, with_step(CLOSED, 5e-5)),
        (CLOSED, with_step(CLOSED, 0.2)),
        (OPEN, line(0.001, 0.999)),
        (TEN, [0, 0.001, 0.002, 0.003, 0.004, 0.95, 0.951, 0.952, 0.953, 0.954, 0.955]),
        (FIFTY, with_step(FIFTY, 0.8)),
    ],
)
def test_mc_s3_what_the_server_accepted_is_valid(rules: CdfRules, cdf: list[float]) -> None:
    assert rules.violations(cdf) == []


@pytest.mark.parametrize(
    ("rules", "cdf", "faults"),
    [
        (CLOSED, line(0.0, 1.0, 200), ["200 values"]),
        (CLOSED, with_step(CLOSED, 0.0), ["a step of 0"]),
        (CLOSED, with_step(CLOSED, 4.9e-5), ["a step of 4.9e-05"]),
        (CLOSED, with_step(CLOSED, 0.2001), ["a step of 0.2001"]),
        (CLOSED, line(0.01, 0.99), ["the start 0.01", "the end 0.99"]),
        (OPEN, line(0.0009, 0.999), ["the start 0.0009"]),
        (OPEN, line(0.001, 0.9991), ["the end 0.9991"]),
        (OPEN, line(0.0, 1.0), ["the start 0 ", "the end 1 "]),
        (UPPER, line(0.0, 1.2), ["the end 1.2"]),
        (TEN, [0, *(0.001 + 0.0005 * n for n in range(9)), 0.9], ["a step of 0.0005"]),
        (TEN, line(0.0, 0.9), ["201 values"]),
        (FIFTY, with_step(FIFTY, 0.9902), ["more than 0.8"]),
        (CLOSED, [float("nan")] * 201, ["not finite numbers"]),
    ],
)
def test_mc_s3_what_the_server_refused_is_a_violation(rules: CdfRules, cdf: list[float], faults: list[str]) -> None:
    found = rules.violations(cdf)
    assert len(found) == len(faults)
    assert all(fault in text for fault, text in zip(faults, found, strict=True))


def test_the_full_cdf_that_the_server_took_is_valid(shared: Path) -> None:
    [record] = records(shared, "forecast_full_cdf_example")
    [item] = record["request"]["body"]
    assert record["response"]["status"] == 201
    assert OPEN.violations(item["continuous_cdf"]) == []


@st.composite
def cdfs(draw: st.DrawFn) -> tuple[CdfRules, list[float]]:
    """Any CDF in [0, 1] on a grid of any size, spikes, flats and ends at odd places among them."""
    steps = draw(st.sampled_from([1, 2, 3, 7, 10, 40, 41, 50, 200, 333]))
    rules = CdfRules(steps=steps, open_lower=draw(st.booleans()), open_upper=draw(st.booleans()))
    values = draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6))
    picked = draw(st.lists(st.sampled_from(sorted(values)), min_size=steps + 1, max_size=steps + 1))
    return rules, sorted(picked)


@given(cdfs())
def test_the_nearest_cdf_keeps_all_rules(case: tuple[CdfRules, list[float]]) -> None:
    rules, cdf = case
    found = rules.nearest_valid(cdf)
    assert rules.violations(found) == []
    assert all(after > before for before, after in pairwise(found))


@given(cdfs())
def test_a_valid_cdf_is_its_own_nearest(case: tuple[CdfRules, list[float]]) -> None:
    rules, cdf = case
    once = rules.nearest_valid(cdf)
    assert rules.nearest_valid(once) == pytest.approx(once, abs=2e-10)


@pytest.mark.parametrize("seed", range(12))
def test_no_optimiser_finds_a_nearer_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = int(rng.choice([8, 50]))
    rules = CdfRules(steps=steps, open_lower=bool(seed % 2), open_upper=bool(seed % 3))
    # A few masses at odd places, so that caps (of 0.8 at 50 steps) and floors both bind.
    masses = rng.dirichlet(np.full(steps + 2, 0.02))
    cdf = np.minimum(np.cumsum(masses)[:-1], 1.0)
    ours = np.asarray(rules.nearest_valid([float(value) for value in cdf]))

    def gap(x: FloatArray) -> float:
        return float(np.sum((x - cdf) ** 2))

    def slope(x: FloatArray) -> FloatArray:
        return 2.0 * (x - cdf)

    (low, high), (last_low, last_high) = rules.start_bounds, rules.end_bounds
    theirs = minimize(
        gap,
        np.linspace(0.01 if rules.open_lower else 0.0, 0.99 if rules.open_upper else 1.0, steps + 1),
        jac=slope,
        bounds=Bounds([low, *[0.0] * (steps - 1), last_low], [high, *[1.0] * (steps - 1), last_high]),
        constraints=LinearConstraint(np.diff(np.eye(steps + 1), axis=0), 0.01 / steps, min(40.0 / steps, 1.0)),
        method="SLSQP",
        options={"maxiter": 500},
        tol=1e-14,
    )
    assert theirs.success
    assert float(np.sum((ours - cdf) ** 2)) <= theirs.fun + 1e-7
    assert ours == pytest.approx(theirs.x, abs=2e-3)


def test_a_mass_that_one_step_cannot_hold_goes_to_its_neighbours() -> None:
    spike = [0.0] * 101 + [1.0] * 100
    found = CLOSED.nearest_valid(spike)
    masses = np.diff(found)
    assert masses[96:105].sum() > 0.98
    assert masses.max() == pytest.approx(0.2)


def test_another_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="11 values"):
        TEN.nearest_valid([0.0, 1.0])
