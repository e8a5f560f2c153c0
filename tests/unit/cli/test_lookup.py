"""Whose forecast a question's name means, where several forecasters made one."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from bot.config.schema import Config
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import NotFoundError
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.evaluation.lookup import find_forecast
from bot.store.ledger import ReadOnlyState
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import (
    ForecastRunFixture,
    FunctionForecaster,
    model_with_beliefs,
    open_forecast_runs,
    question,
)


async def free(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
    """Forecast without a model."""
    yield Step(
        action=StepAction(name="think"), observation=StepObservation(), belief=Belief(predictions={"outcome": HALF})
    )


HALF = BinaryPrediction(0.5)


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        forecast_runs.forecasters |= {"free": FunctionForecaster(free), "idle": FunctionForecaster(free)}
        yield forecast_runs


def records(forecast_runs: ForecastRunFixture, *forecasters: str) -> ReadOnlyState:
    venues = {"lantern": {"forecasters": list(forecasters)}} if forecasters else {}
    config = Config.model_validate({"venues": venues})
    return ReadOnlyState(config=config, folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)


async def test_a_question_means_its_venues_first_forecaster_whoever_came_last(
    forecast_runs: ForecastRunFixture,
) -> None:
    for name in ("free", "blf", "idle"):
        await forecast_runs.forecast(question(), name)
    assert (await find_forecast(records(forecast_runs, "free", "blf"), "rain")).forecaster == "free"
    # One that has not forecast cannot be meant.
    assert (await find_forecast(records(forecast_runs, "absent"), "rain")).forecaster == "blf"


async def test_else_it_means_the_last_one_that_heard_a_model(forecast_runs: ForecastRunFixture) -> None:
    first = await forecast_runs.forecast(question(), "blf")
    await forecast_runs.forecast(question(), "free")
    assert (await find_forecast(records(forecast_runs), "rain")).id == first.id


async def test_where_nobody_heard_a_model_it_is_the_last_one(forecast_runs: ForecastRunFixture) -> None:
    for name in ("free", "idle"):
        await forecast_runs.forecast(question(), name)
    assert (await find_forecast(records(forecast_runs), "rain")).forecaster == "idle"


async def test_a_forecaster_that_is_named_decides(forecast_runs: ForecastRunFixture) -> None:
    for name in ("blf", "free"):
        await forecast_runs.forecast(question(), name)
    assert (await find_forecast(records(forecast_runs, "blf"), "rain", "free")).forecaster == "free"
    with pytest.raises(NotFoundError, match="fre has not forecast lantern:rain; did you mean free"):
        await find_forecast(records(forecast_runs, "blf"), "rain", "fre")


async def test_the_beginning_of_an_id_has_a_least_length_which_is_told(forecast_runs: ForecastRunFixture) -> None:
    made = await forecast_runs.forecast(question(), "blf")
    assert (await find_forecast(records(forecast_runs), made.id[:6])).id == made.id
    with pytest.raises(NotFoundError, match=r"of a forecast's id give at least 6 characters"):
        await find_forecast(records(forecast_runs), made.id[:4])
    with pytest.raises(NotFoundError) as unknown:
        await find_forecast(records(forecast_runs), "thaw")
    assert "characters" not in str(unknown.value)
