"""`foxcast close` and `withdraw`: sell positions, or withdraw a submitted forecast from its venue.

Positions are sold on paper or live regardless of the forecast, through the same gate as every order.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.app.app import open_app
from bot.app.plugin_factory import PluginFactory
from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.daemon_requests import (
    EXTRA_WAIT_S,
    TokenFileOption,
    read_refusal,
    sign_request,
    submit_request,
    wait_until_handled,
)
from bot.cli.lookup import QUESTION_HELP, require_configured_venue
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import (
    ConfigError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    StateFolderLockedError,
)
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import ClosePositions, PositionToClose, WithdrawForecast
from bot.core.orders import Account, Order, Position
from bot.core.submissions import ExecutionMode, HoldDecision
from bot.evaluation.account_holdings import load_portfolio
from bot.evaluation.lookup import find_question, query_ledger
from bot.evaluation.value_text import format_number
from bot.execution.gate.execution_policy import paper_venues, venue_policy
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import STOP_FILE, KillSwitch
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.submission_planning import DecisionContextBuilder
from bot.jobs.position_closing import closing_context
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
    TableColumn("proceeds", ColumnKind.NUMBER),
    TableColumn("note", ColumnKind.TEXT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingPreview:
    """The sale of one position as it would be made now; ``why`` says why it would not be made."""

    target: PositionToClose
    question: str
    title: str
    held: float
    currency: str
    order: Order | None = None
    why: str = ""
    cooldown_h: float = 0.0

    def with_reason(self, why: str) -> "ClosingPreview":
        """Return it with the reason why the sale would not be made."""
        return replace(self, why=why)

    def with_order(self, order: Order | None, *, cooldown_h: float) -> "ClosingPreview":
        """Return it with its order, and for how long the question is not bought again afterwards."""
        return replace(self, order=order, cooldown_h=cooldown_h)

    @property
    def proceeds(self) -> float:
        """Expected proceeds at the market prices that were read, after fees."""
        return 0.0 if self.order is None else self.order.shares * self.order.expected - self.order.fees


def print_closing_previews(console: Console, previews: Sequence[ClosingPreview]) -> None:
    """Print one row for each position."""
    rows = []
    for preview in previews:
        order = preview.order
        figures = (
            [format_number(order.shares), f"{order.expected:.4f}", f"{order.limit:.4f}"] if order else ["", "", ""]
        )
        proceeds = f"{format_number(preview.proceeds)} {preview.currency}" if order else ""
        rows.append(
            (
                preview.question or preview.target.contract,
                preview.title,
                str(preview.target.leg),
                format_number(preview.held),
                *figures,
                proceeds,
                preview.why,
            )
        )
    console.print(make_table(CLOSING_COLUMNS, rows))


def print_closing_results(console: Console, results: Sequence[ClosingResult]) -> None:
    """Print one line for each position."""
    for one in results:
        console.print(str(one))


def closing_summary(results: Sequence[ClosingResult], previews: Sequence[ClosingPreview]) -> str:
    """Return the last line: how many of the chosen positions are closed, the proceeds, and what follows."""
    closed = sum(one.state is ClosingState.CLOSED for one in results)
    cash: dict[str, float] = {}
    for one in results:
        cash[one.currency] = cash.get(one.currency, 0.0) + one.cash
    proceeds = ", ".join(f"{amount:.2f} {currency}" for currency, amount in cash.items() if currency)
    summary = f"{closed} of {len(previews)} positions closed for {proceeds or 'nothing'}"
    if pending := sum(one.state is ClosingState.PENDING for one in results):
        summary += f"; {pending} not known yet, see foxcast orders"
    if left := sum(one.state is ClosingState.PART for one in results):
        summary += f"; {left} partly closed, run it again for the rest"
    hours = max((one.cooldown_h for one in previews), default=0.0)
    return f"{summary}; not bought again for {hours:g} h (trading.cooldown_h)" if hours and closed else summary


def closing_to_json(one: ClosingPreview | ClosingResult) -> dict[str, Any]:
    """Return it as JSON values."""
    plain = asdict(one) if isinstance(one, ClosingResult) else asdict(replace(one, order=None))
    if isinstance(one, ClosingPreview):
        plain["order"] = None if one.order is None else ORDER_SERIALIZER.plain(one.order)
        plain["brings"] = one.proceeds
    return plain


app = typer.Typer(add_completion=False)


POSITION_HELP = (
    "A position: its question (venue:key or key) or contract as foxcast portfolio lists it, or a unique part."
)


# The daemon may take this much longer for each position.
WAIT_PER_POSITION_S = 30.0


# The jobs that prepare live venues and close positions, in this order, when no daemon runs.
CLOSING_JOBS = ("reconcile", "ready", "close")


CLOSING_REASON = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOptions:
    """Which positions are closed, and how that is confirmed."""

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
        message = "name a position, as foxcast portfolio lists it, or give --all"
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
    message = f"{count} positions would be sold; confirm with --yes, or preview with --dry-run"
    raise ConfigError(message)


def _closing_exit_code(results: Sequence[ClosingResult], count: int) -> ExitCode:
    states = [one.state for one in results]
    if len(states) == count and all(state is ClosingState.CLOSED for state in states):
        return ExitCode.DONE
    only_pending = len(states) == count and set(states) <= {ClosingState.CLOSED, ClosingState.PENDING}
    return ExitCode.UNAVAILABLE if only_pending else ExitCode.FAILED


async def _load_previews(config: Config, registry: Registry, options: CloseOptions) -> list[ClosingPreview]:
    """Return each chosen position with the sale that would be made now, or why it would not be made."""
    async with open_read_only(config) as records:
        holdings = await load_portfolio(records, options.venue, SystemClock().now())
        owned = [
            _OwnedPosition(venue=one.venue, account=one.account, position=held.position, title=held.title)
            for one in holdings
            if one.account is not None
            for held in one.positions
            if not held.position.decided
        ]
        chosen = owned if options.name is None else _find_positions(owned, options.name)
        if not chosen:
            message = "nothing is held" + (f" at {options.venue}" if options.venue else "")
            raise NotFoundError(message)
        specs = [registry.venues[name] for name in sorted({one.venue for one in chosen}) if name in registry.venues]
        limits = [limit for spec in specs for limit in spec.rates(load_plugin_settings(spec, config))]
        async with AsyncExitStack() as stack:
            plugins, _ = await open_read_only_plugins(config, registry, limits, clock=SystemClock(), stack=stack)
            return [await _preview_sale(plugins, records, one) for one in chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnedPosition:
    """A position, the account that holds it, and the title of its question."""

    venue: str
    account: Account
    position: Position
    title: str

    @property
    def names(self) -> list[str]:
        """The names under which it can be chosen."""
        ref = self.position.ref
        return [self.position.contract, *([str(ref), ref.key] if ref is not None else [])]


def _find_positions(owned: Sequence[_OwnedPosition], name: str) -> list[_OwnedPosition]:
    """Return the positions of one question or contract; raises NotFoundError unless the name fits exactly one."""
    exact = [one for one in owned if name in one.names]
    part = [one for one in owned if any(name in text for text in one.names)]
    found = exact or part
    if not found:
        message = f"no position fits {name}; list positions with: foxcast portfolio"
        raise NotFoundError(message)
    subjects = {str(one.position.ref or one.position.contract) for one in found}
    if len(subjects) > 1:
        message = f"{name} fits several questions; name one of {', '.join(sorted(subjects)[:5])}"
        raise NotFoundError(message)
    return found


async def _preview_sale(plugins: PluginFactory, records: ReadOnlyState, owned: _OwnedPosition) -> ClosingPreview:
    config, now = plugins.config, plugins.clock.now()
    venue, account, position = owned.venue, owned.account, owned.position
    preview = ClosingPreview(
        target=PositionToClose(venue=venue, contract=position.contract, leg=position.leg),
        question="" if position.ref is None else str(position.ref),
        title=owned.title,
        held=position.shares,
        currency=account.currency,
    )
    if config.mode_of(venue) is ExecutionMode.OFF or venue not in plugins.registry.venues:
        return preview.with_reason(f"{venue} is off, or its plugin is not enabled")
    policy = venue_policy(config, venue, plugins.registry.specs_of_table)
    planner, paper = await plugins.open_planner(venue), paper_venues({venue: policy})
    context_builder = DecisionContextBuilder(
        ledger=records.ledger,
        execution_policies={venue: policy},
        planners={} if planner is None else {venue: planner},
        # The process that sells checks readiness; the preview shows the state of the market.
        readiness=LiveReadiness(
            credentials={venue: ""},
            reconciliation={venue: ""},
            own_writes={venue: ""},
            clock="",
            database="",
            audit="",
        ),
        permissions=await records.ledger.permissions.read_status({venue: policy.account}, now=now, paper=paper),
    )
    context = await closing_context(context_builder, policy, account, position, why=CLOSING_REASON, now=now)
    if isinstance(context, str):
        return preview.with_reason(context)
    gate = Gate(kill_switch=KillSwitch(stop_file=config.state / STOP_FILE, ledger_file=records.folder / LEDGER_FILE))
    decision = gate.decide_closing(context)
    planned = preview.with_order(context.order, cooldown_h=policy.trading.cooldown_h)
    return planned.with_reason(decision.why) if isinstance(decision, HoldDecision) else planned


async def _execute_closing(
    config: Config, registry: Registry, previews: Sequence[ClosingPreview], token_file: Path | None
) -> list[ClosingResult]:
    """Sell the positions in this process, or through the process that uses the state folder; return the results."""
    folder, clock = state_folder(config), SystemClock()
    request = ClosePositions(by="", asked_at=clock.now(), targets=tuple(one.target for one in previews))
    path = requests.request_closing(folder, await sign_request(folder, request, token_file=token_file))
    try:
        async with open_app(config, registry, clock=clock) as opened:
            jobs = {job.name: job for job in opened.jobs()}
            for name in CLOSING_JOBS:
                await jobs[name].run()
            results = await requests.read_closing_results(opened.ledger, path.stem)
    except StateFolderLockedError:
        limit_s = config.daemon.requests_every_s + EXTRA_WAIT_S + WAIT_PER_POSITION_S * len(previews)
        return await _wait_for_results(folder, path, limit_s)
    except BaseException:
        withdraw_request(path)
        raise
    await _require_accepted(folder, path)
    return results


async def _wait_for_results(folder: Path, path: Path, limit_s: float) -> list[ClosingResult]:
    """Wait for the daemon and return its results; raises ServiceUnavailableError if it takes too long."""
    if not await wait_until_handled(path, limit_s=limit_s, clock=SystemClock()):
        message = f"requested, but the process that uses {folder} has not done it yet; follow it with: foxcast orders"
        raise ServiceUnavailableError(message)
    await _require_accepted(folder, path)
    async with open_ledger_read_only(folder / LEDGER_FILE) as ledger:
        return await requests.read_closing_results(ledger, path.stem)


async def _require_accepted(folder: Path, path: Path) -> None:
    """Raise RequestRejectedError, with the recorded reason, for a request that was refused."""
    if (reason := await read_refusal(folder, path, SystemClock())) is not None:
        message = f"it was refused: {reason}"
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

    def make_request(by: str, at: datetime) -> WithdrawForecast:
        return WithdrawForecast(by=by, asked_at=at, ref=ref, reason=reason)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))
