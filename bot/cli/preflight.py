"""`foxcast preflight`: what would be submitted to a venue now.

What it would cost, and why everything else is held. Requests are built as they would be sent, with a write client
that sends nothing.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.app.execution_wiring import comment_fee, credential_checks
from bot.app.plugin_factory import PluginFactory
from bot.app.venues import OpenVenues
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import CONFIGURED_VENUE_HELP, require_configured_venue
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    stdout_console,
)
from bot.cli.output.formatting import describe_prediction_short as in_words
from bot.cli.output.formatting import format_predictions_short, order_options
from bot.cli.shared_rates import open_shared_rates
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, FoxcastError
from bot.core.ids import sha256_hex
from bot.core.interfaces import VenueSubmitter
from bot.core.orders import Account, Order
from bot.core.permissions import ArmRecord
from bot.core.predictions import QuestionShape
from bot.core.submissions import ExecutionMode, HoldDecision, Intent, SendDecision
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues, venue_policy
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import STOP_FILE, KillSwitch
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.gate.rules import arm_objection
from bot.execution.preflight import (
    PreflightContext,
    PreflightDecision,
    RequestPreview,
    RequestPreviewContext,
    open_refusing_client,
    preview_decisions,
    preview_requests,
)
from bot.execution.submission_planning import DecisionContextBuilder
from bot.jobs.live_readiness import ReadinessContext, check_readiness
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.database import is_holder_running, last_holder
from bot.store.intents import ORDER_SERIALIZER
from bot.store.ledger import LEDGER_FILE, ReadOnlyState, open_read_only, state_folder
from bot.store.serialization import PREDICTIONS, format_timestamp

ORDER_COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("order", ColumnKind.TEXT),
    TableColumn("shares", ColumnKind.NUMBER),
    TableColumn("limit", ColumnKind.NUMBER),
    TableColumn("price", ColumnKind.NUMBER),
    TableColumn("cost", ColumnKind.NUMBER),
    TableColumn("fees", ColumnKind.NUMBER),
    TableColumn("edge", ColumnKind.NUMBER),
    TableColumn("content"),
)


FORECAST_COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("forecast", ColumnKind.TEXT),
    TableColumn("why", ColumnKind.TEXT),
    TableColumn("content"),
)


HELD_COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("asked again"),
    TableColumn("held because", ColumnKind.TEXT),
)


REASON_COLUMNS = (TableColumn("forecasts", ColumnKind.NUMBER), TableColumn("held because", ColumnKind.TEXT))


# Beyond so many, those that are held are counted by reason.
MAX_HELD_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """What was found: ``armed`` says whether a live venue is, ``account`` how the account is known.

    ``assumes_armed``: it is not, and all is shown as if it were.
    ``missing_requirements`` is what a live venue needs besides; ``rehearsals`` are the requests, by intent, of the
    first that leave.
    """

    venue: str
    mode: ExecutionMode
    armed: str
    account: str
    looks: tuple[PreflightDecision, ...]
    missing_requirements: tuple[str, ...] = ()
    assumes_armed: bool = False
    rehearsals: Mapping[str, RequestPreview] = field(default_factory=dict)

    @property
    def sends(self) -> tuple[tuple[PreflightDecision, SendDecision], ...]:
        """What would leave."""
        return tuple((look, look.decision) for look in self.looks if isinstance(look.decision, SendDecision))

    @property
    def holds(self) -> tuple[tuple[PreflightDecision, HoldDecision], ...]:
        """What would not."""
        return tuple((look, look.decision) for look in self.looks if isinstance(look.decision, HoldDecision))

    @property
    def cost(self) -> float:
        """What all orders together would cost at most."""
        return sum(send.intent.order.cost for _, send in self.sends if send.intent.order is not None)


def print_preflight(console: Console, shown: PreflightReport) -> None:
    """Print it for a person."""
    console.print(f"{shown.venue}: mode {shown.mode}" + (f", {shown.armed}" if shown.armed else ""))
    for what in shown.missing_requirements:
        console.print(f"not ready, {what}")
    if shown.account:
        console.print(f"account: {shown.account}")
    if shown.assumes_armed:
        console.print("shown as if it were armed, without bounds of an arm record")
    elif shown.armed not in {"", "armed"}:
        console.print(f"to see what would leave once it is armed: foxcast preflight {shown.venue} --as-if-armed")
    where = "into the paper book" if shown.mode is ExecutionMode.PAPER else "to the venue"
    console.print(f"{len(shown.sends)} would leave {where}, {len(shown.holds)} are held; nothing was sent")
    orders = [send.intent for _, send in shown.sends if send.intent.order is not None]
    if orders:
        print_heading(console, f"Orders, {shown.cost:.2f} {_order_currency(orders)} at most".rstrip())
        console.print(
            make_table(
                ORDER_COLUMNS, [_order_cells(intent, intent.order) for intent in orders if intent.order is not None]
            )
        )
    forecasts = [(look, send.intent, send.why) for look, send in shown.sends if send.intent.order is None]
    if forecasts:
        print_heading(console, "Forecasts")
        rows = [
            (
                str(intent.ref),
                _short_predictions(intent, look.context.question.shape),
                why,
                request_content_summary(intent),
            )
            for look, intent, why in forecasts
        ]
        console.print(make_table(FORECAST_COLUMNS, rows))
    if shown.rehearsals and shown.mode is not ExecutionMode.PAPER:
        _print_requests(console, shown)
    _print_held(console, shown)


def preflight_to_json(shown: PreflightReport) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "venue": shown.venue,
        "mode": shown.mode.value,
        "armed": shown.armed or None,
        "account": shown.account or None,
        "cost": shown.cost,
        "as_if_armed": shown.assumes_armed,
        "lacking": list(shown.missing_requirements),
        "sends": [
            order_options(_send_to_json(send, shown.rehearsals.get(send.intent.id)), look.context.question.shape)
            for look, send in shown.sends
        ],
        "holds": [
            {
                "question": str(look.context.forecast.ref),
                "forecast": look.context.forecast.id,
                "why": hold.why,
                "until": format_timestamp(hold.until),
            }
            for look, hold in shown.holds
        ],
    }


def _short_predictions(intent: Intent, shape: QuestionShape) -> str:
    return format_predictions_short(intent.predictions, partial(in_words, shape=shape))


def request_content_summary(intent: Intent) -> str:
    """Return the size of what its request would be made of, and the beginning of its digest."""
    return _size_and_digest(_request_content(intent))


def _size_and_digest(text: str) -> str:
    body = text.encode()
    return f"{len(body)} bytes, {sha256_hex(body)[:12]}"


def _request_content(intent: Intent) -> str:
    return PREDICTIONS.encode(intent.predictions) if intent.order is None else ORDER_SERIALIZER.encode(intent.order)


def _print_requests(console: Console, shown: PreflightReport) -> None:
    """Print each request as it would be sent, without secrets."""
    print_heading(console, f"Requests ({len(shown.rehearsals)} of {len(shown.sends)}), as they would be sent now")
    for preflight_look, send in shown.sends:
        if (one := shown.rehearsals.get(send.intent.id)) is None:
            continue
        console.print(f"{send.intent.ref}  {preflight_look.context.question.title}")
        if one.why:
            print_indented(console, f"it would be refused before sending: {one.why}")
        elif one.sealed is None:
            print_indented(console, f"no request is made beforehand; {request_content_summary(send.intent)}")
        else:
            until = one.sealed.fence
            bound = "read back at once" if until is None else f"may take effect until {until:%Y-%m-%d %H:%M:%S} UTC"
            print_indented(console, f"{_size_and_digest(one.sealed.body)}, {bound}, found again by {one.sealed.tag}")
            print_indented(console, one.sealed.body)
        if one.comment:
            print_indented(console, "then, once it stands, the comment:")
            print_indented(console, one.comment, by=6)


def _print_held(console: Console, shown: PreflightReport) -> None:
    if not shown.holds:
        return
    print_heading(console, "Held")
    if len(shown.holds) <= MAX_HELD_SHOWN:
        rows = [
            (
                str(look.context.forecast.ref),
                f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "not by itself",
                hold.why,
            )
            for look, hold in shown.holds
        ]
        console.print(make_table(HELD_COLUMNS, rows))
        return
    counted = Counter(hold.why for _, hold in shown.holds)
    console.print(make_table(REASON_COLUMNS, [(str(count), why) for why, count in counted.most_common()]))


def _order_cells(intent: Intent, order: Order) -> tuple[str, ...]:
    what = f"{order.side} {order.leg}" + (f" {order.option}" if order.option else "")
    return (
        str(intent.ref),
        what,
        f"{order.shares:.2f}",
        f"{order.limit:.4f}",
        f"{order.expected:.4f}",
        f"{order.cost:.2f}",
        f"{order.fees:.2f}",
        f"{order.edge:.4f}",
        request_content_summary(intent),
    )


def _send_to_json(send: SendDecision, rehearsal: RequestPreview | None) -> dict[str, Any]:
    body = _request_content(send.intent).encode()
    order = send.intent.order
    return {
        "question": str(send.intent.ref),
        "forecast": send.intent.forecast,
        "intent": send.intent.id,
        "why": send.why,
        "predictions": PREDICTIONS.plain(send.intent.predictions),
        "order": None if order is None else ORDER_SERIALIZER.plain(order),
        "bytes": len(body),
        "sha256": sha256_hex(body),
        "request": None if rehearsal is None else _request_to_json(rehearsal),
    }


def _request_to_json(rehearsal: RequestPreview) -> dict[str, Any]:
    sealed = rehearsal.sealed
    return {
        "body": None if sealed is None else sealed.body,
        "tag": None if sealed is None else sealed.tag,
        "fence": None if sealed is None else format_timestamp(sealed.fence),
        "why_not": rehearsal.why or None,
        "comment": rehearsal.comment or None,
    }


def _order_currency(intents: list[Intent]) -> str:
    return next((intent.order.currency for intent in intents if intent.order is not None), "")


app = typer.Typer(add_completion=False)


@app.command()
def preflight(
    ctx: typer.Context,
    venue: Annotated[str, typer.Argument(metavar="VENUE", help=CONFIGURED_VENUE_HELP)],
    *,
    requests: Annotated[int, typer.Option(min=0, metavar="N", help="Show this many requests in full.")] = 10,
    as_if_armed: Annotated[bool, typer.Option("--as-if-armed", help="Assume that the venue is armed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what would be submitted to a venue now, and why the rest is held.

    Each request is shown as it would be sent, without secrets; nothing is sent.
    """
    config, registry = load_config_and_plugins(ctx)
    require_configured_venue(config, venue)
    if config.mode_of(venue) is ExecutionMode.OFF or venue not in registry.venues:
        message = f"{venue} is off, or its plugin is not enabled; nothing would leave"
        raise ConfigError(message)
    shown = asyncio.run(
        _load_preflight(config, registry, venue, _PreflightOptions(requests=requests, as_if_armed=as_if_armed))
    )
    if as_json:
        print_json(preflight_to_json(shown))
    else:
        print_preflight(stdout_console(), shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreflightOptions:
    """How many requests are shown in full, and whether a live venue is taken for armed."""

    requests: int
    as_if_armed: bool


async def _load_preflight(config: Config, registry: Registry, venue: str, wish: _PreflightOptions) -> PreflightReport:
    clock, random = SystemClock(), SeededRandom(config.seed)
    spec = registry.venues[venue]
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_read_only(config))
        wanted = spec.rates(load_plugin_settings(spec, config))
        rates = await open_shared_rates(config, wanted, clock=clock, random=random, stack=stack)
        client = RetryingHttpClient(clock=clock, random=random, rates=rates, proxies=config.http.proxies)
        http = await stack.enter_async_context(client)
        outfitter = PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=state_folder(config),
            stack=stack,
            rates=rates,
            open_write_client=open_refusing_client,
        )
        return await _PreflightVenue(
            outfitter, records, http, venue_policy(config, venue, registry.specs_of_table)
        ).load_report(wish)


