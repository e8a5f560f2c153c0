"""What can go wrong between a program and a venue, to be ordered from a menu: scripted, or by chance at given rates.

A test says ``venue.faults.next(Fault.DROPPED_AFTER, method="POST", path="/v0/bet")`` and the next request of that
method and path meets it; a campaign passes a stream of chance and rates. ``injected`` counts what was served and met
something: where nothing could be stale, doubled or closed, a fault is as if it had not been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from bot.domain.step import Json


class Fault(StrEnum):
    """What becomes of one HTTP request."""

    # The connection ends; the effect never happens, has happened, or happens ``wait_s`` later.
    DROPPED_BEFORE = "dropped before the effect"
    DROPPED_AFTER = "dropped after the effect"
    LATE = "late effect"
    # Taken and never answered, without effect or after it.
    HANGING = "hanging"
    HANGING_AFTER = "hanging after the effect"
    # Answered after ``wait_s``, with the effect at the end of the wait.
    SLOW = "slow"
    # 429, and ``status`` (a 5xx), both without effect unless AFTER is said; ``retry_after`` is the header's value.
    TOO_MANY = "too many requests"
    ERROR_BEFORE = "error before the effect"
    ERROR_AFTER = "error after the effect"
    # A page of an edge server instead of an answer: HTML under status 200, without and with the effect.
    PAGE_BEFORE = "web page before the effect"
    PAGE_AFTER = "web page after the effect"
    # The answer is spoilt: half of it, lists with each record twice, lists backwards, unknown fields, or ``alter``.
    TRUNCATED = "truncated"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ENLARGED = "enlarged"
    ALTERED = "altered"
    # The answer that the same reading had when it was last asked.
    STALE = "stale"
    # The world moves after the request was sent and before it is looked at: ``meanwhile``, else what the venue does.
    PARTIAL_FILL = "partial fill"
    CLOSING = "closing in flight"
    EDITED = "edited in flight"
    RESOLVED = "resolved in flight"
    MEANWHILE = "meanwhile"


WORLD = frozenset({Fault.PARTIAL_FILL, Fault.CLOSING, Fault.EDITED, Fault.RESOLVED, Fault.MEANWHILE})


class SocketFault(StrEnum):
    """What becomes of messages of a WebSocket."""

    SILENT = "silent"  # the connection lives and nothing comes, not even answers
    STALE = "stale"  # the message before comes again instead of the new one
    DUPLICATING = "duplicating"
    GAPPING = "gapping"  # every second message is missing
    GARBLED = "garbled"
    CUT = "cut"  # the connection ends without a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fault with its particulars."""

    fault: Fault
    wait_s: float = 1.0
    status: int = 502
    retry_after: str | None = None
    meanwhile: Callable[[], object] | None = None
    alter: Callable[[Json], Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    trouble: Trouble
    method: str | None
    path: str
    times: int

    def fits(self, method: str, path: str) -> bool:
        return self.method in {None, method} and path.startswith(self.path)


class Faults:
    """The menu of one venue: orders first, in their order, then chance.

    ``rates`` says how often each fault meets a request (of all requests; STALE of GETs); ``socket_rates`` the same of
    messages on sockets. ``refusing`` and ``skew_s`` hold until changed: no connection is taken, and the venue's clock
    is off by that much. ``on_sockets`` holds for every message while it is in the set.
    """

    def __init__(
        self,
        stream: np.random.Generator | None = None,
        rates: Mapping[Fault, float] | None = None,
        socket_rates: Mapping[SocketFault, float] | None = None,
    ) -> None:
        self._stream = stream
        self._orders: list[_Order] = []
        self.rates = dict(rates or {})
        self.socket_rates = dict(socket_rates or {})
        self.refusing = False
        self.skew_s = 0.0
        self.on_sockets: set[SocketFault] = set()
        self.injected: Counter[Fault | SocketFault] = Counter()

    def next(self, fault: Fault | Trouble, *, method: str | None = None, path: str = "", times: int = 1) -> None:
        """Let the next ``times`` requests of that method, to paths that begin so, meet the fault."""
        trouble = fault if isinstance(fault, Trouble) else Trouble(fault=fault)
        self._orders.append(_Order(trouble=trouble, method=method, path=path, times=times))

    def burst(self, times: int, path: str, *, method: str = "POST", arrives: bool = True) -> None:
        """Lose the answers to the next ``times`` writes to a path, as a proxy does that is down for half a minute.

        ``arrives`` says whether they take effect.
        """
        self.next(Fault.DROPPED_AFTER if arrives else Fault.DROPPED_BEFORE, method=method, path=path, times=times)

    def clear(self) -> None:
        """Behave from now on."""
        self._orders.clear()
        self.rates.clear()
        self.socket_rates.clear()
        self.on_sockets.clear()
        self.refusing, self.skew_s = False, 0.0

    @property
    def pending(self) -> int:
        """How many ordered faults have not met a request yet."""
        return sum(order.times for order in self._orders)

    def pick(self, method: str, path: str) -> Trouble | None:
        """Return what this request is to meet, and count it."""
        trouble = self._ordered(method, path) or self._chance(method)
        if trouble is not None:
            self.injected[trouble.fault] += 1
        return trouble

    def met_nothing(self, fault: Fault | SocketFault) -> None:
        """Take back the count of a fault that had nothing to spoil."""
        self.injected[fault] -= 1
        if not self.injected[fault]:
            del self.injected[fault]

    def pick_for_message(self) -> frozenset[SocketFault]:
        """Return what this message of a socket is to meet, and count it."""
        met = {fault for fault, rate in self.socket_rates.items() if self._happens(rate)} | self.on_sockets
        self.injected.update(met)
        return frozenset(met)

    def _ordered(self, method: str, path: str) -> Trouble | None:
        for place, order in enumerate(self._orders):
            if order.fits(method, path):
                self._orders[place : place + 1] = [replace(order, times=order.times - 1)] if order.times > 1 else []
                return order.trouble
        return None

    def _chance(self, method: str) -> Trouble | None:
        for fault, rate in self.rates.items():
            if (fault is not Fault.STALE or method == "GET") and self._happens(rate):
                return Trouble(fault=fault)
        return None

    def _happens(self, rate: float) -> bool:
        if self._stream is None:
            message = "rates of faults need a stream of chance"
            raise ValueError(message)
        return bool(self._stream.random() < rate)
