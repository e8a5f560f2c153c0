"""Close positions when people, a stop-loss or a take-profit request it.

Closing orders pass the same gate and outbox as every other order.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError, describe_error, describe_error_with_type
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, ClosingPlanner, OrderPlanner, TradingSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import ClosePositions, PositionToClose
from bot.core.orders import Account, ClosingProposal, OrderPlan, OrderSide, Position
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.gate import Gate
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.outbox.outbox import Outbox
from bot.execution.submission_planning import DecisionContextBuilder, decision_rule, drop_impossible_order
from bot.jobs.privileged_requests import authorize_request
from bot.store import requests, submission_queries
from bot.store.audit_log import AuditRow
from bot.store.decisions import SnapshotRequest
from bot.store.ledger import Ledger
from bot.store.requests import ClosingResult, ClosingState

log = structlog.get_logger(__name__)


# After a sale without result, a policy tries again after this time.
POLICY_RETRY_AFTER = timedelta(minutes=10)


# Sales whose run ended before their result was on record are looked for as long.
LOST_SALE_AGE = timedelta(days=7)


# The beginnings of the reasons for which a policy sells.
STOP_LOSS_REASON, TAKE_PROFIT_REASON = "stop-loss:", "take-profit:"


# Venues sell whole hundredths; a position with less than that left counts as closed.
MIN_SHARES = 0.01


_PENDING_STATES = frozenset(
    {IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT, IntentState.PLANNED}
)


ReadinessRefresh = Callable[[], Awaitable[None]]


async def refresh_nothing() -> None:
    """Do nothing: no venue is live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingContext:
    """What is needed to close positions; people put their requests in ``folder``.

    ``refresh_readiness`` brings ``readiness`` up to date before positions are closed.
    """

    folder: Path
    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    readiness: LiveReadiness | None = None
    refresh_readiness: ReadinessRefresh = refresh_nothing

    async def context_builder(self) -> DecisionContextBuilder:
        """Return the state of all execution policies now."""
        accounts = {venue: policy.account for venue, policy in self.execution_policies.items()}
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


async def close_requested_positions(job: ClosingContext) -> str:
    """Handle each waiting request, record the result of each position, and remove it; put aside an impossible one."""
    done, refused, sold = 0, 0, 0
    for request in requests.pending_closings(job.folder):
        name = request.path.stem
        try:
            asked = request.read()
            authorize_request(asked, await job.ledger.permissions.principals(), now=job.clock.now())
            found = await close_positions(job, asked, name)
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
        await job.ledger.events.add_event("request", note, at=job.clock.now())
    return f"{done} requests done, {sold} positions closed" + (f", {refused} refused" if refused else "")


async def close_positions(job: ClosingContext, asked: ClosePositions, name: str) -> list[ClosingResult]:
    """Close the positions that a person named, one after the other; ``name`` is that of the request."""
    await job.refresh_readiness()
    builder, accounts = await job.context_builder(), dict[str, Account | str]()
    await _audit_closing(job, asked)
    found = []
    for target in asked.targets:
        if target.venue not in accounts:
            accounts[target.venue] = await read_account(job, target.venue)
        result = await _close_target(job, builder, target, accounts[target.venue], f"{asked.by} asked for it")
        result = replace(result, request=name)
        await requests.record_closing_result(job.ledger, result, at=job.clock.now())
        log.info(
            "closing of a position",
            state=result.state,
            venue=target.venue,
            contract=target.contract,
            result=str(result),
        )
        found.append(result)
    for venue in accounts:
        await _refresh_reading(job, venue)
    return found


async def _refresh_reading(job: ClosingContext, venue: str) -> None:
    """Record a new reading of an account, so that reports on it show the sales."""
    account, policy = await read_account(job, venue), job.execution_policies.get(venue)
    if policy is not None and not isinstance(account, str):
        await job.ledger.readings.add(venue, policy.account, account, paper=not policy.is_live)


async def read_account(job: ClosingContext, venue: str) -> Account | str:
    """Read an account and its positions with the questions they were bought for, or return why it cannot be read."""
    submitter, policy = job.outbox.submitters.get(venue), job.execution_policies.get(venue)
    if not isinstance(submitter, TradingSubmitter) or policy is None:
        return f"{venue} has no account that can sell; check that it is not off and that its plugin is enabled"
    try:
        return await link_questions(job.ledger, policy, await submitter.account())
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {describe_error_with_type(error)}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def link_questions(ledger: Ledger, policy: ExecutionPolicy, account: Account) -> Account:
    """Return the account with the questions that its positions were bought for, where the venue names contracts."""
    contracts = {one.contract for one in account.positions if one.ref is None}
    known = await ledger.submissions.readers.run(
        lambda database: submission_queries.read_traded_contracts(database, policy.venue, policy.account, contracts)
    )

    def position(one: Position) -> Position:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref, option=one.option or found.option)

    return replace(account, positions=tuple(position(one) for one in account.positions))


