"""Keeps the belief state short: a small model joins duplicate items. What cannot be shortened is not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from bot.core.beliefs import NO_USAGE, ModelUsage
from bot.core.errors import ConfigError
from bot.core.interfaces import TrialContext
from bot.core.language_models import Message, MessageRole, ModelDialect, ModelPerformance, ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.agent.belief_state import ITEM_CHARS, SOURCE_CHARS, BeliefState, EvidenceItem
from bot.forecasting.agent.chat_session import SESSION_ERRORS
from bot.forecasting.agent.dialects import JsonDialect, NativeDialect
from bot.forecasting.agent.parsing import ActionDialect, ParseFailure, read_text
from bot.forecasting.prompt_files import SHARED_PACKAGE, load_template
from bot.forecasting.untrusted_text import fence_text

log = structlog.get_logger()

SUMMARISER_ROLE = "summariser"
LIST_ITEMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """A state after compaction, what that cost, the record of the answer, and a note on it."""

    state: BeliefState
    usage: ModelUsage = NO_USAGE
    documents: tuple[str, ...] = ()
    note: str = ""


async def compact_belief_state(
    state: BeliefState, question: Question, context: TrialContext, *, seed: int, folder: Path | None = None
) -> CompactionResult:
    """Return the state with shorter lists, or the unchanged state and the reason if that failed.

    Only evidence and open questions change: probabilities, anchor and the reason of the last update stay. ``folder``
    holds prompt files that replace the shipped ones.
    """
    try:
        model_dialect = context.dialect(SUMMARISER_ROLE)
    except ConfigError:
        return CompactionResult(state=state, note=f"notes not shortened: no model plays the role {SUMMARISER_ROLE}")
    dialect: ActionDialect = JsonDialect() if model_dialect is ModelDialect.JSON else NativeDialect()
    tool = _notes_tool()
    heading = load_template(SHARED_PACKAGE, "compact", folder).substitute() + dialect.describe_tools([tool])
    messages = (
        Message(speaker=MessageRole.SYSTEM, text=heading),
        Message(speaker=MessageRole.USER, text=_notes_text(state, question)),
    )
    try:
        answer = await context.ask_model(SUMMARISER_ROLE, dialect.build_prompt(messages, [tool]), seed=seed)
    except SESSION_ERRORS as error:
        log.info("notes not shortened", question=str(question.ref), why=str(error))
        return CompactionResult(state=state, note=f"notes not shortened: {error}")
    action = dialect.read_action(answer.completion)
    shorter = None if isinstance(action, ParseFailure) else _apply_notes(state, action.arguments)
    await context.report_performance(
        ModelPerformance(role=SUMMARISER_ROLE, model=answer.model, asked=1, unparsed=int(shorter is None))
    )
    return CompactionResult(
        state=shorter or state,
        usage=answer.usage,
        documents=(answer.document,),
        note="notes shortened" if shorter else "notes not shortened: the answer could not be used",
    )


def _notes_text(state: BeliefState, question: Question) -> str:
    lines = ["evidence for:", *(f"- [{item.source}] {item.text}" for item in state.evidence_for)]
    lines += ["evidence against:", *(f"- [{item.source}] {item.text}" for item in state.evidence_against)]
    lines += ["open questions:", *(f"- {question}" for question in state.open_questions)]
    return f"{fence_text(question.title, 'question')}\n\n{fence_text(chr(10).join(lines), 'notes')}"


def _notes_tool() -> ToolDefinition:
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
    return ToolDefinition(
        name="keep_notes",
        description="Keep these notes instead of the present ones",
        parameters={
            "type": "object",
            "properties": {"evidence_for": items, "evidence_against": items, "key_uncertainties": texts},
            "required": ["evidence_for", "evidence_against", "key_uncertainties"],
            "additionalProperties": False,
        },
    )


def _apply_notes(state: BeliefState, notes: Mapping[str, Json]) -> BeliefState | None:
    """Return the state with the new notes; None if they lose a side, a source, or shorten nothing."""
    given = state.names_given
    lists: list[tuple[EvidenceItem, ...]] = []
    for letter, name, old in (
        ("F", "evidence_for", state.evidence_for),
        ("A", "evidence_against", state.evidence_against),
    ):
        new = _read_items(notes.get(name), letter, old, given)
        if new is None or bool(new) != bool(old):
            return None
        given += len(new)
        lists.append(new)
    raw = notes.get("key_uncertainties")
    questions = tuple(
        found for item in (raw if isinstance(raw, list) else ()) if (found := read_text(item, ITEM_CHARS))
    )
    shorter = replace(
        state,
        evidence_for=lists[0],
        evidence_against=lists[1],
        open_questions=questions[:LIST_ITEMS] or state.open_questions,
        names_given=given,
    )
    return shorter if shorter.chars < state.chars else None


def _read_items(raw: Json, letter: str, old: tuple[EvidenceItem, ...], given: int) -> tuple[EvidenceItem, ...] | None:
    """Return the new items of one list; None if one is not an item or names an unknown source."""
    if not isinstance(raw, list) or len(raw) > LIST_ITEMS:
        return None
    sources = {item.source for item in old}
    new: list[EvidenceItem] = []
    for item in raw:
        words = read_text(item.get("text"), ITEM_CHARS) if isinstance(item, dict) else ""
        source = read_text(item.get("source"), SOURCE_CHARS) if isinstance(item, dict) else ""
        if not words or source not in sources:
            return None
        new.append(EvidenceItem(name=f"{letter}{given + len(new) + 1}", text=words, source=source))
    return tuple(new)
