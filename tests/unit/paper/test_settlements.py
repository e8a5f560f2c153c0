"""Payouts of a paper book: once, exact, and taken back exactly where an outcome is corrected or undone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.order import Instead, Leg, Position, Side
from bot.domain.resolution import Chosen, Outcome, Resolution, Void
from bot.paper.book import BOOK_FILE, BookTerms, open_book
from bot.paper.report import read_report
from bot.specs import PaperPlace
from bot.testing.clock import START, FakeClock
from bot.testing.http import DictHttp
from bot.testing.paper import UNDONE, MemoryMarket
from tests.unit.paper.stall import COINS, Stall, open_stall, order, outcome


async def hold(stall: Stall) -> None:
    """Buy 10 shares of YES for 4 and 5 of NO for 3."""
    await stall.send("one", order(10.0, 0.5))
    await stall.send("two", order(5.0, 0.7, leg=Leg.NO))


def rain() -> MemoryMarket:
    return MemoryMarket(prices={"rain": 0.4})


@pytest.mark.parametrize(
    ("value", "cash"),
    [(1.0, 93.0 + 10.0), (0.0, 93.0 + 5.0), (0.5, 93.0 + 7.5), (0.3, 93.0 + 3.0 + 3.5), (Void("called off"), 100.0)],
)
async def test_an_outcome_pays_both_sides_once(tmp_path: Path, value: Outcome | float, cash: float) -> None:
    async with open_stall(tmp_path, rain()) as stall:
        await hold(stall)
        assert await stall.book.settle([outcome(value)]) == 2
        assert await stall.cash() == pytest.approx(cash, abs=1e-9)
        assert await stall.shares() == {}
        assert await stall.book.settle([outcome(value)]) == 0
        assert await stall.cash() == pytest.approx(cash, abs=1e-9)
    report = await read_report(tmp_path / BOOK_FILE, at=START)
    assert report is not None
    assert report.realised == pytest.approx(cash - 100.0, abs=1e-9)


@pytest.mark.parametrize("first", [1.0, 0.0, 0.37, Void("called off")])
@pytest.mark.parametrize("second", [1.0, 0.0, 0.37, Void("called off")])
async def test_a_correction_leaves_the_book_as_if_it_had_been_said_at_once(
    tmp_path: Path, first: Outcome | float, second: Outcome | float
) -> None:
    async with open_stall(tmp_path / "twice", rain()) as stall:
        await hold(stall)
        await stall.book.settle([outcome(first)])
        await stall.book.settle([outcome(second)])
        twice = await stall.book.account()
    async with open_stall(tmp_path / "once", rain()) as stall:
        await hold(stall)
        await stall.book.settle([outcome(second)])
        assert await stall.book.account() == twice


async def test_an_undone_outcome_brings_the_positions_back(tmp_path: Path) -> None:
    async with open_stall(tmp_path, rain()) as stall:
        await hold(stall)
        before = await stall.book.account()
        assert await stall.book.settle([outcome(0.37)]) == 2
        assert await stall.book.settle([outcome(Void(UNDONE))]) == 2
        assert await stall.book.account() == before
        assert await stall.book.settle([outcome(Void(UNDONE))]) == 0
        assert await stall.book.settle([outcome(1.0)]) == 2
        assert await stall.cash() == pytest.approx(103.0)


async def test_shares_bought_after_an_undone_outcome_are_paid_with_the_others(tmp_path: Path) -> None:
    async with open_stall(tmp_path, rain()) as stall:
        await hold(stall)
        await stall.book.settle([outcome(1.0)])
        await stall.book.settle([outcome(Void(UNDONE))])
        await stall.send("three", order(10.0, 0.5))
        await stall.book.settle([outcome(1.0)])
        assert await stall.cash() == pytest.approx(93.0 - 4.0 + 20.0)


async def test_a_correction_that_takes_back_what_was_spent_since_is_booked_and_ends_buying(tmp_path: Path) -> None:
    async with open_stall(tmp_path, rain(), cash=4.0) as stall:
        await stall.send("one", order(10.0, 0.4))
        await stall.book.settle([outcome(1.0)])
        stall.market.prices["snow"] = 0.5
        await stall.send("two", order(16.0, 0.5, contract="snow"), key="snow")
        await stall.book.settle([outcome(0.0)])
        assert await stall.cash() == pytest.approx(-8.0)
        receipt = await stall.send("three", order(1.0, 0.5, contract="snow"), key="snow")
        assert "is free" in receipt.detail


async def test_a_void_outcome_gives_back_what_was_lost_by_selling_before(tmp_path: Path) -> None:
    async with open_stall(tmp_path, rain()) as stall:
        await stall.send("one", order(10.0, 0.5))
        stall.market.prices["rain"] = 0.3
        await stall.send("two", order(10.0, 0.2, side=Side.SELL))
        assert await stall.cash() == pytest.approx(99.0)
        await stall.book.settle([outcome(Void("called off"))])
        assert await stall.cash() == pytest.approx(100.0)
        assert await stall.book.settle([outcome(Void("called off"))]) == 0


async def test_each_option_is_paid_by_the_one_that_came_true(tmp_path: Path) -> None:
    async with open_stall(tmp_path, MemoryMarket(prices={"m/a": 0.4, "m/b": 0.5})) as stall:
        await stall.send("one", order(10.0, 0.5, contract="m/a", option="A"))
        await stall.send("two", order(10.0, 0.5, contract="m/b", option="B"))
        await stall.send("three", order(10.0, 0.7, contract="m/a", option="A", leg=Leg.NO))
        await stall.book.settle([outcome(Chosen("B"))])
        assert await stall.cash() == pytest.approx(100.0 - 4.0 - 5.0 - 6.0 + 10.0 + 10.0)


async def test_orders_that_rest_end_with_the_outcome(tmp_path: Path) -> None:
    market = MemoryMarket(prices={"rain": 0.4}, size=4.0, rests=timedelta(hours=1))
    async with open_stall(tmp_path, market) as stall:
        await stall.send("one", order(10.0, 0.5))
        await stall.book.settle([outcome(1.0)])
        assert (await stall.book.account()).orders == ()
        assert await stall.book.advance() == 0
        assert await stall.cash() == pytest.approx(100.0 - 1.6 + 4.0)


async def test_outcomes_of_others_and_of_no_position_change_nothing(tmp_path: Path) -> None:
    async with open_stall(tmp_path, rain()) as stall:
        await hold(stall)
        before = await stall.book.account()
        assert await stall.book.settle([outcome(1.0, key="snow")]) == 0
        assert await stall.book.settle([replace(outcome(1.0), target="another")]) == 0
        assert await stall.book.account() == before


async def test_an_outcome_is_believed_after_the_time_that_the_venue_takes_to_undo_one(tmp_path: Path) -> None:
    clock = FakeClock()
    place = PaperPlace(clock=clock, http=DictHttp({}), folder=tmp_path, cash=100.0, delay_s=0.0)
    terms = BookTerms(currency=COINS, settle_after=timedelta(minutes=10))
    async with open_book(place, rain(), terms) as book:
        stall = Stall(book, MemoryMarket(), clock)
        await hold(stall)
        told: list[Resolution] = [outcome(1.0)]
        await clock.advance(599)
        assert await book.settle(told) == 0
        await clock.advance(1)
        assert await book.settle(told) == 2


async def test_an_outcome_that_cannot_be_paid_holds_up_no_other(tmp_path: Path) -> None:
    class Puzzled(MemoryMarket):
        def payout(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
            if position.contract == "rain":
                message = "what is that worth?"
                raise ValueError(message)
            return super().payout(position, outcome, state)

    async with open_stall(tmp_path, Puzzled(prices={"rain": 0.4, "snow": 0.5})) as stall:
        await hold(stall)
        await stall.send("snow", order(10.0, 0.5, contract="snow"), key="snow")
        with pytest.raises(ValueError, match="what is that worth"):
            await stall.book.settle([outcome(1.0), outcome(1.0, "snow")])
        assert await stall.shares() == {("rain", "yes"): 10.0, ("rain", "no"): 5.0}
