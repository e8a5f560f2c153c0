"""What happened, from the text of a resolution: read by the type of its question, since options may be called anything.

Source: venue document, section 7.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bot.api import SINGLE_TARGET, Chosen, ContractError, Happened, Landed, Outcome, QuestionRef, Resolution, Void
from plugins.metaculus.parse import BINARY, CHOICE, CONTINUOUS, DATE, scale_of, spot_of
from plugins.metaculus.raw import RawQuestion, is_sequence

RESOLVED = "resolved"
NO_SCORE = frozenset({"annulled", "ambiguous"})
# What the server calls its scores, and what we do (section 9).
SCORES = {
    "baseline_score": "baseline",
    "spot_baseline_score": "spot baseline",
    "peer_score": "peer",
    "spot_peer_score": "spot peer",
    "coverage": "coverage",
}
ABOVE, BELOW = "above_upper_bound", "below_lower_bound"


def resolution_of(asked: RawQuestion, ref: QuestionRef) -> Resolution | None:
    """Return the outcome, None while there is none; raises ContractError for a text that is none.

    Whether a question is resolved is said by its status alone. It counts as knowable from the later of the moments at
    which it was true and was entered, so that nothing is learned from it too early.
    """
    if asked.status != RESOLVED or asked.resolution is None:
        return None
    known = [moment for moment in (asked.actual_resolve_time, asked.resolution_set_time) if moment is not None]
    if not known:
        message = f"question {asked.id} is resolved, and nothing says since when"
        raise ContractError(message)
    return Resolution(
        ref=ref,
        target=SINGLE_TARGET,
        outcome=outcome_of(asked, asked.resolution),
        resolved_at=max(known),
        scores=scores_of(asked),
    )


def scores_of(asked: RawQuestion) -> dict[str, float]:
    """Return what the server scores our forecasts on a question with, by the names we give its rules."""
    told = asked.my_forecasts.get("score_data") if isinstance(asked.my_forecasts, Mapping) else None
    found = {name: told.get(key) for key, name in SCORES.items()} if isinstance(told, Mapping) else {}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def outcome_of(asked: RawQuestion, text: str) -> Outcome:
    """Read the text of a resolution; raises ContractError for one that does not fit the question."""
    if asked.type == CHOICE and text in {*(asked.options or ()), *(asked.all_options_ever or ())}:
        # A forecast without that option is read by the server at its last one.
        return Chosen(text, otherwise=asked.options[-1:] if asked.options else (), early=_early(asked))
    if text in NO_SCORE:
        return Void(text)
    if asked.type == BINARY and text in {"yes", "no"}:
        return Happened(1.0 if text == "yes" else 0.0)
    if asked.type in CONTINUOUS:
        return Landed(_landed(asked, text))
    message = f"question {asked.id}: {text[:80]!r} is no resolution of a {asked.type} question"
    raise ContractError(message)


def _early(asked: RawQuestion) -> tuple[str, ...]:
    """Return the options that were named, but not in force yet when the question was scored.

    Until their grace period is over the server keeps what a forecast gives them with the last one (section 6).
    """
    moments = [moment for moment in (spot_of(asked), asked.actual_close_time) if moment is not None]
    if not moments or not asked.options:
        return ()
    history = asked.options_history if is_sequence(asked.options_history) else ()
    changes = [_change(entry) for entry in history]
    in_force = [names for since, names in changes if since <= min(moments)]
    return tuple(option for option in asked.options if option not in in_force[-1]) if in_force else ()


def _change(entry: Any) -> tuple[datetime, Sequence[str]]:  # noqa: ANN401 - whatever stands there
    """Return since when which options are in force; what is odd never is."""
    try:
        since, names = entry
        found = datetime.fromisoformat(since)
        return found if found.utcoffset() is not None else found.replace(tzinfo=UTC), tuple(names)
    except (TypeError, ValueError):
        return datetime.max.replace(tzinfo=UTC), ()


def _landed(asked: RawQuestion, text: str) -> float:
    if text in {ABOVE, BELOW}:
        return math.inf if text == ABOVE else -math.inf
    try:
        value = _moment(text) if asked.type == DATE else float(text)
        if not math.isfinite(value):
            raise ValueError(text)  # noqa: TRY301 - one message for all that is no number
    except ValueError as error:
        message = f"question {asked.id}: {text[:80]!r} is no resolution of a {asked.type} question"
        raise ContractError(message) from error
    return _as_scored(asked, value)


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)  # a space between day and time is taken too
    return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).timestamp()


def _as_scored(asked: RawQuestion, value: float) -> float:
    """Return an infinite value where the server counts an outcome as beyond an open bound.

    On a logarithmic scale that may be the upper bound itself, by rounding.
    """
    try:
        scale = scale_of(asked)
    except ValueError:
        return value
    bucket = scale.bucket(value)
    if bucket > scale.steps and asked.open_upper_bound:
        return math.inf
    return -math.inf if bucket == 0 and asked.open_lower_bound else value
