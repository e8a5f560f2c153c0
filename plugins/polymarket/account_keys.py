"""Who asks the exchange: a log-in signed by the key makes or finds three secrets, which sign every private request.

The secrets are made of the key again at each start, where settings do not hold them, and kept in memory alone.
Source: venue document, sections 8.1 and 15.2.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog

from bot.api import (
    Clock,
    ContractError,
    Http,
    Json,
    Rejected,
    Request,
    Unauthorized,
    Wire,
    after_colon,
    keep_secret,
    said_in,
)
from plugins.polymarket.client import HEADERS, Parameters, address
from plugins.polymarket.raw import list_of, record_of, text_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_process import Signer

log = structlog.get_logger(__name__)

MAX_BYTES = 8_000_000
DEADLINE_S = 20.0
# The cursor after which a private list has no more.
END = "LTE="
_MOST_PAGES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The secrets of an account at the exchange, and the address of the key that they belong to."""

    address: str
    key: str = field(repr=False)
    secret: str = field(repr=False)
    passphrase: str = field(repr=False)


def hmac_of(secret: str, signed: str) -> str:
    """Return the signature of time, method, path and body, written after one another. Raises Unauthorized."""
    try:
        raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    except (binascii.Error, ValueError):
        message = "api_secret in [venues.polymarket.settings] is not what the venue gives: url-safe base64"
        raise Unauthorized(message) from None
    return base64.urlsafe_b64encode(hmac.new(raw, signed.encode(), hashlib.sha256).digest()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """What makes an API key where an account has none: ``permit`` is asked first, and raises where it must not be."""

    wire: Wire
    permit: Callable[[], Awaitable[None]]


class Session:
    """Private requests of one account. Without a maker an API key is found, but never made."""

    def __init__(
        self, settings: PolymarketSettings, clock: Clock, *, http: Http, signer: Signer, maker: Maker | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._http = http
        self._maker = maker
        self.signer = signer
        self._credentials: Credentials | None = None
        self._turn = asyncio.Lock()

    async def credentials(self) -> Credentials:
        """Return the secrets, asked once.

        Raises Rejected where the account has no API key and none may be made, and otherwise as the signer and reading
        do.
        """
        async with self._turn:
            if self._credentials is None:
                self._credentials = await self._found()
            return self._credentials

    async def get(self, path: str, parameters: Parameters | None = None) -> Json:
        """Read something that is the account's own; the signed path has no query."""
        url = address(self._settings, self._settings.clob_url, path, parameters)
        try:
            body = await self._http.get(url, max_bytes=MAX_BYTES, headers=await self._headers("GET", url))
        except Unauthorized:
            # They may have been replaced at the venue; those of the settings have not.
            self._credentials = None
            raise
        return _decoded(body, path)

    async def rows(self, path: str, parameters: Parameters) -> list[Mapping[str, object]]:
        """Return all of a private list. Raises ContractError for one that has no end."""
        asked = dict(parameters)
        found: list[Mapping[str, object]] = []
        for _ in range(_MOST_PAGES):
            answer = await self.get(path, asked)
            part = list_of(record_of(answer).get("data"))
            if part is None:
                message = f"{path}: the answer has no data"
                raise ContractError(message)
            found += [record_of(row) for row in part]
            cursor = text_of(record_of(answer).get("next_cursor"))
            if cursor in {"", END, asked.get("next_cursor")}:
                return found
            asked["next_cursor"] = cursor
        message = f"{path}: more than {_MOST_PAGES} pages"
        raise ContractError(message)

    async def request(self, method: str, path: str, body: str | None = None) -> Request:
        """Return a request that is signed for this moment."""
        url = address(self._settings, self._settings.clob_url, path)
        headers = {**await self._headers(method, url, body or ""), "Content-Type": "application/json"}
        sent = None if body is None else body.encode()
        return Request(method=method, url=url, headers=headers, body=sent, takes_back=method == "DELETE")

    async def _headers(self, method: str, url: str, body: str = "") -> dict[str, str]:
        known = await self.credentials()
        stamp = str(int(self._clock.now().timestamp()))
        return {
            **HEADERS,
            "POLY_ADDRESS": known.address,
            "POLY_API_KEY": known.key,
            "POLY_PASSPHRASE": known.passphrase,
            "POLY_SIGNATURE": hmac_of(known.secret, f"{stamp}{method}{urlsplit(url).path}{body}"),
            "POLY_TIMESTAMP": stamp,
        }

    async def _found(self) -> Credentials:
        settings = self._settings
        given = (settings.api_key, settings.api_secret, settings.api_passphrase)
        owner = await self.signer.open()
        key, secret, passphrase = given
        if key is not None and secret is not None and passphrase is not None:
            return Credentials(
                address=owner,
                key=key.get_secret_value(),
                secret=secret.get_secret_value(),
                passphrase=passphrase.get_secret_value(),
            )
        if any(given):
            message = "set all of api_key, api_secret and api_passphrase in [venues.polymarket.settings], or none"
            raise Unauthorized(message)
        url = address(settings, settings.clob_url, "auth/derive-api-key")
        try:
            answer = await self._http.get(url, max_bytes=MAX_BYTES, headers=await self._login())
        except Rejected:
            return _credentials(owner, await self._made())
        return _credentials(owner, _decoded(answer, "auth/derive-api-key"))

    async def _made(self) -> Json:
        """Make the account's API key, which costs nothing and moves nothing."""
        if self._maker is None:
            message = "the account has no API key yet; one is made when it is live first"
            raise Rejected(message)
        await self._maker.permit()
        url = address(self._settings, self._settings.clob_url, "auth/api-key")
        asked = Request(method="POST", url=url, headers=await self._login())
        reply = await self._maker.wire.send(asked, max_bytes=MAX_BYTES, deadline_s=DEADLINE_S)
        if reply.status != 200:
            message = f"an API key was refused: {reply.status}{after_colon(said_in(reply).get('error'))}"
            raise Unauthorized(message)
        log.info("an API key was made", venue="polymarket", address=self.signer.address)
        return _decoded(reply.body, "auth/api-key")

    async def _login(self) -> dict[str, str]:
        stamp = int(self._clock.now().timestamp())
        login = await self.signer.login(stamp)
        return {
            **HEADERS,
            "POLY_ADDRESS": login.address,
            "POLY_NONCE": str(login.nonce),
            "POLY_SIGNATURE": login.signature,
            "POLY_TIMESTAMP": str(stamp),
        }


def _credentials(owner: str, answer: Json) -> Credentials:
    said = record_of(answer)
    found = [text_of(said.get(name)) for name in ("apiKey", "secret", "passphrase")]
    if not all(found):
        message = "the answer to a log-in has no whole API key"
        raise ContractError(message)
    keep_secret(*found)
    return Credentials(address=owner, key=found[0], secret=found[1], passphrase=found[2])


def _decoded(body: bytes, path: str) -> Json:
    try:
        answer: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the answer is not JSON"
        raise ContractError(message) from error
    return answer
