"""The record of one trial.

Each request to a model, tool or source is recorded with its reply. When the trial is repeated, resumed or replayed,
the request is answered from the record.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from types import TracebackType
from typing import Any, Self

from bot.core.errors import (
    AuthenticationError,
    BudgetExhaustedError,
    ConfigError,
    ContextLengthExceededError,
    FoxcastError,
    LeakError,
    MalformedDataError,
    NotFoundError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
    TrialLimitReachedError,
)
from bot.core.ids import sha256_hex
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.store.evidence import DocumentStore
from bot.store.serialization import sanitize_text
from bot.store.trials import (
    RECORDING_SERIALIZER,
    RecordedResponse,
    RecordingBatch,
    RecordingKey,
    RecordingStore,
    pack_recordings,
)

_REQUEST_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


# Failures that a person or time may resolve.
_TRANSIENT_FAULTS = frozenset(
    kind.__name__
    for kind in (
        *(BudgetExhaustedError, ConfigError, TrialLimitReachedError, QuotaExhaustedError),
        *(RequestRejectedError, AuthenticationError, ServiceUnavailableError),
    )
)


_FAULT_TYPES: dict[str, type[FoxcastError]] = {
    kind.__name__: kind
    for kind in (
        *(BudgetExhaustedError, ConfigError, ContextLengthExceededError, MalformedDataError, LeakError, NotFoundError),
        *(QuotaExhaustedError, RequestRejectedError, AuthenticationError),
    )
}


# Failures that are kept when a trial begins again: most pages that fail do so always, and a page that now succeeds
# would change every prompt after it, which would be paid for again.
_KEPT_FAULT_KINDS = frozenset({"page"})


# Replies that depend on the configured tools and models. Replies of engines and sources do not: their requests name
# everything that they depend on.
_CONFIGURED_KINDS = frozenset({"opening", "dialect", "model", "time", "tool"})


# What a message calls a missing exchange, if the name of its kind is not clear.
_KIND_LABELS = {"model": "this call to a model", "tool": "this use of a tool", "dialect": "how a model is asked"}


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A recorded reply, as plain JSON values, with the name and the digest of the exchange."""

    key: RecordingKey
    digest: str
    value: Any


