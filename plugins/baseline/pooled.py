"""The last resort: how often questions of a source, or of any, came true. Used where no better form fits."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from plugins.baseline.facts import Event
from plugins.baseline.form import Form, Terms
from plugins.baseline.ridge import Term


@lru_cache(maxsize=256)
def _of_series(source: str) -> Terms:
    return (
        Term("all", 1.0, -0.57, 0.5, "36 % of the dated questions of older rounds came true"),
        Term(f"source {source}", 1.0, 0.0, 1.0, f"earlier outcomes of {source} questions"),
    )


@lru_cache(maxsize=256)
def _of_market(source: str) -> Terms:
    return (
        Term("all", 1.0, -1.8, 0.5, "14 % of the market questions of older rounds came true"),
        Term(f"source {source}", 1.0, 0.0, 0.5, f"earlier outcomes of {source} questions"),
    )


def _series_terms(event: Event) -> Terms:
    return _of_series(event.facts.source)


def _market_terms(event: Event) -> Terms:
    return _of_market(event.facts.source)


def _round(event: Event) -> Hashable:
    return event.facts.due, event.target, event.facts.source


SERIES = Form(name="any_series", terms=_series_terms, block=_round)
MARKET = Form(name="any_market", terms=_market_terms, block=_round)
