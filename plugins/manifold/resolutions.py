"""Outcomes, from a market as it is now.

A price is never an outcome: ``resolutionProbability`` of YES and NO is the price before, and the answers of a market
with one winner still show theirs. Only the separate list of answers has the payouts of several winners. Source:
docs/facts/manifold.md#resolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.api import BinaryOutcome, ChoiceOutcome, MalformedDataError, NumericOutcome, Outcome, VoidOutcome
from plugins.manifold.api_records import (
    ManifoldAnswerRecord,
    ManifoldMarketRecord,
    from_milliseconds,
    parse_record,
    record_name,
)
from plugins.manifold.market_parser import KIND_BY_TYPE, market_scale, options_by_answer, parse_answers

YES, NO, MARKET, CANCEL, SEVERAL_WINNERS = "YES", "NO", "MKT", "CANCEL", "CHOOSE_MULTIPLE"
# An answer with at least this payout won alone.
_FULL_PAYOUT = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifoldResolution:
    """An outcome and since when it is known, None if the venue does not say.

    ``text`` is the venue's text, so that a change is noticed.
    """

    outcome: Outcome
    at: datetime | None
    text: str


def needs_answer_payouts(market: ManifoldMarketRecord) -> bool:
    """Return whether the list of answers must be read to know what this market paid."""
    return _has_one_winner(market) and market.resolution in {SEVERAL_WINNERS, MARKET}


def market_resolution(
    market: ManifoldMarketRecord, answer_id: str, weights: Mapping[str, float]
) -> ManifoldResolution | None:
    """Return the outcome of a question about a market, or about one answer of it; None while there is none.

    ``weights`` are payouts by the ids of answers, if ``needs_answer_payouts``. Raises MalformedDataError for a
    resolution that does not fit the market.
    """
    if answer_id:
        return _answer_resolution(market, answer_id)
    if not market.is_resolved:
        return None
    if market.resolution is None:
        raise _resolution_error(market, "is resolved, but without an outcome")
    return ManifoldResolution(
        outcome=_market_outcome(market, market.resolution, weights),
        at=_known_since(market.resolution_time),
        text=f"{market.resolution} {market.resolution_prob if market.resolution == MARKET else ''}".strip(),
    )


def answer_payouts(rows: list[object], market_id: str) -> dict[str, float]:
    """Return what one share of each answer paid, from the list of answers."""
    found = [
        parse_record(ManifoldAnswerRecord, row, f"{record_name(row, 'answer')} of market {market_id}") for row in rows
    ]
    return {answer.id: answer.prob for answer in found if answer.prob is not None}


def _has_one_winner(market: ManifoldMarketRecord) -> bool:
    return KIND_BY_TYPE.get(market.type) not in {None, "binary", "pseudo_numeric"} and market.is_linked


def _market_outcome(market: ManifoldMarketRecord, resolution: str, weights: Mapping[str, float]) -> Outcome:
    if resolution == CANCEL:
        return VoidOutcome("cancelled: all stakes were refunded")
    if _has_one_winner(market):
        return _winning_outcome(market, resolution, weights)
    if market.type == "PSEUDO_NUMERIC":
        return NumericOutcome(_numeric_value(market, resolution))
    if market.type == "BINARY":
        return _binary_outcome(market, resolution, market.resolution_prob)
    raise _resolution_error(market, f"of the type {market.type[:40]} says {resolution[:40]!r}")


def _binary_outcome(market: ManifoldMarketRecord, resolution: str, prob: float | None) -> BinaryOutcome:
    if resolution in {YES, NO}:
        return BinaryOutcome(1.0 if resolution == YES else 0.0)
    if resolution != MARKET or prob is None or not 0.0 <= prob <= 1.0:
        raise _resolution_error(market, f"says {resolution[:40]!r} with the probability {prob}")
    return BinaryOutcome(prob)


def _numeric_value(market: ManifoldMarketRecord, resolution: str) -> float:
    paid = _binary_outcome(market, resolution, market.resolution_prob).value
    try:
        scale = market_scale(market)
    except ValueError as error:
        raise _resolution_error(market, str(error)) from error
    # The ends are on the grid exactly; arithmetic may miss them by a digit.
    return min(max(scale.value(paid), scale.low), scale.high)


def _winning_outcome(market: ManifoldMarketRecord, resolution: str, weights: Mapping[str, float]) -> Outcome:
    options = options_by_answer(market)
    if resolution in options:
        return ChoiceOutcome(options[resolution], otherwise=_other_option(market, options))
    if resolution not in {SEVERAL_WINNERS, MARKET}:
        raise _resolution_error(market, f"says {resolution[:40]!r}, which is not one of its answers")
    paid = {option: weights[answer] for answer, option in options.items() if weights.get(answer, 0.0) > 0.0}
    if not paid:
        raise _resolution_error(market, "has several winners, but without payouts")
    best = max(paid, key=lambda option: paid[option])
    if paid[best] >= _FULL_PAYOUT:
        return ChoiceOutcome(best, otherwise=_other_option(market, options))
    # No rule scores several winners of a question with one; the paper book pays what each paid.
    payouts = ", ".join(f"{option} {100.0 * share:.10g} %" for option, share in sorted(paid.items()))
    return VoidOutcome(f"several answers won: {payouts}", shares=paid)


def _other_option(market: ManifoldMarketRecord, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the "other" answer, from which new ones are split, in a tuple; it represented each of them before."""
    rows = [row for row in market.answers or () if isinstance(row, Mapping) and row.get("isOther") is True]
    return tuple(options[str(row.get("id"))] for row in rows[:1] if row.get("id") in options)


def _answer_resolution(market: ManifoldMarketRecord, answer_id: str) -> ManifoldResolution | None:
    found = [answer for answer in parse_answers(market, []) if answer.id == answer_id]
    if not found:
        raise _resolution_error(market, f"has no valid answer {answer_id}")
    answer = found[0]
    if answer.resolution is None:
        if market.resolution != CANCEL:
            return None
        return ManifoldResolution(
            outcome=VoidOutcome("cancelled"), at=_known_since(market.resolution_time), text=CANCEL
        )
    outcome: Outcome
    if answer.resolution == CANCEL:
        outcome = VoidOutcome("cancelled: all stakes were refunded")
    else:
        outcome = _binary_outcome(market, answer.resolution, answer.resolution_prob)
    prob = answer.resolution_prob if answer.resolution == MARKET else ""
    since = answer.resolution_time if answer.resolution_time is not None else market.resolution_time
    return ManifoldResolution(outcome=outcome, at=_known_since(since), text=f"{answer.resolution} {prob}".strip())


def _known_since(milliseconds: float | None) -> datetime | None:
    return None if milliseconds is None else from_milliseconds(milliseconds)


def _resolution_error(market: ManifoldMarketRecord, why: str) -> MalformedDataError:
    return MalformedDataError(f"market {market.id} {why}")
