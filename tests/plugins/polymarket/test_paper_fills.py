"""Paper fills as a function of the book on arrival: walked, consumed, refused, and the same each time."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import (
    ChoicePrediction,
    ContractSide,
    EarlierPaperOrder,
    FillResult,
    Order,
    OrderSide,
    PaperFill,
    RemainderState,
    TradeProposal,
)
from plugins.polymarket.order_books import BookRequirements, PolymarketOrderBook
from plugins.polymarket.order_terms import PolymarketOrderTerms, PolymarketOrderType
from plugins.polymarket.paper_fills import RESTART_WINDOW, PaperOrderArrival, SimulatedFailures, fill_on_arrival
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.trading_inputs import (
    ASKS,
    EAGER,
    NOW,
    SCHEDULE,
    FakePolymarketReader,
    Levels,
    a_book,
    account,
    contract,
    order,
    question,
)

FIT = BookRequirements(spread_max=Decimal("0.10"), max_age=timedelta(hours=1))
LATER = NOW + timedelta(seconds=2)


def arrival(asked: Order, book: PolymarketOrderBook | None, **changes: Any) -> PaperOrderArrival:
    plain = PaperOrderArrival(
        intent="one",
        terms=PolymarketOrderTerms.from_order(asked),
        expected=Decimal("0.57"),
        book=book,
        at=LATER,
        requirements=FIT,
    )
    return replace(plain, **changes)


def meet(asked: Order, book: PolymarketOrderBook | None = None, **changes: Any) -> FillResult:
    return fill_on_arrival(arrival(asked, a_book() if book is None else book, **changes))


def got(result: FillResult) -> list[tuple[float, float, float]]:
    return [(fill.shares, fill.price, fill.fee) for fill in result.fills]


def past(asked: Order, result: FillResult, at: datetime = LATER) -> EarlierPaperOrder:
    return EarlierPaperOrder(order=asked, at=at, fills=result.fills, market_state=result.market_state)


def report(result: FillResult) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(result.market_state)["report"]
    return kept


# The walk


def test_pm_x3_levels_are_walked_at_their_own_prices_and_fees() -> None:
    """docs/facts/polymarket.md#fill-figures: 12 at .57, 30 at .58, 100 at .60, each with its fee."""
    result = meet(order("142", ".60"))
    assert got(result) == [(12.0, 0.57, 0.11765), (30.0, 0.58, 0.29232), (100.0, 0.60, 0.96)]
    assert sum(fee for *_, fee in got(result)) == pytest.approx(1.36997)
    assert result.remainder is RemainderState.FILLED
    assert result.why == ""


def test_what_is_not_there_is_not_filled() -> None:
    result = meet(order("200", ".60"))
    assert (result.remainder, sum(shares for shares, *_ in got(result))) == (RemainderState.DROPPED, 142.0)
    assert result.why == "142 of 200 shares were available within 0.60"


def test_a_better_price_than_the_limit_is_had() -> None:
    result = meet(order("10", ".60"))
    assert got(result) == [(10.0, 0.57, 0.09804)]


def test_fok_takes_all_or_nothing() -> None:
    result = meet(order("200", ".60", kind=PolymarketOrderType.FOK))
    assert (result.remainder, result.fills) == (RemainderState.DROPPED, ())
    assert "and it needs all" in result.why
    assert len(meet(order("142", ".60", kind=PolymarketOrderType.FOK)).fills) == 3


def test_no_is_bought_from_the_bids_of_yes() -> None:
    """docs/facts/polymarket.md#parsing-figures: YES bid .55 x 40 is NO ask .45 x 40."""
    result = meet(order("50", "0.50", leg=ContractSide.NO, mid="0.44"))
    assert [(shares, price) for shares, price, _ in got(result)] == [(40.0, 0.45), (10.0, 0.50)]


