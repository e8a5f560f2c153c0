"""A list of the account is read to its end or not at all: what is missing would look like a loss, or like free cash."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from bot.api import MalformedDataError
from bot.testing.answering_client import AnsweringClient
from bot.testing.clock import FakeClock
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.api_replies import limit_bet

MARKETS, ANSWERS = 11_000, ("a", "b", None)


class PositionServer:
    """Serves the positions in many markets with two answers each, by page.

    The venue's page of API counts ``unit``: markets, or rows, which are one for each answer and one with their sums.
    """

    def __init__(self, unit: str, *, ignores_offset: bool = False) -> None:
        self.unit, self.ignores_offset, self.requests = unit, ignores_offset, 0
        self.rows = [(f"m{number}", answer) for number in range(MARKETS) for answer in ANSWERS]

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        self.requests += 1
        asked = dict(parse_qsl(urlsplit(request.path).query))
        first = 0 if self.ignores_offset else int(asked.get("offset", "0"))
        last = first + int(asked["limit"])
        rows = self.rows[first:last]
        if self.unit == "markets":
            rows = self.rows[first * len(ANSWERS) : last * len(ANSWERS)]
        return ScriptedResponse(body=json.dumps(_metrics_body(rows)).encode())


def _metrics_body(rows: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
    by_market: dict[str, list[dict[str, Any]]] = {}
    for market, answer in rows:
        by_market.setdefault(market, []).append({"answerId": answer, "totalShares": {"YES": 1.0}})
    return {"metricsByContract": by_market, "contracts": [{"id": market, "isResolved": False} for market in by_market]}


def client_of(server: AnsweringClient) -> ManifoldClient:
    return ManifoldClient(ManifoldSettings(), server, FakeClock())


@pytest.mark.parametrize("unit", ["markets", "rows"])
async def test_all_positions_are_read_whatever_a_page_counts(unit: str) -> None:
    server = PositionServer(unit)
    found = await client_of(AnsweringClient(server.answer)).positions("ada")
    assert found.rows.keys() == {(market, answer or "") for market, answer in server.rows}
    assert found.contracts.keys() == {market for market, _ in server.rows}


async def test_positions_that_fit_into_one_page_take_one_request() -> None:
    server = PositionServer("markets")
    server.rows = server.rows[: 300 * len(ANSWERS)]
    found = await client_of(AnsweringClient(server.answer)).positions("ada")
    assert len(found.contracts) == 300
    assert server.requests == 1


async def test_positions_that_have_no_end_are_refused() -> None:
    server = PositionServer("markets", ignores_offset=True)
    with pytest.raises(MalformedDataError, match="no end"):
        await client_of(AnsweringClient(server.answer)).positions("ada")
    assert server.requests <= 3


@pytest.mark.parametrize("market", [None, "m1"])
async def test_a_full_page_of_orders_is_refused(market: str | None) -> None:
    """The server sends the newest 10,000 at most, whatever is asked."""
    orders = [limit_bet(f"b{number}", "YES", 0.4) for number in range(10_000)]
    client = client_of(AnsweringClient(lambda _: ScriptedResponse(body=json.dumps(orders).encode())))
    with pytest.raises(MalformedDataError, match="10000 rows"):
        await (client.own_orders("ada") if market is None else client.orders(market))
    orders.pop()
    assert len(await client.own_orders("ada", market)) == 9_999


async def test_an_own_order_that_is_no_object_is_an_error() -> None:
    client = client_of(AnsweringClient(lambda _: ScriptedResponse(body=b'["b1"]')))
    with pytest.raises(MalformedDataError):
        await client.own_orders("ada")
