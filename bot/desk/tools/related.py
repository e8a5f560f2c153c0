"""What the ledger knew before the cutoff: other open questions like this one, and the past of this one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TypeVar

from bot.desk.take import Take
from bot.desk.tools.own import Own
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Cannot, Outcome, described, text_of
from bot.domain.inquiry import Charge
from bot.domain.prediction import Binary, Choice, Prediction
from bot.domain.prompt import Tool
from bot.domain.question import Question, QuestionRef
from bot.domain.question_changes import describe_changes
from bot.domain.step import Json
from bot.store.forecasts import Forecasts
from bot.store.related import Known, Related

RELATED = "related_questions"
HISTORY = "question_history"
_WORDS_CHARS = 200
_MOST_WORDS = 12
_RESULTS = 10
_POINTS = 40
_OLD_TEXT_CHARS = 600
# Words that nearly every question has tell none apart.
_FILLERS = (
    "will would what which who whom when where does did the and for are was were has have had been from with that this "
    "than then before after between into over under least more most any its not how many much"
)
_COMMON = frozenset(_FILLERS.split())
_TEXTS = ("title", "background", "criteria")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RelatedQuestions:
    """Finds other questions by words of their titles; nobody outside is asked."""

    scene: Scene
    related: Related
    forecasts: Forecasts
    charge: Charge

    @property
    def tool(self) -> Tool:
        return described(
            RELATED,
            "Other open questions on record with any of these words, with the crowd's newest estimate and your own.",
            {"words": text_of("A few words that tell the topic, such as names; one match is enough.", _WORDS_CHARS)},
            required=("words",),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        words = telling(str(arguments["words"]))
        if not words:
            message = "No word in it tells one question from another; give names or topics."
            raise Cannot(message)
        scene = self.scene
        found = await self.related.open(scene.question.ref, words, before=scene.bound, limit=_RESULTS)
        if not found:
            return Outcome(text="No other open question that was known has any of these words.", data=0)
        lines = [f"{number}. {await self._line(known)}" for number, known in enumerate(found, 1)]
        text = scene.quoted("\n".join(lines), "other open questions", scene.section.passage_chars)
        return Outcome(text=text, data=len(found))

    async def _line(self, known: Known) -> str:
        closes = f"closes {known.closes_at.date().isoformat()}" if known.closes_at else "no closing date"
        parts = [self.scene.shown(" ".join(known.title.split()), 300), closes]
        if known.crowd is not None and known.crowd_at is not None:
            parts.append(f"crowd {known.crowd_at.date().isoformat()}: {in_short(known.crowd)}")
        if (own := await self._own(known.ref)) is not None:
            parts.append(own)
        return "; ".join(parts)

    async def _own(self, ref: QuestionRef) -> str | None:
        made = await Own(self.forecasts, self.related, self.charge).of(ref, before=self.scene.bound)
        if not made:
            return None
        said = ", ".join(in_short(prediction) for prediction in list(made[-1].predictions.values())[:3])
        return f"your forecast of {made[-1].made_at.date().isoformat()}: {said}"


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """Tells how this question was stated before, and how the crowd saw it."""

    scene: Scene
    related: Related

    @property
    def tool(self) -> Tool:
        return described(HISTORY, "The past of your question: earlier versions of its text, and the crowd's estimates.")

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        past = await self.related.past(self.scene.question.ref, before=self.scene.bound)
        if not past.versions and not past.crowds:
            message = "Nothing is known of its past."
            raise Cannot(message)
        lines = [*_stated(past.versions), *_seen(past.crowds)]
        text = self.scene.quoted("\n".join(lines), "the past of the question", self.scene.section.passage_chars)
        return Outcome(text=text, data={"versions": len(past.versions), "estimates": len(past.crowds)})


def telling(text: str) -> list[str]:
    """Return the words that tell one question from another, each once, in order."""
    bare = (word.strip(".,;:!?\"'()[]").casefold() for word in text.split())
    return list(dict.fromkeys(word for word in bare if len(word) > 2 and word not in _COMMON))[:_MOST_WORDS]


def in_short(prediction: Prediction) -> str:
    """Return a prediction in a few words; of a distribution only that it is one, since its grid is not at hand."""
    match prediction:
        case Binary(probability=probability):
            return f"{probability:.3f}"
        case Choice(probabilities=probabilities):
            likely = sorted(probabilities.items(), key=lambda item: -item[1])[:3]
            return ", ".join(f"{option} {probability:.3f}" for option, probability in likely)
        case _:
            return "a distribution"


def _stated(versions: Sequence[tuple[datetime, Question]]) -> Iterator[str]:
    for seen_at, _ in versions[:1]:
        yield f"{seen_at.date().isoformat()}: first seen"
    for (_, before), (seen_at, after) in pairwise(versions):
        changes = "; ".join(describe_changes(before, after))
        yield f"{seen_at.date().isoformat()}: stated anew ({changes or 'other facts'})"
        for name in _TEXTS:
            if (old := getattr(before, name)) != getattr(after, name):
                yield f"  {name} before: {old[:_OLD_TEXT_CHARS]}"


def _seen(crowds: Sequence[tuple[datetime, Prediction]]) -> Iterator[str]:
    for at, prediction in _thinned(crowds):
        yield f"{at.date().isoformat()}: crowd {in_short(prediction)}"


def _thinned(items: Sequence[T]) -> list[T]:
    """Return at most so many, evenly spread, the first and the last among them."""
    if len(items) <= _POINTS:
        return list(items)
    return [items[place * (len(items) - 1) // (_POINTS - 1)] for place in range(_POINTS)]