@pytest.mark.parametrize(("leg", "limit", "price"), [(ContractSide.YES, "0.55", 0.55), (ContractSide.NO, "0.42", 0.43)])
def test_a_sale_takes_bids(leg: ContractSide, limit: str, price: float) -> None:
    result = meet(order("10", limit, leg=leg, side=OrderSide.SELL))
    assert result.fills[0].price == pytest.approx(price)
    assert result.fills[0].fee > 0.0


def test_pm_x4_fees_are_those_of_the_market_and_none_is_free() -> None:
    free = meet(order("142", ".60", of=contract(fees=None)))
    assert [fee for *_, fee in got(free)] == [0.0, 0.0, 0.0]
    assert json.loads(free.fills[0].detail)["fees"] is None
    charged = meet(order("142", ".60"))
    assert json.loads(charged.fills[0].detail)["fees"] == SCHEDULE


# What is consumed


def test_pm_x5_what_an_own_order_took_is_not_there_again() -> None:
    first = order("20", ".58")
    one = meet(first)
    two = meet(order("30", ".58"), earlier_orders=[past(first, one)])
    assert [(shares, price) for shares, price, _ in got(one)] == [(12.0, 0.57), (8.0, 0.58)]
    assert [(shares, price) for shares, price, _ in got(two)] == [(22.0, 0.58)]


def test_pm_x5_until_the_level_shows_another_size() -> None:
    first = order("20", ".58")
    one = meet(first)
    moved = a_book(asks=(("0.57", "13"), *ASKS[1:]))
    two = meet(order("21", ".58"), moved, earlier_orders=[past(first, one)])
    assert [(shares, price) for shares, price, _ in got(two)] == [(13.0, 0.57), (8.0, 0.58)]


def test_pm_x5_both_legs_are_one_pool() -> None:
    """Selling YES at .55 and buying NO at .45 take from the same 40 shares."""
    sale = order("30", "0.55", side=OrderSide.SELL)
    one = meet(sale)
    two = meet(order("40", "0.45", leg=ContractSide.NO, mid="0.44"), earlier_orders=[past(sale, one)])
    assert [(shares, price) for shares, price, _ in got(two)] == [(10.0, 0.45)]
    # The asks are the other side of the pool.
    three = meet(order("12", ".57"), earlier_orders=[past(sale, one)])
    assert [shares for shares, *_ in got(three)] == [12.0]


def test_pm_x5_what_an_own_order_for_no_took_is_not_there_again() -> None:
    """The 40 shares of the bid of YES at .55 are those of NO at .45, and of a sale of YES."""
    purchase = order("30", "0.45", leg=ContractSide.NO, mid="0.44")
    one = meet(purchase)
    assert [(shares, price) for shares, price, _ in got(one)] == [(30.0, 0.45)]
    for asked in (purchase, order("30", "0.55", side=OrderSide.SELL)):
        assert [shares for shares, *_ in got(meet(asked, earlier_orders=[past(purchase, one)]))] == [10.0]


def test_pm_x5_a_level_of_the_other_side_at_the_same_price_is_another_one() -> None:
    sale = order("30", "0.55", side=OrderSide.SELL)
    one = meet(sale)
    turned = a_book(bids=(("0.50", "500"),), asks=(("0.55", "40"), ("0.60", "100")))
    assert [shares for shares, *_ in got(meet(order("40", "0.55"), turned, earlier_orders=[past(sale, one)]))] == [40.0]


def test_pm_x5_what_several_took_adds_up_and_an_older_refresh_ends_it() -> None:
    asked = order("4", ".57")
    walked: list[EarlierPaperOrder] = []
    for _ in range(3):
        walked.insert(0, past(asked, meet(asked, earlier_orders=walked)))
    nothing = meet(asked, earlier_orders=walked)
    assert (nothing.fills, nothing.why) == ((), "no fill: own paper orders took all of it")
    between = a_book(asks=(("0.57", "20"), *ASKS[1:]))
    walked.insert(0, past(asked, meet(asked, between, earlier_orders=walked)))
    # The level shows 12 again, but it showed 20 in between.
    assert [shares for shares, *_ in got(meet(asked, earlier_orders=walked))] == [4.0]


