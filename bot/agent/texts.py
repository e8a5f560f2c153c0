"""What models are told: text files in the folder ``prompts`` of a package, filled in by name.

Here are those that every forecaster needs: the question, the line that opens a turn, the request to try once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from string import Template

from bot.agent.ballot import Ballot
from bot.agent.forms import BinaryForm, ChoiceForm
from bot.agent.start import Anchor
from bot.desk.untrusted import quoted
from bot.domain.prediction import Binary, BinaryShape, ChoiceShape, CurveShape
from bot.domain.prompt import Tool
from bot.domain.question import Question
from bot.domain.step import Json

HERE = "bot.agent"
SUBMIT = "submit"
REASONING_CHARS = 2000


@cache
def template(package: str, name: str) -> Template:
    """Return a prompt file of a package as a template, without its last line break."""
    return Template((files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n"))


@lru_cache(maxsize=256)
def filled(package: str, name: str, **values: object) -> str:
    """Return a prompt file with its gaps filled in, remembered; for texts that many trials share."""
    return template(package, name).substitute(values)


@lru_cache(maxsize=64)
def unfilled(package: str, *names: str, compacts: bool = False) -> str:
    """Return prompt files of a package and the shared ones as they are: their digest is the version of the prompts.

    ``compacts`` says that notes are shortened, which has a prompt of its own.
    """
    shared = ("question", "turn", "repair", *(("compact",) if compacts else ()))
    texts = [*((package, name) for name in names), *((HERE, name) for name in shared)]
    return "\n\n".join(f"==== {name}.txt\n{template(source, name).template}" for source, name in texts)


def question_text(question: Question, ballot: Ballot, anchor: Anchor, *, cutoff: datetime, crowd: bool = True) -> str:
    """Return the question as it is put to a model; all words of its venue are fenced.

    ``crowd`` false leaves the crowd's estimate out.
    """
    return template(HERE, "question").substitute(
        title=_fenced(question.title, "question"),
        background=_fenced(question.background, "background") if question.background else "none given",
        criteria=_fenced(question.criteria, "resolution criteria") if question.criteria else "none given",
        targets=_targets(question),
        cutoff=f"{cutoff.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        crowd=_crowd(question, ballot) if crowd else "",
        prior=f"\n\n## Prior\n{anchor.text}" if anchor.kind == "prior" else "",
        facts=_facts(question),
    )


def turn_text(number: int, steps: int, tools: Sequence[Tool], listing: str) -> str:
    """Return the line that says which step it is and what may be called in it."""
    return filled(HERE, "turn", number=number, steps=steps, tools=names_of(tools), listing=listing)


def repair_text(why: str, tools: Sequence[Tool]) -> str:
    """Return what is said after an answer that was no move."""
    return filled(HERE, "repair", why=why, tools=names_of(tools))


def names_of(tools: Sequence[Tool]) -> str:
    """Return the names of tools as they stand in prompts."""
    return ", ".join(tool.name for tool in tools)


def submit_tool(question: Question, ballot: Ballot, margin: float) -> Tool:
    """Return the move that ends a trial: reasons, then a prediction for every target."""
    reasoning: Json = {"type": "string", "maxLength": REASONING_CHARS}
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
        case CurveShape():
            return (
                "The answer is a number; you give your distribution as values at the named percentages (p50: median)."
            )


def bounds_of(ballot: Ballot, margin: float) -> str:
    """Return in a sentence what bounds there are for an answer."""
    match ballot.form:
        case BinaryForm() as form:
            low, high = (form.shown(Binary(edge)) for edge in (margin, 1.0 - margin))
            return f"What you submit lies between {low} and {high}; nothing is quite certain."
        case ChoiceForm(percent=percent):
            return f"The probabilities of all options sum to {'100 %' if percent else '1'}, and none of them is 0."
        case _:
            return "The values rise with the percentage. Let the outer ones leave room for what would surprise you."


@lru_cache(maxsize=64)
def _fenced(text: str, label: str) -> str:
    """Return a text of the question in its fence: all trials of the question want the same."""
    return quoted(text, label)


def _form(question: Question) -> str:
    many = f" Each of the {len(question.targets)} dates has an answer of its own." if len(question.targets) > 1 else ""
    return f"{task_of(question)}{many}"


def _targets(question: Question) -> str:
    lines = [_unit(question)] if _unit(question) else []
    if len(question.targets) == 1:
        due = question.targets[0].resolves_at or question.closes_at
        lines.append(f"One answer. It is decided on {due:%Y-%m-%d}." if due else "One answer.")
    else:
        lines.append(f"One answer for each of {len(question.targets)} dates, in this order:")
        lines += [
            f"- {target.key}" + (f" (on {target.resolves_at:%Y-%m-%d})" if target.resolves_at else "")
            for target in question.targets
        ]
        lines.append("The farther a date is, the less is known about it.")
    return "\n".join(lines)


def _unit(question: Question) -> str:
    match question.shape:
        case ChoiceShape(options=options):
            return quoted("\n".join(options), "options")
        case CurveShape(unit=unit, grid=grid) as shape:
            lower = "open" if shape.open_lower else "closed"
            upper = "open" if shape.open_upper else "closed"
            edges = f"from {_edge(grid[0], unit)} ({lower}) to {_edge(grid[-1], unit)} ({upper})"
            return f"Unit: {unit or 'none'}; range {edges}. An open end may be exceeded."
        case _:
            return ""


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
