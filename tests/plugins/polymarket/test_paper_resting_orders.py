"""Orders that wait on paper: filled by trades beyond the queue before them, never by quotes."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ContractSide, FillRequest, FillResult, MalformedDataError, Order, RemainderState
from plugins.polymarket.order_terms import PolymarketOrderTerms, PolymarketOrderType
from plugins.polymarket.paper_fills import PolymarketTrade, QueueAssumption, fill_resting_order, parse_trade
from tests.plugins.polymarket.records import token
from tests.plugins.polymarket.test_paper_fills import meet
from tests.plugins.polymarket.trading_inputs import NOW, contract, order

HOUR = timedelta(hours=1)


def waiting(size: str = "20", price: str = "0.55", leg: ContractSide = ContractSide.YES, **more: Any) -> Order:
    return order(size, price, leg=leg, kind=PolymarketOrderType.GTD, lifetime=HOUR, **more)


def visit(asked: Order, result: FillResult, **changes: Any) -> FillRequest:
    plain = FillRequest(
        id="one",
        order=asked,
        sealed_at=NOW,
        expires_at=NOW + HOUR,
        last_checked_at=NOW,
        fills=result.fills,
        plugin_state=result.plugin_state,
    )
    return replace(plain, **changes)


def trade(price: str, size: str, *, buys: bool = False, after_s: float = 60.0) -> PolymarketTrade:
    return PolymarketTrade(at=NOW + timedelta(seconds=after_s), price=Decimal(price), size=Decimal(size), buys=buys)


def look(
    asked: Order,
    *trades: PolymarketTrade,
    queue: QueueAssumption = QueueAssumption.NEUTRAL,
    result: FillResult | None = None,
) -> FillResult:
    return fill_resting_order(
        visit(asked, result or meet(asked)), PolymarketOrderTerms.from_order(asked), trades, queue=queue
    )


def shares(result: FillResult) -> float:
    return sum(fill.shares for fill in result.fills)


def test_it_waits_behind_what_is_shown_at_its_price_without_a_fee() -> None:
    result = meet(waiting())
    assert (result.remainder, result.fills, result.why) == (RemainderState.RESTING, (), "it waits behind 40 shares")
    assert json.loads(result.plugin_state)["ahead"] == "40"
    assert json.loads(meet(waiting(price="0.56")).plugin_state)["ahead"] == "0"


def test_pm_x7_without_trades_it_never_fills() -> None:
    """However good the book becomes: a quote is no fill."""
    asked = waiting()
    assert look(asked).fills == ()
    assert look(asked).remainder is RemainderState.RESTING


@pytest.mark.parametrize(
    ("queue", "sizes", "filled"),
    [
        (QueueAssumption.NEUTRAL, ("30",), 0.0),
        (QueueAssumption.NEUTRAL, ("30", "15"), 5.0),
        (QueueAssumption.NEUTRAL, ("30", "100"), 20.0),
        (QueueAssumption.OPTIMISTIC, ("12",), 12.0),
        (QueueAssumption.STRICT, ("1000", "1000"), 0.0),
    ],
)
def test_pm_x7_trades_at_its_price_serve_those_before_it_first(
    queue: QueueAssumption, sizes: tuple[str, ...], filled: float
) -> None:
    trades = [trade("0.55", size, after_s=60 + number) for number, size in enumerate(sizes)]
    result = look(waiting(), *trades, queue=queue)
    assert shares(result) == filled
    assert {(fill.price, fill.fee) for fill in result.fills} <= {(0.55, 0.0)}
    assert (result.remainder is RemainderState.FILLED) == (filled == 20.0)


@pytest.mark.parametrize("queue", list(QueueAssumption))
def test_pm_x7_a_trade_beyond_its_price_has_served_all_before_it(queue: QueueAssumption) -> None:
    result = look(waiting(), trade("0.54", "12"), queue=queue)
    # At its own price, which is better for the other side than the trade was.
    assert [(fill.shares, fill.price) for fill in result.fills] == [(12.0, 0.55)]


@pytest.mark.parametrize(
    "other", [trade("0.55", "500", buys=True), trade("0.56", "500"), trade("0.54", "500", after_s=2.5)]
)
def test_pm_x7_other_trades_fill_nothing(other: PolymarketTrade) -> None:
    """Of buyers, above its price, and in the second in which it came."""
    assert look(waiting(), other).fills == ()


def test_trades_after_its_end_fill_nothing() -> None:
    assert look(waiting(), trade("0.50", "500", after_s=3600.0)).fills == ()
    assert shares(look(waiting(), trade("0.50", "500", after_s=3599.0))) == 20.0


def test_an_order_for_no_waits_among_the_asks_of_yes() -> None:
    """NO at .43 is YES offered at .57, where 12 are before it; a buyer of YES there takes it."""
    asked = waiting(price="0.43", leg=ContractSide.NO, mid="0.44")
    assert json.loads(meet(asked).plugin_state)["ahead"] == "12"
    assert shares(look(asked, trade("0.57", "15", buys=True))) == 3.0
    assert shares(look(asked, trade("0.58", "9", buys=True))) == 9.0
    assert shares(look(asked, trade("0.57", "500"))) == 0.0


def test_looking_again_fills_no_trade_twice_and_counts_late_ones() -> None:
    asked = waiting()
    first = trade("0.55", "45", after_s=100)
    one = look(asked, first)
    assert shares(one) == 5.0
    had = visit(asked, meet(asked), fills=one.fills)
    again = fill_resting_order(had, PolymarketOrderTerms.from_order(asked), [first], queue=QueueAssumption.NEUTRAL)
    assert (again.fills, again.plugin_state) == ((), had.plugin_state)
    late = fill_resting_order(
        had,
        PolymarketOrderTerms.from_order(asked),
        [first, trade("0.55", "8", after_s=90)],
        queue=QueueAssumption.NEUTRAL,
    )
    assert shares(late) == 8.0


def test_a_memory_that_is_lost_is_an_error() -> None:
    asked = waiting()
    with pytest.raises(MalformedDataError, match="its queue position is unknown"):
        fill_resting_order(
            visit(asked, meet(asked), plugin_state="?"),
            PolymarketOrderTerms.from_order(asked),
            [],
            queue=QueueAssumption.NEUTRAL,
        )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"token_id": token(1), "side": "SELL", "price": 0.55}, ("0.55", False)),
        ({"token_id": token(1), "side": "BUY", "price": "0.55"}, ("0.55", True)),
        ({"token_id": token(1, 1), "side": "BUY", "price": 0.45}, ("0.55", False)),
        ({"token_id": token(1, 1), "side": "SELL", "price": 0.45}, ("0.55", True)),
        ({"token_id": token(2), "side": "BUY", "price": 0.45}, None),
        ({"token_id": token(1), "side": "MERGE", "price": 0.45}, None),
        ({"token_id": token(1), "side": "BUY", "price": 1}, None),
        ({"token_id": token(1), "side": "BUY"}, None),
    ],
)
def test_trades_of_either_token_are_read_in_terms_of_yes(
    row: dict[str, object], expected: tuple[str, bool] | None
) -> None:
    found = parse_trade({"size": 10, "timestamp": 1_767_225_660, **row}, contract())
    if expected is None:
        assert found is None
    else:
        assert found == PolymarketTrade(
            at=NOW + timedelta(seconds=60), price=Decimal(expected[0]), size=Decimal(10), buys=expected[1]
        )


trades = st.lists(
    st.builds(
        lambda price, size, buys, after: trade(f"0.{price}", str(size), buys=buys, after_s=after),
        st.integers(50, 60),
        st.integers(1, 60),
        st.booleans(),
        st.floats(0.0, 4000.0),
    ),
    max_size=12,
)


@given(trades=trades, first=st.integers(0, 12))
def test_looking_often_fills_as_much_as_looking_once(trades: list[PolymarketTrade], first: int) -> None:
    asked = waiting()
    terms, came = PolymarketOrderTerms.from_order(asked), meet(asked)
    ordered = sorted(trades, key=lambda one: one.at)
    once = fill_resting_order(visit(asked, came), terms, ordered, queue=QueueAssumption.NEUTRAL)
    one = fill_resting_order(visit(asked, came), terms, ordered[:first], queue=QueueAssumption.NEUTRAL)
    two = fill_resting_order(visit(asked, came, fills=one.fills), terms, ordered, queue=QueueAssumption.NEUTRAL)
    assert shares(one) + shares(two) == shares(once) <= 20.0
    by_view = [shares(fill_resting_order(visit(asked, came), terms, ordered, queue=queue)) for queue in _BY_MEANNESS]
    assert by_view == sorted(by_view)


_BY_MEANNESS = (QueueAssumption.STRICT, QueueAssumption.NEUTRAL, QueueAssumption.OPTIMISTIC)