def test_a_fill_of_an_order_that_waited_consumed_nothing() -> None:
    waited = EarlierPaperOrder(
        order=order("12", ".57", kind=PolymarketOrderType.GTD, lifetime=timedelta(hours=1)),
        at=NOW,
        fills=(PaperFill(shares=12.0, price=0.57, detail='{"pool": "waited"}'), PaperFill(shares=1.0, price=0.57)),
        market_state="",
    )
    assert [shares for shares, *_ in got(meet(order("12", ".57"), earlier_orders=[waited]))] == [12.0]


@given(sizes=st.lists(st.integers(2, 60), min_size=1, max_size=6))
def test_pm_x5_all_orders_together_get_no_more_than_one_would(sizes: Sequence[int]) -> None:
    walked: list[EarlierPaperOrder] = []
    for size in sizes:
        asked = order(str(size), ".60")
        result = meet(asked, earlier_orders=walked)
        if result.fills:
            walked.insert(0, past(asked, result))
    whole = meet(order(str(sum(sizes)), ".60"))
    apart = [fill for one in walked for fill in one.fills]
    assert sum(fill.shares for fill in apart) == pytest.approx(sum(shares for shares, *_ in got(whole)))
    value = sum(fill.shares * fill.price for fill in apart)
    assert value == pytest.approx(sum(shares * price for shares, price, _ in got(whole)))


# No fill because


@pytest.mark.parametrize(
    ("book", "why"),
    [
        (a_book(bids=()), "the book has no bids"),
        (a_book(asks=()), "the book has no asks"),
        (a_book(bids=(("0.57", "5"),)), "crossed"),
        (a_book(bids=(("0.40", "5"),)), "too wide"),
        (a_book(at=NOW - timedelta(hours=2)), "stale"),
        (a_book(at=NOW + timedelta(hours=2)), "compare the clocks"),
        (a_book(asks=(("0.61", "5"),)), "no fill: nothing was offered within 0.60"),
    ],
)
def test_pm_x6_a_book_that_is_no_market_gives_no_fill_with_a_reason(book: PolymarketOrderBook, why: str) -> None:
    result = meet(order("10", "0.60"), book)
    assert (result.remainder, result.fills) == (RemainderState.DROPPED, ())
    assert why in result.why
    assert report(result)["why"] == result.why


def test_pm_x6_no_book_gives_no_fill() -> None:
    result = fill_on_arrival(arrival(order("10", "0.60"), None))
    assert (result.fills, result.why) == ((), "there is no book")
    assert json.loads(result.market_state)["arrival"] is None


@pytest.mark.parametrize(
    ("asked", "book", "why"),
    [
        (order("10", "0.575"), a_book(), "not on the grid of the book, 0.01"),
        (order("10", "0.60"), a_book(tick=Decimal("0.1"), asks=(("0.6", "20"),)), ""),
        (
            order("10", "0.55"),
            a_book(tick=Decimal("0.1"), bids=(("0.4", "9"),), asks=(("0.5", "20"),)),
            "not on the grid of the book, 0.1",
        ),
        (order("1.005", "0.60"), a_book(), "more than two decimals"),
        (order("1.01", "0.60"), a_book(), "not an amount in whole cents"),
        (order("1", "0.60"), a_book(), "it is worth 0.60 dollars, but 1 is the minimum"),
        (order("1", "0.50", side=OrderSide.SELL), a_book(), ""),
        (
            order("4", "0.50", kind=PolymarketOrderType.GTD, lifetime=timedelta(hours=1)),
            a_book(),
            "but 5 is the minimum",
        ),
        (
            order("9", "0.50", kind=PolymarketOrderType.GTD, lifetime=timedelta(minutes=2)),
            a_book(),
            "less than three minutes",
        ),
        (
            order("9", "0.57", kind=PolymarketOrderType.GTD, lifetime=timedelta(hours=1)),
            a_book(),
            "it would be matched at once",
        ),
    ],
)
def test_pm_s4_pm_s5_what_the_venue_would_refuse_is_refused(asked: Order, book: PolymarketOrderBook, why: str) -> None:
    result = meet(asked, book)
    if why:
        assert (result.remainder, result.fills) == (RemainderState.DROPPED, ())
        assert why in result.why
    else:
        assert result.fills


