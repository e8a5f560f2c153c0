"""Tools that read the ledger.

The forecaster's earlier forecasts, other open questions like this one, and the history of this question.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TypeVar

from bot.core.distributions import curve_quantiles
from bot.core.forecasts import Forecast
from bot.core.language_models import CostAttribution, ToolDefinition
from bot.core.learning import UNRESOLVED_NOTES_TOOL
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, CurveShape, Prediction
from bot.core.questions import Question, QuestionRef, describe_changes
from bot.core.values import Json
from bot.forecasting.aggregation import summarize_prediction
from bot.forecasting.tools.base import ToolContext, define_tool, text_schema
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.store.forecasts import ForecastStore
from bot.store.learning import LearningStore
from bot.store.question_history import KnownQuestion, QuestionHistoryReader
from bot.store.serialization import PREDICTION, PREDICTIONS, question_version

EARLIER_FORECASTS = "earlier_forecasts"


_MOST_FORECASTS = 20


_MOST_TARGETS = 12


_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class OwnForecasts:
    """The earlier forecasts of the forecaster of a trial, except those made while it might see the future."""

    forecasts: ForecastStore
    related: QuestionHistoryReader
    charge: CostAttribution

    async def find_forecasts(self, ref: QuestionRef, *, before: datetime) -> Sequence[Forecast]:
        """Return its forecasts of a question from before the moment, oldest first."""
        forecasts_made = [
            forecast
            for forecast in await self.forecasts.history(ref)
            if forecast.forecaster == self.charge.forecaster
            and forecast.made_at < before
            and forecast.id != self.charge.scope
        ]
        foreseen = await self.related.clairvoyant_forecasts(ref) if forecasts_made else frozenset()
        return [forecast for forecast in forecasts_made if forecast.id not in foreseen]


@dataclass(frozen=True, slots=True)
class EarlierForecastsTool:
    """Lists the forecaster's own forecasts."""

    context: ToolContext
    forecasts: ForecastStore
    related: QuestionHistoryReader
    charge: CostAttribution

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(EARLIER_FORECASTS, "Your own earlier forecasts of this question.")

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        past = OwnForecasts(self.forecasts, self.related, self.charge)
        forecasts_made = await past.find_forecasts(self.context.question.ref, before=self.context.data_before)
        newest = forecasts_made[-_MOST_FORECASTS:]
        asked = await self.forecasts.questions_of(newest)
        lines = [_describe_forecast(forecast, asked[forecast.version], self.context.question) for forecast in newest]
        text = self.context.fence("\n".join(lines), "your earlier forecasts", self.context.section.passage_chars)
        return ToolOutcome(
            text=text if lines else "There are none.",
            data=await self._describe_last_forecast(forecasts_made) if forecasts_made else None,
        )

    async def _describe_last_forecast(self, forecasts_made: Sequence[Forecast]) -> dict[str, Json]:
        """Return for code the last one as the forecaster made it, and how the question has changed since.

        ``since`` is when it was first made, if it was repeated, and ``crowd`` the crowd's estimate then; ``same_text``
        whether the text of the question is the same. ``why`` is why the running forecast was begun.
        """
        last, first = forecasts_made[-1], _first_equal_forecast(forecasts_made)
        crowd = await self.related.crowd_of(first.id)
        return {
            "count": len(forecasts_made),
            "made_at": last.made_at.isoformat(),
            "since": first.made_at.isoformat(),
            "predictions": PREDICTIONS.plain(last.raw),
            "crowd": PREDICTION.plain(crowd) if crowd else None,
            "same_text": first.version == question_version(self.context.question),
            "why": await self.related.forecast_reason(self.charge.scope),
        }


def _first_equal_forecast(forecasts_made: Sequence[Forecast]) -> Forecast:
    first = forecasts_made[-1]
    for forecast in reversed(forecasts_made):
        if forecast.raw != first.raw:
            break
        first = forecast
    return first


def _describe_forecast(forecast: Forecast, asked: Question, now: Question) -> str:
    """Describe a forecast on the grid for which it was made, and what has changed in the question since."""
    parts = [
        f"{key}: {_describe_prediction(value, asked)}"
        for key, value in list(forecast.predictions.items())[:_MOST_TARGETS]
    ]
    changes = describe_changes(asked, now)
    since = f" (since then {'; '.join(changes)})" if changes else ""
    return f"{forecast.made_at.date().isoformat()}: {'; '.join(parts)}{since}"


def _describe_prediction(prediction: Prediction, question: Question) -> str:
    match prediction:
        case BinaryPrediction(probability=probability):
            return f"{probability:.3f}"
        case ChoicePrediction(probabilities=probabilities):
            return ", ".join(f"{option} {probability:.3f}" for option, probability in probabilities.items())
        case _:
            return _describe_quantiles(prediction.cdf, question)


def _describe_quantiles(cdf: Sequence[float], question: Question) -> str:
    if not isinstance(question.shape, CurveShape) or len(question.shape.grid) != len(cdf):
        return "a distribution on another grid"
    values = curve_quantiles(CurvePrediction(tuple(cdf)), question.shape, _QUANTILES)
    return ", ".join(f"{level:.0%} below {value:g}" for level, value in values.items())


