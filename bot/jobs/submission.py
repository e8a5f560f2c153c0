"""Decide on every new forecast and let the outbox send what may be submitted.

A batch waits for the first forecast of each of its questions.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from bot.core.concurrency import map_concurrently
from bot.core.errors import FoxcastError, StoreError
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, OrderPlanner, TradingSubmitter
from bot.core.orders import Account
from bot.core.permissions import SubmissionApproval
from bot.core.submissions import GateDecision, HoldDecision, Intent, IntentState, SendDecision
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.gate import Gate
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.outbox.outbox import Outbox
from bot.execution.submission_planning import (
    DecisionContextBuilder,
    VenueOrderPlanner,
    cap_usage_scope,
    decision_rule,
    load_snapshots,
    needs_cap_usage,
)
from bot.jobs.comments import CommentContext, forecast_comment, plan_comments
from bot.jobs.halts import halt_losing_venues
from bot.jobs.position_closing import ClosingContext, close_by_policy, has_exit_policy
from bot.jobs.withdrawals import StaleWithdrawalContext, withdraw_stale_forecasts
from bot.store import permissions
from bot.store.audit_log import AuditRow
from bot.store.decisions import DecisionSnapshot, release_holds
from bot.store.ledger import Ledger
from bot.store.requests import ClosingResult
from bot.store.submissions import BatchRow

LAST_CALL_TIME = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWait:
    """A batch waits for the first forecast of each of its questions.

    From the last hour of its window on it is sent without those that are locked or were postponed, but still waits for
    those that are due: a venue may take whole batches only. No batch goes to a venue that is not in
    ``discovered_venues``: the record of it may be incomplete. A question without a batch waits for nothing.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    discovered_venues: Collection[str]

    async def __call__(self, row: BatchRow, now: datetime) -> bool:
        """Return whether the batch may be sent now."""
        lane = self.execution_policies[row.venue]
        others: dict[str, str] = {}
        if lane.choose:
            questions = await self.ledger.questions.in_batch(row.venue, row.batch)
            others = {str(question.ref): lane.submitting_forecaster(question) for question in questions}
        load = await self.ledger.schedule.read_batch_load(
            row.venue, row.batch, lane.primary_forecaster, now=now, others=others
        )
        if load.questions == 0:
            return True
        if row.venue not in self.discovered_venues:
            return False
        if row.closes_at is not None and now >= row.closes_at - LAST_CALL_TIME:
            return load.busy == 0 and load.waiting == 0
        return load.unforecast == 0


__all__ = ["BatchWait", "RunStart", "SubmitJobContext", "submit_due_forecasts"]


log = structlog.get_logger(__name__)


FORECASTS_AT_ONCE = 500


MAX_CONCURRENT = 64


_IN_FLIGHT_STATES = frozenset(
    {IntentState.PLANNED, IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT}
)


ForecastWithSnapshot = tuple[Forecast, DecisionSnapshot]


ReadinessRefresh = Callable[[], Awaitable[None]]


async def _refresh_nothing() -> None:
    """Do nothing: no venue is live."""


