"""The daemon's side of the signer: a child process that is started when first needed, and again when it dies.

The key never passes through here: the child gets the path of its file over its input, and no environment. If it does
not answer in time it is stopped; then nothing was signed, or the signature is lost and was never sent.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from bot.api import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    Json,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from plugins.polymarket import signer
from plugins.polymarket.json_values import parse_record, parse_text
from plugins.polymarket.settings import PolymarketSettings

log = structlog.get_logger(__name__)

SPENDING_FILE = "signer.json"
# The venue's client takes seconds to import, and more on a busy machine.
OPEN_TIMEOUT_S, ANSWER_TIMEOUT_S = 90.0, 20.0
MAX_ANSWER_BYTES = 65_536
_SHUTDOWN_S = 5.0
# The daily cap allows more on the next day (UTC), and a smaller order at any time.
DAILY_CAP_RETRY_S = 3600.0
# The folder of this plugin is not on its path: its modules would hide others of the same name.
START_CODE = (
    "import importlib.util as u, sys; s = u.spec_from_file_location('signer', sys.argv[1]); "
    "m = u.module_from_spec(s); sys.modules['signer'] = m; s.loader.exec_module(m); m.main()"
)

SignerRequest = Mapping[str, Json]


class SignerConnection(Protocol):
    """A connection to a signer that answers requests in JSON."""

    async def ask(self, request: SignerRequest, *, within_s: float) -> str:
        """Return the answer; raises ServiceUnavailableError if there is none."""
        ...

    async def aclose(self) -> None:
        """Stop the signer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSignature:
    """A signature that a key controls its address, for the venue's login."""

    address: str
    nonce: int
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsignedOrder:
    """An order to be signed: amounts in millionths of a dollar and of a share, times in the venue's form."""

    token: str
    side: str
    type: str
    neg_risk: bool
    maker_amount: int
    taker_amount: int
    timestamp_ms: int
    expiration: int
    salt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedOrder:
    """A signed order as it is posted, under its hash."""

    hash: str
    order: Mapping[str, Json]