@dataclass(frozen=True, slots=True)
class UnresolvedNotesTool:
    """Lists the notes that the forecaster kept in forecasts whose questions are still open."""

    context: ToolContext
    learning: LearningStore
    charge: CostAttribution

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            UNRESOLVED_NOTES_TOOL,
            "The notes that you kept in forecasts of questions that are still open; no outcome has confirmed any.",
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        notes = await self.learning.read_unresolved_notes(
            self.charge.forecaster, before=self.context.data_before, running=self.charge.scope
        )
        lines = [
            f"{note.made_at.date().isoformat()}, unresolved, forecast {note.forecast} of "
            f"{note.ref} ({' '.join(note.title.split())}): {note.text}"
            for note in notes
        ]
        if not lines:
            return ToolOutcome(text="There are none.", data=0)
        text = self.context.fence("\n".join(lines), "your unconfirmed notes", self.context.section.passage_chars)
        return ToolOutcome(text=text, data=len(lines))


RELATED_QUESTIONS = "related_questions"


QUESTION_HISTORY = "question_history"


_WORDS_CHARS = 200


_MOST_WORDS = 12


_RESULTS = 10


_POINTS = 40


_OLD_TEXT_CHARS = 600


# Words in nearly every question, which do not distinguish questions.
_FILLERS = (
    "will would what which who whom when where does did the and for are was were has have had been from with that this "
    "than then before after between into over under least more most any its not how many much"
)


_COMMON = frozenset(_FILLERS.split())


_TEXTS = ("title", "background", "criteria")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RelatedQuestionsTool:
    """Finds other questions by words of their titles; no service outside is asked."""

    context: ToolContext
    related: QuestionHistoryReader
    forecasts: ForecastStore
    charge: CostAttribution

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            RELATED_QUESTIONS,
            "Other open questions on record with any of these words, with the crowd's newest estimate and your own.",
            {
                "words": text_schema(
                    "A few words that tell the topic, such as names; one match is enough.", _WORDS_CHARS
                )
            },
            required=("words",),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        words = select_topic_words(str(arguments["words"]))
        if not words:
            message = "None of these words distinguishes questions; give names or topics."
            raise ToolCallError(message)
        context = self.context
        found = await self.related.open(context.question.ref, words, before=context.data_before, limit=_RESULTS)
        if not found:
            return ToolOutcome(text="No other open question that was known has any of these words.", data=0)
        lines = [f"{number}. {await self._describe_question(known)}" for number, known in enumerate(found, 1)]
        text = context.fence("\n".join(lines), "other open questions", context.section.passage_chars)
        return ToolOutcome(text=text, data=len(found))

    async def _describe_question(self, known: KnownQuestion) -> str:
        closes = f"closes {known.closes_at.date().isoformat()}" if known.closes_at else "no closing date"
        parts = [self.context.clean(" ".join(known.title.split()), 300), closes]
        if known.crowd is not None and known.crowd_at is not None:
            parts.append(f"crowd {known.crowd_at.date().isoformat()}: {summarize_prediction(known.crowd)}")
        if (own := await self._describe_own_forecast(known.ref)) is not None:
            parts.append(own)
        return "; ".join(parts)

    async def _describe_own_forecast(self, ref: QuestionRef) -> str | None:
        forecasts_made = await OwnForecasts(self.forecasts, self.related, self.charge).find_forecasts(
            ref, before=self.context.data_before
        )
        if not forecasts_made:
            return None
        answers = ", ".join(
            summarize_prediction(prediction) for prediction in list(forecasts_made[-1].predictions.values())[:3]
        )
        return f"your forecast of {forecasts_made[-1].made_at.date().isoformat()}: {answers}"


@dataclass(frozen=True, slots=True)
class QuestionHistoryTool:
    """Shows the earlier texts of this question and the crowd's earlier estimates."""

    context: ToolContext
    related: QuestionHistoryReader

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            QUESTION_HISTORY, "The past of your question: earlier versions of its text, and the crowd's estimates."
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        past = await self.related.past(self.context.question.ref, before=self.context.data_before)
        if not past.versions and not past.crowds:
            message = "Nothing is known of its past."
            raise ToolCallError(message)
        lines = [*_describe_versions(past.versions), *_describe_crowds(past.crowds)]
        text = self.context.fence("\n".join(lines), "the past of the question", self.context.section.passage_chars)
        return ToolOutcome(text=text, data={"versions": len(past.versions), "estimates": len(past.crowds)})


def select_topic_words(text: str) -> list[str]:
    """Return the words that distinguish one question from another, each once, in order."""
    bare = (word.strip(".,;:!?\"'()[]").casefold() for word in text.split())
    return list(dict.fromkeys(word for word in bare if len(word) > 2 and word not in _COMMON))[:_MOST_WORDS]


def _describe_versions(versions: Sequence[tuple[datetime, Question]]) -> Iterator[str]:
    for seen_at, _ in versions[:1]:
        yield f"{seen_at.date().isoformat()}: first seen"
    for (_, before), (seen_at, after) in pairwise(versions):
        changes = "; ".join(describe_changes(before, after))
        yield f"{seen_at.date().isoformat()}: new version ({changes or 'other facts'})"
        for name in _TEXTS:
            if (old := getattr(before, name)) != getattr(after, name):
                yield f"  {name} before: {old[:_OLD_TEXT_CHARS]}"


def _describe_crowds(crowds: Sequence[tuple[datetime, Prediction]]) -> Iterator[str]:
    for at, prediction in _thin_out(crowds):
        yield f"{at.date().isoformat()}: crowd {summarize_prediction(prediction)}"


def _thin_out(items: Sequence[T]) -> list[T]:
    """Return at most that many, evenly spread, the first and the last among them."""
    if len(items) <= _POINTS:
        return list(items)
    return [items[place * (len(items) - 1) // (_POINTS - 1)] for place in range(_POINTS)]
