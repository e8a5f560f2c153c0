"""One call from its reservation to its settlement: purse and ledger never tell different things about it.

The worst case is held in the purse first and written down before the first request leaves. A request that may have been
billed without an answer (it was cut off, or what came back has no form) counts at the worst case, one that was plainly
refused at nothing.

A request whose reply was lost on its way is sent once more where the budgets have room for a second worst case. The
lost one is closed as spent, as after a kill; the other is a call of its own.
"""

import asyncio
import math
from dataclasses import dataclass, field, replace

from bot.domain.inquiry import Inquiry
from bot.domain.prompt import Answer, Completion, Finish, Prompt, Sampling
from bot.domain.step import Usage
from bot.errors import BudgetExhausted, ContractError, FoxcastError, Rejected, Unavailable
from bot.ids import derive_id
from bot.llm.errands import Alarm, Errands
from bot.llm.faults import named
from bot.llm.parts import Parts, keep
from bot.llm.patience import Patience
from bot.llm.price import Rate
from bot.llm.purse import Claim, Hold, Purse, Shortage
from bot.llm.record import RECORD, Asked, Record
from bot.llm.roles import provider_of
from bot.store.calls import Reservation, Settlement
from bot.store.codec import stamp
from bot.store.ledger import Ledger

DETAIL_CHARS = 500
# How often one question to a model may be sent again because a reply was lost.
ASKED_AGAIN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be asked of one model; ``again`` is how often it may be sent again after a lost reply."""

    inquiry: Inquiry
    model: str
    asked: Asked
    parts: Parts
    request: str
    again: int = ASKED_AGAIN

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.inquiry.prompt

    @property
    def sampling(self) -> Sampling:
        """How it is to be sampled."""
        return self.asked.sampling

    def once_more(self, completion: Completion) -> "Order | None":
        """Return what to ask where an answer has nothing in it, once; None for any other answer.

        A model whose thoughts used up all tokens gets twice as many. It is a request of its own, with its own worst
        case.
        """
        if completion.text.strip() or completion.calls or completion.finish is Finish.REFUSED or self.asked.again:
            return None
        longer = 2 * self.sampling.max_tokens if completion.finish is Finish.LENGTH else self.sampling.max_tokens
        asked = replace(self.asked, sampling=replace(self.sampling, max_tokens=longer), again=1)
        return replace(self, asked=asked, request=asked.digest)


class Till:
    """Opens calls, and serves from the record what was answered before."""

    def __init__(self, purse: Purse, ledger: Ledger, *, errands: Errands, alarm: Alarm, begun: int) -> None:
        """Keep where money and records are; calls are numbered on from those ``begun`` today, so that none has two."""
        self.purse = purse
        self.ledger = ledger
        self.errands = errands
        self._alarm = alarm
        self._opened = begun
        self._closing: dict[str, asyncio.Task[str | None]] = {}

    async def stored(self, order: Order) -> Answer | None:
        """Return the answer to the very same request, if there is one, with its cost if it is this trial's own."""
        if closing := self._closing.get(order.request):
            # Its caller was cancelled, but it may have been answered.
            await asyncio.wait([closing])
        found = await self.ledger.calls.answered(order.request)
        if found is None:
            return None
        digest, text = found
        record = RECORD.decode(text)
        charge = order.inquiry.charge
        own = (record.scope, record.trial) == (charge.scope, charge.trial)
        usage = record.usage if own else Usage()
        return Answer(completion=record.completion, usage=usage, model=order.model, document=digest, stored=True)

    async def open(self, order: Order, rate: Rate, patience: Patience) -> "Call":
        """Hold the worst case, waiting where calls under way may make room: that counts for the caller's time alone.

        Raises Rejected where a budget does not allow it, or not before the caller's time is up.
        """
        scope = order.inquiry.charge.scope
        if not self.purse.knows(scope):
            self.purse.learn(scope, await self.ledger.calls.spent_on(scope))
        worst_usd = rate.worst_usd(tokens_in=order.parts.tokens, max_tokens=order.sampling.max_tokens)
        claim = Claim(scope=scope, provider=provider_of(order.model), worst_usd=worst_usd)
        held = self.purse.take(claim)
        if held is None:
            held = await self._waited(order, claim, patience)
        if isinstance(held, Shortage):
            raise self._refused(order, held, "")
        return Call(till=self, order=order, rate=rate, hold=held, number=self.next_number(), again=order.again)

    def next_number(self) -> int:
        """Return the number of a call that is opened now."""
        self._opened += 1
        return self._opened

    async def _waited(self, order: Order, claim: Claim, patience: Patience) -> Hold | Shortage:
        began = asyncio.get_running_loop().time()
        try:
            with patience.paused():
                return await self.purse.wait(claim)
        except asyncio.CancelledError:
            shortage = self.purse.shortage(claim)
            if shortage is None or not patience.expired:
                raise
            waited_s = asyncio.get_running_loop().time() - began
            why = f"; it waited {waited_s:.0f} s for the calls under way to cost less than they may"
            raise self._refused(order, shortage, why) from None

    def _refused(self, order: Order, shortage: Shortage, why: str) -> Rejected:
        limit = shortage.limit
        self._alarm.tell(f"budget {limit.setting}", f"Budget {limit.what} reached", f"{shortage}{why}.")
        return BudgetExhausted(f"{order.model}, for {order.inquiry.charge.ref}: {shortage}{why}")

    async def close(self, order: Order, call: str, settlement: Settlement) -> str | None:
        """Write down what became of a call, also if the caller is cancelled meanwhile."""
        closing = self.errands.begin(self.ledger.calls.settle(call, settlement))
        self._closing[order.request] = closing
        closing.add_done_callback(lambda _: self._closing.pop(order.request, None))
        return await asyncio.shield(closing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """An answer and what is to be written down of it."""

    completion: Completion
    settlement: Settlement


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A call that may be made. ``attempts`` counts the requests that left.

    ``again`` is how often it may yet be sent again after a lost reply; it is another call then, with an id of its own.
    """

    till: Till
    order: Order
    rate: Rate
    hold: Hold
    number: int
    attempts: int = 0
    latency_s: float = 0.0
    written: bool = False
    again: int = 0
    id: str = field(init=False)
    # The last request may be billed, and brought no answer.
    _unanswered: bool = field(init=False, default=False)
    # The requests of calls that this one took the place of.
    _before: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Name the call."""
        self.id = self._named()

    @property
    def doubtful(self) -> bool:
        """Whether the last request may be billed and none may follow it; set to whether it may be billed."""
        return self._unanswered and not self.again

    @doubtful.setter
    def doubtful(self, billed: bool) -> None:
        self._unanswered = billed

    async def begin(self) -> None:
        """Write down what is asked and that it may cost its worst case; nothing leaves before this is durable.

        Raises Unavailable where a reply was lost and the budgets have no room to ask once more.
        """
        if self._unanswered:
            await self._replace()
        if not self.written:
            await asyncio.gather(self._reserve(), keep(self.order.parts.unkept, self.till.ledger.documents))

    def give_up(self) -> None:
        """Settle a call whose caller is gone: at once in the purse, and in the ledger soon."""
        cost_usd = self._unanswered_usd()
        self.till.purse.settle(self.hold, cost_usd)
        if self.written:
            settlement = self._failed(cost_usd, "cut off" if self._sent else "given up before it was sent")
            self.till.errands.begin(self.till.ledger.calls.settle(self.id, settlement))

    async def fail(self, error: Exception) -> None:
        """Settle a call without an answer."""
        cost_usd = self._unanswered_usd()
        self.till.purse.settle(self.hold, cost_usd)
        if self.written:
            said = f"{type(error).__name__}: {error}" if isinstance(error, FoxcastError) else named(error)
            settlement = self._failed(cost_usd, said[:DETAIL_CHARS])
            await self.till.close(self.order, self.id, settlement)

    def settlement(self, completion: Completion) -> Closing:
        """Return what is to be written down of an answer; raises ContractError for one that has not its form."""
        try:
            cost_usd = self.rate.cost_usd(completion)
            # Where nobody counted, nobody can say that it was less.
            known_usd = self.hold.claim.worst_usd if cost_usd is None else cost_usd
            usage = replace(completion.usage, calls=1, cost_usd=known_usd)
            if completion.cost_usd is not None and not 0 <= completion.cost_usd < math.inf:
                completion = replace(completion, cost_usd=None)
            text = RECORD.encode(self._record(completion, usage))
            finish = completion.finish.value
        except (AttributeError, TypeError, ValueError) as error:
            message = f"{self.order.model}: the provider's answer has not the form of one ({named(error)})"
            raise ContractError(message) from error
        settlement = Settlement(usage=usage, attempts=self._sent, latency_s=self.latency_s, finish=finish, answer=text)
        return Closing(completion=completion, settlement=settlement)

    async def close(self, closing: Closing) -> Answer:
        """Settle a call with its answer, which is on record when this returns."""
        usage = closing.settlement.usage
        self.till.purse.settle(self.hold, usage.cost_usd)
        document = await self.till.close(self.order, self.id, closing.settlement)
        return Answer(completion=closing.completion, usage=usage, model=self.order.model, document=document or "")

    def _record(self, completion: Completion, usage: Usage) -> Record:
        inquiry = self.order.inquiry
        return Record(
            asked=self.order.asked,
            role=inquiry.role,
            scope=inquiry.charge.scope,
            trial=inquiry.charge.trial,
            completion=completion,
            usage=usage,
        )

    @property
    def _sent(self) -> int:
        return self.attempts - self._before

    def _named(self) -> str:
        charge = self.order.inquiry.charge
        parts = (self.order.request, charge.scope, str(charge.trial), stamp(self.hold.at), str(self.number))
        return derive_id("call", *parts)

    def _unanswered_usd(self) -> float:
        return self.hold.claim.worst_usd if self._unanswered else 0.0

    def _failed(self, cost_usd: float, detail: str) -> Settlement:
        usage = Usage(calls=1 if self._sent else 0, cost_usd=cost_usd)
        return Settlement(usage=usage, attempts=self._sent, latency_s=self.latency_s, detail=detail)

    async def _replace(self) -> None:
        """Close what was lost as spent at its worst case, and become the call that asks the same once more.

        It does not wait for the budget: the place in the queue that it is given may be what others wait for.
        """
        claim = self.hold.claim
        self.till.purse.settle(self.hold, claim.worst_usd)
        held = self.till.purse.take(claim)
        if not isinstance(held, Hold):
            self.again = 0
            message = f"{self.order.model}: the reply was lost, and the budget has no room to ask once more"
            raise Unavailable(message if held is None else f"{message}: {held}")
        lost, settlement = self.id, self._failed(claim.worst_usd, "its reply was lost, and it was asked once more")
        # From here on it is another call, also if the caller leaves while the lost one is being written down.
        self.hold, self.number, self.again = held, self.till.next_number(), self.again - 1
        self.id, self._before, self._unanswered, self.written = self._named(), self.attempts, False, False
        await self.till.close(self.order, lost, settlement)

    async def _reserve(self) -> None:
        order = self.order
        # From here on there is something to settle, also if the caller leaves while it is being written.
        self.written = True
        try:
            await self.till.ledger.calls.reserve(
                Reservation(
                    id=self.id,
                    at=self.hold.at,
                    charge=order.inquiry.charge,
                    role=order.inquiry.role,
                    provider=provider_of(order.model),
                    model=order.model,
                    request=order.request,
                    worst_usd=self.hold.claim.worst_usd,
                )
            )
        except Exception:
            self.written = False
            raise
