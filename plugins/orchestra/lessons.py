"""Lasting memory: lessons made from own resolved forecasts, offered to later runs on other questions.

They are fitted parameters like any others of a forecaster: fitted by the engine strictly from forecasts that had
resolved before the day of the cutoff, kept with their digest, and named by each forecast that had them. The first step
of a run lists its lessons; ``lessons = false`` turns them off, so that their value can be measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.api import (
    AnswerSettings,
    BinaryOutcome,
    BinaryPrediction,
    ChoiceOutcome,
    ChoicePrediction,
    CurvePrediction,
    CurveShape,
    FittedParameters,
    Json,
    LeakError,
    NumericOutcome,
    Question,
    ResolvedForecast,
    TrainingExample,
    create_answer_format,
    fence_text,
    parsing,
)

# Lessons are kept of at most this many forecasts: those with a note of their own, then those with the largest misses.
MAX_LESSONS = 100
# A smaller miss than this teaches nothing.
LEAST_MISS = 0.5
TITLE_CHARS = 300
TEXT_CHARS = 400
# A value in the middle four fifths of the expected distribution is no surprise.
EXPECTED_RANGE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLesson:
    """One lesson: its forecast and question, the prediction, the outcome, and how far apart they are.

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
    """Makes lessons of own forecasts; implements the interface HistoryLearner. No model is asked."""

    other_forecasters: tuple[str, ...] = ()

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return nothing: outcomes of questions that were never forecast teach no lesson."""
        return {}

    def fit_history(self, pasts: Sequence[ResolvedForecast], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"lessons": [...]}``, largest misses first; raises LeakError for an outcome not known then."""
        found = []
        for past in pasts:
            if past.resolution.resolved_at >= before:
                message = f"{past.resolution.ref} resolved on {past.resolution.resolved_at.isoformat()}, not before"
                raise LeakError(message)
            miss = miss_distance(past)
            if past.notes or miss >= LEAST_MISS:
                found.append((not past.notes, -miss, past.forecast, _lesson_fields(past, miss)))
        kept = sorted(found, key=lambda row: row[:3])[:MAX_LESSONS]
        return {"lessons": [plain for *_, plain in sorted(kept, key=lambda row: row[1:3])]}


def load_lessons(fitted: FittedParameters | None, cutoff: datetime, *, days: float) -> list[ForecastLesson]:
    """Return the lessons that may be used at a cutoff: known before it, and at most this many days old."""
    raw = fitted.payload.get("lessons") if fitted is not None else None
    lessons = [lesson for item in (raw if isinstance(raw, list) else ()) if (lesson := _read_lesson(item)) is not None]
    return [lesson for lesson in lessons if timedelta(0) < cutoff - lesson.resolved_at <= timedelta(days=days)]


def select_lessons(lessons: Sequence[ForecastLesson], question: Question, most: int) -> list[ForecastLesson]:
    """Return the lessons that share most with a question: its source first, then words, then the size of the miss."""
    asked = parsing.significant_words(f"{question.title} {question.background}")

    def rank(lesson: ForecastLesson) -> tuple[bool, int, float, str]:
        shared = len(asked & parsing.significant_words(" ".join((lesson.title, *lesson.notes))))
        return lesson.source != question.source, -shared, -lesson.miss, lesson.forecast

    return sorted(lessons, key=rank)[:most]


def search_lessons(lessons: Sequence[ForecastLesson], query: str, most: int) -> list[ForecastLesson]:
    """Return the lessons that share words with the query, those with the most first."""
    wanted = parsing.significant_words(query)
    scored = [(len(wanted & parsing.significant_words(lesson.text)), lesson) for lesson in lessons]
    return [lesson for score, lesson in sorted(scored, key=lambda pair: -pair[0]) if score][:most]


def lessons_text(lessons: Sequence[ForecastLesson]) -> str:
    """Return lessons as they are written in prompts: fenced, since venues and models wrote them."""
    return fence_text("\n\n".join(lesson.text for lesson in lessons), "lessons from earlier forecasts")


def miss_distance(past: ResolvedForecast) -> float:
    """Return how far a forecast was from the outcome, from 0 to 1.

    For yes or no and for options it is the probability that did not go to the outcome; for a number it is 0 in the
    middle four fifths of the distribution, and 1 outside of it.
    """
    match past.prediction, past.outcome:
        case BinaryPrediction(probability=probability), BinaryOutcome(value=value):
            return abs(probability - value)
        case ChoicePrediction(probabilities=shares), ChoiceOutcome(option=option, otherwise=otherwise):
            outcome = next((name for name in (option, *otherwise) if name in shares), None)
            return 1.0 - (shares[outcome] if outcome is not None else 0.0)
        case CurvePrediction() as curve, NumericOutcome(value=value) if isinstance(past.question.shape, CurveShape):
            off = abs(2.0 * _probability_below(curve, past.question.shape, value) - 1.0)
            return max(0.0, (off - EXPECTED_RANGE) / (1.0 - EXPECTED_RANGE))
        case _:
            return 0.0


def _probability_below(curve: CurvePrediction, shape: CurveShape, value: float) -> float:
    """Return the probability of values below this one."""
    grid, cdf = shape.grid, curve.cdf
    if value <= grid[0]:
        return cdf[0] / 2.0 if value < grid[0] else cdf[0]
    if value >= grid[-1]:
        return (1.0 + cdf[-1]) / 2.0 if value > grid[-1] else cdf[-1]
    right = bisect_right(grid, value)
    share = (value - grid[right - 1]) / (grid[right] - grid[right - 1])
    return cdf[right - 1] + share * (cdf[right] - cdf[right - 1])


def _lesson_fields(past: ResolvedForecast, miss: float) -> dict[str, Json]:
    question = past.question
    form = create_answer_format(question, AnswerSettings(), percent=False).answer_schema
    target = f" for {past.resolution.target}" if len(question.targets) > 1 else ""
    return {
        "forecast": past.forecast,
        "ref": str(question.ref),
        "title": parsing.read_text(question.title, TITLE_CHARS),
        "source": question.source,
        "said": f"{form.format(past.prediction)}{target}",
        "happened": _describe_outcome(past),
        "miss": round(miss, 6),
        "resolved_at": past.resolution.resolved_at.isoformat(),
        "reason": parsing.read_text(past.reason, TEXT_CHARS),
        "notes": [parsing.read_text(note, TEXT_CHARS) for note in past.notes],
    }


def _describe_outcome(past: ResolvedForecast) -> str:
    match past.outcome:
        case BinaryOutcome(value=value):
            return {0.0: "no", 1.0: "yes"}.get(value, f"{value:g} of yes")
        case ChoiceOutcome(option=option):
            return option
        case NumericOutcome(value=value):
            return f"{value:g}"
        case _:
            return "nothing that counts"


def _read_lesson(raw: Json) -> ForecastLesson | None:
    """Return a lesson from the record; None if it has another form: an older program may have made it."""
    if not isinstance(raw, dict):
        return None
    try:
        notes = raw["notes"]
        return ForecastLesson(
            **{name: str(raw[name]) for name in ("forecast", "ref", "title", "source", "said", "happened", "reason")},
            miss=parsing.read_number(raw["miss"], "miss"),
            resolved_at=datetime.fromisoformat(str(raw["resolved_at"])),
            notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        )
    except (KeyError, ValueError):
        return None
