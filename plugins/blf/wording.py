"""The prompts of BLF: text files beside this module, filled in by name, and the shared ones."""

from __future__ import annotations

from bot.api import BELIEF_FIELD, Ballot, Json, Question, Tool, bounds_of, filled, task_of, unfilled
from plugins.blf.settings import BlfSettings, EarlyStop, Mode, ZeroShot

HERE = "plugins.blf"


def system(question: Question, settings: BlfSettings, ballot: Ballot, *, steps: int) -> str:
    """Return what the model is told about its work, which is the same for all questions of one shape."""
    text = filled(
        HERE,
        _heading(settings),
        task=task_of(question),
        belief_field=BELIEF_FIELD,
        steps=steps,
        queries=settings.queries,
        early_stop=_early_stop(settings, ballot),
        bounds=bounds_of(ballot, settings.submit_margin),
    )
    # A rule that is switched off leaves its line empty.
    return text.replace("\n\n- ", "\n- ")


def version(settings: BlfSettings) -> str:
    """Return the texts that prompts are made from under these settings: their digest is the version of the prompts."""
    return unfilled(HERE, _heading(settings), compacts=bool(settings.states_beliefs and settings.compaction_chars))


def _heading(settings: BlfSettings) -> str:
    """Return the name of the text that a conversation begins with."""
    if settings.zero_shot is ZeroShot.SHORT:
        return "short"
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


def _early_stop(settings: BlfSettings, ballot: Ballot) -> str:
    if settings.early_stop is EarlyStop.OFF:
        return ""
    shift = f"{100.0 * settings.early_stop_shift:g} points" if ballot.percent else f"{settings.early_stop_shift:g}"
    return (
        f"- If your last {settings.early_stop_after} actions together moved your answer by less than {shift}, submit."
    )
