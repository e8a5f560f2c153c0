"""Questions that are no yes or no, outcomes that are none, and parameter files that nobody fitted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    CurvePrediction,
    CurveShape,
    MalformedDataError,
    Prediction,
    Question,
    QuestionRef,
    Resolution,
    Target,
    TrainingExample,
    VoidOutcome,
)
from bot.core.clock import SeededRandom
from bot.core.learning import FittedParameters
from bot.core.predictions import QuestionShape, prediction_mismatch
from bot.forecasting.parameter_fitting import ForecasterTraining, best_parameters
from bot.forecasting.trial_tools import GuardedTrialContext
from plugins.baseline.forecaster import (
    MAX_CACHED_PARAMETERS,
    BaselineForecaster,
    BaselineLearner,
    _read_fitted,
    load_shipped_parameters,
)
from plugins.baseline.parameters import decode_parameters

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COLOURS = ChoiceShape(options=("red", "blue", "green", "grey"))
METRES = CurveShape(grid=(0.0, 10.0, 50.0, 100.0))
ASKED: dict[str, Any] = {
    "ref": QuestionRef("lantern", "1"),
    "title": "?",
    "targets": (Target(key="now"), Target(key="later")),
}


async def beliefs(question: Question) -> list[dict[str, Prediction]]:
    context = GuardedTrialContext(forecast="f", cutoff=NOW, trial=1, fitted=None, random=SeededRandom(1))
    return [dict(step.belief.predictions) async for step in BaselineForecaster().steps(question, context)]


@pytest.mark.parametrize(
    ("shape", "even"),
    [
        (COLOURS, ChoicePrediction(dict.fromkeys(COLOURS.options, 0.25))),
        # Three steps of its scale, which is none of even metres.
        (METRES, CurvePrediction((0.0, 1 / 3, 2 / 3, 1.0))),
    ],
    ids=["choice", "curve"],
)
async def test_where_nothing_is_known_every_possibility_counts_alike(shape: QuestionShape, even: Prediction) -> None:
    [belief] = await beliefs(Question(shape=shape, **ASKED))
    assert belief == {"now": even, "later": even}
    assert prediction_mismatch(even, shape) is None


async def test_the_crowd_is_followed_in_the_shape_it_spoke() -> None:
    crowd = CrowdForecast(prediction=ChoicePrediction({"red": 0.7, "blue": 0.1, "green": 0.1, "grey": 0.1}), at=NOW)
    [belief] = await beliefs(Question(shape=COLOURS, crowd=crowd, **ASKED))
    assert belief == {"now": crowd.prediction, "later": crowd.prediction}


def test_what_was_annulled_teaches_nothing() -> None:
    question = Question(shape=BinaryShape(), **ASKED)
    annulled = Resolution(ref=question.ref, target="now", outcome=VoidOutcome("withdrawn"), resolved_at=NOW)
    learned = BaselineLearner().fit([TrainingExample(question=question, resolution=annulled)], before=NOW)
    assert learned == BaselineLearner().fit([], before=NOW)


def test_an_archive_without_prices_keeps_the_slope_that_came_with_the_package() -> None:
    [shipped] = load_shipped_parameters()
    bare = Question(shape=BinaryShape(), **{**ASKED, "title": "", "source": "infer"})
    resolved = Resolution(ref=bare.ref, target="now", outcome=BinaryOutcome(1.0), resolved_at=NOW)

    class Archive:
        def round_keys(self) -> list[str]:
            return []

        def examples(self, before: datetime) -> Iterator[TrainingExample]:
            yield from [TrainingExample(question=bare, resolution=resolved)] * (shipped.examples + 1)

    training = ForecasterTraining(learner=BaselineLearner(), shipped_parameters=[shipped])
    best = best_parameters("baseline", training, [Archive()], before=shipped.before)  # type: ignore[list-item]  # no rounds
    assert best is not None
    assert best.examples == shipped.examples + 1
    slopes = [decode_parameters(one.payload).coefficients["market"] for one in (best, shipped)]
    assert slopes[0] == slopes[1]
    assert decode_parameters(best.payload).evidence["any_market"] == shipped.examples + 1


def test_the_parameters_of_the_package_can_be_read() -> None:
    assert load_shipped_parameters()
    assert all(fitted.examples > 0 for fitted in load_shipped_parameters())


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"forecaster": "baseline", "before": "noon"}'])
def test_a_file_that_nobody_fitted_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(MalformedDataError, match=r"old\.json: .*foxcast fit baseline"):
        _read_fitted("old.json", text)


async def test_of_the_parameters_of_many_rounds_only_the_last_are_kept_in_memory() -> None:
    [first, *_] = load_shipped_parameters()
    rounds = [
        FittedParameters(forecaster="baseline", before=NOW - timedelta(days=day), examples=1, payload=first.payload)
        for day in range(MAX_CACHED_PARAMETERS + 10)
    ]
    baseline, question = BaselineForecaster(), Question(shape=BinaryShape(), **ASKED)
    prediction = []
    for fitted in [*rounds, rounds[0]]:
        context = GuardedTrialContext(forecast="f", cutoff=NOW, trial=1, fitted=fitted, random=SeededRandom(1))
        prediction.append([step.belief.predictions async for step in baseline.steps(question, context)][-1])
    assert prediction[-1] == prediction[0]
    assert len(baseline._cached_parameters) == MAX_CACHED_PARAMETERS  # noqa: SLF001 - that memory is bounded shows nowhere else
