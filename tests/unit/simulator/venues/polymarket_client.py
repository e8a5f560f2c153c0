"""A fake Polymarket on a real port, and a client with a wallet, money and an API key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import httpx
import pytest

from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule, FakePolymarketMarket, FakePolymarketUser
from bot.testing.clock import FakeClock

# Nobody's key.
KEY = "0x" + "17" * 32
OTHER_KEY = "0x" + "23" * 32
CONTRACTS = {
    "standard": ("2", "0xE111180000d2663C0091e4f400237545B87B996B"),
    "neg risk": ("2", "0xe2222d279d744050d28e00520010520000310F59"),
    "v2": ("3", "0xe3333700cA9d93003F00f0F71f8515005F6c00Aa"),
}
ZERO = "0x" + "00" * 32
# The book of docs/facts/polymarket.md#fill-figures.
ASKS = [("0.57", "12"), ("0.58", "30"), ("0.60", "100"), ("0.99", "9000")]
POLITICS = FakeFeeSchedule(rate=Decimal("0.04"))


class RawPolymarketClient:
    """``ada`` has 1000 dollars in a deposit wallet and a key to the exchange."""

    def __init__(
        self, venue: FakePolymarket, clock: FakeClock, served: ServedService, client: httpx.AsyncClient
    ) -> None:
        self.venue, self.clock, self.served, self.client = venue, clock, served, client
        self.world = venue.world
        self._salt = 0

    @cached_property
    def ada(self) -> FakePolymarketUser:
        """Only who trades needs the libraries that sign."""
        pytest.importorskip("polymarket")
        return self.world.give_key(self.world.add_user(KEY))

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.client.get(path, params=params)

    async def read(self, path: str, **params: Any) -> Any:
        reply = await self.get(path, **params)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def private(
        self, method: str, path: str, body: Any = None, *, params: Any = None, user: FakePolymarketUser | None = None
    ) -> httpx.Response:
        """Ask as an account; the signature is made here, after docs/facts/polymarket.md#access-levels."""
        user = user or self.ada
        text = "" if body is None else json.dumps(body)
        headers = signed_headers(user, self.clock.now(), (method, path, text))
        return await self.client.request(method, path, content=text or None, params=params, headers=headers)

    async def mine(self, path: str, **params: Any) -> Any:
        reply = await self.private("GET", path, params=params)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def body(self, market: FakePolymarketMarket, side: str, price: str, size: str, **more: Any) -> dict[str, Any]:
        """Sign an order with the venue's own client; ``amounts`` replaces what price and size give."""
        user, key, index = more.pop("user", self.ada), more.pop("private_key", KEY), more.pop("index", 0)
        shares, dollars = Decimal(size), Decimal(size) * Decimal(price)
        amounts = more.pop("amounts", (dollars, shares) if side == "BUY" else (shares, dollars))
        terms = {"kind": more.pop("kind", "GTC"), "post_only": more.pop("post_only", False), "owner": user.key}
        self._salt += 1
        fields = _fields(market, side, amounts, user) | {"salt": self._salt, "token_id": market.tokens[index]}
        if (domain := more.pop("domain", None)) is not None:
            fields |= dict(zip(("protocol_version", "exchange_address"), domain, strict=True))
        assert set(more) <= set(fields)
        return _signed({**fields, **more}, key, terms)

    async def post(self, market: FakePolymarketMarket, side: str, price: str, size: str, **more: Any) -> httpx.Response:
        user = more.get("user")
        return await self.private("POST", "/order", self.body(market, side, price, size, **more), user=user)

    async def placed(
        self, market: FakePolymarketMarket, side: str, price: str, size: str, **more: Any
    ) -> Mapping[str, Any]:
        reply = await self.post(market, side, price, size, **more)
        assert reply.status_code == 200, reply.text
        found: Mapping[str, Any] = reply.json()
        assert found["success"], found
        return found

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and what becomes due happen."""
        await self.clock.advance(seconds)
        self.world.exchange.process_due()


def deep(polymarket: RawPolymarketClient, **more: Any) -> FakePolymarketMarket:
    """Return a market with the book of docs/facts/polymarket.md#fill-figures."""
    return polymarket.world.add_market(bids=[("0.55", "50")], asks=ASKS, fees=POLITICS, **more)


