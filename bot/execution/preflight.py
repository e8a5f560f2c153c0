"""What would be submitted to a venue now.

Why everything else would not, and the requests as they would be written: the same checks and plans as submitting, and
nothing is sent.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar

import structlog

from bot.core.errors import FoxcastError, RequestRejectedError, StoreError
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock, QuestionReader, SealingSubmitter, VenueReader, VenueSubmitter, WriteClient
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
from bot.store.decisions import DecisionSnapshot
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
    """What this preflight would have sent so far: the caps count it, though it is not recorded."""

    sent: list[DecisionContext] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """What all of it would cost."""
        return _total_cost(self.sent)

    def usage(self, known: CapUsage, case: DecisionContext) -> CapUsage:
        """Return the cap usage including what would have been sent."""
        mine, cost = exposure_groups(case.question), _total_cost
        others = [(exposure_groups(one.question), one) for one in self.sent]
        return replace(
            known,
            question=known.question + cost(one for _, one in others if one.forecast.ref == case.forecast.ref),
            event=known.event + cost(one for theirs, one in others if mine.event and theirs.event == mine.event),
            creator=known.creator + cost(one for its, one in others if mine.creator and its.creator == mine.creator),
            category=known.category + cost(one for its, one in others if its.category == mine.category != ""),
            day=known.day + self.reserved,
            total=known.total + self.reserved,
            armed=known.armed + self.reserved,
            hour=known.hour + len(self.sent),
        )


async def preview_decisions(parts: PreflightContext, venue: str) -> list[PreflightDecision]:
    """Return the decision on each waiting forecast of the venue, in the order in which they are decided."""
    ledger, now = parts.context_builder.ledger, parts.clock.now()
    waiting = [
        *await ledger.forecasts.undecided(MAX_FORECASTS),
        *await ledger.forecasts.held(MAX_FORECASTS, now=now + FAR_FUTURE),
    ]
    mine = [forecast for forecast in waiting if forecast.ref.venue == venue]
    usage_so_far, planner, pairs = (
        _PreflightUsage(),
        _venue_order_planner(parts, venue),
        await load_snapshots(parts.context_builder, mine, now),
    )
    await _propose_orders(parts, pairs, planner)
    return [await _preview_decision(parts, pair, usage_so_far, planner) for pair in pairs]


async def _propose_orders(
    parts: PreflightContext, pairs: Sequence[tuple[Forecast, DecisionSnapshot]], planner: VenueOrderPlanner | None
) -> None:
    """Have the orders sized together, as submitting does."""
    permissions, cases = parts.context_builder.ledger.permissions, []
    for forecast, snapshot in pairs if planner is not None else ():
        case = await parts.context_builder.build_context(forecast, snapshot, parts.clock.now())
        if case.takes_orders and snapshot.successor is None and parts.gate.check_before_plan(case) is None:
            cases.append(replace(case, cap_usage=await permissions.usage(cap_usage_scope(case), now=case.now)))
    if planner is not None and cases:
        policy = cases[0].policy
        await planner.propose_orders(
            cases, reserved=await permissions.unsettled_cost(policy.venue, policy.account, paper=not policy.is_live)
        )


async def _preview_decision(
    parts: PreflightContext,
    pair: tuple[Forecast, DecisionSnapshot],
    usage_so_far: _PreflightUsage,
    planner: VenueOrderPlanner | None,
) -> PreflightDecision:
    forecast, snapshot = pair
    case = await parts.context_builder.build_context(forecast, snapshot, parts.clock.now())
    if snapshot.successor is not None:
        return PreflightDecision(
            context=case, decision=HoldDecision(why=f"superseded by revision {snapshot.successor}")
        )
    if hold := parts.gate.check_before_plan(case):
        return PreflightDecision(context=case, decision=hold)
    fresh = await _refresh_snapshot(parts, snapshot)
    if isinstance(fresh, str):
        return PreflightDecision(context=case, decision=case.hold_until_retry(fresh))
    case = await parts.context_builder.build_context(forecast, fresh, parts.clock.now())
    if needs_cap_usage(case):
        known = await parts.context_builder.ledger.permissions.usage(cap_usage_scope(case), now=case.now)
        case = replace(case, cap_usage=usage_so_far.usage(known, case))
    planned = await _plan_order(parts, case, usage_so_far, planner)
    if isinstance(planned, HoldDecision):
        return PreflightDecision(context=case, decision=planned)
    decision = parts.gate.decide(planned)
    if isinstance(decision, SendDecision):
        usage_so_far.sent.append(planned)
        if planner is not None:
            planner.bought_in_pass = usage_so_far.reserved
    return PreflightDecision(context=planned, decision=decision)


async def _refresh_snapshot(parts: PreflightContext, snapshot: DecisionSnapshot) -> DecisionSnapshot | str:
    """Return the snapshot with the question as the venue states it now, if the reader can find one by its name."""
    if not isinstance(parts.reader, QuestionReader):
        return snapshot
    try:
        return replace(snapshot, question=await parts.reader.find_question(snapshot.question.ref.key))
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the question cannot be read: {error}"


async def _plan_order(
    parts: PreflightContext, case: DecisionContext, usage_so_far: _PreflightUsage, planner: VenueOrderPlanner | None
) -> DecisionContext | HoldDecision:
    if not case.takes_orders:
        return case
    if planner is None:
        return case.hold_until_retry("its account was never read; the daemon reads it")
    waiting = await parts.context_builder.ledger.permissions.unsettled_cost(
        case.policy.venue, case.policy.account, paper=not case.policy.is_live
    )
    return await planner.plan_order(case, reserved=waiting + usage_so_far.reserved)


def _venue_order_planner(parts: PreflightContext, venue: str) -> VenueOrderPlanner | None:
    planner, account = parts.context_builder.planners.get(venue), parts.accounts.get(venue)
    return None if planner is None or account is None else VenueOrderPlanner(planner=planner, account=account)


def _total_cost(cases: Iterable[DecisionContext]) -> float:
    return sum(case.order.cost for case in cases if case.order is not None)


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
    parts: RequestPreviewContext, sends: Sequence[tuple[DecisionContext, SendDecision]]
) -> Mapping[str, RequestPreview]:
    """Return what would be written, by intent, without secrets; each request is made separately."""
    return {send.intent.id: await _preview_request(parts, case, send) for case, send in sends}


async def _preview_request(parts: RequestPreviewContext, case: DecisionContext, send: SendDecision) -> RequestPreview:
    comment = await _preview_comment(parts, case) if parts.comments else ""
    if not isinstance(parts.writer, SealingSubmitter):
        return RequestPreview(comment=comment)
    batch = SubmissionBatch(key=send.intent.batch, intents=(send.intent,), questions=(case.question,))
    try:
        made = await parts.writer.seal_requests(batch)
    except StoreError:
        raise
    except FoxcastError as error:
        return RequestPreview(why=str(error), comment=comment)
    except Exception as error:
        log.exception("a request cannot be made", question=str(send.intent.ref))
        return RequestPreview(why=f"the writer failed: {type(error).__name__}", comment=comment)
    if not made or not made[0].body:
        return RequestPreview(why="the writer made no request: the question may have changed just now", comment=comment)
    body = redact_body(made[0].body)
    sealed = SealedRequest(intent=send.intent.id, tag=made[0].tag, body=body, fence=made[0].fence)
    return RequestPreview(sealed=sealed, comment=comment)


async def _preview_comment(parts: RequestPreviewContext, case: DecisionContext) -> str:
    trace = await parts.ledger.forecasts.trace(case.forecast.id)
    trials = [record.trial for record in trace.trials if record.trial is not None]
    return render_comment(case.question, case.forecast, trials, order=case.order, template=case.policy.comment_template)


def redact_body(body: str) -> str:
    """Return a request's body with known secrets, and fields that are named like secrets, left out."""
    hidden = redact_known_secrets(body)
    try:
        plain = json.loads(hidden)
    except ValueError:
        return hidden
    kept = _redact_value(plain)
    # Byte for byte as it would be sent, if nothing was redacted.
    return hidden if kept == plain else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _redact_value(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: OMITTED if _SECRET_NAME.search(name) else _redact_value(one) for name, one in value.items()}
    return [_redact_value(one) for one in value] if isinstance(value, list) else value
