"""The signatures that the fake Polymarket checks, against the golden vectors of docs/facts/polymarket.md#vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.simulator.venues import polymarket_signatures as signing
from tests.unit.simulator.venues.polymarket_client import KEY, OTHER_KEY, ZERO, RawPolymarketClient, open_polymarket

pytest.importorskip("eth_account")

DEAD = "0x000000000000000000000000000000000000dEaD"
T1 = "71321045679252212594626385532706912750332728571942532289631379312455583992563"
T2 = "755628523515574437047200361729489104557184628977942975970487228992894009601"
SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # noqa: S105 - bytes 0 to 31


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


def order(token: str, side: str, **more: Any) -> dict[str, Any]:
    amounts = ("7033800", "12340000") if side == "BUY" else ("12340000", "7033800")
    return {
        "salt": 12345,
        "maker": DEAD,
        "signer": DEAD,
        "tokenId": token,
        "makerAmount": amounts[0],
        "takerAmount": amounts[1],
        "side": side,
        "signatureType": 0,
        "timestamp": "1763700000000",
        "metadata": ZERO,
        "builder": ZERO,
        "expiration": "0",
        **more,
    }


@pytest.mark.parametrize(
    ("token", "side", "is_neg_risk", "hashes"),
    [
        (
            *(T1, "BUY", 0),
            (
                "3264e159346253e26a64e00b69032db0e7d32f94628de3e6eecb50304d7af3d2",
                "e962e50eab9a853f628aa7de85ae575bb94a0f42fe3b7fc37b2cff56a54dfece",
                "eea70781c56971073ab9a26f23960eba31a2c50ae54c2883c5db7b0621df7fcb",
            ),
        ),
        (
            *(T1, "SELL", 0),
            (
                "3264e159346253e26a64e00b69032db0e7d32f94628de3e6eecb50304d7af3d2",
                "ce9570f96f96ad000d71015770ca6dde4aaaf135a3b69ee25b674aa47dca1091",
                "d7d3c98e42eff39ec2241ac2d40f606fde7a7666d0578ce05b737df9aa9e82ed",
            ),
        ),
        (
            *(T1, "BUY", 1),
            (
                "9b858f53327b0bd13af8ec14cfb35234fb9eb7b0504d1a4e61f433840d30e81a",
                "e962e50eab9a853f628aa7de85ae575bb94a0f42fe3b7fc37b2cff56a54dfece",
                "d6852d7371ea2949ca62923d22ad8ad6ffd02d751c4b92f8110bce6ac14173d6",
            ),
        ),
        (
            *(T2, "BUY", 0),
            (
                "466c63910185bbd55e8679264200c4e0abdcbb0c6264eb3d41d13326022e095b",
                "f46c1d6fe2791f8f14a56fc28276979de5b5cafd89617c5b8cce0e21f63a507e",
                "4a18d103b5407771f5d7ae8e2175cb4c17577ff449e9a2da3d69166a4ac71350",
            ),
        ),
    ],
)
def test_the_digest_of_an_order_is_the_one_of_section_15_1(
    token: str, side: str, is_neg_risk: int, hashes: tuple[str, str, str]
) -> None:
    domain = signing.token_domain(token, neg_risk=bool(is_neg_risk))
    found = signing.OrderDigest(order(token, side), domain)
    separator, contents, digest = hashes
    assert (found.separator.hex(), found.contents.hex(), found.id) == (separator, contents, f"0x{digest}")
    # It has no part in what is signed.
    assert signing.OrderDigest(order(token, side, expiration="1763800000"), domain).id == f"0x{digest}"


@pytest.mark.parametrize(
    ("method", "path", "body", "signature"),
    [
        ("GET", "/data/orders", "", "3zNsaZg0kLjo8hyPaykegefftGkM--5Rq-xvxzP6TBg="),
        ("POST", "/order", '{"a":1}', "M19wYe6IPU8vH1TZYJw1aFgDvUDxZvhazLbfB3mLQYQ="),
        ("DELETE", "/order", '{"orderID":"0xabc"}', "JBhQpEZ622YwQumBUgsmfojd8Pc8kiSAaxqg96fbEsI="),
    ],
)
def test_the_signature_of_a_request_is_the_one_of_section_15_2(
    method: str, path: str, body: str, signature: str
) -> None:
    assert signing.request_hmac(SECRET, "1763700000", method, path, body) == signature


def test_newer_ids_are_known_by_their_form() -> None:
    condition = "01" + "ab" * 18 + "00" * 8 + "00000001"
    assert signing.v2_token(condition, 1) == T2
    other = str(int("01" + "ab" * 20 + "00" * 10 + "01", 16))
    assert [signing.is_v2(token) for token in (T1, T2, other)] == [False, True, False]


# On the wire


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
async def test_orders_of_each_type_of_wallet_are_taken_with_their_signature(
    polymarket: RawPolymarketClient, kind: int
) -> None:
    user = polymarket.world.give_key(polymarket.world.add_user(OTHER_KEY, kind=kind))
    market = polymarket.world.add_market()
    body = polymarket.body(market, "BUY", "0.4", "10", user=user, private_key=OTHER_KEY)
    # The figure of docs/facts/polymarket.md#order-signatures.
    assert len(body["order"]["signature"]) == 2 + 2 * (317 if kind == 3 else 65)
    reply = await polymarket.private("POST", "/order", body, user=user)
    assert reply.json()["status"] == "live", reply.text
    digest = signing.OrderDigest(body["order"], signing.token_domain(market.tokens[0], neg_risk=False))
    assert reply.json()["orderID"] == digest.id


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_each_market_has_its_own_exchange_contract(polymarket: RawPolymarketClient, version: str) -> None:
    _, [choice] = polymarket.world.add_choice("Who?", {"Ann": "0.5"})
    market = polymarket.world.add_market(version=version)
    assert (await polymarket.placed(market, "BUY", "0.4", "10"))["status"] == "live"
    assert (await polymarket.placed(choice, "BUY", "0.4", "10"))["status"] == "live"
    wrong = await polymarket.post(market, "BUY", "0.4", "10", domain=("2", signing.NEG_RISK_CONTRACT))
    assert (wrong.status_code, wrong.json()) == (400, {"error": "invalid signature"})


@pytest.mark.parametrize(
    "change",
    [
        {"makerAmount": "4100000", "takerAmount": "10250000"},
        {"salt": 99},
        {"timestamp": "1763700000001"},
        {"builder": "0x" + "11" * 32},
        {"side": "SELL"},
        {"signature": "0x" + "11" * 65},
        {"signature": "0x11"},
    ],
)
async def test_an_order_that_was_changed_after_it_was_signed_is_refused(
    polymarket: RawPolymarketClient, change: dict[str, Any]
) -> None:
    body = polymarket.body(polymarket.world.add_market(), "BUY", "0.4", "10")
    body["order"] |= change
    reply = await polymarket.private("POST", "/order", body)
    assert (reply.status_code, reply.json()) == (400, {"error": "invalid signature"})
    assert polymarket.venue.ledger.effects() == []


async def test_the_wrong_type_of_wallet_is_a_refusal_of_its_own(polymarket: RawPolymarketClient) -> None:
    address = polymarket.ada.address
    reply = await polymarket.post(
        polymarket.world.add_market(), "BUY", "0.4", "10", signature_type=0, maker=address, signer=address
    )
    assert (reply.status_code, "maker address not allowed" in reply.text) == (400, True)


async def test_a_private_request_needs_all_its_headers_right(polymarket: RawPolymarketClient) -> None:
    assert (await polymarket.private("GET", "/data/orders")).status_code == 200
    # The signed path is without the query.
    assert (await polymarket.private("GET", "/data/orders", params={"market": "0x1"})).status_code == 200
    good = dict(polymarket.venue.requests[-1].headers)
    headers = {name: value for name, value in good.items() if name.startswith("poly_")}
    changes = {
        "poly_signature": "x" + headers["poly_signature"][1:],
        "poly_passphrase": "wrong",
        "poly_api_key": "unknown",
        "poly_timestamp": str(int(headers["poly_timestamp"]) + 1),
        "poly_address": DEAD,
    }
    for name, value in changes.items():
        reply = await polymarket.client.get("/data/orders", headers={**headers, name: value})
        assert (reply.status_code, reply.json()) == (401, {"error": "Unauthorized/Invalid api key"})
    await polymarket.clock.advance(301)
    assert (await polymarket.client.get("/data/orders", headers=headers)).status_code == 401


async def test_a_log_in_makes_a_key_once_and_finds_it_again(polymarket: RawPolymarketClient) -> None:
    pytest.importorskip("polymarket")
    from eth_account import Account
    from polymarket._internal.l1_auth import sign_api_key_auth

    user = polymarket.world.add_user(KEY)
    stamp = int(polymarket.clock.now().timestamp())
    signed = sign_api_key_auth(Account.from_key(KEY), chain_id=137, timestamp=stamp)
    headers = {
        "POLY_ADDRESS": signed.address,
        "POLY_NONCE": "0",
        "POLY_SIGNATURE": signed.signature,
        "POLY_TIMESTAMP": str(stamp),
    }
    assert (await polymarket.client.get("/auth/derive-api-key", headers=headers)).status_code == 400
    made = await polymarket.client.post("/auth/api-key", headers=headers)
    assert made.json() == {"apiKey": user.key, "secret": user.secret, "passphrase": user.passphrase}
    assert (await polymarket.client.post("/auth/api-key", headers=headers)).status_code == 400
    assert (await polymarket.client.get("/auth/derive-api-key", headers=headers)).json() == made.json()
    for name, value in (("POLY_NONCE", "1"), ("POLY_ADDRESS", DEAD), ("POLY_TIMESTAMP", str(stamp + 1))):
        assert (await polymarket.client.post("/auth/api-key", headers={**headers, name: value})).status_code == 401
    assert [effect.subject for effect in polymarket.venue.ledger.effects("api key")] == [user.key]
