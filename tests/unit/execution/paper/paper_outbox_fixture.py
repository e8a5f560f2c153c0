"""A ledger, an outbox and a paper book in the folder of a run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.core.ids import derive_id
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.permissions import ExposureGroups
from bot.core.plugin_specs import PaperBookContext
from bot.core.questions import Question
from bot.core.submissions import ExecutionMode, Intent, IntentAction, SendDecision
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.execution.paper.paper_book import PaperBook, PaperBookTerms, open_paper_book
from bot.jobs.halts import HaltEnforcer
from bot.jobs.reconciliation import AccountSettlementContext
from bot.jobs.withdrawals import CancellationContext
from bot.store.ledger import Ledger
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.paper_market import FakePaperMarket
from tests.blank_ledger import open_blank_ledger
from tests.unit.store.conftest import LedgerFixture

ACCOUNT = "default"
COINS = "COIN"


async def _ready(*_: object) -> bool:
    return True


@dataclass
class PaperOutboxFixture:
    """The parts; ``venue`` is whose questions are traded."""

    folder: Path
    ledger: Ledger
    book: PaperBook
    market: FakePaperMarket
    clock: FakeClock
    venue: str
    ledger_fixture: LedgerFixture = field(init=False)

    def __post_init__(self) -> None:
        self.ledger_fixture = LedgerFixture(self.ledger, self.folder / "ledger.sqlite", now=self.clock.now())

    @property
    def outbox(self) -> Outbox:
        return Outbox(
            ledger=self.ledger,
            submitters={self.venue: self.book},
            clock=self.clock,
            kill_switch=KillSwitch(stop_file=self.folder / "STOP", ledger_file=self.folder / "ledger.sqlite"),
            is_batch_ready=_ready,
            modes={self.venue: ExecutionMode.PAPER},
        )

    @property
    def accounts(self) -> AccountSettlementContext:
        return AccountSettlementContext(
            ledger=self.ledger,
            submitters={self.venue: self.book},
            names={self.venue: ACCOUNT},
            clock=self.clock,
            paper={self.venue},
        )

    @property
    def halting(self) -> HaltEnforcer:
        policy = ExecutionPolicy(
            venue=self.venue, mode=ExecutionMode.PAPER, primary_forecaster="plain", account=ACCOUNT
        )
        return HaltEnforcer(
            ledger=self.ledger,
            kill_switch=KillSwitch(stop_file=self.folder / "STOP", ledger_file=self.folder / "ledger.sqlite"),
            clock=self.clock,
            execution_policies={self.venue: policy},
            submitters={self.venue: self.book},
        )

    @property
    def cancelling(self) -> CancellationContext:
        return CancellationContext(
            folder=self.folder,
            ledger=self.ledger,
            submitters={self.venue: self.book},
            modes={self.venue: ExecutionMode.PAPER},
            clock=self.clock,
        )

    async def plan(self, key: str, *, shares: float = 10.0, limit: float = 0.5, **changes: Any) -> Intent:
        """Let an order on a question's own contract go; nothing is sent yet."""
        question = await self.ask(key)
        forecast = await self.ledger_fixture.forecast(question, 0.7, now=self.clock.now(), cutoff=self.clock.now())
        order = Order(
            contract=key,
            leg=ContractSide.YES,
            side=OrderSide.BUY,
            shares=shares,
            limit=limit,
            cost=shares * limit,
            expected=limit,
            currency=COINS,
        )
        name = derive_id("intent", forecast.id)
        intent = Intent(
            id=name,
            account=ACCOUNT,
            ref=question.ref,
            forecast=forecast.id,
            action=IntentAction.ORDER,
            predictions=forecast.predictions,
            batch=name,
            order=replace(order, **changes),
            exposure=ExposureGroups(event="weather"),
        )
        send = SendDecision(intent=intent, mode=ExecutionMode.PAPER, why="the edge is wide", market_state="{}")
        await self.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=self.clock.now())
        return intent

    async def ask(self, key: str) -> Question:
        question = self.ledger_fixture.question(key, batch=None)
        question = replace(question, ref=replace(question.ref, venue=self.venue))
        await self.ledger.questions.record([question], seen_at=self.clock.now())
        return question

    async def row(self, intent: Intent) -> tuple[str, float]:
        """Return the state of an intent, and what it still counts for."""
        (found,) = self.ledger_fixture.rows(f"select state, cost from intent where id = '{intent.id}'")  # noqa: S608 - our id
        return str(found[0]), float(found[1])


@asynccontextmanager
async def open_outbox_fixture(
    folder: Path,
    market: FakePaperMarket,
    *,
    venue: str = "lantern",
    start: datetime | None = None,
    settle_after: timedelta = timedelta(),
) -> AsyncIterator[PaperOutboxFixture]:
    clock = FakeClock() if start is None else FakeClock(start)
    place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=folder / venue, cash=100.0, delay_s=0.0)
    async with (
        open_blank_ledger(folder / "ledger.sqlite", now=clock.now()) as ledger,
        open_paper_book(place, market, PaperBookTerms(currency=COINS, settle_after=settle_after)) as book,
    ):
        trading = PaperOutboxFixture(folder, ledger, book, market, clock, venue)
        yield trading
        assert trading.ledger_fixture.faults() == {}