def signed_headers(user: FakePolymarketUser, now: datetime, request: tuple[str, str, str]) -> dict[str, str]:
    """Return the headers of a private request (method, path, body)."""
    stamp = str(int(now.timestamp()))
    key = base64.urlsafe_b64decode(user.secret)
    digest = hmac.new(key, f"{stamp}{''.join(request)}".encode(), hashlib.sha256).digest()
    return {
        "POLY_ADDRESS": user.address,
        "POLY_API_KEY": user.key,
        "POLY_PASSPHRASE": user.passphrase,
        "POLY_TIMESTAMP": stamp,
        "POLY_SIGNATURE": base64.urlsafe_b64encode(digest).decode(),
    }


def body_of(
    market: FakePolymarketMarket,
    asked: tuple[str, str, str],
    *,
    who: tuple[FakePolymarketUser, str],
    salt: int,
    index: int,
) -> str:
    """Return the body of an order (side, price, size) that may rest, signed with the key of a user, as JSON."""
    (side, price, size), (user, key) = asked, who
    shares, dollars = Decimal(size), Decimal(size) * Decimal(price)
    amounts = (dollars, shares) if side == "BUY" else (shares, dollars)
    fields = _fields(market, side, amounts, user) | {"salt": salt, "token_id": market.tokens[index]}
    return json.dumps(_signed(fields, key, {"kind": "GTC", "owner": user.key, "post_only": False}))


def _fields(
    market: FakePolymarketMarket, side: str, amounts: tuple[Decimal, Decimal], user: FakePolymarketUser
) -> dict[str, Any]:
    version, contract = CONTRACTS["v2" if market.version == "v2" else "neg risk" if market.neg_risk else "standard"]
    return {
        "builder": ZERO,
        "chain_id": 137,
        "exchange_address": contract,
        "expiration": 0,
        "maker": user.wallet,
        "maker_amount": int(amounts[0] * 1_000_000),
        "metadata": ZERO,
        "protocol_version": version,
        "side": side,
        "signature_type": user.kind,
        "signer": user.wallet if user.kind == 3 else user.address,
        "taker_amount": int(amounts[1] * 1_000_000),
        "timestamp": 1_763_700_000_000,
    }


def _signed(fields: dict[str, Any], key: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    from eth_account import Account
    from polymarket._internal.actions.orders import typed_data
    from polymarket._internal.actions.orders.types import UnsignedOrder

    order = UnsignedOrder(**fields, order_type=terms["kind"])
    signed = Account.from_key(key).sign_typed_data(full_message=typed_data.build_order_typed_data(order))
    signature = typed_data.build_order_signature(order, "0x" + signed.signature.hex())
    body = {
        "deferExec": False,
        "order": {
            "builder": order.builder,
            "expiration": str(fields["expiration"]),
            "maker": order.maker,
            "makerAmount": str(order.maker_amount),
            "metadata": order.metadata,
            "salt": order.salt,
            "side": order.side,
            "signature": signature,
            "signatureType": int(order.signature_type),
            "signer": order.signer,
            "takerAmount": str(order.taker_amount),
            "timestamp": str(order.timestamp),
            "tokenId": order.token_id,
        },
        "orderType": terms["kind"],
        "owner": terms["owner"],
    }
    return body | ({"postOnly": True} if terms["post_only"] else {})


@asynccontextmanager
async def open_polymarket() -> AsyncIterator[RawPolymarketClient]:
    clock = FakeClock()
    venue = FakePolymarket(clock)
    async with (
        serve_service(venue) as served,
        httpx.AsyncClient(base_url=served.url, timeout=5.0, trust_env=False) as client,
    ):
        yield RawPolymarketClient(venue, clock, served, client)
