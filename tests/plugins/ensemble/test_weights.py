"""Weights follow the past of the members, are equal without one, and know nothing of what came later."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.errors import LeakError
from bot.core.interfaces import HistoryLearner
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape, Prediction, QuestionShape
from bot.core.questions import Question, QuestionRef, Target
from plugins.ensemble.forecaster import find_weights
from plugins.ensemble.settings import EnsembleSettings
from plugins.ensemble.weights import WeightLearner, fit_shares

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HAND = EnsembleSettings(members=("a", "b"), min_targets=1, equal_weight_targets=2.0, min_weight=0.0)


def asked(number: int, venue: str = "harbour", shape: QuestionShape | None = None) -> Question:
    ref = QuestionRef(venue, f"q{number}")
    return Question(ref=ref, title="Will it?", shape=shape or BinaryShape(), targets=(Target(),))


def past(who: str, number: int, answers: Prediction, came: Outcome, **more: Any) -> ResolvedForecast:
    question = asked(number, more.pop("venue", "harbour"), more.pop("shape", None))
    at = more.pop("resolved_at", NOW - timedelta(days=1))
    return ResolvedForecast(
        forecast=f"{who}{number}",
        forecaster=who,
        question=question,
        prediction=answers,
        resolution=Resolution(ref=question.ref, target="outcome", outcome=came, resolved_at=at),
        cutoff=NOW - timedelta(days=9),
    )


def learned(settings: EnsembleSettings, pasts: Sequence[ResolvedForecast]) -> Any:
    return WeightLearner(settings).fit_history(pasts, before=NOW)["weights"]


def shares(losses: Mapping[str, float], count: int = 1, **how: Any) -> Mapping[str, float]:
    how = {"min_targets": 1, "equal_weight_targets": 0.0, "min_weight": 0.0, **how}
    return fit_shares([losses] * count, EnsembleSettings(members=tuple(losses), **how))


def test_weights_are_those_that_were_worked_out_by_hand() -> None:
    # Losses of a: 0.04 and 0.04; of b: 0.16 and 0.36. Means 0.04 and 0.26, of both 0.15. Two targets against two of
    # shrinkage: a 0.15 - 0.11 / 2 = 0.095, b 0.205. The inverses are 10.526 and 4.878, so a has 0.6833.
    pasts = [
        past("a", 1, BinaryPrediction(0.8), BinaryOutcome(1.0)),
        past("b", 1, BinaryPrediction(0.6), BinaryOutcome(1.0)),
        past("a", 2, BinaryPrediction(0.2), BinaryOutcome(0.0)),
        past("b", 2, BinaryPrediction(0.6), BinaryOutcome(0.0)),
    ]
    found = learned(HAND, pasts)
    assert found["harbour"]["targets"] == 2
    assert found["harbour"]["shares"]["a"] == pytest.approx((1 / 0.095) / (1 / 0.095 + 1 / 0.205))
    assert found["harbour"]["shares"]["a"] == pytest.approx(0.6833, abs=5e-5)
    assert found[""] == found["harbour"]


def test_the_learner_is_one_that_looks_back_at_its_members() -> None:
    learner = WeightLearner(HAND)
    assert isinstance(learner, HistoryLearner)
    assert list(learner.other_forecasters) == ["a", "b"]
    assert learner.fit([], before=NOW) == {}


def test_too_few_targets_teach_nothing() -> None:
    pasts = [past(who, number, BinaryPrediction(0.5), BinaryOutcome(1.0)) for who in "ab" for number in range(9)]
    assert learned(EnsembleSettings(members=("a", "b"), min_targets=10), pasts) == {}
    assert learned(EnsembleSettings(members=("a", "b"), min_targets=9), pasts).keys() == {"", "harbour"}
    assert learned(EnsembleSettings(members=("a",), min_targets=1), pasts) == {}


def test_only_what_all_members_answered_is_compared() -> None:
    # The hard question that b alone dared to answer is not held against it.
    pasts = [
        past("a", 1, BinaryPrediction(0.8), BinaryOutcome(1.0)),
        past("b", 1, BinaryPrediction(0.8), BinaryOutcome(1.0)),
        past("b", 2, BinaryPrediction(0.9), BinaryOutcome(0.0)),
        past("c", 1, BinaryPrediction(0.1), BinaryOutcome(1.0)),
        past("a", 3, BinaryPrediction(0.8), VoidOutcome("nobody knows")),
        past("b", 3, BinaryPrediction(0.1), VoidOutcome("nobody knows")),
    ]
    assert learned(HAND, pasts)[""] == {"targets": 1, "shares": {"a": 0.5, "b": 0.5}}


def test_each_venue_with_enough_targets_has_weights_of_its_own() -> None:
    good, bad = BinaryPrediction(0.9), BinaryPrediction(0.4)
    pasts = [
        past(who, number, good if who == better else bad, BinaryOutcome(1.0), venue=venue)
        for venue, better, count in (("harbour", "a", 5), ("market", "b", 5), ("square", "b", 1))
        for number in range(count)
        for who in "ab"
    ]
    found = learned(EnsembleSettings(members=("a", "b"), min_targets=5), pasts)
    assert found.keys() == {"", "harbour", "market"}
    assert found["harbour"]["shares"]["a"] > 0.5 > found["market"]["shares"]["a"]


def test_choices_are_judged_as_well() -> None:
    shape = ChoiceShape(options=("red", "green"))
    pasts = [
        past("a", 1, ChoicePrediction({"red": 0.9, "green": 0.1}), ChoiceOutcome("red"), shape=shape),
        past("b", 1, ChoicePrediction({"red": 0.5, "green": 0.5}), ChoiceOutcome("red"), shape=shape),
    ]
    # As for yes or no: losses 0.01 and 0.25, of both 0.13, drawn by a third.
    assert learned(HAND, pasts)[""]["shares"]["a"] == pytest.approx((1 / 0.09) / (1 / 0.09 + 1 / 0.17))


def test_what_was_not_known_before_the_moment_is_a_leak() -> None:
    with pytest.raises(LeakError, match="not before"):
        learned(HAND, [past("a", 1, BinaryPrediction(0.5), BinaryOutcome(1.0), resolved_at=NOW)])


def test_the_limits_of_shrinkage_and_of_the_floor() -> None:
    far = {"a": 0.01, "b": 0.49}
    assert shares(far, equal_weight_targets=1e6)["a"] == pytest.approx(0.5, abs=1e-5)
    assert shares(far)["a"] == pytest.approx(0.98)
    assert shares(far, min_weight=1.0) == {"a": 0.5, "b": 0.5}
    assert shares({"a": 0.0, "b": 1.0}, min_weight=0.2)["b"] > 0.1
    # One that was never wrong is not believed alone.
    assert shares({"a": 0.0, "b": 0.25})["b"] == pytest.approx(0.005 / 0.255)


LOSS = st.floats(0, 1)


@settings(max_examples=50)
@given(LOSS, st.integers(2, 6), st.integers(1, 50), st.floats(0, 1000), st.floats(0, 1))
def test_equal_scores_give_equal_weights(loss: float, members: int, count: int, shrink: float, floor: float) -> None:
    found = shares(
        {f"m{number}": loss for number in range(members)}, count, equal_weight_targets=shrink, min_weight=floor
    )
    assert list(found.values()) == pytest.approx([1.0 / members] * members)


@settings(max_examples=50)
@given(st.lists(LOSS, min_size=2, max_size=6), st.integers(1, 50), st.floats(0, 1000), st.floats(0, 1))
def test_who_was_better_never_counts_less_and_nobody_less_than_the_floor(
    losses: list[float], count: int, shrink: float, floor: float
) -> None:
    named = {f"m{number}": loss for number, loss in enumerate(losses)}
    found = shares(named, count, equal_weight_targets=shrink, min_weight=floor)
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) >= floor / len(losses) - 1e-12
    ranked = sorted(named, key=lambda name: named[name])
    assert all(found[better] >= found[worse] - 1e-12 for better, worse in pairwise(ranked))


def fitted(weights: Any) -> FittedParameters:
    return FittedParameters(forecaster="ensemble", before=NOW, examples=5, payload={"weights": weights})


def test_the_weights_of_the_venue_come_before_those_of_all_and_equal_ones_come_last() -> None:
    rows = {
        "harbour": {"targets": 9, "shares": {"a": 0.7, "b": 0.3}},
        "": {"targets": 99, "shares": {"a": 0.4, "b": 0.6}},
    }
    here, elsewhere = asked(1), asked(1, "market")
    assert find_weights(fitted(rows), here, ("a", "b")).shares == {"a": 0.7, "b": 0.3}
    assert find_weights(fitted(rows), elsewhere, ("b", "a")).shares == {"b": 0.6, "a": 0.4}
    assert find_weights(fitted(rows), here, ("b", "a")).source == "scores on 9 targets at harbour"
    assert "at all venues" in find_weights(fitted(rows), elsewhere, ("b", "a")).source
    for odd in ({}, None, {"": 3}, {"": {"targets": 1, "shares": {"a": "x", "b": 0.5}}}):
        assert find_weights(fitted(odd), here, ("a", "b")).shares == {"a": 0.5, "b": 0.5}
    assert find_weights(None, here, ("a", "b")).source == "equal weights"


def test_weights_that_were_learned_of_other_members_are_not_used() -> None:
    rows = {"": {"targets": 99, "shares": {"a": 0.4, "b": 0.6}}}
    assert find_weights(fitted(rows), asked(1), ("a", "b", "c")).source == "equal weights"
    assert find_weights(fitted(rows), asked(1), ("a",)).source == "equal weights"
