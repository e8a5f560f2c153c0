"""The moves of the lone agent that are not the desk's: thinking, stating a belief, asking a critic, submitting."""

from __future__ import annotations

from typing import Final, TypeGuard

from bot.api import SUBMIT, Ballot, Json, Question, Tool, belief_schema, submit_tool
from plugins.solo.answer import BOTTOM_CHARS, BOTTOM_LINE, RATIONALE, REASON_CHARS, RESTATED, RESTATED_CHARS
from plugins.solo.settings import SoloSettings

THINK: Final = "think"
UPDATE: Final = "update"
FEEDBACK: Final = "feedback"
# A tool of the desk never stands in the place of one of these.
OWN = frozenset({THINK, UPDATE, FEEDBACK, SUBMIT})
_THOUGHT_CHARS = 4000
# What a belief holds that is said otherwise here, or kept by code.
_NOT_ASKED = ("update_reasoning", "searches_tried")


def think() -> Tool:
    """Return the move that only writes down a thought."""
    thought = _text("What you think: a plan, an estimate worked through, an objection to yourself.", _THOUGHT_CHARS)
    return _tool(
        THINK, "Think in writing. It brings nothing new, and never comes twice in a row.", {"thought": thought}
    )


def feedback() -> Tool:
    """Return the move that asks the critic."""
    properties: dict[str, Json] = {"doubt": _text("What you are least sure of.", 1000)}
    return _tool(FEEDBACK, "Let another forecaster find fault with your belief as it stands.", properties)


def update(ballot: Ballot, settings: SoloSettings) -> Tool:
    """Return the move that states a belief."""
    believed = belief_schema(ballot, settings.margin)["properties"]
    held = {name: schema for name, schema in believed.items() if name not in _NOT_ASKED} if _is_record(believed) else {}
    properties: dict[str, Json] = {**_reasons(settings), **held}
    stated = ballot.schema(settings.margin)
    return _tool(
        UPDATE,
        "State what you believe now and why; it stands if the work ends before you submit. Each piece of evidence "
        "names the number of a search result, an address, or a tool.",
        properties,
        required=(BOTTOM_LINE, RATIONALE, "confidence", *stated),
    )


def submit(question: Question, ballot: Ballot, settings: SoloSettings) -> Tool:
    """Return the move that ends the trial."""
    stated = ballot.schema(settings.margin)
    properties: dict[str, Json] = {**_reasons(settings), **stated}
    description = submit_tool(question, ballot, settings.margin).description
    return _tool(SUBMIT, description, properties, required=(BOTTOM_LINE, RATIONALE, *stated))


def _reasons(settings: SoloSettings) -> dict[str, Json]:
    extreme = f"{settings.extreme:.0%} or more, or {1.0 - settings.extreme:.0%} or less"
    return {
        BOTTOM_LINE: _text("Your conclusion in one sentence, first.", BOTTOM_CHARS),
        RATIONALE: _text(f"Why, in at most {settings.words} words, with your sources.", REASON_CHARS),
        RESTATED: _text(
            f"Before anything is given {extreme}: what exactly must happen, by when, and who decides.", RESTATED_CHARS
        ),
    }


def _is_record(schema: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(schema, dict)


def _text(description: str, limit: int) -> dict[str, Json]:
    return {"type": "string", "description": description, "maxLength": limit}


def _tool(name: str, description: str, properties: dict[str, Json], *, required: tuple[str, ...] | None = None) -> Tool:
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=parameters)
