"""HTTP requests, responses and rate limits of venues, and what a response proves about a write.

Rules of the venue come first; otherwise the status decides (RFC 9110, section 15).
"""

import json
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from bot.core.light_dataclass import dataclass
from bot.core.submissions import IntentState


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One HTTP request. Headers may contain keys and never appear in a repr, log or error.

    ``is_cancellation`` says that it ends something at the venue, like a cancellation or a withdrawal; it may be sent
    during a halt.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    is_cancellation: bool = False

    def __post_init__(self) -> None:
        """Freeze the headers."""
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response of any status; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Freeze the headers."""
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most ``count`` requests in ``per_s`` seconds, at most ``max_in_flight`` at once, evenly spaced after a burst.

    It applies to requests whose method is in ``methods`` (empty: all) and whose URL begins with one of ``prefixes``;
    all rate limits that match a request apply. ``name`` is unique; usage is recorded under it across restarts.
    """

    name: str
    prefixes: tuple[str, ...]
    count: int
    per_s: float
    methods: frozenset[str] = frozenset()
    burst: int = 1
    max_in_flight: int | None = None


_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS = 408, 429
_MAX_QUOTED_CHARS = 300
# Fields in which servers report an error.
_MESSAGE_FIELDS = ("message", "detail", "error", "errorMsg")


class ResponsibleParty(StrEnum):
    """Who must act on a refusal."""

    NOBODY = "nobody"
    OPERATOR = "operator"
    # The venue refuses one item to this account: that may be correct, but not for every item.
    OPERATOR_IF_ALL = "operator, if it is everything"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteVerdict:
    """The result of a write, and why; acked means only that it was accepted."""

    state: IntentState
    detail: str = ""
    responsible: ResponsibleParty = ResponsibleParty.NOBODY


def verdict_by_status(reply: HttpResponse, *, taken: int) -> WriteVerdict | None:
    """Judge a response by its status alone; ``taken`` is the status of success; None for a refusal, whose body counts.

    Status 429 means that nothing was done. A refusal is any other status of 400 to 499 except a timeout; a response
    that is not from the venue itself (a redirect, a failure, another success) proves nothing.
    """
    status = reply.status
    if status == taken:
        return WriteVerdict(state=IntentState.ACKED)
    if status == _TOO_MANY_REQUESTS:
        return WriteVerdict(state=IntentState.ABSENT, detail="429: too many requests, nothing was done")
    if 400 <= status < 500 and status != _REQUEST_TIMEOUT:
        return None
    fields = response_fields(reply)
    suffix = detail_suffix(next((fields[name] for name in _MESSAGE_FIELDS if fields.get(name)), ""))
    return WriteVerdict(state=IntentState.UNKNOWN, detail=f"status {status} does not prove the result{suffix}")


def refusal_verdict(detail: str, who: ResponsibleParty = ResponsibleParty.NOBODY) -> WriteVerdict:
    """Return the verdict on a final refusal."""
    return WriteVerdict(state=IntentState.REFUSED, detail=detail, responsible=who)


def response_json(reply: HttpResponse) -> object:
    """Return the decoded body, None if it is not JSON."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def response_fields(reply: HttpResponse) -> Mapping[str, object]:
    """Return the decoded body if it is an object, else an empty one."""
    value = response_json(reply)
    return value if isinstance(value, dict) else {}


def detail_suffix(text: object) -> str:
    """Return the message of a response as the end of a sentence, in one line and shortened; "" if there is none."""
    return f": {' '.join(str(text).split())[:_MAX_QUOTED_CHARS]}" if text else ""
