"""The prompts of BLF: text files beside this module, filled in by name, and the shared ones."""

from __future__ import annotations

from bot.api import (
    BELIEF_FIELD,
    Course,
    CurveShape,
    Json,
    Question,
    Tool,
    bounds_of,
    filled,
    judging_name,
    judging_text,
    task_of,
    unfilled,
)
from plugins.blf.settings import HERE, BlfSettings, EarlyStop, Mode, ZeroShot

SHORT = "short"


def system(course: Course, settings: BlfSettings) -> str:
    """Return what the model is told about its work: the same in all trials of a question."""
    question, folder = course.question, settings.prompts
    text = filled(
        HERE,
        _heading(settings),
        folder=folder,
        task=task_of(question),
        judging=judging_text(question, folder=folder),
        belief_field=BELIEF_FIELD,
        steps=course.steps,
        queries=settings.queries,
        early_stop=_early_stop(course, settings),
        bounds=bounds_of(course.ballot, course.manner.submit_margin),
    )
    # A rule that is switched off leaves its line empty.
    return text.replace("\n\n- ", "\n- ")


def version(question: Question, settings: BlfSettings) -> str:
    """Return the texts that prompts are made from under these settings: their digest is the version of the prompts."""
    heading, compacts = _heading(settings), bool(settings.states_beliefs and settings.compaction_chars)
    judging = () if heading == SHORT else (judging_name(question),)
    return unfilled(HERE, heading, shared=judging, compacts=compacts, folder=settings.prompts)


def _heading(settings: BlfSettings) -> str:
    """Return the name of the text that a conversation begins with."""
    if settings.zero_shot is ZeroShot.SHORT:
        return SHORT
    if settings.mode is Mode.BATCH and settings.zero_shot is ZeroShot.OFF:
        return "batch"
    return "loop" if settings.states_beliefs else "plain"


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


def _early_stop(course: Course, settings: BlfSettings) -> str:
    if settings.early_stop is EarlyStop.OFF:
        return ""
    calls = f"- If your last {settings.early_stop_after} calls together"
    if isinstance(course.question.shape, CurveShape):
        return f"{calls} hardly moved your distribution, submit."
    shift = (
        f"{100.0 * settings.early_stop_shift:g} points" if course.ballot.percent else f"{settings.early_stop_shift:g}"
    )
    return f"{calls} moved your answer by less than {shift}, submit."
