"""`foxcast replay`: run a recorded forecast again offline, compare every step, and say what a difference means."""

import asyncio
import json
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bot.app.plugin_factory import PluginFactory
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_command_config
from bot.cli.lookup import FORECAST_HELP, FORECASTER_HELP
from bot.cli.output.console import print_indented, print_json, stdout_console
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, NotFoundError
from bot.core.forecasts import ForecasterSetup
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.evaluation.lookup import find_trace
from bot.evaluation.replay import OfflineNetwork, ReplayDiscrepancy, ReplayedTrial, ReplayResult, replay_forecast
from bot.evaluation.value_text import describe_prediction_short, format_predictions_short, order_options
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.tuned_shrinkage import recorded_rules
from bot.plugin_system.registry import Registry, build_registry, find_plugins, load_registry
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import ReadOnlyState, open_read_only
from bot.store.serialization import PREDICTIONS

EXCERPT_CHARS = 300


EXCERPT_CHARS_BEFORE = 60


# The version that made a forecast is not recorded.
CHANGED_SINCE = "changed since, or another version of Foxcast made it"


INPUTS_CHANGED = (
    f"The forecaster, its settings, its prompts or the seed {CHANGED_SINCE}: a request of now is not in the record"
)


PROMPTS_CHANGED = f"The forecaster uses other texts now: its prompts or the answers of its tools {CHANGED_SINCE}"


CODE_CHANGED = f"The forecaster acts differently on the same record now: it, its settings or the seed {CHANGED_SINCE}"


AGGREGATION_CHANGED = "The trials are identical, so they are aggregated differently now; see aggregate in [forecasters]"


def print_replay(console: Console, trace: ForecastTrace, result: ReplayResult) -> None:
    """Print it for a person."""
    each = partial(describe_prediction_short, shape=trace.question.shape)
    name = f"forecast {trace.id} of {trace.question.ref}"
    trials = _count_text(len(result.trials), "trial")
    verdict = "identical" if result.is_identical else "not identical"
    console.print(Text(f"{name}: {verdict} ({trials}, {_count_text(result.steps, 'step')} replayed)", style="bold"))
    for trial in result.trials:
        _print_replayed_trial(console, trial)
    if result.raw is None:
        console.print("aggregate: none, because no step could be replayed")
    elif result.aggregate is not None:
        console.print(f"aggregate of the replayed trials: {format_predictions_short(result.raw, each)}")
        _print_discrepancy(console, result.aggregate)
    else:
        console.print(f"aggregate: {format_predictions_short(result.raw, each)}, as recorded")
    if (meaning := explain_difference(result)) is not None:
        console.print(f"{meaning}.")


def explain_difference(result: ReplayResult) -> str | None:
    """Return what the first difference says about the change; None without a difference."""
    first = next((trial.discrepancy for trial in result.trials if trial.discrepancy is not None), None)
    if first is None:
        return None if result.aggregate is None else AGGREGATION_CHANGED
    if first.missing:
        return f"{INPUTS_CHANGED} ({first.missing})"
    return PROMPTS_CHANGED if first.part.startswith("observation.documents") else CODE_CHANGED


def replay_to_json(trace: ForecastTrace, result: ReplayResult) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "forecast": trace.id,
        "identical": result.is_identical,
        "steps": result.steps,
        "trials": [
            {
                "number": trial.number,
                "recorded_steps": trial.recorded,
                "replayed_steps": trial.replayed,
                "agreed_steps": trial.agreed,
                "difference": _discrepancy_to_json(trial.discrepancy),
            }
            for trial in result.trials
        ],
        "raw": None if result.raw is None else order_options(PREDICTIONS.plain(result.raw), trace.question.shape),
        "aggregate_difference": _discrepancy_to_json(result.aggregate),
        "meaning": explain_difference(result),
    }


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print_replayed_trial(console: Console, trial: ReplayedTrial) -> None:
    if trial.discrepancy is None:
        console.print(f"trial {trial.number}: {_count_text(trial.recorded, 'step')}, as recorded")
        return
    console.print(
        f"trial {trial.number}: {_count_text(trial.recorded, 'step')} recorded, {trial.replayed} now, "
        f"the first {trial.agreed} identical; it differs"
    )
    _print_discrepancy(console, trial.discrepancy)


def _print_discrepancy(console: Console, found: ReplayDiscrepancy) -> None:
    where = "at the end" if found.step is None else f"in step {found.step}"
    print_indented(console, f"first {where}, {found.part or 'everything'}", by=2)
    recorded, replayed = _value_text(found.recorded), _value_text(found.replayed)
    pairs = enumerate(zip(recorded, replayed, strict=False))
    shared = next((place for place, (old, new) in pairs if old != new), min(len(recorded), len(replayed)))
    print_indented(console, f"recorded: {_excerpt_around(recorded, shared)}", by=4, style="dim")
    print_indented(console, f"now:      {_excerpt_around(replayed, shared)}", by=4)


