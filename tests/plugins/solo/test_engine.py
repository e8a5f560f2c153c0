"""Solo with real tools, ledger and gateway: forecast, repeated, made anew, and replayed with nobody asked."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.clock import SeededRandom
from bot.core.forecasts import Forecast
from bot.core.language_models import ModelCompletion, Prompt
from bot.core.predictions import BinaryPrediction
from bot.core.questions import CrowdForecast, Question
from bot.evaluation.replay import replay_forecast
from bot.forecasting.forecast_run import ForecastContext, begin_forecast
from bot.forecasting.parameter_fitting import ParameterFitter
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.testing.models import ScriptedModelProvider
from bot.testing.trial_context import offered_tool_names
from plugins.solo.forecaster import SoloForecaster
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import critique, evidence, move, search, submit, update
from tests.unit.forecast_run_fixture import SCHOOL, ForecastRunFixture, open_forecast_runs, question

SOLO = "solo"


def plays(prompt: Prompt) -> ModelCompletion:
    """Return what both main and critic say: who is asked for criticism gives it."""
    if offered_tool_names(prompt) == ["give_critique"]:
        return critique("The base rate was left out.")
    line = (
        search(),
        update(0.4, evidence_for=evidence("search_1_result_1")),
        move("feedback", doubt="?"),
        submit(0.62),
    )
    return line[sum(message.speaker == "assistant" for message in prompt.messages)]


@pytest.fixture
async def forecast_fixture(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[plays])) as forecast_fixture:
        forecast_fixture.forecasters[SOLO] = SoloForecaster(SoloSettings())
        yield forecast_fixture


async def forecast(forecast_fixture: ForecastRunFixture, asked: Question, why: str = "stale") -> Forecast:
    await forecast_fixture.record(asked)
    forecast_context = ForecastContext(
        ledger=forecast_fixture.ledger,
        parameter_fitter=ParameterFitter(
            ledger=forecast_fixture.ledger, archives=(), trainings={SOLO: SCHOOL}, clock=forecast_fixture.clock
        ),
        calibrator=forecast_fixture.calibrator,
        policy=ReforecastPolicy(),
        clock=forecast_fixture.clock,
        random=SeededRandom(1),
        resources=forecast_fixture.make_tool_factory(),
    )
    return await (
        await begin_forecast(forecast_context, forecast_fixture.configure_forecaster(SOLO, trials=1), asked, why)
    ).run()


async def actions(forecast_fixture: ForecastRunFixture, made: Forecast) -> list[str]:
    trace = await forecast_fixture.ledger.forecasts.trace(made.id)
    assert trace.forecast is not None
    told = await replay_forecast(
        trace,
        forecast_fixture.configure_forecaster(SOLO, trials=1),
        forecast_fixture.make_tool_factory(sealed=True),
        SeededRandom(1),
        None,
    )
    assert told.is_identical
    assert told.raw == made.raw
    return [step.step.action.name for trial in trace.trials for step in trial.steps]


async def test_a_forecast_stands_for_its_window_and_each_replay_comes_to_the_same(
    forecast_fixture: ForecastRunFixture,
) -> None:
    asked = question()
    first = await forecast(forecast_fixture, asked)
    requests = len(forecast_fixture.llm.requests)
    await forecast_fixture.clock.advance(timedelta(days=2).total_seconds())
    second = await forecast(forecast_fixture, asked)
    assert (first.raw, second.raw) == ({"outcome": BinaryPrediction(0.62)},) * 2
    assert len(forecast_fixture.llm.requests) == requests == 5
    assert await actions(forecast_fixture, first) == ["web_search", "update", "feedback", "submit"]
    assert await actions(forecast_fixture, second) == ["repeat"]
    # Two days and one more are beyond the window of what was thought, though the repeat is a day old.
    await forecast_fixture.clock.advance(timedelta(days=1).total_seconds())
    assert await actions(forecast_fixture, await forecast(forecast_fixture, asked)) == [
        "web_search",
        "update",
        "feedback",
        "submit",
    ]


async def test_a_person_a_moved_price_and_another_text_each_have_it_made_anew(
    forecast_fixture: ForecastRunFixture,
) -> None:
    asked = question()
    await forecast(forecast_fixture, asked)
    moved = question(crowd=CrowdForecast(prediction=BinaryPrediction(0.6), at=forecast_fixture.clock.now()))
    for changed, why in ((asked, "asked for"), (moved, "stale"), (question(criteria="As the station says."), "stale")):
        await forecast_fixture.clock.advance(3600.0)
        assert (await actions(forecast_fixture, await forecast(forecast_fixture, changed, why)))[-1] == "submit"
