"""Payouts of a paper book: once, exact, and taken back exactly where an outcome is corrected or undone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.orders import ContractSide, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import ChoiceOutcome, Outcome, Resolution, VoidOutcome
from bot.core.plugin_specs import PaperBookContext
from bot.execution.paper.paper_book import PAPER_BOOK_FILE, PaperBookTerms, open_paper_book
from bot.execution.paper.report import read_book_report
from bot.testing.clock import START, FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.paper_market import WITHDRAWN_REASON, FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import (
    COINS,
    PaperBookFixture,
    open_paper_book_fixture,
    order,
    outcome,
)


async def hold(paper: PaperBookFixture) -> None:
    """Buy 10 shares of YES for 4 and 5 of NO for 3."""
    await paper.send("one", order(10.0, 0.5))
    await paper.send("two", order(5.0, 0.7, leg=ContractSide.NO))


def rain() -> FakePaperMarket:
    return FakePaperMarket(prices={"rain": 0.4})


@pytest.mark.parametrize(
    ("value", "cash"),
    [
        (1.0, 93.0 + 10.0),
        (0.0, 93.0 + 5.0),
        (0.5, 93.0 + 7.5),
        (0.3, 93.0 + 3.0 + 3.5),
        (VoidOutcome("called off"), 100.0),
    ],
)
async def test_an_outcome_pays_both_sides_once(tmp_path: Path, value: Outcome | float, cash: float) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await hold(paper)
        assert await paper.book.settle([outcome(value)]) == 2
        assert await paper.cash() == pytest.approx(cash, abs=1e-9)
        assert await paper.shares() == {}
        assert await paper.book.settle([outcome(value)]) == 0
        assert await paper.cash() == pytest.approx(cash, abs=1e-9)
    report = await read_book_report(tmp_path / PAPER_BOOK_FILE, at=START)
    assert report is not None
    assert report.realised == pytest.approx(cash - 100.0, abs=1e-9)


@pytest.mark.parametrize("first", [1.0, 0.0, 0.37, VoidOutcome("called off")])
@pytest.mark.parametrize("second", [1.0, 0.0, 0.37, VoidOutcome("called off")])
async def test_a_correction_leaves_the_book_as_if_it_had_been_said_at_once(
    tmp_path: Path, first: Outcome | float, second: Outcome | float
) -> None:
    async with open_paper_book_fixture(tmp_path / "twice", rain()) as paper:
        await hold(paper)
        await paper.book.settle([outcome(first)])
        await paper.book.settle([outcome(second)])
        twice = await paper.book.account()
    async with open_paper_book_fixture(tmp_path / "once", rain()) as paper:
        await hold(paper)
        await paper.book.settle([outcome(second)])
        assert await paper.book.account() == twice


async def test_an_undone_outcome_brings_the_positions_back(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await hold(paper)
        before = await paper.book.account()
        assert await paper.book.settle([outcome(0.37)]) == 2
        assert await paper.book.settle([outcome(VoidOutcome(WITHDRAWN_REASON))]) == 2
        assert await paper.book.account() == before
        assert await paper.book.settle([outcome(VoidOutcome(WITHDRAWN_REASON))]) == 0
        assert await paper.book.settle([outcome(1.0)]) == 2
        assert await paper.cash() == pytest.approx(103.0)


async def test_shares_bought_after_an_undone_outcome_are_paid_with_the_others(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await hold(paper)
        await paper.book.settle([outcome(1.0)])
        await paper.book.settle([outcome(VoidOutcome(WITHDRAWN_REASON))])
        await paper.send("three", order(10.0, 0.5))
        await paper.book.settle([outcome(1.0)])
        assert await paper.cash() == pytest.approx(93.0 - 4.0 + 20.0)


async def test_a_correction_that_takes_back_what_was_spent_since_is_booked_and_ends_buying(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(), cash=4.0) as paper:
        await paper.send("one", order(10.0, 0.4))
        await paper.book.settle([outcome(1.0)])
        paper.market.prices["snow"] = 0.5
        await paper.send("two", order(16.0, 0.5, contract="snow"), key="snow")
        await paper.book.settle([outcome(0.0)])
        assert await paper.cash() == pytest.approx(-8.0)
        receipt = await paper.send("three", order(1.0, 0.5, contract="snow"), key="snow")
        assert "is free" in receipt.detail


async def test_a_void_outcome_gives_back_what_was_lost_by_selling_before(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await paper.send("one", order(10.0, 0.5))
        paper.market.prices["rain"] = 0.3
        await paper.send("two", order(10.0, 0.2, side=OrderSide.SELL))
        assert await paper.cash() == pytest.approx(99.0)
        await paper.book.settle([outcome(VoidOutcome("called off"))])
        assert await paper.cash() == pytest.approx(100.0)
        assert await paper.book.settle([outcome(VoidOutcome("called off"))]) == 0


async def test_each_option_is_paid_by_the_one_that_came_true(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, FakePaperMarket(prices={"m/a": 0.4, "m/b": 0.5})) as paper:
        await paper.send("one", order(10.0, 0.5, contract="m/a", option="A"))
        await paper.send("two", order(10.0, 0.5, contract="m/b", option="B"))
        await paper.send("three", order(10.0, 0.7, contract="m/a", option="A", leg=ContractSide.NO))
        await paper.book.settle([outcome(ChoiceOutcome("B"))])
        assert await paper.cash() == pytest.approx(100.0 - 4.0 - 5.0 - 6.0 + 10.0 + 10.0)


async def test_orders_that_rest_end_with_the_outcome(tmp_path: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.4}, size=4.0, resting_time=timedelta(hours=1))
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.book.settle([outcome(1.0)])
        assert (await paper.book.account()).orders == ()
        assert await paper.book.advance() == 0
        assert await paper.cash() == pytest.approx(100.0 - 1.6 + 4.0)


async def test_outcomes_of_others_and_of_no_position_change_nothing(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await hold(paper)
        before = await paper.book.account()
        assert await paper.book.settle([outcome(1.0, key="snow")]) == 0
        assert await paper.book.settle([replace(outcome(1.0), target="another")]) == 0
        assert await paper.book.account() == before


async def test_an_outcome_is_believed_after_the_time_that_the_venue_takes_to_undo_one(tmp_path: Path) -> None:
    clock = FakeClock()
    place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=tmp_path, cash=100.0, delay_s=0.0)
    terms = PaperBookTerms(currency=COINS, settle_after=timedelta(minutes=10))
    async with open_paper_book(place, rain(), terms) as book:
        paper = PaperBookFixture(book, FakePaperMarket(), clock)
        await hold(paper)
        reported: list[Resolution] = [outcome(1.0)]
        await clock.advance(599)
        assert await book.settle(reported) == 0
        await clock.advance(1)
        assert await book.settle(reported) == 2


async def test_an_outcome_that_cannot_be_paid_holds_up_no_other(tmp_path: Path) -> None:
    class Puzzled(FakePaperMarket):
        def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
            if position.contract == "rain":
                message = "what is that worth?"
                raise ValueError(message)
            return super().payout_per_share(position, outcome, state)

    async with open_paper_book_fixture(tmp_path, Puzzled(prices={"rain": 0.4, "snow": 0.5})) as paper:
        await hold(paper)
        await paper.send("snow", order(10.0, 0.5, contract="snow"), key="snow")
        with pytest.raises(ValueError, match="what is that worth"):
            await paper.book.settle([outcome(1.0), outcome(1.0, "snow")])
        assert await paper.shares() == {("rain", "yes"): 10.0, ("rain", "no"): 5.0}
