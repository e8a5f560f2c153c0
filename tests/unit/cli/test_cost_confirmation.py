"""Confirmation of costs: the threshold, answers, missing prices, and the typical cost of a backtest."""

import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.app.app import BacktestForecaster
from bot.cli.cost_confirmation import confirm_combined_cost, confirm_cost, typical_cost_usd
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.forecasts import TrialLimits
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.testing.forecaster import ScriptedForecaster
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, open_forecast_runs, question


@dataclass(frozen=True)
class Prices:
    one_usd: float | None

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        return self.one_usd


@dataclass(frozen=True)
class Payer:
    gateway: Prices | None
    forecaster: ConfiguredForecaster


def payer(one_usd: float | None, *, asks: bool = True) -> Payer:
    forecaster = ConfiguredForecaster(
        name="paid",
        implementation=ScriptedForecaster(),
        trials=5,
        pool=PoolingMethod.MEAN,
        limits=TrialLimits(),
        uses_models=asks,
    )
    return Payer(Prices(one_usd), forecaster)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))


async def test_up_to_the_threshold_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    await confirm_cost(payer(0.5), 10, yes=False, above_usd=5.0)
    with pytest.raises(
        ConfigError, match=r"^10 forecasts by paid are expected to cost about 5.01 US dollars\. Confirm with"
    ):
        await confirm_cost(payer(0.501), 10, yes=False, above_usd=5.0)


async def test_what_forecasts_usually_cost_is_believed_before_what_they_may_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone(monkeypatch)
    await confirm_cost(payer(9.0), 1000, yes=False, above_usd=5.0, typical_usd=0.005)
    with pytest.raises(ConfigError, match=r"about 5.10 US dollars"):
        await confirm_cost(payer(0.0), 1000, yes=False, above_usd=5.0, typical_usd=0.0051)


async def test_where_no_terminal_is_nobody_can_say_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    with pytest.raises(ConfigError, match=r"1 forecast by paid is expected .* with --yes, or raise llm.budget"):
        await confirm_cost(payer(9.0), 1, yes=False, above_usd=5.0)


async def test_a_yes_on_the_command_line_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    await confirm_cost(payer(1000.0), 1000, yes=True, above_usd=0.0)
    await confirm_cost(payer(None), 1, yes=True, above_usd=0.0)


async def test_a_person_at_a_terminal_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch, "y\n")
    await confirm_cost(payer(9.0), 2, yes=False, above_usd=5.0)
    said = capsys.readouterr()
    assert "about 18.00 US dollars. Continue?" in said.out + said.err


async def test_a_no_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch, "n\n")
    with pytest.raises(ConfigError, match="--yes"):
        await confirm_cost(payer(9.0), 1, yes=False, above_usd=5.0)


async def test_a_price_that_nobody_knows_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    with pytest.raises(ConfigError, match="expected to cost an unknown amount"):
        await confirm_cost(payer(None), 1, yes=False, above_usd=1000.0)


async def test_what_asks_no_model_is_never_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    await confirm_cost(payer(None, asks=False), 1000, yes=False, above_usd=0.0)
    await confirm_cost(Payer(None, payer(1.0).forecaster), 1000, yes=False, above_usd=0.0)


async def test_for_several_forecasters_the_sum_counts_and_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    paid, free = payer(3.0), payer(3.0, asks=False)
    await confirm_combined_cost(paid.gateway, [paid.forecaster, free.forecaster], yes=False, above_usd=5.0)
    with pytest.raises(
        ConfigError, match=r"^1 forecast by paid is expected to cost about 3.00 US dollars\. Confirm with"
    ):
        await confirm_combined_cost(paid.gateway, [paid.forecaster, free.forecaster], yes=False, above_usd=2.0)
    with pytest.raises(ConfigError, match=r"^forecasts by paid, paid are expected to cost about 6.00 US dollars\."):
        await confirm_combined_cost(paid.gateway, [paid.forecaster, paid.forecaster], yes=False, above_usd=5.0)
    with pytest.raises(ConfigError, match="an unknown amount"):
        await confirm_combined_cost(Prices(None), [paid.forecaster], yes=False, above_usd=5.0)
    await confirm_combined_cost(paid.gateway, [paid.forecaster, paid.forecaster], yes=True, above_usd=0.0)
    await confirm_combined_cost(None, [paid.forecaster], yes=False, above_usd=0.0)


# Of each call 600 tokens are new and 400 cached, at 1 and 0.1 dollars per million, and 50 are written, at 4.
CALL_USD = (600 * 1.0 + 400 * 0.1 + 50 * 4.0) / 1e6


async def forecast_some(forecast_runs: ForecastRunFixture, count: int) -> None:
    for number in range(count):
        await forecast_runs.forecast(question(f"q{number}"), trials=1)


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
    async with open_forecast_runs(folder, llm) as forecast_runs:
        await forecast_some(forecast_runs, lab)
        backtest = BacktestForecaster(
            forecaster=forecast_runs.configure_forecaster(),
            random=SeededRandom(1),
            tool_factory=forecast_runs.make_tool_factory(),
            gateway=forecast_runs.gateway,
        )
        assert await typical_cost_usd(backtest, Config(state=state)) == (None if each is None else pytest.approx(each))


async def test_without_a_ledger_of_the_daemon_nobody_knows(tmp_path: Path) -> None:
    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3)])) as forecast_runs:
        backtest = BacktestForecaster(
            forecaster=forecast_runs.configure_forecaster(),
            random=SeededRandom(1),
            tool_factory=forecast_runs.make_tool_factory(),
            gateway=forecast_runs.gateway,
        )
        assert await typical_cost_usd(backtest, Config(state=tmp_path / "nowhere")) is None