@dataclass(slots=True)
class RunStart:
    """The beginning of a run: what was held before it is decided again, since config and venues may have changed."""

    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJobContext:
    """What the submit job works with; a venue with a planner takes orders.

    ``comments`` plans comments on published forecasts, ``stale_withdrawals`` withdraws those that could not be renewed,
    ``closing`` sells what a policy says, each where config asks for that. ``refresh_readiness`` brings ``readiness`` up
    to date before anything is decided.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    readiness: LiveReadiness | None = None
    refresh_readiness: ReadinessRefresh = _refresh_nothing
    run_start: RunStart = field(default_factory=lambda: RunStart(is_over=True))
    comments: CommentContext | None = None
    closing: ClosingContext | None = None
    stale_withdrawals: StaleWithdrawalContext | None = None


async def submit_due_forecasts(parts: SubmitJobContext) -> str:
    """Record a decision for each undecided forecast, decide again on held ones, send what is ready."""
    await parts.refresh_readiness()
    around, now = await _load_context_builder(parts), parts.clock.now()
    if not parts.run_start.is_over:
        await parts.ledger.permissions.write(lambda database: release_holds(database, at=now))
        parts.run_start.is_over = True
    this = _SubmitPass(parts=parts, context_builder=around, order_planners={}, acknowledged=[])
    sold = await _close_positions(this)
    sent, held, waits = 0, 0, Counter[str]()
    async for forecasts in _forecasts_to_decide(parts):
        pairs = await load_snapshots(around, forecasts, parts.clock.now())
        decisions = await _decide_all(this, pairs)
        sent += sum(isinstance(decision, SendDecision) for decision in decisions)
        held += sum(isinstance(decision, HoldDecision) for decision in decisions)
        waits.update(one.why for one in decisions if isinstance(one, HoldDecision) and one.until is not None)
    withdrawn = 0 if parts.stale_withdrawals is None else await withdraw_stale_forecasts(parts.stale_withdrawals)
    acknowledged = sum(this.acknowledged) + await parts.outbox.flush()
    if parts.comments is not None and await plan_comments(parts.comments):
        acknowledged += await parts.outbox.flush()
    told = f"; {withdrawn} stale ones withdrawn" if withdrawn else ""
    told += "".join(f"; {count} wait: {why}" for why, count in waits.most_common(1))
    told += "".join(f"; {result}" for result in sold)
    return f"{sent} planned, {held} held, {acknowledged} acknowledged{told}"


async def _close_positions(this: "_SubmitPass") -> list[ClosingResult]:
    """Sell what stop-loss and take-profit say before anything is bought."""
    closing, sold = this.parts.closing, list[ClosingResult]()
    for venue in this.parts.planners if closing is not None else ():
        lane = this.context_builder.execution_policy(venue)
        if closing is None or not has_exit_policy(lane) or isinstance(shop := await this.order_planner(venue), str):
            continue
        shop.account, found = await close_by_policy(closing, this.context_builder, lane, shop.account)
        sold += found
    return sold


async def _load_context_builder(parts: SubmitJobContext) -> DecisionContextBuilder:
    """Read the state of all policies; first halt a venue that lost too much, and close questions that expired."""
    now = parts.clock.now()
    await parts.ledger.permissions.write(lambda database: permissions.expire_approvals(database, now))
    await halt_losing_venues(parts.ledger, parts.execution_policies, now=now)
    accounts = {venue: lane.account for venue, lane in parts.execution_policies.items()}
    return DecisionContextBuilder(
        ledger=parts.ledger,
        execution_policies=parts.execution_policies,
        planners=parts.planners,
        readiness=parts.readiness,
        permissions=await parts.ledger.permissions.read_status(
            accounts, now=now, paper=paper_venues(parts.execution_policies)
        ),
    )


async def _forecasts_to_decide(parts: SubmitJobContext) -> AsyncIterator[list[Forecast]]:
    """Yield all new forecasts, then one chunk of those whose hold has expired."""
    while forecasts := await parts.ledger.forecasts.undecided(FORECASTS_AT_ONCE):
        yield forecasts
        if parts.outbox.is_stopping():
            return
    if again := await parts.ledger.forecasts.held(FORECASTS_AT_ONCE, now=parts.clock.now()):
        yield again


@dataclass(frozen=True, slots=True)
class _SubmitPass:
    """One pass: ``order_planners`` are those opened in it, or why one could not be.

    ``acknowledged`` counts what was acknowledged. ``uncharged`` is what was not yet deducted from the accounts as they
    were read.
    """

    parts: SubmitJobContext
    context_builder: DecisionContextBuilder
    order_planners: dict[str, VenueOrderPlanner | str]
    acknowledged: list[int]
    uncharged: dict[str, list[Intent]] = field(default_factory=dict)

    async def order_planner(self, venue: str) -> VenueOrderPlanner | str:
        """Return the order planner of a venue, with its account read once a pass."""
        if venue not in self.order_planners:
            self.order_planners[venue] = await _open_order_planner(self.parts, venue)
        return self.order_planners[venue]

    async def charge_acknowledged(self, venue: str, shop: VenueOrderPlanner) -> None:
        """Deduct from the account what was acknowledged, whichever job sent it; what is under way is reserved."""
        under_way = []
        for intent in self.uncharged.pop(venue, ()):
            state = (await self.parts.ledger.submissions.get(intent.id)).state
            if state is IntentState.ACKED and intent.order is not None:
                shop.deduct(intent.order.cost)
            elif state in _IN_FLIGHT_STATES:
                under_way.append(intent)
        self.uncharged[venue] = under_way


async def _decide_all(this: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> list[GateDecision]:
    """Decide concurrently, but orders at one venue one after the other, since they spend the same cash."""
    ways: dict[str, list[ForecastWithSnapshot]] = {}
    apart = [pair for pair in pairs if pair[0].ref.venue not in this.parts.planners]
    for pair in pairs:
        if pair[0].ref.venue in this.parts.planners:
            ways.setdefault(pair[0].ref.venue, []).append(pair)
    decisions = [*await map_concurrently(lambda pair: _decide_forecast(this, *pair), apart, places=MAX_CONCURRENT)]
    for done in await map_concurrently(
        lambda way: _decide_in_order(this, way), [*ways.values()], places=MAX_CONCURRENT
    ):
        decisions += done
    return decisions


async def _decide_in_order(this: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> list[GateDecision]:
    """Size all together, then decide one after the other, and send each order before the next is decided."""
    await _propose_orders(this, pairs)
    decisions = []
    for pair in pairs:
        if this.parts.outbox.is_stopping():
            break
        decisions.append(decision := await _decide_forecast(this, *pair))
        if isinstance(decision, SendDecision):
            venue, order = decision.intent.ref.venue, decision.intent.order
            this.uncharged.setdefault(venue, []).append(decision.intent)
            if order is not None and isinstance(shop := this.order_planners.get(venue), VenueOrderPlanner):
                shop.bought_in_pass += order.cost
            this.acknowledged.append(await this.parts.outbox.flush())
    return decisions


async def _propose_orders(this: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> None:
    """Have the orders of a venue sized together, for the forecasts that would reach its planner."""
    cases = [case for pair in pairs if (case := await _context_to_plan(this, *pair)) is not None]
    if len(cases) < 2:
        return
    lane = cases[0].policy
    shop = await this.order_planner(lane.venue)
    if not isinstance(shop, str):
        reserved = await this.parts.ledger.permissions.unsettled_cost(lane.venue, lane.account, paper=not lane.is_live)
        await shop.propose_orders(cases, reserved=reserved)


async def _context_to_plan(this: _SubmitPass, forecast: Forecast, docket: DecisionSnapshot) -> DecisionContext | None:
    parts, now = this.parts, this.parts.clock.now()
    if docket.successor is not None:
        return None
    case = await this.context_builder.build_context(forecast, docket, now)
    if parts.gate.check_before_plan(case) is not None:
        return None
    return replace(case, cap_usage=await parts.ledger.permissions.usage(cap_usage_scope(case), now=now))


async def _decide_forecast(this: _SubmitPass, forecast: Forecast, docket: DecisionSnapshot) -> GateDecision:
    parts, now = this.parts, this.parts.clock.now()
    if docket.successor is not None:
        return await _store_decision(parts, forecast, HoldDecision(why=f"superseded by revision {docket.successor}"))
    case = await this.context_builder.build_context(forecast, docket, now)
    if hold := parts.gate.check_before_plan(case):
        return await _store_decision(parts, forecast, hold)
    if needs_cap_usage(case):
        case = replace(case, cap_usage=await parts.ledger.permissions.usage(cap_usage_scope(case), now=now))
    if case.takes_orders:
        planned = await _plan_order(this, case)
        if isinstance(planned, HoldDecision):
            return await _store_decision(parts, forecast, planned)
        case = replace(planned, now=parts.clock.now())
    if asked := parts.gate.needed_approval(case):
        return await _store_decision(parts, forecast, await _request_approval(parts, case, asked))
    return await _decide_and_store(parts, case)


async def _plan_order(this: _SubmitPass, case: DecisionContext) -> DecisionContext | HoldDecision:
    shop = await this.order_planner(case.policy.venue)
    if isinstance(shop, str):
        return case.hold_until_retry(shop)
    reserved = await this.parts.ledger.permissions.unsettled_cost(
        case.policy.venue, case.policy.account, paper=not case.policy.is_live
    )
    # After that, so that what is acknowledged just now is counted twice rather than not at all.
    await this.charge_acknowledged(case.policy.venue, shop)
    return await shop.plan_order(case, reserved=reserved)


async def _decide_and_store(parts: SubmitJobContext, case: DecisionContext) -> GateDecision:
    """Decide and record in one transaction, in which amounts at risk are counted again where caps depend on them."""
    lane = case.policy
    if needs_cap_usage(case) or lane.is_live:
        decision = await parts.ledger.submissions.decide_by(
            decision_rule(case, parts.gate.decide),
            forecast_id=case.forecast.id,
            at=case.now,
        )
    else:
        decision = await _store_decision(parts, case.forecast, parts.gate.decide(case))
    return decision


async def _store_decision(parts: SubmitJobContext, forecast: Forecast, decision: GateDecision) -> GateDecision:
    return await parts.ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=parts.clock.now())


async def _request_approval(parts: SubmitJobContext, case: DecisionContext, asked: SubmissionApproval) -> HoldDecision:
    """Ask people for approval, with the comment that would follow, and add the row in the audit."""
    lane, commenting = case.policy, parts.comments
    if commenting is not None and lane.posts_comments and lane.venue in commenting.execution_policies:
        said = await forecast_comment(commenting, asked.forecast, case.order)
        asked = replace(asked, shown={**asked.shown, "comment": said})
    body = {"approval": asked.id, "forecast": asked.forecast, "cost": f"{asked.cost:.6f}", **asked.shown}
    row = AuditRow(at=asked.asked_at, kind="ask", venue=asked.venue, actor="", body=body)
    await parts.ledger.permissions.write_with_audit(lambda database: permissions.request_approval(database, asked), row)
    log.warning("needs approval", approval=asked.id, question=str(case.forecast.ref), why=asked.shown["why"])
    return case.hold_until_retry(f"waits for approval {asked.id}: foxcast approve {asked.id}")


async def _open_order_planner(parts: SubmitJobContext, venue: str) -> VenueOrderPlanner | str:
    account = account_reader(parts.outbox, venue)
    if account is None:
        return f"{venue} has no account to pay from"
    try:
        read = await account()
        return await _loss_halt_reason(parts, venue, read) or VenueOrderPlanner(
            planner=parts.planners[venue], account=read
        )
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {error}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def _loss_halt_reason(parts: SubmitJobContext, venue: str, account: Account) -> str | None:
    """Record a reading, and return why nothing is bought where it shows that too much was lost."""
    lane, now = parts.execution_policies[venue], parts.clock.now()
    await parts.ledger.readings.add(venue, lane.account, account, paper=not lane.is_live)
    if not await halt_losing_venues(parts.ledger, {venue: lane}, now=now):
        return None
    stop = next(
        one
        for one in await parts.ledger.permissions.read(permissions.list_active_halts)
        if one.venue == venue and not one.by
    )
    return f"{stop}; {stop.remedy}"


def account_reader(outbox: Outbox, venue: str) -> Callable[[], Awaitable[Account]] | None:
    """Return what reads the account of a venue; None where it takes no orders."""
    submitter = outbox.submitters.get(venue)
    return submitter.account if isinstance(submitter, TradingSubmitter) else None
