"""A paper book: cash is held back, spent at the fill and found again; nothing is bought twice or out of nothing."""

import asyncio
import os
import stat
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.interfaces import PaperTradingSubmitter
from bot.core.orders import ContractSide, OrderSide
from bot.core.submissions import IntentState, SubmissionBatch
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS, open_book_database
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.execution.paper.paper_market import FillRequest, FillResult, PaperFill, RemainderState
from bot.execution.paper.report import read_book_report, read_order_reports
from bot.store.database import open_writer
from bot.testing.clock import START, FakeClock
from bot.testing.paper_market import FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import (
    PaperBookFixture,
    intent,
    moved,
    open_paper_book_fixture,
    order,
    ref,
)

HOUR = timedelta(hours=1)


def rain(price: float = 0.4, **changes: object) -> FakePaperMarket:
    return FakePaperMarket(prices={"rain": price}, **changes)  # type: ignore[arg-type]


async def test_a_purchase_is_paid_at_the_fill_and_marked_at_what_it_could_be_sold_at(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        paper.market.prices["rain"] = 0.3
        account = await paper.book.account()
    assert receipt.state is IntentState.ACKED
    assert [(one.shares, one.price, one.cash) for one in receipt.fills] == [(10.0, 0.4, -4.0)]
    assert account.cash == 96.0
    (position,) = account.positions
    assert (position.shares, position.paid, position.mark, position.ref) == (10.0, 4.0, 0.3, ref())
    assert account.equity == pytest.approx(99.0)


async def test_fees_are_paid_beside_the_price_and_are_part_of_what_shares_cost(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(fee=0.01)) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        assert (receipt.fills[0].fee, receipt.fills[0].cash) == (0.1, -4.1)
        assert (await paper.book.account()).positions[0].paid == 4.1
    report = await read_book_report(tmp_path / PAPER_BOOK_FILE, at=START)
    assert report is not None
    assert (report.fees, report.capital, report.realised, report.faults) == (0.1, 100.0, 0.0, ())


async def test_an_order_that_costs_more_than_is_free_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        receipt = await paper.send("one", order(300.0, 0.5))
        assert receipt.state is IntentState.REFUSED
        assert "100.00 is free" in receipt.detail
        assert paper.market.visits == []
        assert await paper.cash() == 100.0


async def test_what_rests_holds_back_cash_until_it_is_filled_or_expires(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(size=4.0, resting_time=HOUR)) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        assert [one.shares for one in receipt.fills] == [4.0]
        account = await paper.book.account()
        assert account.cash == pytest.approx(95.0)  # 5 held back at first; 1.6 of it spent, 3.4 still held
        assert [(one.reserves, one.shares) for one in account.orders] == [(3.4, 6.0)]
        assert account.equity == pytest.approx(100.0)

        assert await paper.book.advance() == 1
        assert await paper.book.advance() == 1
        assert await paper.book.advance() == 0
        receipt = await paper.stands("one")
        assert [one.reference for one in receipt.fills] == ["1.1", "1.2", "1.3"]
        assert await paper.cash() == pytest.approx(96.0)


async def test_a_rest_that_expires_gives_its_cash_back_and_keeps_its_fills(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(size=4.0, resting_time=HOUR)) as paper:
        batch = await paper.seal(intent("one", order(10.0, 0.5)))
        assert batch.sealed[0].fence == START + HOUR
        await paper.write(batch)
        paper.market.prices["rain"] = 0.6
        assert await paper.book.advance() == 0
        await paper.clock.advance(3600)
        assert await paper.book.advance() == 1
        assert await paper.cash() == pytest.approx(98.4)
        receipt = await paper.stands("one")
        assert (receipt.state, receipt.detail, len(receipt.fills)) == (IntentState.ACKED, "it expired", 1)


async def test_reading_back_at_the_fence_counts_the_last_moments(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(0.6, resting_time=HOUR)) as paper:
        await paper.send("one", order(10.0, 0.5))
        paper.market.prices["rain"] = 0.5
        await paper.clock.advance(3600)
        receipt = await paper.stands("one")
        assert [one.shares for one in receipt.fills] == [10.0]
        assert await paper.book.advance() == 0


async def test_a_market_that_cannot_be_told_ends_no_rest_before_its_time(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(0.6, resting_time=HOUR)) as paper:
        await paper.send("one", order(10.0, 0.5))
        paper.market.unreadable_contracts.add("rain")
        assert await paper.book.advance() == 0
        assert len((await paper.book.account()).orders) == 1
        await paper.clock.advance(3600)
        assert await paper.book.advance() == 1
        assert (await paper.book.account()).orders == ()


async def test_an_order_that_gets_nothing_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(0.6)) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        assert (receipt.state, receipt.detail) == (IntentState.REFUSED, "the price is 0.6")
        assert await paper.cash() == 100.0
        assert (await paper.stands("one")).state is IntentState.ABSENT


