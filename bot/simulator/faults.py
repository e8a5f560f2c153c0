"""Faults of requests and sockets of fake services: scheduled by a test, or drawn at given rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

    from bot.core.values import Json


class RequestFault(StrEnum):
    """The fate of one HTTP request."""

    # The connection ends; the effect never happens, has happened, or happens ``wait_s`` later.
    DROPPED_BEFORE = "dropped before the effect"
    DROPPED_AFTER = "dropped after the effect"
    LATE = "late effect"
    # Received and never answered, without effect or after it.
    HANGING = "hanging"
    HANGING_AFTER = "hanging after the effect"
    # Answered after ``wait_s``, with the effect at the end of the wait.
    SLOW = "slow"
    # 429, and ``status`` (a 5xx), both without effect unless AFTER is said; ``retry_after`` is the header's value.
    TOO_MANY = "too many requests"
    ERROR_BEFORE = "error before the effect"
    ERROR_AFTER = "error after the effect"
    # A page of an edge server instead of the response: HTML under ``page_status``, without and with the effect.
    PAGE_BEFORE = "web page before the effect"
    PAGE_AFTER = "web page after the effect"
    # The response is spoilt: half of it, lists with each record twice, lists backwards, unknown fields, or ``alter``.
    TRUNCATED = "truncated"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ENLARGED = "enlarged"
    ALTERED = "altered"
    # The response of the same request the last time.
    STALE = "stale"
    # The world changes after the request was sent and before it is handled: ``meanwhile``, else the venue's default.
    PARTIAL_FILL = "partial fill"
    CLOSING = "closing in flight"
    EDITED = "edited in flight"
    RESOLVED = "resolved in flight"
    MEANWHILE = "meanwhile"


WORLD_FAULTS = frozenset(
    {
        RequestFault.PARTIAL_FILL,
        RequestFault.CLOSING,
        RequestFault.EDITED,
        RequestFault.RESOLVED,
        RequestFault.MEANWHILE,
    }
)


class SocketFault(StrEnum):
    """The fate of messages of a WebSocket."""

    SILENT = "silent"  # the connection lives and sends nothing, not even responses
    STALE = "stale"  # the previous message is sent again instead of the new one
    DUPLICATING = "duplicating"
    GAPPING = "gapping"  # every second message is missing
    GARBLED = "garbled"
    CUT = "cut"  # the connection ends without a message


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDetails:
    """A fault with its details."""

    fault: RequestFault
    wait_s: float = 1.0
    status: int = 502
    page_status: int = 200
    retry_after: str | None = None
    meanwhile: Callable[[], object] | None = None
    alter: Callable[[Json], Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScheduledFault:
    details: FaultDetails
    method: str | None
    path: str
    times: int

    def fits(self, method: str, path: str) -> bool:
        return self.method in {None, method} and path.startswith(self.path)


class FaultSchedule:
    """The faults of one venue: ordered ones first, in their order, then random ones.

    ``rates`` says how often each fault hits a request (of all requests; STALE of GETs); ``socket_rates`` the same for
    messages on sockets. ``refusing`` and ``skew_s`` hold until changed: no connection is accepted, and the venue's
    clock is off by that much. ``on_sockets`` holds for every message while it is in the set.
    """

    def __init__(
        self,
        stream: np.random.Generator | None = None,
        rates: Mapping[RequestFault, float] | None = None,
        socket_rates: Mapping[SocketFault, float] | None = None,
    ) -> None:
        self._stream = stream
        self._orders: list[_ScheduledFault] = []
        self.rates = dict(rates or {})
        self.socket_rates = dict(socket_rates or {})
        self.refuses_connections = False
        self.skew_s = 0.0
        self.on_sockets: set[SocketFault] = set()
        self.injected: Counter[RequestFault | SocketFault] = Counter()

    def schedule(
        self, fault: RequestFault | FaultDetails, *, method: str | None = None, path: str = "", times: int = 1
    ) -> None:
        """Apply the fault to the next ``times`` requests of that method, to paths that begin with that."""
        details = fault if isinstance(fault, FaultDetails) else FaultDetails(fault=fault)
        self._orders.append(_ScheduledFault(details=details, method=method, path=path, times=times))

    def schedule_lost_replies(self, times: int, path: str, *, method: str = "POST", arrives: bool = True) -> None:
        """Lose the responses to the next ``times`` writes to a path, like a proxy that is down for half a minute.

        ``arrives`` says whether they take effect.
        """
        self.schedule(
            RequestFault.DROPPED_AFTER if arrives else RequestFault.DROPPED_BEFORE,
            method=method,
            path=path,
            times=times,
        )

    def clear(self) -> None:
        """Cause no faults from now on."""
        self._orders.clear()
        self.rates.clear()
        self.socket_rates.clear()
        self.on_sockets.clear()
        self.refuses_connections, self.skew_s = False, 0.0

    @property
    def pending(self) -> int:
        """How many ordered faults have not hit a request yet."""
        return sum(order.times for order in self._orders)

    def next_fault(self, method: str, path: str) -> FaultDetails | None:
        """Return the fault of this request, and count it."""
        details = self._next_scheduled(method, path) or self._draw_fault(method)
        if details is not None:
            self.injected[details.fault] += 1
        return details

    def discount(self, fault: RequestFault | SocketFault) -> None:
        """Uncount a fault that had nothing to spoil."""
        self.injected[fault] -= 1
        if not self.injected[fault]:
            del self.injected[fault]

    def next_socket_faults(self) -> frozenset[SocketFault]:
        """Return the fault of this message of a socket, and count it."""
        met = {fault for fault, rate in self.socket_rates.items() if self._draw(rate)} | self.on_sockets
        self.injected.update(met)
        return frozenset(met)

    def _next_scheduled(self, method: str, path: str) -> FaultDetails | None:
        for place, order in enumerate(self._orders):
            if order.fits(method, path):
                self._orders[place : place + 1] = [replace(order, times=order.times - 1)] if order.times > 1 else []
                return order.details
        return None

    def _draw_fault(self, method: str) -> FaultDetails | None:
        for fault, rate in self.rates.items():
            if (fault is not RequestFault.STALE or method == "GET") and self._draw(rate):
                return FaultDetails(fault=fault)
        return None

    def _draw(self, rate: float) -> bool:
        if self._stream is None:
            message = "rates of faults need a stream of chance"
            raise ValueError(message)
        return bool(self._stream.random() < rate)
