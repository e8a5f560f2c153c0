"""What two forecasts differ in, told from what is on record of both."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.schema import ResearchSection
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.distributions import curve_quantile
from bot.core.forecasts import Forecast, TrialLimits
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape, CurvePrediction, CurveShape
from bot.core.questions import CrowdForecast, Question
from bot.evaluation.explanation import read_recorded_calls
from bot.evaluation.forecast_diff import ComparedForecast, ForecastDifference, compare_forecasts, trial_spread
from bot.forecasting.aggregation import PoolingMethod
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import (
    ForecastRunFixture,
    FunctionForecaster,
    model_with_beliefs,
    open_forecast_runs,
    question,
)

GRID = CurveShape(grid=(0.0, 10.0, 20.0), unit="points", open_upper=True)


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.5)])
    ) as forecast_runs:
        yield forecast_runs


async def side(forecast_runs: ForecastRunFixture, forecast: Forecast) -> ComparedForecast:
    trace = await forecast_runs.ledger.forecasts.trace(forecast.id)
    return ComparedForecast(
        trace=trace, recorded_calls=await read_recorded_calls(forecast_runs.ledger, trace), forecast=forecast
    )


async def compared(forecast_runs: ForecastRunFixture, first: Forecast, second: Forecast) -> ForecastDifference:
    return compare_forecasts(await side(forecast_runs, first), await side(forecast_runs, second))


def changes(found: ForecastDifference) -> dict[str, tuple[Any, Any]]:
    return {change.name: (change.before, change.after) for change in found.changes}


def saying(predictions: Any) -> FunctionForecaster:
    """Return a forecaster of one step; ``predictions`` is called with the number of the trial."""

    async def script(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        yield Step(
            action=StepAction(name="say"),
            observation=StepObservation(),
            belief=Belief(predictions={"outcome": predictions(context.trial)}),
        )

    return FunctionForecaster(script)


async def test_a_forecast_does_not_differ_from_itself(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    found = await compared(forecast_runs, forecast, forecast)
    assert found.changes == ()
    assert all(not (listing.added or listing.removed) for listing in found.texts)
    assert [(move.before, move.after, move.log_odds) for move in found.moves] == [(0.5, 0.5, 0.0)]


async def test_a_later_forecast_tells_what_moved_what_is_new_and_what_is_gone(
    forecast_runs: ForecastRunFixture,
) -> None:
    first = await forecast_runs.forecast(question())
    forecast_runs.clock.advance_without_waking(86_400)
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.4, 0.7)]
    now = forecast_runs.clock.now()
    changed = question(criteria="As the almanac says.", crowd=CrowdForecast(prediction=BinaryPrediction(0.6), at=now))
    second = await forecast_runs.forecast(changed, trials=3)
    found = await compared(forecast_runs, first, second)
    (move,) = found.moves
    assert [move.before, move.after] == pytest.approx([0.5, 0.7])
    assert move.log_odds == pytest.approx(math.log(7 / 3))
    (crowd,) = found.crowd_moves
    assert [crowd.before, crowd.after, crowd.log_odds] == pytest.approx([0.4, 0.6, 2 * math.log(1.5)])
    told = changes(found)
    assert told["question: criteria"] == (None, "As the almanac says.")
    assert told["trials"] == ("2 finished", "3 finished")
    assert told["steps"] == (4, 9)
    assert (told["calls to models"], told["tokens in"]) == ((4, 9), (4000, 9000))
    assert told["version of the question"] == (first.version, second.version)
    assert "main" not in told
    assert "forecaster" not in told
    lists = {listing.name: listing for listing in found.texts}
    assert (lists["searches"].added, lists["searches"].removed, lists["searches"].kept) == (("weather 2",), (), 1)
    assert lists["evidence for"].added == ("clouds, seen 3 times [search_1_result_2]",)
    assert lists["open questions"].removed == ("which wind, asked 2",)
    assert lists["anchor"].kept == 1


async def test_the_same_words_from_another_result_are_the_same_evidence(forecast_runs: ForecastRunFixture) -> None:
    first = await side(forecast_runs, await forecast_runs.forecast(question()))
    trials = tuple(
        replace(
            record,
            trial=record.trial and replace(record.trial, belief=record.trial.belief and _moved(record.trial.belief)),
        )
        for record in first.trace.trials
    )
    second = replace(first, trace=replace(first.trace, trials=trials))
    evidence = next(one for one in compare_forecasts(first, second).texts if one.name == "evidence for")
    assert (evidence.added, evidence.removed, evidence.kept) == ((), (), 2)


def _moved(belief: Belief) -> Belief:
    return replace(belief, evidence_for=tuple(replace(one, source="search_9_result_9") for one in belief.evidence_for))


async def test_other_models_and_other_sampling_are_told(forecast_runs: ForecastRunFixture) -> None:
    first = await side(forecast_runs, await forecast_runs.forecast(question()))
    (call, *_) = first.recorded_calls.calls
    assert call.request is not None
    warm = replace(call.request, sampling=replace(call.request.sampling, temperature=0.7))
    other = replace(call, request=warm, answer=replace(call.answer, model="prime:small"))
    second = replace(first, recorded_calls=replace(first.recorded_calls, calls=(other,)))
    told = changes(compare_forecasts(first, second))
    assert told["main"] == ("prime:big", "prime:small")
    assert told["main: sampling"] == ("max_tokens=1000", "max_tokens=1000, temperature=0.7")


async def test_another_forecaster_brings_its_own_prompts(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.forecasters["plain"] = saying(lambda _: BinaryPrediction(0.9))
    first, second = await forecast_runs.forecast(question(), "plain"), await forecast_runs.forecast(question())
    told = changes(await compared(forecast_runs, first, second))
    assert told["forecaster"] == ("plain", "blf")
    before, after = told["prompts"]
    assert (before, [len(digest) for digest in after]) == ([], [64])
    text = (await forecast_runs.ledger.documents.get(after[0], scope=second.id)).content.decode()
    # The texts as they are before a question is filled in.
    assert "$title" in text
    assert "Will there be rain?" not in text


async def test_the_same_prompts_are_no_change_on_another_day_and_after_another_search(
    forecast_runs: ForecastRunFixture,
) -> None:
    forecast_runs.section = ResearchSection(filter=True)
    first = await forecast_runs.forecast(question())
    forecast_runs.clock.advance_without_waking(86_400)
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.4, 0.7)]
    second = await forecast_runs.forecast(question(criteria="As the almanac says."))
    told = changes(await compared(forecast_runs, first, second))
    assert first.cutoff != second.cutoff
    assert not [what for what in told if what.startswith("prompts")]


async def test_settings_that_changed_are_named(forecast_runs: ForecastRunFixture) -> None:
    first = await forecast_runs.forecast(question(), settings={"crowd": True, "deep": {"a": 1, "b": 2}})
    changed: dict[str, Any] = {
        "settings": {"crowd": False, "deep": {"a": 1, "b": 3}},
        "pool": PoolingMethod.MEDIAN,
        "limits": TrialLimits(steps=7),
    }
    second = await forecast_runs.forecast(question(), **changed)
    told = changes(await compared(forecast_runs, first, second))
    assert {what: told[what] for what in told if what.startswith(("setting", "aggregate", "limit", "setup"))} == {
        "setting: crowd": (True, False),
        "setting: deep.b": (2, 3),
        "aggregate": ("logit-mean", "median"),
        "limit: steps": (10, 7),
    }


async def test_a_forecast_from_before_setups_were_kept_differs_in_that_alone(forecast_runs: ForecastRunFixture) -> None:
    known = await side(forecast_runs, await forecast_runs.forecast(question()))
    unknown = replace(known, trace=replace(known.trace, setup=None))
    assert changes(compare_forecasts(unknown, known)) == {"setup": ("not recorded", "recorded")}


async def test_each_option_moves_by_itself_and_certainty_has_no_log_odds(forecast_runs: ForecastRunFixture) -> None:
    shape = ChoiceShape(options=("red", "green"))
    asked = question(shape=shape, crowd=None)
    forecast_runs.forecasters["plain"] = saying(lambda _: ChoicePrediction({"red": 0.0, "green": 1.0}))
    first = await forecast_runs.forecast(asked, "plain", trials=1)
    forecast_runs.forecasters["plain"] = saying(lambda _: ChoicePrediction({"red": 0.25, "green": 0.75}))
    found = await compared(forecast_runs, first, await forecast_runs.forecast(asked, "plain", trials=1))
    assert [(one.option, one.before, one.after, one.log_odds) for one in found.moves] == [
        ("red", 0.0, 0.25, None),
        ("green", 1.0, 0.75, None),
    ]
    assert found.crowd_moves == ()


async def test_curves_are_told_by_their_quantiles(forecast_runs: ForecastRunFixture) -> None:
    asked = question(shape=GRID, crowd=None)
    forecast_runs.forecasters["plain"] = saying(lambda _: CurvePrediction((0.0, 0.5, 1.0)))
    first = await forecast_runs.forecast(asked, "plain")
    forecast_runs.forecasters["plain"] = saying(lambda _: CurvePrediction((0.0, 0.25, 0.75)))
    found = await compared(forecast_runs, first, await forecast_runs.forecast(asked, "plain"))
    told = changes(found)
    # Straight lines between the points: 10% of [0, 0.5] over ten points is 2, of [0, 0.25] it is 4.
    assert told["10% quantile: outcome"] == (pytest.approx(2.0), pytest.approx(4.0))
    assert told["50% quantile: outcome"] == (pytest.approx(10.0), pytest.approx(15.0))
    # Above the grid lies a quarter.
    assert told["90% quantile: outcome"] == (pytest.approx(18.0), None)
    assert found.moves == ()


async def test_the_spread_of_trials_is_the_greatest_distance_of_two(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.forecasters["plain"] = saying(lambda trial: BinaryPrediction((0.2, 0.9, 0.5)[trial - 1]))
    forecast = await forecast_runs.forecast(question(), "plain", trials=3)
    assert trial_spread(await side(forecast_runs, forecast)) == {"outcome": pytest.approx(0.7)}


@given(st.floats(0.0, 1.0), st.integers(1, 50))
def test_a_quantile_of_a_straight_curve_is_where_it_should_be(level: float, points: int) -> None:
    shape = CurveShape(grid=tuple(float(10 * point) for point in range(points + 1)))
    curve = CurvePrediction(tuple(point / points for point in range(points + 1)))
    assert curve_quantile(curve, shape, level) == pytest.approx(10.0 * points * level, abs=1e-6)


def test_a_quantile_beyond_an_open_end_is_nowhere() -> None:
    curve = CurvePrediction((0.2, 0.5, 0.8))
    assert (curve_quantile(curve, GRID, 0.1), curve_quantile(curve, GRID, 0.9)) == (None, None)
    assert curve_quantile(curve, GRID, 0.2) == 0.0
