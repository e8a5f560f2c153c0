"""What a backtest is expected to cost where only the daemon has forecast so far."""

from pathlib import Path

import pytest

from bot.app.app import BacktestForecaster
from bot.cli.cost_confirmation import typical_cost_usd
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, open_forecast_runs, question

# Of each call 600 tokens are new and 400 cached, at 1 and 0.1 dollars per million, and 50 are written, at 4.
CALL_USD = (600 * 1.0 + 400 * 0.1 + 50 * 4.0) / 1e6


async def forecast_some(theatre: ForecastRunFixture, count: int) -> None:
    for number in range(count):
        await theatre.forecast(question(f"q{number}"), trials=1)


@pytest.mark.parametrize(("daemon", "lab", "each"), [(5, 0, 2 * CALL_USD), (4, 0, None), (5, 5, None)])
async def test_the_ledger_of_the_daemon_is_asked_where_the_laboratory_knows_nothing(
    tmp_path: Path, daemon: int, lab: int, each: float | None
) -> None:
    folder, state = tmp_path / "lab", tmp_path / "state"
    folder.mkdir()
    (state / "paper").mkdir(parents=True)
    llm = ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    async with open_forecast_runs(state / "paper", llm) as running:
        await forecast_some(running, daemon)
    async with open_forecast_runs(folder, llm) as theatre:
        await forecast_some(theatre, lab)
        bay = BacktestForecaster(
            forecaster=theatre.seat(), random=SeededRandom(1), tool_factory=theatre.workshop(), gateway=theatre.gateway
        )
        assert await typical_cost_usd(bay, Config(state=state)) == (None if each is None else pytest.approx(each))


async def test_without_a_ledger_of_the_daemon_nobody_knows(tmp_path: Path) -> None:
    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3)])) as theatre:
        bay = BacktestForecaster(
            forecaster=theatre.seat(), random=SeededRandom(1), tool_factory=theatre.workshop(), gateway=theatre.gateway
        )
        assert await typical_cost_usd(bay, Config(state=tmp_path / "nowhere")) is None
