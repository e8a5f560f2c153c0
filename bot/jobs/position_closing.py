"""Close positions when people, a stop-loss or a take-profit request it.

Closing orders pass the same gate and outbox as every other order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError, describe_error, describe_error_with_type
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, ClosingPlanner, OrderPlanner, TradingSubmitter
from bot.core.operator_requests import ClosePositions, PositionToClose
from bot.core.orders import Account, ClosingProposal, OrderPlan, Position
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.gate import Gate
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.outbox.outbox import Outbox
from bot.execution.submission_planning import DecisionContextBuilder, decision_rule
from bot.jobs.privileged_requests import authorize_request
from bot.store import requests, submission_queries
from bot.store.audit_log import AuditRow
from bot.store.decisions import SnapshotRequest
from bot.store.ledger import Ledger
from bot.store.requests import ClosingResult, ClosingState

log = structlog.get_logger(__name__)


# After a sale without result, a policy tries again after this time.
POLICY_RETRY_AFTER = timedelta(minutes=10)


# Venues sell whole hundredths; a position with less than that left counts as closed.
MIN_SHARES = 0.01


_PENDING_STATES = frozenset(
    {IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT, IntentState.PLANNED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingContext:
    """What is needed to close positions; people put their requests in ``folder``."""

    folder: Path
    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    readiness: LiveReadiness | None = None

    async def context_builder(self) -> DecisionContextBuilder:
        """Return the state of all execution policies now."""
        accounts = {venue: lane.account for venue, lane in self.execution_policies.items()}
        now = self.clock.now()
        return DecisionContextBuilder(
            ledger=self.ledger,
            execution_policies=self.execution_policies,
            planners=self.planners,
            readiness=self.readiness,
            permissions=await self.ledger.permissions.read_status(
                accounts, now=now, paper=paper_venues(self.execution_policies)
            ),
        )


async def close_requested_positions(parts: ClosingContext) -> str:
    """Handle each waiting request, record each position's result, and remove it; put aside what makes no sense."""
    done, refused, sold = 0, 0, 0
    for request in requests.pending_closings(parts.folder):
        name = request.path.stem
        try:
            asked = request.read()
            authorize_request(asked, await parts.ledger.permissions.principals(), now=parts.clock.now())
            found = await close_positions(parts, asked, name)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one faulty request must not stop the ones behind it
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {describe_error(error)}"
            log.warning("request refused", request=request.path.name, why=describe_error(error))
        else:
            done += 1
            closed = sum(one.state is ClosingState.CLOSED for one in found)
            sold += closed
            note = f"{closed} of {len(found)} positions closed for {asked.by} [{name}]"
            request.done()
        await parts.ledger.events.add_event("request", note, at=parts.clock.now())
    return f"{done} requests done, {sold} positions closed" + (f", {refused} refused" if refused else "")


async def close_positions(parts: ClosingContext, asked: ClosePositions, name: str) -> list[ClosingResult]:
    """Close the positions that a person named, one after the other; ``name`` is that of the request."""
    around, accounts = await parts.context_builder(), dict[str, Account | str]()
    await _audit_closing(parts, asked)
    found = []
    for target in asked.targets:
        if target.venue not in accounts:
            accounts[target.venue] = await read_account(parts, target.venue)
        result = await _close_target(parts, around, target, accounts[target.venue], f"{asked.by} asked for it")
        result = replace(result, request=name)
        await requests.record_closing_result(parts.ledger, result, at=parts.clock.now())
        log.info("position closed", state=result.state, venue=target.venue, contract=target.contract, told=str(result))
        found.append(result)
    for venue in accounts:
        await _refresh_reading(parts, venue)
    return found


async def _refresh_reading(parts: ClosingContext, venue: str) -> None:
    """Record a new reading of an account, so that reports on it show the sales."""
    account, lane = await read_account(parts, venue), parts.execution_policies.get(venue)
    if lane is not None and not isinstance(account, str):
        await parts.ledger.readings.add(venue, lane.account, account, paper=not lane.is_live)


async def read_account(parts: ClosingContext, venue: str) -> Account | str:
    """Read an account and its positions with the questions they were bought for, or return why it cannot be read."""
    trader, lane = parts.outbox.submitters.get(venue), parts.execution_policies.get(venue)
    if not isinstance(trader, TradingSubmitter) or lane is None:
        return f"{venue} has no account that can sell; check that it is not off and that its plugin is enabled"
    try:
        return await link_questions(parts.ledger, lane, await trader.account())
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {describe_error_with_type(error)}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def link_questions(ledger: Ledger, lane: ExecutionPolicy, account: Account) -> Account:
    """Return the account with the questions that its positions were bought for, where the venue names contracts."""
    contracts = {one.contract for one in account.positions if one.ref is None}
    known = await ledger.submissions.readers.run(
        lambda database: submission_queries.read_traded_contracts(database, lane.venue, lane.account, contracts)
    )

    def position(one: Position) -> Position:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref, option=one.option or found.option)

    return replace(account, positions=tuple(position(one) for one in account.positions))


