"""What goes to the workers of a cluster, and what comes back: no key, and every error as it was raised."""

from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

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
from bot.core.language_models import CostAttribution
from bot.evaluation.backtest import BacktestSubject, QuestionTask
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.trial_tools import GuardedTrialContext, ToolCallError, ToolCallTrace
from bot.plugin_system.registry import load_registry
from tests.recorded_explanations import ASKED

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


AS_OF = datetime(2026, 1, 1, tzinfo=UTC)


def task_of(subject: BacktestSubject) -> QuestionTask:
    return QuestionTask(subject=subject, as_of=AS_OF, fitted=None, random=SeededRandom(1))


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


async def test_trials_need_no_more_of_the_ledger_than_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(CONFIG)
    config = load_config(tmp_path / "config.toml", KEYS)
    remote = {field.name for field in fields(dask_executor.RemoteLedger)}
    assert remote == dask_executor.LEDGER_METHODS.keys()
    async with open_backtest_forecasters(config, load_registry(config), ["blf"], clock=SystemClock()) as opened:
        factory = opened["blf"].tool_factory
        assert isinstance(factory, ToolFactory)
        offered = {
            name: SimpleNamespace(**{method: getattr(getattr(factory.ledger, name), method) for method in methods})
            for name, methods in dask_executor.LEDGER_METHODS.items()
        }
        narrow = replace(factory, ledger=cast("Any", SimpleNamespace(**offered)))
        subject = BacktestSubject(
            configured_forecaster=opened["blf"].forecaster, fit_parameters=lambda _: None, tool_factory=narrow
        )
        trials = await task_of(subject).run_trials(ASKED)
        assert [(trial.is_answer, trial.detail) for trial in trials] == [(True, "")] * len(trials)
        # All tools are offered, so that each of them reads the ledger.
        context = await narrow.open_trial(
            ASKED,
            GuardedTrialContext(forecast="f", cutoff=AS_OF, trial=1, fitted=None, random=SeededRandom(1)),
            charge=CostAttribution(scope="s", ref=str(ASKED.ref), venue="lantern", forecaster="blf", trial=1),
        )
        for tool in ("earlier_forecasts", "related_questions", "question_history", "paired_prices"):
            implementation = context.implementations[tool]
            arguments = {"words": "lamp", "query": "lamp"} if tool == "related_questions" else {}
            # There is nothing to find, which a tool may say; a method that is not offered raises AttributeError.
            with suppress(ToolCallError):
                await implementation.run(arguments, ToolCallTrace(context.models, context.documents))


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
