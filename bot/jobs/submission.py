"""Decide on every new forecast and let the outbox send what may be submitted.

A batch waits for the first forecast of each of its questions.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta

import structlog

from bot.core.concurrency import map_concurrently
from bot.core.errors import FoxcastError, StoreError
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, OrderPlanner, TradingSubmitter
from bot.core.light_dataclass import dataclass
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
from bot.jobs.position_closing import (
    ClosingContext,
    ReadinessRefresh,
    close_by_policy,
    has_exit_policy,
    refresh_nothing,
    report_lost_sales,
)
from bot.jobs.withdrawals import StaleWithdrawalContext, withdraw_stale_forecasts
from bot.store import permissions
from bot.store.audit_log import AuditRow
from bot.store.decisions import DecisionSnapshot, describe_successor, release_holds
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
        policy = self.execution_policies[row.venue]
        others: dict[str, str] = {}
        if policy.choose:
            questions = await self.ledger.questions.in_batch(row.venue, row.batch)
            others = {str(question.ref): policy.submitting_forecaster(question) for question in questions}
        batch_load = await self.ledger.schedule.read_batch_load(
            row.venue, row.batch, policy.primary_forecaster, now=now, others=others
        )
        if batch_load.questions == 0:
            return True
        if row.venue not in self.discovered_venues:
            return False
        if row.closes_at is not None and now >= row.closes_at - LAST_CALL_TIME:
            return batch_load.busy == 0 and batch_load.waiting == 0
        return batch_load.unforecast == 0


__all__ = ["BatchWait", "RunStart", "SubmitJobContext", "submit_due_forecasts"]


log = structlog.get_logger(__name__)


FORECASTS_AT_ONCE = 500


MAX_CONCURRENT = 64


_IN_FLIGHT_STATES = frozenset(
    {IntentState.PLANNED, IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT}
)


ForecastWithSnapshot = tuple[Forecast, DecisionSnapshot]


@dataclass(slots=True)
class RunStart:
    """The beginning of a run: what was held before it is decided again, since config and venues may have changed."""

    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJobContext:
    """What the submit job works with; a venue with a planner takes orders.

    ``comments`` plans comments on published forecasts, ``stale_withdrawals`` withdraws those that could not be renewed,
    ``closing`` sells what a policy says, each where config asks for that. ``refresh_readiness`` brings ``readiness`` up
    to date before anything is decided. Nothing can be submitted to ``read_only_venues``, and to ``unopened_venues`` not
    now.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    readiness: LiveReadiness | None = None
    refresh_readiness: ReadinessRefresh = refresh_nothing
    run_start: RunStart = field(default_factory=lambda: RunStart(is_over=True))
    comments: CommentContext | None = None
    closing: ClosingContext | None = None
    stale_withdrawals: StaleWithdrawalContext | None = None
    unopened_venues: Collection[str] = ()
    read_only_venues: Collection[str] = ()


async def submit_due_forecasts(job: SubmitJobContext) -> str:
    """Record a decision for each undecided forecast, decide again on held ones, send what is ready."""
    await job.refresh_readiness()
    builder, now = await _load_context_builder(job), job.clock.now()
    if not job.run_start.is_over:
        await job.ledger.permissions.write(lambda database: release_holds(database, at=now))
        job.run_start.is_over = True
    submit_pass = _SubmitPass(job=job, context_builder=builder, order_planners={}, acknowledged=[])
    sold = await _close_positions(submit_pass)
    sent, held, waits = 0, 0, Counter[str]()
    async for forecasts in _forecasts_to_decide(job):
        pairs = await load_snapshots(builder, forecasts, job.clock.now())
        decisions = await _decide_all(submit_pass, pairs)
        sent += sum(isinstance(decision, SendDecision) for decision in decisions)
        held += sum(isinstance(decision, HoldDecision) for decision in decisions)
        waits.update(one.why for one in decisions if isinstance(one, HoldDecision) and one.until is not None)
    withdrawals = 0 if job.stale_withdrawals is None else await withdraw_stale_forecasts(job.stale_withdrawals)
    acknowledged = sum(submit_pass.acknowledged) + await job.outbox.flush()
    if job.comments is not None and await plan_comments(job.comments):
        acknowledged += await job.outbox.flush()
    suffix = f"; {withdrawals} withdrawals of stale ones planned" if withdrawals else ""
    suffix += "".join(f"; {count} wait: {why}" for why, count in waits.most_common(1))
    suffix += "".join(f"; {result}" for result in sold)
    return f"{sent} planned, {held} held, {acknowledged} acknowledged{suffix}"


