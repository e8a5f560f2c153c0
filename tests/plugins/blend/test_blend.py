"""The blend pools what its members said in log odds, and leaves out those with nothing to say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
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
from bot.forecasting.aggregation import blend_predictions
from bot.plugin_system.discovery import choose_plugin
from bot.store.serialization import PREDICTIONS
from bot.testing.trial_context import ScriptedTool, ScriptedTrialContext
from plugins.blend import foxcast_forecasters
from plugins.blend.forecaster import BlendForecaster, open_blend
from plugins.blend.settings import BlendSettings
from tests.plugins.blf.cases import CHOICE, CURVE, CUTOFF, DATES, priced, probability, question

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
    steps = [step async for step in BlendForecaster(BlendSettings(members=members)).steps(asked, at)]
    assert len(steps) == 1
    assert belief_mismatch(steps[0].belief, asked) is None
    return steps[0]


async def test_without_a_past_members_count_alike_and_a_little_more_than_once() -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.6)}}
    step = await step_of(question(), create_context(answers), "a", "b")
    # Odds of 4 and 1.5: the square root of 6, to the power of 1.15.
    odds = 6**0.575
    assert probability(step) == pytest.approx(odds / (1 + odds))
    assert step.final
    assert step.observation.documents == ("peers",)
    assert step.action.arguments == {"weights": {"a": 0.575, "b": 0.575}}
    assert step.belief.reason == "a pool of log odds by equal weights with the sum 1.15: a 0.57, b 0.57"


def learned(members: Sequence[str], **coefficients: float) -> FittedParameters:
    payload: dict[str, Json] = {
        "blend": {
            "members": list(members),
            "coefficients": {name.replace("_", " | "): value for name, value in coefficients.items()},
            "examples": 40,
            "blocks": 12,
        }
    }
    return FittedParameters(forecaster="blend", before=CUTOFF, examples=40, payload=payload)


async def test_learned_weights_are_used_with_those_of_members_without_an_answer_shared_out() -> None:
    fitted = learned("abc", a_tournament=0.5, b_tournament=0.25, c_tournament=0.4)
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.9)}}
    at = create_context(answers, {"c": "it has no forecast of this question"}, fitted)
    step = await step_of(question(), at, "a", "b", "c")
    odds = 4**0.75 * 9**0.375
    assert probability(step) == pytest.approx(odds / (1 + odds))
    assert step.remarks == ("c is ignored: it has no forecast of this question",)
    assert "weights fitted to 40 outcomes in 12 blocks" in step.belief.reason


async def test_weights_learned_for_other_members_do_not_apply() -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.8)}}
    step = await step_of(question(), create_context(answers, fitted=learned("ab", a_priced=0.1)), "a")
    assert step.action.arguments == {"weights": {"a": 1.15}}


async def test_the_crowd_is_a_member_that_does_not_forecast() -> None:
    price = 0.3
    asked = priced(price)
    step = await step_of(asked, create_context({"a": {"outcome": BinaryPrediction(0.8)}}), "a", "crowd")
    odds = (4 * price / (1 - price)) ** 0.575
    assert probability(step) == pytest.approx(odds / (1 + odds))
    step = await step_of(
        replace(asked, crowd=None), create_context({"a": {"outcome": BinaryPrediction(0.8)}}), "a", "crowd"
    )
    assert step.remarks == ("crowd is ignored: the question has no price",)


async def test_an_answer_of_exactly_one_half_has_no_weight_unless_all_say_so() -> None:
    half = {"outcome": BinaryPrediction(0.5)}
    step = await step_of(question(), create_context({"a": {"outcome": BinaryPrediction(0.8)}, "b": half}), "a", "b")
    assert step.action.arguments == {"weights": {"a": 1.15}}
    step = await step_of(question(), create_context({"a": half, "b": half}), "a", "b")
    assert probability(step) == 0.5


async def test_choices_and_curves_are_pooled_by_their_masses_and_dates_one_by_one() -> None:
    red, blue = (
        ChoicePrediction({"red": 0.8, "green": 0.1, "blue": 0.1}),
        ChoicePrediction({"red": 0.2, "green": 0.1, "blue": 0.7}),
    )
    step = await step_of(question(CHOICE), create_context({"a": {"outcome": red}, "b": {"outcome": blue}}), "a", "b")
    (found,) = step.belief.predictions.values()
    assert isinstance(found, ChoicePrediction)
    raw = np.array([0.8 * 0.2, 0.1 * 0.1, 0.1 * 0.7]) ** 0.575
    assert [*found.probabilities.values()] == pytest.approx((raw / raw.sum()).tolist())
    assert isinstance(CURVE, CurveShape)
    steps = len(CURVE.grid) - 1
    even = np.linspace(0.0, 1.0, steps + 1)
    masses = np.diff(even) * np.linspace(0.5, 1.5, steps)
    rising = np.append(0.0, np.cumsum(masses / masses.sum()))
    rising[-1] = 1.0
    curves = [CurvePrediction(tuple(one.tolist())) for one in (even, rising)]
    step = await step_of(
        question(CURVE), create_context({"a": {"outcome": curves[0]}, "b": {"outcome": curves[1]}}), "a", "b"
    )
    (curve,) = step.belief.predictions.values()
    assert isinstance(curve, CurvePrediction)
    pooled = (np.diff(even) * np.diff(rising)) ** 0.575
    assert np.diff(curve.cdf) == pytest.approx(pooled / pooled.sum())
    many = question(targets=DATES)
    prediction = {name: {date: BinaryPrediction(0.1 * place) for place, date in enumerate(DATES, 1)} for name in "ab"}
    step = await step_of(many, create_context(prediction), "a", "b")
    odds = [(p / (1 - p)) ** 1.15 for p in (0.1, 0.2, 0.3)]
    assert [
        one.probability for one in step.belief.predictions.values() if isinstance(one, BinaryPrediction)
    ] == pytest.approx([one / (1 + one) for one in odds])


async def test_a_single_answer_is_made_as_much_surer_as_a_pool_and_has_little_confidence() -> None:
    step = await step_of(
        question(), create_context({"a": {"outcome": BinaryPrediction(0.9)}}, {"b": "it is clairvoyant"}), "a", "b"
    )
    assert probability(step) == pytest.approx(9**1.15 / (1 + 9**1.15))
    assert step.belief.confidence is ConfidenceLevel.LOW


@pytest.mark.parametrize(
    ("other", "confidence"), [(0.55, ConfidenceLevel.HIGH), (0.7, ConfidenceLevel.MEDIUM), (0.9, ConfidenceLevel.LOW)]
)
async def test_confidence_is_how_far_members_agree(other: float, confidence: ConfidenceLevel) -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.5)}, "b": {"outcome": BinaryPrediction(other)}}
    assert (await step_of(question(), create_context(answers), "a", "b")).belief.confidence is confidence


async def test_where_the_weights_of_all_who_answered_are_nothing_they_count_alike() -> None:
    fitted = learned("abc", a_tournament=0.0, b_tournament=0.0, c_tournament=1.0)
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.6)}}
    step = await step_of(question(), create_context(answers, {"c": "gone"}, fitted), "a", "b", "c")
    assert step.action.arguments["weights"] == pytest.approx({"a": 0.8625 * 2 / 3, "b": 0.8625 * 2 / 3})


async def test_without_any_answer_there_is_none_and_the_reason_is_told() -> None:
    with pytest.raises(ServiceUnavailableError, match="no member of the blend has an answer: what they said"):
        await step_of(question(), create_context({}, {"a": "it has no forecast"}), "a")
    bare = ScriptedTrialContext(cutoff=CUTOFF)
    with pytest.raises(ServiceUnavailableError, match="there is no tool peer_forecasts"):
        await step_of(question(), bare, "a")


async def test_a_blend_of_nobody_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"\[forecasters.blend.settings\] members"):
        await step_of(question(), create_context({}))


def test_a_member_is_named_once() -> None:
    with pytest.raises(pydantic.ValidationError, match="name each member once"):
        BlendSettings(members=("a", "a"))


async def test_the_plugin_offers_one_forecaster_that_builds_on_its_members() -> None:
    (spec,) = foxcast_forecasters()
    settings = BlendSettings(members=("a", "crowd", "b"))
    assert spec.members is not None
    assert tuple(spec.members(settings)) == ("a", "b")
    assert spec.steps is not None
    assert spec.steps(settings) == 1
    async with open_blend(settings, None) as opened:  # type: ignore[arg-type]  # it asks nothing of its place
        assert opened.settings is settings


def test_a_pool_needs_a_weight_for_each_prediction_and_one_that_counts() -> None:
    one = BinaryPrediction(0.5)
    for predictions, weights in (([], []), ([one], []), ([one, one], [0.0, 0.0]), ([one, one], [1.0, -1.0])):
        with pytest.raises(ValueError, match="cannot be pooled"):
            blend_predictions(predictions, weights)
    only = blend_predictions([one, BinaryPrediction(0.9)], [1.0, 0.0])
    assert isinstance(only, BinaryPrediction)
    assert only.probability == pytest.approx(0.5)


def test_the_old_name_of_the_plugin_is_refused_with_the_new_one() -> None:
    with pytest.raises(ConfigError, match="the plugin ensemble is now blend"):
        choose_plugin("ensemble", [])


async def test_weights_of_a_file_are_used_until_more_was_learned_and_never_before_their_day() -> None:
    answers = {"a": {"outcome": BinaryPrediction(0.8)}, "b": {"outcome": BinaryPrediction(0.6)}}
    of_file = learned("ab", a_tournament=0.9, b_tournament=0.1)
    forecaster = BlendForecaster(BlendSettings(members=("a", "b")), of_file)

    async def weights(fitted: FittedParameters | None, chosen: BlendForecaster = forecaster) -> Any:
        (step,) = [step async for step in chosen.steps(question(), create_context(answers, fitted=fitted))]
        return step.action.arguments["weights"]

    assert await weights(None) == pytest.approx({"a": 0.9, "b": 0.1})
    more = learned("ab", a_tournament=0.2, b_tournament=0.7)
    richer = replace(more, payload={"blend": {**more.payload["blend"], "examples": 41}})  # type: ignore[dict-item]
    assert await weights(richer) == pytest.approx({"a": 0.2, "b": 0.7})
    late = BlendForecaster(BlendSettings(members=("a", "b")), replace(of_file, before=CUTOFF + timedelta(seconds=1)))
    assert await weights(None, late) == {"a": 0.575, "b": 0.575}
