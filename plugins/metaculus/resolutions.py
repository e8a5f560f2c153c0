"""Outcomes from the text of a resolution, read by the type of its question, since options may have any name.

Source: docs/facts/metaculus.md#resolution.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bot.api import (
    SINGLE_TARGET,
    BinaryOutcome,
    ChoiceOutcome,
    MalformedDataError,
    NumericOutcome,
    Outcome,
    QuestionRef,
    Resolution,
    VoidOutcome,
)
from plugins.metaculus.api_records import MetaculusQuestionRecord, is_sequence
from plugins.metaculus.post_parser import BINARY, CHOICE, CONTINUOUS, DATE, question_scale, spot_scoring_time

RESOLVED = "resolved"
VOID_RESOLUTIONS = frozenset({"annulled", "ambiguous"})
# The server's names of scores, and ours (docs/facts/metaculus.md#scores).
SCORE_NAMES = {
    "baseline_score": "baseline",
    "spot_baseline_score": "spot baseline",
    "peer_score": "peer",
    "spot_peer_score": "spot peer",
    "coverage": "coverage",
}
ABOVE_BOUND, BELOW_BOUND = "above_upper_bound", "below_lower_bound"


def question_resolution(question: MetaculusQuestionRecord, ref: QuestionRef) -> Resolution | None:
    """Return the outcome, None while there is none; raises MalformedDataError for an invalid text.

    Only the status says whether a question is resolved. The outcome counts as knowable from the later of the moments at
    which it was true and was entered, so that nothing is learned from it too early.
    """
    if question.status != RESOLVED or question.resolution is None:
        return None
    known = [moment for moment in (question.actual_resolve_time, question.resolution_set_time) if moment is not None]
    if not known:
        message = f"question {question.id} is resolved, but without a time"
        raise MalformedDataError(message)
    return Resolution(
        ref=ref,
        target=SINGLE_TARGET,
        outcome=parse_outcome(question, question.resolution),
        resolved_at=max(known),
        scores=venue_scores(question),
    )


def venue_scores(question: MetaculusQuestionRecord) -> dict[str, float]:
    """Return the server's scores of our forecasts on a question, by our names of its rules."""
    score_data = question.my_forecasts.get("score_data") if isinstance(question.my_forecasts, Mapping) else None
    found = {name: score_data.get(key) for key, name in SCORE_NAMES.items()} if isinstance(score_data, Mapping) else {}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def parse_outcome(question: MetaculusQuestionRecord, text: str) -> Outcome:
    """Parse the text of a resolution; raises MalformedDataError if it does not fit the question."""
    if question.type == CHOICE and text in {*(question.options or ()), *(question.all_options_ever or ())}:
        # For a forecast without that option the server uses its last option.
        return ChoiceOutcome(
            text, otherwise=question.options[-1:] if question.options else (), early=_early_options(question)
        )
    if text in VOID_RESOLUTIONS:
        return VoidOutcome(text)
    if question.type == BINARY and text in {"yes", "no"}:
        return BinaryOutcome(1.0 if text == "yes" else 0.0)
    if question.type in CONTINUOUS:
        return NumericOutcome(_numeric_outcome(question, text))
    message = f"question {question.id}: {text[:80]!r} is not a resolution of a {question.type} question"
    raise MalformedDataError(message)


def _early_options(question: MetaculusQuestionRecord) -> tuple[str, ...]:
    """Return the options that were added, but not in force yet when the question was scored.

    Until their grace period is over the server adds their probability to the last option.
    """
    moments = [moment for moment in (spot_scoring_time(question), question.actual_close_time) if moment is not None]
    if not moments or not question.options:
        return ()
    history = question.options_history if is_sequence(question.options_history) else ()
    changes = [_option_change(entry) for entry in history]
    in_force = [names for since, names in changes if since <= min(moments)]
    return tuple(option for option in question.options if option not in in_force[-1]) if in_force else ()


def _option_change(entry: Any) -> tuple[datetime, Sequence[str]]:  # noqa: ANN401 - unchecked JSON
    """Return the options and the moment they come into force; an invalid entry never does."""
    try:
        since, names = entry
        found = datetime.fromisoformat(since)
        return found if found.utcoffset() is not None else found.replace(tzinfo=UTC), tuple(names)
    except (TypeError, ValueError):
        return datetime.max.replace(tzinfo=UTC), ()


def _numeric_outcome(question: MetaculusQuestionRecord, text: str) -> float:
    if text in {ABOVE_BOUND, BELOW_BOUND}:
        return math.inf if text == ABOVE_BOUND else -math.inf
    try:
        value = _parse_moment(text) if question.type == DATE else float(text)
        if not math.isfinite(value):
            raise ValueError(text)  # noqa: TRY301 - one message for all that is not a number
    except ValueError as error:
        message = f"question {question.id}: {text[:80]!r} is not a resolution of a {question.type} question"
        raise MalformedDataError(message) from error
    return _clamp_to_scored_range(question, value)


def _parse_moment(text: str) -> float:
    moment = datetime.fromisoformat(text)  # a space between day and time is accepted too
    return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).timestamp()


def _clamp_to_scored_range(question: MetaculusQuestionRecord, value: float) -> float:
    """Return an infinite value if the server counts an outcome as beyond an open bound.

    On a logarithmic scale that may be the upper bound itself, by rounding.
    """
    try:
        scale = question_scale(question)
    except ValueError:
        return value
    bucket = scale.bucket_index(value)
    if bucket > scale.steps and question.open_upper_bound:
        return math.inf
    return -math.inf if bucket == 0 and question.open_lower_bound else value
