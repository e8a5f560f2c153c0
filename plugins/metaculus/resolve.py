"""What happened, from the text of a resolution: read by the type of its question, since options may be called anything.

Source: venue document, section 7.
"""

import math
from datetime import UTC, datetime

from bot.api import SINGLE_TARGET, Chosen, ContractError, Happened, Landed, Outcome, QuestionRef, Resolution, Void
from plugins.metaculus.parse import BINARY, CHOICE, CONTINUOUS, DATE, scale_of
from plugins.metaculus.raw import RawQuestion

RESOLVED = "resolved"
NO_SCORE = frozenset({"annulled", "ambiguous"})
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
        ref=ref, target=SINGLE_TARGET, outcome=outcome_of(asked, asked.resolution), resolved_at=max(known)
    )


def outcome_of(asked: RawQuestion, text: str) -> Outcome:
    """Read the text of a resolution; raises ContractError for one that does not fit the question."""
    if asked.type == CHOICE and text in {*(asked.options or ()), *(asked.all_options_ever or ())}:
        # A forecast without that option is read by the server at its last one.
        return Chosen(text, otherwise=asked.options[-1:] if asked.options else ())
    if text in NO_SCORE:
        return Void(text)
    if asked.type == BINARY and text in {"yes", "no"}:
        return Happened(1.0 if text == "yes" else 0.0)
    if asked.type in CONTINUOUS:
        return Landed(_landed(asked, text))
    message = f"question {asked.id}: {text[:80]!r} is no resolution of a {asked.type} question"
    raise ContractError(message)


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
