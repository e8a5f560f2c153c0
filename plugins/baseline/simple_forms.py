"""The models of a few terms each.

Market prices, share prices, encyclopedia tables, and the pooled rate of a source where no better model fits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from datetime import date
from functools import lru_cache

from bot.api import RegressionTerm
from plugins.baseline.model_form import LEAST_PROBABILITY, ModelForm, ModelTerms, create_steady_form, question_block
from plugins.baseline.question_facts import ScoredEvent


@lru_cache(maxsize=256)
def _pooled_series_terms(source: str) -> ModelTerms:
    return (
        RegressionTerm("all", 1.0, -0.57, 0.5, "36 % of the dated questions of older rounds came true"),
        RegressionTerm(f"source {source}", 1.0, 0.0, 1.0, f"earlier outcomes of {source} questions"),
    )


@lru_cache(maxsize=256)
def _pooled_market_terms(source: str) -> ModelTerms:
    return (
        RegressionTerm("all", 1.0, -1.8, 0.5, "14 % of the market questions of older rounds came true"),
        RegressionTerm(f"source {source}", 1.0, 0.0, 0.5, f"earlier outcomes of {source} questions"),
    )


def _event_series_terms(event: ScoredEvent) -> ModelTerms:
    return _pooled_series_terms(event.facts.source)


def _event_market_terms(event: ScoredEvent) -> ModelTerms:
    return _pooled_market_terms(event.facts.source)


def _round_block(event: ScoredEvent) -> Hashable:
    return event.facts.due, event.target, event.facts.source


POOLED_SERIES_FORM = ModelForm(name="any_series", terms=_event_series_terms, block=_round_block)


POOLED_MARKET_FORM = ModelForm(name="any_market", terms=_event_market_terms, block=_round_block)


def is_price(value: float | None) -> bool:
    """Return whether a value can be a probability."""
    return value is not None and 0.0 <= value <= 1.0


_PRICE_SLOPE = 1.15


def _market_price_terms(event: ScoredEvent) -> ModelTerms:
    facts = event.facts
    if facts.value is None or not is_price(facts.value):
        message = f"{facts.source} {facts.key} has no price"
        raise ValueError(message)
    price = min(1.0 - LEAST_PROBABILITY, max(LEAST_PROBABILITY, facts.value))
    why = f"the crowd's price is {facts.value:.3f}; outcomes of earlier rounds set how far its log odds are stretched"
    # Pools of opinions are too cautious: on later rounds 1.15 was better than 1.
    return (RegressionTerm("slope", math.log(price / (1.0 - price)), _PRICE_SLOPE, 0.1, why),)


def _market_question_block(event: ScoredEvent) -> Hashable:
    # The same question returns in many rounds and has one outcome.
    return event.facts.source, event.facts.key


MARKET_PRICE_FORM = ModelForm(
    name="market", terms=_market_price_terms, block=_market_question_block, correlation=1.0, reach=2.0
)


# A yearly drift of 8 % against a yearly spread of 30 % is 0.27 standard deviations, times 1.6 on the logit scale.
_YEARLY_DRIFT = 0.43


def _share_price_terms(event: ScoredEvent) -> ModelTerms:
    return (
        RegressionTerm("all", 1.0, 0.0, 0.1, "share prices rise about as often as they fall over short times"),
        RegressionTerm(
            "drift",
            math.sqrt(event.days / 365.0),
            _YEARLY_DRIFT,
            0.15,
            f"upward drift of share prices over {event.days} days",
        ),
    )


def _market_day_block(event: ScoredEvent) -> Hashable:
    return event.facts.due, event.target


SHARE_PRICE_FORM = ModelForm(name="yfinance", terms=_share_price_terms, block=_market_day_block)


_DAYS_PER_MONTH = 30.4


def count_new_lists(due: date, target: date) -> int:
    """Return how many monthly lists appear after ``due`` up to ``target``.

    The page follows the list by some days, so a window of a month always holds one.
    """
    firsts = (target.year - due.year) * 12 + target.month - due.month
    return max(firsts, round((target - due).days / _DAYS_PER_MONTH))


def _rank_terms(event: ScoredEvent) -> ModelTerms:
    place = event.facts.value
    lists = count_new_lists(event.facts.due, event.day)
    if not lists:
        return (
            RegressionTerm("no list", 1.0, 4.0, 1.0, f"no new chess list within {event.days} days, so the rank stays"),
        )
    terms = (
        RegressionTerm("one list", 1.0, 1.0, 1.0, "players who hold or improve their rank in one new chess list"),
        RegressionTerm("more lists", math.log(lists), -0.5, 0.5, f"{lists} new chess lists within {event.days} days"),
    )
    if place is None or place < 1.0:
        return terms
    why = f"rank {place:g}: a better place is held longer"
    return (*terms, RegressionTerm("place", math.log(place / 10.0), -0.4, 0.5, why))


CHESS_RANK_FORM = ModelForm(name="wiki_rank", terms=_rank_terms, block=question_block)


CHESS_RATING_FORM = create_steady_form(
    "wiki_elo", log_odds=-4.6, why="a chess rating hardly ever gains 1 % in so short a time"
)


SWIMMING_RECORD_FORM = create_steady_form(
    "wiki_swim", log_odds=4.6, why="a swimming record is hardly ever broken in so short a time"
)


VACCINE_FORM = create_steady_form(
    "wiki_vaccine", log_odds=-6.0, why="a new vaccine is hardly ever approved in so short a time"
)
