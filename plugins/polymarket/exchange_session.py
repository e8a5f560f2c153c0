"""Private requests to the exchange: a login signed by the key returns three secrets, which sign every request.

Unless settings hold them, the secrets are derived from the key at each start, and kept only in memory. Source:
docs/facts/polymarket.md#access-levels and #hmac-figures.
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
    AuthenticationError,
    Clock,
    HttpClient,
    HttpRequest,
    Json,
    MalformedDataError,
    RequestRejectedError,
    WriteClient,
    detail_suffix,
    keep_secret,
    response_fields,
)
from plugins.polymarket.api_client import REQUEST_HEADERS, QueryParameters, build_url
from plugins.polymarket.json_values import parse_list, parse_record, parse_text
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_client import SignerClient

log = structlog.get_logger(__name__)

MAX_RESPONSE_BYTES = 8_000_000
LOGIN_DEADLINE_S = 20.0
# The cursor at the end of a private list.
LAST_CURSOR = "LTE="
_MAX_PAGES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeCredentials:
    """The secrets of an account at the exchange, and the address of their key."""

    address: str
    key: str = field(repr=False)
    secret: str = field(repr=False)
    passphrase: str = field(repr=False)


def sign_hmac(secret: str, signed: str) -> str:
    """Return the signature of the concatenated time, method, path and body. Raises AuthenticationError."""
    try:
        raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    except (binascii.Error, ValueError):
        message = "api_secret in [venues.polymarket.settings] is not url-safe base64, the venue's form"
        raise AuthenticationError(message) from None
    return base64.urlsafe_b64encode(hmac.new(raw, signed.encode(), hashlib.sha256).digest()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyCreator:
    """Creates an API key if an account has none; ``require_permitted`` raises first if trading is not allowed."""

    write_client: WriteClient
    require_permitted: Callable[[], Awaitable[None]]


class ExchangeSession:
    """Private requests of one account. Without a ``maker`` an API key is found, but never created."""

    def __init__(
        self,
        settings: PolymarketSettings,
        clock: Clock,
        *,
        http: HttpClient,
        signer: SignerClient,
        maker: ApiKeyCreator | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._http = http
        self._key_creator = maker
        self.signer = signer
        self._credentials: ExchangeCredentials | None = None
        self._login_lock = asyncio.Lock()

    async def credentials(self) -> ExchangeCredentials:
        """Return the secrets, requested once.

        Raises RequestRejectedError if the account has no API key and none may be created, and the errors of the signer
        and of reading.
        """
        async with self._login_lock:
            if self._credentials is None:
                self._credentials = await self._find_credentials()
            return self._credentials

    def forget_credentials(self) -> None:
        """Have the secrets requested again before the next request."""
        self._credentials = None

    async def get(self, path: str, parameters: QueryParameters | None = None) -> Json:
        """Read private data of the account; the signed path has no query."""
        url = build_url(self._settings, self._settings.clob_url, path, parameters)
        try:
            body = await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=await self._headers("GET", url))
        except AuthenticationError:
            # Derived secrets may have been replaced at the venue.
            self.forget_credentials()
            raise
        return _decode_json(body, path)

    async def read_rows(self, path: str, parameters: QueryParameters) -> list[Mapping[str, object]]:
        """Return all rows of a private list. Raises MalformedDataError if it has no end."""
        query = dict(parameters)
        found: list[Mapping[str, object]] = []
        for _ in range(_MAX_PAGES):
            response = await self.get(path, query)
            part = parse_list(parse_record(response).get("data"))
            if part is None:
                message = f"{path}: the response has no data"
                raise MalformedDataError(message)
            found += [parse_record(row) for row in part]
            cursor = parse_text(parse_record(response).get("next_cursor"))
            if cursor in {"", LAST_CURSOR, query.get("next_cursor")}:
                return found
            query["next_cursor"] = cursor
        message = f"{path}: more than {_MAX_PAGES} pages"
        raise MalformedDataError(message)

    async def signed_request(self, method: str, path: str, body: str | None = None) -> HttpRequest:
        """Return a request that is signed for this moment."""
        url = build_url(self._settings, self._settings.clob_url, path)
        headers = {**await self._headers(method, url, body or ""), "Content-Type": "application/json"}
        sent = None if body is None else body.encode()
        return HttpRequest(method=method, url=url, headers=headers, body=sent, is_cancellation=method == "DELETE")

    async def _headers(self, method: str, url: str, body: str = "") -> dict[str, str]:
        known = await self.credentials()
        stamp = str(int(self._clock.now().timestamp()))
        return {
            **REQUEST_HEADERS,
            "POLY_ADDRESS": known.address,
            "POLY_API_KEY": known.key,
            "POLY_PASSPHRASE": known.passphrase,
            "POLY_SIGNATURE": sign_hmac(known.secret, f"{stamp}{method}{urlsplit(url).path}{body}"),
            "POLY_TIMESTAMP": stamp,
        }

    async def _find_credentials(self) -> ExchangeCredentials:
        settings = self._settings
        given = (settings.api_key, settings.api_secret, settings.api_passphrase)
        owner = await self.signer.open()
        key, secret, passphrase = given
        if key is not None and secret is not None and passphrase is not None:
            return ExchangeCredentials(
                address=owner,
                key=key.get_secret_value(),
                secret=secret.get_secret_value(),
                passphrase=passphrase.get_secret_value(),
            )
        if any(given):
            message = "set all of api_key, api_secret and api_passphrase in [venues.polymarket.settings], or none"
            raise AuthenticationError(message)
        url = build_url(settings, settings.clob_url, "auth/derive-api-key")
        try:
            response = await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=await self._login_headers())
        except RequestRejectedError:
            return _parse_credentials(owner, await self._create_api_key())
        return _parse_credentials(owner, _decode_json(response, "auth/derive-api-key"))

    async def _create_api_key(self) -> Json:
        """Create the account's API key, which is free and moves no money."""
        if self._key_creator is None:
            message = "the account has no API key yet; it is created when the venue is first live"
            raise RequestRejectedError(message)
        await self._key_creator.require_permitted()
        url = build_url(self._settings, self._settings.clob_url, "auth/api-key")
        query = HttpRequest(method="POST", url=url, headers=await self._login_headers())
        reply = await self._key_creator.write_client.send(
            query, max_bytes=MAX_RESPONSE_BYTES, deadline_s=LOGIN_DEADLINE_S
        )
        if reply.status != 200:
            message = f"an API key was refused: {reply.status}{detail_suffix(response_fields(reply).get('error'))}"
            raise AuthenticationError(message)
        log.info("an API key was created", venue="polymarket", address=self.signer.address)
        return _decode_json(reply.body, "auth/api-key")

    async def _login_headers(self) -> dict[str, str]:
        stamp = int(self._clock.now().timestamp())
        login = await self.signer.sign_login(stamp)
        return {
            **REQUEST_HEADERS,
            "POLY_ADDRESS": login.address,
            "POLY_NONCE": str(login.nonce),
            "POLY_SIGNATURE": login.signature,
            "POLY_TIMESTAMP": str(stamp),
        }


def _parse_credentials(owner: str, response: Json) -> ExchangeCredentials:
    fields = parse_record(response)
    found = [parse_text(fields.get(name)) for name in ("apiKey", "secret", "passphrase")]
    if not all(found):
        message = "the response to a login has no complete API key"
        raise MalformedDataError(message)
    keep_secret(*found)
    return ExchangeCredentials(address=owner, key=found[0], secret=found[1], passphrase=found[2])


def _decode_json(body: bytes, path: str) -> Json:
    try:
        response: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the response is not JSON"
        raise MalformedDataError(message) from error
    return response
