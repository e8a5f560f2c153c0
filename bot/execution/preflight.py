"""The preflight: the decisions on all waiting forecasts of a venue, and the requests as they would be written.

It uses the same checks and plans as submitting, and sends nothing.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from datetime import timedelta
from typing import ClassVar

import structlog

from bot.core.errors import FoxcastError, RequestRejectedError, StoreError
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, QuestionReader, SealingSubmitter, VenueReader, VenueSubmitter, WriteClient
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account
from bot.core.permissions import CapUsage
from bot.core.redaction import redact_known_secrets
from bot.core.submissions import GateDecision, HoldDecision, SealedRequest, SendDecision, SubmissionBatch
from bot.core.values import Json
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.execution.gate.comment_text import render_comment
from bot.execution.gate.decision_context import DecisionContext, exposure_groups
from bot.execution.gate.gate import Gate
from bot.execution.submission_planning import (
    DecisionContextBuilder,
    VenueOrderPlanner,
    cap_usage_scope,
    load_snapshots,
    needs_cap_usage,
)
from bot.net.rate_limit import RateLimiter
from bot.store.decisions import DecisionSnapshot, describe_successor
from bot.store.ledger import Ledger

# Far enough to include every hold.
FAR_FUTURE = timedelta(days=36_500)


MAX_FORECASTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightContext:
    """What a preflight needs: ``accounts`` are by venue, as last read, or as they would begin."""

    context_builder: DecisionContextBuilder
    gate: Gate
    clock: Clock
    reader: VenueReader
    accounts: Mapping[str, Account] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightDecision:
    """One waiting forecast and the decision on it now; ``context`` is as complete as the decision needed."""

    context: DecisionContext
    decision: GateDecision


@dataclass(slots=True)
class _PreflightUsage:
    """The submissions that this preflight would have sent so far; the caps count them, though nothing is recorded."""

    sent: list[DecisionContext] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """The total cost of these submissions."""
        return _total_cost(self.sent)

    def count_usage(self, known: CapUsage, context: DecisionContext) -> CapUsage:
        """Return the cap usage including what would have been sent."""
        own, cost = exposure_groups(context.question), _total_cost
        others = [(exposure_groups(item.question), item) for item in self.sent]
        return replace(
            known,
            question=known.question + cost(item for _, item in others if item.forecast.ref == context.forecast.ref),
            event=known.event
            + cost(item for other_groups, item in others if own.event and other_groups.event == own.event),
            creator=known.creator
            + cost(item for other_groups, item in others if own.creator and other_groups.creator == own.creator),
            category=known.category
            + cost(item for other_groups, item in others if other_groups.category == own.category != ""),
            day=known.day + self.reserved,
            total=known.total + self.reserved,
            armed=known.armed + self.reserved,
            hour=known.hour + len(self.sent),
        )


async def preview_decisions(preflight: PreflightContext, venue: str) -> list[PreflightDecision]:
    """Return the decision on each waiting forecast of the venue, in the order in which they are decided."""
    ledger, now = preflight.context_builder.ledger, preflight.clock.now()
    waiting = [
        *await ledger.forecasts.undecided(MAX_FORECASTS),
        *await ledger.forecasts.held(MAX_FORECASTS, now=now + FAR_FUTURE),
    ]
    own = [forecast for forecast in waiting if forecast.ref.venue == venue]
    usage_so_far, planner, pairs = (
        _PreflightUsage(),
        _venue_order_planner(preflight, venue),
        await load_snapshots(preflight.context_builder, own, now),
    )
    await _propose_orders(preflight, pairs, planner)
    return [await _preview_decision(preflight, pair, usage_so_far, planner) for pair in pairs]


async def _propose_orders(
    preflight: PreflightContext, pairs: Sequence[tuple[Forecast, DecisionSnapshot]], planner: VenueOrderPlanner | None
) -> None:
    """Have the orders sized together, as submitting does."""
    permissions, contexts = preflight.context_builder.ledger.permissions, []
    for forecast, snapshot in pairs if planner is not None else ():
        context = await preflight.context_builder.build_context(forecast, snapshot, preflight.clock.now())
        if context.takes_orders and snapshot.successor is None and preflight.gate.check_before_plan(context) is None:
            contexts.append(
                replace(context, cap_usage=await permissions.usage(cap_usage_scope(context), now=context.now))
            )
    if planner is not None and contexts:
        policy = contexts[0].policy
        await planner.propose_orders(
            contexts, reserved=await permissions.unsettled_cost(policy.venue, policy.account, paper=not policy.is_live)
        )


async def _preview_decision(
    preflight: PreflightContext,
    pair: tuple[Forecast, DecisionSnapshot],
    usage_so_far: _PreflightUsage,
    planner: VenueOrderPlanner | None,
) -> PreflightDecision:
    forecast, snapshot = pair
    context = await preflight.context_builder.build_context(forecast, snapshot, preflight.clock.now())
    if snapshot.successor is not None:
        return PreflightDecision(context=context, decision=HoldDecision(why=describe_successor(snapshot.successor)))
    if hold := preflight.gate.check_before_plan(context):
        return PreflightDecision(context=context, decision=hold)
    fresh = await _refresh_snapshot(preflight, snapshot)
    if isinstance(fresh, str):
        return PreflightDecision(context=context, decision=context.hold_until_retry(fresh))
    context = await preflight.context_builder.build_context(forecast, fresh, preflight.clock.now())
    if needs_cap_usage(context):
        known = await preflight.context_builder.ledger.permissions.usage(cap_usage_scope(context), now=context.now)
        context = replace(context, cap_usage=usage_so_far.count_usage(known, context))
    planned = await _plan_order(preflight, context, usage_so_far, planner)
    if isinstance(planned, HoldDecision):
        return PreflightDecision(context=context, decision=planned)
    decision = preflight.gate.decide(planned)
    if isinstance(decision, SendDecision):
        usage_so_far.sent.append(planned)
        if planner is not None:
            planner.bought_in_pass = usage_so_far.reserved
    return PreflightDecision(context=planned, decision=decision)


async def _refresh_snapshot(preflight: PreflightContext, snapshot: DecisionSnapshot) -> DecisionSnapshot | str:
    """Return the snapshot with the question as the venue states it now, if the reader can find one by its name."""
    if not isinstance(preflight.reader, QuestionReader):
        return snapshot
    try:
        return replace(snapshot, question=await preflight.reader.find_question(snapshot.question.ref.key))
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the question cannot be read: {error}"


async def _plan_order(
    preflight: PreflightContext,
    context: DecisionContext,
    usage_so_far: _PreflightUsage,
    planner: VenueOrderPlanner | None,
) -> DecisionContext | HoldDecision:
    if not context.takes_orders:
        return context
    if planner is None:
        return context.hold_until_retry("its account was never read; the daemon reads it")
    waiting = await preflight.context_builder.ledger.permissions.unsettled_cost(
        context.policy.venue, context.policy.account, paper=not context.policy.is_live
    )
    return await planner.plan_order(context, reserved=waiting + usage_so_far.reserved)


def _venue_order_planner(preflight: PreflightContext, venue: str) -> VenueOrderPlanner | None:
    planner, account = preflight.context_builder.planners.get(venue), preflight.accounts.get(venue)
    return None if planner is None or account is None else VenueOrderPlanner(planner=planner, account=account)


def _total_cost(contexts: Iterable[DecisionContext]) -> float:
    return sum(context.order.cost for context in contexts if context.order is not None)


log = structlog.get_logger(__name__)


OMITTED = "(left out)"


# Names of fields whose values must not be shown.
_SECRET_NAME = re.compile(r"(?i)signature|secret|passphrase|password|private_?key|api_?key|authorization|^owner$")


class RefusingWriteClient:
    """Implements ``bot.core.interfaces.WriteClient``, and sends nothing.

    Every request is refused. A writer that needs a signature from another process does not ask for it if ``sends`` is
    false.
    """

    sends: ClassVar[bool] = False

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        """Raise RequestRejectedError: nothing was sent."""
        del max_bytes, deadline_s
        message = f"a preflight sends nothing, so this {request.method} was not sent"
        raise RequestRejectedError(message)


@asynccontextmanager
async def open_refusing_client(*, rates: RateLimiter) -> AsyncIterator[WriteClient]:
    """Open a client that sends nothing; the rates are not used."""
    del rates
    yield RefusingWriteClient()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreview:
    """What would be written for one intent, or ``why`` its request cannot be made; and the comment after it."""

    sealed: SealedRequest | None = None
    why: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreviewContext:
    """What previewing requests needs: ``writer`` is None if the venue has none; ``comments``: preview them as well."""

    ledger: Ledger
    writer: VenueSubmitter | None
    comments: bool = False


async def preview_requests(
    preflight: RequestPreviewContext, sends: Sequence[tuple[DecisionContext, SendDecision]]
) -> Mapping[str, RequestPreview]:
    """Return what would be written, by intent, without secrets; each request is made separately."""
    return {send.intent.id: await _preview_request(preflight, context, send) for context, send in sends}


async def _preview_request(
    preflight: RequestPreviewContext, context: DecisionContext, send: SendDecision
) -> RequestPreview:
    comment = await _preview_comment(preflight, context) if preflight.comments else ""
    if not isinstance(preflight.writer, SealingSubmitter):
        return RequestPreview(comment=comment)
    batch = SubmissionBatch(key=send.intent.batch, intents=(send.intent,), questions=(context.question,))
    try:
        requests = await preflight.writer.seal_requests(batch)
    except StoreError:
        raise
    except FoxcastError as error:
        return RequestPreview(why=str(error), comment=comment)
    except Exception as error:
        log.exception("a request cannot be made", question=str(send.intent.ref))
        return RequestPreview(why=f"the writer failed: {type(error).__name__}", comment=comment)
    if not requests or not requests[0].body:
        return RequestPreview(why="the writer made no request: the question may have changed just now", comment=comment)
    body = redact_body(requests[0].body)
    sealed = SealedRequest(intent=send.intent.id, tag=requests[0].tag, body=body, fence=requests[0].fence)
    return RequestPreview(sealed=sealed, comment=comment)


async def _preview_comment(preflight: RequestPreviewContext, context: DecisionContext) -> str:
    trace = await preflight.ledger.forecasts.trace(context.forecast.id)
    trials = [record.trial for record in trace.trials if record.trial is not None]
    return render_comment(
        context.question, context.forecast, trials, order=context.order, template=context.policy.comment_template
    )


def redact_body(body: str) -> str:
    """Return a request's body with known secrets, and fields that are named like secrets, left out."""
    hidden = redact_known_secrets(body)
    try:
        plain = json.loads(hidden)
    except ValueError:
        return hidden
    redacted = _redact_value(plain)
    # Byte for byte as it would be sent, if nothing was redacted.
    return hidden if redacted == plain else json.dumps(redacted, ensure_ascii=False, separators=(",", ":"))


def _redact_value(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: OMITTED if _SECRET_NAME.search(name) else _redact_value(item) for name, item in value.items()}
    return [_redact_value(item) for item in value] if isinstance(value, list) else value
