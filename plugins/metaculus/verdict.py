"""What an answer to a write proves, and who must act.

Source: venue document, sections 4.3 to 4.6, and the table of errors in section 12. What servers in front of the site
answer are pages, no JSON; they are read by their status alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import IntentState, Reply

CREATED = 201
_FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED, _TIMED_OUT, _TOO_MANY = 403, 404, 405, 408, 429
_QUOTED = 300
# What a refusal of the account says, rather than of one post; the codes and the texts of the framework.
_OF_THE_ACCOUNT = ("token_not_valid", "api_forecasting_not_enabled", "not_authenticated", "authentication_failed")
_OF_THE_TOKEN = ("invalid token", "authentication credentials", "user inactive", "token not valid")


class Who(StrEnum):
    """Who must act on a refusal."""

    NOBODY = "nobody"
    OPERATOR = "operator"
    POST = "operator, if it is every post"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a write, and why."""

    state: IntentState
    detail: str = ""
    who: Who = Who.NOBODY


def verdict_of(reply: Reply) -> Verdict:
    """Judge the answer to a forecast, a withdrawal or a comment."""
    status = reply.status
    if status == CREATED:
        return Verdict(state=IntentState.ACKED)
    if status == _TOO_MANY:
        return Verdict(state=IntentState.ABSENT, detail="429: too many requests, nothing was done")
    if 300 <= status < 500 and status != _TIMED_OUT:
        return _refusal(status, _said(reply))
    return Verdict(state=IntentState.UNKNOWN, detail=f"status {status}, which says nothing of the write")


def json_of(reply: Reply) -> object:
    """Return the decoded body, None where it is no JSON."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def _said(reply: Reply) -> Mapping[str, object]:
    said = json_of(reply)
    return said if isinstance(said, dict) else {}


def _refusal(status: int, said: Mapping[str, object]) -> Verdict:
    if status == _FORBIDDEN and not said:
        why = "403 by a server in front of the site, which may block this address; nothing was done"
        return Verdict(state=IntentState.ABSENT, detail=why, who=Who.OPERATOR)
    if status == _FORBIDDEN:
        return _refused(*_forbidden(said))
    if status == _NOT_FOUND:
        return _refused(f"404: not visible any more{_colon(said)}", Who.NOBODY)
    if status == _NOT_ALLOWED and "error" in said:
        return _refused(f"405{_colon(said)}", Who.NOBODY)
    return _refused(f"{status}, a fault of this program{_colon(said)}", Who.DEVELOPER)


def _forbidden(said: Mapping[str, object]) -> tuple[str, Who]:
    detail = str(said.get("detail", "")).lower()
    account = said.get("code") in _OF_THE_ACCOUNT or any(words in detail for words in _OF_THE_TOKEN)
    return f"403{_colon(said)}", Who.OPERATOR if account else Who.POST


def _refused(detail: str, who: Who) -> Verdict:
    return Verdict(state=IntentState.REFUSED, detail=detail, who=who)


def _colon(said: Mapping[str, object]) -> str:
    text = said.get("detail") or said.get("error") or (json.dumps(said) if said else "")
    return f": {' '.join(str(text).split())[:_QUOTED]}" if text else ""
