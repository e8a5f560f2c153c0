"""How well jurors and aggregates did on questions of any kind that are decided, read from the record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import StatisticsError, correlation, fmean
from typing import Any

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurveShape,
    ForecastExplanation,
    Outcome,
    Prediction,
    Question,
    curve_from_quantiles,
    prediction_loss,
    replace_invisible,
)
from plugins.society.transcripts import AGGREGATES, closing_tally

_MOST_NAME_CHARS = 24
# By the kind of question: what the loss is. Source: ``bot.stats.scoring_rules.prediction_loss``.
_LOSSES = {"yes or no": "Brier", "options": "Brier / 2", "numbers and dates": "CRPS share"}


@dataclass(slots=True)
class ScoredVotes:
    """The votes on decided questions of one kind: losses by name, yes-or-no answers, and spread with error."""

    losses: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    spreads: list[tuple[float, float]] = field(default_factory=list)


def score_forecasts(forecasts: Sequence[ForecastExplanation]) -> str:
    """Return how jurors and aggregates did on decided questions, and how spread goes with error, by kind of question.

    The loss is from 0 to 1, the mean over all trials and targets; accuracy is the share on the right side of one half,
    MAE the mean distance to the outcome, as in the paper. Jurors are numbered, and are other people in each trial.
    """
    kinds: dict[str, ScoredVotes] = {}
    for found in forecasts:
        for steps in found.steps.values():
            tally = closing_tally(steps)
            _add_votes(found, tally, kinds.setdefault(_kind(found.trace.question), ScoredVotes()))
    lines = [line for kind, scored in kinds.items() if scored.losses for line in (*_score_lines(kind, scored), "")]
    return replace_invisible("\n".join(lines[:-1])) or "No question among these is decided, so nothing can be scored."


def _kind(question: Question) -> str:
    match question.shape:
        case ChoiceShape():
            return "options"
        case CurveShape():
            return "numbers and dates"
        case _:
            return "yes or no"


def _add_votes(found: ForecastExplanation, tally: Mapping[str, Any], scored: ScoredVotes) -> None:
    question = found.trace.question
    named = {**tally.get("votes", {}), **{name: tally[name] for name in AGGREGATES if name in tally}}
    for name, by_target in named.items():
        for target, value in by_target.items():
            outcome = found.outcomes.get(target)
            loss = None if outcome is None else _loss(question, value, outcome)
            if loss is None:
                continue
            scored.losses.setdefault(name, []).append(loss)
            error = loss
            if isinstance(outcome, BinaryOutcome):
                scored.answers.setdefault(name, []).append((float(value), outcome.value))
                error = abs(float(value) - outcome.value)
            if name == "mean":
                scored.spreads.append((tally["spread"][target], error))


def _loss(question: Question, value: Any, outcome: Outcome) -> float | None:  # noqa: ANN401 - a JSON value
    prediction = _decode_prediction(question, value)
    return None if prediction is None else prediction_loss(prediction, question.shape, outcome)


def _decode_prediction(question: Question, value: Any) -> Prediction | None:  # noqa: ANN401 - a JSON value
    """Return the prediction that is recorded as JSON: a curve through the values at some percentages."""
    match question.shape, value:
        case ChoiceShape(), dict() if (total := math.fsum(value.values())) > 0:
            return ChoicePrediction({option: share / total for option, share in value.items()})
        case CurveShape() as shape, dict():
            values = {int(name.removeprefix("p")) / 100: _read_value(one) for name, one in value.items()}
            return curve_from_quantiles(values, shape, step_mass=0.0)
        case _, int() | float():
            return BinaryPrediction(float(value))
        case _:
            return None


def _read_value(value: float | str) -> float:
    """Return a value of a curve; of a date its time, as curves have it."""
    return datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp() if isinstance(value, str) else value


def _score_lines(kind: str, scored: ScoredVotes) -> Iterator[str]:
    extra = f"{'MAE':>8}{'accuracy':>10}{'mean p':>9}{'mean outcome':>14}" if scored.answers else ""
    yield f"{kind:<{_MOST_NAME_CHARS}}{'n':>5}{_LOSSES[kind]:>12}{extra}"
    for name, losses in scored.losses.items():
        more = ""
        if given := scored.answers.get(name):
            # An answer of one half is on no side.
            right = fmean((p > 0.5) == (outcome > 0.5) and p != 0.5 for p, outcome in given)
            error = fmean(abs(p - outcome) for p, outcome in given)
            means = (fmean(p for p, _ in given), fmean(outcome for _, outcome in given))
            more = f"{error:>8.3f}{100 * right:>8.0f} %{means[0]:>9.3f}{means[1]:>14.3f}"
        yield f"{name:<{_MOST_NAME_CHARS}}{len(losses):>5}{fmean(losses):>12.4f}{more}"
    yield f"correlation of spread with the error of the mean: {_correlation(scored.spreads)}"


def _correlation(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < 3:
        return "too few trials"
    spreads, errors = zip(*pairs, strict=True)
    try:
        return f"{correlation(spreads, errors):.2f}"
    except StatisticsError:
        return "not defined"
