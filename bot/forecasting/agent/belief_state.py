"""The belief state of a trial.

Where it starts, the update that a model sends with each action, and how that is applied. An invalid update costs only
the update: the old belief is kept and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Literal

from bot.core.beliefs import Belief, ConfidenceLevel, Evidence
from bot.core.distributions import flat_prediction
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.agent.answer_schema import (
    AnswerFormat,
    AnswerSchema,
    AnswerSettings,
    BinaryAnswerSchema,
    ChoiceAnswerSchema,
    CurveAnswerSchema,
)
from bot.forecasting.agent.parsing import UnreadableAnswer, read_text

MAX_SEARCHES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceItem:
    """One piece of evidence. Its ``name`` (F1, A2, ...) is never reused. ``evidence`` is the part that is recorded."""

    name: str
    text: str
    source: str
    evidence: Evidence = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the record once; the belief of every later step includes it."""
        object.__setattr__(self, "evidence", Evidence(text=self.text, source=self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefState:
    """The current belief. ``names_given`` counts the names given out; ``stated`` says that a model has stated it.

    ``informed`` says that a model stated it after seeing evidence: only then may it count as an answer.
    """

    predictions: Mapping[str, Prediction]
    confidence: ConfidenceLevel = ConfidenceLevel.LOW
    anchor: str = ""
    evidence_for: tuple[EvidenceItem, ...] = ()
    evidence_against: tuple[EvidenceItem, ...] = ()
    open_questions: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    reason: str = ""
    names_given: int = 0
    stated: bool = False
    informed: bool = False

    @property
    def belief(self) -> Belief:
        """The state as the engine records it."""
        return Belief(
            predictions=self.predictions,
            confidence=self.confidence,
            anchor=self.anchor,
            evidence_for=tuple([item.evidence for item in self.evidence_for]),
            evidence_against=tuple([item.evidence for item in self.evidence_against]),
            open_questions=self.open_questions,
            searches=self.searches,
            reason=self.reason,
            stated=self.informed,
        )

    @property
    def chars(self) -> int:
        """The length of evidence and open questions, the parts that grow."""
        parts = list(self.open_questions)
        for item in (*self.evidence_for, *self.evidence_against):
            parts += (item.text, item.source)
        return sum(map(len, parts))

    def merge_searches(self, queries: Iterable[str]) -> tuple[str, ...]:
        """Return the searches with these added, each once."""
        return tuple(dict.fromkeys((*self.searches, *filter(None, queries))))[:MAX_SEARCHES]

    def add_searches(self, queries: Iterable[str]) -> BeliefState:
        """Return the state with these searches added, each once."""
        known = self.merge_searches(queries)
        if known == self.searches:
            return self
        # Every field is named, since this runs once a step and ``replace`` is twice as slow.
        return BeliefState(
            predictions=self.predictions,
            confidence=self.confidence,
            anchor=self.anchor,
            evidence_for=self.evidence_for,
            evidence_against=self.evidence_against,
            open_questions=self.open_questions,
            searches=known,
            reason=self.reason,
            names_given=self.names_given,
            stated=self.stated,
            informed=self.informed,
        )


BELIEF_FIELD = "updated_belief"


ITEM_CHARS = 400


SOURCE_CHARS = 200


REASON_CHARS = 1000


MAX_NEW_ITEMS = 5


MAX_OPEN_QUESTIONS = 5


# Ten steps of NEW_ITEMS; more items are ignored.
MAX_EVIDENCE_ITEMS = 50


_CONFIDENCES = {confidence.value: confidence for confidence in ConfidenceLevel}


UNSTATED_SOURCE = "source not stated"


@dataclass(frozen=True, slots=True)
class BeliefUpdate:
    """A state after an update; ``note`` says which parts could not be applied, "" if all were."""

    state: BeliefState
    note: str = ""

    @property
    def kept_old(self) -> bool:
        """Whether the whole update was refused."""
        return self.note.startswith("belief kept")


@lru_cache(maxsize=256, typed=True)
def belief_schema(answer_format: AnswerFormat, margin: float) -> dict[str, Json]:
    """Return the JSON schema of an update, the same object for the same format; it must not be changed.

    The reason is before the number, so that the model writes it first.
    """
    speaks_for, speaks_against = _evidence_sides(answer_format.answer_schema)
    stated = answer_format.schema(margin)
    properties: dict[str, Json] = {
        "update_reasoning": _text_schema(
            REASON_CHARS, "What changed your mind since the last step, or why nothing did."
        ),
        "base_rate_anchor": _text_schema(
            ITEM_CHARS, "The base rate that you started from: which kind of thing, how often, in how long a time."
        ),
        "evidence_for": _evidence_schema(f"New evidence for {speaks_for}."),
        "evidence_against": _evidence_schema(f"New evidence for {speaks_against}."),
        "contradicted": _text_list_schema(10, 8, "Names of items that you gave before and that turned out wrong."),
        "key_uncertainties": _text_list_schema(
            MAX_OPEN_QUESTIONS, ITEM_CHARS, "What could still change your answer most; replaces the list before."
        ),
        "searches_tried": _text_list_schema(10, ITEM_CHARS, "Searches that need not be made again."),
        "confidence": {
            "type": "string",
            "enum": [str(confidence) for confidence in ConfidenceLevel],
            "description": "How well what you found supports your numbers, however high or low they are.",
        },
        **stated,
    }
    return _object_schema(properties, required=["update_reasoning", "confidence", *stated])


def apply_belief_update(
    state: BeliefState, update: Json, answer_format: AnswerFormat, *, margin: float, informed: bool = False
) -> BeliefUpdate:
    """Return the state after a model's update; without valid predictions the old state is kept unchanged.

    A state that was updated is ``informed`` as given.
    """
    if update is None:
        return BeliefUpdate(state, f"belief kept: {BELIEF_FIELD} was missing")
    if not isinstance(update, Mapping):
        return BeliefUpdate(state, f"belief kept: {BELIEF_FIELD} was no object")
    try:
        predictions = answer_format.clamp(answer_format.read(update), margin)
    except UnreadableAnswer as error:
        return BeliefUpdate(state, f"belief kept: {error}")
    evidence = _EvidenceList(state)
    evidence.remove_named(_read_texts(update.get("contradicted"), limit=8))
    reason = read_text(update.get("update_reasoning"), REASON_CHARS)
    confidence = _CONFIDENCES.get(read_text(update.get("confidence"), 10).lower())
    faults: list[str] = []
    # Behind more white space than is read of a reason, there may still be one.
    if not reason and not read_text(update.get("update_reasoning")):
        faults.append("the update came without a reason")
    if confidence is None:
        faults.append("the update named no confidence")
    return BeliefUpdate(
        # Every field is named, since this runs once a step and ``replace`` is twice as slow.
        BeliefState(
            predictions=predictions,
            confidence=state.confidence if confidence is None else confidence,
            anchor=read_text(update.get("base_rate_anchor"), ITEM_CHARS) or state.anchor,
            evidence_for=evidence.merge_items("F", state.evidence_for, update.get("evidence_for")),
            evidence_against=evidence.merge_items("A", state.evidence_against, update.get("evidence_against")),
            open_questions=_read_open_questions(update, state),
            searches=state.merge_searches(_read_texts(update.get("searches_tried"))),
            reason=reason,
            names_given=evidence.given,
            stated=True,
            informed=informed,
        ),
        "; ".join(faults),
    )


def format_belief_state(state: BeliefState, answer_format: AnswerFormat) -> str:
    """Return the state as it is shown to the model."""
    lines = [
        f"{answer_format.answer_schema.field}: {answer_format.format(state.predictions)}",
        f"confidence: {state.confidence}",
        f"starting point: {state.anchor or 'none yet'}",
        "evidence for:",
        *[f"  {item.name} [{item.source}] {item.text}" for item in state.evidence_for],
        "evidence against:",
        *[f"  {item.name} [{item.source}] {item.text}" for item in state.evidence_against],
        "open questions:",
        *[f"  - {question}" for question in state.open_questions],
        f"searches so far: {' | '.join(state.searches) or 'none'}",
        f"last change: {state.reason or 'none yet'}",
    ]
    return "\n".join(lines)


class _EvidenceList:
    """Adds evidence and removes the items that were named; the same text is never added twice."""

    def __init__(self, state: BeliefState) -> None:
        self.given = state.names_given
        self._known = {item.text.casefold() for item in (*state.evidence_for, *state.evidence_against)}
        self._withdrawn: frozenset[str] = frozenset()

    def remove_named(self, names: Sequence[str]) -> None:
        if names:
            self._withdrawn = frozenset([name.upper() for name in names])

    def merge_items(self, letter: str, old: Sequence[EvidenceItem], raw: Json) -> tuple[EvidenceItem, ...]:
        kept = [item for item in old if item.name not in self._withdrawn] if self._withdrawn else list(old)
        for words, source in _read_items(raw):
            if words.casefold() not in self._known and len(kept) < MAX_EVIDENCE_ITEMS:
                self._known.add(words.casefold())
                self.given += 1
                kept.append(EvidenceItem(name=f"{letter}{self.given}", text=words, source=source))
        return tuple(kept)


def _read_items(raw: Json) -> list[tuple[str, str]]:
    read: list[tuple[str, str]] = []
    for item in raw[:MAX_NEW_ITEMS] if isinstance(raw, list) else ():
        if isinstance(item, Mapping):
            words, source = read_text(item.get("text"), ITEM_CHARS), read_text(item.get("source"), SOURCE_CHARS)
        else:
            words, source = read_text(item, ITEM_CHARS), ""
        if words:
            read.append((words, source or UNSTATED_SOURCE))
    return read


def _read_open_questions(update: Mapping[str, Json], state: BeliefState) -> tuple[str, ...]:
    raw = update.get("key_uncertainties")
    return tuple(_read_texts(raw))[:MAX_OPEN_QUESTIONS] if isinstance(raw, list) else state.open_questions


def _read_texts(raw: Json, limit: int = ITEM_CHARS) -> Sequence[str]:
    if not raw or not isinstance(raw, list):
        return ()
    return [words for item in raw if (words := read_text(item, limit))]


def _evidence_sides(schema: AnswerSchema) -> tuple[str, str]:
    """Return the direction in which the evidence for and against points."""
    match schema:
        case BinaryAnswerSchema():
            return "yes", "no"
        case ChoiceAnswerSchema():
            return "the option that you find most likely", "any other option"
        case CurveAnswerSchema(has_dates=True):
            return "a later date", "an earlier date"
        case _:
            return "a higher value", "a lower value"


def _text_schema(limit: int, description: str) -> dict[str, Json]:
    return {"type": "string", "maxLength": limit, "description": description}


def _text_list_schema(max_items: int, limit: int, description: str) -> dict[str, Json]:
    items: Json = {"type": "string", "maxLength": limit}
    return {"type": "array", "items": items, "maxItems": max_items, "description": description}


def _evidence_schema(description: str) -> dict[str, Json]:
    item = _object_schema(
        {
            "text": _text_schema(ITEM_CHARS, "One fact, with its date and figures."),
            "source": _text_schema(SOURCE_CHARS, "Where it stands."),
        },
        required=["text", "source"],
    )
    return {"type": "array", "items": item, "maxItems": MAX_NEW_ITEMS, "description": description}


def _object_schema(properties: dict[str, Json], *, required: Sequence[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


# A market or base rate may move half way to certainty: one at 1 % allows answers from 0.5 %.
ANCHOR_SHARE = 0.5


# However certain the start is: no data supports odds longer than one in a thousand.
LEAST_MARGIN = 0.001


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What a trial starts from, and why in words; ``prior`` is a base rate."""

    kind: Literal["crowd", "prior", "even"]
    text: str
    prediction: Prediction


def find_starting_point(question: Question, *, crowd: bool = True) -> StartingPoint:
    """Return the crowd's estimate if it exists and is wanted, else the flat prediction."""
    if crowd and question.crowd is not None:
        estimate = question.crowd
        return StartingPoint("crowd", f"the crowd's estimate of {estimate.at:%Y-%m-%d}", estimate.prediction)
    return StartingPoint("even", "nothing is known yet", flat_prediction(question.shape))


def initial_belief_state(
    anchor: StartingPoint, question: Question, answer_format: AnswerFormat, margin: float
) -> BeliefState:
    """Return the state before the first action."""
    predictions = {target.key: anchor.prediction for target in question.targets}
    return BeliefState(
        predictions=answer_format.clamp(predictions, margin), anchor=anchor.text, reason="where the trial starts"
    )


def narrow_margins(question: Question, anchor: StartingPoint, settings: AnswerSettings) -> AnswerSettings:
    """Return the settings with the margins of a yes-or-no question, at most those of ``settings``.

    They are at most ``ANCHOR_SHARE`` of the distance from the crowd's price or base rate to certainty, and at least
    ``LEAST_MARGIN`` unless ``settings`` has less. They do not change for even odds and for other questions.
    """
    start = anchor.prediction
    if anchor.kind == "even" or not isinstance(question.shape, BinaryShape) or not isinstance(start, BinaryPrediction):
        return settings
    distance = min(start.probability, 1.0 - start.probability)
    room = max(LEAST_MARGIN, round(ANCHOR_SHARE * distance, 6))
    return replace(
        settings, step_margin=min(settings.step_margin, room), submit_margin=min(settings.submit_margin, room)
    )
