"""The critic: another model that reviews a draft once and takes no part in the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import (
    Json,
    StepObservation,
    ToolDefinition,
    ToolResult,
    create_answer_format,
    derive_seed,
    fence_text,
    load_template,
    open_session,
    parsing,
    task_text,
)
from plugins.orchestra.subagent_kinds import PROMPT_PACKAGE
from plugins.orchestra.subagent_run import MAIN_ROLE, OrchestraContext
from plugins.orchestra.tool_schemas import define_tool, enum_schema, read_enum, require_text, text_schema

CRITIC_ROLE = "critic"
# A model that asks for more second opinions than these avoids deciding.
MAX_CRITIQUES = 3
DRAFT_CHARS = 2500
TEXT_CHARS = 800


class CriticLeaning(StrEnum):
    """The direction in which the critic thinks that the answer should move."""

    HIGHER = "higher"
    LOWER = "lower"
    AS_IT_IS = "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticOpinion:
    """The critic's answer."""

    verdict: str
    objections: str
    missing: str
    leaning: CriticLeaning

    @property
    def shown(self) -> str:
        """The critique as the orchestrator reads it."""
        parts = [self.verdict, f"Objections: {self.objections or 'none'}", f"Missing: {self.missing or 'nothing'}"]
        return fence_text("\n".join([*parts, f"The answer should be: {self.leaning}"]), "critique")


@dataclass(slots=True, kw_only=True)
class OrchestraCritic:
    """Asks the model in the role critic, at most a few times in a trial."""

    context: OrchestraContext
    times: int = 0

    @property
    def is_left(self) -> bool:
        """Whether it may be asked once more."""
        return self.times < MAX_CRITIQUES

    async def ask_critic(self, arguments: Mapping[str, Json]) -> ToolResult:
        """Return the critique of a draft; raises UnreadableAnswer if there is none."""
        draft = require_text(arguments, "draft", DRAFT_CHARS)
        run_context = self.context
        self.times += 1
        session = open_session(
            run_context.context,
            CRITIC_ROLE,
            MAIN_ROLE,
            seed=derive_seed(run_context.context, CRITIC_ROLE, str(self.times)),
        )
        answer_format = create_answer_format(run_context.question, run_context.answer_settings, percent=session.percent)
        found = fence_text(run_context.memory.newest_text() or "nothing yet", "shared memory")
        asked = run_context.question_prompt(answer_format)
        case = f"{asked}\n\n# The case\n{fence_text(draft, 'draft')}\n\n# What was found\n{found}"
        session.begin(load_template(PROMPT_PACKAGE, "critique").substitute(task=task_text(run_context.question)), case)
        filled = await session.ask_structured(_critique_tool(), _read_critique)
        await session.report_performance()
        left_out = f"The critic is left out.\n{fence_text(filled.reason, 'why')}"
        text = left_out if filled.value is None else filled.value.shown
        observation = StepObservation(text=text, documents=filled.documents)
        return ToolResult(observation=observation, usage=filled.usage, failed=filled.value is None)


def critic_tool() -> ToolDefinition:
    """Return the critic as a tool of the orchestrator."""
    return define_tool(
        CRITIC_ROLE,
        f"Have the case looked at by a critic who did none of the work, {MAX_CRITIQUES} times at most. "
        "draft: your case and the answer you lean to.",
        {"draft": text_schema(DRAFT_CHARS)},
        required=("draft",),
    )


def _critique_tool() -> ToolDefinition:
    properties: dict[str, Json] = {
        "objections": text_schema(TEXT_CHARS, "the most serious first"),
        "missing": text_schema(TEXT_CHARS, "what should have been looked at"),
        "verdict": text_schema(TEXT_CHARS),
        "leaning": enum_schema(CriticLeaning),
    }
    return define_tool("give_critique", "Give your opinion.", properties, required=("verdict", "leaning"))


def _read_critique(arguments: Mapping[str, Json]) -> CriticOpinion:
    return CriticOpinion(
        verdict=require_text(arguments, "verdict", TEXT_CHARS),
        objections=parsing.read_text(arguments.get("objections"), TEXT_CHARS),
        missing=parsing.read_text(arguments.get("missing"), TEXT_CHARS),
        leaning=read_enum(CriticLeaning, arguments.get("leaning"), "leaning"),
    )
