"""What an answer to a write proves, and who must act: what the venues that speak JSON over HTTP have in common.

A venue's own rules come first; this is what its status says where they say nothing.
Source: reliability reference, section 5; HTTP semantics, RFC 9110, section 15.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.domain.submission import IntentState
from bot.domain.wire import Reply

_TIMED_OUT, _TOO_MANY = 408, 429
_QUOTED = 300
# Where servers say what is the matter.
_WORDS = ("message", "detail", "error", "errorMsg")


class Who(StrEnum):
    """Who must act on a refusal."""

    NOBODY = "nobody"
    OPERATOR = "operator"
    # One thing is refused to this account: that may be as it should, but not with everything.
    OPERATOR_IF_ALL = "operator, if it is everything"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a write, and why; acked only says that it was taken."""

    state: IntentState
    detail: str = ""
    who: Who = Who.NOBODY


def verdict_by_status(reply: Reply, *, taken: int) -> Verdict | None:
    """Judge an answer by its status alone, ``taken`` being that of success; None for a refusal, whose words count.

    Too many requests means that nothing was done. A refusal is any other status of 400 to 499 but for a timeout, and
    whatever is no answer of the venue itself (a redirect, a failure, another success) proves nothing.
    """
    status = reply.status
    if status == taken:
        return Verdict(state=IntentState.ACKED)
    if status == _TOO_MANY:
        return Verdict(state=IntentState.ABSENT, detail="429: too many requests, nothing was done")
    if 400 <= status < 500 and status != _TIMED_OUT:
        return None
    said = said_in(reply)
    words = after_colon(next((said[name] for name in _WORDS if said.get(name)), ""))
    return Verdict(state=IntentState.UNKNOWN, detail=f"status {status}, which says nothing of the write{words}")


def refused(detail: str, who: Who = Who.NOBODY) -> Verdict:
    """Return the verdict on a refusal for good."""
    return Verdict(state=IntentState.REFUSED, detail=detail, who=who)


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


def after_colon(text: object) -> str:
    """Return what was said as the end of a sentence: in one line, cut short, and "" where nothing was."""
    return f": {' '.join(str(text).split())[:_QUOTED]}" if text else ""
