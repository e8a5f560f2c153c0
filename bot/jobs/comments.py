"""Plan comments on forecasts that a venue acknowledged; each comment is an intent that follows its forecast."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from datetime import timedelta

import structlog

from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.orders import Order
from bot.core.submissions import Intent, IntentAction, SendDecision
from bot.execution.gate.caps import tightest_headroom
from bot.execution.gate.comment_text import render_comment
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.outbox.account_session import IntentCheck
from bot.execution.submission_planning import cap_usage_scope
from bot.store import submission_queries
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# A forecast that was acknowledged longer ago gets no comment, and a question gets at most one comment in that time.
MAX_COMMENT_AGE = timedelta(hours=24)
# At most this many are planned in one pass, of at most so many: what may not be commented must not be in their way.
MAX_COMMENTS, MAX_CANDIDATES = 20, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentContext:
    """What comments need: the policies of venues that accept comments, and the fee of each venue.

    ``pre_send_check`` is that of the outbox: a comment that it would refuse is not planned. At the venues in
    ``one_per_event`` all questions of one event share one comment, which is posted once.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    clock: Clock
    pre_send_check: IntentCheck
    fees: Mapping[str, float] = field(default_factory=dict)
    one_per_event: Collection[str] = ()


async def plan_comments(job: CommentContext) -> int:
    """Plan a comment for each acknowledged forecast that has none; return how many were planned.

    Nothing is posted in paper mode, where nobody would read it.
    """
    planned = 0
    for policy in job.execution_policies.values():
        if policy.is_live and policy.posts_comments:
            planned += await _plan_venue_comments(job, policy)
    return planned


async def _plan_venue_comments(job: CommentContext, policy: ExecutionPolicy) -> int:
    now, planned = job.clock.now(), 0
    by_event = policy.venue in job.one_per_event
    rows = await job.ledger.permissions.read(
        lambda database: submission_queries.find_uncommented(
            database, policy.venue, policy.account, since=now - MAX_COMMENT_AGE, limit=MAX_CANDIDATES, by_event=by_event
        )
    )
    commented_events: set[str] = set()
    for row in rows:
        if planned == MAX_COMMENTS:
            break
        event = row.intent.exposure.event
        if by_event and event and event in commented_events:
            continue
        intent = replace(await _comment_intent(job, row), fee=job.fees.get(policy.venue, 0.0))
        if not intent.text:
            continue
        if why := await job.pre_send_check(intent) or await _cap_objection(job, policy, intent):
            log.info("not commented now", question=str(intent.ref), why=why)
            continue
        decision = SendDecision(intent=intent, mode=policy.mode, why="the forecast is published, and comment = true")
        stored = await job.ledger.submissions.decide(forecast_id=intent.forecast, decision=decision, at=now)
        planned += isinstance(stored, SendDecision)
        commented_events.add(event)
    return planned


async def _cap_objection(job: CommentContext, policy: ExecutionPolicy, intent: Intent) -> str | None:
    """Return the reason where the fee would exceed a cap: comments are paid from the same cash as orders."""
    if not intent.fee:
        return None
    permissions, now = job.ledger.permissions, job.clock.now()
    trace = await job.ledger.forecasts.trace(intent.forecast)
    if trace.forecast is None:
        return "its forecast does not exist any more"
    arms = (await permissions.read_status({policy.venue: policy.account}, now=now)).arms
    context = DecisionContext(
        policy=policy,
        forecast=trace.forecast,
        question=trace.question,
        current_intent=None,
        lock_reason=None,
        now=now,
        arm=arms.get(policy.venue),
    )
    tightest = tightest_headroom(replace(context, cap_usage=await permissions.usage(cap_usage_scope(context), now=now)))
    if tightest is None or intent.fee <= tightest.remaining:
        return None
    return f"a comment costs {intent.fee:g}, and {tightest}"


async def forecast_comment(job: CommentContext, forecast_id: str, order: Order | None = None) -> str:
    """Return the text of the comment on a forecast and on the order that followed from it."""
    trace = await job.ledger.forecasts.trace(forecast_id)
    if trace.forecast is None:
        return ""
    trials = [record.trial for record in trace.trials if record.trial is not None]
    template = job.execution_policies[trace.question.ref.venue].comment_template
    return render_comment(trace.question, trace.forecast, trials, order=order, template=template)


async def _comment_intent(job: CommentContext, row: IntentRow) -> Intent:
    submitted = row.intent
    intent_id = derive_id(
        "intent", submitted.ref.venue, submitted.account, str(submitted.ref), submitted.forecast, IntentAction.COMMENT
    )
    return Intent(
        id=intent_id,
        account=submitted.account,
        ref=submitted.ref,
        forecast=submitted.forecast,
        action=IntentAction.COMMENT,
        predictions={},
        batch=intent_id,
        text=await forecast_comment(job, submitted.forecast, submitted.order),
        exposure=submitted.exposure,
    )
