"""The paper book of the venue end to end: it waits, reads, fills, marks, pays, and sends nothing."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    ContractSide,
    IntentState,
    NumericOutcome,
    OrderSide,
    Outcome,
    PaperBookContext,
    QuestionRef,
    ServiceUnavailableError,
    UnpaidOutcome,
    VoidOutcome,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.polymarket.event_groups import OPTION_NAMES_FILE
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.order_terms import PolymarketOrderType
from plugins.polymarket.paper_market import PolymarketPaperMarket, mark_position
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.paper_fixture import book_of, send
from tests.plugins.polymarket.records import condition, token
from tests.plugins.polymarket.trading_inputs import NOW, FakePolymarketReader, a_book, contract, held, order

REF = QuestionRef("polymarket", condition(1))


class HastyClock(FakeClock):
    """A clock on which all waiting is over at once; then ``after_sleep`` is called."""

    after_sleep: Callable[[], None] = staticmethod(lambda: None)

    async def sleep(self, seconds: float) -> None:
        self.advance_without_waking(seconds)
        self.after_sleep()


def place(folder: Path, clock: FakeClock, *, cash: float = 1000.0, delay_s: float = 0.0) -> PaperBookContext:
    return PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=folder, cash=cash, delay_s=delay_s)


def tickets(folder: Path) -> list[tuple[str, str, str]]:
    """State, reason and market of each order, by the file of the book itself."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as database:
        return list(database.execute("select state, why, market from ticket order by seq"))


# When it arrives


@pytest.mark.parametrize(("held_s", "taker"), [({}, 0.0), ({"sd": 3}, 3.0), ({"itode": True}, 0.25)])
async def test_pm_x2_the_book_is_that_of_the_arrival_after_both_delays(
    tmp_path: Path, held_s: dict[str, object], taker: float
) -> None:
    clock, venue = HastyClock(NOW), FakePolymarketReader.of(a_book())
    venue.terms[condition(1)] = {"ao": True, **held_s}
    reads: list[bool] = []

    def taken_by_others() -> None:
        reads.append(("book", token(1)) in venue.asked)
        venue.put(a_book(asks=(("0.57", "6"), ("0.60", "100")), hash="0xarrival", at=clock.now()))

    clock.after_sleep = taken_by_others
    async with book_of(venue, place(tmp_path, clock, delay_s=2.0)) as book:
        receipt = await send(book, "one", order("12", "0.57"), REF)
    assert [fill.shares for fill in receipt.fills] == [6.0]
    assert not any(reads)
    assert clock.now() - NOW == timedelta(seconds=2.0 + taker)
    ((state, why, market),) = tickets(tmp_path)
    kept = json.loads(market)
    assert (state, why) == ("dropped", "6 of 12 shares were available within 0.57")
    assert (kept["decision"]["hash"], kept["arrival"]["hash"]) == ("0xdecided", "0xarrival")


async def test_an_order_that_waits_is_not_held_as_takers_are(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    venue.terms[condition(1)] = {"ao": True, "sd": 3}
    asked = order("20", "0.55", kind=PolymarketOrderType.GTD, lifetime=timedelta(hours=1))
    async with book_of(venue, place(tmp_path, clock)) as book:
        receipt = await send(book, "one", asked, REF)
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())


async def test_pm_x6_a_venue_that_cannot_be_read_fills_nothing(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        venue.error = ServiceUnavailableError("status 503")
        receipt = await send(book, "one", order("12", "0.57"), REF)
        venue.error = None
        account = await book.account()
    assert receipt.state is IntentState.ABSENT
    assert (account.cash, account.positions) == (1000.0, ())


# Cash


async def test_pm_x8_cash_is_reserved_at_submission_and_only_what_it_cost_is_gone(tmp_path: Path) -> None:
    clock, venue = HastyClock(NOW), FakePolymarketReader.of(a_book())
    asked = order("12", "0.60")
    reserved: list[tuple[str, float]] = []

    def look() -> None:
        with closing(sqlite3.connect(tmp_path / "book.sqlite")) as database:
            reserved.extend(database.execute("select state, reserved / 1e6 from ticket").fetchall())

    clock.after_sleep = look
    async with book_of(venue, place(tmp_path, clock, cash=20.0, delay_s=5.0)) as book:
        (fill,) = (await send(book, "one", asked, REF)).fills
        after = await book.account()
    assert set(reserved) == {("sent", 7.488)}
    assert asked.cost == pytest.approx(7.488)
    assert fill.cash == pytest.approx(-(12 * 0.57 + 0.11765))
    assert after.cash == pytest.approx(20.0 - 12 * 0.57 - 0.11765)


async def test_pm_x8_nothing_is_bought_beyond_the_cash_nor_sold_beyond_what_is_held(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock, cash=7.0)) as book:
        dear = await send(book, "dear", order("12", "0.60"), REF)
        short = await send(book, "short", order("5", "0.50", side=OrderSide.SELL), REF)
        account = await book.account()
    assert (dear.state, short.state) == (IntentState.REFUSED, IntentState.REFUSED)
    assert "is free" in dear.detail
    assert "5.00 shares would be sold" in short.detail
    assert (account.cash, account.positions) == (7.0, ())