async def test_a_market_that_cannot_be_read_takes_nothing_so_that_it_is_decided_anew(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(error=ServiceUnavailableError("no answer"))) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        assert receipt.state is IntentState.ABSENT
        assert "no answer" in receipt.detail
        assert await paper.cash() == 100.0


async def test_the_same_sealed_order_again_changes_nothing(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        batch = await paper.seal(intent("one", order(10.0, 0.5)))
        first = await paper.write(batch)
        assert await paper.write(batch) == first
        again = await paper.seal(intent("one", order(10.0, 0.5)))
        assert (await paper.write(again)).fills == first.fills
        assert await paper.cash() == 96.0


async def test_an_order_is_filled_on_the_market_as_it_is_after_the_delay(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(), delay_s=2.0) as paper:
        sending = asyncio.create_task(paper.send("one", order(10.0, 0.5)))
        await _taken(paper)
        await paper.clock.advance(1.9)
        assert paper.market.visits == []
        assert (await paper.stands("one")).state is IntentState.UNKNOWN
        assert await paper.cash() == 95.0
        paper.market.prices["rain"] = 0.45
        await paper.clock.advance(0.2)
        receipt = await sending
    assert receipt.fills[0].price == 0.45
    assert timedelta(seconds=2) <= receipt.fills[0].at - START <= timedelta(seconds=2.1)


async def test_a_fill_has_the_time_at_which_its_market_was_known(tmp_path: Path) -> None:
    """A request may wait for its pace; an account that is read meanwhile does not have the fill."""
    clock = FakeClock()

    class SlowMarket(FakePaperMarket):
        async def fill_new_order(self, visit: FillRequest) -> FillResult:
            clock.advance_without_waking(10.0)
            return await super().fill_new_order(visit)

        async def fill_resting_order(self, visit: FillRequest) -> FillResult | None:
            clock.advance_without_waking(20.0)
            return await super().fill_resting_order(visit)

    market = SlowMarket(prices={"rain": 0.4}, size=4.0, resting_time=HOUR)
    async with open_paper_book_fixture(tmp_path, market, clock=clock) as paper:
        [bought] = (await paper.send("one", order(10.0, 0.5))).fills
        assert bought.at == START + timedelta(seconds=10)
        for _ in range(2):
            clock.advance_without_waking(60.0)
            await paper.book.advance()
        *_, second, third = (await paper.stands("one")).fills
    assert [one.at - START for one in (second, third)] == [timedelta(seconds=90), timedelta(seconds=170)]
    # What happens while the market is asked is seen by the next look.
    assert [visit.last_checked_at - START for visit in market.visits] == [
        timedelta(),
        timedelta(),
        timedelta(seconds=70),
    ]


async def _taken(paper: PaperBookFixture) -> None:
    """Wait until the book, whose thread keeps its own time, has the first order."""
    while (await paper.stands("one")).state is not IntentState.UNKNOWN or await paper.cash() == 100.0:
        pass


async def test_an_order_whose_writing_was_broken_off_is_provably_absent(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(), delay_s=2.0) as paper:
        sending = asyncio.create_task(paper.send("one", order(10.0, 0.5)))
        await _taken(paper)
        await paper.clock.advance(1.0)
        sending.cancel()
        await asyncio.wait([sending])
        receipt = await paper.stands("one")
        assert (receipt.state, receipt.detail) == (IntentState.ABSENT, "it never met the market")
        assert await paper.cash() == 100.0
        assert (await paper.stands("one")).state is IntentState.ABSENT


async def test_an_order_sealed_long_ago_does_not_come_before_the_market(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(), delay_s=2.0) as paper:
        batch = await paper.seal(intent("one", order(10.0, 0.5)))
        await paper.clock.advance(62.0)
        assert (await paper.write(batch)).state is IntentState.ABSENT
        assert (await paper.stands("one")).state is IntentState.ABSENT


async def test_what_is_not_held_is_not_sold(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        receipt = await paper.send("one", order(1.0, 0.3, side=OrderSide.SELL))
        assert receipt.state is IntentState.REFUSED
        assert "0.00 are free" in receipt.detail


async def test_a_sale_brings_cash_and_what_it_gained(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await paper.send("one", order(10.0, 0.5))
        paper.market.prices["rain"] = 0.6
        receipt = await paper.send("two", order(4.0, 0.55, side=OrderSide.SELL))
        assert moved(receipt.fills) == pytest.approx(2.4)
        account = await paper.book.account()
        assert account.cash == pytest.approx(98.4)
        assert (account.positions[0].shares, account.positions[0].paid) == (6.0, 2.4)
    report = await read_book_report(tmp_path / PAPER_BOOK_FILE, at=START)
    assert report is not None
    assert report.realised == pytest.approx(0.8)


async def test_two_sales_cannot_sell_the_same_shares(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(resting_time=HOUR)) as paper:
        await paper.send("one", order(10.0, 0.5))
        assert (await paper.send("two", order(7.0, 0.9, side=OrderSide.SELL))).state is IntentState.ACKED
        assert (await paper.send("three", order(7.0, 0.9, side=OrderSide.SELL))).state is IntentState.REFUSED


async def test_pairs_are_paid_out_where_the_venue_does_so(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(), redeems=True) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.send("two", order(4.0, 0.7, leg=ContractSide.NO))
        assert await paper.cash() == pytest.approx(100.0 - 4.0 - 2.4 + 4.0)
        assert await paper.shares() == {("rain", "yes"): 6.0}
    async with open_paper_book_fixture(tmp_path / "kept", rain()) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.send("two", order(4.0, 0.7, leg=ContractSide.NO))
        assert await paper.shares() == {("rain", "yes"): 10.0, ("rain", "no"): 4.0}


async def test_orders_are_cancelled_by_name_and_all_at_once(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(0.6, resting_time=HOUR)) as paper:
        for name in ("one", "two", "three"):
            await paper.send(name, order(10.0, 0.5))
        assert await paper.book.cancel(["two", "nobody's"]) == ["two"]
        assert [one.id for one in (await paper.book.account()).orders] == ["one", "three"]
        assert await paper.book.cancel(None) == ["one", "three"]
        assert await paper.cash() == 100.0
        assert (await paper.stands("one")).detail == "cancelled"


async def test_what_an_order_cancels_is_cancelled_before_the_order_meets_the_market(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(0.6, resting_time=HOUR), cash=5.0) as paper:
        await paper.send("one", order(10.0, 0.5))
        assert (await paper.send("two", order(10.0, 0.45, leg=ContractSide.NO))).state is IntentState.REFUSED
        receipt = await paper.send("three", order(10.0, 0.45, leg=ContractSide.NO, cancels=("one",)))
        assert (receipt.state, len(receipt.fills)) == (IntentState.ACKED, 1)
        assert "other side" in (await paper.stands("one")).detail


async def test_the_market_is_told_what_is_held_and_what_other_orders_took(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.send("two", order(5.0, 0.5))
    visit = paper.market.visits[1]
    assert [(one.contract, one.shares) for one in visit.positions] == [("rain", 10.0)]
    (past,) = visit.earlier_orders
    assert (past.fills[0].shares, past.market_state) == (10.0, '{"price":0.4}')


@pytest.mark.parametrize("fill", [PaperFill(shares=11.0, price=0.5), PaperFill(shares=1.0, price=0.51)])
async def test_a_market_that_fills_beyond_the_order_is_at_fault_and_books_nothing(
    tmp_path: Path, fill: PaperFill
) -> None:
    class Generous(FakePaperMarket):
        async def fill_new_order(self, visit: FillRequest) -> FillResult:
            return FillResult(remainder=RemainderState.FILLED, fills=(fill,))

    async with open_paper_book_fixture(tmp_path, Generous()) as paper:
        with pytest.raises(MalformedDataError, match="beyond the order"):
            await paper.send("one", order(10.0, 0.5))
        assert (await paper.stands("one")).state is IntentState.ABSENT
        assert await paper.cash() == 100.0


async def test_a_position_that_cannot_be_told_now_keeps_its_mark(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        await paper.send("one", order(10.0, 0.5))
        assert (await paper.book.account()).equity == 100.0
        paper.market.unreadable_contracts.add("rain")
        assert (await paper.book.account()).positions[0].mark == 0.4
        paper.market.unreadable_contracts.clear()
        paper.market.prices.clear()
        assert (await paper.book.account()).positions[0].mark is None


async def test_a_book_that_is_opened_again_is_as_it_was(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain(size=4.0, resting_time=HOUR)) as paper:
        await paper.send("one", order(10.0, 0.5))
        before = await paper.book.account()
    async with open_paper_book_fixture(tmp_path, rain(), cash=5000.0) as paper:
        assert await paper.book.account() == before


async def test_the_file_is_its_owners_alone_and_the_book_is_what_the_port_asks_for(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path / "book", rain()) as paper:
        assert isinstance(paper.book, PaperTradingSubmitter)
        for name in os.listdir(tmp_path / "book"):  # noqa: PTH208 - names of the files beside the book too
            assert stat.S_IMODE((tmp_path / "book" / name).stat().st_mode) & 0o077 == 0


async def test_what_is_no_order_of_this_book_is_refused(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, rain()) as paper:
        assert (await paper.send("one", order(10.0, 0.5, currency="SHELLS"))).state is IntentState.REFUSED
        wanted = intent("two", order())
        (receipt,) = await paper.book.submit(SubmissionBatch(key="two", intents=(wanted,), questions=()))
        assert receipt.state is IntentState.REFUSED
        forecast = replace(intent("three", order()), order=None)
        with pytest.raises(RequestRejectedError):
            await paper.book.seal_requests(SubmissionBatch(key="three", intents=(forecast,), questions=()))


async def test_a_file_in_which_no_book_was_begun_tells_of_none(tmp_path: Path) -> None:
    path = tmp_path / PAPER_BOOK_FILE
    with closing(open_writer(path)):
        pass
    assert await read_book_report(path, at=START) is None
    async with open_book_database(path, PAPER_BOOK_MIGRATIONS, now=START):
        pass
    assert await read_book_report(path, at=START) is None
    with pytest.raises(StoreError):
        await read_book_report(tmp_path / "nothing", at=START)


class FakeReportingMarket(FakePaperMarket):
    """One that keeps the market it showed, with a report or whatever else it is given."""

    kept = ""

    async def fill_new_order(self, visit: FillRequest) -> FillResult:
        return replace(await super().fill_new_order(visit), market_state=self.kept)


@pytest.mark.parametrize(
    ("kept", "market", "report"),
    [
        ('{"book":[1],"report":{"filled":"10"}}', {"book": [1], "report": {"filled": "10"}}, {"filled": "10"}),
        ('{"book":[1]}', {"book": [1]}, {}),
        ('{"report":"none"}', {"report": "none"}, {}),
        ("no JSON", "no JSON", {}),
        ("", None, {}),
    ],
)
async def test_what_an_order_met_is_read_by_its_intent_with_the_report_of_it(
    tmp_path: Path, kept: str, market: object, report: object
) -> None:
    telling = FakeReportingMarket(prices={"rain": 0.4})
    telling.kept = kept
    async with open_paper_book_fixture(tmp_path, telling) as paper:
        await paper.send("one", order(10.0, 0.5))
    found = await read_order_reports(tmp_path / PAPER_BOOK_FILE, ["one", "nobody's"])
    assert [*found] == ["one"]
    assert (found["one"].state, found["one"].market, found["one"].report) == ("filled", market, report)
