"""Keeps the belief state short: a small model joins what says the same. What cannot be shortened stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from bot.agent.belief import ITEM_CHARS, SOURCE_CHARS
from bot.agent.dialects.json_object import JsonSpeech
from bot.agent.dialects.move import Garble, Speech
from bot.agent.dialects.native import NativeSpeech
from bot.agent.prompt_files import SHARED, template
from bot.agent.reading import text
from bot.agent.state import Item, State
from bot.agent.voice import STOPS
from bot.desk.untrusted import quoted
from bot.domain.conduct import Conduct
from bot.domain.prompt import Dialect, Message, Speaker, Tool
from bot.domain.question import Question
from bot.domain.step import Json, Usage
from bot.errors import ConfigError
from bot.ports import Desk

log = structlog.get_logger()

ROLE = "summariser"
LIST_ITEMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A state after compaction, what that cost, the record of the answer, and what there is to say of it."""

    state: State
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    note: str = ""


async def compacted(
    state: State, question: Question, desk: Desk, *, seed: int, folder: Path | None = None
) -> Compacted:
    """Return the state with shorter lists, or as it was, with the reason, where that did not work out.

    Only evidence and open questions change: probabilities, anchor and the reason of the last update stay. ``folder``
    holds prompt files that replace the shipped ones.
    """
    try:
        dialect = desk.dialect(ROLE)
    except ConfigError:
        return Compacted(state=state, note=f"notes not shortened: no model plays the role {ROLE}")
    speech: Speech = JsonSpeech() if dialect is Dialect.JSON else NativeSpeech()
    tool = _tool()
    heading = template(SHARED, "compact", folder).substitute() + speech.listing([tool])
    messages = (
        Message(speaker=Speaker.SYSTEM, text=heading),
        Message(speaker=Speaker.USER, text=_notes(state, question)),
    )
    try:
        answer = await desk.ask(ROLE, speech.prompt(messages, [tool]), seed=seed)
    except STOPS as error:
        log.info("notes not shortened", question=str(question.ref), why=str(error))
        return Compacted(state=state, note=f"notes not shortened: {error}")
    move = speech.read(answer.completion)
    shorter = None if isinstance(move, Garble) else _shorter(state, move.arguments)
    await desk.grade(Conduct(role=ROLE, model=answer.model, asked=1, unparsed=int(shorter is None)))
    return Compacted(
        state=shorter or state,
        usage=answer.usage,
        documents=(answer.document,),
        note="notes shortened" if shorter else "notes not shortened: the answer could not be used",
    )


def _notes(state: State, question: Question) -> str:
    lines = ["evidence for:", *(f"- [{item.source}] {item.text}" for item in state.evidence_for)]
    lines += ["evidence against:", *(f"- [{item.source}] {item.text}" for item in state.evidence_against)]
    lines += ["open questions:", *(f"- {question}" for question in state.open_questions)]
    return f"{quoted(question.title, 'question')}\n\n{quoted(chr(10).join(lines), 'notes')}"


def _tool() -> Tool:
    item: Json = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "maxLength": ITEM_CHARS},
            "source": {"type": "string", "maxLength": SOURCE_CHARS},
        },
        "required": ["text", "source"],
        "additionalProperties": False,
    }
    items: Json = {"type": "array", "items": item, "maxItems": LIST_ITEMS}
    texts: Json = {"type": "array", "items": {"type": "string", "maxLength": ITEM_CHARS}, "maxItems": LIST_ITEMS}
    return Tool(
        name="keep_notes",
        description="Keep these notes instead of the present ones",
        parameters={
            "type": "object",
            "properties": {"evidence_for": items, "evidence_against": items, "key_uncertainties": texts},
            "required": ["evidence_for", "evidence_against", "key_uncertainties"],
            "additionalProperties": False,
        },
    )


def _shorter(state: State, notes: Mapping[str, Json]) -> State | None:
    """Return the state with the new notes; None where they lose a side, a source, or nothing at all."""
    given = state.given
    lists: list[tuple[Item, ...]] = []
    for letter, name, old in (
        ("F", "evidence_for", state.evidence_for),
        ("A", "evidence_against", state.evidence_against),
    ):
        new = _items(notes.get(name), letter, old, given)
        if new is None or bool(new) != bool(old):
            return None
        given += len(new)
        lists.append(new)
    raw = notes.get("key_uncertainties")
    questions = tuple(found for item in (raw if isinstance(raw, list) else ()) if (found := text(item, ITEM_CHARS)))
    shorter = replace(
        state,
        evidence_for=lists[0],
        evidence_against=lists[1],
        open_questions=questions[:LIST_ITEMS] or state.open_questions,
        given=given,
    )
    return shorter if shorter.chars < state.chars else None


def _items(raw: Json, letter: str, old: tuple[Item, ...], given: int) -> tuple[Item, ...] | None:
    """Return the new items of one list; None where one is no item or names a source that was not there."""
    if not isinstance(raw, list) or len(raw) > LIST_ITEMS:
        return None
    sources = {item.source for item in old}
    new: list[Item] = []
    for item in raw:
        words = text(item.get("text"), ITEM_CHARS) if isinstance(item, dict) else ""
        source = text(item.get("source"), SOURCE_CHARS) if isinstance(item, dict) else ""
        if not words or source not in sources:
            return None
        new.append(Item(name=f"{letter}{given + len(new) + 1}", text=words, source=source))
    return tuple(new)
