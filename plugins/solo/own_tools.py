"""The tools of the single agent that the engine does not provide: think, state a belief, ask a critic, submit."""

from __future__ import annotations

from typing import Final, TypeGuard

from bot.api import (
    SUBMIT,
    AnswerFormat,
    Json,
    Question,
    ToolDefinition,
    answer_tool,
    belief_schema,
    submit_tool,
    text_field,
)
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
DOUBT = "doubt"
DOUBT_CHARS = 1000
_THOUGHT_CHARS = 4000
# Fields of a belief that are given elsewhere here, or kept by code.
_OMITTED_FIELDS = ("update_reasoning", "searches_tried")


def think_tool() -> ToolDefinition:
    """Return the tool that only writes down a thought."""
    thought = text_field(
        _THOUGHT_CHARS, "What you think: a plan, an estimate worked through, an objection to yourself."
    )
    return answer_tool(
        THINK, "Think in writing. It brings nothing new, and never twice in a row.", {"thought": thought}
    )


def feedback_tool() -> ToolDefinition:
    """Return the tool that asks the critic."""
    return answer_tool(
        FEEDBACK,
        "Have a critic review your belief as it is now.",
        {DOUBT: text_field(DOUBT_CHARS, "What you are least sure of; the critic looks at that first.")},
    )


def update_tool(answer_format: AnswerFormat, settings: SoloSettings) -> ToolDefinition:
    """Return the tool that states a belief."""
    believed = belief_schema(answer_format, settings.margin)["properties"]
    held = (
        {name: schema for name, schema in believed.items() if name not in _OMITTED_FIELDS}
        if _is_record(believed)
        else {}
    )
    properties: dict[str, Json] = {**_reason_fields(settings), **held}
    stated = answer_format.schema(settings.margin)
    return answer_tool(
        UPDATE,
        "State what you believe now and why; it is your answer if the work ends before you submit. Each piece of "
        "evidence names its source: the id of a search result, an address, or a tool.",
        properties,
        required=(BOTTOM_LINE, RATIONALE, "confidence", *stated),
    )


def solo_submit_tool(question: Question, answer_format: AnswerFormat, settings: SoloSettings) -> ToolDefinition:
    """Return the tool that ends the trial."""
    stated = answer_format.schema(settings.margin)
    properties: dict[str, Json] = {**_reason_fields(settings), **stated}
    description = submit_tool(question, answer_format, settings.margin).description
    return answer_tool(SUBMIT, description, properties, required=(BOTTOM_LINE, RATIONALE, *stated))


def _reason_fields(settings: SoloSettings) -> dict[str, Json]:
    extreme = f"{settings.extreme_probability:.0%} or more, or {1.0 - settings.extreme_probability:.0%} or less"
    return {
        BOTTOM_LINE: text_field(BOTTOM_CHARS, "Your conclusion in one sentence, first."),
        RATIONALE: text_field(REASON_CHARS, f"Why, in at most {settings.max_words} words, with your sources."),
        CRITERIA_RESTATED: text_field(
            RESTATED_CHARS,
            f"Before anything is given {extreme}: what exactly must happen, by when, and who decides.",
        ),
    }


def _is_record(schema: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(schema, dict)
