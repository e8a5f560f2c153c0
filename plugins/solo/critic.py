"""The critic: another model that is shown the belief and finds fault with it; it changes nothing by itself.

What it says comes back fenced, as words of somebody else: it can give no orders, and no number of its enters a belief.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.api import (
    Course,
    Json,
    Misread,
    Observation,
    Tool,
    ToolResult,
    question_text,
    quoted,
    reading,
    seed_of,
    shown_state,
    starting_point,
    voice_for,
)
from plugins.solo import wording

ROLE, FALLBACK = "critic", "main"
_CHARS = 3000
_TOOL = Tool(
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


async def criticised(course: Course, *, nth: int) -> ToolResult:
    """Return what the critic says of the belief; where there is none to be had, that is all it says."""
    desk, question = course.desk, course.question
    critic = voice_for(desk, ROLE, FALLBACK, seed=seed_of(desk, ROLE, str(nth)))
    asked = question_text(question, course.ballot, starting_point(question, crowd=False), cutoff=desk.cutoff)
    believed = quoted(shown_state(course.state, course.ballot), "the forecast of another forecaster")
    critic.begin(wording.critic(), f"{asked}\n\n## The forecast to judge\n{believed}")
    filled = await critic.fill(_TOOL, _read)
    await critic.grade()
    said = (
        quoted(filled.value, "feedback of another forecaster")
        if filled.value is not None
        else f"There is no feedback to be had: {filled.why}."
    )
    alone = "The critic is the same model as you.\n" if critic.role == FALLBACK and filled.value is not None else ""
    return ToolResult(
        observation=Observation(text=f"{alone}{said}", documents=filled.documents),
        usage=filled.usage,
        failed=filled.value is None,
    )


def _read(arguments: Mapping[str, Json]) -> str:
    if said := reading.text(arguments.get("criticism"), _CHARS):
        return said
    message = "criticism should say what is wrong with the forecast"
    raise Misread(message)
