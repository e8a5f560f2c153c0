"""Fake trading venue in memory.

Orders expire, take effect late, and are read back stale; it executes every order that arrives, so doubled orders are
visible.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto

from bot.core.errors import RequestRejectedError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, ContractSide, Fill, OpenOrder, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import BinaryOutcome, Outcome
from bot.core.questions import Question, QuestionRef
from bot.core.submissions import Intent, IntentState, ListedWrite, SealedRequest, SubmissionBatch, WriteReceipt

MS_PER_SECOND = 1000


class WriteFailure(Enum):
    """The fate of one write: the request is lost, or its reply, or it takes effect after the client's time-out."""

    REQUEST_LOST = auto()
    REPLY_LOST = auto()
    LATE = auto()
    REFUSED = auto()
    NOT_SENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOrder:
    """An order that took effect."""

    intent: str
    tag: str
    order: Order
    at: datetime
    expires_at: datetime
    fills: tuple[Fill, ...] = ()
    cancelled: bool = False

    @property
    def filled(self) -> float:
        """How many shares were traded."""
        return sum(fill.shares for fill in self.fills)

    def is_resting(self, now: datetime) -> bool:
        """Return whether it may still be filled."""
        return not self.cancelled and now < self.expires_at and self.filled < self.order.shares - 1e-9

    @property
    def reserved_cash(self) -> float:
        """The cash that it reserves while it is open."""
        return 0.0 if self.order.side is OrderSide.SELL else self.order.cost * (1 - self.filled / self.order.shares)


