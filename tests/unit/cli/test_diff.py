"""Which two forecasts are compared, and how the difference looks."""

import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.cli.diff import choose_two_forecasts, difference_to_json, print_difference
from bot.cli.output.console import SafeConsole
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import ConfigError, NotFoundError
from bot.core.forecasts import Forecast
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction, CurvePrediction, CurveShape
from bot.core.questions import CrowdForecast, Question, QuestionRef
from bot.evaluation.explanation import read_recorded_calls
from bot.evaluation.forecast_diff import ComparedForecast, ForecastDifference, compare_forecasts
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import (
    ForecastRunFixture,
    FunctionForecaster,
    model_with_beliefs,
    open_forecast_runs,
    question,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.5)])
    ) as forecast_runs:
        yield forecast_runs


def history(*forecasters: str) -> list[Forecast]:
    """Return forecasts of one question, an hour apart, with the number of each as its id."""
    return [
        Forecast(
            id=str(number),
            ref=QuestionRef("lantern", "rain"),
            version="v",
            forecaster=name,
            revision=1,
            cutoff=NOON,
            made_at=NOON + timedelta(hours=number),
            why="new",
            raw={"outcome": BinaryPrediction(0.5)},
            predictions={"outcome": BinaryPrediction(0.5)},
        )
        for number, name in enumerate(forecasters, 1)
    ]


@pytest.mark.parametrize(
    ("made", "named", "pair"),
    [
        ("aaa", [], "23"),
        ("aba", [], "13"),
        ("aabb", [], "12"),
        ("abab", ["b"], "24"),
        ("abab", ["b", "a"], "43"),
    ],
)
def test_the_last_two_of_one_forecaster_are_compared_or_the_latest_of_two(
    made: str, named: list[str], pair: str
) -> None:
    assert "".join(one.id for one in choose_two_forecasts(history(*made), named, preferred="a")) == pair


@pytest.mark.parametrize(
    ("made", "named", "error", "says"),
    [
        ("a", [], NotFoundError, "only one forecast by a"),
        ("abb", [], NotFoundError, "--forecaster b --forecaster a"),
        ("ab", ["c"], NotFoundError, "c has not forecast"),
        ("abc", ["a", "b", "c"], ConfigError, "at most twice"),
    ],
)
def test_where_there_are_no_two_the_error_says_so(
    made: str, named: list[str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        choose_two_forecasts(history(*made), named, preferred="a")


async def compared(forecast_runs: ForecastRunFixture) -> ForecastDifference:
    sides = []
    for percents in ((0.3, 0.5), (0.3, 0.4, 0.8)):
        forecast_runs.llm.turns = [model_with_beliefs(*percents)]
        forecast = await forecast_runs.forecast(question())
        trace = await forecast_runs.ledger.forecasts.trace(forecast.id)
        sides.append(
            ComparedForecast(
                trace=trace, recorded_calls=await read_recorded_calls(forecast_runs.ledger, trace), forecast=forecast
            )
        )
    return compare_forecasts(*sides)


async def test_a_difference_is_told_in_tables_and_lists(forecast_runs: ForecastRunFixture) -> None:
    console = SafeConsole(file=io.StringIO(), width=300, markup=False, highlight=False)
    print_difference(console, await compared(forecast_runs))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    # ln 4 between even odds and four to one.
    assert "outcome 50.0% 80.0% +30.0 +1.39" in lines
    assert "crowd 40.0% 40.0% +0.0 +0.00" in lines
    assert "steps 4 6" in lines
    assert "Searches (1 in both)" in lines
    assert "+ weather 2" in lines
    assert "- which wind, asked 2" in lines


async def test_the_json_says_the_same(forecast_runs: ForecastRunFixture) -> None:
    plain = difference_to_json(await compared(forecast_runs))
    (move,) = plain["moves"]
    assert [move["before"], move["after"], move["log_odds"]] == pytest.approx([0.5, 0.8, 1.3863], abs=1e-4)
    assert plain["lists"]["searches"] == {"new": ["weather 2"], "gone": [], "in_both": 1}
    assert plain["after"]["trials_spread"] == {"outcome": 0.0}
    assert {"what": "steps", "before": 4, "after": 6} in plain["changes"]


async def test_numbers_move_by_their_quantiles_in_their_unit_and_moments_are_told_to_the_second(
    forecast_runs: ForecastRunFixture,
) -> None:
    shape = CurveShape(grid=(0.0, 10.0, 20.0), unit="mm", open_upper=True)
    crowd = CrowdForecast(prediction=CurvePrediction((0.0, 1.0, 1.0)), at=forecast_runs.clock.now())
    sides = []
    for top in (1.0, 0.5):
        forecast_runs.forecasters["plain"] = FunctionForecaster(believing_curve(CurvePrediction((0.0, 0.5, top))))
        forecast = await forecast_runs.forecast(question(shape=shape, crowd=crowd), "plain", trials=1)
        trace = await forecast_runs.ledger.forecasts.trace(forecast.id)
        sides.append(
            ComparedForecast(
                trace=trace, recorded_calls=await read_recorded_calls(forecast_runs.ledger, trace), forecast=forecast
            )
        )
        forecast_runs.clock.set_wall_clock(3_661.5)
    console = SafeConsole(file=io.StringIO(), width=300, markup=False, highlight=False)
    print_difference(console, compare_forecasts(*sides))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert "outcome: 10% 2 mm 2 mm" in lines
    assert "outcome: 90% 18 mm above 20 mm" in lines
    assert "crowd: 50% 5 mm 5 mm" in lines
    assert not [line for line in lines if "probability" in line or "90% quantile" in line]
    [cutoff] = [line for line in lines if line.startswith("cutoff ")]
    assert re.fullmatch(r"cutoff \S+ \d\d:\d\d:\d\d UTC \S+ \d\d:\d\d:\d\d UTC", cutoff)


def believing_curve(curve: CurvePrediction) -> Callable[[Question, TrialContext], AsyncGenerator[Step, None]]:
    async def script(asked: Question, _desk: TrialContext) -> AsyncGenerator[Step, None]:
        belief = Belief(predictions={target.key: curve for target in asked.targets})
        yield Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)

    return script
