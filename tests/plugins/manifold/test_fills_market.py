"""The paper book's view of the real market: read when the order gets there, kept with the fill, never written to."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from bot.api import Leg, Order, Position, Side, Unavailable
from bot.testing.clock import FakeClock
from plugins.manifold.account import MARKED_FOR_S
from plugins.manifold.paper import PaperMarket
from plugins.manifold.paper_fills import Ask, Fate, Got, Nothing
from plugins.manifold.paper_market import ManifoldPaperMarket
from plugins.manifold.state import MarketState
from tests.plugins.manifold.replies import NOW, Readable, answer, binary, choice

SMALL = binary(pool={"YES": 100, "NO": 100})
THERE = NOW + timedelta(seconds=2)


def order(amount: float, limit: str, contract: str = "m1", name: str = "") -> Order:
    return Order(
        contract=contract,
        leg=Leg.YES,
        side=Side.BUY,
        shares=amount,
        limit=float(limit),
        cost=amount,
        expected=0.5,
        currency="MANA",
        terms={"amount": amount, "limit_prob": limit, "answer": name},
    )


def market(venue: Readable) -> ManifoldPaperMarket:
    return ManifoldPaperMarket(venue, FakeClock(THERE), delay_s=2.0)


async def test_mf_x3_an_order_is_filled_and_the_market_is_kept_with_it() -> None:
    met = await market(Readable(SMALL)).arrive(order(50.0, "0.99"), decided_at=NOW, expires_at=None, held=())
    assert isinstance(met.result, Got)
    assert met.result.shares == pytest.approx(83.33333333333333)  # v040
    assert MarketState.from_json(met.state).read_at == THERE


async def test_what_the_paper_account_holds_is_carried() -> None:
    held = [Position(contract="m1", leg=Leg.YES, shares=83.33333333333333, paid=50.0)]
    met = await market(Readable(SMALL)).arrive(order(5.0, "0.99"), decided_at=NOW, expires_at=None, held=held)
    assert isinstance(met.result, Got)
    assert met.result.before == pytest.approx(0.6923076923076923)


async def test_mf_x3_an_order_that_is_asked_for_before_the_delay_is_over_gets_nothing() -> None:
    met = await market(Readable(SMALL)).arrive(
        order(5.0, "0.99"), decided_at=NOW + timedelta(seconds=1), expires_at=None, held=()
    )
    assert met.result == Nothing("the market was read before the order got there")


@pytest.mark.parametrize("venue", [Readable(binary(pool=None)), Readable(binary(id="other"))])
async def test_a_market_that_cannot_be_read_gives_nothing(venue: Readable) -> None:
    met = await market(venue).arrive(order(5.0, "0.99"), decided_at=NOW, expires_at=None, held=())
    assert isinstance(met.result, Nothing)
    assert "cannot be read" in met.result.why


async def test_a_rest_outlives_a_silent_venue_until_it_expires() -> None:
    class Silent(Readable):
        async def market(self, market_id: str) -> Mapping[str, Any]:
            message = "no answer"
            raise Unavailable(message)

    rest = Ask(answer="", leg=Leg.YES, stake=5.0, limit=0.6, expires_at=THERE + timedelta(seconds=1))
    assert await market(Silent(SMALL)).later(rest, market="m1", held=()) is None
    over = Ask(answer="", leg=Leg.YES, stake=5.0, limit=0.6, expires_at=THERE)
    met = await market(Silent(SMALL)).later(over, market="m1", held=())
    assert met is not None
    assert met.result == Nothing("it had expired")


async def test_a_rest_is_filled_when_the_price_has_crossed_it() -> None:
    rest = Ask(answer="", leg=Leg.YES, stake=3.0, limit=0.6, expires_at=THERE + timedelta(seconds=9))
    met = await market(Readable(SMALL)).later(rest, market="m1", held=())
    assert met is not None
    assert isinstance(met.result, Got)
    assert (met.result.stake, met.result.fate) == (3.0, Fate.NONE_LEFT)
    assert met.result.shares == pytest.approx(5.0)


async def test_positions_are_marked_by_contract_and_leg() -> None:
    positions = [
        Position(contract="m2/a", leg=Leg.YES, shares=19.471905844339375, paid=10.0),
        Position(contract="gone", leg=Leg.NO, shares=5.0, paid=2.0),
    ]
    answers = (answer("a", 0.5), answer("b", 0.3), answer("c", 0.2))
    marks = await market(Readable(choice(*answers))).marks(positions)
    assert marks["gone", Leg.NO] is None
    assert marks["m2/a", Leg.YES] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("changes", "reads"), [({}, [1, 1, 2]), ({"isResolved": True}, [1, 2, 3])])
async def test_paper_marks_of_a_market_that_trades_are_of_one_reading_for_five_minutes(
    changes: dict[str, Any], reads: list[int]
) -> None:
    class Counted(Readable):
        reads = 0

        async def market(self, market_id: str) -> Mapping[str, Any]:
            self.reads += 1
            return await super().market(market_id)

    clock, venue = FakeClock(NOW), Counted({**SMALL, **changes})
    paper = PaperMarket(venue, clock, delay_s=2.0, rests_s=60.0)
    positions = [Position(contract="m1", leg=Leg.YES, shares=10.0, paid=5.0)]
    found = []
    for wait_s in (0.0, MARKED_FOR_S - 1.0, 1.0):
        await clock.advance(wait_s)
        marks = await paper.marks(positions)
        assert bool(marks) == (not changes)
        found.append(venue.reads)
    assert found == reads
