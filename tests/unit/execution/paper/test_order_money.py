"""Cash and shares of a paper book to the millionth: fees of sales, rounding, excess fills, pairs, ends of orders."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import MalformedDataError
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.outcomes import VoidOutcome
from bot.core.submissions import IntentState
from bot.execution.paper.accounting import to_millionths_rounded_up
from bot.execution.paper.paper_book import PAPER_BOOK_FILE, paper_book_path
from bot.execution.paper.paper_market import FillRequest, FillResult, PaperFill, RemainderState
from bot.execution.paper.report import read_book_report, read_order_reports
from bot.testing.clock import START
from bot.testing.paper_market import FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import intent, moved, open_paper_book_fixture, order, outcome

HOUR = timedelta(hours=1)


@dataclass(kw_only=True)
class AnsweringMarket(FakePaperMarket):
    """Answers each new order with the next result of a list, then as the fake market does."""

    results: list[FillResult] = field(default_factory=list)

    async def fill_new_order(self, visit: FillRequest) -> FillResult:
        return self.results.pop(0) if self.results else await super().fill_new_order(visit)


def filled(shares: float, price: float, fee: float = 0.0) -> FillResult:
    return FillResult(remainder=RemainderState.FILLED, fills=(PaperFill(shares=shares, price=price, fee=fee),))


def sale(shares: float, limit: float = 0.3) -> Order:
    return order(shares, limit, side=OrderSide.SELL)


@pytest.mark.parametrize(
    ("amount", "millionths"),
    [(0.1 + 0.2, 300_000), (1e-7, 1), (1.0005e-6, 1), (1.002e-6, 2), (2.5e-6, 3), (0.0, 0), (4.1, 4_100_000)],
)
def test_a_cost_is_rounded_up_beyond_the_precision_of_floats(amount: float, millionths: int) -> None:
    assert to_millionths_rounded_up(amount) == millionths


async def test_the_fee_of_a_sale_is_taken_from_its_proceeds(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, FakePaperMarket(prices={"rain": 0.4}, fee=0.01)) as paper:
        await paper.send("one", order(10.0, 0.5))
        paper.market.prices["rain"] = 0.6
        receipt = await paper.send("two", sale(10.0))
        assert moved(receipt.fills) == pytest.approx(5.9)
        assert await paper.cash() == pytest.approx(100.0 - 4.1 + 5.9)
    report = await read_book_report(paper_book_path(tmp_path.parent, tmp_path.name), at=START)
    assert report is not None
    assert [report.realised, report.fees] == pytest.approx([1.8, 0.2])


@pytest.mark.parametrize(("fee", "cash"), [(0.0, -10.0), (0.00002, -10.0), (0.000021, None)])
async def test_a_fill_beyond_the_reserved_cost_by_rounding_alone_costs_what_was_reserved(
    tmp_path: Path, fee: float, cash: float | None
) -> None:
    market = AnsweringMarket(results=[filled(20.0, 0.5, fee)])
    async with open_paper_book_fixture(tmp_path, market) as paper:
        if cash is None:
            with pytest.raises(MalformedDataError, match="beyond the order"):
                await paper.send("one", order(20.0, 0.5))
            return
        assert moved((await paper.send("one", order(20.0, 0.5))).fills) == cash


async def test_a_price_beyond_the_limit_by_one_millionth_is_rounding(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, AnsweringMarket(results=[filled(10.0, 2e-6)])) as paper:
        receipt = await paper.send("one", order(10.0, 1e-6))
        assert [(one.shares, one.cash) for one in receipt.fills] == [(10.0, -1e-5)]


@pytest.mark.parametrize(("shares", "left"), [(0.0, 0.0), (1e-7, 0.0), (1e-6, 1e-6)])
async def test_a_fill_is_booked_from_one_millionth_of_a_share(tmp_path: Path, shares: float, left: float) -> None:
    async with open_paper_book_fixture(tmp_path, AnsweringMarket(results=[filled(shares, 0.5)])) as paper:
        receipt = await paper.send("one", order(10.0, 0.5))
        assert sum(one.shares for one in receipt.fills) == left
        assert (await paper.shares()).get(("rain", "yes"), 0.0) == left


@pytest.mark.parametrize("excess", [0.00001, 0.00002])
async def test_a_sale_beyond_its_shares_by_rounding_alone_sells_what_it_holds(tmp_path: Path, excess: float) -> None:
    market = AnsweringMarket(results=[filled(10.0, 0.4), filled(4.0 + excess, 0.4)])
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        assert [one.shares for one in (await paper.send("two", sale(4.0))).fills] == [4.0]
        assert await paper.shares() == {("rain", "yes"): 6.0}


@pytest.mark.parametrize("excess", [0.000021, 1.0])
async def test_a_market_that_sells_more_than_the_order_is_at_fault(tmp_path: Path, excess: float) -> None:
    market = AnsweringMarket(results=[filled(10.0, 0.4), filled(4.0 + excess, 0.4)])
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        with pytest.raises(MalformedDataError, match="beyond the order"):
            await paper.send("two", sale(4.0))
        assert await paper.shares() == {("rain", "yes"): 10.0}


async def test_a_sale_that_names_a_cost_reserves_no_cash(tmp_path: Path) -> None:
    async with open_paper_book_fixture(
        tmp_path, FakePaperMarket(prices={"rain": 0.4}, resting_time=HOUR), cash=4.0
    ) as paper:
        await paper.send("one", order(10.0, 0.4))
        receipt = await paper.send("two", order(10.0, 0.9, side=OrderSide.SELL, cost=50.0))
        assert receipt.state is IntentState.ACKED
        assert [one.reserves for one in (await paper.book.account()).orders] == [0.0]


async def test_a_sale_that_rests_reserves_no_cash(tmp_path: Path) -> None:
    async with open_paper_book_fixture(
        tmp_path, FakePaperMarket(prices={"rain": 0.4}, size=4.0, resting_time=HOUR)
    ) as paper:
        await paper.send("one", order(4.0, 0.5))
        paper.market.size = 1.0
        await paper.send("two", sale(4.0))
        account = await paper.book.account()
        assert account.cash == pytest.approx(100.0 - 1.6 + 0.4)
        assert [(one.reserves, one.shares) for one in account.orders] == [(0.0, 3.0)]


async def test_a_part_of_a_position_is_sold_at_its_part_of_the_cost_in_whole_millionths(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, FakePaperMarket(prices={"rain": 1 / 3})) as paper:
        await paper.send("one", order(3.0, 0.5))
        await paper.send("two", sale(1.0))
        (position,) = (await paper.book.account()).positions
        # A third of 1,000,000 is 333,333 whole millionths.
        assert (position.shares, position.paid) == (2.0, 0.666667)


async def test_one_millionth_of_a_pair_is_redeemed(tmp_path: Path) -> None:
    market = AnsweringMarket(results=[filled(10.0, 0.4), filled(1e-6, 0.5)])
    async with open_paper_book_fixture(tmp_path, market, redeems=True) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.send("two", order(1.0, 0.6, leg=ContractSide.NO))
        assert await paper.shares() == {("rain", "yes"): 9.999999}


@pytest.mark.parametrize(
    ("results", "resting_time", "wait_s", "state"),
    [
        ([FillResult(remainder=RemainderState.DROPPED, fills=filled(4.0, 0.4).fills)], None, 0, "dropped"),
        ([FillResult(remainder=RemainderState.DROPPED)], None, 0, "refused"),
        ([filled(10.0, 0.4)], None, 0, "filled"),
        ([FillResult(remainder=RemainderState.RESTING)], HOUR, 3600, "expired"),
        ([FillResult(remainder=RemainderState.RESTING)], HOUR, 3599, "resting"),
    ],
)
async def test_the_end_of_an_order_has_its_own_state(
    tmp_path: Path, results: list[FillResult], resting_time: timedelta | None, wait_s: int, state: str
) -> None:
    market = AnsweringMarket(prices={"rain": 0.6}, results=[*results], resting_time=resting_time)
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.clock.advance(wait_s)
        await paper.book.advance()
        assert (await read_order_reports(tmp_path / PAPER_BOOK_FILE, ["one"]))["one"].state == state


async def test_a_resting_order_that_its_market_drops_is_not_a_refused_one(tmp_path: Path) -> None:
    market = AnsweringMarket(results=[FillResult(remainder=RemainderState.RESTING)], resting_time=HOUR)
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        # The fake market has no price for the contract, so it drops the order.
        assert await paper.book.advance() == 1
        assert (await read_order_reports(tmp_path / PAPER_BOOK_FILE, ["one"]))["one"].state == "dropped"


async def test_an_order_that_expires_keeps_what_its_last_check_filled(tmp_path: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.4}, size=4.0, resting_time=HOUR)
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.clock.advance(3600)
        assert await paper.book.advance() == 1
        receipt = await paper.stands("one")
        assert ([one.shares for one in receipt.fills], receipt.state) == ([4.0, 4.0], IntentState.ACKED)


async def test_every_resting_order_is_checked_and_counted(tmp_path: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.6}, resting_time=HOUR)
    async with open_paper_book_fixture(tmp_path, market) as paper:
        for name in ("one", "two", "three"):
            await paper.send(name, order(10.0, 0.5))
        assert await paper.book.advance() == 0
        paper.market.prices["rain"] = 0.4
        assert await paper.book.advance() == 3


async def test_an_order_on_its_way_leaves_the_others_resting_until_they_are_filled(tmp_path: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.6}, resting_time=HOUR)
    async with open_paper_book_fixture(tmp_path, market, delay_s=30.0) as paper:
        early = await paper.seal(intent("early", order(10.0, 0.5)))
        await paper.clock.advance(31)
        under_way = asyncio.create_task(paper.send("late", order(10.0, 0.5)))
        async with asyncio.timeout(10):
            while (await paper.stands("late")).state is IntentState.ABSENT:  # noqa: ASYNC110 - a row of the book
                await asyncio.sleep(0)
        await paper.write(early)
        market.prices["rain"] = 0.4
        # Of two checks at the same time the second finds the order filled.
        assert sorted(await asyncio.gather(paper.book.advance(), paper.book.advance())) == [0, 1]
        await paper.clock.advance(30)
        assert [one.shares for one in (await under_way).fills] == [10.0]


async def test_an_outcome_that_is_paid_later_holds_up_no_other(tmp_path: Path) -> None:
    async with open_paper_book_fixture(tmp_path, FakePaperMarket(prices={"rain": 0.4})) as paper:
        await paper.send("one", order(10.0, 0.5))
        later = replace(outcome(1.0, "snow"), resolved_at=START + HOUR)
        assert await paper.book.settle([later, outcome(1.0)]) == 1


async def test_a_void_question_gives_back_the_last_millionth_of_what_was_sold(tmp_path: Path) -> None:
    market = AnsweringMarket(results=[filled(10.0, 0.4), filled(10.0, 0.3999999)])
    async with open_paper_book_fixture(tmp_path, market) as paper:
        await paper.send("one", order(10.0, 0.5))
        await paper.send("two", sale(10.0))
        assert await paper.cash() == 99.999999
        await paper.book.settle([outcome(VoidOutcome("called off"))])
        assert (await paper.shares(), await paper.cash()) == ({}, 100.0)


async def test_every_outcome_is_settled_and_counted_whatever_the_first_is(tmp_path: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.4, "snow": 0.4})
    async with open_paper_book_fixture(tmp_path, market) as paper:
        for name in ("rain", "snow"):
            await paper.send(name, order(10.0, 0.5, contract=name), name)
        outcomes = [outcome(1.0, "hail"), outcome(1.0, "rain"), outcome(0.0, "snow"), outcome(1.0, "fog")]
        assert await paper.book.settle(outcomes) == 2
        assert await paper.cash() == pytest.approx(100.0 - 8.0 + 10.0)


@pytest.mark.parametrize("shares", [1e-6, 10.0])
async def test_a_void_question_gives_back_also_the_smallest_position(tmp_path: Path, shares: float) -> None:
    async with open_paper_book_fixture(tmp_path, AnsweringMarket(results=[filled(shares, 0.5)])) as paper:
        await paper.send("one", order(10.0, 0.5))
        assert await paper.book.settle([outcome(VoidOutcome("called off"))]) == 1
        assert (await paper.shares(), await paper.cash()) == ({}, 100.0)


async def test_an_order_is_sealed_until_after_the_delay_and_the_way_there(tmp_path: Path) -> None:
    async def fence(delay_s: float) -> timedelta:
        market = FakePaperMarket(prices={"rain": 0.4})
        async with open_paper_book_fixture(tmp_path / str(delay_s), market, delay_s=delay_s) as paper:
            (sealed,) = (await paper.seal(intent("one", order(10.0, 0.5)))).sealed
        assert sealed.fence is not None
        return sealed.fence - START

    assert await fence(60.0) - await fence(0.0) == timedelta(seconds=60)
