"""``foxcast replay``: a forecast run again on what is on record, to see that it comes to the same number."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from bot.app import Records, open_records
from bot.cli.exits import ExitCode
from bot.cli.named import FORECAST_HELP, FORECASTER_HELP, trace_named
from bot.cli.output.console import emit, stdout
from bot.cli.output.replay import as_plain, print_replayed
from bot.cli.session import configured
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.desk.workshop import Workshop
from bot.discovery import discover
from bot.domain.setup import Setup
from bot.errors import ConfigError, NotFound
from bot.jobs.sitting import Seat
from bot.lab.replay import Offline, Replayed, replay
from bot.outfit import Outfitter
from bot.registry import Registry, assemble, load_registry
from bot.store.forecasts import Trace

app = typer.Typer(add_completion=False)


@app.command("replay")
def replay_forecast(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="FORECAST", help=FORECAST_HELP)],
    *,
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a forecast again on what is on record, offline, and compare every step."""
    config = configured(ctx)
    trace, again = asyncio.run(_replayed(config, name, forecaster))
    if as_json:
        emit(as_plain(trace, again))
    else:
        print_replayed(stdout(), trace, again)
    if not again.identical:
        raise typer.Exit(ExitCode.FAILED)


async def _replayed(config: Config, name: str, forecaster: str | None) -> tuple[Trace, Replayed]:
    async with open_records(config) as records, AsyncExitStack() as stack:
        trace = await trace_named(records, name, forecaster)
        forecast = trace.forecast
        if forecast is None:
            message = f"forecast {trace.id} is {trace.state}; only what was completed can be replayed"
            raise NotFound(message)
        random = SeededRandom(config.seed)
        seat = await _Stand(config, records, random, stack).seat(forecast.forecaster, trace.setup)
        fitted = None if forecast.fitted is None else await records.ledger.learning.get(forecast.fitted)
        return trace, await replay(trace, seat, _workshop(config, records), random, fitted)


@dataclass(frozen=True, slots=True)
class _Stand:
    """Opens the forecaster alone."""

    config: Config
    records: Records
    random: SeededRandom
    stack: AsyncExitStack

    async def seat(self, name: str, setup: Setup | None) -> Seat:
        """Open it as the forecast was made, whatever config says today; as config says where that is not on record."""
        config = self.config if setup is None else _with_variant(self.config, name, setup)
        registry = registry_for(config, name)
        if name not in registry.forecasters:
            blamed = "".join(f"; {broken.plugin} is broken: {broken.reason}" for broken in registry.broken)
            message = f"no enabled plugin offers the forecaster {name} any more, so it cannot be replayed{blamed}"
            raise ConfigError(message)
        outfitter = Outfitter(
            config=config,
            registry=registry,
            clock=SystemClock(),
            random=self.random,
            http=Offline(),
            folder=self.records.folder,
            stack=self.stack,
        )
        return await (outfitter.seat(name) if setup is None else outfitter.seat_as(name, setup))


def _with_variant(config: Config, name: str, setup: Setup) -> Config:
    """Return the config with the variant that was used, also where its table is gone or names another forecaster."""
    table = config.forecaster(name).model_copy(update={"uses": setup.uses})
    return config.model_copy(update={"forecasters": {**config.forecasters, name: table}})


def _workshop(config: Config, records: Records) -> Workshop:
    nowhere = Offline()
    return Workshop(
        section=config.desk,
        fetcher=nowhere,
        reader=nowhere,
        ledger=records.ledger,
        clock=SystemClock(),
        sealed=True,
    )


def registry_for(config: Config, forecaster: str) -> Registry:
    """Return a registry with the plugin alone that is named like the forecaster, if that offers it; else with all.

    So a provider's library is not even imported, as long as plugins are called what they offer.
    """
    origin = config.forecaster(forecaster).uses or forecaster
    if origin in config.plugins:
        empty: dict[str, Any] = {table: {} for table in ("venues", "search", "data", "models", "notifiers")}
        own = {name: table for name, table in config.forecasters.items() if name in {forecaster, origin}}
        alone = config.model_copy(update={**empty, "plugins": (origin,), "forecasters": own})
        try:
            registry = assemble(alone, discover(config.plugin_files))
        except ConfigError:
            # A variable of the environment may belong to a plugin that was left out.
            return load_registry(config)
        if forecaster in registry.forecasters:
            return registry
    return load_registry(config)
