"""One model call from its reservation to its settlement; budget and ledger always agree about it.

A request without a complete reply is sent again if the budget allows it.
"""

import asyncio
import math
from collections.abc import Coroutine
from dataclasses import field, replace
from typing import Any, TypeVar

from bot.core.beliefs import ModelUsage
from bot.core.errors import (
    BudgetExhaustedError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.ids import derive_id
from bot.core.language_models import FinishReason, ModelAnswer, ModelCompletion, ModelRequest, Prompt, SamplingSettings
from bot.core.light_dataclass import dataclass
from bot.llm.background_tasks import BackgroundTasks, DailyAlerts
from bot.llm.budget import BudgetReservation, BudgetShortage, SpendingBudget, SpendingRequest
from bot.llm.call_records import (
    CALL_RECORD_SERIALIZER,
    CallRecord,
    PromptDocuments,
    RequestRecord,
    pack_prompt_documents,
)
from bot.llm.deadline import RequestDeadline
from bot.llm.pricing import ModelPrice
from bot.llm.providers import describe_foreign_error
from bot.llm.roles import provider_name
from bot.store.documents import is_packed_inline, pack_written_json
from bot.store.ledger import Ledger
from bot.store.model_calls import CallReservation, CallSettlement
from bot.store.serialization import format_timestamp

SettledT = TypeVar("SettledT")
MAX_DETAIL_CHARS = 500
# How often one request to a model may be sent again because its reply was lost.
LOST_RETRIES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallRequest:
    """A request to one model; ``lost_retries`` is how often it may be sent again after a lost reply."""

    model_request: ModelRequest
    model: str
    record: RequestRecord
    documents: PromptDocuments
    digest: str
    lost_retries: int = LOST_RETRIES

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.model_request.prompt

    @property
    def sampling(self) -> SamplingSettings:
        """The sampling settings."""
        return self.record.sampling

    def retry_if_empty(self, completion: ModelCompletion) -> "ModelCallRequest | None":
        """Return the request to make after an empty answer to the first one; None for any other answer.

        A model whose reasoning used up all tokens gets twice as many. The new request has its own maximum cost.
        """
        if completion.text.strip() or completion.calls or completion.finish is FinishReason.REFUSED:
            return None
        max_tokens = (
            2 * self.sampling.max_tokens if completion.finish is FinishReason.LENGTH else self.sampling.max_tokens
        )
        record = replace(self.record, sampling=replace(self.sampling, max_tokens=max_tokens), again=1)
        return replace(self, record=record, digest=record.digest)


class CostAccounting:
    """Opens calls, and returns recorded answers."""

    def __init__(
        self, budget: SpendingBudget, ledger: Ledger, *, tasks: BackgroundTasks, alerts: DailyAlerts, calls_today: int
    ) -> None:
        """Keep the budget and the ledger.

        The numbers of calls continue after ``calls_today``, so that each is unique.
        """
        self.budget = budget
        self.ledger = ledger
        self.tasks = tasks
        self._alerts = alerts
        self._last_number = calls_today
        self._settling: dict[str, asyncio.Task[Any]] = {}

    async def find_recorded_answer(self, request: ModelCallRequest) -> ModelAnswer | None:
        """Return the recorded answer to the same request, if there is one; with the cost if this trial made it."""
        if task := self._settling.get(request.digest):
            # Its caller was cancelled, but there may be an answer.
            await asyncio.wait([task])
        found = await self.ledger.calls.find_recorded_answer(request.digest)
        if found is None:
            return None
        digest, text = found
        record = CALL_RECORD_SERIALIZER.decode(text)
        charge = request.model_request.charge
        is_own = (record.scope, record.trial) == (charge.scope, charge.trial)
        if record.scope != charge.scope:
            # What this forecast cites stays when the evidence of the other one is removed.
            await self.ledger.documents.put_packed(await pack_written_json(text, digest), scope=charge.scope)
        usage = record.usage if is_own else ModelUsage()
        return ModelAnswer(completion=record.completion, usage=usage, model=request.model, document=digest, stored=True)

    async def open_call(self, request: ModelCallRequest, price: ModelPrice, deadline: RequestDeadline) -> "ModelCall":
        """Reserve the maximum cost; wait if calls under way may free budget, which only counts as time of the caller.

        Raises BudgetExhaustedError if a budget does not allow it, or not before the deadline of the caller.
        """
        scope = request.model_request.charge.scope
        if not self.budget.knows_scope(scope):
            self.budget.load_scope(scope, await self.ledger.calls.spent_on(scope))
        worst_usd = price.worst_usd(tokens_in=request.documents.tokens, max_tokens=request.sampling.max_tokens)
        spending = SpendingRequest(scope=scope, provider=provider_name(request.model), worst_usd=worst_usd)
        reservation = self.budget.try_reserve(spending)
        if reservation is None:
            reservation = await self._wait_for_budget(request, spending, deadline)
        if isinstance(reservation, BudgetShortage):
            raise self._budget_error(request, reservation, "")
        return ModelCall(
            accounting=self,
            request=request,
            price=price,
            reservation=reservation,
            number=self.next_number(),
            lost_retries=request.lost_retries,
        )

    def next_number(self) -> int:
        """Return the number of a call that is opened now."""
        self._last_number += 1
        return self._last_number

    async def _wait_for_budget(
        self, request: ModelCallRequest, spending: SpendingRequest, deadline: RequestDeadline
    ) -> BudgetReservation | BudgetShortage:
        began = asyncio.get_running_loop().time()
        try:
            with deadline.pause_role_time():
                return await self.budget.wait_for_room(spending)
        except asyncio.CancelledError:
            shortage = self.budget.find_shortage(spending)
            if shortage is None or not deadline.share_expired:
                raise
            waited_s = asyncio.get_running_loop().time() - began
            why = f"; it waited {waited_s:.0f} s for calls under way to cost less than their maximum"
            raise self._budget_error(request, shortage, why) from None

    def _budget_error(self, request: ModelCallRequest, shortage: BudgetShortage, why: str) -> RequestRejectedError:
        limit = shortage.limit
        self._alerts.alert_once(f"budget {limit.setting}", f"Budget {limit.what} reached", f"{shortage}{why}.")
        return BudgetExhaustedError(f"{request.model}, for {request.model_request.charge.ref}: {shortage}{why}")

    async def settle_call(self, request: ModelCallRequest, call: str, settlement: CallSettlement) -> str | None:
        """Record the result of a call, also if the caller is cancelled meanwhile."""
        if not is_packed_inline(settlement.answer or ""):
            return await asyncio.shield(self._start_settling(request, self.ledger.calls.settle(call, settlement)))
        try:
            return await self.ledger.calls.settle(call, settlement)
        except asyncio.CancelledError:
            # The writer has it already; who makes the same request waits until it is on record.
            self._start_settling(request, self.ledger.calls.wait_for_writes())
            raise

    def _start_settling(
        self, request: ModelCallRequest, work: Coroutine[Any, Any, SettledT]
    ) -> "asyncio.Task[SettledT]":
        task = self.tasks.start_task(work)
        self._settling[request.digest] = task
        task.add_done_callback(lambda _: self._settling.pop(request.digest, None))
        return task


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAnswer:
    """An answer and its settlement, to be recorded."""

    completion: ModelCompletion
    settlement: CallSettlement


@dataclass(slots=True, kw_only=True, eq=False)
class ModelCall:
    """A call that may be made. ``attempts`` counts the requests that were sent.

    ``is_unanswered``: the last request may be billed, but returned no answer. ``lost_retries`` is how often it may
    still be sent again after a lost reply; it then becomes another call with its own id.
    """

    accounting: CostAccounting
    request: ModelCallRequest
    price: ModelPrice
    reservation: BudgetReservation
    number: int
    attempts: int = 0
    latency_s: float = 0.0
    is_recorded: bool = False
    lost_retries: int = 0
    id: str = field(init=False)
    is_unanswered: bool = field(init=False, default=False)
    # The requests of calls that this one replaced.
    _earlier_requests: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Set the id."""
        self.id = self._make_id()

    @property
    def is_retry_forbidden(self) -> bool:
        """Whether the last request may be billed and must not be repeated."""
        return self.is_unanswered and not self.lost_retries

    async def record_start(self) -> None:
        """Record the request with its maximum cost; nothing is sent before this is durable.

        Raises ServiceUnavailableError if a reply was lost and the budgets do not allow another request.
        """
        if self.is_unanswered:
            await self._replace_lost_call()
        if not self.is_recorded:
            await self._record_reservation()

    def abandon(self) -> None:
        """Settle a call whose caller was cancelled: at once in the budget, and soon in the ledger."""
        cost_usd = self._unanswered_cost_usd()
        self.accounting.budget.settle(self.reservation, cost_usd)
        if self.is_recorded:
            settlement = self._failed_settlement(
                cost_usd, "cancelled" if self._requests_sent else "cancelled before it was sent"
            )
            self.accounting.tasks.start_task(self.accounting.ledger.calls.settle(self.id, settlement))

    async def record_failure(self, error: Exception) -> None:
        """Settle a call without an answer."""
        cost_usd = self._unanswered_cost_usd()
        self.accounting.budget.settle(self.reservation, cost_usd)
        if self.is_recorded:
            detail = (
                f"{type(error).__name__}: {error}" if isinstance(error, FoxcastError) else describe_foreign_error(error)
            )
            settlement = self._failed_settlement(cost_usd, detail[:MAX_DETAIL_CHARS])
            await self.accounting.settle_call(self.request, self.id, settlement)

    def settle_answer(self, completion: ModelCompletion) -> SettledAnswer:
        """Return the answer with its settlement; raises MalformedDataError for a malformed answer."""
        try:
            cost_usd = self.price.cost_usd(completion)
            # Without a count of tokens it counts with its maximum cost.
            known_usd = self.reservation.request.worst_usd if cost_usd is None else cost_usd
            counted = completion.usage
            usage = ModelUsage(
                calls=1,
                tokens_in=counted.tokens_in,
                tokens_cached=counted.tokens_cached,
                tokens_out=counted.tokens_out,
                cost_usd=known_usd,
            )
            if completion.cost_usd is not None and not 0 <= completion.cost_usd < math.inf:
                completion = replace(completion, cost_usd=None)
            # What is recorded is used: without secrets, as in the record.
            text, record = CALL_RECORD_SERIALIZER.encode_as_read(self._call_record(completion, usage))
            finish = completion.finish.value
        except (AttributeError, TypeError, ValueError) as error:
            message = (
                f"{self.request.model}: the provider's answer does not have the documented form "
                f"({describe_foreign_error(error)})"
            )
            raise MalformedDataError(message) from error
        settlement = CallSettlement(
            usage=usage, attempts=self._requests_sent, latency_s=self.latency_s, finish=finish, answer=text
        )
        return SettledAnswer(completion=record.completion, settlement=settlement)

    async def record_answer(self, answer: SettledAnswer) -> ModelAnswer:
        """Settle a call with its answer; it is recorded when this returns."""
        usage = answer.settlement.usage
        self.accounting.budget.settle(self.reservation, usage.cost_usd)
        document = await self.accounting.settle_call(self.request, self.id, answer.settlement)
        return ModelAnswer(completion=answer.completion, usage=usage, model=self.request.model, document=document or "")

    def _call_record(self, completion: ModelCompletion, usage: ModelUsage) -> CallRecord:
        model_request = self.request.model_request
        return CallRecord(
            asked=self.request.record,
            role=model_request.role,
            scope=model_request.charge.scope,
            trial=model_request.charge.trial,
            completion=completion,
            usage=usage,
        )

    @property
    def _requests_sent(self) -> int:
        return self.attempts - self._earlier_requests

    def _make_id(self) -> str:
        charge = self.request.model_request.charge
        parts = (
            self.request.digest,
            charge.scope,
            str(charge.trial),
            format_timestamp(self.reservation.at),
            str(self.number),
        )
        return derive_id("call", *parts)

    def _unanswered_cost_usd(self) -> float:
        return self.reservation.request.worst_usd if self.is_unanswered else 0.0

    def _failed_settlement(self, cost_usd: float, detail: str) -> CallSettlement:
        usage = ModelUsage(calls=1 if self._requests_sent else 0, cost_usd=cost_usd)
        return CallSettlement(usage=usage, attempts=self._requests_sent, latency_s=self.latency_s, detail=detail)

    async def _replace_lost_call(self) -> None:
        """Settle a lost call at its maximum cost, and become the call that repeats the request.

        It does not wait for the budget, because other calls may wait for its place in the queue.
        """
        spending = self.reservation.request
        self.accounting.budget.settle(self.reservation, spending.worst_usd)
        reservation = self.accounting.budget.try_reserve(spending)
        if not isinstance(reservation, BudgetReservation):
            self.lost_retries = 0
            message = f"{self.request.model}: the reply was lost, and the budget does not allow another request"
            raise ServiceUnavailableError(message if reservation is None else f"{message}: {reservation}")
        lost_id, settlement = (
            self.id,
            self._failed_settlement(spending.worst_usd, "its reply was lost, and the request was repeated"),
        )
        # From here on it is another call, even if the caller is cancelled while the lost one is being recorded.
        self.reservation, self.number, self.lost_retries = (
            reservation,
            self.accounting.next_number(),
            self.lost_retries - 1,
        )
        self.id, self._earlier_requests, self.is_unanswered, self.is_recorded = (
            self._make_id(),
            self.attempts,
            False,
            False,
        )
        await self.accounting.settle_call(self.request, lost_id, settlement)

    async def _record_reservation(self) -> None:
        request = self.request
        scope = request.model_request.charge.scope
        unsaved = request.documents.unsaved(scope)
        packed = await pack_prompt_documents(unsaved)
        scopes = [part.stored.next_scope(scope) for part, _ in unsaved]
        # From here on it must be settled, even if the caller is cancelled while it is being recorded.
        self.is_recorded = True
        try:
            await self.accounting.ledger.calls.reserve(
                CallReservation(
                    id=self.id,
                    at=self.reservation.at,
                    charge=request.model_request.charge,
                    role=request.model_request.role,
                    provider=provider_name(request.model),
                    model=request.model,
                    request=request.digest,
                    worst_usd=self.reservation.request.worst_usd,
                ),
                [*zip(scopes, packed, strict=True)],
            )
        except Exception:
            self.is_recorded = False
            raise
        for (part, _), stored_under in zip(unsaved, scopes, strict=True):
            part.mark_recorded(scope, stored_under)