async def _close_positions(submit_pass: "_SubmitPass") -> list[ClosingResult]:
    """Sell what stop-loss and take-profit say before anything is bought."""
    closing, sold = submit_pass.job.closing, list[ClosingResult]()
    if closing is not None:
        await report_lost_sales(closing)
    for venue in submit_pass.job.planners if closing is not None else ():
        policy = submit_pass.context_builder.execution_policy(venue)
        if (
            closing is None
            or not has_exit_policy(policy)
            or isinstance(planner := await submit_pass.order_planner(venue), str)
        ):
            continue
        planner.account, found = await close_by_policy(closing, submit_pass.context_builder, policy, planner.account)
        sold += found
    return sold


async def _load_context_builder(job: SubmitJobContext) -> DecisionContextBuilder:
    """Read the state of all policies; first halt a venue that lost too much, and close questions that expired."""
    now = job.clock.now()
    await job.ledger.permissions.write(lambda database: permissions.expire_approvals(database, now))
    await halt_losing_venues(job.ledger, job.execution_policies, now=now)
    accounts = {venue: policy.account for venue, policy in job.execution_policies.items()}
    return DecisionContextBuilder(
        ledger=job.ledger,
        execution_policies=job.execution_policies,
        planners=job.planners,
        readiness=job.readiness,
        permissions=await job.ledger.permissions.read_status(
            accounts, now=now, paper=paper_venues(job.execution_policies)
        ),
        unopened_venues=job.unopened_venues,
        read_only_venues=job.read_only_venues,
    )


async def _forecasts_to_decide(job: SubmitJobContext) -> AsyncIterator[list[Forecast]]:
    """Yield all new forecasts, the first ones with those whose hold has expired: orders are sized together.

    What is forecast meanwhile waits for the next pass, which reads the accounts again.
    """
    again = await job.ledger.forecasts.held(FORECASTS_AT_ONCE, now=job.clock.now())
    while forecasts := [*again, *(new := await job.ledger.forecasts.undecided(FORECASTS_AT_ONCE))]:
        again = []
        yield forecasts
        if len(new) < FORECASTS_AT_ONCE or job.outbox.is_stopping():
            return


@dataclass(frozen=True, slots=True)
class _SubmitPass:
    """One pass: ``order_planners`` are those opened in it, or why one could not be.

    ``acknowledged`` counts what was acknowledged. ``uncharged`` is what was not yet deducted from the accounts as they
    were read.
    """

    job: SubmitJobContext
    context_builder: DecisionContextBuilder
    order_planners: dict[str, VenueOrderPlanner | str]
    acknowledged: list[int]
    uncharged: dict[str, list[Intent]] = field(default_factory=dict)

    async def order_planner(self, venue: str) -> VenueOrderPlanner | str:
        """Return the order planner of a venue, with its account read once a pass."""
        if venue not in self.order_planners:
            self.order_planners[venue] = await _open_order_planner(self.job, venue)
        return self.order_planners[venue]

    async def charge_acknowledged(self, venue: str, planner: VenueOrderPlanner) -> None:
        """Deduct from the account what was acknowledged, whichever job sent it; what is under way is reserved."""
        under_way = []
        for intent in self.uncharged.pop(venue, ()):
            state = (await self.job.ledger.submissions.get(intent.id)).state
            if state is IntentState.ACKED and intent.order is not None:
                planner.deduct(intent.order.cost)
            elif state in _IN_FLIGHT_STATES:
                under_way.append(intent)
        self.uncharged[venue] = under_way


