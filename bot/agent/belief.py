"""The belief that a model sends with each action: its schema, and how what was sent is merged with what was believed.

Whatever is wrong with it costs the update, never the trial: the belief before it stands, and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.agent.ballot import Ballot
from bot.agent.forms import BinaryForm, ChoiceForm, CurveForm, Form
from bot.agent.reading import Misread, text
from bot.agent.state import Item, State
from bot.domain.belief import Confidence
from bot.domain.step import Json

FIELD = "updated_belief"

ITEM_CHARS = 400
SOURCE_CHARS = 200
REASON_CHARS = 1000
NEW_ITEMS = 5
OPEN_QUESTIONS = 5
# Ten steps of NEW_ITEMS; what is said beyond them is not evidence any more.
MOST_ITEMS = 50
_CONFIDENCES = {confidence.value: confidence for confidence in Confidence}
UNSTATED = "source not stated"


@dataclass(frozen=True, slots=True)
class Merge:
    """A state after an update; ``note`` says what could not be taken over, "" where all was."""

    state: State
    note: str = ""

    @property
    def kept_old(self) -> bool:
        """Whether the update was refused as a whole."""
        return self.note.startswith("belief kept")


def belief_schema(ballot: Ballot, margin: float) -> dict[str, Json]:
    """Return the JSON schema of an update. The reason comes before the number, so that it is written before it."""
    speaks_for, speaks_against = _sides(ballot.form)
    stated = ballot.schema(margin)
    properties: dict[str, Json] = {
        "update_reasoning": _string(REASON_CHARS, "What changed your mind since the last step, or why nothing did."),
        "base_rate_anchor": _string(
            ITEM_CHARS, "The base rate that you started from: which kind of thing, how often, in how long a time."
        ),
        "evidence_for": _evidence(f"New evidence for {speaks_for}."),
        "evidence_against": _evidence(f"New evidence for {speaks_against}."),
        "contradicted": _texts_of(10, 8, "Names of items that you gave before and that turned out wrong."),
        "key_uncertainties": _texts_of(
            OPEN_QUESTIONS, ITEM_CHARS, "What could still change your answer most; replaces the list before."
        ),
        "searches_tried": _texts_of(10, ITEM_CHARS, "Searches that need not be made again."),
        "confidence": {
            "type": "string",
            "enum": [str(confidence) for confidence in Confidence],
            "description": "How well what you found supports your numbers, however high or low they are.",
        },
        **stated,
    }
    return _record(properties, required=["update_reasoning", "confidence", *stated])


def merged(state: State, update: Json, ballot: Ballot, *, margin: float) -> Merge:
    """Return the state after what a model sent; without valid predictions the old state is kept whole."""
    if update is None:
        return Merge(state, f"belief kept: {FIELD} was missing")
    if not isinstance(update, Mapping):
        return Merge(state, f"belief kept: {FIELD} was no object")
    try:
        predictions = ballot.bounded(ballot.read(update), margin)
    except Misread as error:
        return Merge(state, f"belief kept: {error}")
    evidence = _Ledger(state)
    evidence.take_back(_texts(update.get("contradicted"), limit=8))
    return Merge(
        # Every field is named, once a step: ``replace`` takes twice as long.
        State(
            predictions=predictions,
            confidence=_confidence(update.get("confidence"), state.confidence),
            anchor=text(update.get("base_rate_anchor"), ITEM_CHARS) or state.anchor,
            evidence_for=evidence.added("F", state.evidence_for, update.get("evidence_for")),
            evidence_against=evidence.added("A", state.evidence_against, update.get("evidence_against")),
            open_questions=_open_questions(update, state),
            searches=state.searched(_texts(update.get("searches_tried"))),
            reason=text(update.get("update_reasoning"), REASON_CHARS),
            given=evidence.given,
            stated=True,
        ),
        "; ".join(_complaints(update)),
    )


def shown_state(state: State, ballot: Ballot) -> str:
    """Return the state as it is printed back to the model."""
    lines = [
        f"{ballot.form.field}: {ballot.shown(state.predictions)}",
        f"confidence: {state.confidence}",
        f"starting point: {state.anchor or 'none yet'}",
        "evidence for:",
        *(f"  {item.name} [{item.source}] {item.text}" for item in state.evidence_for),
        "evidence against:",
        *(f"  {item.name} [{item.source}] {item.text}" for item in state.evidence_against),
        "open questions:",
        *(f"  - {question}" for question in state.open_questions),
        f"searches so far: {' | '.join(state.searches) or 'none'}",
        f"last change: {state.reason or 'none yet'}",
    ]
    return "\n".join(lines)


class _Ledger:
    """Adds evidence and takes back what was named; the same text is never added twice."""

    def __init__(self, state: State) -> None:
        self.given = state.given
        self._known = {item.text.casefold() for item in (*state.evidence_for, *state.evidence_against)}
        self._withdrawn: frozenset[str] = frozenset()

    def take_back(self, names: Iterator[str]) -> None:
        self._withdrawn = frozenset(name.upper() for name in names)

    def added(self, letter: str, old: Sequence[Item], raw: Json) -> tuple[Item, ...]:
        kept = [item for item in old if item.name not in self._withdrawn]
        for words, source in _items(raw):
            if words.casefold() not in self._known and len(kept) < MOST_ITEMS:
                self._known.add(words.casefold())
                self.given += 1
                kept.append(Item(name=f"{letter}{self.given}", text=words, source=source))
        return tuple(kept)


def _items(raw: Json) -> Iterator[tuple[str, str]]:
    for item in raw[:NEW_ITEMS] if isinstance(raw, list) else ():
        if isinstance(item, Mapping):
            words, source = text(item.get("text"), ITEM_CHARS), text(item.get("source"), SOURCE_CHARS)
        else:
            words, source = text(item, ITEM_CHARS), ""
        if words:
            yield words, source or UNSTATED


def _open_questions(update: Mapping[str, Json], state: State) -> tuple[str, ...]:
    if not isinstance(update.get("key_uncertainties"), list):
        return state.open_questions
    return tuple(_texts(update["key_uncertainties"]))[:OPEN_QUESTIONS]


def _texts(raw: Json, limit: int = ITEM_CHARS) -> Iterator[str]:
    for item in raw if isinstance(raw, list) else ():
        if words := text(item, limit):
            yield words


def _confidence(raw: Json, old: Confidence) -> Confidence:
    return _CONFIDENCES.get(text(raw, 10).lower(), old)


def _complaints(update: Mapping[str, Json]) -> Iterator[str]:
    if not text(update.get("update_reasoning")):
        yield "the update came without a reason"
    if text(update.get("confidence"), 10).lower() not in _CONFIDENCES:
        yield "the update named no confidence"


def _sides(form: Form) -> tuple[str, str]:
    """Return what evidence for and against speaks for."""
    match form:
        case BinaryForm():
            return "yes", "no"
        case ChoiceForm():
            return "the option that you find most likely", "any other option"
        case CurveForm(dated=True):
            return "a later date", "an earlier date"
        case _:
            return "a higher value", "a lower value"


def _string(limit: int, description: str) -> dict[str, Json]:
    return {"type": "string", "maxLength": limit, "description": description}


def _texts_of(most: int, limit: int, description: str) -> dict[str, Json]:
    items: Json = {"type": "string", "maxLength": limit}
    return {"type": "array", "items": items, "maxItems": most, "description": description}


def _evidence(description: str) -> dict[str, Json]:
    item = _record(
        {
            "text": _string(ITEM_CHARS, "One fact, with its date and figures."),
            "source": _string(SOURCE_CHARS, "Where it stands."),
        },
        required=["text", "source"],
    )
    return {"type": "array", "items": item, "maxItems": NEW_ITEMS, "description": description}


def _record(properties: dict[str, Json], *, required: Sequence[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
