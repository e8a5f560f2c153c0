"""``foxcast preflight``: what would leave to a venue now, what it would cost, and why all else would not.

The requests are made as they would be sent, by the venue's own writer, which is given a wire that takes nothing; a
paper book is not opened. Whatever is read of the venue is read anew.
"""

import asyncio
import math
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

import typer

from bot.app import LEDGER_FILE, Records, folder_of, open_records
from bot.cli.arm import VENUE_HELP, require_venue
from bot.cli.output.console import emit, stdout
from bot.cli.output.preflight import Shown, as_plain, print_shown
from bot.cli.paced import rates_beside
from bot.cli.session import equipped
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.config.plugin_settings import settings_of
from bot.domain.order import Account
from bot.domain.permission import Arm
from bot.domain.submission import Mode, Send
from bot.errors import ConfigError, FoxcastError
from bot.gate.armed import unarmed
from bot.gate.brake import STOP_FILE, Brake
from bot.gate.case import Case, Lane, on_paper
from bot.gate.gate import Gate
from bot.gate.lanes import lane_in
from bot.gate.readiness import Readiness
from bot.guards import comment_fee, credentials_of
from bot.http import HttpReader
from bot.jobs.cases import Around
from bot.jobs.preflight import Look, Preflight, look
from bot.jobs.ready import Preparing, make_ready
from bot.jobs.rehearse import Rehearsing, no_wire, rehearse
from bot.outfit import Outfitter
from bot.ports import Submitter
from bot.registry import Registry
from bot.store.lock import is_running, last_holder
from bot.venues import Venues

app = typer.Typer(add_completion=False)