def test_a_market_that_takes_no_orders_gives_no_fill() -> None:
    result = meet(order("10", "0.60"), refusal="the market accepts no orders now")
    assert (result.fills, result.why) == ((), "the market accepts no orders now")


# The report


def test_pm_x10_the_report_tells_what_a_fill_at_the_middle_would_hide() -> None:
    result = meet(order("142", ".60", mid="0.55"))
    assert report(result) == {
        "decision_mid": "0.55",
        "arrival_mid": "0.56",
        "asked": "142",
        "filled": "142",
        "fill_ratio": "1",
        "expected": "0.57",
        "average": "0.593239",
        "fee": "1.36997",
        "slippage_decision": "0.043239",
        "slippage_arrival": "0.033239",
        "shadow": "79.52",
        "why": "",
    }


def test_pm_x10_slippage_of_a_sale_counts_the_other_way() -> None:
    result = report(meet(order("10", "0.55", side=OrderSide.SELL, mid="0.56")))
    assert (result["slippage_decision"], result["slippage_arrival"]) == ("0.01", "0.01")


def test_pm_x10_the_report_of_nothing_has_no_average() -> None:
    result = report(meet(order("10", "0.56")))
    assert (result["filled"], result["fill_ratio"], result["average"], result["slippage_arrival"]) == (
        "0",
        "0",
        None,
        None,
    )
    assert result["why"] == "no fill: nothing was offered within 0.56"


def test_pm_x2_both_books_are_kept() -> None:
    kept = json.loads(meet(order("10", "0.57")).market_state)
    assert PolymarketOrderBook.from_map(kept["arrival"]) == a_book()
    assert kept["decision"]["hash"] == "0xdecided"


shares_of_kelly = st.floats(0.1, 1.0)
side = st.lists(st.tuples(st.integers(1, 98), st.integers(1, 9_999)), min_size=1, max_size=8)


@given(bids=side, asks=side, size=st.integers(1, 500), limit=st.integers(1, 99), seed=st.text(max_size=5))
def test_pm_x11_a_replay_of_the_stored_book_gives_the_same_fills(
    bids: list[tuple[int, int]], asks: list[tuple[int, int]], size: int, limit: int, seed: str
) -> None:
    book = a_book(bids=_side(bids), asks=_side(asks))
    asked, failures = (
        order(str(size), f"0.{limit:02}"),
        SimulatedFailures(refused=0.2, failed=0.2, restarting=0.2, seed=seed),
    )
    result = meet(asked, book, failures=failures, requirements=replace(FIT, spread_max=Decimal(1)))
    stored = json.loads(result.market_state)
    again = meet(
        asked,
        PolymarketOrderBook.from_map(stored["arrival"]),
        at=datetime.fromisoformat(stored["at"]),
        failures=failures,
        requirements=replace(FIT, spread_max=Decimal(1)),
    )
    assert again == result


def _side(levels: list[tuple[int, int]]) -> Levels:
    return [(f"0.{price:02}", str(size)) for price, size in dict(levels).items()]


# Simulated failures


