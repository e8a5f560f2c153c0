"""The paper book's view of the real market: read when the order gets there, kept with the fill, never written to."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from bot.api import ContractSide, Order, OrderSide, Position, ServiceUnavailableError
from bot.testing.clock import FakeClock
from plugins.manifold.account import MARK_CACHE_S
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.paper_fills import ManifoldNoFill, ManifoldPaperBet, ManifoldPaperFill, ManifoldRemainderState
from plugins.manifold.paper_market import ManifoldFillModel, ManifoldPaperMarket
from tests.plugins.manifold.api_replies import NOW, FakeMarketReader, answer, binary, choice

SMALL = binary(pool={"YES": 100, "NO": 100})
THERE = NOW + timedelta(seconds=2)


def order(amount: float, limit: str, contract: str = "m1", name: str = "") -> Order:
    return Order(
        contract=contract,
        leg=ContractSide.YES,
        side=OrderSide.BUY,
        shares=amount,
        limit=float(limit),
        cost=amount,
        expected=0.5,
        currency="MANA",
        terms={"limit_prob": limit, "answer": name},
        stake=amount,
    )


def market(venue: FakeMarketReader) -> ManifoldFillModel:
    return ManifoldFillModel(venue, FakeClock(THERE), delay_s=2.0)


async def test_mf_x3_an_order_is_filled_and_the_market_is_kept_with_it() -> None:
    outcome = await market(FakeMarketReader(SMALL)).fill_new_order(
        order(50.0, "0.99"), decided_at=NOW, expires_at=None, held=()
    )
    assert isinstance(outcome.fill, ManifoldPaperFill)
    assert outcome.fill.shares == pytest.approx(83.33333333333333)  # v040
    assert ManifoldMarketState.from_json(outcome.market_state).read_at == THERE


async def test_what_the_paper_account_holds_is_carried() -> None:
    held = [Position(contract="m1", leg=ContractSide.YES, shares=83.33333333333333, paid=50.0)]
    outcome = await market(FakeMarketReader(SMALL)).fill_new_order(
        order(5.0, "0.99"), decided_at=NOW, expires_at=None, held=held
    )
    assert isinstance(outcome.fill, ManifoldPaperFill)
    assert outcome.fill.price_before == pytest.approx(0.6923076923076923)


async def test_mf_x3_an_order_that_is_asked_for_before_the_delay_is_over_gets_nothing() -> None:
    outcome = await market(FakeMarketReader(SMALL)).fill_new_order(
        order(5.0, "0.99"), decided_at=NOW + timedelta(seconds=1), expires_at=None, held=()
    )
    assert outcome.fill == ManifoldNoFill("the market was read before the order arrived")


@pytest.mark.parametrize("venue", [FakeMarketReader(binary(pool=None)), FakeMarketReader(binary(id="other"))])
async def test_a_market_that_cannot_be_read_gives_nothing(venue: FakeMarketReader) -> None:
    outcome = await market(venue).fill_new_order(order(5.0, "0.99"), decided_at=NOW, expires_at=None, held=())
    assert isinstance(outcome.fill, ManifoldNoFill)
    assert "cannot be read" in outcome.fill.why


async def test_a_rest_outlives_a_silent_venue_until_it_expires() -> None:
    class Silent(FakeMarketReader):
        async def market(self, market_id: str) -> Mapping[str, Any]:
            message = "no answer"
            raise ServiceUnavailableError(message)

    rest = ManifoldPaperBet(
        answer="", leg=ContractSide.YES, stake=5.0, limit=0.6, expires_at=THERE + timedelta(seconds=1)
    )
    assert await market(Silent(SMALL)).fill_resting_order(rest, market="m1", held=()) is None
    over = ManifoldPaperBet(answer="", leg=ContractSide.YES, stake=5.0, limit=0.6, expires_at=THERE)
    outcome = await market(Silent(SMALL)).fill_resting_order(over, market="m1", held=())
    assert outcome is not None
    assert outcome.fill == ManifoldNoFill("it had expired")


async def test_a_rest_is_filled_when_the_price_has_crossed_it() -> None:
    rest = ManifoldPaperBet(
        answer="", leg=ContractSide.YES, stake=3.0, limit=0.6, expires_at=THERE + timedelta(seconds=9)
    )
    outcome = await market(FakeMarketReader(SMALL)).fill_resting_order(rest, market="m1", held=())
    assert outcome is not None
    assert isinstance(outcome.fill, ManifoldPaperFill)
    assert (outcome.fill.stake, outcome.fill.remainder) == (3.0, ManifoldRemainderState.NONE_LEFT)
    assert outcome.fill.shares == pytest.approx(5.0)


async def test_positions_are_marked_by_contract_and_leg() -> None:
    positions = [
        Position(contract="m2/a", leg=ContractSide.YES, shares=19.471905844339375, paid=10.0),
        Position(contract="gone", leg=ContractSide.NO, shares=5.0, paid=2.0),
    ]
    answers = (answer("a", 0.5), answer("b", 0.3), answer("c", 0.2))
    marks = await market(FakeMarketReader(choice(*answers))).mark_prices(positions)
    assert marks["gone", ContractSide.NO] is None
    assert marks["m2/a", ContractSide.YES] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("changes", "reads"), [({}, [1, 1, 2]), ({"isResolved": True}, [1, 2, 3])])
async def test_paper_marks_of_a_market_that_trades_are_of_one_reading_for_five_minutes(
    changes: dict[str, Any], reads: list[int]
) -> None:
    class Counted(FakeMarketReader):
        reads = 0

        async def market(self, market_id: str) -> Mapping[str, Any]:
            self.reads += 1
            return await super().market(market_id)

    clock, venue = FakeClock(NOW), Counted({**SMALL, **changes})
    paper = ManifoldPaperMarket(venue, clock, delay_s=2.0, rests_s=60.0)
    positions = [Position(contract="m1", leg=ContractSide.YES, shares=10.0, paid=5.0)]
    found = []
    for wait_s in (0.0, MARK_CACHE_S - 1.0, 1.0):
        await clock.advance(wait_s)
        marks = await paper.mark_prices(positions)
        assert bool(marks) == (not changes)
        found.append(venue.reads)
    assert found == reads