async def _decide_all(submit_pass: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> list[GateDecision]:
    """Decide concurrently, but orders at one venue one after the other, since they spend the same cash."""
    pairs_by_venue: dict[str, list[ForecastWithSnapshot]] = {}
    other_pairs = [pair for pair in pairs if pair[0].ref.venue not in submit_pass.job.planners]
    for pair in pairs:
        if pair[0].ref.venue in submit_pass.job.planners:
            pairs_by_venue.setdefault(pair[0].ref.venue, []).append(pair)
    decisions = [
        *await map_concurrently(lambda pair: _decide_forecast(submit_pass, *pair), other_pairs, places=MAX_CONCURRENT)
    ]
    for done in await map_concurrently(
        lambda venue_pairs: _decide_in_order(submit_pass, venue_pairs),
        [*pairs_by_venue.values()],
        places=MAX_CONCURRENT,
    ):
        decisions += done
    return decisions


async def _decide_in_order(submit_pass: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> list[GateDecision]:
    """Size all together, then decide one after the other, and send each order before the next is decided."""
    await _propose_orders(submit_pass, pairs)
    decisions = []
    for pair in pairs:
        if submit_pass.job.outbox.is_stopping():
            break
        decisions.append(decision := await _decide_forecast(submit_pass, *pair))
        if isinstance(decision, SendDecision):
            venue, order = decision.intent.ref.venue, decision.intent.order
            submit_pass.uncharged.setdefault(venue, []).append(decision.intent)
            if order is not None and isinstance(planner := submit_pass.order_planners.get(venue), VenueOrderPlanner):
                planner.bought_in_pass += order.cost
            submit_pass.acknowledged.append(await submit_pass.job.outbox.flush())
    return decisions


async def _propose_orders(submit_pass: _SubmitPass, pairs: Sequence[ForecastWithSnapshot]) -> None:
    """Have the orders of a venue sized together, for the forecasts that would reach its planner."""
    contexts = [context for pair in pairs if (context := await _context_to_plan(submit_pass, *pair)) is not None]
    if len(contexts) < 2:
        return
    policy = contexts[0].policy
    planner = await submit_pass.order_planner(policy.venue)
    if not isinstance(planner, str):
        reserved = await submit_pass.job.ledger.permissions.unsettled_cost(
            policy.venue, policy.account, paper=not policy.is_live
        )
        # After that, as where a single order is planned: what was sent earlier in this pass is spent.
        await submit_pass.charge_acknowledged(policy.venue, planner)
        await planner.propose_orders(contexts, reserved=reserved)


async def _context_to_plan(
    submit_pass: _SubmitPass, forecast: Forecast, snapshot: DecisionSnapshot
) -> DecisionContext | None:
    job, now = submit_pass.job, submit_pass.job.clock.now()
    if snapshot.successor is not None:
        return None
    context = await submit_pass.context_builder.build_context(forecast, snapshot, now)
    if job.gate.check_before_plan(context) is not None:
        return None
    return replace(context, cap_usage=await job.ledger.permissions.usage(cap_usage_scope(context), now=now))


async def _decide_forecast(submit_pass: _SubmitPass, forecast: Forecast, snapshot: DecisionSnapshot) -> GateDecision:
    job, now = submit_pass.job, submit_pass.job.clock.now()
    if snapshot.successor is not None:
        return await _store_decision(job, forecast, HoldDecision(why=describe_successor(snapshot.successor)))
    context = await submit_pass.context_builder.build_context(forecast, snapshot, now)
    if hold := job.gate.check_before_plan(context):
        return await _store_decision(job, forecast, hold)
    if needs_cap_usage(context):
        context = replace(context, cap_usage=await job.ledger.permissions.usage(cap_usage_scope(context), now=now))
    if context.takes_orders:
        planned = await _plan_order(submit_pass, context)
        if isinstance(planned, HoldDecision):
            return await _store_decision(job, forecast, planned)
        context = replace(planned, now=job.clock.now())
    if asked := job.gate.needed_approval(context):
        return await _store_decision(job, forecast, await _request_approval(job, context, asked))
    return await _decide_and_store(job, context)


async def _plan_order(submit_pass: _SubmitPass, context: DecisionContext) -> DecisionContext | HoldDecision:
    planner = await submit_pass.order_planner(context.policy.venue)
    if isinstance(planner, str):
        return context.hold_until_retry(planner)
    reserved = await submit_pass.job.ledger.permissions.unsettled_cost(
        context.policy.venue, context.policy.account, paper=not context.policy.is_live
    )
    # After that, so that what is acknowledged just now is counted twice rather than not at all.
    await submit_pass.charge_acknowledged(context.policy.venue, planner)
    return await planner.plan_order(context, reserved=reserved)


async def _decide_and_store(job: SubmitJobContext, context: DecisionContext) -> GateDecision:
    """Decide and record in one transaction, in which amounts at risk are counted again where caps depend on them."""
    policy = context.policy
    if needs_cap_usage(context) or policy.is_live:
        decision = await job.ledger.submissions.decide_by(
            decision_rule(context, job.gate.decide),
            forecast_id=context.forecast.id,
            at=context.now,
        )
    else:
        decision = await _store_decision(job, context.forecast, job.gate.decide(context))
    return decision


async def _store_decision(job: SubmitJobContext, forecast: Forecast, decision: GateDecision) -> GateDecision:
    return await job.ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=job.clock.now())


async def _request_approval(job: SubmitJobContext, context: DecisionContext, asked: SubmissionApproval) -> HoldDecision:
    """Ask people for approval, with the comment that would follow, and add the row in the audit."""
    policy, comments = context.policy, job.comments
    if comments is not None and policy.posts_comments and policy.venue in comments.execution_policies:
        comment = await forecast_comment(comments, asked.forecast, context.order)
        asked = replace(asked, shown={**asked.shown, "comment": comment})
    body = {"approval": asked.id, "forecast": asked.forecast, "cost": f"{asked.cost:.6f}", **asked.shown}
    row = AuditRow(at=asked.asked_at, kind="ask", venue=asked.venue, actor="", body=body)
    await job.ledger.permissions.write_with_audit(lambda database: permissions.request_approval(database, asked), row)
    log.warning("needs approval", approval=asked.id, question=str(context.forecast.ref), why=asked.shown["why"])
    return context.hold_until_retry(f"waits for approval {asked.id}: foxcast approve {asked.id}")


async def _open_order_planner(job: SubmitJobContext, venue: str) -> VenueOrderPlanner | str:
    account = account_reader(job.outbox, venue)
    if account is None:
        return f"{venue} has no account to pay from"
    try:
        read = await account()
        return await _loss_halt_reason(job, venue, read) or VenueOrderPlanner(planner=job.planners[venue], account=read)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {error}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def _loss_halt_reason(job: SubmitJobContext, venue: str, account: Account) -> str | None:
    """Record a reading, and return why nothing is bought where it shows that too much was lost."""
    policy, now = job.execution_policies[venue], job.clock.now()
    await job.ledger.readings.add(venue, policy.account, account, paper=not policy.is_live)
    if not await halt_losing_venues(job.ledger, {venue: policy}, now=now):
        return None
    halt = next(
        one
        for one in await job.ledger.permissions.read(permissions.list_active_halts)
        if one.venue == venue and not one.by
    )
    return f"{halt}; {halt.remedy}"


def account_reader(outbox: Outbox, venue: str) -> Callable[[], Awaitable[Account]] | None:
    """Return what reads the account of a venue; None where it takes no orders."""
    submitter = outbox.submitters.get(venue)
    return submitter.account if isinstance(submitter, TradingSubmitter) else None
