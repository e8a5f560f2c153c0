"""Votes as numbers: pooled by the engine's rules, with the spread that goes on record."""

import math
from statistics import pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape, CurvePrediction, CurveShape
from plugins.society.vote_pooling import VoteAggregate, encode_predictions, pool_votes, tally_votes, vote_spread
from tests.plugins.society.cases import question

SHARES = st.lists(st.floats(0.02, 0.98), min_size=1, max_size=9)


@settings(max_examples=30)
@given(values=SHARES)
def test_of_probabilities_the_spread_is_their_standard_deviation(values: list[float]) -> None:
    votes = [{"outcome": BinaryPrediction(value)} for value in values]
    middle = pool_votes(question(), votes, VoteAggregate.MEAN)
    assert vote_spread(votes, "outcome", middle) == pytest.approx(pstdev(values), abs=1e-9)


@settings(max_examples=30)
@given(values=SHARES)
def test_every_pool_lies_between_the_least_and_the_greatest_vote(values: list[float]) -> None:
    votes = [{"outcome": BinaryPrediction(value)} for value in values]
    for how in VoteAggregate:
        found = pool_votes(question(), votes, how)["outcome"]
        assert isinstance(found, BinaryPrediction)
        assert min(values) - 1e-9 <= found.probability <= max(values) + 1e-9


def test_votes_on_options_are_told_share_by_share() -> None:
    asked = question(ChoiceShape(options=("red", "blue")))
    votes = {
        "juror_1": {"outcome": ChoicePrediction({"red": 0.8, "blue": 0.2})},
        "juror_2": {"outcome": ChoicePrediction({"red": 0.2, "blue": 0.8})},
    }
    told = tally_votes(asked, votes, None)
    assert told["mean"] == {"outcome": {"red": 0.5, "blue": 0.5}}
    assert told["spread"] == {"outcome": 0.3}
    # The log pool of mirrored shares is even as well: sqrt(0.8 * 0.2) for both.
    assert told["logit_mean"] == {"outcome": {"red": 0.5, "blue": 0.5}}
    assert "judge" not in told


def test_curves_are_told_by_values_and_dates_as_one_writes_them() -> None:
    line = CurvePrediction(tuple(point / 10 for point in range(11)))
    numbers = question(CurveShape(grid=tuple(float(point) for point in range(11))))
    assert encode_predictions(numbers, {"outcome": line})["outcome"] == {
        "p5": 0.5, "p25": 2.5, "p50": 5.0, "p75": 7.5, "p95": 9.5
    }  # fmt: skip
    days = question(CurveShape(grid=tuple(86_400.0 * day for day in range(11)), unit="date"))
    assert encode_predictions(days, {"outcome": line})["outcome"] == {
        "p5": "1970-01-01", "p25": "1970-01-03", "p50": "1970-01-06", "p75": "1970-01-08", "p95": "1970-01-10"
    }  # fmt: skip


def test_without_votes_only_the_judge_is_told() -> None:
    assert tally_votes(question(), {}, {"outcome": BinaryPrediction(0.25)}) == {"votes": {}, "judge": {"outcome": 0.25}}
    assert math.isclose(
        vote_spread([{"outcome": BinaryPrediction(0.4)}], "outcome", {"outcome": BinaryPrediction(0.4)}), 0.0
    )