async def closing_context(
    builder: DecisionContextBuilder,
    policy: ExecutionPolicy,
    account: Account,
    position: Position,
    *,
    why: str,
    now: datetime,
) -> DecisionContext | str:
    """Return the decision context of a position to sell, with its plan, or why there is none."""
    planner = builder.planners.get(policy.venue)
    if not isinstance(planner, ClosingPlanner):
        return f"{policy.venue} has no planner that sells"
    forecast = None if position.ref is None else await _position_forecast(builder.ledger, policy, position)
    if forecast is None:
        return "no recorded forecast is for its question, so Foxcast cannot identify it; sell it at the venue"
    asked = SnapshotRequest(
        ref=forecast.ref,
        forecaster=forecast.forecaster,
        revision=forecast.revision,
        account=policy.account,
        paper=not policy.is_live,
    )
    (snapshot,) = await builder.ledger.decision_snapshots.read_snapshots([asked], now=now)
    context = await builder.build_context(forecast, snapshot, now)
    proposal = ClosingProposal(question=snapshot.question, position=position, account=account, now=now)
    try:
        plan = await planner.plan_closing(proposal)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"no plan: {describe_error_with_type(error)}"
    except Exception as error:
        log.exception("planner failed", question=str(forecast.ref))
        return f"the planner failed: {type(error).__name__}"
    if plan.order is not None and plan.order.side is OrderSide.BUY:
        return "no plan: the planner buys instead of selling"
    plan = drop_impossible_order(plan, forecast.ref, replace(account, positions=(position,)))
    return replace(context, plan=_mark_as_closing(plan, why))


async def close_position(
    job: ClosingContext, builder: DecisionContextBuilder, account: Account, position: Position, *, venue: str, why: str
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
        builder, job.execution_policies[venue], account, position, why=why, now=job.clock.now()
    )
    if isinstance(found, str):
        return replace(result, why=found)
    context = replace(found, now=job.clock.now())
    decision = await job.ledger.submissions.decide_by(
        decision_rule(context, job.gate.decide_closing),
        forecast_id=context.forecast.id,
        at=context.now,
    )
    if isinstance(decision, HoldDecision):
        return replace(result, why=decision.why)
    await job.outbox.flush()
    return await _read_result(job, result, decision.intent.id)


async def _close_target(
    job: ClosingContext, builder: DecisionContextBuilder, target: PositionToClose, account: Account | str, why: str
) -> ClosingResult:
    not_held = ClosingResult(
        request="",
        venue=target.venue,
        question="",
        contract=target.contract,
        leg=target.leg,
        held=0.0,
        state=ClosingState.HELD,
    )
    if isinstance(account, str):
        return replace(not_held, why=account)
    for position in account.positions:
        if (position.contract, position.leg) == (target.contract, target.leg):
            return await close_position(job, builder, account, position, venue=target.venue, why=why)
    for sale in await _read_lost_sales(job, job.execution_policies[target.venue]):
        if (sale.contract, sale.leg, sale.reason) == (target.contract, target.leg, why):
            return await _read_result(job, replace(sale, reason=""), sale.intent)
    return replace(not_held, why="no shares of it are held")


async def report_lost_sales(job: ClosingContext) -> None:
    """Report each sale by policy whose run ended between the order and the record of its result."""
    for policy in job.execution_policies.values():
        for sale in await _read_lost_sales(job, policy):
            if sale.reason.startswith((STOP_LOSS_REASON, TAKE_PROFIT_REASON)):
                await _report_policy_sale(job, await _read_result(job, sale, sale.intent))


async def _read_lost_sales(job: ClosingContext, policy: ExecutionPolicy) -> list[ClosingResult]:
    """Return the sales without a result on record; ``reason`` is what the order says."""
    since = job.clock.now() - LOST_SALE_AGE
    rows = await requests.read_unreported_sales(job.ledger, policy.venue, policy.account, since=since)
    return [
        ClosingResult(
            request="",
            venue=policy.venue,
            question=str(row.intent.ref.key),
            contract=order.contract,
            leg=order.leg,
            held=order.shares,
            state=ClosingState.HELD,
            currency=order.currency,
            intent=row.intent.id,
            reason=order.closing,
        )
        for row in rows
        if (order := row.intent.order) is not None
    ]


async def _report_policy_sale(job: ClosingContext, result: ClosingResult) -> None:
    await requests.record_closing_result(job.ledger, result, at=job.clock.now(), alert=f"{result.venue}: {result}")


async def _read_result(job: ClosingContext, result: ClosingResult, intent: str) -> ClosingResult:
    """Read the result of the order: its fills are what is known to be sold."""
    row, fills = await job.ledger.submissions.get(intent), await job.ledger.submissions.fills(intent)
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


async def _position_forecast(ledger: Ledger, policy: ExecutionPolicy, position: Position) -> Forecast | None:
    """Return the forecast that the position was bought for, else the newest of the leading forecaster."""
    if position.ref is None:
        return None
    standing = await ledger.submissions.read_standing(position.ref, policy.account, paper=not policy.is_live)
    if standing is not None:
        return await ledger.forecasts.get(standing.forecast)
    history: Sequence[Forecast] = await ledger.forecasts.history(position.ref)
    return history[-1] if history else None


