"""Trading on the fake Polymarket, after docs/facts/polymarket.md#clob, #fees and #geography."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import httpx
import pytest

from bot.simulator.faults import RequestFault
from bot.simulator.venues.polymarket_order_checks import (
    FAK_UNFILLED,
    FOK_UNFILLED,
    MARKET_NOT_READY,
    ORDER_CROSSES_BOOK,
)
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from tests.unit.simulator.venues.polymarket_client import (
    OTHER_KEY,
    POLITICS,
    RawPolymarketClient,
    deep,
    open_polymarket,
)

pytest.importorskip("polymarket")


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


def dollars(amount: str, cap: str) -> tuple[Decimal, Decimal]:
    """Return the amounts of an order for dollars at a cap, shares to four places."""
    return Decimal(amount), (Decimal(amount) / Decimal(cap)).quantize(Decimal("0.0001"), rounding="ROUND_DOWN")


# Fees and fills


@pytest.mark.parametrize(
    ("rate", "cents"),
    [
        ("0.03", ("0.14", "0.27", "0.63", "0.75")),
        ("0.04", ("0.19", "0.36", "0.84", "1.00")),
        ("0.05", ("0.24", "0.45", "1.05", "1.25")),
        ("0.07", ("0.33", "0.63", "1.47", "1.75")),
    ],
)
def test_fees_are_those_of_section_15_4_on_either_side(rate: str, cents: tuple[str, ...]) -> None:
    fees = FakeFeeSchedule(rate=Decimal(rate))
    for price, expected in zip(("0.05", "0.10", "0.30", "0.50"), cents, strict=True):
        for side in (Decimal(price), 1 - Decimal(price)):
            # In cents a share, printed there to two places with halves up.
            found = fees.fee_of(side, Decimal(1_000)) / 10
            assert found.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP") == Decimal(expected)


def test_a_fee_below_the_least_is_nothing() -> None:
    found = [POLITICS.fee_of(Decimal("0.57"), Decimal(size)) for size in ("12", "0.0011", "0.0010")]
    assert found == [Decimal("0.11765"), Decimal("0.00001"), 0]


@pytest.mark.parametrize(
    "row",
    [
        ("20", "0.60", "34.6897", "0.57654", "0.33874"),
        ("20", "0.57", "12", "0.57", "0.11765"),
        ("100", "0.60", "142", "0.59324", "1.36997"),
        ("100", "0.99", "157.9192", "0.63324", "1.37627"),
    ],
)
async def test_an_order_for_dollars_walks_the_book_as_section_15_6_says(
    polymarket: RawPolymarketClient, row: tuple[str, ...]
) -> None:
    amount, cap, shares, average, fee = row
    market = deep(polymarket)
    placed = await polymarket.placed(market, "BUY", cap, "1", kind="FAK", amounts=dollars(amount, cap))
    got, spent = Decimal(placed["takingAmount"]), Decimal(placed["makingAmount"])
    assert (placed["status"], round(got, 4), round(spent / got, 5)) == ("matched", Decimal(shares), Decimal(average))
    await polymarket.pass_s(10)
    assert polymarket.ada.cash == 1_000 - spent - Decimal(fee)
    assert polymarket.ada.shares == {market.tokens[0]: got}


async def test_a_fill_is_of_nobody_until_it_is_confirmed(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    placed = await polymarket.placed(market, "BUY", "0.57", "12")
    assert (placed["status"], placed["makingAmount"], placed["takingAmount"]) == ("matched", "6.84", "12")
    seen = []
    for seconds in (0, 2, 3):
        await polymarket.pass_s(seconds)
        [trade] = (await polymarket.mine("/data/trades"))["data"]
        seen.append((trade["status"], bool(trade["transaction_hash"]), polymarket.ada.shares.get(market.tokens[0], 0)))
    assert seen == [
        ("TRADE_STATUS_MATCHED", False, 0),
        ("TRADE_STATUS_MINED", True, 0),
        ("TRADE_STATUS_CONFIRMED", True, 12),
    ]
    assert (trade["taker_order_id"], trade["trader_side"]) == (placed["orderID"], "TAKER")
    assert [trade["id"]] == placed["tradeIDs"]
    held = (await polymarket.read("/data-api/v2/positions", user=polymarket.ada.wallet))["data"]
    assert [(row["token_id"], row["current_size"], row["entry_cost_usdc"]) for row in held] == [
        (market.tokens[0], 12, 6.84)
    ]
    # 12 shares at .57 and a rate of .04, docs/facts/polymarket.md#fee-figures.
    assert held[0]["entry_fees_usdc"] == 0.11765


async def test_one_of_two_matches_can_fail_on_chain_and_moves_nothing(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    polymarket.world.exchange.next_settlements += ["CONFIRMED", "FAILED"]
    placed = await polymarket.placed(market, "BUY", "0.58", "42")
    assert len(placed["tradeIDs"]) == 2
    await polymarket.pass_s(3)
    states = [trade["status"] for trade in (await polymarket.mine("/data/trades"))["data"]]
    assert states == ["TRADE_STATUS_RETRYING", "TRADE_STATUS_MINED"]
    await polymarket.pass_s(3)
    assert polymarket.ada.shares == {market.tokens[0]: 12}
    assert polymarket.ada.cash == Decimal(1_000) - Decimal("6.84") - Decimal("0.11765")


async def test_both_outcomes_trade_on_one_book(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    # The best NO ask is the mirror of the YES bid of .55.
    placed = await polymarket.placed(market, "BUY", "0.45", "50", index=1)
    assert (placed["status"], placed["makingAmount"]) == ("matched", "22.5")
    assert market.bids == {}
    await polymarket.pass_s(5)
    assert polymarket.ada.shares == {market.tokens[1]: 50}
    rest = await polymarket.placed(market, "SELL", "0.45", "20", index=1)
    assert rest["status"] == "live"
    book = await polymarket.read("/book", token_id=market.tokens[0])
    assert book["bids"] == [{"price": "0.55", "size": "20"}]


async def test_an_order_rests_and_is_filled_behind_who_was_there_first(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market(bids=[("0.49", "100")], asks=[("0.51", "100")], fees=POLITICS)
    placed = await polymarket.placed(market, "BUY", "0.49", "10")
    assert (placed["status"], placed["makingAmount"], placed["tradeIDs"]) == ("live", "", [])
    polymarket.world.set_level(market, "BUY", "0.49", "150")
    polymarket.world.trade(market, "SELL", "100")
    [order] = (await polymarket.mine("/data/orders"))["data"]
    assert (order["id"], order["size_matched"], order["price"]) == (placed["orderID"], "0", "0.49")
    polymarket.world.trade(market, "SELL", "4")
    assert (await polymarket.mine(f"/data/order/{placed['orderID']}"))["size_matched"] == "4"
    polymarket.world.trade(market, "SELL", "20")
    assert (await polymarket.mine("/data/orders"))["data"] == []
    assert (await polymarket.private("GET", f"/data/order/{placed['orderID']}")).status_code == 404
    assert market.bids == {Decimal("0.49"): Decimal(36)}
    await polymarket.pass_s(5)
    # Makers pay no fee, and get their own price.
    assert (polymarket.ada.cash, polymarket.ada.shares) == (Decimal("995.1"), {market.tokens[0]: Decimal(10)})
    assert {row["trader_side"] for row in (await polymarket.mine("/data/trades"))["data"]} == {"MAKER"}


async def test_a_price_that_moves_through_an_order_fills_it_at_its_own_price(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    placed = await polymarket.placed(market, "BUY", "0.5", "10")
    polymarket.world.move_price(market, "0.52")
    assert (await polymarket.mine("/data/orders"))["data"][0]["size_matched"] == "0"
    polymarket.world.move_price(market, "0.4")
    [trade] = (await polymarket.mine("/data/trades"))["data"]
    assert [(row["order_id"], row["price"]) for row in trade["maker_orders"]] == [(placed["orderID"], "0.5")]
    book = await polymarket.read("/book", token_id=market.tokens[0])
    assert (book["bids"], book["asks"]) == ([{"price": "0.39", "size": "100"}], [{"price": "0.41", "size": "100"}])


async def test_two_accounts_trade_with_each_other(polymarket: RawPolymarketClient) -> None:
    market = polymarket.world.add_market(bids=[("0.10", "5")], asks=[("0.90", "5")])
    bob = polymarket.world.give_key(polymarket.world.add_user(OTHER_KEY))
    await polymarket.placed(market, "BUY", "0.5", "10")
    body = polymarket.body(market, "BUY", "0.5", "10", index=1, user=bob, private_key=OTHER_KEY)
    assert (await polymarket.private("POST", "/order", body, user=bob)).json()["status"] == "matched"
    await polymarket.pass_s(5)
    assert (polymarket.ada.shares, bob.shares) == ({market.tokens[0]: Decimal(10)}, {market.tokens[1]: Decimal(10)})
    assert polymarket.ada.cash == bob.cash == 995
    polymarket.world.resolve(market, "0.5")
    assert [polymarket.world.redeem(user, market) for user in (polymarket.ada, bob)] == [5, 5]


async def test_a_taker_is_held_and_cannot_cancel_meanwhile(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket, delay_s=Decimal(3))
    placed = await polymarket.placed(market, "BUY", "0.58", "20")
    assert (placed["status"], placed["tradeIDs"]) == ("delayed", [])
    cancel = await polymarket.private("DELETE", "/order", {"orderID": placed["orderID"]})
    assert (cancel.json()["canceled"], "delayed" in str(cancel.json()["not_canceled"])) == ([], True)
    polymarket.world.set_level(market, "SELL", "0.57", "0")
    await polymarket.pass_s(3)
    [trade] = (await polymarket.mine("/data/trades"))["data"]
    assert (trade["price"], trade["size"]) == ("0.58", "20")
    # An order that takes nothing is not held.
    assert (await polymarket.placed(market, "BUY", "0.3", "20"))["status"] == "live"


async def test_an_order_until_a_date_ends_a_minute_early(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    now = polymarket.world.now_s
    early = await polymarket.post(market, "BUY", "0.3", "10", kind="GTD", expiration=now + 179)
    assert (early.status_code, early.json()["success"], early.json()["errorMsg"]) == (200, False, "invalid expiration")
    await polymarket.placed(market, "BUY", "0.3", "10", kind="GTD", expiration=now + 180)
    await polymarket.pass_s(119)
    assert len((await polymarket.mine("/data/orders"))["data"]) == 1
    await polymarket.pass_s(1)
    assert (await polymarket.mine("/data/orders"))["data"] == []


# Refusals


@pytest.mark.parametrize(
    "row",
    [
        ("BUY", "0.575", "10", {}, "minimum tick size"),
        ("BUY", "1", "10", {}, "invalid price"),
        ("BUY", "0.4", "4.99", {}, "lower than the minimum: 5"),
        ("BUY", "0.4", "10.001", {}, "Invalid order payload"),
        ("BUY", "0.58", "1", {"kind": "FAK", "amounts": (Decimal("0.58"), Decimal(1))}, "min size: $1"),
        ("BUY", "0.57", "12.34", {"kind": "FAK"}, "max accuracy"),
        ("BUY", "0.5", "10", {"kind": "FAK"}, FAK_UNFILLED),
        ("BUY", "0.4", "3000", {}, "the balance is not enough"),
        ("SELL", "0.6", "10", {}, "the balance is not enough"),
        ("BUY", "0.4", "10", {"kind": "FAK", "post_only": True}, "post-only"),
        ("BUY", "0.4", "10", {"kind": "IOC"}, "Invalid order payload"),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_its_reason(
    polymarket: RawPolymarketClient, row: tuple[Any, ...]
) -> None:
    side, price, size, more, words = row
    reply = await polymarket.post(deep(polymarket), side, price, size, **more)
    assert (reply.status_code, words in reply.json()["error"]) == (400, True), reply.text
    assert polymarket.venue.ledger.effects() == []


async def test_some_refusals_come_under_status_200(polymarket: RawPolymarketClient) -> None:
    market, waiting = deep(polymarket), deep(polymarket, accepting=False)

    def reply_fields(reply: httpx.Response) -> tuple[int, bool, str, str]:
        row = reply.json()
        return reply.status_code, row["success"], row["orderID"], row["errorMsg"]

    assert reply_fields(await polymarket.post(market, "BUY", "0.57", "10", post_only=True)) == (
        200,
        False,
        "",
        ORDER_CROSSES_BOOK,
    )
    assert reply_fields(await polymarket.post(market, "BUY", "0.57", "20", kind="FOK")) == (
        200,
        False,
        "",
        FOK_UNFILLED,
    )
    assert reply_fields(await polymarket.post(waiting, "BUY", "0.5", "20")) == (200, False, "", MARKET_NOT_READY)
    polymarket.venue.orders.next_refusals.append("for no reason")
    assert reply_fields(await polymarket.post(market, "BUY", "0.5", "20")) == (200, False, "", "for no reason")
    assert polymarket.venue.ledger.effects() == []
    assert (await polymarket.placed(market, "BUY", "0.5", "20", post_only=True))["status"] == "live"


async def test_the_amounts_rule_can_be_off_as_it_may_be_on_the_real_venue(polymarket: RawPolymarketClient) -> None:
    polymarket.venue.has_amount_rules = False
    assert (await polymarket.placed(deep(polymarket), "BUY", "0.57", "10.34", kind="FAK"))["status"] == "matched"


async def test_the_same_order_is_taken_once(polymarket: RawPolymarketClient) -> None:
    body = polymarket.body(deep(polymarket), "BUY", "0.4", "10")
    first, second = [await polymarket.private("POST", "/order", body) for _ in range(2)]
    assert first.json()["success"] is True
    assert (second.status_code, "Duplicated" in second.text) == (400, True)
    assert [effect.subject for effect in polymarket.venue.ledger.effects("order")] == [first.json()["orderID"]]


async def test_money_in_open_orders_and_unsettled_trades_is_tied_up(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    await polymarket.placed(market, "BUY", "0.4", "1250")
    await polymarket.placed(market, "BUY", "0.57", "12")
    # 1000 - 500 - 6.84 and its fee of .11765
    assert (await polymarket.post(market, "BUY", "0.5", "987")).status_code == 400
    assert (await polymarket.post(market, "BUY", "0.5", "986")).status_code == 200


async def test_a_missing_allowance_is_said_as_such(polymarket: RawPolymarketClient) -> None:
    polymarket.ada.allowance = Decimal(0)
    reply = await polymarket.post(deep(polymarket), "BUY", "0.4", "10")
    assert (reply.status_code, "allowance is not enough" in reply.text) == (400, True)
    asked = {"asset_type": "COLLATERAL", "signature_type": 3}
    reported = await polymarket.mine("/balance-allowance", **asked)
    assert (reported["balance"], set(reported["allowances"].values())) == ("1000000000", {"0"})
    # Under the wrong type of wallet there is nothing.
    assert (await polymarket.mine("/balance-allowance", **{**asked, "signature_type": 0}))["balance"] == "0"


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [("restarting", (425, 425, 425)), ("post_only", (503, 200, 200)), ("cancel_only", (503, 503, 200))],
)
async def test_the_engine_says_when_it_takes_nothing(
    polymarket: RawPolymarketClient, mode: str, statuses: tuple[int, int, int]
) -> None:
    post, post_only, cancel = statuses
    market = deep(polymarket)
    polymarket.venue.mode = mode
    reply = await polymarket.post(market, "BUY", "0.4", "10")
    assert reply.status_code == post
    if mode == "post_only":
        assert reply.json()["code"] == "post_only_mode"
    if mode == "cancel_only":
        assert "cancel-only" in reply.json()["error"]
    assert (await polymarket.post(market, "BUY", "0.4", "10", post_only=True)).status_code == post_only
    assert (await polymarket.private("DELETE", "/cancel-all")).status_code == cancel
    assert (await polymarket.private("GET", "/data/orders")).status_code == 200


async def test_a_blocked_region_is_told_so_in_json_and_the_edge_speaks_html(polymarket: RawPolymarketClient) -> None:
    polymarket.venue.is_blocked = True
    reply = await polymarket.post(deep(polymarket), "BUY", "0.4", "10")
    assert (reply.status_code, "region" in reply.json()["error"]) == (403, True)
    polymarket.venue.is_blocked, polymarket.ada.closed_only = False, True
    reply = await polymarket.post(deep(polymarket), "BUY", "0.4", "10")
    assert (reply.status_code, "closed only" in reply.text) == (400, True)
    assert await polymarket.mine("/auth/ban-status/closed-only") == {"closed_only": True}


# Faults


async def test_a_dropped_answer_leaves_the_order_behind_and_posting_it_again_is_refused(
    polymarket: RawPolymarketClient,
) -> None:
    market = deep(polymarket)
    body = polymarket.body(market, "BUY", "0.57", "12")
    polymarket.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/order")
    with pytest.raises(httpx.TransportError):
        await polymarket.private("POST", "/order", body)
    assert (await polymarket.private("POST", "/order", body)).status_code == 400
    await polymarket.pass_s(5)
    assert len((await polymarket.mine("/data/trades"))["data"]) == 1
    assert polymarket.ada.shares == {market.tokens[0]: 12}
    assert polymarket.venue.ledger.doubled_effects("order", lambda effect: effect.subject) == {}


async def test_a_market_that_closes_in_flight_refuses_and_loses_its_orders(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    placed = await polymarket.placed(market, "BUY", "0.4", "10")
    polymarket.venue.faults.schedule(RequestFault.CLOSING, method="POST", path="/order")
    reply = await polymarket.post(market, "BUY", "0.4", "10")
    assert (reply.status_code, "does not exist" in reply.text) == (400, True)
    assert polymarket.venue.state.orders[placed["orderID"]].status == "CANCELED_MARKET_RESOLVED"
