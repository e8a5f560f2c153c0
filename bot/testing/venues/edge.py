"""Answers before they leave: caught whole, cached as an edge server does, and spoilt where a fault says so."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from bot.testing.venues.faults import Fault, Trouble

if TYPE_CHECKING:
    from bot.domain.step import Json
    from bot.ports import Clock

# What is kept of a venue: addresses, and bytes of these with their answers. Most addresses are asked once only: a
# client that wants no old answer puts a new number into each. In a year such answers would fill the memory.
_KEPT, _KEPT_BYTES = 2_000, 64_000_000
_AGE = re.compile(r"(max-age|stale-while-revalidate)=(\d+)")
_HIDDEN = frozenset({"content-length", "transfer-encoding"})

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer; where ``cut``, half of the body goes out and the connection ends."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False

    def header(self, name: str) -> str:
        """Return the value of a header, "" where there is none."""
        return next((value for key, value in self.headers if key == name), "")

    async def deliver(self, send: Callable[[Message], Awaitable[None]], *, date: str) -> None:
        """Send it, under the venue's own date."""
        headers = [*self.headers, ("content-length", str(len(self.body))), ("date", date)]
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        part = self.body[: len(self.body) // 2] if self.cut else self.body
        await send({"type": "http.response.body", "body": part, "more_body": self.cut})


async def capture(app: App, scope: Mapping[str, Any], body: bytes) -> Answer:
    """Return what an application answers to a request with that body."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"])
    return Answer(
        status=start["status"],
        headers=tuple((name, value) for name, value in pairs if name not in _HIDDEN),
        body=b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Answer
    at_s: float
    size: int


class Edge:
    """A cache by address that keeps the rules of Cache-Control: fresh for max-age, then once more while it asks anew.

    What carries no max-age is not served from here, but is remembered for the fault STALE. What was answered longest
    ago is forgotten first, once there are too many addresses or more than ``most_bytes`` of all.
    """

    def __init__(self, clock: Clock, *, most_bytes: int = _KEPT_BYTES) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[str, _Kept] = {}

    async def get(self, target: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return an answer from the cache, or ask for it."""
        kept = self._kept.get(target)
        if kept is None:
            return await self._anew(target, ask)
        ages = {name: int(value) for name, value in _AGE.findall(kept.answer.header("cache-control"))}
        age = self._clock.monotonic() - kept.at_s
        fresh_s = ages.get("max-age", 0)
        if age < fresh_s:
            return kept.answer
        answer = await self._anew(target, ask)
        return kept.answer if fresh_s and age < fresh_s + ages.get("stale-while-revalidate", 0) else answer

    def old(self, target: str) -> Answer | None:
        """Return the last answer of an address, however old, None where there was none."""
        kept = self._kept.get(target)
        return None if kept is None else kept.answer

    def note(self, target: str, answer: Answer) -> None:
        """Remember an answer, never to be served but for the fault STALE."""
        if answer.status != 200:
            return
        if target in self._kept:
            self._forget(target)
        self._kept[target] = _Kept(answer, self._clock.monotonic(), len(target) + len(answer.body))
        self._bytes += self._kept[target].size
        while len(self._kept) > _KEPT or self._bytes > self._most_bytes:
            self._forget(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget all answers."""
        self._kept.clear()
        self._bytes = 0

    def _forget(self, target: str) -> None:
        self._bytes -= self._kept.pop(target).size

    async def _anew(self, target: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await ask()
        self.note(target, answer)
        return answer


def spoil(answer: Answer, trouble: Trouble) -> Answer:
    """Return the answer as the fault leaves it: itself where there is nothing to spoil."""
    if trouble.fault is Fault.TRUNCATED:
        return replace(answer, cut=True)
    try:
        value = json.loads(answer.body)
    except ValueError:
        return answer
    if trouble.fault is Fault.ALTERED and trouble.alter is not None:
        changed = trouble.alter(value)
    else:
        changed = {Fault.DUPLICATED: _doubled, Fault.REORDERED: _reversed, Fault.ENLARGED: _enlarged}[trouble.fault](
            value
        )
    # Read anew: a fault may have changed the value in its place.
    return answer if changed == json.loads(answer.body) else replace(answer, body=json.dumps(changed).encode())


def _doubled(value: Json) -> Json:
    """Put each record of each list of objects twice."""
    if isinstance(value, dict):
        return {key: _doubled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_doubled(part) for part in value for _ in range(2 if isinstance(part, dict) else 1)]
    return value


def _reversed(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reversed(part) for key, part in value.items()}
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return [_reversed(part) for part in reversed(value)]
    return value


def _enlarged(value: Json) -> Json:
    """Put fields that nobody knows into every object."""
    if isinstance(value, dict):
        return {**{key: _enlarged(part) for key, part in value.items()}, "zz_unheard_of": {"a": [1, None, "b"]}}
    return [_enlarged(part) for part in value] if isinstance(value, list) else value
