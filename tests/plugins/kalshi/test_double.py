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
