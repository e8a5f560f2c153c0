"""What an answer to an order or a cancellation proves, and who must act.

A refusal may come as success. The exchange says in its own words (JSON) that it takes no orders now, which proves that
nothing was done; a server in front of it answers with a page, and then it depends on the status.
Source: venue document, sections 5.2, 5.3, 11 and the table of errors in section 14.
"""

from collections.abc import Mapping

from bot.api import IntentState, Reply, Verdict, Who, after_colon, refused, said_in, verdict_by_status
from plugins.polymarket.raw import text_of

_OK, _UNAUTHORIZED, _FORBIDDEN, _RESTARTING, _HALTED = 200, 401, 403, 425, 503
_MODES = ("cancel-only", "post-only", "cancel only", "post only")
# The order is there already: what became of it is to be read.
_TWICE = "duplicated"
# The request was not made as it should be.
_FAULTY = ("payload", "tick size", "invalid amounts", "order owner")
# What people must see to, and whether nothing else can go well before they have.
_KNOWN = {
    "maker address not allowed": ("the wallet is of another type: see wallet and wallet_type", Who.OPERATOR),
    "closed only mode": ("the venue lets this account only close positions; take it off live in config", Who.OPERATOR),
    "invalid signature": ("the key does not sign for that wallet: see key_file, wallet and wallet_type", Who.OPERATOR),
    "not enough balance": ("move money there, or set the allowance on the site: Foxcast never approves", Who.NOBODY),
}
BLOCKED = (
    'the venue takes no orders from this region; set mode = "paper" for it in config. There is no way round that here'
)


def verdict_of(reply: Reply) -> Verdict:
    """Judge the answer to an order; acked says that it was taken under a hash, which is to be compared."""
    status, said = reply.status, said_in(reply)
    words = _words(said)
    if status == _OK:
        return _taken(said, words)
    if status == _FORBIDDEN and not said:
        # A wall in front of the venue: the order has not come through to it.
        return Verdict(state=IntentState.ABSENT, detail="403: a page in front of the venue; it may pass by itself")
    if status == _FORBIDDEN:
        return refused(f"403: {BLOCKED}{after_colon(words)}", Who.OPERATOR)
    if status == _RESTARTING or (status == _HALTED and any(mode in words.lower() for mode in _MODES)):
        return Verdict(state=IntentState.ABSENT, detail=f"{status}: no orders are taken now{after_colon(words)}")
    if _TWICE in words.lower():
        return Verdict(state=IntentState.UNKNOWN, detail=f"{status}: the venue has it already")
    return verdict_by_status(reply, taken=_OK) or _refused(status, words)


def _taken(said: Mapping[str, object], words: str) -> Verdict:
    if "success" not in said:
        return Verdict(state=IntentState.UNKNOWN, detail="status 200 without a word of the order")
    if said.get("success") is not True or not text_of(said.get("orderID")):
        return _refused(_OK, words or "no orderID")
    return Verdict(state=IntentState.ACKED, detail=text_of(said.get("status")))


def _refused(status: int, words: str) -> Verdict:
    if status == _UNAUTHORIZED:
        return refused(f"401{after_colon(words)}: see key_file, wallet and api_key", Who.OPERATOR)
    for sign, (advice, who) in _KNOWN.items():
        if sign in words.lower():
            return refused(f"{status}{after_colon(words)}; {advice}", who)
    who = (
        Who.DEVELOPER if status in {404, 405, 422} or "payload" in words.lower() or "tick size" in words else Who.NOBODY
    )
    return refused(f"{status}{after_colon(words)}", who)


def _words(said: Mapping[str, object]) -> str:
    return next((text for name in ("errorMsg", "error", "message") if (text := text_of(said.get(name)))), "")