@dataclass(slots=True)
class OpenExchange:
    """A running exchange, or one from the record, as ``TrialRecording.exchange`` describes it.

    It is new if nothing is ``recorded``. ``number`` counts from 0, without skipped ones. The caller sets
    ``is_reference`` for a ``value`` that only names a reply on record elsewhere: it is recorded in one write with what
    is recorded next.
    """

    record: "TrialRecording"
    key: RecordingKey
    number: int
    with_next: bool
    recorded: RecordedReply | None
    value: Any = None
    is_reference: bool = False

    async def __aenter__(self) -> Self:
        """Begin a new exchange."""
        if self.recorded is None:
            await self.record.begin_exchange(self)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Record the reply of a new exchange, or the error that was raised."""
        if self.recorded is None:
            self.recorded = await self.record.end_exchange(self, error)

    @property
    def reply(self) -> RecordedReply:
        """Its recorded reply, once it is over."""
        if self.recorded is None:
            message = "the exchange is not over"
            raise StoreError(message)
        return self.recorded


def request_digest(asked: object) -> str:
    """Return the digest of a request, given as plain JSON values; raises MalformedDataError for other values."""
    try:
        text = _REQUEST_ENCODER.encode(asked)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the request cannot be written as JSON: {error}"
        raise MalformedDataError(message) from error
    return sha256_hex(text.encode())


@dataclass(slots=True)
class TrialRecording:
    """The exchanges of a trial, read up to its present position; ``read_only`` forbids adding any.

    ``configuration`` is the digest of the configuration of the trial context, which is recorded with replies that
    depend on it. ``under_way`` counts the tools and models that are being asked.
    """

    exchanges: RecordingStore
    scope: str
    trial: int
    clock: Clock
    read_only: bool
    configuration: str = ""
    under_way: int = 0
    exchanges_by_key: dict[RecordingKey, RecordedResponse] = field(default_factory=dict)
    # Documents that steps may cite, besides the exchanges: texts, and records of model calls.
    documents: set[str] = field(default_factory=set)
    _kinds: set[str] = field(default_factory=set)
    _discarded: set[RecordingKey] = field(default_factory=set)
    _request_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _unwritten: dict[RecordingKey, str] = field(default_factory=dict)
    # Nothing would be lost with them, so they wait for the next write.
    _references: dict[RecordingKey, str] = field(default_factory=dict)

    async def load(self) -> None:
        """Read the record; of a sealed one only the exchanges of the forecaster, since no tool repeats its requests."""
        self.exchanges_by_key.update(
            await self.exchanges.read_trial(self.scope, self.trial, _CONFIGURED_KINDS if self.read_only else None)
        )
        self._kinds.update([key.kind for key in self.exchanges_by_key])

    def discard_stale(self) -> None:
        """Skip replies made under another configuration, failures that may be resolved, and what depends on them.

        A result depends on a fault that made it fail, and on any fault of a model, without which less is read.
        """
        bodies = {key: json.loads(exchange.body) for key, exchange in self.exchanges_by_key.items()}
        transient = {key for key, body in bodies.items() if body.get("fault") in _TRANSIENT_FAULTS}
        faults = {key for key in transient if key.kind not in _KEPT_FAULT_KINDS}
        others = {
            key
            for key, body in bodies.items()
            if key.kind in _CONFIGURED_KINDS and body.get("configuration", "") != self.configuration
        }
        results = {key: body["value"] for key, body in bodies.items() if key.kind == "tool" and "value" in body}
        dependent = {key for key, value in results.items() if _depends_on_fault(value, faults)}
        self._discarded = faults | others | dependent

    def values_of_kind(self, kind: str) -> list[Any]:
        """Return all replies of a kind without a fault that are not skipped, as plain values."""
        keys = (key for key in self.exchanges_by_key if key.kind == kind and key not in self._discarded)
        bodies = (json.loads(self.exchanges_by_key[key].body) for key in keys)
        return [body["value"] for body in bodies if "value" in body]

    def exchange(
        self, kind: str, asked: str, *, names: list[str] | None = None, with_next: bool = False
    ) -> OpenExchange:
        """Enter the exchange with the digest ``asked``; the caller sets the reply of one that is new.

        Its ``reply`` is available afterwards; the reply, or the error that was raised, is on record then. With
        ``with_next`` it is recorded in one write with the next reply, and before anybody is asked again. Its name is
        added to ``names``. Raises the error raised inside (again, from the record), StoreError, and NotFoundError if a
        sealed record ends before.
        """
        key = self._next_key(kind, asked, self._request_counts[kind, asked])
        self._request_counts[kind, asked] = key.nth + 1
        if names is not None:
            names.append(format_exchange_key(key))
        known = self.exchanges_by_key.get(key)
        if known is None and self.read_only:
            what = _KIND_LABELS.get(kind, f"this {kind}")
            message = f"trial {self.trial} of {self.scope}: {what} is not on record, and a replay asks nobody"
            raise NotFoundError(message)
        recorded = None if known is None else _decode_exchange(key, known)
        number = self._exchange_number(key) if self._discarded else key.nth
        return OpenExchange(self, key, number, with_next, recorded)

    async def begin_exchange(self, exchange: OpenExchange) -> None:
        """Write what has to be on record before anybody is asked."""
        try:
            while self._unwritten:
                await self._write({})
        except BaseException:
            self._uncount(exchange.key)
            raise

    async def end_exchange(self, exchange: OpenExchange, error: BaseException | None) -> RecordedReply | None:
        """Record how a new exchange ended, and return its reply; None for an ``error`` that is not recorded."""
        key = exchange.key
        if error is not None and (isinstance(error, StoreError) or not isinstance(error, FoxcastError)):
            self._uncount(key)
            return None
        try:
            body = self._encode_reply(exchange, error)
        except BaseException:
            self._uncount(key)
            raise
        if exchange.is_reference:
            return RecordedReply(key, self._add_later(key, body, self._references).digest, exchange.value)
        waits = exchange.with_next
        response = self._add_later(key, body, self._unwritten) if waits else await self._add(key, body)
        return _decode_exchange(key, response)

    def _encode_reply(self, exchange: OpenExchange, error: FoxcastError | None) -> str:
        header = self._header(exchange.key.kind)
        if error is None:
            try:
                return RECORDING_SERIALIZER.encode({**header, "value": exchange.value})
            except StoreError:
                raise
            except FoxcastError as unwritable:
                error = unwritable
        exchange.is_reference = False
        return RECORDING_SERIALIZER.encode({**header, **_fault_fields(error)})

    def _uncount(self, key: RecordingKey) -> None:
        # There was no reply, so it does not count: asking again is asking for the first time.
        count = self._request_counts[key.kind, key.key]
        self._request_counts[key.kind, key.key] = count - (count == key.nth + 1)

    async def replay_or_run(
        self,
        kind: str,
        asked: str,
        make: Callable[[], Awaitable[Any]],
        *,
        names: list[str] | None = None,
        with_next: bool = False,
    ) -> RecordedReply:
        """Return the recorded reply, or else the result of ``make`` once it is on record; as ``exchange`` otherwise."""
        async with self.exchange(kind, asked, names=names, with_next=with_next) as exchange:
            if exchange.recorded is None:
                exchange.value = await make()
        return exchange.reply

    def replay_or_compute(self, kind: str, asked: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - the JSON edge
        """Return a reply that needs no waiting, computed once; it is on record before anything that depends on it."""
        key = self._next_key(kind, asked, 0)
        if key not in self.exchanges_by_key:
            if self.read_only:
                message = f"trial {self.trial} of {self.scope}: no {kind} is on record"
                raise NotFoundError(message)
            self._add_later(key, _encode_sync_result(make, self._header(kind)), self._unwritten)
            self._kinds.add(kind)
        return _decode_exchange(key, self.exchanges_by_key[key]).value

    def has_exchange(self, kind: str, asked: str) -> bool:
        """Say whether a reply that needs no waiting is on record."""
        return kind in self._kinds and self._next_key(kind, asked, 0) in self.exchanges_by_key

    def may_have(self, kind: str) -> bool:
        """Say whether any reply of a kind that needs no waiting may be on record."""
        return kind in self._kinds

    def mark_replayed(self, keys: tuple[str, ...]) -> None:
        """Count exchanges as asked that are part of one that was answered from the record."""
        for key in map(parse_exchange_key, keys):
            self._request_counts[key.kind, key.key] = max(self._request_counts[key.kind, key.key], key.nth + 1)

    def recorded_value(self, key: str) -> Any:  # noqa: ANN401 - the JSON edge
        """Return the reply of a recorded exchange; raises NotFoundError."""
        exchange = self.exchanges_by_key.get(parse_exchange_key(key))
        if exchange is None:
            message = f"trial {self.trial} of {self.scope}: no exchange {key} on record"
            raise NotFoundError(message)
        return _decode_exchange(parse_exchange_key(key), exchange).value

    async def store_text(self, text: str, documents: DocumentStore) -> str:
        """Put a text on record and return its digest; lone surrogates become U+FFFD. A replay stores nothing."""
        content = sanitize_text(text).encode()
        if self.read_only:
            return sha256_hex(content)
        digest = await documents.put(content, "text/plain", scope=self.scope)
        self.documents.add(digest)
        return digest

    def find_unrecorded(self, documents: Iterable[str]) -> list[str]:
        """Return those documents that this trial has not recorded; a step must not cite them."""
        unknown = [digest for digest in documents if digest not in self.documents]
        if not unknown:
            return []
        self.documents.update(exchange.digest for exchange in self.exchanges_by_key.values())
        return [digest for digest in unknown if digest not in self.documents]

    def _next_key(self, kind: str, asked: str, nth: int) -> RecordingKey:
        key = RecordingKey(kind, asked, nth)
        while key in self._discarded:
            key = RecordingKey(kind, asked, key.nth + 1)
        return key

    def _exchange_number(self, key: RecordingKey) -> int:
        # So the first successful one has the same number with and without an earlier fault, and is not paid twice.
        return sum(RecordingKey(key.kind, key.key, nth) not in self._discarded for nth in range(key.nth))

    def _header(self, kind: str) -> dict[str, str]:
        return {"configuration": self.configuration} if self.configuration and kind in _CONFIGURED_KINDS else {}

    def _add_later(self, key: RecordingKey, body: str, waiting: dict[RecordingKey, str]) -> RecordedResponse:
        waiting[key] = body
        self.exchanges_by_key[key] = RecordedResponse(digest=sha256_hex(body.encode()), body=body)
        return self.exchanges_by_key[key]

    async def _add(self, key: RecordingKey, body: str) -> RecordedResponse:
        digest = await self._write({key: body})
        self.exchanges_by_key[key] = RecordedResponse(digest=digest, body=body)
        return self.exchanges_by_key[key]

    async def write_waiting(self) -> None:
        """Write what waits for the next write; the end of the trial comes after it. Raises StoreError."""
        while self._unwritten or self._references:
            await self._write({})

    async def pack_waiting(self) -> RecordingBatch | None:
        """Return what waits for the next write, to be written before a step in one transaction; None if nothing does.

        It waits until ``forget_waiting``.
        """
        if not (self._unwritten or self._references):
            return None
        waiting = {key: self.exchanges_by_key[key] for key in (*self._unwritten, *self._references)}
        return await pack_recordings(self.scope, self.trial, waiting, at=self.clock.now())

    def forget_waiting(self, batch: RecordingBatch) -> None:
        """Take note that a batch is on record."""
        self._forget(batch.answers)

    async def _write(self, bodies: Mapping[RecordingKey, str]) -> str:
        """Write what waits to be written, then these bodies; return the digest of the last."""
        unwritten = self._unwritten | self._references
        digests = await self.exchanges.add_all(self.scope, self.trial, {**unwritten, **bodies}, at=self.clock.now())
        self._forget(unwritten)
        return digests[-1]

    def _forget(self, written: Iterable[RecordingKey]) -> None:
        # A concurrent exchange may have written the same.
        for key in written:
            self._unwritten.pop(key, None)
            self._references.pop(key, None)


def format_exchange_key(key: RecordingKey) -> str:
    """Return the name of an exchange within its trial as text."""
    return f"{key.kind} {key.key} {key.nth}"


def parse_exchange_key(text: str) -> RecordingKey:
    """Parse the text that ``format_exchange_key`` wrote."""
    kind, asked, nth = text.split(" ")
    return RecordingKey(kind, asked, int(nth))


def _encode_sync_result(make: Callable[[], Any], header: Mapping[str, str]) -> str:
    try:
        return RECORDING_SERIALIZER.encode({**header, "value": make()})
    except FoxcastError as error:
        return RECORDING_SERIALIZER.encode({**header, **_fault_fields(error)})


def _depends_on_fault(result: Mapping[str, Any], faults: set[RecordingKey]) -> bool:
    """Say whether one of these faults changed the recorded result of a tool."""
    faulty_keys = [key for key in map(parse_exchange_key, result.get("names", ())) if key in faults]
    return any(key.kind == "model" for key in faulty_keys) or (
        bool(faulty_keys) and result["result"].get("failed", False)
    )


def _fault_fields(error: FoxcastError) -> dict[str, Any]:
    if isinstance(error, ServiceUnavailableError):
        return {"fault": "ServiceUnavailableError", "message": str(error), "retry_after_s": error.retry_after_s}
    if isinstance(error, TrialLimitReachedError):
        return {"fault": "TrialLimitReachedError", "message": str(error), "limit": error.limit}
    # The exact class if it is one of these: a subclass would otherwise be raised again as its parent.
    exact = type(error).__name__
    kind = next((name for name, kind in _FAULT_TYPES.items() if isinstance(error, kind)), MalformedDataError.__name__)
    kind = exact if exact in _FAULT_TYPES else kind
    return {"fault": kind, "message": str(error)}


def _decode_exchange(key: RecordingKey, exchange: RecordedResponse) -> RecordedReply:
    # New replies are read back from their text too, so that they are the same when they are repeated.
    body = json.loads(exchange.body)
    match body.get("fault"):
        case None:
            return RecordedReply(key, exchange.digest, body["value"])
        case "ServiceUnavailableError":
            raise ServiceUnavailableError(body["message"], retry_after_s=body["retry_after_s"])
        case "TrialLimitReachedError":
            raise TrialLimitReachedError(body["message"], limit=body["limit"])
        case fault:
            raise _FAULT_TYPES[fault](body["message"])
