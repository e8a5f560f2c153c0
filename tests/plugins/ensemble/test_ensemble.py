"""The ensemble mixes what its members said, leaves out who said nothing, and never says more than they did."""

from collections.abc import Mapping
from typing import Any

import pydantic
import pytest

from bot.core.beliefs import ConfidenceLevel, Step, StepObservation, ToolResult, belief_mismatch
from bot.core.errors import ConfigError, ServiceUnavailableError
from bot.core.language_models import ToolDefinition
from bot.core.learning import FittedParameters
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, CurveShape
from bot.core.questions import Question
from bot.core.research import SourcePolicy
from bot.core.values import Json
from bot.forecasting.aggregation import mix_predictions
from bot.store.serialization import PREDICTIONS
from bot.testing.trial_context import ScriptedTool, ScriptedTrialContext
from plugins.ensemble import foxcast_forecasters
from plugins.ensemble.forecaster import EnsembleForecaster, open_ensemble
from plugins.ensemble.settings import EnsembleSettings
from tests.plugins.blf.cases import CHOICE, CURVE, CUTOFF, DATES, probability, question

Answers = Mapping[str, Mapping[str, Any]]


def create_context(
    answers: Answers, absent: Mapping[str, str] | None = None, fitted: FittedParameters | None = None
) -> ScriptedTrialContext:
    def run(arguments: Mapping[str, Json]) -> ToolResult:
        assert arguments == {"forecasters": [*answers, *(absent or {})]}
        rows: list[Json] = [
            {"forecaster": name, "forecast": f"id of {name}", "predictions": PREDICTIONS.plain(prediction)}
            for name, prediction in answers.items()
        ]
        data: Json = {"answers": rows, "absent": dict(absent or {})}
        return ToolResult(observation=StepObservation(text="what they said", documents=("peers",)), data=data)

    peers = ScriptedTool(ToolDefinition(name="peer_forecasts", description="", parameters={}), run)
    return ScriptedTrialContext(cutoff=CUTOFF, scripted_tools=[peers], fitted=fitted, policy=SourcePolicy())


async def step_of(asked: Question, at: ScriptedTrialContext, *members: str) -> Step:
    steps = [step async for step in EnsembleForecaster(EnsembleSettings(members=members)).steps(asked, at)]
    assert len(steps) == 1
    assert belief_mismatch(steps[0].belief, asked) is None
    return steps[0]


async def test_without_a_past_members_count_alike_by_the_mean_of_their_log_odds() -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.5)}}
    step = await step_of(question(), create_context(answers), "a", "b")
    # Odds of 4 and 1: their geometric mean is 2.
    assert probability(step) == pytest.approx(2 / 3)
    assert step.final
    assert step.observation.documents == ("peers",)
    assert step.action.arguments == {"weights": {"a": 0.5, "b": 0.5}}
    assert step.belief.reason == "a mixture by equal weights: a 0.50, b 0.50"


async def test_learned_weights_are_used_among_those_who_answered() -> None:
    payload: dict[str, Json] = {"weights": {"": {"targets": 40, "shares": {"a": 0.6, "b": 0.2, "c": 0.2}}}}
    fitted = FittedParameters(forecaster="ensemble", before=CUTOFF, examples=40, payload=payload)
    answers = {"a": {"outcome": BinaryPrediction(0.5)}, "b": {"outcome": BinaryPrediction(16 / 17)}}
    at = create_context(answers, {"c": "it has no forecast of this question"}, fitted)
    step = await step_of(question(), at, "a", "b", "c")
    # Odds of 1 with weight 3/4 and of 16 with weight 1/4: 2.
    assert probability(step) == pytest.approx(2 / 3)
    assert step.remarks == ("c is ignored: it has no forecast of this question",)
    assert "scores on 40 targets at all venues" in step.belief.reason


