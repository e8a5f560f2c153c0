"""When a question may be answered: the same rule at the gate and again just before a write."""

from datetime import UTC, datetime

from bot.domain.question import Question
from bot.domain.question_changes import describe_changes
from bot.gate.case import Lane


def closed(lane: Lane, question: Question, now: datetime, *, binding: bool) -> str | None:
    """Say that the window has closed, or closes too soon; paper without orders goes on as if it had not."""
    closes_at = question.closes_at
    if not binding or closes_at is None or now <= closes_at - lane.close_margin:
        return None
    if now > closes_at:
        return f"the window closed at {_moment(closes_at)}"
    margin_s = lane.close_margin.total_seconds()
    return f"the window closes at {_moment(closes_at)}, and nothing leaves in the last {margin_s:g} s"


def early(question: Question, now: datetime) -> str | None:
    """Say that the window has not opened yet."""
    opens_at = question.opens_at
    return None if opens_at is None or now >= opens_at else f"the window opens at {_moment(opens_at)}"


def changed(forecast_on: Question | None, question: Question) -> str | None:
    """Say what the question asks otherwise than when it was forecast; None for a question nobody compares with."""
    changes = () if forecast_on is None else describe_changes(forecast_on, question)
    return f"the question changed after this forecast: {'; '.join(changes)}" if changes else None


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
