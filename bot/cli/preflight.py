"""``foxcast preflight``: what would leave to a venue now, what it would cost, and why all else would not.

Readers and the planner of the venue are opened, never its writer or its paper book: nothing here could send anything.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from bot.app import LEDGER_FILE, Records, folder_of, open_records
from bot.cli.arm import VENUE_HELP, require_venue
from bot.cli.output.console import emit, stdout
from bot.cli.output.preflight import Shown, as_plain, print_shown
from bot.cli.session import equipped
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.config.plugin_settings import settings_of
from bot.domain.order import Account
from bot.domain.submission import Mode
from bot.errors import ConfigError
from bot.gate.armed import unarmed
from bot.gate.brake import STOP_FILE, Brake
from bot.gate.gate import Gate
from bot.gate.lanes import lane_in
from bot.gate.readiness import Readiness
from bot.http import HttpReader
from bot.jobs.cases import Around
from bot.jobs.preflight import Preflight, look
from bot.outfit import Outfitter
from bot.rates import Rates
from bot.registry import Registry

app = typer.Typer(add_completion=False)


@app.command()
def preflight(
    ctx: typer.Context,
    venue: Annotated[str, typer.Argument(metavar="VENUE", help=VENUE_HELP)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what would leave to a venue now, and why all else would not."""
    config, registry = equipped(ctx)
    require_venue(config, venue)
    if config.mode_of(venue) is Mode.OFF or venue not in registry.venues:
        message = f"{venue} is off, or its plugin is not enabled; nothing would leave"
        raise ConfigError(message)
    shown = asyncio.run(_shown(config, registry, venue))
    if as_json:
        emit(as_plain(shown))
    else:
        print_shown(stdout(), shown)


async def _shown(config: Config, registry: Registry, venue: str) -> Shown:
    clock, random = SystemClock(), SeededRandom(config.seed)
    spec, folder = registry.venues[venue], folder_of(config)
    rates = Rates(spec.rates(settings_of(spec, config)), clock=clock, random=random)
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_records(config))
        http = await stack.enter_async_context(HttpReader(clock=clock, random=random, rates=rates))
        outfitter = Outfitter(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder,
            stack=stack,
            rates=rates,
        )
        planner, reader = await outfitter.planner(venue), await outfitter.venue(venue)
        lane, now = lane_in(config, venue), clock.now()
        leaves = await records.ledger.leave.standing({venue: lane.account}, now=now)
        around = Around(
            ledger=records.ledger,
            lanes={venue: lane},
            planners={} if planner is None else {venue: planner},
            # What a running daemon found out is its own; here only what stands on record can hold anything back.
            readiness=Readiness(credentials={venue: ""}, doubts={venue: ""}, clock="", database=""),
            leaves=leaves,
        )
        account, said = await _account(config, records, venue)
        parts = Preflight(
            around=around,
            gate=Gate(brake=Brake(stop_file=config.state / STOP_FILE, ledger=folder / LEDGER_FILE)),
            clock=clock,
            reader=reader,
            accounts={} if account is None else {venue: account},
        )
        looks = await look(parts, venue)
        return Shown(
            venue=venue,
            mode=lane.mode,
            armed=unarmed(lane, leaves.arms.get(venue), now) or "armed" if lane.live else "",
            account=said if planner is not None else "",
            looks=tuple(looks),
        )


async def _account(config: Config, records: Records, venue: str) -> tuple[Account | None, str]:
    """Return the account as it was read last, or as a paper book would begin, and how it is known."""
    table = config.venues[venue]
    known = await records.ledger.leave.last_account(venue, table.account)
    if known is not None:
        return known, f"{known.cash:.2f} {known.currency} were free at {known.at:%Y-%m-%d %H:%M} UTC"
    if config.mode_of(venue) is not Mode.PAPER:
        return None, "it was never read; it is when the daemon runs"
    begun = Account(at=SystemClock().now(), currency="", cash=table.paper.cash)
    return begun, f"no reading yet; taken for a paper book of {begun.cash:.2f} that holds nothing"
