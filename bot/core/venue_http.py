"""HTTP requests, responses and rate limits of venues, and what a response proves about a write.

A venue's own rules come first; the status decides where they say nothing (RFC 9110, section 15).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from bot.core.submissions import IntentState


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One HTTP request. Headers may hold keys and are in no repr, log or error.

    ``is_cancellation`` says that it ends something at the venue, like a cancel or a withdrawal: it may be sent also
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
    """The response, whatever its status; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Freeze the headers."""
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most ``count`` requests in ``per_s`` seconds, at most ``max_in_flight`` at once, evenly spaced after a burst.

    It holds for requests whose method is in ``methods`` (all where empty) and whose URL begins with one of
    ``prefixes``; a request falls under every rate it matches. ``name`` is unique; what was used is remembered under it
    across restarts.
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
    # One item is refused to this account: that may be as it should, but not for every item.
    OPERATOR_IF_ALL = "operator, if it is everything"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteVerdict:
    """The result of a write, and why; acked only says that it was accepted."""

    state: IntentState
    detail: str = ""
    responsible: ResponsibleParty = ResponsibleParty.NOBODY


def verdict_by_status(reply: HttpResponse, *, taken: int) -> WriteVerdict | None:
    """Judge a response by its status alone, ``taken`` being that of success; None for a refusal, whose words count.

    Too many requests means that nothing was done. A refusal is any other status of 400 to 499 except a timeout; a
    response that is not from the venue itself (a redirect, a failure, another success) proves nothing.
    """
    status = reply.status
    if status == taken:
        return WriteVerdict(state=IntentState.ACKED)
    if status == _TOO_MANY_REQUESTS:
        return WriteVerdict(state=IntentState.ABSENT, detail="429: too many requests, nothing was done")
    if 400 <= status < 500 and status != _REQUEST_TIMEOUT:
        return None
    said = response_fields(reply)
    words = detail_suffix(next((said[name] for name in _MESSAGE_FIELDS if said.get(name)), ""))
    return WriteVerdict(state=IntentState.UNKNOWN, detail=f"status {status}, which says nothing of the write{words}")


def refusal_verdict(detail: str, who: ResponsibleParty = ResponsibleParty.NOBODY) -> WriteVerdict:
    """Return the verdict on a refusal for good."""
    return WriteVerdict(state=IntentState.REFUSED, detail=detail, responsible=who)


def response_json(reply: HttpResponse) -> object:
    """Return the decoded body, None where it is no JSON."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def response_fields(reply: HttpResponse) -> Mapping[str, object]:
    """Return the decoded body where it is an object, else an empty one."""
    said = response_json(reply)
    return said if isinstance(said, dict) else {}


def detail_suffix(text: object) -> str:
    """Return the words of the response as the end of a sentence.

    in one line, shortened, and "" where there are none.
    """
    return f": {' '.join(str(text).split())[:_MAX_QUOTED_CHARS]}" if text else ""
