"""Responses of a fake service before they are sent.

Captured whole, cached as an edge server does, and spoilt where a fault says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from bot.core.light_dataclass import dataclass
from bot.simulator.faults import FaultDetails, RequestFault

if TYPE_CHECKING:
    from bot.core.interfaces import Clock
    from bot.core.values import Json

# What is kept of a venue: addresses, and their responses up to this many bytes. Most addresses are requested only once:
# a client that wants no old response puts a new number into each. Within a year such responses would fill the memory.
_MAX_ENTRIES, _MAX_BYTES = 2_000, 64_000_000
_AGE = re.compile(r"(max-age|stale-while-revalidate)=(\d+)")
_HIDDEN = frozenset({"content-length", "transfer-encoding"})

AsgiMessage: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """A whole response; where ``cut``, half of the body is sent and the connection ends."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False

    def header(self, name: str) -> str:
        """Return the value of a header, "" where there is none."""
        return next((value for key, value in self.headers if key == name), "")

    async def deliver(self, send: Callable[[AsgiMessage], Awaitable[None]], *, date: str) -> None:
        """Send it, under the venue's own date."""
        headers = [*self.headers, ("content-length", str(len(self.body))), ("date", date)]
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        part = self.body[: len(self.body) // 2] if self.cut else self.body
        await send({"type": "http.response.body", "body": part, "more_body": self.cut})


async def capture_response(app: AsgiApp, scope: Mapping[str, Any], body: bytes) -> CapturedResponse:
    """Return an application's response to a request with that body."""
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"])
    return CapturedResponse(
        status=start["status"],
        headers=tuple((name, value) for name, value in pairs if name not in _HIDDEN),
        body=b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
    )


@dataclass(frozen=True, slots=True)
class _CachedResponse:
    answer: CapturedResponse
    at_s: float
    size: int


class EdgeCache:
    """A cache by address that keeps the rules of Cache-Control.

    fresh for max-age, then served once more during revalidation.

    Responses without max-age are not served from here, but are remembered for the fault STALE. The oldest responses are
    forgotten first, once there are too many addresses or more than ``most_bytes`` of all.
    """

    def __init__(self, clock: Clock, *, most_bytes: int = _MAX_BYTES) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[str, _CachedResponse] = {}

    async def get(self, target: str, fetch: Callable[[], Awaitable[CapturedResponse]]) -> CapturedResponse:
        """Return a response from the cache, or request it."""
        kept = self._kept.get(target)
        if kept is None:
            return await self._fetch_anew(target, fetch)
        ages = {name: int(value) for name, value in _AGE.findall(kept.answer.header("cache-control"))}
        age = self._clock.monotonic() - kept.at_s
        fresh_s = ages.get("max-age", 0)
        if age < fresh_s:
            return kept.answer
        answer = await self._fetch_anew(target, fetch)
        return kept.answer if fresh_s and age < fresh_s + ages.get("stale-while-revalidate", 0) else answer

    def get_stale(self, target: str) -> CapturedResponse | None:
        """Return the last response of an address, however old, None where there was none."""
        kept = self._kept.get(target)
        return None if kept is None else kept.answer

    def remember(self, target: str, answer: CapturedResponse) -> None:
        """Remember a response, to be served only for the fault STALE."""
        if answer.status != 200:
            return
        if target in self._kept:
            self._forget_entry(target)
        self._kept[target] = _CachedResponse(answer, self._clock.monotonic(), len(target) + len(answer.body))
        self._bytes += self._kept[target].size
        while len(self._kept) > _MAX_ENTRIES or self._bytes > self._most_bytes:
            self._forget_entry(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget all responses."""
        self._kept.clear()
        self._bytes = 0

    def _forget_entry(self, target: str) -> None:
        self._bytes -= self._kept.pop(target).size

    async def _fetch_anew(self, target: str, fetch: Callable[[], Awaitable[CapturedResponse]]) -> CapturedResponse:
        answer = await fetch()
        self.remember(target, answer)
        return answer


def spoil_response(answer: CapturedResponse, details: FaultDetails) -> CapturedResponse:
    """Return the response after the fault: unchanged where there is nothing to spoil."""
    if details.fault is RequestFault.TRUNCATED:
        return replace(answer, cut=True)
    try:
        value = json.loads(answer.body)
    except ValueError:
        return answer
    if details.fault is RequestFault.ALTERED and details.alter is not None:
        changed = details.alter(value)
    else:
        changed = {
            RequestFault.DUPLICATED: _double_records,
            RequestFault.REORDERED: _reverse_records,
            RequestFault.ENLARGED: _add_unknown_fields,
        }[details.fault](value)
    # Read again: a fault may have changed the value in its place.
    return answer if changed == json.loads(answer.body) else replace(answer, body=json.dumps(changed).encode())


def _double_records(value: Json) -> Json:
    """Put each record of each list of objects twice."""
    if isinstance(value, dict):
        return {key: _double_records(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_double_records(part) for part in value for _ in range(2 if isinstance(part, dict) else 1)]
    return value


def _reverse_records(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reverse_records(part) for key, part in value.items()}
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return [_reverse_records(part) for part in reversed(value)]
    return value


def _add_unknown_fields(value: Json) -> Json:
    """Put unknown fields into every object."""
    if isinstance(value, dict):
        return {
            **{key: _add_unknown_fields(part) for key, part in value.items()},
            "zz_unheard_of": {"a": [1, None, "b"]},
        }
    return [_add_unknown_fields(part) for part in value] if isinstance(value, list) else value
