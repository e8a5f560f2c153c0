"""The socket of the fake Manifold, after docs/facts/manifold.md#socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bot.simulator.faults import SocketFault
from tests.unit.simulator.venues.manifold_client import RawManifoldClient


class SocketClient:
    """A socket that speaks frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._txid = 0

    async def send(self, kind: str, **more: Any) -> Any:
        self._txid += 1
        await self.socket.send(json.dumps({"type": kind, "txid": self._txid, **more}))
        ack = await self.receive()
        assert ack == {"type": "ack", "txid": self._txid, "success": True}
        return ack

    async def receive(self) -> Any:
        return json.loads(await self.socket.recv())

    async def until_ping(self) -> list[Any]:
        """Return all that came before the answer to a ping."""
        self._txid += 1
        await self.socket.send(json.dumps({"type": "ping", "txid": self._txid}))
        found: list[Any] = []
        while (message := await self.receive()).get("txid") != self._txid:
            found.append(message)
        return found


@asynccontextmanager
async def line(manifold: RawManifoldClient) -> AsyncIterator[SocketClient]:
    async with connect(f"{manifold.served.ws_url}/ws", proxy=None) as socket:
        yield SocketClient(socket)


@pytest.mark.parametrize(
    "frame",
    [
        "no json",
        "[]",
        '{"type": "ping"}',
        '{"type": "ping", "txid": "1"}',
        '{"type": "sing", "txid": 1}',
        '{"type": "subscribe", "txid": 1, "topics": "global"}',
    ],
)
async def test_a_frame_that_cannot_be_read_is_answered_without_its_number(
    manifold: RawManifoldClient, frame: str
) -> None:
    async with line(manifold) as here:
        await here.socket.send(frame)
        ack = await here.receive()
        assert (ack["type"], ack["success"], "txid" in ack) == ("ack", False, False)


async def test_a_bet_is_broadcast_on_each_topic_that_fits(manifold: RawManifoldClient) -> None:
    market, other = manifold.world.add_market(), manifold.world.add_market()
    async with line(manifold) as here:
        await here.send("identify", uid="whoever")
        await here.send("subscribe", topics=["global/new-bet", f"contract/{market.id}/new-bet"])
        placed = await manifold.placed(market)
        await manifold.placed(other)
        heard = await here.until_ping()
        assert [message["topic"] for message in heard] == [
            "global/new-bet",
            f"contract/{market.id}/new-bet",
            "global/new-bet",
        ]
        assert all(message["type"] == "broadcast" for message in heard)
        assert heard[0]["data"] == heard[1]["data"]
        [bet] = heard[0]["data"]["bets"]
        assert (bet["id"], bet["userId"]) == (placed["betId"], manifold.ada.id)
        await here.send("unsubscribe", topics=["global/new-bet", f"contract/{market.id}/new-bet"])
        await manifold.placed(market)
        assert await here.until_ping() == []


async def test_orders_balances_and_the_market_are_broadcast_in_the_terms_of_the_database(
    manifold: RawManifoldClient,
) -> None:
    market = manifold.world.add_market()
    topics = [f"contract/{market.id}", f"user/{manifold.ada.id}/orders", f"user/{manifold.ada.id}"]
    async with line(manifold) as here:
        await here.send("subscribe", topics=topics)
        placed = await manifold.placed(market, 40, limitProb=0.4)
        await manifold.post(f"/v0/bet/cancel/{placed['betId']}")
        heard: dict[str, list[Any]] = {}
        for message in await here.until_ping():
            heard.setdefault(message["topic"], []).append(message["data"])
        orders = [order["isCancelled"] for data in heard[topics[1]] for order in data["bets"]]
        assert orders == [False, True]
        raw = heard[topics[0]][0]["contract"]
        assert (raw["prob"], raw["pool"], "probability" in raw) == (0.5, {"YES": 100, "NO": 100}, False)
        assert heard[topics[2]][0]["user"] == {"id": manifold.ada.id, "balance": 1000}


async def test_an_expired_order_is_not_broadcast(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    async with line(manifold) as here:
        await here.send("subscribe", topics=[f"user/{manifold.ada.id}/orders"])
        await manifold.placed(market, 40, limitProb=0.4, expiresMillisAfter=1000)
        assert len(await here.until_ping()) == 1
        await manifold.clock.advance(50.0)
        assert await here.until_ping() == []


async def test_answers_and_resolutions_are_broadcast(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=[("Red", 0.5), ("Blue", 0.3)])
    red = market.answers[0]
    async with line(manifold) as here:
        await here.send(
            "subscribe",
            topics=[f"contract/{market.id}/updated-answers", f"answer/{red.id}/update", f"contract/{market.id}"],
        )
        manifold.world.move_price(market, 0.7, answer=red)
        manifold.world.resolve(market, "YES", answer=red)
        manifold.world.edit(market, description="Clarified.")
        heard = await here.until_ping()
        moved = next(message["data"]["answers"] for message in heard if message["topic"].endswith("updated-answers"))
        assert moved[0]["prob"] == pytest.approx(0.7)
        assert set(moved[0]) == {"id", "poolYes", "poolNo", "prob", "volume"}
        assert [message["data"]["answer"]["resolution"] for message in heard if "answer/" in message["topic"]] == [
            "YES"
        ]


async def test_the_global_topic_has_everything(manifold: RawManifoldClient) -> None:
    async with line(manifold) as here:
        await here.send("subscribe", topics=["global"])
        market = manifold.world.add_market()
        manifold.world.resolve(market, "YES")
        heard = [next(iter(message["data"])) for message in await here.until_ping()]
        assert heard == ["contract", "contract"]


async def test_an_idle_client_is_cut_between_one_and_two_minutes(manifold: RawManifoldClient) -> None:
    async with line(manifold) as idle, line(manifold) as lively:
        await lively.send("ping")
        await manifold.clock.advance(30.0)
        await lively.send("ping")
        await manifold.clock.advance(29.0)
        await lively.send("ping")
        await manifold.clock.advance(31.0)
        await lively.send("ping")
        await manifold.clock.advance(31.0)
        with pytest.raises(ConnectionClosed) as caught:
            await idle.receive()
        assert caught.value.rcvd is None
        await lively.send("ping")


async def test_a_gapping_socket_loses_a_bet(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    async with line(manifold) as here:
        await here.send("subscribe", topics=["global/new-bet"])
        manifold.venue.faults.on_sockets.add(SocketFault.GAPPING)
        first = await manifold.placed(market)
        second = await manifold.placed(market)
        manifold.venue.faults.on_sockets.clear()
        [message] = await here.until_ping()
        assert [bet["id"] for bet in message["data"]["bets"]] == [second["betId"]] != [first["betId"]]