class FakeExchange:
    """Implements TradingSubmitter.

    A request expires ``life_s`` after it was sealed; ``stale_s``, at most ``cache_s``, is how old readings are.
    ``portion`` of an order is filled when it arrives, the rest waits for ``fill_resting``. ``placed`` holds every order
    that took effect, in order, so that a test can count doubles. ``edited`` are questions whose text here differs from
    what was read of them before.
    """

    def __init__(self, clock: Clock, *, cash: float = 1000.0, life_s: float = 30.0, cache_s: float = 15.0) -> None:
        self.clock = clock
        self.placed_orders: list[PlacedOrder] = []
        self.next_failures: list[WriteFailure] = []
        self.edited_questions: dict[QuestionRef, Question] = {}
        self.late_s = 5.0
        self.stale_s = 0.0
        self.fill_share = 1.0
        self.currency = "COIN"
        self._cash = cash
        self._life_s = life_s
        self._cache_s = cache_s
        self._late: list[tuple[datetime, Intent, SealedRequest]] = []
        self._last_ms = 0

    def doubled_intents(self) -> list[str]:
        """Return the intents that took effect more than once."""
        self._arrive_late()
        names = [placed.intent for placed in self.placed_orders]
        return sorted({name for name in names if names.count(name) > 1})

    def exposure_of(self, intent: str) -> float:
        """Return the actual or possible cost of an intent, by this side's own books."""
        self._arrive_late()
        now = self.clock.now()
        mine = [placed for placed in self.placed_orders if placed.intent == intent]
        paid = -sum(fill.cash for placed in mine for fill in placed.fills)
        return paid + sum(placed.reserved_cash for placed in mine if placed.is_resting(now))

    def fill_resting(self, portion: float = 1.0) -> None:
        """Let others trade with the open orders: fill that portion of each remainder."""
        self._arrive_late()
        now = self.clock.now()
        self.placed_orders = [
            self._filled(one, portion, now) if one.is_resting(now) else one for one in self.placed_orders
        ]

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        read = {question.ref: question for question in batch.questions} | self.edited_questions
        return [
            replace(self._seal(intent), question=read.get(intent.ref))
            for intent in batch.intents
            if intent.order is not None
        ]

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        requests = {sealed.intent: sealed for sealed in batch.sealed}
        return [self._submit(intent, requests[intent.id]) for intent in batch.intents]

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self._arrive_late()
        seen = self.clock.now() - timedelta(seconds=self.stale_s)
        tags: dict[str, set[str]] = {}
        for sealed in batch.sealed:
            tags.setdefault(sealed.intent, set()).add(sealed.tag)
        visible = [
            replace(placed, fills=tuple(fill for fill in placed.fills if fill.at <= seen))
            for placed in self.placed_orders
            if placed.at <= seen
        ]
        return [_order_receipt(intent.id, tags.get(intent.id, set()), visible) for intent in batch.intents]

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        self._arrive_late()
        return [
            ListedWrite(reference=one.tag, contract=one.order.contract, at=one.at, text="an order")
            for one in self.placed_orders
            if one.at >= since
        ]

    async def account(self) -> Account:
        self._arrive_late()
        now = self.clock.now()
        resting = [(place, one) for place, one in enumerate(self.placed_orders) if one.is_resting(now)]
        moved = sum(fill.cash for placed in self.placed_orders for fill in placed.fills)
        return Account(
            at=now,
            currency=self.currency,
            cash=self._cash + moved - sum(one.reserved_cash for _, one in resting),
            positions=self._positions(),
            orders=tuple(_open_order(f"order {place}", one) for place, one in resting),
        )

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        self._arrive_late()
        now = self.clock.now()
        ended = []
        for place, one in enumerate(self.placed_orders):
            if one.is_resting(now) and (order_ids is None or f"order {place}" in order_ids):
                self.placed_orders[place] = replace(one, cancelled=True)
                ended.append(f"order {place}")
        return ended

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        if not isinstance(outcome, BinaryOutcome):
            return UnpaidOutcome.REFUND
        return outcome.value if position.leg is ContractSide.YES else 1.0 - outcome.value

    def _seal(self, intent: Intent) -> SealedRequest:
        now = self.clock.now()
        expires = max(round((now.timestamp() + self._life_s) * MS_PER_SECOND), self._last_ms + 1)
        self._last_ms = expires
        fence = datetime.fromtimestamp(expires / MS_PER_SECOND, tz=now.tzinfo) + timedelta(seconds=self._cache_s)
        return SealedRequest(intent=intent.id, tag=str(expires), body=json.dumps({"expires": expires}), fence=fence)

    def _submit(self, intent: Intent, sealed: SealedRequest) -> WriteReceipt:
        mishap = self.next_failures.pop(0) if self.next_failures else None
        if mishap is WriteFailure.REFUSED:
            return WriteReceipt(intent=intent.id, state=IntentState.REFUSED, detail="the market is closed")
        if mishap is WriteFailure.NOT_SENT:
            return WriteReceipt(intent=intent.id, state=IntentState.ABSENT, detail="no connection")
        if mishap is WriteFailure.LATE:
            self._late.append((self.clock.now() + timedelta(seconds=self.late_s), intent, sealed))
        if mishap in {WriteFailure.LATE, WriteFailure.REQUEST_LOST}:
            return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost")
        if not self._place(intent, sealed, self.clock.now()):
            return WriteReceipt(intent=intent.id, state=IntentState.REFUSED, detail="expired")
        if mishap is WriteFailure.REPLY_LOST:
            return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost")
        return _order_receipt(intent.id, {sealed.tag}, self.placed_orders)

    def _place(self, intent: Intent, sealed: SealedRequest, at: datetime) -> bool:
        expires_at = datetime.fromtimestamp(json.loads(sealed.body)["expires"] / MS_PER_SECOND, tz=at.tzinfo)
        if at >= expires_at:
            return False
        if intent.order is None:
            message = f"intent {intent.id} has no order"
            raise RequestRejectedError(message)
        placed = PlacedOrder(intent=intent.id, tag=sealed.tag, order=intent.order, at=at, expires_at=expires_at)
        self.placed_orders.append(self._filled(placed, self.fill_share, at))
        return True

    def _filled(self, placed: PlacedOrder, portion: float, at: datetime) -> PlacedOrder:
        shares = (placed.order.shares - placed.filled) * portion
        if shares <= 0.0:
            return placed
        # The rest of its cost is all that it may spend.
        cost = placed.order.cost * shares / placed.order.shares
        sale = placed.order.side is OrderSide.SELL
        fill = Fill(
            reference=f"{placed.tag}/{len(placed.fills)}",
            at=at,
            shares=shares,
            price=placed.order.limit if sale else cost / shares,
            cash=shares * placed.order.limit if sale else -cost,
        )
        return replace(placed, fills=(*placed.fills, fill))

    def _arrive_late(self) -> None:
        now = self.clock.now()
        due = [one for one in self._late if one[0] <= now]
        self._late = [one for one in self._late if one[0] > now]
        for at, intent, sealed in due:
            self._place(intent, sealed, at)

    def _positions(self) -> tuple[Position, ...]:
        shares: dict[tuple[str, ContractSide], float] = {}
        paid: dict[tuple[str, ContractSide], float] = {}
        for placed in self.placed_orders:
            key = (placed.order.contract, placed.order.leg)
            held, cost = shares.get(key, 0.0), paid.get(key, 0.0)
            if placed.order.side is OrderSide.SELL:
                shares[key] = held - placed.filled
                paid[key] = cost * shares[key] / held if held else 0.0
            else:
                shares[key] = held + placed.filled
                paid[key] = cost - sum(fill.cash for fill in placed.fills)
        return tuple(
            Position(contract=contract, leg=leg, shares=held, paid=paid[contract, leg])
            for (contract, leg), held in shares.items()
            if held > 0.0
        )


def _order_receipt(intent: str, tags: set[str], visible: Sequence[PlacedOrder]) -> WriteReceipt:
    for placed in visible:
        if placed.tag in tags:
            return WriteReceipt(intent=intent, state=IntentState.ACKED, reference=placed.tag, fills=placed.fills)
    return WriteReceipt(intent=intent, state=IntentState.ABSENT, detail="not found")


def _open_order(name: str, placed: PlacedOrder) -> OpenOrder:
    return OpenOrder(
        id=name,
        contract=placed.order.contract,
        leg=placed.order.leg,
        side=placed.order.side,
        limit=placed.order.limit,
        shares=placed.order.shares - placed.filled,
        reserves=placed.reserved_cash,
        expires_at=placed.expires_at,
    )
