"""The judge of gains: what the ledger cannot know yet is no violation, and what it should know is one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.domain.order import Account, Fill, Instead, Leg, Order, Side
from bot.domain.question import SINGLE_TARGET, QuestionRef
from bot.domain.resolution import Resolution, Void
from bot.domain.submission import IntentAction, IntentState, Mode, Receipt, Sealed, Send
from bot.store.ledger import Ledger, open_ledger
from bot.store.profits import AccountLane
from bot.testing.clock import FakeClock
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.manifold_math import Want
from bot.testing.venues.manifold_state import Bet, Market
from bot.testing.venues.manifold_trading import Ask
from bot.testing.venues.stand import Layout, open_stand
from tests.simulation.whole.profits import unaccounted
from tests.simulation.whole.stalls import Stalls
from tests.unit.store.conftest import NOON, Scribe

LANE = AccountLane(venue="manifold", account="us", paper=False)
LATER = NOON + timedelta(hours=9)


@dataclass
class Sold:
    """A position at the double that was sold at a loss, and the ledger that has both fills."""

    stalls: Stalls
    venue: FakeManifold
    market: Market
    ledger: Ledger
    path: Path

    def found(self) -> list[str]:
        return [*unaccounted(self.path, self.stalls, {"manifold": "live"}, ())]

    async def hear(self, outcome: Void, at: datetime) -> None:
        """Let the ledger have the outcome."""
        ref = QuestionRef("manifold", self.market.id)
        heard = Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=NOON)
        await self.ledger.resolutions.record([heard], seen_at=at)

    async def read(self, at: datetime) -> None:
        """Let the ledger have a reading of the account."""
        account = Account(at=at, currency="MANA", cash=100.0)
        await self.ledger.readings.add(LANE.venue, LANE.account, account, paper=False)


@pytest.fixture
async def sold(tmp_path: Path) -> AsyncIterator[Sold]:
    clock, path = FakeClock(NOON), tmp_path / "ledger.sqlite"
    layout = Layout(seed=1, start=datetime(2026, 3, 1, tzinfo=UTC), folder=tmp_path, size=30, venues=("manifold",))
    async with open_stand(clock, layout) as stand, open_ledger(path, now=NOON) as ledger:
        venue = stand.venues["manifold"]
        assert isinstance(venue, FakeManifold)
        user, market = venue.state.users[stand.trader], venue.world.add_market()
        bought = venue.world.trade(user, market, Want(outcome="YES", amount=20.0))
        venue.world.move(market, 0.3)
        now_ms = round(NOON.timestamp() * 1000)
        gone = venue.world.sell(Ask(user=user, market=market, answer=None, outcome="YES", now=now_ms))
        scribe = Scribe(ledger, path)
        await record(scribe, market, bought, Side.BUY)
        await record(scribe, market, gone, Side.SELL)
        stalls = Stalls(stand=stand, manifold=venue, metaculus=None, polymarket=None)
        yield Sold(stalls=stalls, venue=venue, market=market, ledger=ledger, path=path)


async def record(scribe: Scribe, market: Market, bet: Bet, side: Side) -> None:
    """Write an order into the ledger that came to this bet."""
    question = replace(scribe.question(), ref=QuestionRef("manifold", market.id))
    await scribe.ledger.questions.record([question], seen_at=NOON)
    send = scribe.order(await scribe.forecast(question))
    assert send.intent.order is not None
    shares, buys = abs(bet.shares), side is Side.BUY
    order: Order = replace(
        send.intent.order,
        contract=market.id,
        side=side,
        shares=shares,
        cost=bet.amount if buys else 0.0,
        edge=0.05 if buys else 0.0,
        leg=Leg.YES,
    )
    intent = replace(send.intent, action=IntentAction.ORDER, order=order)
    decided: Send = replace(send, intent=intent, mode=Mode.LIVE)
    submissions = scribe.ledger.submissions
    await submissions.decide(forecast_id=intent.forecast, decision=decided, at=NOON)
    sealed = Sealed(intent=intent.id, tag=bet.id, body="{}", fence=NOON)
    await submissions.begin_attempt([intent.id], at=NOON, sealed=[sealed])
    fill = Fill(reference=bet.id, at=NOON, shares=shares, price=abs(bet.amount) / shares, cash=-bet.amount)
    await submissions.settle([Receipt(intent=intent.id, state=IntentState.ACKED, fills=(fill,))], at=NOON)


async def test_a_market_that_was_called_off_after_all_was_sold_is_judged_once_the_ledger_may_know_it(
    sold: Sold,
) -> None:
    assert sold.found() == []
    sold.venue.world.resolve(sold.market, "CANCEL")
    # The venue gave the loss back, and nobody has looked since.
    assert sold.market.paid[sold.stalls.trader] > 1.0
    await sold.read(LATER - timedelta(hours=1))
    assert sold.found() == []
    await sold.hear(Void("called off"), LATER)
    await sold.read(LATER + timedelta(minutes=5))
    assert sold.found() == []


async def test_a_loss_that_came_back_and_is_not_on_record_once_the_account_was_read_is_a_violation(sold: Sold) -> None:
    sold.venue.world.resolve(sold.market, "CANCEL")
    await sold.hear(Void("called off"), LATER)
    await sold.read(LATER + timedelta(hours=3))
    (said,) = sold.found()
    assert said.endswith("0.0000 at the venue")
    decided = await sold.ledger.profits.decided(LANE)
    await sold.ledger.profits.pay(LANE, [(one, Instead.REFUND) for one in decided])
    assert sold.found() == []
