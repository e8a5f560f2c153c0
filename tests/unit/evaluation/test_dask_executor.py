"""What goes to the workers of a cluster, and what comes back: no key, and every error as it was raised."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.app.app import open_backtest_forecasters
from bot.config.loader import load_config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    BudgetExhaustedError,
    ConfigError,
    FoxcastError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.forecasts import TrialLimits
from bot.evaluation.backtest import BacktestSubject, QuestionTask
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.tool_factory import ToolFactory
from bot.plugin_system.registry import load_registry

dask_executor = pytest.importorskip("bot.evaluation.dask_executor", reason="the extra cluster is not installed")
PLUGIN = Path(__file__).parents[2] / "acceptance" / "timed_model_plugin.py"
KEYS = {
    "FOXCAST_MODELS__TIMED__SETTINGS__API_KEY": "timed-key-93157",
    "FOXCAST_VENUES__MANIFOLD__SETTINGS__API_KEY": "venue-key-51834",
}
CONFIG = f"""
plugins = ["blf", "manifold", "timed_model_plugin"]
plugin_files = ["{PLUGIN}"]
state = "state"
[llm.roles.main]
model = "timed:one"
[venues.manifold]
forecasters = ["blf"]
"""


def task_of(subject: BacktestSubject) -> QuestionTask:
    return QuestionTask(subject=subject, as_of=datetime(2026, 1, 1, tzinfo=UTC), fitted=None, random=SeededRandom(1))


async def test_no_key_is_part_of_a_task(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    config = load_config(tmp_path / "config.toml", KEYS)
    async with open_backtest_forecasters(config, load_registry(config), ["blf"], clock=SystemClock()) as opened:
        factory = opened["blf"].tool_factory
        assert isinstance(factory, ToolFactory)
        subject = BacktestSubject(
            configured_forecaster=opened["blf"].forecaster, fit_parameters=lambda _: None, tool_factory=factory
        )
        packed = dask_executor.pack_task(task_of(subject))
        assert [key for key in KEYS.values() if key.encode() in packed] == []
        # All that reaches out or is recorded is a call to the first machine.
        services = dask_executor.local_services(factory)
    assert {name for name in services if name.startswith(("engine", "fetcher", "models"))} == {
        *("fetcher.fetch", "models.ask", "models.dialect", "models.grade", "engine finder.search"),
    }


class HoldsConnection:
    """A forecaster that holds what cannot leave a process."""

    def __init__(self) -> None:
        self.place = (number for number in range(3))

    def steps(self, question: object, context: object) -> Any:
        raise NotImplementedError


def test_a_forecaster_that_cannot_leave_its_process_is_refused_with_the_remedy() -> None:
    forecaster = ConfiguredForecaster(
        name="tied", implementation=HoldsConnection(), trials=1, pool=PoolingMethod.MEAN, limits=TrialLimits()
    )
    with pytest.raises(ConfigError, match=r"tied cannot run on workers.*run it without --workers and --cluster"):
        dask_executor.pack_task(
            task_of(BacktestSubject(configured_forecaster=forecaster, fit_parameters=lambda _: None))
        )


@pytest.mark.parametrize(
    "error",
    [
        BudgetExhaustedError("llm.budget.day_usd is spent"),
        ServiceUnavailableError("busy", retry_after_s=7.0),
        TrialLimitReachedError("over", limit="time"),
    ],
)
def test_an_error_of_the_first_machine_is_the_same_on_a_worker(error: FoxcastError) -> None:
    with pytest.raises(type(error)) as caught:
        dask_executor.unpack_answer(dask_executor.pack_error(error))
    assert (type(caught.value), str(caught.value), vars(caught.value)) == (type(error), str(error), vars(error))


async def test_workers_call_only_what_is_offered() -> None:
    executor = dask_executor.ClusterExecutor(
        client=None, topic="t", services={"documents.put": lambda text: text[::-1]}
    )
    pack = dask_executor.pack_value
    assert dask_executor.unpack_answer(await executor.perform_call(pack(("documents.put", ("abc",), {})))) == "cba"
    with pytest.raises(ConfigError, match=r"workers may not call submissions\.read"):
        dask_executor.unpack_answer(await executor.perform_call(pack(("submissions.read", (), {}))))
