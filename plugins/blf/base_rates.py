"""The prior of a trial: the crowd's price.

Else how often questions of this kind came true (a published table, or rates learned from outcomes before the cutoff),
else even odds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    Json,
    LeakError,
    PriorSource,
    Question,
    StartingPoint,
    TrainingExample,
    TrialContext,
    TrialPrior,
    find_starting_point,
)
from plugins.blf.settings import BlfSettings

# How often questions of each kind came true. Source: BLF (arXiv 2604.18576v3), table 7, and the code behind it.
PUBLISHED_RATES = {
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


# With fewer earlier outcomes than these the table is more reliable.
LEAST_OUTCOMES = 30


# Words of a question that show its kind, by source.
_KINDS_BY_SOURCE = {
    "acled": (("ten times", "tenfold"), ("", "increase")),
    "wikipedia": (
        ("vaccine", "vaccine"),
        ("Elo rating", "elo"),
        ("FIDE ranking", "rank"),
        ("world record", "swimming"),
    ),
}


def question_kind(question: Question) -> str | None:
    """Return the kind under which a question's base rate is counted; None where that depends on a missing text.

    Source: ForecastBench's templates; a question from anywhere else counts under its source or venue.
    """
    source = question.source or question.ref.venue
    kinds = _KINDS_BY_SOURCE.get(source)
    if kinds is None:
        return source
    if not question.title:
        return None
    return next((f"{source}/{kind}" for words, kind in kinds if words in question.title), None)


def choose_starting_point(question: Question, context: TrialContext, settings: BlfSettings) -> StartingPoint:
    """Return the prior of a trial on this question under these settings.

    A base rate is for questions without a crowd price, so it is not used for those whose crowd is only switched off.
    """
    if settings.prior and question.crowd is None and isinstance(question.shape, BinaryShape):
        found = _learned_rate(question, context) or (_published_rate(question) if settings.prior_table else None)
        if found is not None:
            return found
    return find_starting_point(question, crowd=settings.crowd)


def trial_prior(anchor: StartingPoint) -> TrialPrior | None:
    """Return the prior of a trial as its first step states it: trials that disagree are shrunk towards it."""
    kinds = {"crowd": PriorSource.CROWD, "prior": PriorSource.BASE_RATE, "even": PriorSource.EVEN}
    # Only answers of yes or no are shrunk.
    return (
        TrialPrior(kinds[anchor.kind], anchor.prediction) if isinstance(anchor.prediction, BinaryPrediction) else None
    )


def _learned_rate(question: Question, context: TrialContext) -> StartingPoint | None:
    kind = question_kind(question)
    rates = context.fitted.payload.get("rates") if context.fitted else None
    row = rates.get(kind) if isinstance(rates, dict) and kind else None
    if not isinstance(row, list) or len(row) != 2 or not context.fitted:
        return None
    count, rate = row
    if (
        not isinstance(count, int)
        or not isinstance(rate, int | float)
        or count < LEAST_OUTCOMES
        or not 0.0 <= rate <= 1.0
    ):
        return None
    day = f"{context.fitted.before:%Y-%m-%d}"
    text = f"Of {count} outcomes of such questions ({kind}) known before {day}, {rate:.1%} were yes."
    return StartingPoint("prior", text, BinaryPrediction(float(rate)))


def _published_rate(question: Question) -> StartingPoint | None:
    kind = question_kind(question)
    if kind not in PUBLISHED_RATES:
        return None
    text = f"Of all earlier questions of this kind ({kind}) {PUBLISHED_RATES[kind]:.1%} came true."
    return StartingPoint("prior", text, BinaryPrediction(PUBLISHED_RATES[kind]))


class BaseRateLearner:
    """Counts outcomes by kind; questions with a crowd price are ignored, since they have a better prior."""

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"rates": {kind: [outcomes, mean]}}``; raises LeakError for an outcome not known before."""
        seen: defaultdict[str, list[float]] = defaultdict(list)
        for example in examples:
            if example.resolution.resolved_at >= before:
                message = (
                    f"{example.question.ref} was resolved on {example.resolution.resolved_at.isoformat()}, "
                    f"not before {before.isoformat()}"
                )
                raise LeakError(message)
            kind = question_kind(example.question) if example.question.crowd is None else None
            if kind is not None and isinstance(example.resolution.outcome, BinaryOutcome):
                seen[kind].append(example.resolution.outcome.value)
        rates: dict[str, Json] = {kind: [len(found), sum(found) / len(found)] for kind, found in sorted(seen.items())}
        return {"rates": rates}