class _PreflightVenue:
    """One venue, opened to be looked at."""

    def __init__(
        self, outfitter: PluginFactory, records: ReadOnlyState, http: RetryingHttpClient, lane: ExecutionPolicy
    ) -> None:
        self._outfitter, self._records, self._http, self._lane = outfitter, records, http, lane

    async def load_report(self, wish: _PreflightOptions) -> PreflightReport:
        """Return all that is to be shown."""
        lane, now = self._lane, self._outfitter.clock.now()
        planner, reader = await self._outfitter.open_planner(lane.venue), await self._outfitter.open_venue(lane.venue)
        paper = paper_venues({lane.venue: lane})
        leaves = await self._records.ledger.permissions.read_status({lane.venue: lane.account}, now=now, paper=paper)
        why_not = arm_objection(lane, leaves.arms.get(lane.venue), now) if lane.is_live else None
        if why_not and wish.as_if_armed:
            leaves = replace(leaves, arms={lane.venue: _assumed_arm_record(lane, now)})
        readiness = await self._readiness(now)
        account, said = await _load_account(self._outfitter.config, self._records, lane.venue)
        parts = PreflightContext(
            context_builder=DecisionContextBuilder(
                ledger=self._records.ledger,
                execution_policies={lane.venue: lane},
                planners={} if planner is None else {lane.venue: planner},
                readiness=readiness,
                permissions=leaves,
            ),
            gate=Gate(kill_switch=self._brake),
            clock=self._outfitter.clock,
            reader=reader,
            accounts={} if account is None else {lane.venue: account},
        )
        looks = await preview_decisions(parts, lane.venue)
        rehearsing, fault = await self._open_rehearsal()
        return PreflightReport(
            venue=lane.venue,
            mode=lane.mode,
            armed=(why_not or "armed") if lane.is_live else "",
            assumes_armed=why_not is not None and wish.as_if_armed,
            missing_requirements=(*readiness.missing_requirements(lane.venue), *fault) if lane.is_live else (),
            account=said if planner is not None else "",
            looks=tuple(looks),
            rehearsals=await preview_requests(rehearsing, _planned_sends(looks)[: wish.requests]),
        )

    @property
    def _brake(self) -> KillSwitch:
        return KillSwitch(
            stop_file=self._outfitter.config.state / STOP_FILE,
            ledger_file=state_folder(self._outfitter.config) / LEDGER_FILE,
        )

    async def _readiness(self, now: datetime) -> LiveReadiness:
        """Look at all that a live venue needs, as the daemon does: what it writes just now is under way, not lost."""
        folder, readiness = self._records.folder, LiveReadiness()
        holder = last_holder(folder)
        running = holder is not None and is_holder_running(holder)
        lanes = {self._lane.venue: self._lane}
        preparing = ReadinessContext(
            readiness=readiness,
            ledger=self._records.ledger,
            path=folder / LEDGER_FILE,
            execution_policies=lanes,
            clock=self._outfitter.clock,
            clock_skew=lambda: self._http.clock_skew_s,
            started_at=holder.started_at if holder is not None and running else now,
            credentials=credential_checks(self._outfitter, OpenVenues(execution_policies=lanes)),
        )
        await check_readiness(preparing)
        return readiness

    async def _open_rehearsal(self) -> tuple[RequestPreviewContext, tuple[str, ...]]:
        """Return what requests are made with, and why that cannot be, which would keep a daemon from starting."""
        registry, lane = self._outfitter.registry, self._lane
        writer: VenueSubmitter | None = None
        fault: tuple[str, ...] = ()
        try:
            writer = await self._outfitter.open_submitter(lane) if lane.is_live else None
        except FoxcastError as error:
            fault = (f"writer: {error}",)
        rehearsing = RequestPreviewContext(
            ledger=self._records.ledger,
            writer=writer,
            comments=lane.is_live and comment_fee(self._outfitter.config, registry, lane) is not None,
        )
        return rehearsing, fault


