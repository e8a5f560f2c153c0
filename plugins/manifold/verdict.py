"""What an answer to a write proves, and who must act.

Source: venue document, section 3 and the table of errors in section 11. What servers in front of the venue answer is
no JSON, and is read by its status alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import IntentState, Reply

_OK, _UNAUTHORIZED, _FORBIDDEN, _TIMED_OUT, _TOO_MANY, _BUSY = 200, 401, 403, 408, 429, 503
_QUOTED = 300
_BANNED = ("banned", "trading ban", "suspended")


class Who(StrEnum):
    """Who must act on a refusal."""

    NOBODY = "nobody"
    OPERATOR = "operator"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a write, and why; acked only says that the status was 200."""

    state: IntentState
    detail: str = ""
    who: Who = Who.NOBODY


def verdict_of(reply: Reply) -> Verdict:
    """Judge the answer to a bet, a sale, a cancellation or a comment."""
    status, said = reply.status, said_in(reply)
    if status == _OK:
        return Verdict(state=IntentState.ACKED)
    if status == _TOO_MANY:
        return Verdict(state=IntentState.ABSENT, detail="429: too many requests, nothing was done")
    if status == _BUSY and "message" in said:
        # In its own words it says that nothing was committed; in those of a server in front of it, nothing is said.
        return Verdict(state=IntentState.ABSENT, detail=f"503: nothing was done{_colon(said)}")
    if 400 <= status < 500 and status != _TIMED_OUT:
        return Verdict(state=IntentState.REFUSED, detail=f"{status}{_colon(said)}", who=_who(status, said))
    return Verdict(state=IntentState.UNKNOWN, detail=f"status {status}, which says nothing of the write{_colon(said)}")


def json_of(reply: Reply) -> object:
    """Return the decoded body, None where it is no JSON."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def said_in(reply: Reply) -> Mapping[str, object]:
    """Return the decoded body where it is an object, else an empty one."""
    said = json_of(reply)
    return said if isinstance(said, dict) else {}


def _who(status: int, said: Mapping[str, object]) -> Who:
    text = str(said.get("message", "")).lower()
    if status == _UNAUTHORIZED or (status == _FORBIDDEN and (not said or any(word in text for word in _BANNED))):
        return Who.OPERATOR
    return Who.DEVELOPER if "details" in said else Who.NOBODY


def _colon(said: Mapping[str, object]) -> str:
    message = str(said.get("message", ""))
    details = f" {json.dumps(said['details'])}" if "details" in said else ""
    return f": {' '.join((message + details).split())[:_QUOTED]}" if message or details else ""