def _value_text(value: Json) -> str:
    if value is None:
        return "nothing"
    return " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())


def _excerpt_around(text: str, shared: int) -> str:
    """Return the part of a text around the place where it begins to differ."""
    start = max(0, shared - EXCERPT_CHARS_BEFORE) if len(text) > EXCERPT_CHARS else 0
    cut = text[start : start + EXCERPT_CHARS]
    return f"{'... ' if start else ''}{cut}{' ...' if start + EXCERPT_CHARS < len(text) else ''}"


def _discrepancy_to_json(found: ReplayDiscrepancy | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "step": found.step,
        "part": found.part,
        "recorded": found.recorded,
        "replayed": found.replayed,
        "missing": found.missing or None,
    }


app = typer.Typer(add_completion=False)


@app.command("replay")
def replay(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)],
    *,
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay a recorded forecast offline and compare every step."""
    config = load_command_config(ctx)
    trace, result = asyncio.run(_run_replay(config, name, forecaster))
    if as_json:
        print_json(replay_to_json(trace, result))
    else:
        print_replay(stdout_console(), trace, result)
    if not result.is_identical:
        raise typer.Exit(ExitCode.FAILED)


async def _run_replay(config: Config, name: str, forecaster: str | None) -> tuple[ForecastTrace, ReplayResult]:
    async with open_read_only(config) as records, AsyncExitStack() as stack:
        trace = await find_trace(records, name, forecaster)
        forecast = trace.forecast
        if forecast is None:
            message = f"forecast {trace.id} is {trace.state}; only a completed forecast can be replayed"
            raise NotFoundError(message)
        random = SeededRandom(config.seed)
        opener = _ForecasterOpener(config, records, random, stack)
        configured = await opener.open_forecaster(forecast.forecaster, trace.setup)
        fitted = None if forecast.fitted is None else await records.ledger.learning.get(forecast.fitted)
        rules = await recorded_rules(records.ledger, forecast.forecaster, forecast.cutoff)
        tools = _offline_tools(config, records)
        return trace, await replay_forecast(trace, configured, tools, random, fitted, rules=rules)


@dataclass(frozen=True, slots=True)
class _ForecasterOpener:
    """Opens a forecaster without network access."""

    config: Config
    records: ReadOnlyState
    random: SeededRandom
    stack: AsyncExitStack

    async def open_forecaster(self, name: str, setup: ForecasterSetup | None) -> ConfiguredForecaster:
        """Open it with the recorded setup, or with the current configuration if no setup is recorded."""
        config = self.config if setup is None else _with_variant(self.config, name, setup)
        registry = load_forecaster_registry(config, name)
        if name not in registry.forecasters:
            faults = "".join(f"; {broken.plugin} is broken: {broken.reason}" for broken in registry.broken)
            message = f"no enabled plugin offers the forecaster {name} any more, so it cannot be replayed{faults}"
            raise ConfigError(message)
        plugins = PluginFactory(
            config=config,
            registry=registry,
            clock=SystemClock(),
            random=self.random,
            http=OfflineNetwork(),
            folder=self.records.folder,
            stack=self.stack,
        )
        return await (plugins.open_forecaster(name) if setup is None else plugins.open_recorded_forecaster(name, setup))


def _with_variant(config: Config, name: str, setup: ForecasterSetup) -> Config:
    """Return the config with the recorded variant, also if its table is gone or names another forecaster now."""
    table = config.forecaster_table(name).model_copy(update={"uses": setup.uses})
    return config.model_copy(update={"forecasters": {**config.forecasters, name: table}})


def _offline_tools(config: Config, records: ReadOnlyState) -> ToolFactory:
    network = OfflineNetwork()
    return ToolFactory(
        section=config.research,
        fetcher=network,
        reader=network,
        ledger=records.ledger,
        clock=SystemClock(),
        read_only=True,
    )


def load_forecaster_registry(config: Config, forecaster: str) -> Registry:
    """Return a registry with only the plugin that is named like the forecaster, if it offers it; otherwise with all.

    The library of a model provider is then not even imported.
    """
    origin = config.forecaster_table(forecaster).uses or forecaster
    if origin in config.plugins:
        empty: dict[str, Any] = {table: {} for table in ("venues", "search", "data", "models", "notifiers")}
        own = {name: table for name, table in config.forecasters.items() if name in {forecaster, origin}}
        alone = config.model_copy(update={**empty, "plugins": (origin,), "forecasters": own})
        try:
            registry = build_registry(alone, find_plugins(config))
        except ConfigError:
            # An environment variable may belong to a plugin that was left out.
            return load_registry(config)
        if forecaster in registry.forecasters:
            return registry
    return load_registry(config)
