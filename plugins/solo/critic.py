"""The critic: another model that reads the belief and finds fault with it; it changes nothing by itself.

Its text is fenced as untrusted words: it can give no orders, and none of its numbers enters a belief.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.api import (
    BeliefLoop,
    Json,
    StepObservation,
    ToolDefinition,
    ToolResult,
    UnreadableAnswer,
    derive_seed,
    fence_text,
    find_starting_point,
    format_belief_state,
    open_session,
    parsing,
    question_text,
)
from plugins.solo import prompt_texts

CRITIC_ROLE, FALLBACK_ROLE = "critic", "main"
_CHARS = 3000
_TOOL = ToolDefinition(
    name="criticise",
    description="Say what is wrong with this forecast.",
    parameters={
        "type": "object",
        "properties": {
            "criticism": {
                "type": "string",
                "description": "The gravest faults first: criteria misread, base rate left out, evidence used twice, "
                "too sure, too timid, something not looked up.",
                "maxLength": _CHARS,
            },
        },
        "required": ["criticism"],
        "additionalProperties": False,
    },
)


async def ask_critic(loop: BeliefLoop, *, nth: int) -> ToolResult:
    """Return the critique of the belief; without one, the text says only that."""
    context, question = loop.context, loop.question
    critic = open_session(context, CRITIC_ROLE, FALLBACK_ROLE, seed=derive_seed(context, CRITIC_ROLE, str(nth)))
    asked = question_text(
        question, loop.answer_format, find_starting_point(question, crowd=False), cutoff=context.cutoff
    )
    believed = fence_text(format_belief_state(loop.state, loop.answer_format), "the forecast of another forecaster")
    critic.begin(prompt_texts.critic_prompt(), f"{asked}\n\n## The forecast to judge\n{believed}")
    filled = await critic.ask_structured(_TOOL, _read_criticism)
    await critic.report_performance()
    critique = (
        fence_text(filled.value, "feedback of another forecaster")
        if filled.value is not None
        else f"There is no feedback to be had: {filled.reason}."
    )
    alone = (
        "The critic is the same model as you.\n" if critic.role == FALLBACK_ROLE and filled.value is not None else ""
    )
    return ToolResult(
        observation=StepObservation(text=f"{alone}{critique}", documents=filled.documents),
        usage=filled.usage,
        failed=filled.value is None,
    )


def _read_criticism(arguments: Mapping[str, Json]) -> str:
    if critique := parsing.read_text(arguments.get("criticism"), _CHARS):
        return critique
    message = "criticism should say what is wrong with the forecast"
    raise UnreadableAnswer(message)
