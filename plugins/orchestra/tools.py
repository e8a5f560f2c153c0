"""The orchestrator's tools: their names and the shapes of what they take."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from bot.api import NOTE_TO_SELF, Json, Tool
from plugins.orchestra.crew import TASK_CHARS
from plugins.orchestra.critic import critic_tool
from plugins.orchestra.memory import memory_tool
from plugins.orchestra.shapes import NAME_CHARS, described, text_of, words_of

RUN, PARALLEL, BATCH, LOOK, ANSWER = "run_subagent", "run_parallel", "run_batch", "subagents", "answer_guidance"
LESSONS, KEEP = "lessons", NOTE_TO_SELF
# Runs that one move may begin.
MOST_RUNS = 10
ANSWER_CHARS = 1000
LESSON_CHARS = 600


class Look(StrEnum):
    """What can be done with subagents besides making and running them."""

    LIST = "list"
    STATUS = "status"
    DELETE = "delete"


@cache
def own_tools() -> tuple[Tool, ...]:
    """Return the tools whose shape never changes, in the order in which they are offered."""
    lesson: dict[str, Json] = {"text": text_of(LESSON_CHARS)}
    later = "Write down what would help with other questions; it is offered to later runs once this one is resolved."
    return (
        *_manager(),
        memory_tool(),
        critic_tool(),
        described(LESSONS, "Search the lessons from earlier forecasts for words.", lesson, required=("text",)),
        described(KEEP, later, lesson, required=("text",)),
    )


def _manager() -> tuple[Tool, ...]:
    name: dict[str, Json] = {"name": text_of(NAME_CHARS)}
    task = text_of(TASK_CHARS)
    job: dict[str, Json] = {
        "type": "object",
        "properties": {**name, "task": task},
        "required": ["name", "task"],
        "additionalProperties": False,
    }
    return (
        described(
            RUN,
            "Run one subagent on a task and get its report.",
            {**name, "task": task},
            required=("name", "task"),
        ),
        described(
            PARALLEL,
            "Run different subagents at the same time, each on a task of its own, and get all reports.",
            {"runs": _some(job)},
            required=("runs",),
        ),
        described(
            BATCH,
            "Run one subagent on several tasks, one after the other, each with an empty head.",
            {**name, "tasks": _some(task)},
            required=("name", "tasks"),
        ),
        described(
            LOOK,
            "list all subagents, see the status of one, or delete one that is not needed (its place stays used).",
            {"operation": words_of(Look), **name},
            required=("operation",),
        ),
        described(
            ANSWER,
            "Answer a subagent that asked for guidance; it goes on at once.",
            {**name, "answer": text_of(ANSWER_CHARS)},
            required=("name", "answer"),
        ),
    )


def _some(items: dict[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": MOST_RUNS}
