"""`foxcast close` and `withdraw`: sell positions, or withdraw a submitted forecast from its venue.

Positions are sold on paper or live regardless of the forecast, through the same gate as every order.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.app.app import open_app
from bot.app.plugin_factory import PluginFactory
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lookup import QUESTION_HELP, require_configured_venue
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.cli.output.formatting import format_number
from bot.cli.portfolio import load_portfolio
from bot.cli.shared_rates import open_shared_rates
from bot.cli.signed_requests import TokenFileOption, sign_request, submit_request
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    ConfigError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    StateFolderLockedError,
)
from bot.core.operator_requests import ClosePositions, PositionToClose, WithdrawForecast
from bot.core.orders import Account, Order, Position
from bot.core.submissions import ExecutionMode, HoldDecision
from bot.evaluation.lookup import find_question, query_ledger
from bot.execution.gate.execution_policy import paper_venues, venue_policy
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import STOP_FILE, KillSwitch
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.preflight import open_refusing_client
from bot.execution.submission_planning import DecisionContextBuilder
from bot.jobs.position_closing import closing_context
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store import requests
from bot.store.intents import ORDER_SERIALIZER
from bot.store.ledger import LEDGER_FILE, ReadOnlyState, open_ledger_read_only, open_read_only, state_folder
from bot.store.requests import ClosingResult, ClosingState, withdraw_request

CLOSING_COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("title", ColumnKind.TITLE),
    TableColumn("side"),
    TableColumn("held", ColumnKind.NUMBER),
    TableColumn("to sell", ColumnKind.NUMBER),
    TableColumn("price", ColumnKind.NUMBER),
    TableColumn("limit", ColumnKind.NUMBER),
    TableColumn("brings", ColumnKind.NUMBER),
    TableColumn("note", ColumnKind.TEXT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingPreview:
    """The sale of one position as it would be made now; ``why`` says what keeps it from being made."""

    target: PositionToClose
    question: str
    title: str
    held: float
    currency: str
    order: Order | None = None
    why: str = ""
    cooldown_h: float = 0.0

    def with_reason(self, why: str) -> "ClosingPreview":
        """Return it with what keeps the sale from being made."""
        return replace(self, why=why)

    def with_order(self, order: Order | None, *, cooldown_h: float) -> "ClosingPreview":
        """Return it with its order, and how long the question is not bought after that."""
        return replace(self, order=order, cooldown_h=cooldown_h)

    @property
    def brings(self) -> float:
        """What the sale would bring by the market as it was read, after fees."""
        return 0.0 if self.order is None else self.order.shares * self.order.expected - self.order.fees


def print_closing_previews(console: Console, previews: Sequence[ClosingPreview]) -> None:
    """Print one row for each position."""
    rows = []
    for one in previews:
        order = one.order
        figures = (
            [format_number(order.shares), f"{order.expected:.4f}", f"{order.limit:.4f}"] if order else ["", "", ""]
        )
        brings = f"{format_number(one.brings)} {one.currency}" if order else ""
        rows.append(
            (
                one.question or one.target.contract,
                one.title,
                str(one.target.leg),
                format_number(one.held),
                *figures,
                brings,
                one.why,
            )
        )
    console.print(make_table(CLOSING_COLUMNS, rows))


def print_closing_results(console: Console, results: Sequence[ClosingResult]) -> None:
    """Print one line for each position."""
    for one in results:
        console.print(str(one))


def closing_summary(results: Sequence[ClosingResult], previews: Sequence[ClosingPreview]) -> str:
    """Return the last line: how many are closed of those that were meant, for how much, and what follows."""
    closed = sum(one.state is ClosingState.CLOSED for one in results)
    cash: dict[str, float] = {}
    for one in results:
        cash[one.currency] = cash.get(one.currency, 0.0) + one.cash
    brought = ", ".join(f"{amount:.2f} {currency}" for currency, amount in cash.items() if currency)
    told = f"{closed} of {len(previews)} positions closed for {brought or 'nothing'}"
    if pending := sum(one.state is ClosingState.PENDING for one in results):
        told += f"; {pending} not known yet, see foxcast orders"
    if left := sum(one.state is ClosingState.PART for one in results):
        told += f"; {left} closed in part, ask again for the rest"
    hours = max((one.cooldown_h for one in previews), default=0.0)
    return f"{told}; not bought again for {hours:g} h (trading.cooldown_h)" if hours and closed else told


def closing_to_json(one: ClosingPreview | ClosingResult) -> dict[str, Any]:
    """Return it as JSON has it."""
    plain = asdict(one) if isinstance(one, ClosingResult) else asdict(replace(one, order=None))
    if isinstance(one, ClosingPreview):
        plain["order"] = None if one.order is None else ORDER_SERIALIZER.plain(one.order)
        plain["brings"] = one.brings
    return plain


app = typer.Typer(add_completion=False)


POSITION_HELP = (
    "A position: its question (venue:key or key) or contract as foxcast portfolio names it, or a unique part."
)


POLL_EVERY_S = 0.2


# Beyond how often the daemon looks, so long it may take over the request, and over each position.
EXTRA_WAIT_S, WAIT_PER_POSITION_S = 10.0, 30.0


MAX_NOTES_READ = 100


# What readies live venues, and what closes, in this order where no daemon does it.
CLOSING_JOBS = ("reconcile", "ready", "close")


CLOSING_REASON = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOptions:
    """Which positions, and how it is agreed to."""

    name: Annotated[str | None, typer.Argument(metavar="ID", help=POSITION_HELP)] = None
    everything: Annotated[bool, typer.Option("--all", help="Close every position, or every position at --venue.")] = (
        False
    )
    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only at this venue.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sold; sell nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Sell without asking.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; needs --yes or --dry-run.")] = False
    token_file: TokenFileOption = None


@app.command()
@options_from_dataclass(CloseOptions)
def close(ctx: typer.Context, options: CloseOptions) -> None:
    """Close positions in a question, or all positions, regardless of the forecast.

    Nothing is sold while a halt is active, or at a live venue that is not armed or not ready. The question is not
    bought again for trading.cooldown_h hours. Other questions are still traded; to stop that, disarm the venue.
    """
    config, registry = load_config_and_plugins(ctx)
    if (options.name is None) is not options.everything:
        message = "say which: an ID, as foxcast portfolio names it, or --all"
        raise ConfigError(message)
    if options.venue is not None:
        require_configured_venue(config, options.venue)
    previews = asyncio.run(_load_previews(config, registry, options))
    sellable = [one for one in previews if one.order is not None and not one.why]
    if not options.as_json:
        print_closing_previews(stdout_console(), previews)
    if options.dry_run:
        if options.as_json:
            print_json([closing_to_json(one) for one in previews])
        else:
            stdout_console().print(
                f"{len(sellable)} of {len(previews)} positions would be sold; nothing was (--dry-run)"
            )
        return
    if not sellable:
        message = f"nothing can be sold now: {previews[0].why}"
        raise RequestRejectedError(message)
    _confirm_sale(len(sellable), yes=options.yes)
    results = asyncio.run(_execute_closing(config, registry, sellable, options.token_file))
    if options.as_json:
        print_json([closing_to_json(one) for one in results])
    else:
        print_closing_results(stdout_console(), results)
        stdout_console().print(closing_summary(results, previews))
    raise typer.Exit(_closing_exit_code(results, len(previews)))


def _confirm_sale(count: int, *, yes: bool) -> None:
    if yes or (sys.stdin.isatty() and typer.confirm(f"Sell {count} positions?", err=True)):
        return
    message = f"{count} positions would be sold; say yes with --yes, or look first with --dry-run"
    raise ConfigError(message)


def _closing_exit_code(results: Sequence[ClosingResult], wanted: int) -> ExitCode:
    states = [one.state for one in results]
    if len(states) == wanted and all(state is ClosingState.CLOSED for state in states):
        return ExitCode.DONE
    only_pending = len(states) == wanted and set(states) <= {ClosingState.CLOSED, ClosingState.PENDING}
    return ExitCode.UNAVAILABLE if only_pending else ExitCode.FAILED


async def _load_previews(config: Config, registry: Registry, options: CloseOptions) -> list[ClosingPreview]:
    """Return what is meant, each with the sale as it would be made now, or why it would not be."""
    async with open_read_only(config) as records:
        holdings = await load_portfolio(records, options.venue, SystemClock().now())
        found = [
            _OwnedPosition(venue=one.venue, account=one.account, position=held.position, title=held.title)
            for one in holdings
            if one.account is not None
            for held in one.positions
            if not held.position.decided
        ]
        wanted = found if options.name is None else _find_positions(found, options.name)
        if not wanted:
            message = "nothing is held" + (f" at {options.venue}" if options.venue else "")
            raise NotFoundError(message)
        async with _open_planners(config, registry, {one.venue for one in wanted}) as outfitter:
            return [await _preview_sale(outfitter, records, one) for one in wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnedPosition:
    """A position, the account that holds it, and the title of its question."""

    venue: str
    account: Account
    position: Position
    title: str

    @property
    def names(self) -> list[str]:
        """What it may be called."""
        ref = self.position.ref
        return [self.position.contract, *([str(ref), ref.key] if ref is not None else [])]


def _find_positions(owned: Sequence[_OwnedPosition], name: str) -> list[_OwnedPosition]:
    """Return the positions of one question or contract; raises NotFound where none or several are meant."""
    exact = [one for one in owned if name in one.names]
    part = [one for one in owned if any(name in text for text in one.names)]
    found = exact or part
    if not found:
        message = f"nothing is held of {name}; list what is with: foxcast portfolio"
        raise NotFoundError(message)
    subjects = {str(one.position.ref or one.position.contract) for one in found}
    if len(subjects) > 1:
        message = f"{name} is not one question; name one of {', '.join(sorted(subjects)[:5])}"
        raise NotFoundError(message)
    return found


@asynccontextmanager
async def _open_planners(config: Config, registry: Registry, venues: set[str]) -> AsyncIterator[PluginFactory]:
    """Open what planners read with, at the rates that a daemon keeps too; nothing can be sent with it."""
    clock, random = SystemClock(), SeededRandom(config.seed)
    specs = [registry.venues[venue] for venue in sorted(venues) if venue in registry.venues]
    rates_wanted = [rate for spec in specs for rate in spec.rates(load_plugin_settings(spec, config))]
    async with AsyncExitStack() as stack:
        rates = await open_shared_rates(config, rates_wanted, clock=clock, random=random, stack=stack)
        client = RetryingHttpClient(clock=clock, random=random, rates=rates, proxies=config.http.proxies)
        http = await stack.enter_async_context(client)
        yield PluginFactory(
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


async def _preview_sale(outfitter: PluginFactory, records: ReadOnlyState, owned: _OwnedPosition) -> ClosingPreview:
    config, now = outfitter.config, outfitter.clock.now()
    venue, account, position = owned.venue, owned.account, owned.position
    target = PositionToClose(venue=venue, contract=position.contract, leg=position.leg)
    preview = ClosingPreview(
        target=target,
        question="" if position.ref is None else str(position.ref),
        title=owned.title,
        held=position.shares,
        currency=account.currency,
    )
    if config.mode_of(venue) is ExecutionMode.OFF or venue not in outfitter.registry.venues:
        return preview.with_reason(f"{venue} is off, or its plugin is not enabled")
    lane = venue_policy(config, venue, outfitter.registry.specs_of_table)
    planner, paper = await outfitter.open_planner(venue), paper_venues({venue: lane})
    around = DecisionContextBuilder(
        ledger=records.ledger,
        execution_policies={venue: lane},
        planners={} if planner is None else {venue: planner},
        # Whoever sells looks at this; the command shows what the market gives.
        readiness=LiveReadiness(credentials={venue: ""}, reconciliation={venue: ""}, clock="", database="", audit=""),
        permissions=await records.ledger.permissions.read_status({venue: lane.account}, now=now, paper=paper),
    )
    case = await closing_context(around, lane, account, position, why=CLOSING_REASON, now=now)
    if isinstance(case, str):
        return preview.with_reason(case)
    gate = Gate(kill_switch=KillSwitch(stop_file=config.state / STOP_FILE, ledger_file=records.folder / LEDGER_FILE))
    decision = gate.decide_closing(case)
    planned = preview.with_order(case.order, cooldown_h=lane.trading.cooldown_h)
    return planned.with_reason(decision.why) if isinstance(decision, HoldDecision) else planned


async def _execute_closing(
    config: Config, registry: Registry, previews: Sequence[ClosingPreview], token_file: Path | None
) -> list[ClosingResult]:
    """Have the positions sold by whoever uses the state folder, else here, and return what became of each."""
    folder, clock = state_folder(config), SystemClock()
    request = ClosePositions(by="", asked_at=clock.now(), targets=tuple(one.target for one in previews))
    path = requests.request_closing(folder, await sign_request(folder, request, token_file=token_file))
    try:
        async with open_app(config, registry, clock=clock) as opened:
            jobs = {job.name: job for job in opened.jobs()}
            for name in CLOSING_JOBS:
                await jobs[name].run()
            found = await requests.read_closing_results(opened.ledger, path.stem)
    except StateFolderLockedError:
        limit_s = config.daemon.requests_every_s + EXTRA_WAIT_S + WAIT_PER_POSITION_S * len(previews)
        return await _wait_for_daemon(folder, path, limit_s)
    except BaseException:
        withdraw_request(path)
        raise
    await _require_accepted(folder, path)
    return found


async def _wait_for_daemon(folder: Path, path: Path, limit_s: float) -> list[ClosingResult]:
    """Wait for the daemon to do the request and return what became of it; raises Unavailable if it takes too long."""
    clock = SystemClock()
    for _ in range(int(limit_s / POLL_EVERY_S)):
        if not requests.is_pending(path):
            await _require_accepted(folder, path)
            async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
                return await requests.read_closing_results(ledger, path.stem)
        await clock.sleep(POLL_EVERY_S)
    message = f"asked for, and the process that uses {folder} has not done it yet; follow it with: foxcast orders"
    raise ServiceUnavailableError(message)


async def _require_accepted(folder: Path, path: Path) -> None:
    """Raise Rejected, with the reason on record, for a request that was put aside."""
    if path.name not in requests.refused_closings(folder):
        return
    async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
        notes = await ledger.events.recent(MAX_NOTES_READ, "request")
    why = next((note.text.partition(": ")[2] for note in notes if path.stem in note.text), "look into that file")
    message = f"it was refused: {why}"
    raise RequestRejectedError(message)


withdraw_app = typer.Typer(add_completion=False)


@withdraw_app.command()
def withdraw(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=QUESTION_HELP)],
    *,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, recorded in the audit and with the submission.")
    ] = "",
    token_file: TokenFileOption = None,
) -> None:
    """Withdraw a submitted forecast from its venue."""
    config, registry = load_config_and_plugins(ctx)
    ref = query_ledger(config, lambda records: find_question(records, name))

    def make(by: str, at: datetime) -> WithdrawForecast:
        return WithdrawForecast(by=by, asked_at=at, ref=ref, reason=reason)

    stdout_console().print(submit_request(config, registry, make, token_file=token_file))