async def closing_context(
    around: DecisionContextBuilder,
    lane: ExecutionPolicy,
    account: Account,
    position: Position,
    *,
    why: str,
    now: datetime,
) -> DecisionContext | str:
    """Return the decision context of a position to sell, with its plan; or why there can be none."""
    planner = around.planners.get(lane.venue)
    if not isinstance(planner, ClosingPlanner):
        return f"{lane.venue} has no planner that sells"
    forecast = None if position.ref is None else await _position_forecast(around.ledger, lane, position)
    if forecast is None:
        return "no recorded forecast is for its question, so Foxcast cannot identify it; sell it at the venue"
    asked = SnapshotRequest(
        ref=forecast.ref,
        forecaster=forecast.forecaster,
        revision=forecast.revision,
        account=lane.account,
        paper=not lane.is_live,
    )
    (docket,) = await around.ledger.decision_snapshots.read_snapshots([asked], now=now)
    case = await around.build_context(forecast, docket, now)
    wish = ClosingProposal(question=docket.question, position=position, account=account, now=now)
    try:
        plan = await planner.plan_closing(wish)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"no plan: {describe_error_with_type(error)}"
    except Exception as error:
        log.exception("planner failed", question=str(forecast.ref))
        return f"the planner failed: {type(error).__name__}"
    return replace(case, plan=_mark_as_closing(plan, why))


async def close_position(
    parts: ClosingContext, around: DecisionContextBuilder, account: Account, position: Position, *, venue: str, why: str
) -> ClosingResult:
    """Sell one position and return the result in words."""
    result = ClosingResult(
        request="",
        venue=venue,
        question=str(position.ref.key) if position.ref is not None else "",
        contract=position.contract,
        leg=position.leg,
        held=position.shares,
        state=ClosingState.HELD,
        currency=account.currency,
    )
    found = await closing_context(
        around, parts.execution_policies[venue], account, position, why=why, now=parts.clock.now()
    )
    if isinstance(found, str):
        return replace(result, why=found)
    case = replace(found, now=parts.clock.now())
    decision = await parts.ledger.submissions.decide_by(
        decision_rule(case, parts.gate.decide_closing),
        forecast_id=case.forecast.id,
        at=case.now,
    )
    if isinstance(decision, HoldDecision):
        return replace(result, why=decision.why)
    await parts.outbox.flush()
    return await _read_result(parts, result, decision.intent.id)


async def _close_target(
    parts: ClosingContext, around: DecisionContextBuilder, target: PositionToClose, account: Account | str, why: str
) -> ClosingResult:
    nothing = ClosingResult(
        request="",
        venue=target.venue,
        question="",
        contract=target.contract,
        leg=target.leg,
        held=0.0,
        state=ClosingState.HELD,
    )
    if isinstance(account, str):
        return replace(nothing, why=account)
    for position in account.positions:
        if (position.contract, position.leg) == (target.contract, target.leg):
            return await close_position(parts, around, account, position, venue=target.venue, why=why)
    return replace(nothing, why="no shares of it are held")


async def _read_result(parts: ClosingContext, result: ClosingResult, intent: str) -> ClosingResult:
    """Read the result of the order: its fills are what is known to be sold."""
    row, fills = await parts.ledger.submissions.get(intent), await parts.ledger.submissions.fills(intent)
    sold, cash = sum(one.shares for one in fills), sum(one.cash for one in fills)
    state, why = ClosingState.PART, row.detail
    if sold >= result.held - MIN_SHARES:
        state, why = ClosingState.CLOSED, ""
    elif row.state in _PENDING_STATES:
        state, why = ClosingState.PENDING, f"{row.state}; the result is read back later. {row.detail}".strip()
    elif row.state is IntentState.ACKED and not fills:
        state, why = ClosingState.PENDING, f"accepted by the venue, not settled yet. {row.detail}".strip()
    elif not fills:
        state, why = ClosingState.HELD, row.detail or f"the order is {row.state}"
    return replace(result, state=state, why=why, sold=sold, cash=cash, intent=intent)


