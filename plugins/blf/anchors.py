"""Where a trial starts: the crowd's price, else how often questions of this kind came true, else even odds."""

from __future__ import annotations

from bot.api import Anchor, Binary, BinaryShape, Desk, PriorSource, Question, TrialPrior, starting_point
from plugins.blf.settings import BlfSettings

# How often questions of each kind came true. Source: BLF (arXiv 2604.18576v3), table 7, and the code behind it.
RATES = {
    "acled/tenfold": 0.002,
    "acled/increase": 0.225,
    "wikipedia/vaccine": 0.0,
    "wikipedia/elo": 0.007,
    "wikipedia/rank": 0.68,
    "wikipedia/swimming": 0.991,
    "fred": 0.422,
    "yfinance": 0.576,
    "dbnomics": 0.555,
}
# Fewer earlier outcomes than these say less than the table does.
ENOUGH = 30

# Words of a question that tell its kind, by source.
_KINDS = {
    "acled": (("ten times", "tenfold"), ("", "increase")),
    "wikipedia": (
        ("vaccine", "vaccine"),
        ("Elo rating", "elo"),
        ("FIDE ranking", "rank"),
        ("world record", "swimming"),
    ),
}


def kind_of(question: Question) -> str | None:
    """Return the kind that a question's base rate is counted under; None where its text would be needed and is not.

    Source: ForecastBench's templates; a question from anywhere else counts under its source or venue.
    """
    source = question.source or question.ref.venue
    kinds = _KINDS.get(source)
    if kinds is None:
        return source
    if not question.title:
        return None
    return next((f"{source}/{kind}" for words, kind in kinds if words in question.title), None)


def anchor_of(question: Question, desk: Desk, settings: BlfSettings) -> Anchor:
    """Return what a trial on this question starts from under these settings.

    A base rate is for questions that no crowd prices, so it says nothing of those whose crowd is only switched off.
    """
    if settings.prior and question.crowd is None and isinstance(question.shape, BinaryShape):
        found = _learned(question, desk) or (_tabled(question) if settings.prior_table else None)
        if found is not None:
            return found
    return starting_point(question, crowd=settings.crowd)


def prior_of(anchor: Anchor) -> TrialPrior | None:
    """Return what a trial starts from as its first step says it: towards this trials that disagree are drawn."""
    kinds = {"crowd": PriorSource.CROWD, "prior": PriorSource.BASE_RATE, "even": PriorSource.EVEN}
    # Only answers of yes or no are drawn anywhere.
    return TrialPrior(kinds[anchor.kind], anchor.prediction) if isinstance(anchor.prediction, Binary) else None


def _learned(question: Question, desk: Desk) -> Anchor | None:
    kind = kind_of(question)
    rates = desk.fitted.payload.get("rates") if desk.fitted else None
    row = rates.get(kind) if isinstance(rates, dict) and kind else None
    if not isinstance(row, list) or len(row) != 2 or not desk.fitted:
        return None
    count, rate = row
    if not isinstance(count, int) or not isinstance(rate, int | float) or count < ENOUGH or not 0.0 <= rate <= 1.0:
        return None
    day = f"{desk.fitted.before:%Y-%m-%d}"
    text = f"Of {count} outcomes of such questions ({kind}) known before {day}, {rate:.1%} were yes."
    return Anchor("prior", text, Binary(float(rate)))


def _tabled(question: Question) -> Anchor | None:
    kind = kind_of(question)
    if kind not in RATES:
        return None
    text = f"Of all earlier questions of this kind ({kind}) {RATES[kind]:.1%} came true."
    return Anchor("prior", text, Binary(RATES[kind]))
