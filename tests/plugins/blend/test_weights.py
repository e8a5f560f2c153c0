"""Weights follow what the members said of resolved questions, and know nothing of what came later."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.core.errors import LeakError
from bot.core.interfaces import HistoryLearner
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, Prediction
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.stats.blending import BlendExample, SourceKind, fit_blend_weights
from plugins.blend.settings import BlendSettings
from plugins.blend.weights import BlendLearner, read_weights

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MEMBERS = ("a", "b")


def asked(number: int, **more: Any) -> Question:
    ref = QuestionRef("harbour", f"q{number}")
    return Question(ref=ref, title="Will it?", shape=BinaryShape(), targets=(Target(),), **more)


def past(
    who: str,
    question: Question,
    answer: Prediction | float,
    outcome: Outcome | float,
    resolved_at: datetime = NOW - DAY,
) -> ResolvedForecast:
    return ResolvedForecast(
        forecast=f"{who} {question.ref}",
        forecaster=who,
        question=question,
        prediction=BinaryPrediction(answer) if isinstance(answer, float) else answer,
        resolution=Resolution(
            ref=question.ref,
            target="outcome",
            outcome=BinaryOutcome(outcome) if isinstance(outcome, float) else outcome,
            resolved_at=resolved_at,
        ),
        cutoff=NOW - 9 * DAY,
    )


def learn(pasts: Sequence[ResolvedForecast], *members: str) -> Any:
    return BlendLearner(BlendSettings(members=members or MEMBERS)).fit_history(pasts, before=NOW)["blend"]


def test_the_fit_is_that_of_the_members_answers_to_each_target() -> None:
    pasts = [
        past("a", asked(1), 0.8, 1.0),
        past("b", asked(1), 0.6, 1.0),
        past("a", asked(2, source="river"), 0.2, 0.0, NOW - 2 * DAY),
        past("stranger", asked(2, source="river"), 0.9, 0.0, NOW - 2 * DAY),
    ]
    found = learn(pasts)
    same = fit_blend_weights(
        [
            BlendExample(
                answers={"a": 0.8, "b": 0.6}, kind=SourceKind.TOURNAMENT, source="harbour", outcome=1.0, block=1
            ),
            BlendExample(answers={"a": 0.2}, kind=SourceKind.TOURNAMENT, source="river", outcome=0.0, block=2),
        ],
        MEMBERS,
    )
    assert found == {"members": ["a", "b"], "coefficients": dict(same.coefficients), "examples": 2, "blocks": 2}


def test_outcomes_of_one_batch_day_and_source_are_one_block() -> None:
    def blocks(*questions: Question, days: Sequence[int] = (1, 1)) -> int:
        pasts = [past("a", one, 0.8, 1.0, NOW - day * DAY) for one, day in zip(questions, days, strict=True)]
        found: int = learn(pasts)["blocks"]
        return found

    assert blocks(asked(1), asked(2)) == 1
    assert blocks(asked(1), asked(2), days=(1, 2)) == 2
    assert blocks(asked(1, batch="x"), asked(2, batch="y")) == 2
    assert blocks(asked(1, source="x"), asked(2, source="y")) == 2


def test_a_better_member_gains_weight_and_only_that_of_its_kind() -> None:
    pasts = [
        one
        for number in range(200)
        for one in (
            past("a", asked(number, batch=str(number)), 0.9, 1.0),
            past("b", asked(number, batch=str(number)), 0.3, 1.0),
        )
    ]
    weights = read_weights(fitted(learn(pasts)), MEMBERS)
    learned = weights.weights(SourceKind.TOURNAMENT, "harbour", MEMBERS)
    assert learned["a"] > 0.6 > learned["b"] + 0.1
    assert weights.weights(SourceKind.PRICED, "elsewhere", MEMBERS) == {"a": 0.575, "b": 0.575}


def test_the_price_is_a_member_where_it_was_known_at_the_cutoff() -> None:
    price = CrowdForecast(prediction=BinaryPrediction(0.3), at=NOW - 10 * DAY)
    late = replace(price, at=NOW - 8 * DAY)
    answered = {
        name: learn([past("a", asked(1, crowd=crowd), 0.8, 1.0)], "a", "crowd")["coefficients"].keys()
        for name, crowd in (("known", price), ("late", late))
    }
    assert "crowd | priced" in answered["known"]
    assert "crowd | priced" not in answered["late"]


def test_stuck_runs_choices_and_annulled_questions_teach_nothing() -> None:
    stuck = learn([past("a", asked(1), 0.5, 1.0), past("b", asked(1), 0.8, 1.0)])
    assert not any(name.startswith("a ") for name in stuck["coefficients"])
    choice = past("a", asked(2), ChoicePrediction({"red": 0.9, "green": 0.1}), ChoiceOutcome("red"))
    annulled = past("a", asked(3), 0.8, VoidOutcome("nobody knows"))
    assert learn([choice, annulled])["examples"] == 0


def test_what_was_not_known_before_the_moment_is_a_leak() -> None:
    with pytest.raises(LeakError, match="not before"):
        learn([past("a", asked(1), 0.8, 1.0, NOW)])


def test_the_learner_is_one_that_looks_back_at_its_members() -> None:
    learner = BlendLearner(BlendSettings(members=("a", "crowd", "b")))
    assert isinstance(learner, HistoryLearner)
    assert list(learner.other_forecasters) == ["a", "b"]
    assert learner.fit([], before=NOW) == {}
    assert BlendLearner(BlendSettings()).fit_history([], before=NOW) == {}


def fitted(blend: Any) -> FittedParameters:
    return FittedParameters(forecaster="blend", before=NOW, examples=5, payload={"blend": blend})


@pytest.mark.parametrize(
    "odd", [None, 3, {}, {"members": ["a"]}, {"members": ["b", "a"], "coefficients": {"a | x": 9}}]
)
def test_anything_but_weights_of_these_members_is_the_prior(odd: Any) -> None:
    weights = read_weights(fitted(odd), MEMBERS)
    assert (weights.coefficients, weights.examples) == ({}, 0)
    assert read_weights(None, MEMBERS) == weights
