"""The judge of gains: what the ledger cannot know yet is no violation, and what it should know is one."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.orders import Account, ContractSide, Fill, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import Outcome, Resolution, VoidOutcome
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.core.submissions import ExecutionMode, IntentAction, IntentState, SealedRequest, SendDecision, WriteReceipt
from bot.jobs.reconciliation import AccountSettlementContext, settle_accounts
from bot.simulator.environment import EnvironmentLayout, open_environment
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.simulator.venues.manifold_state import FakeManifoldBet, FakeManifoldMarket
from bot.simulator.venues.manifold_trading import BetRequest
from bot.store.accounts import AccountKey
from bot.store.ledger import Ledger, open_ledger
from bot.testing.clock import FakeClock
from bot.testing.exchange import FakeExchange
from tests.simulation.full_system.fake_venues import SimulationVenues
from tests.simulation.full_system.profit_checks import unreserved_stakes, wrong_profits
from tests.unit.store.conftest import NOON, LedgerFixture

LANE = AccountKey(venue="manifold", account="us", paper=False)
LATER = NOON + timedelta(hours=9)


@dataclass
class SoldPosition:
    """A position at the double that was sold at a loss, and the ledger that has both fills."""

    bridges: SimulationVenues
    venue: FakeManifold
    market: FakeManifoldMarket
    ledger: Ledger
    path: Path

    def found(self) -> list[str]:
        return [*wrong_profits(self.path, self.bridges, {"manifold": "live"}, ())]

    async def record_outcome(self, outcome: VoidOutcome, at: datetime) -> None:
        """Let the ledger have the outcome."""
        ref = QuestionRef("manifold", self.market.id)
        heard = Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=NOON)
        await self.ledger.resolutions.record([heard], seen_at=at)

    async def read(self, at: datetime) -> None:
        """Let the ledger have a reading of the account, as one that sends an order makes."""
        account = Account(at=at, currency="MANA", cash=100.0)
        await self.ledger.readings.add(LANE.venue, LANE.account, account, paper=False)

    async def settle(self, exchange: type[FakeExchange], at: datetime) -> None:
        """Let the job that records payouts run."""
        submitters, names = {LANE.venue: exchange(FakeClock(at))}, {LANE.venue: LANE.account}
        job = AccountSettlementContext(ledger=self.ledger, submitters=submitters, names=names, clock=FakeClock(at))
        detail = await settle_accounts(job)
        await self.ledger.events.job_run("accounts", started_at=at, ended_at=at, ok=True, detail=detail)


class OpenExchange(FakeExchange):
    """Says of each outcome that nothing is paid yet: the loss that came back never gets on record."""

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> UnpaidOutcome:
        return UnpaidOutcome.OPEN


class UnreadableExchange(FakeExchange):
    """Does not say what is in the account."""

    async def account(self) -> Account:
        message = "the venue does not answer"
        raise ServiceUnavailableError(message)


@pytest.fixture
async def sold(tmp_path: Path) -> AsyncIterator[SoldPosition]:
    clock, path = FakeClock(NOON), tmp_path / "ledger.sqlite"
    layout = EnvironmentLayout(
        seed=1, start=datetime(2026, 3, 1, tzinfo=UTC), folder=tmp_path, size=30, venues=("manifold",)
    )
    async with open_environment(clock, layout) as environment, open_ledger(path, now=NOON) as ledger:
        venue = environment.venues["manifold"]
        assert isinstance(venue, FakeManifold)
        user, market = venue.state.users[environment.manifold_account], venue.world.add_market()
        bought = venue.world.trade(user, market, WantedTrade(outcome="YES", amount=20.0))
        venue.world.move_price(market, 0.3)
        now_ms = round(NOON.timestamp() * 1000)
        gone = venue.world.sell(BetRequest(user=user, market=market, answer=None, outcome="YES", now=now_ms))
        ledger_fixture = LedgerFixture(ledger, path)
        await record(ledger_fixture, market, bought, OrderSide.BUY)
        await record(ledger_fixture, market, gone, OrderSide.SELL)
        bridges = SimulationVenues(environment=environment, manifold=venue, metaculus=None, polymarket=None)
        yield SoldPosition(bridges=bridges, venue=venue, market=market, ledger=ledger, path=path)


async def record(
    ledger_fixture: LedgerFixture, market: FakeManifoldMarket, bet: FakeManifoldBet, side: OrderSide
) -> None:
    """Write an order into the ledger that came to this bet."""
    question = replace(ledger_fixture.question(), ref=QuestionRef("manifold", market.id))
    await ledger_fixture.ledger.questions.record([question], seen_at=NOON)
    send = ledger_fixture.order(await ledger_fixture.forecast(question))
    assert send.intent.order is not None
    shares, buys = abs(bet.shares), side is OrderSide.BUY
    order: Order = replace(
        send.intent.order,
        contract=market.id,
        side=side,
        shares=shares,
        cost=bet.amount if buys else 0.0,
        edge=0.05 if buys else 0.0,
        leg=ContractSide.YES,
    )
    intent = replace(send.intent, action=IntentAction.ORDER, order=order)
    decided: SendDecision = replace(send, intent=intent, mode=ExecutionMode.LIVE)
    submissions = ledger_fixture.ledger.submissions
    await submissions.decide(forecast_id=intent.forecast, decision=decided, at=NOON)
    sealed = SealedRequest(intent=intent.id, tag=bet.id, body="{}", fence=NOON)
    await submissions.begin_attempt([intent.id], at=NOON, sealed=[sealed])
    fill = Fill(reference=bet.id, at=NOON, shares=shares, price=abs(bet.amount) / shares, cash=-bet.amount)
    await submissions.settle([WriteReceipt(intent=intent.id, state=IntentState.ACKED, fills=(fill,))], at=NOON)


async def test_a_market_that_was_called_off_after_all_was_sold_is_judged_once_the_ledger_may_know_it(
    sold: SoldPosition,
) -> None:
    assert sold.found() == []
    sold.venue.world.resolve(sold.market, "CANCEL")
    # The venue gave the loss back, and nobody has looked since.
    assert sold.market.paid[sold.bridges.trader] > 1.0
    await sold.settle(OpenExchange, LATER - timedelta(hours=1))
    assert sold.found() == []
    await sold.record_outcome(VoidOutcome("called off"), LATER)
    await sold.settle(OpenExchange, LATER + timedelta(minutes=5))
    assert sold.found() == []


async def test_readings_that_record_no_payouts_do_not_end_the_wait_for_what_came_back(sold: SoldPosition) -> None:
    sold.venue.world.resolve(sold.market, "CANCEL")
    await sold.record_outcome(VoidOutcome("called off"), LATER)
    await sold.read(LATER + timedelta(hours=3))
    assert sold.found() == []
    await sold.settle(UnreadableExchange, LATER + timedelta(hours=3))
    assert sold.found() == []


async def test_a_loss_that_came_back_and_is_not_on_record_once_payouts_were_recorded_is_a_violation(
    sold: SoldPosition,
) -> None:
    sold.venue.world.resolve(sold.market, "CANCEL")
    await sold.record_outcome(VoidOutcome("called off"), LATER)
    await sold.settle(OpenExchange, LATER + timedelta(hours=3))
    (values,) = sold.found()
    assert values.endswith("0.0000 at the venue")
    await sold.settle(FakeExchange, LATER + timedelta(hours=5))
    assert sold.found() == []


@pytest.mark.parametrize(("stake", "state", "count"), [(5.0, "acked", 0), (5.02, "acked", 1), (5.0, "refused", 1)])
async def test_what_is_at_stake_is_held_back_in_the_ledger(
    sold: SoldPosition, stake: float, state: str, count: int
) -> None:
    with closing(sqlite3.connect(sold.path)) as database, database:
        database.execute("update intent set cost = 5.0, state = ? where cost > 0", [state])
    bought = {"side": "buy", "venue": LANE.venue, "stakes": [(0.0, 9.0), (1.0, stake)]}
    assert len([*unreserved_stakes(sold.path, [bought, {**bought, "side": "sell"}])]) == count
