"""The daemon's side of the signer: a child process that is started when it is first needed, and anew when it dies.

The key never passes through here: the child is told the path of its file over its input. It gets no environment. What
it does not answer in time it is ended for; then nothing was signed, or what was signed is lost and was never sent.
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

from bot.api import ConfigError, ContractError, FoxcastError, Json, Rejected, Unauthorized, Unavailable
from plugins.polymarket import signer
from plugins.polymarket.raw import record_of, text_of
from plugins.polymarket.settings import PolymarketSettings

log = structlog.get_logger(__name__)

SPENDING = "signer.json"
# The venue's client takes seconds to import, and more on a busy machine.
OPEN_S, ANSWER_S = 90.0, 20.0
MOST_BYTES = 65_536
_END_S = 5.0
# The folder of this plugin is on no path there: its modules would hide others of the same name.
START = (
    "import importlib.util as u, sys; s = u.spec_from_file_location('signer', sys.argv[1]); "
    "m = u.module_from_spec(s); sys.modules['signer'] = m; s.loader.exec_module(m); m.main()"
)

Question = Mapping[str, Json]


class Line(Protocol):
    """A line to a signer that takes requests in JSON and answers each."""

    async def ask(self, request: Question, *, within_s: float) -> str:
        """Return the answer; raises Unavailable where none came."""
        ...

    async def aclose(self) -> None:
        """End the signer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A signature that a key controls its address, for the venue's log-in."""

    address: str
    nonce: int
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsigned:
    """What is to be signed: amounts in millionths of a dollar and of a share, times as the venue wants them."""

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
class Signed:
    """A signed order as it is posted, under its hash."""

    hash: str
    order: Mapping[str, Json]


class Child:
    """Implements Line with a process of its own, started by the first request."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: Process | None = None

    async def ask(self, request: Question, *, within_s: float) -> str:
        """Return the answer; a child that is dead or silent is ended, and the next request starts another."""
        try:
            async with asyncio.timeout(within_s):
                process = self._process or await self._start()
                answer = await _exchanged(process, json.dumps(request) + "\n")
        except BaseException as error:
            # Also where the caller was cancelled: an answer that came later would be taken for that to the next one.
            await self._end(patience_s=0.0)
            if isinstance(error, OSError | ValueError):  # TimeoutError is an OSError
                why = f"{type(error).__name__}" if str(error) == "" else str(error)
                message = f"the signer did not answer ({why}): nothing was signed, nothing was sent; it is started anew"
                raise Unavailable(message) from None
            raise
        return answer

    @property
    def pid(self) -> int | None:
        """The number of the process, None where there is none."""
        return None if self._process is None else self._process.pid

    async def aclose(self) -> None:
        """End the child, at once if it must be."""
        await self._end(patience_s=_END_S)

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
                START,
                str(Path(signer.__file__)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={},
                limit=MOST_BYTES,
                # Ctrl-C is for the daemon, which may still need it to take its orders back.
                start_new_session=True,
            )
        except OSError as error:
            message = f"the signer cannot be started with {self._python}: {error.strerror}; see signer_python"
            raise ConfigError(message) from error
        return self._process


class Signer:
    """Has things signed, one at a time. ``address`` is that of the key once it is open.

    ``opening`` is what it is opened with, None where settings do not say it: then nothing is signed.
    """

    def __init__(self, opening: Question | None, line: Line) -> None:
        self._opening = opening
        self._line = line
        self._turn = asyncio.Lock()
        self._is_open = False
        self.address = ""
        self.is_derived = False

    async def open(self) -> str:
        """Return the address of the key. Errors as those of ``order``."""
        async with self._turn:
            await self._opened()
        return self.address

    async def login(self, timestamp: int) -> Login:
        """Return a signature for the venue's log-in at that second."""
        said = await self._asked({"do": "login", "timestamp": timestamp})
        nonce = said.get("nonce")
        address, signature = text_of(said.get("address")), text_of(said.get("signature"))
        if not isinstance(nonce, int) or not address or not signature:
            message = "the signer's answer to a log-in is not whole"
            raise ContractError(message)
        return Login(address=address, nonce=nonce, signature=signature)

    async def order(self, unsigned: Unsigned, *, is_look: bool = False) -> Signed:
        """Return the signed order; for a look the same without a signature, which counts for no cap of a day.

        Raises Rejected where the signer refuses it, Unauthorized for a key that cannot be used, ConfigError where the
        venue's client is missing, Unavailable where the day is used up, or where it did not answer, after which it is
        started anew.
        """
        said = await self._asked(
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
                "look": is_look,
            }
        )
        order, number = said.get("order"), text_of(said.get("hash"))
        if not isinstance(order, dict) or not number:
            message = "the signer's answer to an order is not whole"
            raise ContractError(message)
        return Signed(hash=number, order=order)

    async def aclose(self) -> None:
        """End the signer; the next request would begin another."""
        self._is_open = False
        await self._line.aclose()

    async def _asked(self, request: Question) -> Mapping[str, Any]:
        async with self._turn:
            await self._opened()
            return await self._said(request, ANSWER_S)

    async def _opened(self) -> None:
        if self._is_open:
            return
        if self._opening is None:
            message = "key_file and wallet are not set in [venues.polymarket.settings]; nothing is traded without"
            raise Unauthorized(message)
        said = await self._said(self._opening, OPEN_S)
        self.address, self.is_derived = text_of(said.get("address")), said.get("is_derived") is True
        self._is_open = True
        log.info("the signer is open", venue="polymarket", address=self.address)

    async def _said(self, request: Question, within_s: float) -> Mapping[str, Any]:
        try:
            answer = await self._line.ask(request, within_s=within_s)
            told = json.loads(answer)
        except BaseException as error:
            self._is_open = False
            if isinstance(error, ValueError):
                await self._line.aclose()
                message = "the signer's answer is no JSON: nothing was sent; it is started anew"
                raise Unavailable(message) from None
            raise
        said = record_of(told)
        if "ok" in said:
            return record_of(said["ok"])
        raise _error(text_of(said.get("kind")), text_of(said.get("error")))


def signer_of(settings: PolymarketSettings, folder: Path) -> Signer:
    """Return a signer that is not started yet."""
    python = sys.executable if settings.signer_python is None else str(settings.signer_python)
    return Signer(opening_of(settings, folder), Child(python))


def opening_of(settings: PolymarketSettings, folder: Path) -> Question | None:
    """Return what a signer is opened with, None where key or wallet are not set."""
    if settings.key_file is None or not settings.wallet:
        return None
    return {
        "do": "open",
        "key_file": str(settings.key_file),
        "wallet": settings.wallet,
        "wallet_type": settings.wallet_type,
        "spending": str(folder / SPENDING),
        "per_order": str(settings.signer_per_order),
        "per_day": str(settings.signer_per_day),
    }


async def _exchanged(process: Process, line: str) -> str:
    if process.stdin is None or process.stdout is None:
        message = "it has no ears"
        raise ValueError(message)
    process.stdin.write(line.encode())
    await process.stdin.drain()
    answer = await process.stdout.readline()
    if not answer.endswith(b"\n"):
        message = "it has ended"
        raise ValueError(message)
    return answer.decode()


def _error(kind: str, message: str) -> FoxcastError:
    said = f"signer: {message or 'no reason given'}"
    match kind:
        case signer.LATER:
            return Unavailable(said)
        case signer.UNAUTHORIZED:
            return Unauthorized(said)
        case signer.CONFIG:
            return ConfigError(said)
    return Rejected(said)
