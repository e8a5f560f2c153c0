"""The record of one trial: what it asked and was told, written before it is used, and told again when asked again.

The same question is answered from the record in any order, counted by how often it was asked. What went wrong is
recorded too, so that a trial that is taken up or replayed sees the same. What was cancelled was not told.

A trial may also be begun anew on its record: then what went wrong and may have been mended since is asked again, as the
next one of its kind, and so is what was told under another configuration of the desk. Pages that could not be read
stay so.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.errors import (
    BudgetExhausted,
    ConfigError,
    ContextExceeded,
    ContractError,
    FoxcastError,
    LeakError,
    LimitReached,
    NotFound,
    QuotaExhausted,
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
    kind.__name__: kind
    for kind in (
        *(BudgetExhausted, ConfigError, ContextExceeded, ContractError, LeakError, NotFound),
        *(QuotaExhausted, Rejected, Unauthorized),
    )
}
# What a person or time may mend.
_PASSING = frozenset(
    kind.__name__
    for kind in (
        *(BudgetExhausted, ConfigError, LimitReached, QuotaExhausted),
        *(Rejected, Unauthorized, Unavailable),
    )
)
# What stands all the same when a trial is begun anew: most pages that fail do so always, and one that is there this
# time would make every prompt after it another one, to be paid again.
_STANDING = frozenset({"page"})
# What other tools or other models would have told otherwise. What engines and sources told stands: it is named by all
# that they were asked.
_OF_DESK = frozenset({"desk", "dialect", "model", "time", "tool"})
# What a replay lacks, where the name of the kind would say something else.
_SOUGHT = {"model": "this call to a model", "tool": "this use of a tool", "dialect": "how a model is asked"}


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
    """The exchanges of a trial, open at the place where it stands; ``sealed`` says that nothing may be added.

    ``under`` is the digest of the desk's configuration, which is written down with what depends on it.
    """

    exchanges: Exchanges
    scope: str
    trial: int
    clock: Clock
    sealed: bool
    under: str = ""
    known: dict[ExchangeKey, Exchange] = field(default_factory=dict)
    _passed_over: set[ExchangeKey] = field(default_factory=set)
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    _waiting: dict[ExchangeKey, str] = field(default_factory=dict)

    async def load(self) -> None:
        """Read what is on record; of a sealed one what a forecaster hears, for no tool will ask what it asked then."""
        self.known.update(await self.exchanges.of(self.scope, self.trial, _OF_DESK if self.sealed else None))

    def begin_anew(self) -> None:
        """Pass over what was told under another configuration, what may have been mended, and what rests on that.

        A result rests on a fault that it failed for, and on any of a model: what is read without one is less.
        """
        bodies = {key: json.loads(exchange.body) for key, exchange in self.known.items()}
        passing = {key for key, body in bodies.items() if body.get("fault") in _PASSING}
        faults = {key for key in passing if key.kind not in _STANDING}
        others = {key for key, body in bodies.items() if key.kind in _OF_DESK and body.get("under", "") != self.under}
        results = {key: body["told"] for key, body in bodies.items() if key.kind == "tool" and "told" in body}
        spoilt = {key for key, told in results.items() if _rests_on(told, faults)}
        self._passed_over = faults | others | spoilt

    def of_kind(self, kind: str) -> list[Any]:
        """Return everything of a kind that was told without a fault and is not passed over, as plain values."""
        keys = (key for key in self.known if key.kind == kind and key not in self._passed_over)
        bodies = (json.loads(self.known[key].body) for key in keys)
        return [body["told"] for body in bodies if "told" in body]

    async def through(
        self, kind: str, asked: str, make: Callable[[int], Awaitable[Any]], *, names: list[str] | None = None
    ) -> Told:
        """Tell what is on record under the digest ``asked``, or else what ``make`` brings, once that is on record.

        ``make`` is given the number of the exchange, counted from 0 without those passed over; its name is added to
        ``names``. Raises what ``make`` raises (again, from the record), StoreError, and NotFound where the record is
        sealed and ends before.
        """
        key = self._next(kind, asked, self._asked[kind, asked])
        self._asked[kind, asked] = key.nth + 1
        if names is not None:
            names.append(key_text(key))
        if (exchange := self.known.get(key)) is not None:
            return _opened(key, exchange)
        if self.sealed:
            what = _SOUGHT.get(kind, f"this {kind}")
            message = f"trial {self.trial} of {self.scope}: {what} is not on record, and a replay asks nobody"
            raise NotFound(message)
        try:
            await self._flush()
            body = await _body(make(self._number(key)), self._head(kind))
        except BaseException:
            # Nothing was told, so it does not count: asking again is asking for the first time.
            self._asked[kind, asked] -= self._asked[kind, asked] == key.nth + 1
            raise
        return _opened(key, await self._add(key, body))

    def at_once(self, kind: str, asked: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - the JSON edge
        """Tell what needs no waiting, once for all; it is on record before anything that follows from it."""
        key = self._next(kind, asked, 0)
        if key not in self.known:
            if self.sealed:
                message = f"trial {self.trial} of {self.scope}: no {kind} is on record"
                raise NotFound(message)
            body = _sync_body(make, self._head(kind))
            self.known[key] = Exchange(digest=digest(body.encode()), body=body)
            self._waiting[key] = body
        return _opened(key, self.known[key]).plain

    def holds(self, kind: str, asked: str) -> bool:
        """Say whether what needs no waiting is on record."""
        return self._next(kind, asked, 0) in self.known

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

    def _next(self, kind: str, asked: str, nth: int) -> ExchangeKey:
        key = ExchangeKey(kind, asked, nth)
        while key in self._passed_over:
            key = ExchangeKey(kind, asked, key.nth + 1)
        return key

    def _number(self, key: ExchangeKey) -> int:
        # So the first to be told has the same number with a fault before it as without, and costs nothing twice.
        if not self._passed_over:
            return key.nth
        return sum(ExchangeKey(key.kind, key.key, nth) not in self._passed_over for nth in range(key.nth))

    def _head(self, kind: str) -> dict[str, str]:
        return {"under": self.under} if self.under and kind in _OF_DESK else {}

    async def _flush(self) -> None:
        while self._waiting:
            waiting = dict(self._waiting)
            await self.exchanges.add_all(self.scope, self.trial, waiting, at=self.clock.now())
            # Another one that was asked at the same time may have written the same.
            for key in waiting:
                self._waiting.pop(key, None)

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


async def _body(making: Awaitable[Any], head: Mapping[str, str]) -> str:
    try:
        return _BODY.encode({**head, "told": await making})
    except StoreError:
        raise
    except FoxcastError as error:
        return _BODY.encode({**head, **_fault(error)})


def _sync_body(make: Callable[[], Any], head: Mapping[str, str]) -> str:
    try:
        return _BODY.encode({**head, "told": make()})
    except FoxcastError as error:
        return _BODY.encode({**head, **_fault(error)})


def _rests_on(result: Mapping[str, Any], faults: set[ExchangeKey]) -> bool:
    """Say whether a recorded use of a tool came out as it did because of one of these faults."""
    beneath = [key for key in map(key_from, result.get("names", ())) if key in faults]
    return any(key.kind == "model" for key in beneath) or (bool(beneath) and result["result"].get("failed", False))


def _fault(error: FoxcastError) -> dict[str, Any]:
    if isinstance(error, Unavailable):
        return {"fault": "Unavailable", "says": str(error), "retry_after_s": error.retry_after_s}
    if isinstance(error, LimitReached):
        return {"fault": "LimitReached", "says": str(error), "limit": error.limit}
    # The exact class where it is one of these: a subclass would else be told as its parent.
    exact = type(error).__name__
    kind = next((name for name, kind in _FAULTS.items() if isinstance(error, kind)), ContractError.__name__)
    kind = exact if exact in _FAULTS else kind
    return {"fault": kind, "says": str(error)}


def _opened(key: ExchangeKey, exchange: Exchange) -> Told:
    # Also what was told just now is read back from its text, so that it is the same when told again.
    body = json.loads(exchange.body)
    match body.get("fault"):
        case None:
            return Told(key, exchange.digest, body["told"])
        case "Unavailable":
            raise Unavailable(body["says"], retry_after_s=body["retry_after_s"])
        case "LimitReached":
            raise LimitReached(body["says"], limit=body["limit"])
        case fault:
            raise _FAULTS[fault](body["says"])
