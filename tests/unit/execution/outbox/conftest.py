"""The outbox is tried in the house of the jobs that use it, and beside an exchange where forecasts become orders."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.predictions import BinaryPrediction
from bot.core.submissions import (
    ExecutionMode,
    Intent,
    IntentAction,
    IntentState,
    SealedRequest,
    SendDecision,
    SubmissionBatch,
    WriteReceipt,
)
from bot.execution.outbox.account_session import IntentCheck
from bot.execution.outbox.outbox import Outbox
from bot.store.submissions import BatchRow
from bot.testing.exchange import FakeExchange
from tests.unit.jobs.conftest import VENUE, JobsFixture, jobs_fixture

__all__ = ["jobs_fixture"]


async def _at_once(_: BatchRow, __: datetime) -> bool:
    return True


async def _fine(_: Intent) -> str | None:
    return None


def order(cost: float = 10.0) -> Order:
    return Order(
        contract="market 7",
        leg=ContractSide.YES,
        side=OrderSide.BUY,
        shares=2 * cost,
        limit=0.5,
        cost=cost,
        expected=0.5,
        currency="COIN",
    )


@dataclass
class OutboxFixture:
    """A ledger, an exchange and the outbox between them."""

    jobs_fixture: JobsFixture
    exchange: FakeExchange
    mode: ExecutionMode = ExecutionMode.LIVE
    account: str = "me"
    recheck: IntentCheck = _fine
    clock_fault: str = ""
    most_doubts: int = 3
    alarms: list[str] = field(default_factory=list)

    def outbox(self) -> Outbox:
        async def alarm(venue: str, text: str) -> None:
            self.alarms.append(f"{venue}: {text}")

        return Outbox(
            ledger=self.jobs_fixture.ledger,
            submitters={VENUE: self.exchange},
            clock=self.jobs_fixture.clock,
            kill_switch=self.jobs_fixture.kill_switch,
            is_batch_ready=_at_once,
            pre_send_check=self.recheck,
            modes={VENUE: self.mode},
            accounts={VENUE: self.account},
            alert=alarm,
            clock_fault=lambda: self.clock_fault,
            max_unsettled={VENUE: self.most_doubts},
        )

    async def forecast(self, key: str = "rain", **changes: object) -> Forecast:
        self.jobs_fixture.offer(key, **changes)
        await self.jobs_fixture.discover()
        await self.jobs_fixture.forecast()
        return (await self.jobs_fixture.history(key))[-1]

    async def plan(
        self,
        forecast: Forecast,
        *,
        cost: float = 10.0,
        batch: str = "",
        side: OrderSide = OrderSide.BUY,
        closing: str = "",
    ) -> Intent:
        name = derive_id("intent", forecast.id)
        intent = Intent(
            id=name,
            account="me",
            ref=forecast.ref,
            forecast=forecast.id,
            action=IntentAction.ORDER,
            predictions=forecast.predictions,
            batch=batch or name,
            order=replace(order(cost), side=side, cost=cost if side is OrderSide.BUY else 0.0, closing=closing),
        )
        return await self.decide(intent)

    async def comment(self, intent: Intent) -> Intent:
        name = derive_id("comment", intent.forecast)
        said = replace(intent, id=name, batch=name, action=IntentAction.COMMENT, order=order(), text="Because.")
        return await self.decide(replace(said, order=None, predictions={"outcome": BinaryPrediction(0.5)}))

    async def decide(self, intent: Intent) -> Intent:
        send = SendDecision(intent=intent, mode=self.mode, why="so decided")
        at = self.jobs_fixture.clock.now()
        stored = await self.jobs_fixture.ledger.submissions.decide(forecast_id=intent.forecast, decision=send, at=at)
        assert isinstance(stored, SendDecision), stored
        return stored.intent

    async def state(self, intent: Intent) -> IntentState:
        return (await self.jobs_fixture.ledger.submissions.get(intent.id)).state


@pytest.fixture
def trading(jobs_fixture: JobsFixture) -> OutboxFixture:
    return OutboxFixture(jobs_fixture=jobs_fixture, exchange=FakeExchange(jobs_fixture.clock))


@pytest.fixture
def snapshot(jobs_fixture: JobsFixture) -> Callable[[], list[str]]:
    """Everything that is on record of what left, row by row."""

    def read() -> list[str]:
        with closing(sqlite3.connect(jobs_fixture.path / "ledger.sqlite")) as database:
            return [
                repr(row)
                for table in ("intent", "attempt", "fill", "decision", "event")
                for row in database.execute(f"select * from {table} order by 1, 2")  # noqa: S608 - constants
            ]

    return read


class FaultyExchange(FakeExchange):
    """An exchange whose requests are made, or whose answers are given, as the test says."""

    seals: Callable[[Sequence[SealedRequest]], Sequence[SealedRequest]] = staticmethod(lambda made: made)
    reads: Callable[[Sequence[WriteReceipt]], Sequence[WriteReceipt]] = staticmethod(lambda found: found)
    answers: Callable[[Sequence[WriteReceipt]], Sequence[WriteReceipt]] = staticmethod(lambda said: said)

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return self.seals(await super().seal_requests(batch))

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return self.reads(await super().read_submissions(batch))

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return self.answers(await super().submit(batch))


@pytest.fixture
def faulty_exchange(trading: OutboxFixture) -> FaultyExchange:
    exchange = FaultyExchange(trading.jobs_fixture.clock)
    trading.exchange = exchange
    return exchange