class SignerProcess:
    """Implements ``SignerConnection`` with a child process, started by the first request."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: Process | None = None

    async def ask(self, request: SignerRequest, *, within_s: float) -> str:
        """Return the answer; a dead or silent child is stopped, and the next request starts another."""
        try:
            async with asyncio.timeout(within_s):
                process = self._process or await self._start()
                answer = await _exchange_line(process, json.dumps(request) + "\n")
        except BaseException as error:
            # Also if the caller was cancelled: a late answer would be taken as the answer to the next request.
            await self._end(patience_s=0.0)
            if isinstance(error, OSError | ValueError):  # TimeoutError is an OSError
                why = f"{type(error).__name__}" if str(error) == "" else str(error)
                message = (
                    f"the signer did not answer ({why}): nothing was signed, nothing was sent; it will be restarted"
                )
                raise ServiceUnavailableError(message) from None
            raise
        return answer

    @property
    def pid(self) -> int | None:
        """The process id, None if there is no process."""
        return None if self._process is None else self._process.pid

    async def aclose(self) -> None:
        """Stop the child, by force if needed."""
        await self._end(patience_s=_SHUTDOWN_S)

    async def _end(self, *, patience_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(patience_s):
                await process.wait()
        except TimeoutError:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _start(self) -> Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                self._python,
                "-I",
                "-c",
                START_CODE,
                str(Path(signer.__file__)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={},
                limit=MAX_ANSWER_BYTES,
                # Ctrl-C is for the daemon, which may still need the signer to cancel orders.
                start_new_session=True,
            )
        except OSError as error:
            message = f"the signer cannot be started with {self._python}: {error.strerror}; see signer_python"
            raise ConfigError(message) from error
        return self._process


class SignerClient:
    """Requests signatures, one at a time. ``address`` is that of the key once it is open.

    ``opening`` is the first request, None if settings lack key or wallet: then nothing is signed.
    """

    def __init__(self, opening: SignerRequest | None, connection: SignerConnection) -> None:
        self._opening = opening
        self._connection = connection
        self._request_lock = asyncio.Lock()
        self._is_open = False
        self.address = ""
        self.is_derived = False

    async def open(self) -> str:
        """Return the address of the key. Raises as ``sign_order`` does."""
        async with self._request_lock:
            await self._ensure_open()
        return self.address

    async def sign_login(self, timestamp: int) -> LoginSignature:
        """Return a signature for the venue's login at that second."""
        answer = await self._request({"do": "login", "timestamp": timestamp})
        nonce = answer.get("nonce")
        address, signature = parse_text(answer.get("address")), parse_text(answer.get("signature"))
        if not isinstance(nonce, int) or not address or not signature:
            message = "the signer's answer to a login is incomplete"
            raise MalformedDataError(message)
        return LoginSignature(address=address, nonce=nonce, signature=signature)

    async def sign_order(self, unsigned: UnsignedOrder, *, is_dry_run: bool = False) -> SignedOrder:
        """Return the signed order; ``is_dry_run``: a preview without signature, which does not count for the daily cap.

        Raises RequestRejectedError if the signer refuses it, AuthenticationError for an unusable key, ConfigError if
        the venue's client is missing, ServiceUnavailableError if the daily cap is used up, or if there is no answer,
        after which it is restarted.
        """
        answer = await self._request(
            {
                "do": "order",
                "token": unsigned.token,
                "side": unsigned.side,
                "type": unsigned.type,
                "neg_risk": unsigned.neg_risk,
                "maker_amount": unsigned.maker_amount,
                "taker_amount": unsigned.taker_amount,
                "timestamp_ms": unsigned.timestamp_ms,
                "expiration": unsigned.expiration,
                "salt": unsigned.salt,
                "look": is_dry_run,
            }
        )
        order, number = answer.get("order"), parse_text(answer.get("hash"))
        if not isinstance(order, dict) or not number:
            message = "the signer's answer to an order is incomplete"
            raise MalformedDataError(message)
        return SignedOrder(hash=number, order=order)

    async def aclose(self) -> None:
        """Stop the signer; the next request would start another."""
        self._is_open = False
        await self._connection.aclose()

    async def _request(self, request: SignerRequest) -> Mapping[str, Any]:
        async with self._request_lock:
            await self._ensure_open()
            return await self._send(request, ANSWER_TIMEOUT_S)

    async def _ensure_open(self) -> None:
        if self._is_open:
            return
        if self._opening is None:
            message = "key_file and wallet are not set in [venues.polymarket.settings]; without them nothing is traded"
            raise AuthenticationError(message)
        answer = await self._send(self._opening, OPEN_TIMEOUT_S)
        self.address, self.is_derived = parse_text(answer.get("address")), answer.get("is_derived") is True
        self._is_open = True
        log.info("the signer is open", venue="polymarket", address=self.address)

    async def _send(self, request: SignerRequest, within_s: float) -> Mapping[str, Any]:
        try:
            answer = await self._connection.ask(request, within_s=within_s)
            decoded = json.loads(answer)
        except BaseException as error:
            self._is_open = False
            if isinstance(error, (ValueError, RecursionError)):
                await self._connection.aclose()
                message = "the signer's answer is not JSON: nothing was sent; it will be restarted"
                raise ServiceUnavailableError(message) from None
            raise
        fields = parse_record(decoded)
        if "ok" in fields:
            return parse_record(fields["ok"])
        raise _signer_error(parse_text(fields.get("kind")), parse_text(fields.get("error")))


def create_signer(settings: PolymarketSettings, folder: Path) -> SignerClient:
    """Return a signer that is not started yet."""
    python = sys.executable if settings.signer_python is None else str(settings.signer_python)
    return SignerClient(signer_opening(settings, folder), SignerProcess(python))


def signer_opening(settings: PolymarketSettings, folder: Path) -> SignerRequest | None:
    """Return the opening request of a signer, None if key or wallet are not set."""
    if settings.key_file is None or not settings.wallet:
        return None
    return {
        "do": "open",
        "key_file": str(settings.key_file),
        "wallet": settings.wallet,
        "wallet_type": settings.wallet_type,
        "spending": str(folder / SPENDING_FILE),
        "per_order": str(settings.signer_per_order),
        "per_day": str(settings.signer_per_day),
    }


async def _exchange_line(process: Process, connection: str) -> str:
    if process.stdin is None or process.stdout is None:
        message = "it has no pipes"
        raise ValueError(message)
    process.stdin.write(connection.encode())
    await process.stdin.drain()
    answer = await process.stdout.readline()
    if not answer.endswith(b"\n"):
        message = "it has ended"
        raise ValueError(message)
    return answer.decode()


def _signer_error(kind: str, message: str) -> FoxcastError:
    answer = f"signer: {message or 'no reason given'}"
    match kind:
        case signer.RETRY_LATER:
            return ServiceUnavailableError(answer, retry_after_s=DAILY_CAP_RETRY_S)
        case signer.UNAUTHORIZED:
            return AuthenticationError(answer)
        case signer.CONFIG_FAULT:
            return ConfigError(answer)
    return RequestRejectedError(answer)