def _mark_as_closing(plan: OrderPlan, why: str) -> OrderPlan:
    return plan if plan.order is None else replace(plan, order=replace(plan.order, closing=why))


async def _audit_closing(job: ClosingContext, asked: ClosePositions) -> None:
    """Record in the audit who closes what, except for paper."""
    for venue in dict.fromkeys(target.venue for target in asked.targets):
        policy = job.execution_policies.get(venue)
        if policy is None or policy.mode is ExecutionMode.PAPER:
            continue
        names = [f"{one.leg} {one.contract}" for one in asked.targets if one.venue == venue]
        body = {"positions": "; ".join(names), "count": str(len(names))}
        row = AuditRow(at=job.clock.now(), kind="close", venue=venue, actor=asked.by, body=body)
        await job.ledger.permissions.write_with_audit(lambda _: None, row)


stop_loss_log = structlog.get_logger(__name__)


# A position worth so little, in the venue's currency, is not worth an order.
MIN_WORTH = 0.01


def exit_reason(policy: ExecutionPolicy, position: Position, currency: str) -> str | None:
    """Return why the policy of a venue sells a position now, or nothing.

    ``mark`` is the price at which all of it could be sold. A position without a buyer is kept, as is one whose outcome
    is known, and one whose price cannot be read.
    """
    trading, paid = policy.trading, position.paid
    if position.mark is None or position.decided or position.is_unpriced or paid <= 0.0:
        return None
    proceeds = position.shares * position.mark
    if proceeds < MIN_WORTH:
        return None
    comparison = f"selling would bring {proceeds:.2f} of the {paid:.2f} {currency} that it cost"
    if trading.stop_loss is not None and proceeds <= paid * (1.0 - trading.stop_loss):
        return f"{STOP_LOSS_REASON} {comparison} (trading.stop_loss = {trading.stop_loss:g})"
    if trading.take_profit is not None and proceeds >= paid * (1.0 + trading.take_profit):
        return f"{TAKE_PROFIT_REASON} {comparison} (trading.take_profit = {trading.take_profit:g})"
    return None


def has_exit_policy(policy: ExecutionPolicy) -> bool:
    """Return whether a policy sells positions at a venue at all."""
    return policy.trading.stop_loss is not None or policy.trading.take_profit is not None


async def close_by_policy(
    job: ClosingContext, builder: DecisionContextBuilder, policy: ExecutionPolicy, account: Account
) -> tuple[Account, Sequence[ClosingResult]]:
    """Sell what the policy says, one after the other; return the account without what was sold, and each result."""
    account, sold = await link_questions(job.ledger, policy, account), list[ClosingResult]()
    for position in account.positions:
        why = exit_reason(policy, position, account.currency)
        if why is None or (objection := await _exit_objection(job, builder, policy, position)) is None:
            continue
        if objection:
            stop_loss_log.warning("not sold by policy", contract=position.contract, why=why, because=objection)
            continue
        done = await close_position(job, builder, account, position, venue=policy.venue, why=why)
        sold.append(replace(done, reason=why))
        await _report_policy_sale(job, sold[-1])
    results = {(one.contract, one.leg): one for one in sold}
    left = [_left_after_sale(one, results.get((one.contract, one.leg))) for one in account.positions]
    return replace(account, positions=tuple(one for one in left if one is not None)), sold


def _left_after_sale(position: Position, result: ClosingResult | None) -> Position | None:
    """Return what may still be held of a position: all of it where nothing was sent, None while its sale is open."""
    if result is None or result.state is ClosingState.HELD:
        return position
    if result.state is not ClosingState.PART or result.sold >= position.shares:
        return None
    share = 1.0 - result.sold / position.shares
    return replace(position, shares=position.shares * share, paid=position.paid * share)


async def _exit_objection(
    job: ClosingContext, builder: DecisionContextBuilder, policy: ExecutionPolicy, position: Position
) -> str | None:
    """Return "" if it may be sold now, None if a sale was tried recently, else why it is not sold."""
    now = job.clock.now()
    if position.ref is None or not await builder.ledger.forecasts.history(position.ref):
        return "no recorded forecast is for its question"
    if policy.mode is ExecutionMode.APPROVE:
        return f"{policy.venue} is in mode approve; sell it with: foxcast close {position.ref.key}"
    asked = SnapshotRequest(
        ref=position.ref, forecaster="", revision=0, account=policy.account, paper=not policy.is_live
    )
    (snapshot,) = await builder.ledger.decision_snapshots.read_snapshots([asked], now=now)
    if snapshot.closed_at is not None and now - snapshot.closed_at < POLICY_RETRY_AFTER:
        return None
    return "" if snapshot.locked is None else f"locked: {snapshot.locked}"
