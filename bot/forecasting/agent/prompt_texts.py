"""The texts that models read.

The question, the line of each turn, the request after an invalid answer, and the work so far when another model takes
over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from bot.core.language_models import Message, MessageRole, ToolDefinition
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoiceShape, CurveShape
from bot.core.questions import Question, Target
from bot.core.values import Json
from bot.forecasting.agent.answer_schema import LEAST_PERCENT, AnswerFormat, BinaryAnswerSchema, ChoiceAnswerSchema
from bot.forecasting.agent.belief_state import StartingPoint
from bot.forecasting.prompt_files import SHARED_PACKAGE, fill_prompt, load_template
from bot.forecasting.untrusted_text import fence_text
from bot.forecasting.web_addresses import find_links

# The end of a long conversation is shown; the belief, if there is one, holds what was found early.
TRANSCRIPT_CHARS = 24_000


TRANSCRIPT_PART_CHARS = 4_000


# How a text of others begins. Source: ``bot.forecasting.untrusted_text``.
_FENCE_START = re.compile(r"<untrusted-([0-9a-f]+) ")


def handover_text(done: str) -> str:
    """Return the part of the first message that describes the work so far."""
    return f"## Work so far\nAnother model began this work. Continue from here; do not repeat what was done.\n\n{done}"


def transcript_text(messages: Sequence[Message]) -> str:
    """Return the conversation since the opening, only its newest part if it is long."""
    lines: list[str] = []
    remaining_chars = TRANSCRIPT_CHARS
    for line in reversed(list(_transcript_lines(messages))):
        remaining_chars -= len(line)
        if remaining_chars < 0 and lines:
            lines.append("(what came before is left out)")
            break
        lines.append(line)
    return "\n\n".join(reversed(lines))


def call_text(tool: ToolDefinition) -> str:
    """Return the line that asks for one call and no other."""
    return f"Answer with one call of {tool.name}."


def _transcript_lines(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.speaker is MessageRole.ASSISTANT:
            parts = [message.text.strip(), *(f"Call: {call.name}({call.arguments})" for call in message.calls)]
            yield "\n".join(["Assistant:", *(_cut_part(part) for part in parts if part)])
        elif message.text:
            yield f"{'Result' if message.speaker is MessageRole.TOOL else 'User'}:\n{_cut_part(message.text)}"


def _cut_part(text: str) -> str:
    """Return the beginning of a text; a fence around foreign words that is cut open is closed."""
    if len(text) <= TRANSCRIPT_PART_CHARS:
        return text
    kept = text[:TRANSCRIPT_PART_CHARS]
    still_open = [mark for mark in _FENCE_START.findall(kept) if f"</untrusted-{mark}>" not in kept]
    return "\n".join([f"{kept} [cut here]", *(f"</untrusted-{mark}>" for mark in still_open)])


SUBMIT = "submit"


REASONING_CHARS = 2000


PRIOR_ADVICE = "Start from that, and let evidence on this very question move you."


def question_text(
    question: Question,
    answer_format: AnswerFormat,
    anchor: StartingPoint,
    *,
    cutoff: datetime,
    crowd: bool = True,
    advice: str = "",
    folder: Path | None = None,
) -> str:
    """Return the question as models see it; all words of its venue are fenced.

    ``crowd`` false leaves the crowd's estimate out; ``advice`` is what is known of questions of this source
    (``SourcePolicy.advice``); ``folder`` holds prompt files that replace the shipped ones.
    """
    return load_template(SHARED_PACKAGE, "question", folder).substitute(
        title=_fence_cached(question.title, "question"),
        background=_fence_cached(question.background, "background") if question.background else "none given",
        criteria=_fence_cached(question.criteria, "resolution criteria") if question.criteria else "none given",
        targets=_targets_text(question, cutoff),
        date=_date_text(question, cutoff),
        crowd=_crowd_text(question, answer_format) if crowd else "",
        prior=f"\n\n## Prior\n{anchor.text} {PRIOR_ADVICE}" if anchor.kind == "prior" else "",
        advice=f"\n\n## Questions of this source\n{advice}" if advice else "",
        facts=_facts_text(question),
    )


def turn_text(
    number: int, steps: int, tools: Sequence[ToolDefinition], listing: str, *, folder: Path | None = None
) -> str:
    """Return the line that says which step it is and what may be called in it."""
    last = ", the last one" if number == steps else ""
    return fill_prompt(
        SHARED_PACKAGE,
        "turn",
        folder=folder,
        number=number,
        steps=steps,
        last=last,
        tools=join_tool_names(tools),
        listing=listing,
    )


def repair_text(why: str, tools: Sequence[ToolDefinition], *, folder: Path | None = None) -> str:
    """Return the reply to an answer without an action."""
    return fill_prompt(SHARED_PACKAGE, "repair", folder=folder, why=why, tools=join_tool_names(tools))


def judging_name(question: Question) -> str:
    """Return the name of the prompt file that says how to judge a question of this shape."""
    match question.shape:
        case BinaryShape():
            return "judge_binary"
        case ChoiceShape():
            return "judge_choice"
        case CurveShape(unit="date"):
            return "judge_date"
        case CurveShape():
            return "judge_number"


def judging_text(question: Question, *, folder: Path | None = None) -> str:
    """Return how to weigh evidence for a question of this shape, and what the numbers of an answer mean."""
    return fill_prompt(SHARED_PACKAGE, judging_name(question), folder=folder)


def join_tool_names(tools: Sequence[ToolDefinition]) -> str:
    """Return the names of tools as they are written in prompts."""
    return ", ".join([tool.name for tool in tools])


def submit_tool(question: Question, answer_format: AnswerFormat, margin: float) -> ToolDefinition:
    """Return the action that ends a trial: reasons, then a prediction for every target."""
    return _submit_tool(_answer_text(question), answer_format, margin)


@lru_cache(maxsize=256, typed=True)
def _submit_tool(answer_text: str, answer_format: AnswerFormat, margin: float) -> ToolDefinition:
    reasoning: Json = {
        "type": "string",
        "maxLength": REASONING_CHARS,
        "description": "The base rate, the evidence that counted most, and what could still prove you wrong.",
    }
    stated = answer_format.schema(margin)
    return ToolDefinition(
        name=SUBMIT,
        description=f"Submit the final answer, which ends the work. {answer_text}",
        parameters={
            "type": "object",
            "properties": {"reasoning": reasoning, **stated},
            "required": ["reasoning", *stated],
            "additionalProperties": False,
        },
    )


def task_text(question: Question) -> str:
    """Return in a sentence what kind of answer a question asks for."""
    match question.shape:
        case BinaryShape():
            return "The question is answered by yes or no; you give the probability of yes."
        case ChoiceShape():
            return "Exactly one of the named options comes true; you give the probability of each."
        case CurveShape(unit="date"):
            return "The answer is a date; you give your distribution as dates at the named percentages (p50: median)."
        case CurveShape() as shape:
            stated = "you give your distribution as values at the named percentages (p50: median)."
            return f"The answer is {_number_kind(shape)}; {stated}"


def bounds_text(answer_format: AnswerFormat, margin: float) -> str:
    """Return in words the bounds of an answer and its precision."""
    match answer_format.answer_schema:
        case BinaryAnswerSchema(percent=percent) as schema:
            low, high = (schema.format(BinaryPrediction(edge)) for edge in (margin, 1.0 - margin))
            small = (
                ' Less than 1 % is written as a text: "0.5 %".' if percent and margin < LEAST_PERCENT / 100.0 else ""
            )
            return f"Answer between {low} and {high}, {_precision_text(percent=percent)}.{small}"
        case ChoiceAnswerSchema(percent=percent):
            total = "100 %" if percent else "1"
            return f"All options sum to {total}, {_precision_text(percent=percent)}; none of them is 0."
        case _:
            return "The values rise with the percentage. Let the outer ones leave room for what would surprise you."


def _precision_text(*, percent: bool) -> str:
    return "with one decimal below 10 % and above 90 %" if percent else "with three decimals below 0.1 and above 0.9"


@lru_cache(maxsize=64)
def _fence_cached(text: str, label: str) -> str:
    """Return a text of the question in its fence: all trials of the question need the same."""
    return fence_text(text, label)


def _answer_text(question: Question) -> str:
    many = f" Each of the {len(question.targets)} dates has an answer of its own." if len(question.targets) > 1 else ""
    return f"{task_text(question)}{many}"


def _targets_text(question: Question, cutoff: datetime) -> str:
    unit = _unit_text(question)
    lines = [unit] if unit else []
    if len(question.targets) == 1:
        due = question.targets[0].resolves_at or question.closes_at
        lines.append(
            f"One answer. It is decided on {due:%Y-%m-%d}, {_days_ahead_text(due, cutoff)}." if due else "One answer."
        )
    else:
        lines.append(f"One answer for each of {len(question.targets)} dates, in this order:")
        lines += [f"- {target.key}{_target_date_text(target, cutoff)}" for target in question.targets]
        lines.append(_horizon_text(question))
    return "\n".join(lines)


def _target_date_text(target: Target, cutoff: datetime) -> str:
    due = target.resolves_at
    if due is None:
        return ""
    day = f"{due:%Y-%m-%d}"
    named = "" if target.key == day else f"on {day}, "
    return f" ({named}{_days_ahead_text(due, cutoff)})"


def _days_ahead_text(due: datetime, cutoff: datetime) -> str:
    """Return how far a date is from the cutoff, in days of the calendar (UTC)."""
    days = (due.astimezone(UTC).date() - cutoff.astimezone(UTC).date()).days
    if days == 0:
        return "the same day"
    count = "1 day" if abs(days) == 1 else f"{abs(days)} days"
    return f"{count} ahead" if days > 0 else f"{count} back"


def _horizon_text(question: Question) -> str:
    if isinstance(question.shape, CurveShape):
        return "The farther a date is, the less is known about it, and the wider is the distribution."
    if isinstance(question.shape, ChoiceShape):
        return "The farther a date is, the less is known about it."
    return (
        "The farther a date is, the less is known about it, and the nearer the answer is to the base rate. Where what "
        "is asked for cannot be undone once it has happened, a later date is never less likely than an earlier one."
    )


def _date_text(question: Question, cutoff: datetime) -> str:
    """Return the current day, or the moment as of which the question is asked.

    A cutoff before the venue's own moment, or of a question without one, is the present.
    """
    now = cutoff.astimezone(UTC)
    if question.as_of is not None and cutoff >= question.as_of:
        return (
            f"The question is asked as of {now:%Y-%m-%d %H:%M} UTC. Take that as the present: use nothing that became "
            "known later, even where you remember it."
        )
    text = f"Today is {now:%Y-%m-%d} (UTC); the time is {now:%H:%M}. What you remember ends long before today."
    if find_links(f"{question.background}\n{question.criteria}"):
        text += " The question names web pages: where you can read them, do that first, for they often decide it."
    return text


def _unit_text(question: Question) -> str:
    match question.shape:
        case ChoiceShape(options=options):
            return fence_text("\n".join(options), "options")
        case CurveShape(unit=unit, value_range=(low, high)) as shape:
            lower = "open" if shape.open_lower else "closed"
            upper = "open" if shape.open_upper else "closed"
            edges = f"from {_format_grid_end(low, unit)} ({lower}) to {_format_grid_end(high, unit)} ({upper})"
            steps = f", {_number_kind(shape)}" if shape.discrete else ""
            return f"Unit: {unit or 'none'}; range {edges}{steps}. An open end may be exceeded."
        case _:
            return ""


def _number_kind(shape: CurveShape) -> str:
    """Return what kind of number comes true."""
    if shape.is_whole:
        return "a whole number"
    return f"one of {len(shape.grid) - 1} evenly spaced numbers" if shape.discrete else "a number"


def _format_grid_end(value: float, unit: str) -> str:
    """Return an end of a grid in its unit."""
    if unit == "date" and math.isfinite(value):
        return datetime.fromtimestamp(value, UTC).date().isoformat()
    return f"{value:.6g}"


def _crowd_text(question: Question, answer_format: AnswerFormat) -> str:
    crowd = question.crowd
    if crowd is None:
        return ""
    text = f"On {crowd.at:%Y-%m-%d} the crowd's estimate was: {answer_format.answer_schema.format(crowd.prediction)}."
    explained = f"\n{fence_text(crowd.explanation, 'what this estimate is')}" if crowd.explanation else ""
    return f"\n\n## Crowd\n{text} Depart from it only for reasons that the crowd may not have seen.{explained}"


def _facts_text(question: Question) -> str:
    # The value that a market froze is the crowd's price, which has its own setting.
    if question.crowd is not None or not (facts := question.published_facts):
        return ""
    listed = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return f"\n\n## What the venue publishes with it\n{fence_text(listed, 'facts')}"