async def test_choices_and_curves_are_mixed_as_probabilities_and_dates_one_by_one() -> None:
    red, blue = (
        ChoicePrediction({"red": 0.8, "green": 0.1, "blue": 0.1}),
        ChoicePrediction({"red": 0.2, "green": 0.1, "blue": 0.7}),
    )
    step = await step_of(question(CHOICE), create_context({"a": {"outcome": red}, "b": {"outcome": blue}}), "a", "b")
    (found,) = step.belief.predictions.values()
    assert isinstance(found, ChoicePrediction)
    assert found.probabilities == pytest.approx({"red": 0.5, "green": 0.1, "blue": 0.4})
    assert isinstance(CURVE, CurveShape)
    low = CurvePrediction(tuple(min(1.0, place / 10) for place in range(len(CURVE.grid))))
    high = CurvePrediction(tuple(max(0.0, (place - 10) / 10) for place in range(len(CURVE.grid))))
    step = await step_of(question(CURVE), create_context({"a": {"outcome": low}, "b": {"outcome": high}}), "a", "b")
    (curve,) = step.belief.predictions.values()
    assert isinstance(curve, CurvePrediction)
    assert curve.cdf[10] == pytest.approx(0.5)
    many = question(targets=DATES)
    prediction = {name: {date: BinaryPrediction(0.1 * place) for place, date in enumerate(DATES, 1)} for name in "ab"}
    step = await step_of(many, create_context(prediction), "a", "b")
    assert [
        one.probability for one in step.belief.predictions.values() if isinstance(one, BinaryPrediction)
    ] == pytest.approx([0.1, 0.2, 0.3])


async def test_a_single_answer_is_taken_as_it_is_and_with_little_confidence() -> None:
    step = await step_of(
        question(), create_context({"a": {"outcome": BinaryPrediction(0.999)}}, {"b": "it is clairvoyant"}), "a", "b"
    )
    assert step.belief.predictions == {"outcome": BinaryPrediction(0.999)}
    assert step.belief.confidence is ConfidenceLevel.LOW


@pytest.mark.parametrize(
    ("other", "confidence"), [(0.55, ConfidenceLevel.HIGH), (0.7, ConfidenceLevel.MEDIUM), (0.9, ConfidenceLevel.LOW)]
)
async def test_confidence_is_how_far_members_agree(other: float, confidence: ConfidenceLevel) -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.5)}, "b": {"outcome": BinaryPrediction(other)}}
    assert (await step_of(question(), create_context(answers), "a", "b")).belief.confidence is confidence


async def test_where_the_weights_of_all_who_answered_are_nothing_they_count_alike() -> None:
    payload: dict[str, Json] = {"weights": {"": {"targets": 40, "shares": {"a": 0.0, "b": 0.0, "c": 1.0}}}}
    fitted = FittedParameters(forecaster="ensemble", before=CUTOFF, examples=40, payload=payload)
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.5)}}
    step = await step_of(question(), create_context(answers, {"c": "gone"}, fitted), "a", "b", "c")
    assert step.action.arguments == {"weights": {"a": 0.5, "b": 0.5}}


async def test_without_any_answer_there_is_none_and_the_reason_is_told() -> None:
    with pytest.raises(ServiceUnavailableError, match="no member of the ensemble has an answer: what they said"):
        await step_of(question(), create_context({}, {"a": "it has no forecast"}), "a")
    bare = ScriptedTrialContext(cutoff=CUTOFF)
    with pytest.raises(ServiceUnavailableError, match="there is no tool peer_forecasts"):
        await step_of(question(), bare, "a")


async def test_an_ensemble_of_nobody_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"\[forecasters.ensemble.settings\] members"):
        await step_of(question(), create_context({}))


def test_a_member_is_named_once() -> None:
    with pytest.raises(pydantic.ValidationError, match="name each member once"):
        EnsembleSettings(members=("a", "a"))


async def test_the_plugin_offers_one_forecaster_that_builds_on_its_members() -> None:
    (spec,) = foxcast_forecasters()
    settings = EnsembleSettings(members=("a", "b"))
    assert spec.members is not None
    assert tuple(spec.members(settings)) == ("a", "b")
    assert spec.steps is not None
    assert spec.steps(settings) == 1
    async with open_ensemble(settings, None) as opened:  # type: ignore[arg-type]  # it asks nothing of its place
        assert opened.settings is settings


def test_a_mixture_needs_a_weight_for_each_opinion_and_one_that_counts() -> None:
    one = {"outcome": BinaryPrediction(0.5)}
    for opinions, weights in (([], []), ([one], []), ([one, one], [0.0, 0.0]), ([one, one], [1.0, -1.0])):
        with pytest.raises(ValueError, match="cannot be pooled"):
            mix_predictions(question(), opinions, weights)
    (only,) = mix_predictions(question(), [one, {"outcome": BinaryPrediction(0.9)}], [1.0, 0.0]).values()
    assert isinstance(only, BinaryPrediction)
    assert only.probability == pytest.approx(0.5)
