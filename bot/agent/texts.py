"""What models are told of a question, at each turn, and after an answer that was no move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from bot.agent.ballot import Ballot
from bot.agent.bounds import LEAST_PERCENT
from bot.agent.forms import BinaryForm, ChoiceForm
from bot.agent.prompt_files import SHARED, filled, template
from bot.agent.start import Anchor
from bot.desk.addresses import links_in
from bot.desk.untrusted import quoted
from bot.domain.prediction import Binary, BinaryShape, ChoiceShape, CurveShape
from bot.domain.prompt import Tool
from bot.domain.question import Question, Target
from bot.domain.step import Json

SUBMIT = "submit"
REASONING_CHARS = 2000
FROM_PRIOR = "Start from that, and let evidence on this very question move you."


def question_text(
    question: Question,
    ballot: Ballot,
    anchor: Anchor,
    *,
    cutoff: datetime,
    crowd: bool = True,
    advice: str = "",
    folder: Path | None = None,
) -> str:
    """Return the question as it is put to a model; all words of its venue are fenced.

    ``crowd`` false leaves the crowd's estimate out; ``advice`` is what is known of questions of this source
    (``SourcePolicy.advice``); ``folder`` holds prompt files that replace the shipped ones.
    """
    return template(SHARED, "question", folder).substitute(
        title=_fenced(question.title, "question"),
        background=_fenced(question.background, "background") if question.background else "none given",
        criteria=_fenced(question.criteria, "resolution criteria") if question.criteria else "none given",
        targets=_targets(question, cutoff),
        date=_date(question, cutoff),
        crowd=_crowd(question, ballot) if crowd else "",
        prior=f"\n\n## Prior\n{anchor.text} {FROM_PRIOR}" if anchor.kind == "prior" else "",
        advice=f"\n\n## Questions of this source\n{advice}" if advice else "",
        facts=_facts(question),
    )


def turn_text(number: int, steps: int, tools: Sequence[Tool], listing: str, *, folder: Path | None = None) -> str:
    """Return the line that says which step it is and what may be called in it."""
    last = ", the last one" if number == steps else ""
    return filled(
        SHARED, "turn", folder=folder, number=number, steps=steps, last=last, tools=names_of(tools), listing=listing
    )


def repair_text(why: str, tools: Sequence[Tool], *, folder: Path | None = None) -> str:
    """Return what is said after an answer that was no move."""
    return filled(SHARED, "repair", folder=folder, why=why, tools=names_of(tools))


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
    return filled(SHARED, judging_name(question), folder=folder)


def names_of(tools: Sequence[Tool]) -> str:
    """Return the names of tools as they stand in prompts."""
    return ", ".join(tool.name for tool in tools)


def submit_tool(question: Question, ballot: Ballot, margin: float) -> Tool:
    """Return the move that ends a trial: reasons, then a prediction for every target."""
    reasoning: Json = {
        "type": "string",
        "maxLength": REASONING_CHARS,
        "description": "The base rate, the evidence that counted most, and what could still prove you wrong.",
    }
    stated = ballot.schema(margin)
    return Tool(
        name=SUBMIT,
        description=f"Submit the final answer, which ends the work. {_form(question)}",
        parameters={
            "type": "object",
            "properties": {"reasoning": reasoning, **stated},
            "required": ["reasoning", *stated],
            "additionalProperties": False,
        },
    )


def task_of(question: Question) -> str:
    """Return in a sentence what kind of answer a question wants."""
    match question.shape:
        case BinaryShape():
            return "The question is answered by yes or no; you give the probability of yes."
        case ChoiceShape():
            return "Exactly one of the named options comes true; you give the probability of each."
        case CurveShape(unit="date"):
            return "The answer is a date; you give your distribution as dates at the named percentages (p50: median)."
        case CurveShape() as shape:
            stated = "you give your distribution as values at the named percentages (p50: median)."
            return f"The answer is {_kind(shape)}; {stated}"


def bounds_of(ballot: Ballot, margin: float) -> str:
    """Return in words what bounds there are for an answer, and how finely it is given."""
    match ballot.form:
        case BinaryForm(percent=percent) as form:
            low, high = (form.shown(Binary(edge)) for edge in (margin, 1.0 - margin))
            small = (
                ' Less than 1 % is written as a text: "0.5 %".' if percent and margin < LEAST_PERCENT / 100.0 else ""
            )
            return f"Answer between {low} and {high}, {_fineness(percent=percent)}.{small}"
        case ChoiceForm(percent=percent):
            total = "100 %" if percent else "1"
            return f"All options sum to {total}, {_fineness(percent=percent)}; none of them is 0."
        case _:
            return "The values rise with the percentage. Let the outer ones leave room for what would surprise you."


def _fineness(*, percent: bool) -> str:
    return "with one decimal below 10 % and above 90 %" if percent else "with three decimals below 0.1 and above 0.9"


@lru_cache(maxsize=64)
def _fenced(text: str, label: str) -> str:
    """Return a text of the question in its fence: all trials of the question want the same."""
    return quoted(text, label)


def _form(question: Question) -> str:
    many = f" Each of the {len(question.targets)} dates has an answer of its own." if len(question.targets) > 1 else ""
    return f"{task_of(question)}{many}"


def _targets(question: Question, cutoff: datetime) -> str:
    lines = [_unit(question)] if _unit(question) else []
    if len(question.targets) == 1:
        due = question.targets[0].resolves_at or question.closes_at
        lines.append(f"One answer. It is decided on {due:%Y-%m-%d}, {_ahead(due, cutoff)}." if due else "One answer.")
    else:
        lines.append(f"One answer for each of {len(question.targets)} dates, in this order:")
        lines += [f"- {target.key}{_when(target, cutoff)}" for target in question.targets]
        lines.append(_farther(question))
    return "\n".join(lines)


def _when(target: Target, cutoff: datetime) -> str:
    due = target.resolves_at
    if due is None:
        return ""
    day = f"{due:%Y-%m-%d}"
    named = "" if target.key == day else f"on {day}, "
    return f" ({named}{_ahead(due, cutoff)})"


def _ahead(due: datetime, cutoff: datetime) -> str:
    """Return how far a date is from the cutoff, in days of the calendar (UTC)."""
    days = (due.astimezone(UTC).date() - cutoff.astimezone(UTC).date()).days
    if days == 0:
        return "the same day"
    count = "1 day" if abs(days) == 1 else f"{abs(days)} days"
    return f"{count} ahead" if days > 0 else f"{count} back"


def _farther(question: Question) -> str:
    if isinstance(question.shape, CurveShape):
        return "The farther a date is, the less is known about it, and the wider is the distribution."
    if isinstance(question.shape, ChoiceShape):
        return "The farther a date is, the less is known about it."
    return (
        "The farther a date is, the less is known about it, and the nearer the answer is to the base rate. Where what "
        "is asked for cannot be undone once it has happened, a later date is never less likely than an earlier one."
    )


def _date(question: Question, cutoff: datetime) -> str:
    """Return what day it is, or as of which moment the question is asked.

    A cutoff before the venue's own moment, or of a question without one, is now.
    """
    now = cutoff.astimezone(UTC)
    if question.as_of is not None and cutoff >= question.as_of:
        return (
            f"The question is asked as of {now:%Y-%m-%d %H:%M} UTC. Take that as the present: use nothing that became "
            "known later, even where you remember it."
        )
    told = f"Today is {now:%Y-%m-%d} (UTC); the time is {now:%H:%M}. What you remember ends long before today."
    if links_in(f"{question.background}\n{question.criteria}"):
        told += " The question names web pages: where you can read them, do that first, for they often decide it."
    return told


def _unit(question: Question) -> str:
    match question.shape:
        case ChoiceShape(options=options):
            return quoted("\n".join(options), "options")
        case CurveShape(unit=unit, ends=(low, high)) as shape:
            lower = "open" if shape.open_lower else "closed"
            upper = "open" if shape.open_upper else "closed"
            edges = f"from {_edge(low, unit)} ({lower}) to {_edge(high, unit)} ({upper})"
            steps = f", {_kind(shape)}" if shape.discrete else ""
            return f"Unit: {unit or 'none'}; range {edges}{steps}. An open end may be exceeded."
        case _:
            return ""


def _kind(shape: CurveShape) -> str:
    """Return what kind of number comes true."""
    if shape.is_whole:
        return "a whole number"
    return f"one of {len(shape.grid) - 1} evenly spaced numbers" if shape.discrete else "a number"


def _edge(value: float, unit: str) -> str:
    """Return an end of a grid in its unit."""
    if unit == "date" and math.isfinite(value):
        return datetime.fromtimestamp(value, UTC).date().isoformat()
    return f"{value:.6g}"


def _crowd(question: Question, ballot: Ballot) -> str:
    crowd = question.crowd
    if crowd is None:
        return ""
    said = f"On {crowd.at:%Y-%m-%d} the crowd's estimate was: {ballot.form.shown(crowd.prediction)}."
    explained = f"\n{quoted(crowd.explanation, 'what this estimate is')}" if crowd.explanation else ""
    return f"\n\n## Crowd\n{said} Depart from it only for reasons that the crowd may not have seen.{explained}"


def _facts(question: Question) -> str:
    # The value that a market froze is the crowd's price, which has a switch of its own.
    if question.crowd is not None or not question.facts:
        return ""
    listed = "\n".join(f"{name}: {value}" for name, value in question.facts.items())
    return f"\n\n## What the venue publishes with it\n{quoted(listed, 'facts')}"
