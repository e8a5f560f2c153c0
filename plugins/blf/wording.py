"""The prompts: text files beside this module, filled in by name. Which version was in use is told by their digest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from string import Template

from bot.api import Binary, BinaryShape, ChoiceShape, CurveShape, Json, Question, Tool, quoted
from plugins.blf.anchors import Anchor
from plugins.blf.ballot import Ballot
from plugins.blf.belief import FIELD
from plugins.blf.forms import BinaryForm, ChoiceForm
from plugins.blf.settings import BlfSettings, EarlyStop, Mode, ZeroShot

SUBMIT = "submit"


@cache
def template(name: str) -> Template:
    """Return a prompt file as a template, without its last line break."""
    return Template((files("plugins.blf") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n"))


@lru_cache(maxsize=256)
def _filled(name: str, **values: object) -> str:
    return template(name).substitute(values)


@lru_cache(maxsize=64)
def _fenced(text: str, label: str) -> str:
    """Return a text of the question in its fence: all trials of the question want the same."""
    return quoted(text, label)


def system(question: Question, settings: BlfSettings, ballot: Ballot, *, steps: int) -> str:
    """Return what the model is told about its work, which is the same for all questions of one shape."""
    filled = _filled(
        _heading(settings),
        task=_task(question),
        belief_field=FIELD,
        steps=steps,
        queries=settings.queries,
        early_stop=_early_stop(settings, ballot),
        bounds=_bounds(settings, ballot),
    )
    # A rule that is switched off leaves its line empty.
    return filled.replace("\n\n- ", "\n- ")


@lru_cache(maxsize=16)
def unfilled(settings: BlfSettings) -> str:
    """Return the texts that prompts are made from under these settings: their digest is the version of the prompts."""
    shortens = settings.states_beliefs and settings.compaction_chars
    names = (_heading(settings), "question", "turn", "repair", *(("compact",) if shortens else ()))
    return "\n\n".join(f"==== {name}.txt\n{template(name).template}" for name in names)


def _heading(settings: BlfSettings) -> str:
    """Return the name of the text that a conversation begins with."""
    if settings.zero_shot is ZeroShot.SHORT:
        return "short"
    if settings.mode is Mode.BATCH and settings.zero_shot is ZeroShot.OFF:
        return "batch"
    return "loop" if settings.states_beliefs else "plain"


def asked(question: Question, settings: BlfSettings, ballot: Ballot, anchor: Anchor, cutoff: str) -> str:
    """Return the question as it is put to the model; all words of its venue are fenced."""
    return template("question").substitute(
        title=_fenced(question.title, "question"),
        background=_fenced(question.background, "background") if question.background else "none given",
        criteria=_fenced(question.criteria, "resolution criteria") if question.criteria else "none given",
        targets=_targets(question),
        cutoff=cutoff,
        crowd=_crowd(question, settings, ballot),
        prior=f"\n\n## Prior\n{anchor.text}" if anchor.kind == "prior" else "",
        facts=_facts(question),
    )


def turn(number: int, steps: int, tools: Sequence[Tool], listing: str) -> str:
    """Return the line that says which step it is and what may be called in it."""
    return _filled("turn", number=number, steps=steps, tools=names(tools), listing=listing)


def repair(why: str, tools: Sequence[Tool]) -> str:
    """Return what is said after an answer that was no move."""
    return _filled("repair", why=why, tools=names(tools))


def names(tools: Sequence[Tool]) -> str:
    """Return the names of tools as they stand in prompts."""
    return ", ".join(tool.name for tool in tools)


def submit_tool(question: Question, settings: BlfSettings, ballot: Ballot) -> Tool:
    """Return the move that ends a trial."""
    reasoning: Json = {"type": "string", "maxLength": 2000}
    stated = ballot.schema(settings.submit_margin)
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


def batch_tool(settings: BlfSettings) -> Tool:
    """Return the move that asks all queries of the batch mode at once."""
    queries: Json = {
        "type": "array",
        "items": {"type": "string", "maxLength": 400},
        "minItems": 1,
        "maxItems": settings.queries,
    }
    return Tool(
        name="search_all",
        description=f"Search the web with up to {settings.queries} queries at once. There is no second round.",
        parameters={
            "type": "object",
            "properties": {"queries": queries},
            "required": ["queries"],
            "additionalProperties": False,
        },
    )


def _task(question: Question) -> str:
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


def _form(question: Question) -> str:
    many = f" Each of the {len(question.targets)} dates has an answer of its own." if len(question.targets) > 1 else ""
    return f"{_task(question)}{many}"


def _bounds(settings: BlfSettings, ballot: Ballot) -> str:
    match ballot.form:
        case BinaryForm() as form:
            low, high = (form.shown(Binary(edge)) for edge in (settings.submit_margin, 1.0 - settings.submit_margin))
            return f"What you submit lies between {low} and {high}; nothing is quite certain."
        case ChoiceForm(percent=percent):
            return f"The probabilities of all options sum to {'100 %' if percent else '1'}, and none of them is 0."
        case _:
            return "The values rise with the percentage. Let the outer ones leave room for what would surprise you."


def _early_stop(settings: BlfSettings, ballot: Ballot) -> str:
    if settings.early_stop is EarlyStop.OFF:
        return ""
    percent = isinstance(ballot.form, BinaryForm | ChoiceForm) and ballot.form.percent
    shift = f"{100.0 * settings.early_stop_shift:g} points" if percent else f"{settings.early_stop_shift:g}"
    return (
        f"- If your last {settings.early_stop_after} actions together moved your answer by less than {shift}, submit."
    )


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
    from datetime import UTC, datetime  # noqa: PLC0415 - only dates need it

    if unit == "date" and math.isfinite(value):
        return datetime.fromtimestamp(value, UTC).date().isoformat()
    return f"{value:.6g}"


def _crowd(question: Question, settings: BlfSettings, ballot: Ballot) -> str:
    crowd = question.crowd
    if crowd is None or not settings.crowd:
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
