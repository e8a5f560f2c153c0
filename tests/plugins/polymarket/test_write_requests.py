"""Amounts, signatures of private requests, fences and fills: the arithmetic of orders."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polymarket._internal.hmac import build_hmac_signature

from bot.api import (
    AuthenticationError,
    BinaryPrediction,
    ContractSide,
    Intent,
    IntentAction,
    MalformedDataError,
    OrderSide,
    QuestionRef,
)
from plugins.polymarket.exchange_session import sign_hmac
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_terms import PolymarketOrderTerms, PolymarketOrderType
from plugins.polymarket.signer_client import SignedOrder, UnsignedOrder
from plugins.polymarket.write_requests import (
    build_unsigned_order,
    confirmed_fills,
    is_too_late,
    order_end,
    parse_matches,
    request_body,
    request_time,
    seal_signed_order,
)

NOW = datetime(2026, 11, 22, 8, 0, 0, 250_000, tzinfo=UTC)
MARKET = "0x" + "ab" * 32
WALLET = "0x" + "D0" * 20
OURS, THEIRS = "0x" + "01" * 32, "0x" + "02" * 32
INTENT = Intent(
    id="i1",
    account="default",
    ref=QuestionRef("polymarket", MARKET),
    forecast="f1",
    action=IntentAction.ORDER,
    predictions={"outcome": BinaryPrediction(0.7)},
    batch="i1",
)


def terms(price: str = "0.57", size: str = "12.34", **more: Any) -> PolymarketOrderTerms:
    given = {"leg": ContractSide.YES, "side": OrderSide.BUY, "type": PolymarketOrderType.FAK, "lifetime": timedelta()}
    return PolymarketOrderTerms(
        contract=PolymarketContract(market=MARKET, yes="11", no="22", version="v1"),
        price=Decimal(price),
        size=Decimal(size),
        tick=Decimal("0.0001"),
        mid=Decimal("0.5"),
        book={},
        **{**given, **more},
    )


def resting(**more: Any) -> PolymarketOrderTerms:
    return terms(type=PolymarketOrderType.GTD, lifetime=timedelta(seconds=600), **more)


def signed(asked: UnsignedOrder, **odd: Any) -> SignedOrder:
    order: dict[str, Any] = {
        "tokenId": asked.token,
        "side": asked.side,
        "makerAmount": str(asked.maker_amount),
        "takerAmount": str(asked.taker_amount),
        "timestamp": str(asked.timestamp_ms),
        "expiration": str(asked.expiration),
        "salt": asked.salt,
        "maker": WALLET,
        "signature": "0x00",
    }
    return SignedOrder(hash=OURS, order={**order, **odd})


# docs/facts/polymarket.md#amounts.
@pytest.mark.parametrize(
    ("price", "dollars"),
    [
        ("0.5", 6_170_000),
        ("0.57", 7_033_800),
        ("0.575", 7_095_500),
        ("0.5725", 7_064_650),
        ("0.573", 7_070_820),
        ("0.5731", 7_072_054),
    ],
)
def test_golden_vectors_of_amounts(price: str, dollars: int) -> None:
    bought = build_unsigned_order(INTENT, terms(price), now=NOW)
    assert (bought.side, bought.maker_amount, bought.taker_amount) == ("BUY", dollars, 12_340_000)
    sold = build_unsigned_order(INTENT, terms(price, side=OrderSide.SELL), now=NOW)
    assert (sold.side, sold.maker_amount, sold.taker_amount) == ("SELL", 12_340_000, dollars)


@given(st.integers(1, 9_999), st.integers(1, 10_000_000))
def test_amounts_imply_the_price_exactly(price: int, size: int) -> None:
    asked = build_unsigned_order(INTENT, terms(str(Decimal(price) / 10_000), str(Decimal(size) / 100)), now=NOW)
    assert asked.maker_amount * 10_000 == asked.taker_amount * price


def test_an_amount_that_is_finer_than_the_venue_counts_is_none() -> None:
    with pytest.raises(MalformedDataError, match="finer than the venue's units"):
        build_unsigned_order(INTENT, terms("0.5731", "0.001"), now=NOW)


# docs/facts/polymarket.md#hmac-figures.
@pytest.mark.parametrize(
    ("request_", "signature"),
    [
        ("GET/data/orders", "3zNsaZg0kLjo8hyPaykegefftGkM--5Rq-xvxzP6TBg="),
        ('POST/order{"a":1}', "M19wYe6IPU8vH1TZYJw1aFgDvUDxZvhazLbfB3mLQYQ="),
        ('DELETE/order{"orderID":"0xabc"}', "JBhQpEZ622YwQumBUgsmfojd8Pc8kiSAaxqg96fbEsI="),
    ],
)
def test_golden_vectors_of_private_requests(request_: str, signature: str) -> None:
    assert sign_hmac("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", f"1763700000{request_}") == signature


@given(st.binary(min_size=1, max_size=64), st.text(max_size=50))
def test_private_requests_are_signed_as_the_venues_client_signs_them(secret: bytes, body: str) -> None:
    import base64

    text = base64.urlsafe_b64encode(secret).decode()
    theirs = build_hmac_signature(secret=text, timestamp=7, method="POST", path="/order", body=body)
    assert sign_hmac(text, f"7POST/order{body}") == theirs
    assert sign_hmac(text.rstrip("="), f"7POST/order{body}") == theirs


def test_a_secret_that_is_none_is_named_and_not_shown() -> None:
    with pytest.raises(AuthenticationError, match="api_secret") as caught:
        sign_hmac("abcde", "")
    assert "abcde" not in str(caught.value)


def test_made_twice_at_once_it_is_one_order_and_later_another() -> None:
    first, again = (build_unsigned_order(INTENT, resting(), now=NOW) for _ in range(2))
    assert first == again
    assert build_unsigned_order(INTENT, resting(), now=NOW + timedelta(milliseconds=1)).salt != first.salt
    assert first.salt < 2**53


def test_pm_s5_an_order_that_rests_ends_and_its_fence_is_after_its_end() -> None:
    asked = build_unsigned_order(INTENT, resting(), now=NOW)
    # In whole seconds, rounded up: 08:00:00.25 and 600 s.
    assert asked.expiration == int(datetime(2026, 11, 22, 8, 10, 1, tzinfo=UTC).timestamp())
    sealed = seal_signed_order(INTENT, asked, signed(asked), wallet=WALLET.lower())
    assert sealed.fence == datetime(2026, 11, 22, 8, 11, 1, tzinfo=UTC)
    body = json.loads(sealed.body)
    assert (body["orderType"], body["postOnly"], body["deferExec"]) == ("GTD", True, False)
    # The venue takes none that ends in less than three minutes, and one may wait for its turn.
    assert not is_too_late(sealed, datetime(2026, 11, 22, 8, 6, 15, tzinfo=UTC))
    assert is_too_late(sealed, datetime(2026, 11, 22, 8, 6, 16, tzinfo=UTC))


def test_an_order_without_an_end_is_sent_soon_or_not_at_all() -> None:
    asked = build_unsigned_order(INTENT, terms(), now=NOW)
    sealed = seal_signed_order(INTENT, asked, signed(asked), wallet=WALLET)
    assert "postOnly" not in json.loads(sealed.body)
    assert request_time(sealed) == NOW
    assert not is_too_late(sealed, NOW + timedelta(seconds=29.9))
    assert is_too_late(sealed, NOW + timedelta(seconds=30))
    assert sealed.fence is not None
    # Sent at the last moment, on the wire as long as it may be, and a minute for lists that lag behind.
    assert sealed.fence - NOW == timedelta(seconds=30 + 45 + 60)


def test_the_owner_is_on_the_wire_and_not_on_record() -> None:
    asked = build_unsigned_order(INTENT, terms(), now=NOW)
    sealed = seal_signed_order(INTENT, asked, signed(asked), wallet=WALLET)
    assert "owner" not in sealed.body
    assert json.loads(request_body(sealed, "key-1")) == {**json.loads(sealed.body), "owner": "key-1"}


@pytest.mark.parametrize("odd", [{"makerAmount": "1"}, {"tokenId": "12"}, {"salt": 1}, {"maker": "0x" + "11" * 20}])
def test_a_signer_that_signs_something_else_is_not_believed(odd: dict[str, Any]) -> None:
    asked = build_unsigned_order(INTENT, terms(), now=NOW)
    with pytest.raises(MalformedDataError, match="another order"):
        seal_signed_order(INTENT, asked, signed(asked, **odd), wallet=WALLET)


def trade(**more: Any) -> dict[str, Any]:
    given = {
        "id": "t1",
        "taker_order_id": OURS,
        "market": MARKET.upper(),
        "asset_id": "11",
        "side": "BUY",
        "size": "42",
        "price": "0.58",
        "status": "TRADE_STATUS_CONFIRMED",
        "match_time": "1763798400",
        "trader_side": "TAKER",
        "maker_orders": [],
    }
    return {**given, **more}


def maker(size: str, price: str, asset: str = "11", **more: Any) -> dict[str, Any]:
    given = {"order_id": THEIRS, "maker_address": "0x1", "matched_amount": size, "price": price, "asset_id": asset}
    return {**given, "side": "SELL", **more}


FEES = TakerFees(rate=Decimal("0.04"))


def test_a_taker_pays_its_fee_on_each_level_and_opposite_tokens_are_turned_round() -> None:
    # See docs/facts/polymarket.md#fill-figures: 12 at .57 and 30 at .58, the second minted with a buyer of NO at .42.
    row = trade(maker_orders=[maker("12", "0.57"), maker("30", "0.42", "22")])
    (part,) = parse_matches(row, WALLET)
    assert part.levels == ((Decimal("0.57"), Decimal(12)), (Decimal("0.58"), Decimal(30)))
    (fill,) = confirmed_fills([part], FEES)
    # 12 x .04 x .57 x .43 = .117648, 30 x .04 x .58 x .42 = .29232.
    assert fill.fee == pytest.approx(0.11765 + 0.29232, abs=1e-9)
    assert fill.cash == pytest.approx(-(12 * 0.57 + 30 * 0.58) - fill.fee, abs=1e-9)
    assert (fill.shares, fill.reference) == (42.0, "t1")
    assert fill.price == pytest.approx(24.24 / 42, abs=1e-9)


def test_where_levels_do_not_add_up_the_trades_own_price_counts() -> None:
    (part,) = parse_matches(trade(maker_orders=[maker("12", "0.57")]), WALLET)
    assert part.levels == ((Decimal("0.58"), Decimal(42)),)


@pytest.mark.parametrize("odd", [{"price": None}, {"matched_amount": None}, {"price": None, "matched_amount": None}])
def test_a_maker_without_price_or_size_leaves_the_trades_own_price(odd: dict[str, Any]) -> None:
    rows = [maker("12", "0.57"), {**maker("30", "0.55"), **odd}]
    (part,) = parse_matches(trade(maker_orders=rows), WALLET)
    assert part.levels == ((Decimal("0.58"), Decimal(42)),)


def test_a_maker_of_whom_nothing_was_taken_is_no_level() -> None:
    rows = [maker("0.01", "0.57"), maker("0", "0.01"), maker("41.99", "0.58")]
    (part,) = parse_matches(trade(maker_orders=rows), WALLET)
    assert part.levels == ((Decimal("0.57"), Decimal("0.01")), (Decimal("0.58"), Decimal("41.99")))


@pytest.mark.parametrize(("expiration", "end"), [("0", None), (None, None), ("1763798400", 1763798340)])
def test_the_venue_ends_an_order_a_minute_before_its_expiry(expiration: str | None, end: int | None) -> None:
    found = order_end({"expiration": expiration})
    assert found == (None if end is None else datetime.fromtimestamp(end, UTC))


def test_a_maker_pays_nothing_and_is_found_in_the_trade_of_another() -> None:
    mine = maker("7", "0.42", "22", order_id=OURS, maker_address=WALLET.lower(), side="BUY")
    (part,) = parse_matches(
        trade(trader_side="MAKER", taker_order_id=THEIRS, maker_orders=[maker("35", "0.58"), mine]), WALLET
    )
    (fill,) = confirmed_fills([part], FEES)
    assert (part.order, part.token, part.is_taker) == (OURS, "22", False)
    assert (fill.shares, fill.price, fill.fee) == (7.0, 0.42, 0.0)
    assert fill.cash == pytest.approx(-2.94)


def test_a_sale_brings_what_is_left_after_the_fee() -> None:
    (part,) = parse_matches(trade(side="SELL"), WALLET)
    (fill,) = confirmed_fills([part], FEES)
    assert fill.cash == pytest.approx(42 * 0.58 - float(FEES.fee_for(Decimal("0.58"), Decimal(42))))


@pytest.mark.parametrize("status", ["MATCHED", "TRADE_STATUS_MINED", "RETRYING", "FAILED", "NEW_STATE"])
def test_pm_s9_only_a_confirmed_trade_is_a_fill(status: str) -> None:
    parts = parse_matches(trade(status=status), WALLET)
    assert confirmed_fills(parts, FEES) == ()
    assert [part.is_final for part in parts] == [status == "FAILED"]


def test_a_trade_that_is_listed_twice_is_one_fill() -> None:
    assert len(confirmed_fills([*parse_matches(trade(), WALLET), *parse_matches(trade(), WALLET)], FEES)) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"id": ""},
        {"asset_id": None},
        {"match_time": "soon"},
        {"status": ""},
        {"side": "HOLD"},
        {"size": "0"},
        {"price": "x"},
    ],
)
def test_a_trade_that_cannot_be_read_is_not_passed_over(odd: dict[str, Any]) -> None:
    with pytest.raises(MalformedDataError, match="trade"):
        parse_matches(trade(**odd), WALLET)