def _assumed_arm_record(lane: ExecutionPolicy, now: datetime) -> ArmRecord:
    """Return an arm record that nobody made, without bounds of its own; the caps of config hold."""
    return ArmRecord(
        id="",
        venue=lane.venue,
        account=lane.account,
        config=lane.config_digest,
        by="",
        armed_at=now,
        until=now + timedelta(hours=1),
        per_order=math.inf,
        per_day=math.inf,
        total=math.inf,
    )


def _planned_sends(looks: list[PreflightDecision]) -> list[tuple[DecisionContext, SendDecision]]:
    return [(one.context, one.decision) for one in looks if isinstance(one.decision, SendDecision)]


async def _load_account(config: Config, records: ReadOnlyState, venue: str) -> tuple[Account | None, str]:
    """Return the account as it was read last, or as a paper book would begin, and how it is known."""
    table, paper = config.venues[venue], config.mode_of(venue) is ExecutionMode.PAPER
    known = await records.ledger.permissions.last_account(venue, table.account, paper=paper)
    if known is not None:
        return known, f"{known.cash:.2f} {known.currency} were free at {known.at:%Y-%m-%d %H:%M} UTC"
    if not paper:
        return None, "it was never read; it is when the daemon runs, or with: foxcast run --once"
    begun = Account(at=SystemClock().now(), currency="", cash=table.paper.cash)
    return begun, f"no reading yet; taken for a paper book of {begun.cash:.2f} that holds nothing"
