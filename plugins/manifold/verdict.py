"""What an answer to a bet, a sale, a cancellation or a comment proves, and who must act.

Source: venue document, section 3 and the table of errors in section 11. What servers in front of the venue answer is
no JSON, and is read by its status alone.
"""

import json
from collections.abc import Mapping

from bot.api import IntentState, Reply, Verdict, Who, after_colon, refused, said_in, verdict_by_status

_OK, _BAD, _UNAUTHORIZED, _FORBIDDEN, _BUSY = 200, 400, 401, 403, 503
# What is said of an expiry that is past: 400 of one price, 403 where answers have prices of their own.
_TOO_LATE = "cannot expire in the past"
_BANNED = ("banned", "trading ban", "suspended")


def verdict_of(reply: Reply) -> Verdict:
    """Judge the answer to a write; acked only says that its status was 200."""
    status, said = reply.status, said_in(reply)
    if status == _BUSY and "message" in said:
        # In its own words it says that nothing was committed; in those of a server in front of it, nothing is said.
        return Verdict(state=IntentState.ABSENT, detail=f"503: nothing was done{_words(said)}")
    if status in {_BAD, _FORBIDDEN} and _TOO_LATE in str(said.get("message", "")).lower():
        # It came too late, which says nothing against the order itself: it is decided on anew.
        return Verdict(state=IntentState.ABSENT, detail=f"{status}: nothing was done{_words(said)}")
    return verdict_by_status(reply, taken=_OK) or refused(f"{status}{_words(said)}", _who(status, said))


def _who(status: int, said: Mapping[str, object]) -> Who:
    text = str(said.get("message", "")).lower()
    if status == _UNAUTHORIZED or (status == _FORBIDDEN and (not said or any(word in text for word in _BANNED))):
        return Who.OPERATOR
    return Who.DEVELOPER if "details" in said else Who.NOBODY


def _words(said: Mapping[str, object]) -> str:
    details = f" {json.dumps(said['details'])}" if "details" in said else ""
    return after_colon(f"{said.get('message', '')}{details}")
