"""The tools of the single agent that the engine does not provide: think, state a belief, ask a critic, submit."""

from __future__ import annotations

from typing import Final, TypeGuard

from bot.api import SUBMIT, AnswerFormat, Json, Question, ToolDefinition, belief_schema, submit_tool
from plugins.solo.answer_rules import (
    BOTTOM_CHARS,
    BOTTOM_LINE,
    CRITERIA_RESTATED,
    RATIONALE,
    REASON_CHARS,
    RESTATED_CHARS,
)
from plugins.solo.settings import SoloSettings

THINK: Final = "think"
UPDATE: Final = "update"
FEEDBACK: Final = "feedback"
# No tool of the trial may replace one of these.
OWN_TOOLS = frozenset({THINK, UPDATE, FEEDBACK, SUBMIT})
_THOUGHT_CHARS = 4000
# Fields of a belief that are given elsewhere here, or kept by code.
_OMITTED_FIELDS = ("update_reasoning", "searches_tried")


def think_tool() -> ToolDefinition:
    """Return the tool that only writes down a thought."""
    thought = _text_schema(
        "What you think: a plan, an estimate worked through, an objection to yourself.", _THOUGHT_CHARS
    )
    return _define_tool(
        THINK, "Think in writing. It brings nothing new, and never comes twice in a row.", {"thought": thought}
    )


def feedback_tool() -> ToolDefinition:
    """Return the tool that asks the critic."""
    properties: dict[str, Json] = {"doubt": _text_schema("What you are least sure of.", 1000)}
    return _define_tool(FEEDBACK, "Let another forecaster find fault with your belief as it stands.", properties)


def update_tool(answer_format: AnswerFormat, settings: SoloSettings) -> ToolDefinition:
    """Return the tool that states a belief."""
    believed = belief_schema(answer_format, settings.margin)["properties"]
    held = (
        {name: schema for name, schema in believed.items() if name not in _OMITTED_FIELDS}
        if _is_record(believed)
        else {}
    )
    properties: dict[str, Json] = {**_reason_schemas(settings), **held}
    stated = answer_format.schema(settings.margin)
    return _define_tool(
        UPDATE,
        "State what you believe now and why; it stands if the work ends before you submit. Each piece of evidence "
        "names the number of a search result, an address, or a tool.",
        properties,
        required=(BOTTOM_LINE, RATIONALE, "confidence", *stated),
    )


def solo_submit_tool(question: Question, answer_format: AnswerFormat, settings: SoloSettings) -> ToolDefinition:
    """Return the tool that ends the trial."""
    stated = answer_format.schema(settings.margin)
    properties: dict[str, Json] = {**_reason_schemas(settings), **stated}
    description = submit_tool(question, answer_format, settings.margin).description
    return _define_tool(SUBMIT, description, properties, required=(BOTTOM_LINE, RATIONALE, *stated))


def _reason_schemas(settings: SoloSettings) -> dict[str, Json]:
    extreme = f"{settings.extreme_probability:.0%} or more, or {1.0 - settings.extreme_probability:.0%} or less"
    return {
        BOTTOM_LINE: _text_schema("Your conclusion in one sentence, first.", BOTTOM_CHARS),
        RATIONALE: _text_schema(f"Why, in at most {settings.max_words} words, with your sources.", REASON_CHARS),
        CRITERIA_RESTATED: _text_schema(
            f"Before anything is given {extreme}: what exactly must happen, by when, and who decides.", RESTATED_CHARS
        ),
    }


def _is_record(schema: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(schema, dict)


def _text_schema(description: str, limit: int) -> dict[str, Json]:
    return {"type": "string", "description": description, "maxLength": limit}


def _define_tool(
    name: str, description: str, properties: dict[str, Json], *, required: tuple[str, ...] | None = None
) -> ToolDefinition:
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
    return ToolDefinition(name=name, description=description, parameters=parameters)