def test_pm_x12_refusals_restarts_and_failed_trades_happen_as_often_as_asked_by_the_seed() -> None:
    failures = SimulatedFailures(refused=0.3, restarting=0.1, failed=0.05, seed="one")
    for what, share in (("refused", 0.3), ("restarting", 0.1), ("failed", 0.05)):
        hit = [failures.happens(what, f"order {number}") for number in range(4000)]
        assert sum(hit) / 4000 == pytest.approx(share, abs=0.03)
        assert hit == [failures.happens(what, f"order {number}") for number in range(4000)]
        other = replace(failures, seed="two")
        assert hit != [other.happens(what, f"order {number}") for number in range(4000)]


@pytest.mark.parametrize(
    ("failures", "why"),
    [
        (SimulatedFailures(refused=1.0), "refused by the venue, as paper_refusal_share asks for"),
        (SimulatedFailures(restarting=1.0), "status 425: the exchange is restarting"),
        (SimulatedFailures(failed=1.0), "it was matched, and the trade then failed on chain"),
    ],
)
def test_pm_x12_a_mishap_leaves_nothing_behind(failures: SimulatedFailures, why: str) -> None:
    result = meet(order("10", "0.57"), failures=failures)
    assert (result.remainder, result.fills, result.why) == (RemainderState.DROPPED, (), why)


def test_pm_x12_a_restart_lasts_for_its_window_and_then_is_over() -> None:
    failures = SimulatedFailures(restarting=0.5, seed="s")
    starts = [datetime.fromtimestamp(0, NOW.tzinfo) + number * RESTART_WINDOW for number in range(2_945_000, 2_945_060)]
    states = []
    for start in starts:
        book = a_book(at=start)
        first, last = (
            meet(order("10", "0.57"), book, at=start + after, failures=failures)
            for after in (timedelta(), RESTART_WINDOW - timedelta(seconds=1))
        )
        assert bool(first.fills) == bool(last.fills)
        states.append(bool(first.fills))
    assert set(states) == {True, False}


def test_pm_x12_nothing_happens_where_nothing_is_asked_for() -> None:
    assert not any(SimulatedFailures().happens(what, "x") for what in ("refused", "restarting", "failed"))


@given(sides=st.tuples(side, side, side), belief=st.floats(0.02, 0.98), rate=st.integers(0, 200), share=shares_of_kelly)
async def test_whatever_stands_there_on_arrival_an_order_costs_no_more_than_it_says(
    sides: tuple[list[tuple[int, int]], ...], belief: float, rate: int, share: float
) -> None:
    """Planned on one book, met on another: the cost that the caps are held to covers price, fees and rounding."""
    bids, asks, others = sides
    fees = {**SCHEDULE, "rate": str(Decimal(rate) / 1000)}
    about = question(Ann=contract(fees=fees), Bob=contract(2))
    proposal = TradeProposal(
        question=about,
        predictions={"outcome": ChoicePrediction({"Ann": belief, "Bob": 0.01, "Other": 0.99 - belief})},
        account=account(),
        sizing=replace(EAGER, kelly_fraction=share),
        now=NOW,
    )
    planner = PolymarketPlanner(
        PolymarketSettings(max_spread=0.99), FakePolymarketReader.of(a_book(bids=_side(bids), asks=_side(asks)))
    )
    found = (await planner.plan_order(proposal)).order
    if found is None:
        return
    result = meet(found, a_book(bids=_side(bids), asks=_side(others)), requirements=replace(FIT, spread_max=Decimal(1)))
    paid = sum(
        Decimal(repr(fill.shares)) * Decimal(repr(fill.price)) + Decimal(repr(fill.fee)) for fill in result.fills
    )
    assert paid <= Decimal(repr(found.cost))
    assert sum(fill.shares for fill in result.fills) <= found.shares + 1e-9
    same = meet(found, a_book(bids=_side(bids), asks=_side(asks)), requirements=replace(FIT, spread_max=Decimal(1)))
    assert same.remainder is RemainderState.FILLED
    assert sum(fill.shares for fill in same.fills) == pytest.approx(found.shares)