@app.command()
def preflight(
    ctx: typer.Context,
    venue: Annotated[str, typer.Argument(metavar="VENUE", help=VENUE_HELP)],
    *,
    requests: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many requests in full.")] = 10,
    as_if_armed: Annotated[bool, typer.Option("--as-if-armed", help="Show what would leave once it is armed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what would leave to a venue now, and why all else would not.

    Each request is shown as it would be sent, without secrets; nothing is sent.
    """
    config, registry = equipped(ctx)
    require_venue(config, venue)
    if config.mode_of(venue) is Mode.OFF or venue not in registry.venues:
        message = f"{venue} is off, or its plugin is not enabled; nothing would leave"
        raise ConfigError(message)
    shown = asyncio.run(_shown(config, registry, venue, _Wish(requests=requests, as_if_armed=as_if_armed)))
    if as_json:
        emit(as_plain(shown))
    else:
        print_shown(stdout(), shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """How many requests are shown in full, and whether a live venue is taken for armed."""

    requests: int
    as_if_armed: bool


async def _shown(config: Config, registry: Registry, venue: str, wish: _Wish) -> Shown:
    clock, random = SystemClock(), SeededRandom(config.seed)
    spec = registry.venues[venue]
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_records(config))
        wanted = spec.rates(settings_of(spec, config))
        rates = await rates_beside(config, wanted, clock=clock, random=random, stack=stack)
        http = await stack.enter_async_context(HttpReader(clock=clock, random=random, rates=rates))
        outfitter = Outfitter(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder_of(config),
            stack=stack,
            rates=rates,
            open_wire=no_wire,
        )
        return await _Room(outfitter, records, http, lane_in(config, venue, registry.configurable)).shown(wish)


class _Room:
    """One venue, opened to be looked at."""

    def __init__(self, outfitter: Outfitter, records: Records, http: HttpReader, lane: Lane) -> None:
        self._outfitter, self._records, self._http, self._lane = outfitter, records, http, lane

    async def shown(self, wish: _Wish) -> Shown:
        """Return all that is to be shown."""
        lane, now = self._lane, self._outfitter.clock.now()
        planner, reader = await self._outfitter.planner(lane.venue), await self._outfitter.venue(lane.venue)
        paper = on_paper({lane.venue: lane})
        leaves = await self._records.ledger.leave.standing({lane.venue: lane.account}, now=now, paper=paper)
        why_not = unarmed(lane, leaves.arms.get(lane.venue), now) if lane.live else None
        if why_not and wish.as_if_armed:
            leaves = replace(leaves, arms={lane.venue: _armed(lane, now)})
        readiness = await self._readiness(now)
        account, said = await _account(self._outfitter.config, self._records, lane.venue)
        parts = Preflight(
            around=Around(
                ledger=self._records.ledger,
                lanes={lane.venue: lane},
                planners={} if planner is None else {lane.venue: planner},
                readiness=readiness,
                leaves=leaves,
            ),
            gate=Gate(brake=self._brake),
            clock=self._outfitter.clock,
            reader=reader,
            accounts={} if account is None else {lane.venue: account},
        )
        looks = await look(parts, lane.venue)
        rehearsing, fault = await self._rehearsing()
        return Shown(
            venue=lane.venue,
            mode=lane.mode,
            armed=(why_not or "armed") if lane.live else "",
            is_supposed=why_not is not None and wish.as_if_armed,
            lacking=(*readiness.lacking(lane.venue), *fault) if lane.live else (),
            account=said if planner is not None else "",
            looks=tuple(looks),
            rehearsals=await rehearse(rehearsing, _sends(looks)[: wish.requests]),
        )

    @property
    def _brake(self) -> Brake:
        return Brake(
            stop_file=self._outfitter.config.state / STOP_FILE, ledger=folder_of(self._outfitter.config) / LEDGER_FILE
        )

    async def _readiness(self, now: datetime) -> Readiness:
        """Look at all that a live venue needs, as the daemon does: what it writes just now is under way, not lost."""
        folder, readiness = self._records.folder, Readiness()
        holder = last_holder(folder)
        running = holder is not None and is_running(holder)
        lanes = {self._lane.venue: self._lane}
        preparing = Preparing(
            readiness=readiness,
            ledger=self._records.ledger,
            path=folder / LEDGER_FILE,
            lanes=lanes,
            clock=self._outfitter.clock,
            offset=lambda: self._http.clock_offset_s,
            started_at=holder.started_at if holder is not None and running else now,
            credentials=credentials_of(self._outfitter, Venues(lanes=lanes)),
        )
        await make_ready(preparing)
        return readiness

    async def _rehearsing(self) -> tuple[Rehearsing, tuple[str, ...]]:
        """Return what requests are made with, and why that cannot be, which would keep a daemon from starting."""
        registry, lane = self._outfitter.registry, self._lane
        writer: Submitter | None = None
        fault: tuple[str, ...] = ()
        try:
            writer = await self._outfitter.submitter(lane) if lane.live else None
        except FoxcastError as error:
            fault = (f"writer: {error}",)
        rehearsing = Rehearsing(
            ledger=self._records.ledger,
            writer=writer,
            comments=lane.live and comment_fee(self._outfitter.config, registry, lane) is not None,
        )
        return rehearsing, fault


def _armed(lane: Lane, now: datetime) -> Arm:
    """Return an arm record that nobody made, without bounds of its own; the caps of config hold."""
    return Arm(
        id="",
        venue=lane.venue,
        account=lane.account,
        config=lane.digest,
        by="",
        armed_at=now,
        until=now + timedelta(hours=1),
        per_order=math.inf,
        per_day=math.inf,
        total=math.inf,
    )


def _sends(looks: list[Look]) -> list[tuple[Case, Send]]:
    return [(one.case, one.decision) for one in looks if isinstance(one.decision, Send)]


async def _account(config: Config, records: Records, venue: str) -> tuple[Account | None, str]:
    """Return the account as it was read last, or as a paper book would begin, and how it is known."""
    table, paper = config.venues[venue], config.mode_of(venue) is Mode.PAPER
    known = await records.ledger.leave.last_account(venue, table.account, paper=paper)
    if known is not None:
        return known, f"{known.cash:.2f} {known.currency} were free at {known.at:%Y-%m-%d %H:%M} UTC"
    if not paper:
        return None, "it was never read; it is when the daemon runs, or with: foxcast run --once"
    begun = Account(at=SystemClock().now(), currency="", cash=table.paper.cash)
    return begun, f"no reading yet; taken for a paper book of {begun.cash:.2f} that holds nothing"
