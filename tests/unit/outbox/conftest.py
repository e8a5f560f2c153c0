"""The outbox is tried in the house of the jobs that use it, and beside an exchange where forecasts become orders."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from bot.domain.forecast import Forecast
from bot.domain.order import Leg, Order, Side
from bot.domain.prediction import Binary
from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Mode, Receipt, Sealed, Send
from bot.ids import derive_id
from bot.outbox.door import Recheck
from bot.outbox.outbox import Outbox
from bot.store.submissions import BatchRow
from bot.testing.exchange import MemoryExchange
from tests.unit.jobs.conftest import VENUE, House, house

__all__ = ["house"]


async def _at_once(_: BatchRow, __: datetime) -> bool:
    return True


async def _fine(_: Intent) -> str | None:
    return None


def order(cost: float = 10.0) -> Order:
    return Order(
        contract="market 7",
        leg=Leg.YES,
        side=Side.BUY,
        shares=2 * cost,
        limit=0.5,
        cost=cost,
        expected=0.5,
        currency="COIN",
    )


@dataclass
class Floor:
    """A ledger, an exchange and the outbox between them."""

    house: House
    exchange: MemoryExchange
    mode: Mode = Mode.LIVE
    account: str = "me"
    recheck: Recheck = _fine
    clock_fault: str = ""
    most_doubts: int = 3
    alarms: list[str] = field(default_factory=list)

    def outbox(self) -> Outbox:
        async def alarm(venue: str, text: str) -> None:
            self.alarms.append(f"{venue}: {text}")

        return Outbox(
            ledger=self.house.ledger,
            submitters={VENUE: self.exchange},
            clock=self.house.clock,
            brake=self.house.brake,
            ready=_at_once,
            recheck=self.recheck,
            modes={VENUE: self.mode},
            accounts={VENUE: self.account},
            alarm=alarm,
            clock_fault=lambda: self.clock_fault,
            most_doubts={VENUE: self.most_doubts},
        )

    async def forecast(self, key: str = "rain", **changes: object) -> Forecast:
        self.house.offer(key, **changes)
        await self.house.discover()
        await self.house.forecast()
        return (await self.house.history(key))[-1]

    async def plan(self, forecast: Forecast, *, cost: float = 10.0, batch: str = "", side: Side = Side.BUY) -> Intent:
        name = derive_id("intent", forecast.id)
        intent = Intent(
            id=name,
            account="me",
            ref=forecast.ref,
            forecast=forecast.id,
            action=IntentAction.ORDER,
            predictions=forecast.predictions,
            batch=batch or name,
            order=replace(order(cost), side=side, cost=cost if side is Side.BUY else 0.0),
        )
        return await self.decide(intent)

    async def comment(self, intent: Intent) -> Intent:
        name = derive_id("comment", intent.forecast)
        said = replace(intent, id=name, batch=name, action=IntentAction.COMMENT, order=order(), text="Because.")
        return await self.decide(replace(said, order=None, predictions={"outcome": Binary(0.5)}))

    async def decide(self, intent: Intent) -> Intent:
        send = Send(intent=intent, mode=self.mode, why="so decided")
        at = self.house.clock.now()
        stored = await self.house.ledger.submissions.decide(forecast_id=intent.forecast, decision=send, at=at)
        assert isinstance(stored, Send), stored
        return stored.intent

    async def state(self, intent: Intent) -> IntentState:
        return (await self.house.ledger.submissions.get(intent.id)).state


@pytest.fixture
def floor(house: House) -> Floor:
    return Floor(house=house, exchange=MemoryExchange(house.clock))


@pytest.fixture
def snapshot(house: House) -> Callable[[], list[str]]:
    """Everything that is on record of what left, row by row."""

    def read() -> list[str]:
        with closing(sqlite3.connect(house.path / "ledger.sqlite")) as database:
            return [
                repr(row)
                for table in ("intent", "attempt", "fill", "decision", "event")
                for row in database.execute(f"select * from {table} order by 1, 2")  # noqa: S608 - constants
            ]

    return read


class Odd(MemoryExchange):
    """An exchange whose requests are made, or whose answers are given, as the test says."""

    seals: Callable[[Sequence[Sealed]], Sequence[Sealed]] = staticmethod(lambda made: made)
    reads: Callable[[Sequence[Receipt]], Sequence[Receipt]] = staticmethod(lambda found: found)
    answers: Callable[[Sequence[Receipt]], Sequence[Receipt]] = staticmethod(lambda said: said)

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        return self.seals(await super().seal(batch))

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        return self.reads(await super().standing(batch))

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        return self.answers(await super().submit(batch))


@pytest.fixture
def odd(floor: Floor) -> Odd:
    exchange = Odd(floor.house.clock)
    floor.exchange = exchange
    return exchange