async def test_a_sale_brings_the_bid_less_its_fee(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", order("12", "0.57"), REF)
        before = await book.account()
        receipt = await send(book, "two", order("12", "0.55", side=OrderSide.SELL), REF)
        after = await book.account()
    # 12 x .55 x .45 x .04 = .1188.
    assert after.cash - before.cash == pytest.approx(12 * 0.55 - 0.1188)
    assert [fill.fee for fill in receipt.fills] == [pytest.approx(0.1188)]
    assert after.positions == ()


async def test_both_legs_are_merged_to_one(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", order("12", "0.57", of=contract()), REF)
        await send(book, "two", order("10", "0.45", leg=ContractSide.NO, of=contract(), mid="0.44"), REF)
        account = await book.account()
    assert [(one.leg, one.shares) for one in account.positions] == [(ContractSide.YES, 2.0)]
    assert account.cash == pytest.approx(1000.0 - 12 * 0.57 - 10 * 0.45 + 10.0)


async def test_pm_x5_a_second_order_does_not_find_what_the_first_took(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        one = await send(book, "one", order("12", "0.57"), REF)
        two = await send(book, "two", order("12", "0.57"), REF)
        venue.put(a_book(asks=(("0.57", "25"), ("0.60", "100"))))
        three = await send(book, "three", order("12", "0.57"), REF)
    assert [len(receipt.fills) for receipt in (one, two, three)] == [1, 0, 1]
    assert two.detail == "no fill: own paper orders took all of it"


# Orders that wait


async def test_pm_x7_an_order_that_waits_is_filled_by_trades_and_ends_a_minute_early(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    asked = order("20", "0.55", kind=PolymarketOrderType.GTD, lifetime=timedelta(minutes=10))
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", asked, REF)
        (resting,) = (await book.account()).orders
        assert resting.expires_at == NOW + timedelta(minutes=9)
        assert resting.reserves == pytest.approx(11.0)
        # The book moves through its price, and nobody traded.
        venue.put(a_book(bids=(("0.50", "5"),), asks=(("0.54", "900"),)))
        await clock.advance(60)
        assert await book.advance() == 0
        venue.rows = [row("SELL", 0.55, 46.0, after_s=70)]
        await clock.advance(60)
        assert await book.advance() == 1
        account = await book.account()
        assert [(one.shares, one.paid) for one in account.positions] == [(6.0, 3.3)]
        await clock.advance(500)
        assert await book.advance() == 1
        account = await book.account()
    assert account.orders == ()
    assert account.cash == pytest.approx(1000.0 - 3.3)
    assert [state for state, *_ in tickets(tmp_path)] == ["expired"]
    assert {parameters["condition_id"] for what, parameters in venue.asked if what == "trades"} == {condition(1)}


async def test_pm_x7_while_trades_cannot_be_read_an_order_goes_on_waiting(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    asked = order("20", "0.55", kind=PolymarketOrderType.GTD, lifetime=timedelta(minutes=10))
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", asked, REF)
        venue.error = ServiceUnavailableError("status 503")
        await clock.advance(60)
        assert await book.advance() == 0
        venue.error, venue.rows = None, [row("SELL", 0.54, 20.0, after_s=30)]
        assert await book.advance() == 1


# Marks


async def test_pm_x9_positions_are_marked_at_the_bid_not_at_the_middle(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", order("12", "0.57"), REF)
        (position,) = (await book.account()).positions
    assert position.mark == 0.55


@pytest.mark.parametrize(
    ("book", "leg", "shares", "expected"),
    [
        (a_book(), ContractSide.YES, 40.0, 0.55),
        (a_book(), ContractSide.YES, 80.0, (40 * 0.55 + 40 * 0.50) / 80),
        (a_book(bids=(("0.5", "10"),)), ContractSide.YES, 40.0, 0.125),
        (a_book(bids=()), ContractSide.YES, 40.0, None),
        (a_book(), ContractSide.NO, 12.0, 0.43),
        (a_book(asks=()), ContractSide.NO, 12.0, None),
    ],
)
def test_pm_x9_a_mark_reaches_as_far_down_as_all_of_it_would(
    book: PolymarketOrderBook, leg: ContractSide, shares: float, expected: float | None
) -> None:
    assert mark_position(book, held(shares, leg)) == pytest.approx(expected)


async def test_a_market_without_a_book_keeps_its_mark(tmp_path: Path) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock)) as book:
        await send(book, "one", order("12", "0.57"), REF)
        await book.account()
        venue.stored_books.clear()
        (position,) = (await book.account()).positions
    assert position.mark == 0.55


async def test_a_market_that_is_over_at_the_start_is_left_out(tmp_path: Path) -> None:
    venue = FakePolymarketReader.of(a_book())
    venue.open_ones = set()
    market = PolymarketPaperMarket(PolymarketSettings(), venue, place(tmp_path, FakeClock(NOW)))
    assert await market.mark_prices([held(5.0)]) == {}
    assert await market.mark_prices([]) == {}
    assert [what for what, _ in venue.asked] == ["markets"]


# Payouts


@pytest.mark.parametrize(
    ("outcome", "option", "yes", "no"),
    [
        (BinaryOutcome(1.0), "", 1.0, 0.0),
        (BinaryOutcome(0.0), "", 0.0, 1.0),
        (BinaryOutcome(0.5), "", 0.5, 0.5),
        (VoidOutcome("pays 0 and 0"), "", 0.0, 0.0),
        (VoidOutcome("pays 0.25 and 0.5"), "", 0.25, 0.5),
        (ChoiceOutcome("Ann"), "Ann", 1.0, 0.0),
        (ChoiceOutcome("Bob"), "Ann", 0.0, 1.0),
        (ChoiceOutcome("Other"), "Ann", 0.0, 1.0),
        (VoidOutcome("Ann pays 0.5 and 0.5; Bob pays 0.5 and 0.5", {"Ann": 0.5, "Bob": 0.5}), "Ann", 0.5, 0.5),
        (VoidOutcome("Joe Ann pays 0 and 0; Ann pays 0.5 and 0.5", {"Ann": 0.5}), "Ann", 0.5, 0.5),
        (VoidOutcome("Joe Ann pays 0 and 0; Ann pays 0.5 and 0.5", {"Ann": 0.5}), "Cid", 0.0, 1.0),
        (VoidOutcome("2 outcomes won", {"Ann": 1.0, "Bob": 1.0}), "Ann", 1.0, 0.0),
        (VoidOutcome("no outcome of it won"), "Ann", 0.0, 1.0),
    ],
)
def test_pm_x9_pm_v2_a_share_pays_what_the_pair_of_its_market_says(
    tmp_path: Path, outcome: Outcome, option: str, yes: float, no: float
) -> None:
    market = PolymarketPaperMarket(PolymarketSettings(), FakePolymarketReader.of(), place(tmp_path, FakeClock(NOW)))
    for leg, paid in ((ContractSide.YES, yes), (ContractSide.NO, no)):
        assert market.payout_per_share(held(5.0, leg, option=option), outcome, "") == paid


@pytest.mark.parametrize("outcome", [VoidOutcome("withdrawn"), NumericOutcome(3.0)])
def test_an_outcome_that_says_no_payout_leaves_positions_open(tmp_path: Path, outcome: Outcome) -> None:
    market = PolymarketPaperMarket(PolymarketSettings(), FakePolymarketReader.of(), place(tmp_path, FakeClock(NOW)))
    assert market.payout_per_share(held(5.0), outcome, "") is UnpaidOutcome.OPEN


def test_an_option_that_was_renamed_is_paid_by_its_market(tmp_path: Path) -> None:
    """The resolver speaks of options as it first knew them, whatever they were called when shares were bought."""
    kept = {"77": {condition(1): "Person C", condition(2): "Bob"}}
    (tmp_path / OPTION_NAMES_FILE).write_text(json.dumps(kept))
    market = PolymarketPaperMarket(PolymarketSettings(), FakePolymarketReader.of(), place(tmp_path, FakeClock(NOW)))
    ref = QuestionRef("polymarket", "event:77")
    cat = replace(held(5.0, option="Cat"), ref=ref)
    assert market.payout_per_share(cat, ChoiceOutcome("Person C"), "") == 1.0
    assert market.payout_per_share(cat, ChoiceOutcome("Bob"), "") == 0.0
    assert market.payout_per_share(cat, VoidOutcome("Person C pays 0.5 and 0.5", {"Person C": 0.5}), "") == 0.5
    unknown = replace(held(5.0, number=3, option="Eve"), ref=ref)
    assert market.payout_per_share(unknown, ChoiceOutcome("Eve"), "") == 1.0


# Simulated failures


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("paper_refusal_share", "refused by the venue"),
        ("paper_restart_share", "status 425"),
        ("paper_failure_share", "failed on chain"),
    ],
)
async def test_pm_x12_settings_make_mishaps_happen_and_they_cost_nothing(
    tmp_path: Path, setting: str, why: str
) -> None:
    clock, venue = FakeClock(NOW), FakePolymarketReader.of(a_book())
    async with book_of(venue, place(tmp_path, clock), PolymarketSettings.model_validate({setting: 1.0})) as book:
        receipt = await send(book, "one", order("12", "0.57"), REF)
        account = await book.account()
    assert (receipt.state, receipt.fills) == (IntentState.REFUSED, ())
    assert why in receipt.detail
    assert (account.cash, account.positions) == (1000.0, ())


def row(side: str, price: float, size: float, *, after_s: int) -> dict[str, Any]:
    """A trade of YES as the venue lists it."""
    at = int((NOW + timedelta(seconds=after_s)).timestamp())
    return {"token_id": token(1), "side": side, "price": price, "size": size, "timestamp": at}
