"""Lasting memory: lessons made from own forecasts whose outcome is known, offered to later runs on other questions.

They are parameters like any others that a forecaster learns: fitted by the engine strictly from what had resolved
before the day of the cutoff, kept with their digest, and named by each forecast that had them. Which lessons a run was
shown is in its first step; ``lessons = false`` leaves them out, so that their worth can be measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.api import (
    Binary,
    Choice,
    Chosen,
    Curve,
    CurveShape,
    Example,
    Fitted,
    Happened,
    Hindsight,
    Json,
    Landed,
    LeakError,
    Manner,
    Question,
    ballot_for,
    quoted,
    reading,
)
from plugins.orchestra.memory import words

# Of so many pasts a lesson is kept: those with a note of their own, then those that missed by most.
MOST = 100
# Who was wrong by less than this has nothing to learn from it.
MISS = 0.5
TITLE_CHARS = 300
TEXT_CHARS = 400
# A value in the middle four fifths of what was expected is no surprise.
EXPECTED = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson: the forecast and question that it comes from, what was said, what happened, and how far apart.

    ``miss`` is from 0 to 1; ``notes`` were written by the orchestrator when it forecast.
    """

    forecast: str
    ref: str
    title: str
    source: str
    said: str
    happened: str
    miss: float
    resolved_at: datetime
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The lesson as it is offered, with where it comes from."""
        lines = [
            f"Question: {self.title} ({self.ref}, resolved {self.resolved_at:%Y-%m-%d})",
            f"We said {self.said}; it came out as {self.happened}. Forecast {self.forecast}.",
        ]
        if self.reason:
            lines.append(f"Our reason was: {self.reason}")
        return "\n".join([*lines, *(f"Noted then: {note}" for note in self.notes)])


class LessonLearner:
    """Makes lessons of own forecasts; implements the port Historian. No model is asked."""

    others: tuple[str, ...] = ()

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        """Return nothing: outcomes of what was never forecast teach no lesson."""
        return {}

    def recall(self, pasts: Sequence[Hindsight], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"lessons": [...]}``, those that missed by most first; raises LeakError for what was not known."""
        found = []
        for past in pasts:
            if past.resolution.resolved_at >= before:
                message = f"{past.resolution.ref} resolved on {past.resolution.resolved_at.isoformat()}, not before"
                raise LeakError(message)
            miss = missed(past)
            if past.notes or miss >= MISS:
                found.append((not past.notes, -miss, past.forecast, _plain(past, miss)))
        kept = sorted(found, key=lambda row: row[:3])[:MOST]
        return {"lessons": [plain for *_, plain in sorted(kept, key=lambda row: row[1:3])]}


def known(fitted: Fitted | None, cutoff: datetime, *, days: float) -> list[Lesson]:
    """Return the lessons that may be told at a cutoff: known before it, and no older than so many days."""
    raw = fitted.payload.get("lessons") if fitted is not None else None
    lessons = [lesson for item in (raw if isinstance(raw, list) else ()) if (lesson := _lesson(item)) is not None]
    return [lesson for lesson in lessons if timedelta(0) < cutoff - lesson.resolved_at <= timedelta(days=days)]


def fitting(lessons: Sequence[Lesson], question: Question, most: int) -> list[Lesson]:
    """Return the lessons that share most with a question: its source first, then words, then how far they missed."""
    asked = words(f"{question.title} {question.background}")

    def rank(lesson: Lesson) -> tuple[bool, int, float, str]:
        shared = len(asked & words(" ".join((lesson.title, *lesson.notes))))
        return lesson.source != question.source, -shared, -lesson.miss, lesson.forecast

    return sorted(lessons, key=rank)[:most]


def found(lessons: Sequence[Lesson], query: str, most: int) -> list[Lesson]:
    """Return the lessons that share words with the query, those with the most first."""
    wanted = words(query)
    scored = [(len(wanted & words(lesson.text)), lesson) for lesson in lessons]
    return [lesson for score, lesson in sorted(scored, key=lambda pair: -pair[0]) if score][:most]


def shown(lessons: Sequence[Lesson]) -> str:
    """Return lessons as they stand in prompts: fenced, since venues and models wrote them."""
    return quoted("\n\n".join(lesson.text for lesson in lessons), "lessons from earlier forecasts")


def missed(past: Hindsight) -> float:
    """Return how far a forecast was from what happened, from 0 to 1.

    Of yes or no and of options it is the probability that did not go to what happened; of a number it is 0 in the
    middle four fifths of what was expected, and 1 where nothing was expected.
    """
    match past.prediction, past.outcome:
        case Binary(probability=said), Happened(value=value):
            return abs(said - value)
        case Choice(probabilities=shares), Chosen(option=option, otherwise=otherwise):
            came = next((name for name in (option, *otherwise) if name in shares), None)
            return 1.0 - (shares[came] if came is not None else 0.0)
        case Curve() as curve, Landed(value=value) if isinstance(past.question.shape, CurveShape):
            off = abs(2.0 * _below(curve, past.question.shape, value) - 1.0)
            return max(0.0, (off - EXPECTED) / (1.0 - EXPECTED))
        case _:
            return 0.0


def _below(curve: Curve, shape: CurveShape, value: float) -> float:
    """Return the probability that was given to values below this one."""
    grid, cdf = shape.grid, curve.cdf
    if value <= grid[0]:
        return cdf[0] / 2.0 if value < grid[0] else cdf[0]
    if value >= grid[-1]:
        return (1.0 + cdf[-1]) / 2.0 if value > grid[-1] else cdf[-1]
    right = bisect_right(grid, value)
    share = (value - grid[right - 1]) / (grid[right] - grid[right - 1])
    return cdf[right - 1] + share * (cdf[right] - cdf[right - 1])


def _plain(past: Hindsight, miss: float) -> dict[str, Json]:
    question = past.question
    form = ballot_for(question, Manner(), percent=False).form
    target = f" for {past.resolution.target}" if len(question.targets) > 1 else ""
    return {
        "forecast": past.forecast,
        "ref": str(question.ref),
        "title": reading.text(question.title, TITLE_CHARS),
        "source": question.source,
        "said": f"{form.shown(past.prediction)}{target}",
        "happened": _happened(past),
        "miss": round(miss, 6),
        "resolved_at": past.resolution.resolved_at.isoformat(),
        "reason": reading.text(past.reason, TEXT_CHARS),
        "notes": [reading.text(note, TEXT_CHARS) for note in past.notes],
    }


def _happened(past: Hindsight) -> str:
    match past.outcome:
        case Happened(value=value):
            return {0.0: "no", 1.0: "yes"}.get(value, f"{value:g} of yes")
        case Chosen(option=option):
            return option
        case Landed(value=value):
            return f"{value:g}"
        case _:
            return "nothing that counts"


def _lesson(raw: Json) -> Lesson | None:
    """Return a lesson from the record; None for one of another form: an older program may have made it."""
    if not isinstance(raw, dict):
        return None
    try:
        notes = raw["notes"]
        return Lesson(
            **{name: str(raw[name]) for name in ("forecast", "ref", "title", "source", "said", "happened", "reason")},
            miss=reading.number(raw["miss"], "miss"),
            resolved_at=datetime.fromisoformat(str(raw["resolved_at"])),
            notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        )
    except (KeyError, ValueError):
        return None
