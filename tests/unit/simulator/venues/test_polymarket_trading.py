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
async def poly() -> AsyncIterator[RawPolymarketClient]:
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
    poly: RawPolymarketClient, row: tuple[str, ...]
) -> None:
    amount, cap, shares, average, fee = row
    market = deep(poly)
    placed = await poly.placed(market, "BUY", cap, "1", kind="FAK", amounts=dollars(amount, cap))
    got, spent = Decimal(placed["takingAmount"]), Decimal(placed["makingAmount"])
    assert (placed["status"], round(got, 4), round(spent / got, 5)) == ("matched", Decimal(shares), Decimal(average))
    await poly.pass_s(10)
    assert poly.ada.cash == 1_000 - spent - Decimal(fee)
    assert poly.ada.shares == {market.tokens[0]: got}


async def test_a_fill_is_of_nobody_until_it_is_confirmed(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    placed = await poly.placed(market, "BUY", "0.57", "12")
    assert (placed["status"], placed["makingAmount"], placed["takingAmount"]) == ("matched", "6.84", "12")
    seen = []
    for seconds in (0, 2, 3):
        await poly.pass_s(seconds)
        [trade] = (await poly.mine("/data/trades"))["data"]
        seen.append((trade["status"], bool(trade["transaction_hash"]), poly.ada.shares.get(market.tokens[0], 0)))
    assert seen == [
        ("TRADE_STATUS_MATCHED", False, 0),
        ("TRADE_STATUS_MINED", True, 0),
        ("TRADE_STATUS_CONFIRMED", True, 12),
    ]
    assert (trade["taker_order_id"], trade["trader_side"]) == (placed["orderID"], "TAKER")
    assert [trade["id"]] == placed["tradeIDs"]
    held = (await poly.read("/data-api/v2/positions", user=poly.ada.wallet))["data"]
    assert [(row["token_id"], row["current_size"], row["entry_cost_usdc"]) for row in held] == [
        (market.tokens[0], 12, 6.84)
    ]
    # 12 shares at .57 and a rate of .04, docs/facts/polymarket.md#fee-figures.
    assert held[0]["entry_fees_usdc"] == 0.11765


async def test_one_of_two_matches_can_fail_on_chain_and_moves_nothing(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    poly.world.exchange.next_settlements += ["CONFIRMED", "FAILED"]
    placed = await poly.placed(market, "BUY", "0.58", "42")
    assert len(placed["tradeIDs"]) == 2
    await poly.pass_s(3)
    states = [trade["status"] for trade in (await poly.mine("/data/trades"))["data"]]
    assert states == ["TRADE_STATUS_RETRYING", "TRADE_STATUS_MINED"]
    await poly.pass_s(3)
    assert poly.ada.shares == {market.tokens[0]: 12}
    assert poly.ada.cash == Decimal(1_000) - Decimal("6.84") - Decimal("0.11765")


async def test_both_outcomes_trade_on_one_book(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    # The best NO ask is the mirror of the YES bid of .55.
    placed = await poly.placed(market, "BUY", "0.45", "50", index=1)
    assert (placed["status"], placed["makingAmount"]) == ("matched", "22.5")
    assert market.bids == {}
    await poly.pass_s(5)
    assert poly.ada.shares == {market.tokens[1]: 50}
    rest = await poly.placed(market, "SELL", "0.45", "20", index=1)
    assert rest["status"] == "live"
    book = await poly.read("/book", token_id=market.tokens[0])
    assert book["bids"] == [{"price": "0.55", "size": "20"}]


async def test_an_order_rests_and_is_filled_behind_who_was_there_first(poly: RawPolymarketClient) -> None:
    market = poly.world.add_market(bids=[("0.49", "100")], asks=[("0.51", "100")], fees=POLITICS)
    placed = await poly.placed(market, "BUY", "0.49", "10")
    assert (placed["status"], placed["makingAmount"], placed["tradeIDs"]) == ("live", "", [])
    poly.world.set_level(market, "BUY", "0.49", "150")
    poly.world.trade(market, "SELL", "100")
    [order] = (await poly.mine("/data/orders"))["data"]
    assert (order["id"], order["size_matched"], order["price"]) == (placed["orderID"], "0", "0.49")
    poly.world.trade(market, "SELL", "4")
    assert (await poly.mine(f"/data/order/{placed['orderID']}"))["size_matched"] == "4"
    poly.world.trade(market, "SELL", "20")
    assert (await poly.mine("/data/orders"))["data"] == []
    assert (await poly.private("GET", f"/data/order/{placed['orderID']}")).status_code == 404
    assert market.bids == {Decimal("0.49"): Decimal(36)}
    await poly.pass_s(5)
    # Makers pay no fee, and get their own price.
    assert (poly.ada.cash, poly.ada.shares) == (Decimal("995.1"), {market.tokens[0]: Decimal(10)})
    assert {row["trader_side"] for row in (await poly.mine("/data/trades"))["data"]} == {"MAKER"}


async def test_a_price_that_moves_through_an_order_fills_it_at_its_own_price(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    placed = await poly.placed(market, "BUY", "0.5", "10")
    poly.world.move_price(market, "0.52")
    assert (await poly.mine("/data/orders"))["data"][0]["size_matched"] == "0"
    poly.world.move_price(market, "0.4")
    [trade] = (await poly.mine("/data/trades"))["data"]
    assert [(row["order_id"], row["price"]) for row in trade["maker_orders"]] == [(placed["orderID"], "0.5")]
    book = await poly.read("/book", token_id=market.tokens[0])
    assert (book["bids"], book["asks"]) == ([{"price": "0.39", "size": "100"}], [{"price": "0.41", "size": "100"}])


async def test_two_accounts_trade_with_each_other(poly: RawPolymarketClient) -> None:
    market = poly.world.add_market(bids=[("0.10", "5")], asks=[("0.90", "5")])
    bob = poly.world.give_key(poly.world.add_user(OTHER_KEY))
    await poly.placed(market, "BUY", "0.5", "10")
    body = poly.body(market, "BUY", "0.5", "10", index=1, user=bob, private_key=OTHER_KEY)
    assert (await poly.private("POST", "/order", body, user=bob)).json()["status"] == "matched"
    await poly.pass_s(5)
    assert (poly.ada.shares, bob.shares) == ({market.tokens[0]: Decimal(10)}, {market.tokens[1]: Decimal(10)})
    assert poly.ada.cash == bob.cash == 995
    poly.world.resolve(market, "0.5")
    assert [poly.world.redeem(user, market) for user in (poly.ada, bob)] == [5, 5]


async def test_a_taker_is_held_and_cannot_cancel_meanwhile(poly: RawPolymarketClient) -> None:
    market = deep(poly, delay_s=Decimal(3))
    placed = await poly.placed(market, "BUY", "0.58", "20")
    assert (placed["status"], placed["tradeIDs"]) == ("delayed", [])
    cancel = await poly.private("DELETE", "/order", {"orderID": placed["orderID"]})
    assert (cancel.json()["canceled"], "delayed" in str(cancel.json()["not_canceled"])) == ([], True)
    poly.world.set_level(market, "SELL", "0.57", "0")
    await poly.pass_s(3)
    [trade] = (await poly.mine("/data/trades"))["data"]
    assert (trade["price"], trade["size"]) == ("0.58", "20")
    # An order that takes nothing is not held.
    assert (await poly.placed(market, "BUY", "0.3", "20"))["status"] == "live"


async def test_an_order_until_a_date_ends_a_minute_early(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    now = poly.world.now_s
    early = await poly.post(market, "BUY", "0.3", "10", kind="GTD", expiration=now + 179)
    assert (early.status_code, early.json()["success"], early.json()["errorMsg"]) == (200, False, "invalid expiration")
    await poly.placed(market, "BUY", "0.3", "10", kind="GTD", expiration=now + 180)
    await poly.pass_s(119)
    assert len((await poly.mine("/data/orders"))["data"]) == 1
    await poly.pass_s(1)
    assert (await poly.mine("/data/orders"))["data"] == []


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
async def test_what_breaks_a_rule_is_refused_with_its_reason(poly: RawPolymarketClient, row: tuple[Any, ...]) -> None:
    side, price, size, more, words = row
    reply = await poly.post(deep(poly), side, price, size, **more)
    assert (reply.status_code, words in reply.json()["error"]) == (400, True), reply.text
    assert poly.venue.ledger.effects() == []


async def test_some_refusals_come_under_status_200(poly: RawPolymarketClient) -> None:
    market, waiting = deep(poly), deep(poly, accepting=False)

    def told(reply: httpx.Response) -> tuple[int, bool, str, str]:
        row = reply.json()
        return reply.status_code, row["success"], row["orderID"], row["errorMsg"]

    assert told(await poly.post(market, "BUY", "0.57", "10", post_only=True)) == (200, False, "", ORDER_CROSSES_BOOK)
    assert told(await poly.post(market, "BUY", "0.57", "20", kind="FOK")) == (200, False, "", FOK_UNFILLED)
    assert told(await poly.post(waiting, "BUY", "0.5", "20")) == (200, False, "", MARKET_NOT_READY)
    poly.venue.orders.next_refusals.append("for no reason")
    assert told(await poly.post(market, "BUY", "0.5", "20")) == (200, False, "", "for no reason")
    assert poly.venue.ledger.effects() == []
    assert (await poly.placed(market, "BUY", "0.5", "20", post_only=True))["status"] == "live"


async def test_the_amounts_rule_can_be_off_as_it_may_be_on_the_real_venue(poly: RawPolymarketClient) -> None:
    poly.venue.has_amount_rules = False
    assert (await poly.placed(deep(poly), "BUY", "0.57", "10.34", kind="FAK"))["status"] == "matched"


async def test_the_same_order_is_taken_once(poly: RawPolymarketClient) -> None:
    body = poly.body(deep(poly), "BUY", "0.4", "10")
    first, second = [await poly.private("POST", "/order", body) for _ in range(2)]
    assert first.json()["success"] is True
    assert (second.status_code, "Duplicated" in second.text) == (400, True)
    assert [effect.subject for effect in poly.venue.ledger.effects("order")] == [first.json()["orderID"]]


async def test_money_in_open_orders_and_unsettled_trades_is_tied_up(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    await poly.placed(market, "BUY", "0.4", "1250")
    await poly.placed(market, "BUY", "0.57", "12")
    # 1000 - 500 - 6.84 and its fee of .11765
    assert (await poly.post(market, "BUY", "0.5", "987")).status_code == 400
    assert (await poly.post(market, "BUY", "0.5", "986")).status_code == 200


async def test_a_missing_allowance_is_said_as_such(poly: RawPolymarketClient) -> None:
    poly.ada.allowance = Decimal(0)
    reply = await poly.post(deep(poly), "BUY", "0.4", "10")
    assert (reply.status_code, "allowance is not enough" in reply.text) == (400, True)
    asked = {"asset_type": "COLLATERAL", "signature_type": 3}
    told = await poly.mine("/balance-allowance", **asked)
    assert (told["balance"], set(told["allowances"].values())) == ("1000000000", {"0"})
    # Under the wrong type of wallet there is nothing.
    assert (await poly.mine("/balance-allowance", **{**asked, "signature_type": 0}))["balance"] == "0"


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [("restarting", (425, 425, 425)), ("post_only", (503, 200, 200)), ("cancel_only", (503, 503, 200))],
)
async def test_the_engine_says_when_it_takes_nothing(
    poly: RawPolymarketClient, mode: str, statuses: tuple[int, int, int]
) -> None:
    post, post_only, cancel = statuses
    market = deep(poly)
    poly.venue.mode = mode
    reply = await poly.post(market, "BUY", "0.4", "10")
    assert reply.status_code == post
    if mode == "post_only":
        assert reply.json()["code"] == "post_only_mode"
    if mode == "cancel_only":
        assert "cancel-only" in reply.json()["error"]
    assert (await poly.post(market, "BUY", "0.4", "10", post_only=True)).status_code == post_only
    assert (await poly.private("DELETE", "/cancel-all")).status_code == cancel
    assert (await poly.private("GET", "/data/orders")).status_code == 200


async def test_a_blocked_region_is_told_so_in_json_and_the_edge_speaks_html(poly: RawPolymarketClient) -> None:
    poly.venue.is_blocked = True
    reply = await poly.post(deep(poly), "BUY", "0.4", "10")
    assert (reply.status_code, "region" in reply.json()["error"]) == (403, True)
    poly.venue.is_blocked, poly.ada.closed_only = False, True
    reply = await poly.post(deep(poly), "BUY", "0.4", "10")
    assert (reply.status_code, "closed only" in reply.text) == (400, True)
    assert await poly.mine("/auth/ban-status/closed-only") == {"closed_only": True}


# Faults


async def test_a_dropped_answer_leaves_the_order_behind_and_posting_it_again_is_refused(
    poly: RawPolymarketClient,
) -> None:
    market = deep(poly)
    body = poly.body(market, "BUY", "0.57", "12")
    poly.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/order")
    with pytest.raises(httpx.TransportError):
        await poly.private("POST", "/order", body)
    assert (await poly.private("POST", "/order", body)).status_code == 400
    await poly.pass_s(5)
    assert len((await poly.mine("/data/trades"))["data"]) == 1
    assert poly.ada.shares == {market.tokens[0]: 12}
    assert poly.venue.ledger.doubled_effects("order", lambda effect: effect.subject) == {}


async def test_a_market_that_closes_in_flight_refuses_and_loses_its_orders(poly: RawPolymarketClient) -> None:
    market = deep(poly)
    placed = await poly.placed(market, "BUY", "0.4", "10")
    poly.venue.faults.schedule(RequestFault.CLOSING, method="POST", path="/order")
    reply = await poly.post(market, "BUY", "0.4", "10")
    assert (reply.status_code, "does not exist" in reply.text) == (400, True)
    assert poly.venue.state.orders[placed["orderID"]].status == "CANCELED_MARKET_RESOLVED"
