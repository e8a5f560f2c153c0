"""The writing half of a trading venue in memory: tags, fences, effects that come late, readings that are stale.

It places whatever reaches it before its expiry, as often as it does: nothing here protects a program that sends twice.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from bot.domain.order import Account, Fill, Instead, Leg, OpenOrder, Order, Position, Side
from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import Happened, Outcome
from bot.domain.submission import Batch, Intent, IntentState, Receipt, Sealed
from bot.errors import Rejected
from bot.ports import Clock

EPOCH_MS = 1000


class Mishap(Enum):
    """What becomes of one write: the request is lost, or its reply, or it takes effect later than it is given up."""

    REQUEST_LOST = auto()
    REPLY_LOST = auto()
    LATE = auto()
    REFUSED = auto()
    NOT_SENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
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

    def rests(self, now: datetime) -> bool:
        """Say whether it may still be filled."""
        return not self.cancelled and now < self.expires_at and self.filled < self.order.shares - 1e-9

    @property
    def held(self) -> float:
        """What it holds back while it rests."""
        return 0.0 if self.order.side is Side.SELL else self.order.cost * (1 - self.filled / self.order.shares)


class MemoryExchange:
    """Implements the port Trader.

    A request expires ``life_s`` after it was sealed; ``stale_s``, at most ``cache_s``, is how old readings are.
    ``portion`` of an order is filled when it arrives, the rest waits for ``trade``. ``placed`` holds every order that
    took effect, in order, so that a test can count doubles. ``edited`` are questions that ask something else here than
    what was read of them before.
    """

    def __init__(self, clock: Clock, *, cash: float = 1000.0, life_s: float = 30.0, cache_s: float = 15.0) -> None:
        self.clock = clock
        self.placed: list[Placed] = []
        self.mishaps: list[Mishap] = []
        self.edited: dict[QuestionRef, Question] = {}
        self.late_s = 5.0
        self.stale_s = 0.0
        self.portion = 1.0
        self.currency = "COIN"
        self._cash = cash
        self._life_s = life_s
        self._cache_s = cache_s
        self._late: list[tuple[datetime, Intent, Sealed]] = []
        self._last_ms = 0

    def doubles(self) -> list[str]:
        """Return the intents that took effect more than once."""
        self._arrive_late()
        names = [placed.intent for placed in self.placed]
        return sorted({name for name in names if names.count(name) > 1})

    def exposed(self, intent: str) -> float:
        """Return what an intent has cost, or may still cost, by this side's own books."""
        self._arrive_late()
        now = self.clock.now()
        mine = [placed for placed in self.placed if placed.intent == intent]
        paid = -sum(fill.cash for placed in mine for fill in placed.fills)
        return paid + sum(placed.held for placed in mine if placed.rests(now))

    def trade(self, portion: float = 1.0) -> None:
        """Let others trade with what rests: fill that portion of each remainder."""
        self._arrive_late()
        now = self.clock.now()
        self.placed = [self._filled(one, portion, now) if one.rests(now) else one for one in self.placed]

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        read = {question.ref: question for question in batch.questions} | self.edited
        return [
            replace(self._seal(intent), question=read.get(intent.ref))
            for intent in batch.intents
            if intent.order is not None
        ]

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        requests = {sealed.intent: sealed for sealed in batch.sealed}
        return [self._submit(intent, requests[intent.id]) for intent in batch.intents]

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        self._arrive_late()
        seen = self.clock.now() - timedelta(seconds=self.stale_s)
        tags: dict[str, set[str]] = {}
        for sealed in batch.sealed:
            tags.setdefault(sealed.intent, set()).add(sealed.tag)
        visible = [
            replace(placed, fills=tuple(fill for fill in placed.fills if fill.at <= seen))
            for placed in self.placed
            if placed.at <= seen
        ]
        return [_found(intent.id, tags.get(intent.id, set()), visible) for intent in batch.intents]

    async def account(self) -> Account:
        self._arrive_late()
        now = self.clock.now()
        resting = [(place, one) for place, one in enumerate(self.placed) if one.rests(now)]
        moved = sum(fill.cash for placed in self.placed for fill in placed.fills)
        return Account(
            at=now,
            currency=self.currency,
            cash=self._cash + moved - sum(one.held for _, one in resting),
            positions=self._positions(),
            orders=tuple(_open_order(f"order {place}", one) for place, one in resting),
        )

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        self._arrive_late()
        now = self.clock.now()
        ended = []
        for place, one in enumerate(self.placed):
            if one.rests(now) and (order_ids is None or f"order {place}" in order_ids):
                self.placed[place] = replace(one, cancelled=True)
                ended.append(f"order {place}")
        return ended

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        if not isinstance(outcome, Happened):
            return Instead.REFUND
        return outcome.value if position.leg is Leg.YES else 1.0 - outcome.value

    def _seal(self, intent: Intent) -> Sealed:
        now = self.clock.now()
        expires = max(round((now.timestamp() + self._life_s) * EPOCH_MS), self._last_ms + 1)
        self._last_ms = expires
        fence = datetime.fromtimestamp(expires / EPOCH_MS, tz=now.tzinfo) + timedelta(seconds=self._cache_s)
        return Sealed(intent=intent.id, tag=str(expires), body=json.dumps({"expires": expires}), fence=fence)

    def _submit(self, intent: Intent, sealed: Sealed) -> Receipt:
        mishap = self.mishaps.pop(0) if self.mishaps else None
        if mishap is Mishap.REFUSED:
            return Receipt(intent=intent.id, state=IntentState.REFUSED, detail="the market is closed")
        if mishap is Mishap.NOT_SENT:
            return Receipt(intent=intent.id, state=IntentState.ABSENT, detail="no connection")
        if mishap is Mishap.LATE:
            self._late.append((self.clock.now() + timedelta(seconds=self.late_s), intent, sealed))
        if mishap in {Mishap.LATE, Mishap.REQUEST_LOST}:
            return Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost")
        if not self._place(intent, sealed, self.clock.now()):
            return Receipt(intent=intent.id, state=IntentState.REFUSED, detail="expired")
        if mishap is Mishap.REPLY_LOST:
            return Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost")
        return _found(intent.id, {sealed.tag}, self.placed)

    def _place(self, intent: Intent, sealed: Sealed, at: datetime) -> bool:
        expires_at = datetime.fromtimestamp(json.loads(sealed.body)["expires"] / EPOCH_MS, tz=at.tzinfo)
        if at >= expires_at:
            return False
        if intent.order is None:
            message = f"intent {intent.id} has no order"
            raise Rejected(message)
        placed = Placed(intent=intent.id, tag=sealed.tag, order=intent.order, at=at, expires_at=expires_at)
        self.placed.append(self._filled(placed, self.portion, at))
        return True

    def _filled(self, placed: Placed, portion: float, at: datetime) -> Placed:
        shares = (placed.order.shares - placed.filled) * portion
        if shares <= 0.0:
            return placed
        # What is left of its cost is what it may take, so never more.
        cost = placed.order.cost * shares / placed.order.shares
        sale = placed.order.side is Side.SELL
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
        shares: dict[tuple[str, Leg], float] = {}
        paid: dict[tuple[str, Leg], float] = {}
        for placed in self.placed:
            key = (placed.order.contract, placed.order.leg)
            sign = -1.0 if placed.order.side is Side.SELL else 1.0
            shares[key] = shares.get(key, 0.0) + sign * placed.filled
            paid[key] = paid.get(key, 0.0) - sum(fill.cash for fill in placed.fills)
        return tuple(
            Position(contract=contract, leg=leg, shares=held, paid=paid[contract, leg])
            for (contract, leg), held in shares.items()
            if held > 0.0
        )


def _found(intent: str, tags: set[str], visible: Sequence[Placed]) -> Receipt:
    for placed in visible:
        if placed.tag in tags:
            return Receipt(intent=intent, state=IntentState.ACKED, reference=placed.tag, fills=placed.fills)
    return Receipt(intent=intent, state=IntentState.ABSENT, detail="not found")


def _open_order(name: str, placed: Placed) -> OpenOrder:
    return OpenOrder(
        id=name,
        contract=placed.order.contract,
        leg=placed.order.leg,
        side=placed.order.side,
        limit=placed.order.limit,
        shares=placed.order.shares - placed.filled,
        reserves=placed.held,
        expires_at=placed.expires_at,
    )
