"""The orchestrator's tools: their names and the schemas of their arguments."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from bot.api import LESSON_ACTION, Json, ToolDefinition
from plugins.orchestra.critic import critic_tool
from plugins.orchestra.shared_memory import memory_tool
from plugins.orchestra.subagent_pool import TASK_CHARS
from plugins.orchestra.tool_schemas import NAME_CHARS, define_tool, enum_schema, text_schema

RUN_TOOL, PARALLEL_TOOL, BATCH_TOOL, SUBAGENTS_TOOL, ANSWER_TOOL = (
    "run_subagent",
    "run_parallel",
    "run_batch",
    "subagents",
    "answer_guidance",
)
LESSONS_TOOL, NOTE_TOOL = "lessons", LESSON_ACTION
# Runs that one move may begin.
MOST_RUNS = 10
ANSWER_CHARS = 1000
LESSON_CHARS = 600


class SubagentQuery(StrEnum):
    """The operations on subagents besides making and running them."""

    LIST = "list"
    STATUS = "status"
    DELETE = "delete"


@cache
def orchestrator_tools() -> tuple[ToolDefinition, ...]:
    """Return the tools whose schema never changes, in the order in which they are offered."""
    lesson: dict[str, Json] = {"text": text_schema(LESSON_CHARS)}
    later = "Write down what would help with other questions; it is offered to later runs once this one is resolved."
    return (
        *_subagent_tools(),
        memory_tool(),
        critic_tool(),
        define_tool(LESSONS_TOOL, "Search the lessons from earlier forecasts for words.", lesson, required=("text",)),
        define_tool(NOTE_TOOL, later, lesson, required=("text",)),
    )


def _subagent_tools() -> tuple[ToolDefinition, ...]:
    name: dict[str, Json] = {"name": text_schema(NAME_CHARS)}
    task = text_schema(TASK_CHARS)
    job: dict[str, Json] = {
        "type": "object",
        "properties": {**name, "task": task},
        "required": ["name", "task"],
        "additionalProperties": False,
    }
    return (
        define_tool(
            RUN_TOOL,
            "Run one subagent on a task and get its report.",
            {**name, "task": task},
            required=("name", "task"),
        ),
        define_tool(
            PARALLEL_TOOL,
            "Run different subagents at the same time, each on a task of its own, and get all reports.",
            {"runs": _list_schema(job)},
            required=("runs",),
        ),
        define_tool(
            BATCH_TOOL,
            "Run one subagent on several tasks, one after the other, each with an empty head.",
            {**name, "tasks": _list_schema(task)},
            required=("name", "tasks"),
        ),
        define_tool(
            SUBAGENTS_TOOL,
            "list all subagents, see the status of one, or delete one that is not needed (its place stays used).",
            {"operation": enum_schema(SubagentQuery), **name},
            required=("operation",),
        ),
        define_tool(
            ANSWER_TOOL,
            "Answer a subagent that asked for guidance; it goes on at once.",
            {**name, "answer": text_schema(ANSWER_CHARS)},
            required=("name", "answer"),
        ),
    )


def _list_schema(items: dict[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": MOST_RUNS}
