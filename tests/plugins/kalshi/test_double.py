"""The signed half of the double refuses what docs/facts/kalshi.md says that the venue refuses, each with its code."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.testing.loopback_server import ReceivedRequest
from plugins.kalshi.signing import KalshiSigner
from tests.plugins.kalshi.fake_account import ORDERS
from tests.plugins.kalshi.writer_fixture import A, WriterFixture, open_writer_fixture

BODY = {
    "ticker": A,
    "side": "bid",
    "count": "12.00",
    "price": "0.5700",
    "time_in_force": "immediate_or_cancel",
    "self_trade_prevention_type": "taker_at_cross",
    "client_order_id": "00000000-0000-4000-8000-0000000000aa",
}


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


def ask(live: WriterFixture, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """Send one signed request; return its status and what the error names."""
    signer = KalshiSigner(live.kalshi.settings, live.kalshi.clock)
    signed = {name.lower(): value for name, value in signer.headers(method, f"http://x{path}").items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {**signed, "content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    answer = live.account.answer(ReceivedRequest(method=method, path=path, headers=sent, body=content))
    assert answer is not None
    fields = json.loads(answer.body)
    error = fields.get("error", fields)
    error = {"msg": error} if isinstance(error, str) else error
    return answer.status, str(error.get("details", error.get("code", error.get("msg", ""))))


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, 201, ""),
        ({"count": 12}, 400, "cannot unmarshal"),
        ({"price": 0.57}, 400, "cannot unmarshal"),
        ({"post_only": "true"}, 400, "cannot unmarshal"),
        ({"type": "limit"}, 400, "cannot unmarshal"),
        ({"order_group_id": "g"}, 400, "cannot unmarshal"),
        ({"client_order_id": "a.b"}, 400, "invalid_parameters"),
        ({"client_order_id": "a" * 65}, 400, "invalid_parameters"),
        ({"ticker": "KXNONE-1-A"}, 404, "not_found"),
        ({"count": "0.00"}, 400, "invalid_order"),
        ({"count": "1.001"}, 400, "invalid_order"),
        ({"side": "yes"}, 400, "invalid_order"),
        ({"self_trade_prevention_type": "none"}, 400, "invalid_order"),
        ({"expiration_time": 1}, 400, "invalid_order"),
        ({"price": "0.5750"}, 400, "invalid_price"),
        ({"price": "0.0000"}, 400, "invalid_price"),
        ({"price": "1.0000"}, 400, "invalid_price"),
        ({"price": "5.7e-1"}, 400, "invalid_price"),
    ],
    ids=str,
)
async def test_an_order_is_refused_by_the_documented_code(
    live: WriterFixture, changes: dict[str, Any], status: int, words: str
) -> None:
    answer = ask(live, "POST", ORDERS, {**BODY, **changes})
    assert answer[0] == status
    assert words in answer[1]
    assert len(live.account.orders) == (status == 201)


@pytest.mark.parametrize("signature", ["", "not base64!", "AAAA"])
async def test_a_malformed_signature_is_refused(live: WriterFixture, signature: str) -> None:
    status, why = ask(live, "GET", "/trade-api/v2/portfolio/balance", kalshi_access_signature=signature)
    assert (status, why) == (401, "INCORRECT_API_KEY_SIGNATURE" if signature else "signature_is_missing_from_headers")


async def test_a_market_takes_the_prices_of_its_own_ranges(live: WriterFixture) -> None:
    live.kalshi.venue.change_market(A, price_ranges=[{"start": "0.0000", "end": "1.0000", "step": "0.0050"}])
    assert ask(live, "POST", ORDERS, {**BODY, "price": "0.5750"})[0] == 201


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"close_time": "2025-12-31T00:00:00Z"}, "MARKET_INACTIVE"), ({"status": "inactive"}, "MARKET_INACTIVE")],
)
async def test_a_market_that_is_closed_takes_nothing(live: WriterFixture, changes: Any, code: str) -> None:
    live.kalshi.venue.change_market(A, **changes)
    assert ask(live, "POST", ORDERS, BODY) == (409, code)


async def test_a_pause_of_the_exchange_also_refuses_to_cancel(live: WriterFixture) -> None:
    name = live.account.rest_order(A, "5.00", "0.40")
    live.account.is_exchange_paused = True
    assert ask(live, "POST", ORDERS, BODY) == (409, "exchange_is_paused")
    assert ask(live, "DELETE", f"{ORDERS}/{name}?market_ticker={A}") == (409, "exchange_is_paused")


async def test_only_money_on_the_shard_of_the_market_counts(live: WriterFixture) -> None:
    live.kalshi.venue.change_market(A, exchange_index=3)
    assert ask(live, "POST", ORDERS, BODY) == (400, "insufficient_balance")


async def test_what_is_no_json_and_what_no_list_knows_is_refused(live: WriterFixture) -> None:
    assert ask(live, "POST", ORDERS, b"{")[0] == 400
    for query in ("limit=1001", "limit=x", "client_order_id=1"):
        assert ask(live, "GET", f"/trade-api/v2/portfolio/orders?{query}")[0] == 400


RESTING = {**BODY, "time_in_force": "good_till_canceled", "post_only": True, "price": "0.5600"}


def numbered(number: int, **changes: Any) -> dict[str, Any]:
    return {**RESTING, "client_order_id": f"00000000-0000-4000-8000-{number:012d}", **changes}


async def test_an_order_that_rests_is_open_until_it_is_cancelled(live: WriterFixture) -> None:
    assert ask(live, "POST", ORDERS, numbered(1))[0] == 201
    [order] = live.account.orders
    assert (order["status"], order["remaining_count_fp"], order["fill_count_fp"]) == ("resting", "12.00", "0.00")
    # Twelve are offered at 0.57; the rest of 20 stays.
    assert ask(live, "POST", ORDERS, numbered(2, post_only=False, price="0.5700", count="20.00"))[0] == 201
    assert [live.account.orders[1][name] for name in ("fill_count_fp", "remaining_count_fp")] == ["12.00", "8.00"]
    assert ask(live, "DELETE", f"{ORDERS}/order-0?market_ticker={A}")[0] == 200
    assert ask(live, "DELETE", f"{ORDERS}/order-0?market_ticker={A}")[0] == 404
    assert [one["status"] for one in live.account.orders] == ["canceled", "resting"]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"price": "0.5700"}, 400, "post only cross"),
        ({"expiration_time": 1}, 400, "invalid_order"),
        ({"expiration_time": 4102444800}, 201, ""),
        ({"time_in_force": "immediate_or_cancel", "expiration_time": 4102444800}, 400, "invalid_order"),
        ({"time_in_force": "fill_or_kill", "post_only": False, "price": "0.5700"}, 201, ""),
        (
            {"time_in_force": "fill_or_kill", "post_only": False, "price": "0.5700", "count": "12.01"},
            409,
            "fill_or_kill_insufficient_resting_volume",
        ),
    ],
    ids=str,
)
async def test_each_kind_of_order_is_held_to_its_terms(
    live: WriterFixture, changes: dict[str, Any], status: int, words: str
) -> None:
    found = ask(live, "POST", ORDERS, numbered(1, **changes))
    assert found[0] == status
    assert words in found[1]
    assert len(live.account.fills) == (status == 201 and changes.get("time_in_force") == "fill_or_kill")
    if words.startswith("fill_or_kill"):
        assert ask(live, "POST", ORDERS, numbered(1)) == (409, "order_already_exists")


@pytest.mark.parametrize("kind", ["taker_at_cross", "maker"])
async def test_an_account_never_trades_with_itself(live: WriterFixture, kind: str) -> None:
    ask(live, "POST", ORDERS, numbered(1, side="ask", price="0.5600", count="5.00"))
    crossing = numbered(2, post_only=False, price="0.5700", time_in_force="immediate_or_cancel")
    assert ask(live, "POST", ORDERS, {**crossing, "self_trade_prevention_type": kind})[0] == 201
    resting, new = live.account.orders
    expected = ("resting", "0.00") if kind == "taker_at_cross" else ("canceled", "12.00")
    assert (resting["status"], new["fill_count_fp"]) == expected


async def test_cancelling_all_also_takes_the_orders_of_the_next_minute(live: WriterFixture) -> None:
    ask(live, "POST", ORDERS, numbered(1))
    assert ask(live, "DELETE", ORDERS)[0] == 200
    ask(live, "POST", ORDERS, numbered(2))
    live.kalshi.clock.advance_without_waking(61)
    ask(live, "POST", ORDERS, numbered(3))
    assert [one["status"] for one in live.account.orders] == ["canceled", "canceled", "resting"]


async def test_tokens_are_counted_for_reads_and_writes_apart_and_come_back_by_the_second(live: WriterFixture) -> None:
    live.account.is_limited = True
    path = "/trade-api/v2/portfolio/balance"
    assert [ask(live, "GET", path)[0] for _ in range(21)] == [200] * 20 + [429]
    assert [ask(live, "POST", ORDERS, numbered(n))[0] for n in range(11)] == [201] * 10 + [429]
    live.kalshi.clock.advance_without_waking(0.1)
    assert ask(live, "GET", path)[0] == 200
    assert [ask(live, "DELETE", f"{ORDERS}/none")[0] for _ in range(6)] == [404] * 5 + [429]
