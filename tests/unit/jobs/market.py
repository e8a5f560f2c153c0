"""A small market for the tests of orders: an account, a planner that buys what it is told, and a lane with caps."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from bot.config.venue_schema import BankrollSection, CapsSection, TradingSection
from bot.domain.order import Account, Instead, Leg, OpenOrder, Order, Plan, Position, Side, Wish
from bot.domain.permission import Arm
from bot.domain.resolution import Happened, Outcome
from bot.domain.submission import Batch, Mode, Sealed
from bot.gate.case import Lane
from bot.gate.gate import Gate
from bot.gate.readiness import Readiness
from bot.gate.recheck import Recheck
from bot.jobs.closing import PositionClosing
from bot.jobs.comment import Commenting
from bot.jobs.submit import Begin, Submitting, submit_due
from bot.outbox.outbox import Outbox
from bot.store import arms
from bot.testing.book import MemoryBook
from tests.unit.jobs.conftest import FIRST, VENUE, House

DIGEST = "the configuration"
# No share of the bankroll bounds anything, and the legs of one event are bets of their own.
UNBOUND = BankrollSection(per_pass=1, per_question=1, per_event=1, per_day=1, total=1, correlation=0)


class Broker(MemoryBook):
    """A book that takes orders from one account."""

    def __init__(self, clock: Callable[[], datetime], cash: float = 100.0) -> None:
        super().__init__()
        self.clock = clock
        self.cash = cash
        self.resting: list[OpenOrder] = []
        self.fault: Exception | None = None
        self.reads = 0

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        return [Sealed(intent=intent.id, tag=intent.id, body=f"buy {intent.id}") for intent in batch.intents]

    async def account(self) -> Account:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return Account(at=self.clock(), currency="COIN", cash=self.cash, orders=tuple(self.resting))

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        gone = [order.id for order in self.resting if order_ids is None or order.id in order_ids]
        self.resting = [order for order in self.resting if order.id not in gone]
        return gone

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        return outcome.value if isinstance(outcome, Happened) else Instead.REFUND

    def rest(self, name: str, *, contract: str = "c") -> None:
        self.resting.append(
            OpenOrder(id=name, contract=contract, leg=Leg.YES, side=Side.BUY, limit=0.5, shares=1.0, reserves=0.5)
        )


@dataclass
class Wants:
    """Implements Planner: spends ``stake``, or what it may where that is less, at one half a share; or sells.

    A ``greedy`` one takes no notice of what it may spend; ``meanwhile`` is what happens while it thinks.
    """

    stake: float = 10.0
    wishes: list[Wish] = field(default_factory=list)
    fault: Exception | None = None
    side: Side = Side.BUY
    edge: float = 0.1
    greedy: bool = False
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def plan(self, wish: Wish) -> Plan:
        self.wishes.append(wish)
        if self.fault is not None:
            raise self.fault
        if self.meanwhile is not None:
            await self.meanwhile()
        cost = self.stake if self.greedy else min(self.stake, wish.appetite.most)
        if cost < 1.0 and self.side is Side.BUY:
            return Plan(why=f"{cost:.2f} is not worth an order")
        order = Order(
            contract=wish.question.ref.key,
            leg=Leg.YES,
            side=self.side,
            shares=self.stake * 2,
            limit=0.5,
            cost=cost if self.side is Side.BUY else 0.0,
            expected=0.5,
            currency="COIN",
            edge=self.edge,
        )
        return Plan(why="a good price", order=order, state='{"ask":0.5}')


@dataclass
class Shopfloor:
    """The house with a venue that takes orders."""

    house: House
    broker: Broker
    wants: Wants = field(default_factory=Wants)
    lane: Lane = field(
        default_factory=lambda: Lane(
            venue=VENUE, mode=Mode.PAPER, primary=FIRST, account="me", digest=DIGEST, bankroll=UNBOUND
        )
    )
    readiness: Readiness = field(
        default_factory=lambda: Readiness(credentials={VENUE: ""}, doubts={VENUE: ""}, clock="", database="", audit="")
    )

    fee: float = 0.0
    by_event: bool = False
    look: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def of(cls, house: House) -> "Shopfloor":
        return cls(house, Broker(house.clock.now))

    def bound(self, mode: Mode = Mode.PAPER, *, trading: dict[str, Any] | None = None, **caps: Any) -> None:
        self.lane = replace(self.lane, mode=mode, caps=CapsSection(**caps), trading=TradingSection(**(trading or {})))

    @property
    def gate(self) -> Gate:
        return Gate(brake=self.house.brake)

    @property
    def outbox(self) -> Outbox:
        house, lanes = self.house, {VENUE: self.lane}
        recheck = Recheck(
            ledger=house.ledger,
            lanes=lanes,
            brake=house.brake,
            clock=house.clock,
            readiness=self.readiness,
            trading={VENUE},
        )
        plain = house.outbox(lanes)
        return replace(plain, submitters={VENUE: self.broker}, recheck=recheck)

    async def submit(self, *, flush: bool = True, begin: Begin | None = None) -> str:
        """Submit and return how many were planned, held and acknowledged."""
        return (await self.told(flush=flush, begin=begin)).partition(";")[0]

    async def told(
        self, *, flush: bool = True, begin: Begin | None = None, closing: PositionClosing | None = None
    ) -> str:
        outbox = self.outbox if flush else replace(self.outbox, submitters={VENUE: self.broker}, ready=_never)

        async def nothing() -> None:
            """Nothing is live."""

        return await submit_due(
            Submitting(
                ledger=self.house.ledger,
                lanes={VENUE: self.lane},
                gate=self.gate,
                outbox=outbox,
                clock=self.house.clock,
                planners={VENUE: self.wants},
                readiness=self.readiness,
                look=self.look or nothing,
                begin=begin or Begin(is_over=True),
                closing=closing,
                commenting=Commenting(
                    fees={VENUE: self.fee},
                    ledger=self.house.ledger,
                    lanes={VENUE: self.lane},
                    clock=self.house.clock,
                    recheck=outbox.recheck,
                    by_event=[VENUE] if self.by_event else [],
                ),
            )
        )

    async def forecast(self, *keys: str, **changes: Any) -> None:
        self.house.offer(*keys, **changes)
        await self.house.discover()
        await self.house.forecast()

    async def arm(self, **changes: Any) -> Arm:
        now = self.house.clock.now()
        given: dict[str, Any] = {
            "id": f"arm at {now}",
            "venue": VENUE,
            "account": "me",
            "config": DIGEST,
            "by": "ann",
            "armed_at": now,
            "until": now + timedelta(hours=24),
            "per_order": 20.0,
            "per_day": 50.0,
            "total": 100.0,
        }
        arm = Arm(**(given | changes))
        await self.house.ledger.leave.write(lambda database: arms.add(database, arm))
        return arm

    def bought(self) -> list[float]:
        return [intent.order.cost for intent in self.broker.writes if intent.order is not None]

    async def whys(self, key: str = "rain") -> list[str]:
        [forecast] = await self.house.history(key)
        return [row.decision.why for row in await self.house.ledger.submissions.decisions(forecast.id)]


async def _never(_row: object, _now: datetime) -> bool:
    return False
