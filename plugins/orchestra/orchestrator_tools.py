"""The orchestrator's tools: their names and the schemas of their arguments."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from bot.api import CRITIC_ROLE, LESSON_ACTION, Json, ToolDefinition, answer_tool, object_schema, text_field, word_field
from plugins.orchestra.shared_memory import NAME_CHARS, memory_tool
from plugins.orchestra.subagent_pool import TASK_CHARS

RUN_TOOL, SUBAGENTS_TOOL, GUIDANCE_ANSWER_TOOL = "run_subagents", "subagents", "answer_guidance"
CRITIC_TOOL, LESSONS_TOOL, NOTE_TOOL = CRITIC_ROLE, "lessons", LESSON_ACTION
# Runs that one action may begin.
MOST_RUNS = 10
# A model that asks for more second opinions than these avoids deciding.
MAX_CRITIQUES = 3
DRAFT_CHARS = 2500
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
    name: dict[str, Json] = {"name": text_field(NAME_CHARS)}
    lesson: dict[str, Json] = {"text": text_field(LESSON_CHARS)}
    runs: Json = {
        "type": "array",
        "items": object_schema({**name, "task": text_field(TASK_CHARS)}),
        "minItems": 1,
        "maxItems": MOST_RUNS,
    }
    return (
        answer_tool(
            RUN_TOOL,
            "Run subagents on tasks, as many at the same time as allowed, and get their reports. One subagent may get "
            "several tasks: each is a run that knows nothing of the others.",
            {"runs": runs},
        ),
        answer_tool(
            SUBAGENTS_TOOL,
            "list all subagents, see the status of one, or delete one to make room for another; its reports are kept.",
            {"operation": word_field(SubagentQuery), **name},
            required=("operation",),
        ),
        answer_tool(
            GUIDANCE_ANSWER_TOOL,
            "Answer a subagent that asked for guidance; it continues at once.",
            {**name, "answer": text_field(ANSWER_CHARS)},
        ),
        memory_tool(),
        answer_tool(
            CRITIC_TOOL,
            f"Have a critic who did none of the work review your draft and all reports, {MAX_CRITIQUES} times at most.",
            {"draft": text_field(DRAFT_CHARS, "your case, and the answer that you lean to")},
        ),
        answer_tool(LESSONS_TOOL, "Search the lessons from earlier forecasts for words.", lesson),
        answer_tool(
            NOTE_TOOL,
            "Write down what would help with other questions. Later runs can read it at once, as an unconfirmed note; "
            "it becomes a lesson once this question is resolved.",
            lesson,
        ),
    )
