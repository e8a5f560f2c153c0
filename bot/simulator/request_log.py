"""The ground truth of a fake service.

The requests it received, their effects, and violations of its rate limits.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    from bot.core.interfaces import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request as received, the ``number``-th from 1; names of headers in lower case, ``query`` as it was written.

    ``at`` is the venue's time, ``at_s`` seconds that never run backwards.
    """

    number: int
    method: str
    path: str
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    at: datetime
    at_s: float

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEffect:
    """A change that a request caused: ``kind`` of change, by whose ``account``, on what ``subject``."""

    request: int
    at: datetime
    kind: str
    account: str
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class EffectLog:
    """Every effect with the request that caused it: the ground truth for counting doubles."""

    def __init__(self) -> None:
        self._effects: list[RequestEffect] = []

    def add(self, effect: RequestEffect) -> None:
        """Note an effect."""
        self._effects.append(effect)

    def effects(
        self, kind: str | None = None, *, account: str | None = None, since: int = 0
    ) -> Sequence[RequestEffect]:
        """Return the effects, of one kind and account where given, oldest first; ``since``: after so many of any."""
        return [
            effect
            for effect in self._effects[since:]
            if kind in {None, effect.kind} and (account is None or account == effect.account)
        ]

    def doubled_effects(self, kind: str, key: Callable[[RequestEffect], Hashable]) -> Mapping[Hashable, int]:
        """Return the keys of more than one effect of the kind, and how many have each."""
        counts = Counter(key(effect) for effect in self.effects(kind))
        return {value: count for value, count in counts.items() if count > 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimit:
    """At most ``count`` requests in any ``per_s`` seconds, of these methods (all where empty) and path prefixes.

    Where ``exact`` names paths, only these count. ``by`` returns the key by which requests are counted together;
    without it all are.
    """

    name: str
    count: int
    per_s: float
    methods: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ("/",)
    exact: frozenset[str] = frozenset()
    by: Callable[[LoggedRequest], str] | None = None

    def holds_for(self, logged: LoggedRequest) -> bool:
        """Return whether a request is counted."""
        if self.methods and logged.method not in self.methods:
            return False
        return logged.path in self.exact if self.exact else logged.path.startswith(self.prefixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitViolation:
    """The request that came too early: the ``count``-th in its window, which is free again in ``wait_s``."""

    limit: str
    request: int
    at: datetime
    count: int
    wait_s: float


class RateLimitChecker:
    """Counts in a sliding window: a request too many is a violation, and refused ones count too.

    ``slack_s`` allows for the network's effect on the distance of two requests. ``most_at_once`` is how many writes
    (all but GET) of one account were under way together.
    """

    def __init__(self, limits: Sequence[RequestLimit], clock: Clock, *, slack_s: float = 0.0) -> None:
        self.limits = tuple(limits)
        self.slack_s = slack_s
        self.violations: list[LimitViolation] = []
        self.most_at_once: Counter[str] = Counter()
        self._clock = clock
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._under_way: Counter[str] = Counter()

    def check(self, logged: LoggedRequest) -> LimitViolation | None:
        """Count a request; return the worst violation, if there is one."""
        found = [violation for limit in self.limits if (violation := self._count(limit, logged)) is not None]
        self.violations += found
        return max(found, key=lambda violation: violation.wait_s, default=None)

    @contextmanager
    def count_write(self, logged: LoggedRequest, account: str) -> Iterator[None]:
        """Count a write of the account for as long as this is entered; a GET does not count."""
        if logged.method == "GET":
            yield
            return
        self._under_way[account] += 1
        self.most_at_once[account] = max(self.most_at_once[account], self._under_way[account])
        try:
            yield
        finally:
            self._under_way[account] -= 1

    def _count(self, limit: RequestLimit, logged: LoggedRequest) -> LimitViolation | None:
        if not limit.holds_for(logged):
            return None
        times = self._times.setdefault((limit.name, limit.by(logged) if limit.by else ""), deque())
        window = limit.per_s - self.slack_s
        while times and times[0] <= logged.at_s - window:
            times.popleft()
        times.append(logged.at_s)
        if len(times) <= limit.count:
            return None
        wait_s = times[-limit.count] + window - logged.at_s
        return LimitViolation(limit=limit.name, request=logged.number, at=logged.at, count=len(times), wait_s=wait_s)
