"""What happened, from a market as it is now.

A price is never an outcome: ``resolutionProbability`` of YES and NO is the price before, and the answers of a market
where one wins go on showing theirs. What several winners were paid stands only in the answers as the database has them.
Source: venue document, section 4.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.api import Chosen, ContractError, Happened, Landed, Outcome, Void
from plugins.manifold.parse import KINDS, answers_of, options_of, scale_of
from plugins.manifold.raw import RawAnswer, RawMarket, moment_of, name_of, parsed

YES, NO, MARKET, CANCEL, SEVERAL = "YES", "NO", "MKT", "CANCEL", "CHOOSE_MULTIPLE"
# Of weights: one that pays all but this won alone.
_ALL = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An outcome and since when it is known, None where the venue does not tell.

    ``text`` is what the venue says, so that a change is noticed.
    """

    outcome: Outcome
    at: datetime | None
    text: str


def needs_weights(market: RawMarket) -> bool:
    """Say whether the answers as the database has them must be read to know what this market paid."""
    return _one_of_many(market) and market.resolution in {SEVERAL, MARKET}


def verdict_of(market: RawMarket, answer_id: str, weights: Mapping[str, float]) -> Verdict | None:
    """Return the outcome of a question about a market, or about one answer of it; None while there is none.

    ``weights`` are payouts by the ids of answers, where ``needs_weights`` says so. Raises ContractError for a
    resolution that does not fit the market.
    """
    if answer_id:
        return _of_answer(market, answer_id)
    if not market.is_resolved:
        return None
    if market.resolution is None:
        raise _odd(market, "is resolved, and nothing says to what")
    return Verdict(
        outcome=_outcome(market, market.resolution, weights),
        at=_since(market.resolution_time),
        text=f"{market.resolution} {market.resolution_prob if market.resolution == MARKET else ''}".strip(),
    )


def weights_of(rows: list[object], market_id: str) -> dict[str, float]:
    """Return what one share of each answer paid, from the answers as the database has them."""
    found = [parsed(RawAnswer, row, f"{name_of(row, 'answer')} of market {market_id}") for row in rows]
    return {answer.id: answer.prob for answer in found if answer.prob is not None}


def _one_of_many(market: RawMarket) -> bool:
    return KINDS.get(market.type) not in {None, "binary", "pseudo_numeric"} and market.is_linked


def _outcome(market: RawMarket, said: str, weights: Mapping[str, float]) -> Outcome:
    if said == CANCEL:
        return Void("cancelled: all stakes were given back")
    if _one_of_many(market):
        return _winner(market, said, weights)
    if market.type == "PSEUDO_NUMERIC":
        return Landed(_number(market, said))
    if market.type == "BINARY":
        return _happened(market, said, market.resolution_prob)
    raise _odd(market, f"of the type {market.type[:40]} says {said[:40]!r}")


def _happened(market: RawMarket, said: str, prob: float | None) -> Happened:
    if said in {YES, NO}:
        return Happened(1.0 if said == YES else 0.0)
    if said != MARKET or prob is None or not 0.0 <= prob <= 1.0:
        raise _odd(market, f"says {said[:40]!r} with the probability {prob}")
    return Happened(prob)


def _number(market: RawMarket, said: str) -> float:
    paid = _happened(market, said, market.resolution_prob).value
    try:
        scale = scale_of(market)
    except ValueError as error:
        raise _odd(market, str(error)) from error
    # The ends are on the grid as they were written; arithmetic may miss them by a digit.
    return min(max(scale.value(paid), scale.low), scale.high)


def _winner(market: RawMarket, said: str, weights: Mapping[str, float]) -> Outcome:
    options = options_of(market)
    if said in options:
        return Chosen(options[said], otherwise=_catch_all(market, options))
    if said not in {SEVERAL, MARKET}:
        raise _odd(market, f"says {said[:40]!r}, which is none of its answers")
    paid = {option: weights[answer] for answer, option in options.items() if weights.get(answer, 0.0) > 0.0}
    if not paid:
        raise _odd(market, "has several winners, and nothing says what they were paid")
    best = max(paid, key=lambda option: paid[option])
    if paid[best] >= _ALL:
        return Chosen(best, otherwise=_catch_all(market, options))
    # No rule scores several winners of a question that has one; what each paid is what the paper book pays.
    told = ", ".join(f"{option} {100.0 * share:.10g} %" for option, share in sorted(paid.items()))
    return Void(f"several answers won: {told}", shares=paid)


def _catch_all(market: RawMarket, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the answer that new ones are split from, in a tuple; it stood for each of them before."""
    rows = [row for row in market.answers or () if isinstance(row, Mapping) and row.get("isOther") is True]
    return tuple(options[str(row.get("id"))] for row in rows[:1] if row.get("id") in options)


def _of_answer(market: RawMarket, answer_id: str) -> Verdict | None:
    found = [answer for answer in answers_of(market, []) if answer.id == answer_id]
    if not found:
        raise _odd(market, f"has no answer {answer_id} that can be read")
    answer = found[0]
    if answer.resolution is None:
        if market.resolution != CANCEL:
            return None
        return Verdict(outcome=Void("cancelled"), at=_since(market.resolution_time), text=CANCEL)
    outcome: Outcome
    if answer.resolution == CANCEL:
        outcome = Void("cancelled: all stakes were given back")
    else:
        outcome = _happened(market, answer.resolution, answer.resolution_prob)
    prob = answer.resolution_prob if answer.resolution == MARKET else ""
    since = answer.resolution_time if answer.resolution_time is not None else market.resolution_time
    return Verdict(outcome=outcome, at=_since(since), text=f"{answer.resolution} {prob}".strip())


def _since(milliseconds: float | None) -> datetime | None:
    return None if milliseconds is None else moment_of(milliseconds)


def _odd(market: RawMarket, why: str) -> ContractError:
    return ContractError(f"market {market.id} {why}")
