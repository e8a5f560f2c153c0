"""Votes as numbers: pooled by the engine's rules, with the spread that goes on record."""

import math
from statistics import pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.prediction import Binary, Choice, ChoiceShape, Curve, CurveShape
from plugins.society.votes import Aggregate, plain, pool, spread, tally
from tests.plugins.society.cases import question

SHARES = st.lists(st.floats(0.02, 0.98), min_size=1, max_size=9)


@settings(max_examples=30)
@given(values=SHARES)
def test_of_probabilities_the_spread_is_their_standard_deviation(values: list[float]) -> None:
    votes = [{"outcome": Binary(value)} for value in values]
    middle = pool(question(), votes, Aggregate.MEAN)
    assert spread(votes, "outcome", middle) == pytest.approx(pstdev(values), abs=1e-9)


@settings(max_examples=30)
@given(values=SHARES)
def test_every_pool_lies_between_the_least_and_the_greatest_vote(values: list[float]) -> None:
    votes = [{"outcome": Binary(value)} for value in values]
    for how in Aggregate:
        found = pool(question(), votes, how)["outcome"]
        assert isinstance(found, Binary)
        assert min(values) - 1e-9 <= found.probability <= max(values) + 1e-9


def test_votes_on_options_are_told_share_by_share() -> None:
    asked = question(ChoiceShape(options=("red", "blue")))
    votes = {
        "juror_1": {"outcome": Choice({"red": 0.8, "blue": 0.2})},
        "juror_2": {"outcome": Choice({"red": 0.2, "blue": 0.8})},
    }
    told = tally(asked, votes, None)
    assert told["mean"] == {"outcome": {"red": 0.5, "blue": 0.5}}
    assert told["spread"] == {"outcome": 0.3}
    # The log pool of mirrored shares is even as well: sqrt(0.8 * 0.2) for both.
    assert told["logit_mean"] == {"outcome": {"red": 0.5, "blue": 0.5}}
    assert "judge" not in told


def test_curves_are_told_by_values_and_dates_as_one_writes_them() -> None:
    line = Curve(tuple(point / 10 for point in range(11)))
    numbers = question(CurveShape(grid=tuple(float(point) for point in range(11))))
    assert plain(numbers, {"outcome": line})["outcome"] == {
        "p5": 0.5, "p25": 2.5, "p50": 5.0, "p75": 7.5, "p95": 9.5
    }  # fmt: skip
    days = question(CurveShape(grid=tuple(86_400.0 * day for day in range(11)), unit="date"))
    assert plain(days, {"outcome": line})["outcome"] == {
        "p5": "1970-01-01", "p25": "1970-01-03", "p50": "1970-01-06", "p75": "1970-01-08", "p95": "1970-01-10"
    }  # fmt: skip


def test_without_votes_only_the_judge_is_told() -> None:
    assert tally(question(), {}, {"outcome": Binary(0.25)}) == {"votes": {}, "judge": {"outcome": 0.25}}
    assert math.isclose(spread([{"outcome": Binary(0.4)}], "outcome", {"outcome": Binary(0.4)}), 0.0)
