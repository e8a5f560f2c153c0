"""The critic: a model that reviews a forecast before it is submitted, and takes no part in the work.

Its words are fenced as those of somebody else: they give no orders, and none of its numbers enters a belief.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from bot.core.beliefs import StepObservation, ToolResult
from bot.core.interfaces import TrialContext
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.predictions import ChoiceShape, CurveShape
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.agent import parsing
from bot.forecasting.agent.answer_schema import AnswerFormat, AnswerSettings, create_answer_format
from bot.forecasting.agent.chat_session import derive_seed, open_session
from bot.forecasting.agent.prompt_texts import judging_text, task_text
from bot.forecasting.agent.tool_schemas import answer_tool, read_word, require_text, text_field, word_field
from bot.forecasting.prompt_files import SHARED_PACKAGE, fill_prompt
from bot.forecasting.untrusted_text import fence_text

CRITIC_ROLE = "critic"
# The name of the shared prompt file.
CRITIC_PROMPT = "critic"
_FALLBACK_ROLE = "main"
_TEXT_CHARS = 1500


class ProbabilityChange(StrEnum):
    """How the critic thinks that the probability of yes should change."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "as it is"


class QuantileChange(StrEnum):
    """How the critic thinks that the quantiles of a number or date should change."""

    HIGHER = "higher"
    LOWER = "lower"
    WIDER = "wider"
    NARROWER = "narrower"
    NONE = "as they are"


@dataclass(slots=True, kw_only=True)
class ForecastCritic:
    """Asks the model in the role critic, else the one in the role main, at most ``rounds`` times in a trial."""

    question: Question
    context: TrialContext
    settings: AnswerSettings
    rounds: int
    times: int = 0

    @property
    def is_left(self) -> bool:
        """Whether it may be asked once more."""
        return self.times < self.rounds

    async def review(self, write_question: Callable[[AnswerFormat], str], case: Mapping[str, str]) -> ToolResult:
        """Return the critique of a case: texts by what they are, such as the draft and the reports behind it.

        Without a critique, the text says why.
        """
        self.times += 1
        seed = derive_seed(self.context, CRITIC_ROLE, str(self.times))
        session = open_session(self.context, CRITIC_ROLE, _FALLBACK_ROLE, seed=seed)
        answer_format = create_answer_format(self.question, self.settings, percent=session.percent)
        parts = [f"## {label[:1].upper()}{label[1:]}\n{fence_text(text, label)}" for label, text in case.items()]
        session.begin(
            critic_prompt(self.question), "\n\n".join([write_question(answer_format), "# The case to review", *parts])
        )
        found = await session.ask_structured(
            critique_tool(self.question), lambda arguments: read_critique(arguments, self.question)
        )
        await session.report_performance()
        if found.value is None:
            text = f"There is no critique.\n{fence_text(found.reason, 'reason')}"
        else:
            same = "The critic is the same model as you.\n" if session.role == _FALLBACK_ROLE else ""
            text = f"{same}{fence_text(found.value, 'critique')}"
        observation = StepObservation(text=text, documents=found.documents)
        return ToolResult(observation=observation, usage=found.usage, failed=found.value is None)


def critic_prompt(question: Question) -> str:
    """Return the instructions of the critic for a question of this kind."""
    return fill_prompt(SHARED_PACKAGE, CRITIC_PROMPT, task=task_text(question), judging=judging_text(question))


def critique_tool(question: Question) -> ToolDefinition:
    """Return the tool that states a critique: of the options, the quantiles or the probability."""
    properties: dict[str, Json] = {
        "objections": text_field(_TEXT_CHARS, "What is wrong, the most serious first; empty if nothing is."),
        "missing": text_field(_TEXT_CHARS, "What should have been looked up; empty if nothing."),
        "verdict": text_field(_TEXT_CHARS, "Whether the forecast holds, in one or two sentences."),
    }
    changes = _change_fields(question)
    return answer_tool(
        "give_critique", "Give your critique.", {**properties, **changes}, required=("verdict", *changes)
    )


def read_critique(arguments: Mapping[str, Json], question: Question) -> str:
    """Return a critique as others read it; raises UnreadableAnswer in words for the model."""
    return "\n".join(
        [
            require_text(arguments, "verdict", _TEXT_CHARS),
            f"Objections: {parsing.read_text(arguments.get('objections'), _TEXT_CHARS) or 'none'}",
            f"Missing: {parsing.read_text(arguments.get('missing'), _TEXT_CHARS) or 'nothing'}",
            *_read_changes(arguments, question),
        ]
    )


def _change_fields(question: Question) -> dict[str, Json]:
    match question.shape:
        case ChoiceShape(options=options):
            items: Json = {"type": "string", "enum": [*options]}
            listed: dict[str, Json] = {"type": "array", "items": items, "maxItems": len(options)}
            return {
                "too_low": {**listed, "description": "The options that deserve more."},
                "too_high": {**listed, "description": "The options that deserve less."},
            }
        case CurveShape():
            return {"quantiles": word_field(QuantileChange, "How the stated values should change.")}
        case _:
            return {"probability_change": word_field(ProbabilityChange, "How the probability of yes should change.")}


def _read_changes(arguments: Mapping[str, Json], question: Question) -> list[str]:
    match question.shape:
        case ChoiceShape(options=options):
            low, high = (_read_options(arguments.get(name), options) for name in ("too_low", "too_high"))
            return [f"Options that deserve more: {low}", f"Options that deserve less: {high}"]
        case CurveShape():
            change = read_word(QuantileChange, arguments.get("quantiles"), "quantiles")
            return [f"The quantiles should be: {change}"]
        case _:
            leaning = read_word(ProbabilityChange, arguments.get("probability_change"), "probability_change")
            return [f"The probability should be: {leaning}"]


def _read_options(raw: Json, options: tuple[str, ...]) -> str:
    named = [name for name in raw if name in options] if isinstance(raw, list) else []
    return ", ".join(map(str, named)) or "none"
