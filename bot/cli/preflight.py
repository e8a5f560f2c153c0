"""`foxcast preflight`: what would be submitted to a venue now, what it would cost, and why the rest is held.

Requests are built exactly as they would be sent, with a write client that sends nothing.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import field, replace
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
from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, FoxcastError
from bot.core.ids import sha256_hex
from bot.core.interfaces import VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, Order
from bot.core.permissions import ArmRecord
from bot.core.predictions import QuestionShape
from bot.core.submissions import ExecutionMode, HoldDecision, Intent, SendDecision
from bot.evaluation.value_text import describe_prediction_short, format_predictions_short, order_options
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
    preview_decisions,
    preview_requests,
)
from bot.execution.submission_planning import DecisionContextBuilder
from bot.jobs.live_readiness import ReadinessContext, check_readiness
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.database import find_running_holder
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
    TableColumn("retried at"),
    TableColumn("held because", ColumnKind.TEXT),
)


REASON_COLUMNS = (TableColumn("forecasts", ColumnKind.NUMBER), TableColumn("held because", ColumnKind.TEXT))


# More held forecasts than this are counted by reason.
MAX_HELD_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport:
    """The result of a preflight.

    ``armed`` says whether a live venue is armed, ``account`` where the account data comes from. With ``assumes_armed``
    the venue is not armed, and everything is shown as if it were. ``missing_requirements`` is what else a live venue
    needs. ``previews`` holds, by intent, the first requests that would be sent.
    """

    venue: str
    mode: ExecutionMode
    armed: str
    account: str
    decisions: tuple[PreflightDecision, ...]
    missing_requirements: tuple[str, ...] = ()
    assumes_armed: bool = False
    previews: Mapping[str, RequestPreview] = field(default_factory=dict)

    @property
    def sends(self) -> tuple[tuple[PreflightDecision, SendDecision], ...]:
        """The submissions that would be sent."""
        return tuple((one, one.decision) for one in self.decisions if isinstance(one.decision, SendDecision))

    @property
    def holds(self) -> tuple[tuple[PreflightDecision, HoldDecision], ...]:
        """The forecasts that are held."""
        return tuple((one, one.decision) for one in self.decisions if isinstance(one.decision, HoldDecision))

    @property
    def cost(self) -> float:
        """The maximum cost of all orders together."""
        return sum(send.intent.order.cost for _, send in self.sends if send.intent.order is not None)


def print_preflight(console: Console, report: PreflightReport) -> None:
    """Print it for a person."""
    console.print(f"{report.venue}: mode {report.mode}" + (f", {report.armed}" if report.armed else ""))
    for what in report.missing_requirements:
        console.print(f"not ready, {what}")
    if report.account:
        console.print(f"account: {report.account}")
    if report.assumes_armed:
        console.print("shown as if it were armed, without the limits of an arm record")
    elif report.armed not in {"", "armed"}:
        console.print(f"to see what would be sent once it is armed: foxcast preflight {report.venue} --as-if-armed")
    where = "into the paper book" if report.mode is ExecutionMode.PAPER else "to the venue"
    console.print(f"{len(report.sends)} would be sent {where}, {len(report.holds)} held; nothing was sent")
    orders = [send.intent for _, send in report.sends if send.intent.order is not None]
    if orders:
        print_heading(console, f"Orders, {report.cost:.2f} {_order_currency(orders)} at most".rstrip())
        console.print(
            make_table(
                ORDER_COLUMNS, [_order_cells(intent, intent.order) for intent in orders if intent.order is not None]
            )
        )
    forecasts = [(decision, send.intent, send.why) for decision, send in report.sends if send.intent.order is None]
    if forecasts:
        print_heading(console, "Forecasts")
        rows = [
            (
                str(intent.ref),
                _short_predictions(intent, decision.context.question.shape),
                why,
                request_content_summary(intent),
            )
            for decision, intent, why in forecasts
        ]
        console.print(make_table(FORECAST_COLUMNS, rows))
    if report.previews and report.mode is not ExecutionMode.PAPER:
        _print_requests(console, report)
    _print_held(console, report)


def preflight_to_json(report: PreflightReport) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "venue": report.venue,
        "mode": report.mode.value,
        "armed": report.armed or None,
        "account": report.account or None,
        "cost": report.cost,
        "as_if_armed": report.assumes_armed,
        "lacking": list(report.missing_requirements),
        "sends": [
            order_options(_send_to_json(send, report.previews.get(send.intent.id)), decision.context.question.shape)
            for decision, send in report.sends
        ],
        "holds": [
            {
                "question": str(decision.context.forecast.ref),
                "forecast": decision.context.forecast.id,
                "why": hold.why,
                "until": format_timestamp(hold.until),
            }
            for decision, hold in report.holds
        ],
    }


def _short_predictions(intent: Intent, shape: QuestionShape) -> str:
    return format_predictions_short(intent.predictions, partial(describe_prediction_short, shape=shape))


def request_content_summary(intent: Intent) -> str:
    """Return the size of the content of its request, and the beginning of the digest."""
    return _size_and_digest(_request_content(intent))


def _size_and_digest(text: str) -> str:
    body = text.encode()
    return f"{len(body)} bytes, {sha256_hex(body)[:12]}"


def _request_content(intent: Intent) -> str:
    return PREDICTIONS.encode(intent.predictions) if intent.order is None else ORDER_SERIALIZER.encode(intent.order)


def _print_requests(console: Console, report: PreflightReport) -> None:
    """Print each request as it would be sent, without secrets."""
    print_heading(console, f"Requests ({len(report.previews)} of {len(report.sends)}), as they would be sent now")
    for decision, send in report.sends:
        if (preview := report.previews.get(send.intent.id)) is None:
            continue
        console.print(f"{send.intent.ref}  {decision.context.question.title}")
        if preview.why:
            print_indented(console, f"it would be refused before sending: {preview.why}")
        elif preview.sealed is None:
            print_indented(console, f"the request cannot be built in advance; {request_content_summary(send.intent)}")
        else:
            until = preview.sealed.fence
            effect = "result read back at once" if until is None else f"may take effect until {until:%F %T} UTC"
            print_indented(
                console, f"{_size_and_digest(preview.sealed.body)}, {effect}, identified by {preview.sealed.tag}"
            )
            print_indented(console, preview.sealed.body)
        if preview.comment:
            print_indented(console, "then, once it is accepted, the comment:")
            print_indented(console, preview.comment, by=6)


def _print_held(console: Console, report: PreflightReport) -> None:
    if not report.holds:
        return
    print_heading(console, "Held")
    if len(report.holds) <= MAX_HELD_SHOWN:
        rows = [
            (
                str(decision.context.forecast.ref),
                f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "not automatically",
                hold.why,
            )
            for decision, hold in report.holds
        ]
        console.print(make_table(HELD_COLUMNS, rows))
        return
    counted = Counter(hold.why for _, hold in report.holds)
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


def _send_to_json(send: SendDecision, preview: RequestPreview | None) -> dict[str, Any]:
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
        "request": None if preview is None else _request_to_json(preview),
    }


def _request_to_json(preview: RequestPreview) -> dict[str, Any]:
    sealed = preview.sealed
    return {
        "body": None if sealed is None else sealed.body,
        "tag": None if sealed is None else sealed.tag,
        "fence": None if sealed is None else format_timestamp(sealed.fence),
        "why_not": preview.why or None,
        "comment": preview.comment or None,
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
        message = f"{venue} is off, or its plugin is not enabled; nothing would be sent"
        raise ConfigError(message)
    report = asyncio.run(
        _load_preflight(config, registry, venue, _PreflightOptions(requests=requests, as_if_armed=as_if_armed))
    )
    if as_json:
        print_json(preflight_to_json(report))
    else:
        print_preflight(stdout_console(), report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreflightOptions:
    """How many requests are shown in full, and whether a live venue is assumed to be armed."""

    requests: int
    as_if_armed: bool


async def _load_preflight(
    config: Config, registry: Registry, venue: str, options: _PreflightOptions
) -> PreflightReport:
    spec = registry.venues[venue]
    limits = spec.rates(load_plugin_settings(spec, config))
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_read_only(config))
        plugins, http = await open_read_only_plugins(config, registry, limits, clock=SystemClock(), stack=stack)
        policy = venue_policy(config, venue, registry.specs_of_table)
        return await _PreflightVenue(plugins, records, http, policy).load_report(options)


class _PreflightVenue:
    """One venue, opened to be read."""

    def __init__(
        self, plugins: PluginFactory, records: ReadOnlyState, http: RetryingHttpClient, policy: ExecutionPolicy
    ) -> None:
        self._plugins, self._records, self._http, self._policy = plugins, records, http, policy

    async def load_report(self, options: _PreflightOptions) -> PreflightReport:
        """Return everything that is report."""
        policy, now = self._policy, self._plugins.clock.now()
        planner = await self._plugins.open_planner(policy.venue)
        reader = await self._plugins.open_venue(policy.venue)
        paper = paper_venues({policy.venue: policy})
        permissions = await self._records.ledger.permissions.read_status(
            {policy.venue: policy.account}, now=now, paper=paper
        )
        not_armed = arm_objection(policy, permissions.arms.get(policy.venue), now) if policy.is_live else None
        if not_armed and options.as_if_armed:
            permissions = replace(permissions, arms={policy.venue: _assumed_arm_record(policy, now)})
        readiness = await self._check_readiness(now)
        account, account_text = await _load_account(self._plugins.config, self._records, policy.venue)
        context = PreflightContext(
            context_builder=DecisionContextBuilder(
                ledger=self._records.ledger,
                execution_policies={policy.venue: policy},
                planners={} if planner is None else {policy.venue: planner},
                readiness=readiness,
                permissions=permissions,
            ),
            gate=Gate(kill_switch=self._kill_switch),
            clock=self._plugins.clock,
            reader=reader,
            accounts={} if account is None else {policy.venue: account},
        )
        decisions = await preview_decisions(context, policy.venue)
        preview_context, writer_error = await self._open_preview_context()
        return PreflightReport(
            venue=policy.venue,
            mode=policy.mode,
            armed=(not_armed or "armed") if policy.is_live else "",
            assumes_armed=not_armed is not None and options.as_if_armed,
            missing_requirements=(
                (*readiness.missing_requirements(policy.venue), *writer_error) if policy.is_live else ()
            ),
            account=account_text if planner is not None else "",
            decisions=tuple(decisions),
            previews=await preview_requests(preview_context, _planned_sends(decisions)[: options.requests]),
        )

    @property
    def _kill_switch(self) -> KillSwitch:
        return KillSwitch(
            stop_file=self._plugins.config.state / STOP_FILE,
            ledger_file=state_folder(self._plugins.config) / LEDGER_FILE,
        )

    async def _check_readiness(self, now: datetime) -> LiveReadiness:
        """Check everything that a live venue needs, as the daemon does; a write of a running daemon is not lost."""
        folder, readiness = self._records.folder, LiveReadiness()
        holder = find_running_holder(folder)
        policies = {self._policy.venue: self._policy}
        context = ReadinessContext(
            readiness=readiness,
            ledger=self._records.ledger,
            path=folder / LEDGER_FILE,
            execution_policies=policies,
            clock=self._plugins.clock,
            clock_skew=lambda: self._http.clock_skew_s,
            started_at=now if holder is None else holder.started_at,
            credentials=credential_checks(self._plugins, OpenVenues(execution_policies=policies)),
        )
        await check_readiness(context)
        return readiness

    async def _open_preview_context(self) -> tuple[RequestPreviewContext, tuple[str, ...]]:
        """Return what makes request previews, and the error, if any, that would keep a daemon from starting."""
        registry, policy = self._plugins.registry, self._policy
        writer: VenueSubmitter | None = None
        writer_error: tuple[str, ...] = ()
        try:
            writer = await self._plugins.open_submitter(policy) if policy.is_live else None
        except FoxcastError as error:
            writer_error = (f"writer: {error}",)
        preview_context = RequestPreviewContext(
            ledger=self._records.ledger,
            writer=writer,
            comments=policy.is_live and comment_fee(self._plugins.config, registry, policy) is not None,
        )
        return preview_context, writer_error


def _assumed_arm_record(policy: ExecutionPolicy, now: datetime) -> ArmRecord:
    """Return an arm record without limits of its own, as if the venue were armed; the limits of config.toml apply."""
    return ArmRecord(
        id="",
        venue=policy.venue,
        account=policy.account,
        config=policy.config_digest,
        by="",
        armed_at=now,
        until=now + timedelta(hours=1),
        per_order=math.inf,
        per_day=math.inf,
        total=math.inf,
    )


def _planned_sends(decisions: list[PreflightDecision]) -> list[tuple[DecisionContext, SendDecision]]:
    return [(one.context, one.decision) for one in decisions if isinstance(one.decision, SendDecision)]


async def _load_account(config: Config, records: ReadOnlyState, venue: str) -> tuple[Account | None, str]:
    """Return the account as it was read last, or a new paper book, and a text that says where it comes from."""
    table, paper = config.venues[venue], config.mode_of(venue) is ExecutionMode.PAPER
    known = await records.ledger.permissions.last_account(venue, table.account, paper=paper)
    if known is not None:
        return known, f"{known.cash:.2f} {known.currency} were free at {known.at:%Y-%m-%d %H:%M} UTC"
    if not paper:
        return None, "not read yet; the daemon reads it, or: foxcast run --once"
    new_book = Account(at=SystemClock().now(), currency="", cash=table.paper.cash)
    return new_book, f"not read yet; assumed to be an empty paper book with {new_book.cash:.2f}"
