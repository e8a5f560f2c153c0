"""What an answer to a forecast, a withdrawal or a comment proves, and who must act.

Source: venue document, sections 4.3 to 4.6, and the table of errors in section 12. What servers in front of the site
answer are pages, no JSON; they are read by their status alone.
"""

import json
from collections.abc import Mapping

from bot.api import HttpRefusal, IntentState, Reply, Verdict, Who, after_colon, refused, said_in, verdict_by_status

CREATED = 201
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 401, 403, 404, 405
# What a refusal of the account says, rather than of one post; the codes and the texts of the framework.
_OF_THE_ACCOUNT = ("token_not_valid", "api_forecasting_not_enabled", "not_authenticated", "authentication_failed")
_OF_THE_TOKEN = ("invalid token", "authentication credentials", "user inactive", "token not valid")


def verdict_of(reply: Reply) -> Verdict:
    """Judge the answer to a write."""
    if 300 <= reply.status < 400:
        # Nobody follows it: the address was wrong, and nothing was done there.
        return _refusal(reply.status, said_in(reply))
    return verdict_by_status(reply, taken=CREATED) or _refusal(reply.status, said_in(reply))


def _refusal(status: int, said: Mapping[str, object]) -> Verdict:
    if status == _FORBIDDEN and not said:
        why = "403 by a server in front of the site, which may block this address; nothing was done"
        return Verdict(state=IntentState.ABSENT, detail=why, who=Who.OPERATOR)
    if status == _FORBIDDEN:
        return refused(f"403{_words(said)}", _whose(said))
    if status == _NOT_FOUND:
        return refused(f"404: not visible any more{_words(said)}")
    if status == _NOT_ALLOWED and "error" in said:
        return refused(f"405{_words(said)}")
    return refused(f"{status}, a fault of this program{_words(said)}", Who.DEVELOPER)


def refuses_account(refusal: HttpRefusal) -> bool:
    """Say whether an answer refuses the account rather than one post: a wrong token is a 403 here."""
    if refusal.status != _FORBIDDEN:
        return refusal.status == _UNAUTHORIZED
    try:
        said = json.loads(refusal.body)
    except ValueError:
        return False
    return isinstance(said, Mapping) and _whose(said) is Who.OPERATOR


def _whose(said: Mapping[str, object]) -> Who:
    detail = str(said.get("detail", "")).lower()
    account = said.get("code") in _OF_THE_ACCOUNT or any(words in detail for words in _OF_THE_TOKEN)
    return Who.OPERATOR if account else Who.OPERATOR_IF_ALL


def _words(said: Mapping[str, object]) -> str:
    return after_colon(said.get("detail") or said.get("error") or (json.dumps(said) if said else ""))
