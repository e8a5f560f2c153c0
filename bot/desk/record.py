"""The record of one trial: what it asked and was told, written before it is used, and told again when asked again.

The same question is answered from the record in any order, counted by how often it was asked. What went wrong is
recorded too, so that a trial that is taken up or replayed sees the same. What was cancelled was not told.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    LeakError,
    NotFound,
    Rejected,
    StoreError,
    Unauthorized,
    Unavailable,
)
from bot.ids import digest
from bot.ports import Clock
from bot.store.codec import Form
from bot.store.exchanges import Exchange, ExchangeKey, Exchanges

_ASKED = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_BODY: Form[Any] = Form("exchange", Any)
_FAULTS: dict[str, type[FoxcastError]] = {
    kind.__name__: kind for kind in (ConfigError, ContractError, LeakError, NotFound, Rejected, Unauthorized)
}


@dataclass(frozen=True, slots=True)
class Told:
    """What was told, as plain JSON values, with the name and the digest of the exchange."""

    key: ExchangeKey
    digest: str
    plain: Any


def digest_of(asked: object) -> str:
    """Return the digest of what is asked, given as plain JSON values; raises ContractError for what is none."""
    try:
        text = _ASKED.encode(asked)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"what is asked cannot be written down: {error}"
        raise ContractError(message) from error
    return digest(text.encode())


@dataclass(slots=True)
class Record:
    """The exchanges of a trial, open at the place where it stands; ``sealed`` says that nothing may be added."""

    exchanges: Exchanges
    scope: str
    trial: int
    clock: Clock
    sealed: bool
    known: dict[ExchangeKey, Exchange] = field(default_factory=dict)
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    _waiting: list[tuple[ExchangeKey, str]] = field(default_factory=list)

    async def load(self) -> None:
        """Read what is on record."""
        self.known.update(await self.exchanges.of(self.scope, self.trial))

    def of_kind(self, kind: str) -> list[Any]:
        """Return everything of a kind that was told without a fault, as plain values."""
        bodies = (json.loads(exchange.body) for key, exchange in self.known.items() if key.kind == kind)
        return [body["told"] for body in bodies if "told" in body]

    async def through(
        self, kind: str, asked: str, make: Callable[[int], Awaitable[Any]], *, names: list[str] | None = None
    ) -> Told:
        """Tell what is on record under the digest ``asked``, or else what ``make`` brings, once that is on record.

        ``make`` is given the number of the exchange, counted from 0; its name is added to ``names``. Raises what
        ``make`` raises (again, from the record), StoreError, and NotFound where the record is sealed and ends before.
        """
        key = ExchangeKey(kind, asked, self._asked[kind, asked])
        self._asked[kind, asked] += 1
        if names is not None:
            names.append(key_text(key))
        if (exchange := self.known.get(key)) is not None:
            return _opened(key, exchange)
        if self.sealed:
            message = f"trial {self.trial} of {self.scope}: this {kind} is not on record, and a replay asks nobody"
            raise NotFound(message)
        try:
            await self._flush()
            body = await _body(make(key.nth))
        except BaseException:
            # Nothing was told, so it does not count: asking again is asking for the first time.
            self._asked[kind, asked] -= self._asked[kind, asked] == key.nth + 1
            raise
        return _opened(key, await self._add(key, body))

    def at_once(self, kind: str, asked: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - the JSON edge
        """Tell what needs no waiting, once for all; it is on record before anything that follows from it."""
        key = ExchangeKey(kind, asked)
        if key not in self.known:
            if self.sealed:
                message = f"trial {self.trial} of {self.scope}: no {kind} is on record"
                raise NotFound(message)
            body = _sync_body(make)
            self.known[key] = Exchange(digest=digest(body.encode()), body=body)
            self._waiting.append((key, body))
        return _opened(key, self.known[key]).plain

    def holds(self, kind: str, asked: str) -> bool:
        """Say whether what needs no waiting is on record."""
        return ExchangeKey(kind, asked) in self.known

    def count(self, keys: tuple[str, ...]) -> None:
        """Count exchanges as asked that stand inside one that was told from the record."""
        for key in map(key_from, keys):
            self._asked[key.kind, key.key] = max(self._asked[key.kind, key.key], key.nth + 1)

    def told(self, key: str) -> Any:  # noqa: ANN401 - the JSON edge
        """Return what an exchange on record told; raises NotFound."""
        exchange = self.known.get(key_from(key))
        if exchange is None:
            message = f"trial {self.trial} of {self.scope}: no exchange {key} on record"
            raise NotFound(message)
        return _opened(key_from(key), exchange).plain

    async def _flush(self) -> None:
        while self._waiting:
            key, body = self._waiting[0]
            await self.exchanges.add(self.scope, self.trial, key, body, at=self.clock.now())
            if self._waiting and self._waiting[0] == (key, body):
                del self._waiting[0]

    async def _add(self, key: ExchangeKey, body: str) -> Exchange:
        kept = await self.exchanges.add(self.scope, self.trial, key, body, at=self.clock.now())
        self.known[key] = Exchange(digest=kept, body=body)
        return self.known[key]


def key_text(key: ExchangeKey) -> str:
    """Return the name of an exchange within its trial as text."""
    return f"{key.kind} {key.key} {key.nth}"


def key_from(text: str) -> ExchangeKey:
    """Read what ``key_text`` wrote."""
    kind, asked, nth = text.split(" ")
    return ExchangeKey(kind, asked, int(nth))


async def _body(making: Awaitable[Any]) -> str:
    try:
        return _BODY.encode({"told": await making})
    except StoreError:
        raise
    except FoxcastError as error:
        return _BODY.encode(_fault(error))


def _sync_body(make: Callable[[], Any]) -> str:
    try:
        return _BODY.encode({"told": make()})
    except FoxcastError as error:
        return _BODY.encode(_fault(error))


def _fault(error: FoxcastError) -> dict[str, Any]:
    if isinstance(error, Unavailable):
        return {"fault": "Unavailable", "says": str(error), "retry_after_s": error.retry_after_s}
    kind = next((name for name, kind in _FAULTS.items() if isinstance(error, kind)), ContractError.__name__)
    return {"fault": kind, "says": str(error)}


def _opened(key: ExchangeKey, exchange: Exchange) -> Told:
    # Also what was told just now is read back from its text, so that it is the same when told again.
    body = json.loads(exchange.body)
    match body.get("fault"):
        case None:
            return Told(key, exchange.digest, body["told"])
        case "Unavailable":
            raise Unavailable(body["says"], retry_after_s=body["retry_after_s"])
        case fault:
            raise _FAULTS[fault](body["says"])
