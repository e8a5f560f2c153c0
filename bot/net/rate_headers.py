"""What the headers of a response say about rate limits: how long to wait, and how much is left.

Retry-After is of RFC 9110, and some providers of models send retry-after-ms as well. What is left is said by headers
such as X-RateLimit-Remaining, X-RateLimit-Remaining-Requests and VENDOR-RateLimit-Requests-Remaining, each with its
limit and its reset; docs/facts/providers.md says who sends which.
"""

from __future__ import annotations

import math
import re
from contextvars import ContextVar, Token
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    HeaderObserver = Callable[[Mapping[str, str]], None]

TOO_MANY_REQUESTS = 429
SERVICE_UNAVAILABLE = 503
REFUSAL_STATUSES = frozenset({TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE})
_LIMIT_HEADER = re.compile(
    r"^(?P<family>(?:[a-z0-9]+-)*rate-?limit)-(?:(?P<what>[a-z0-9]+(?:-[a-z0-9]+)*)-)?"
    r"(?P<field>limit|remaining|reset)(?P<unit>(?:-[a-z0-9]+)*)$"
)
_REQUEST_UNITS = frozenset({"", "requests"})
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
# Numbers above these are moments, in seconds or milliseconds since 1970, not waits.
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAllowance:
    """What a response leaves: so many ``requests`` in the next ``reset_s`` seconds, and ``after_reset`` after that.

    ``share`` is what remains of the limit that is used up most, from 0 to 1.
    """

    requests: float
    reset_s: float
    after_reset: float = math.inf
    share: float = 1.0


_observer: ContextVar[HeaderObserver | None] = ContextVar("response_headers", default=None)


class HeaderObservation:
    """Gives the headers of each response to a POST of this task to ``observe`` while entered."""

    __slots__ = ("_observe", "_token")

    def __init__(self, observe: HeaderObserver) -> None:
        self._observe = observe

    def __enter__(self) -> None:
        self._token: Token[HeaderObserver | None] = _observer.set(self._observe)

    def __exit__(self, *_: object) -> None:
        _observer.reset(self._token)


def report_response_headers(headers: Mapping[str, str]) -> None:
    """Give the headers of a response, with names in any case, to the observer of this task, if any."""
    if (observe := _observer.get()) is not None:
        observe(headers)


def requested_wait_s(status: int, headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the pause in seconds that a response asks for by any of the usual headers; None if it asks for none.

    Retry-After counts in a refusal (429, 503). Of headers such as X-RateLimit-Remaining and X-RateLimit-Reset, with any
    prefix and suffix, the reset counts where nothing remains. ``headers`` have names in lower case.
    """
    waits = [retry_after_s(headers, now=now)] if status in REFUSAL_STATUSES else []
    waits += [
        _parse_reset_s(limit.get("reset", ""), now)
        for limit in _read_limits(headers).values()
        if (left := _parse_amount(limit.get("remaining"))) is not None and left <= 0.0
    ]
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def remaining_allowance(headers: Mapping[str, str], *, now: datetime) -> RequestAllowance | None:
    """Return what a response says is left; None if it says nothing. ``headers`` have names in any case.

    A limit of something else than requests, such as tokens, counts once nothing of it is left.
    """
    if not (limits := _read_limits(headers)):
        return None
    found, share = RequestAllowance(requests=math.inf, reset_s=0.0), 1.0
    for (_, unit), limit in limits.items():
        left, reset_s = _parse_amount(limit.get("remaining")), _parse_reset_s(limit.get("reset", ""), now)
        if left is None or reset_s is None:
            continue
        most = _parse_amount(limit.get("limit"))
        share = min(share, max(0.0, left / most) if most else 1.0)
        if (unit in _REQUEST_UNITS or left <= 0.0) and (left, -reset_s) < (found.requests, -found.reset_s):
            after = most if most and unit in _REQUEST_UNITS else math.inf
            found = RequestAllowance(requests=max(0.0, left), reset_s=reset_s, after_reset=after)
    if math.isinf(found.requests) and share == 1.0:
        return None
    return replace(found, share=share)


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the wait that retry-after-ms or Retry-After asks for, in seconds; None where neither says one."""
    milliseconds = _parse_amount(headers.get("retry-after-ms"))
    if milliseconds is not None and milliseconds >= 0.0:
        return milliseconds / 1000.0
    return parse_retry_after(headers.get("retry-after", ""), now=now)


def parse_retry_after(text: str, *, now: datetime) -> float | None:
    """Read the header Retry-After: seconds, or a date as in RFC 9110, section 10.2.3; None for anything else."""
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError, OverflowError):  # not a date, or one without a zone
        return None


def _read_limits(headers: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the fields of each limit by its family and its unit, which is "" where the headers name none."""
    limits: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in headers.items():
        if known := _find_limit_field(name):
            limit, field = known
            limits.setdefault(limit, {})[field] = value.strip()
    return limits


# A server sends the same headers with each response.
@lru_cache(maxsize=256)
def _find_limit_field(name: str) -> tuple[tuple[str, str], str] | None:
    """Return the family and the unit of the limit that a header is about, and which field of it; None for any other."""
    found = _LIMIT_HEADER.match(name.lower())
    return found and ((found["family"], found["what"] or found["unit"].removeprefix("-")), found["field"])


def _parse_amount(text: str | None) -> float | None:
    try:
        amount = None if text is None else float(text)
    except ValueError:
        return None
    return amount if amount is not None and math.isfinite(amount) else None


def _parse_reset_s(text: str, now: datetime) -> float | None:
    """Read seconds to wait, a moment since 1970, a duration such as 1m30s, or a date, as seconds from now."""
    if (seconds := parse_retry_after(text, now=now)) is not None and math.isfinite(seconds):
        since = now.timestamp() * (1000.0 if seconds >= _EPOCH_MS else 1.0)
        return max(0.0, seconds - since) / (1000.0 if seconds >= _EPOCH_MS else 1.0) if seconds >= _EPOCH_S else seconds
    if text and (found := _DURATION.fullmatch(text)):
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
        return hours * 3600.0 + minutes * 60.0 + seconds + milliseconds / 1000.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())