async def _position_forecast(ledger: Ledger, lane: ExecutionPolicy, position: Position) -> Forecast | None:
    """Return the forecast that the position was bought for, else the newest of the leading forecaster."""
    if position.ref is None:
        return None
    standing = await ledger.submissions.read_standing(position.ref, lane.account, paper=not lane.is_live)
    if standing is not None:
        return await ledger.forecasts.get(standing.forecast)
    history: Sequence[Forecast] = await ledger.forecasts.history(position.ref)
    return history[-1] if history else None


def _mark_as_closing(plan: OrderPlan, why: str) -> OrderPlan:
    return plan if plan.order is None else replace(plan, order=replace(plan.order, closing=why))


async def _audit_closing(parts: ClosingContext, asked: ClosePositions) -> None:
    """Record in the audit who closes what, except for paper."""
    for venue in dict.fromkeys(target.venue for target in asked.targets):
        lane = parts.execution_policies.get(venue)
        if lane is None or lane.mode is ExecutionMode.PAPER:
            continue
        names = [f"{one.leg} {one.contract}" for one in asked.targets if one.venue == venue]
        body = {"positions": "; ".join(names), "count": str(len(names))}
        row = AuditRow(at=parts.clock.now(), kind="close", venue=venue, actor=asked.by, body=body)
        await parts.ledger.permissions.write_with_audit(lambda _: None, row)


stop_loss_log = structlog.get_logger(__name__)


# A position worth so little, in the venue's currency, is not worth an order.
MIN_WORTH = 0.01


def exit_reason(lane: ExecutionPolicy, position: Position, currency: str) -> str | None:
    """Return why the policy of a venue sells a position now, or nothing.

    ``mark`` is the price at which all of it could be sold. A position without a buyer is kept, as is one whose outcome
    is known.
    """
    trading, paid = lane.trading, position.paid
    if position.mark is None or position.decided or paid <= 0.0:
        return None
    brings = position.shares * position.mark
    if brings < MIN_WORTH:
        return None
    told = f"selling would bring {brings:.2f} of the {paid:.2f} {currency} that it cost"
    if trading.stop_loss is not None and brings <= paid * (1.0 - trading.stop_loss):
        return f"stop-loss: {told} (trading.stop_loss = {trading.stop_loss:g})"
    if trading.take_profit is not None and brings >= paid * (1.0 + trading.take_profit):
        return f"take-profit: {told} (trading.take_profit = {trading.take_profit:g})"
    return None


def has_exit_policy(lane: ExecutionPolicy) -> bool:
    """Return whether a policy sells positions at a venue at all."""
    return lane.trading.stop_loss is not None or lane.trading.take_profit is not None


async def close_by_policy(
    parts: ClosingContext, around: DecisionContextBuilder, lane: ExecutionPolicy, account: Account
) -> tuple[Account, Sequence[ClosingResult]]:
    """Sell what the policy says, one after the other; return the account without it, and the result of each sale."""
    account, sold = await link_questions(parts.ledger, lane, account), list[ClosingResult]()
    for position in account.positions:
        why = exit_reason(lane, position, account.currency)
        if why is None or (objection := await _exit_objection(parts, around, lane, position)) is None:
            continue
        if objection:
            stop_loss_log.warning("not sold by policy", contract=position.contract, why=why, because=objection)
            continue
        done = await close_position(parts, around, account, position, venue=lane.venue, why=why)
        result, now = replace(done, reason=why), parts.clock.now()
        await requests.record_closing_result(parts.ledger, result, at=now)
        await parts.ledger.events.add_event("alert", f"{lane.venue}: {result}", at=now)
        sold.append(result)
    gone = {(one.contract, one.leg) for one in sold}
    left = tuple(one for one in account.positions if (one.contract, one.leg) not in gone)
    return replace(account, positions=left), sold


async def _exit_objection(
    parts: ClosingContext, around: DecisionContextBuilder, lane: ExecutionPolicy, position: Position
) -> str | None:
    """Return "" where it may be sold now, None where a sale was tried recently, else why it is not sold."""
    now = parts.clock.now()
    if position.ref is None or not await around.ledger.forecasts.history(position.ref):
        return "no recorded forecast is for its question"
    if lane.mode is ExecutionMode.APPROVE:
        return f"{lane.venue} is in mode approve; sell it with: foxcast close {position.ref.key}"
    asked = SnapshotRequest(ref=position.ref, forecaster="", revision=0, account=lane.account, paper=not lane.is_live)
    (docket,) = await around.ledger.decision_snapshots.read_snapshots([asked], now=now)
    if docket.closed_at is not None and now - docket.closed_at < POLICY_RETRY_AFTER:
        return None
    return "" if docket.locked is None else f"locked: {docket.locked}"
