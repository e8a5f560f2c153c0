"""The prompts of BLF: text files in this folder, filled in by name, and the shared ones."""

from __future__ import annotations

from bot.api import (
    BELIEF_FIELD,
    BeliefLoop,
    CurveShape,
    Json,
    Question,
    ToolDefinition,
    bounds_text,
    fill_prompt,
    join_prompt_sources,
    judging_name,
    judging_text,
    task_text,
)
from plugins.blf.settings import PROMPT_PACKAGE, BlfSettings, EarlyStopMode, SearchMode, ZeroShotMode

SHORT_PROMPT = "short"


def system_prompt(loop: BeliefLoop, settings: BlfSettings) -> str:
    """Return the instructions for the model: the same in all trials of a question."""
    question, folder = loop.question, settings.prompts
    text = fill_prompt(
        PROMPT_PACKAGE,
        _prompt_name(settings),
        folder=folder,
        task=task_text(question),
        judging=judging_text(question, folder=folder),
        belief_field=BELIEF_FIELD,
        steps=loop.steps,
        queries=settings.queries,
        early_stop=_early_stop_rule(loop, settings),
        bounds=bounds_text(loop.answer_format, loop.settings.submit_margin),
    )
    # A rule that is switched off gives an empty line.
    return text.replace("\n\n- ", "\n- ")


def prompt_version(question: Question, settings: BlfSettings) -> str:
    """Return the texts that prompts are made from under these settings: their digest is the version of the prompts."""
    heading, compacts = _prompt_name(settings), bool(settings.states_beliefs and settings.compaction_chars)
    judging = () if heading == SHORT_PROMPT else (judging_name(question),)
    return join_prompt_sources(PROMPT_PACKAGE, heading, shared=judging, compacts=compacts, folder=settings.prompts)


def _prompt_name(settings: BlfSettings) -> str:
    """Return the name of the text that a conversation begins with."""
    if settings.zero_shot is ZeroShotMode.SHORT:
        return SHORT_PROMPT
    if settings.mode is SearchMode.BATCH and settings.zero_shot is ZeroShotMode.OFF:
        return "batch"
    return "loop" if settings.states_beliefs else "plain"


def batch_tool(settings: BlfSettings) -> ToolDefinition:
    """Return the move that asks all queries of the batch mode at once."""
    queries: Json = {
        "type": "array",
        "items": {"type": "string", "maxLength": 400},
        "minItems": 1,
        "maxItems": settings.queries,
    }
    return ToolDefinition(
        name="search_all",
        description=f"Search the web with up to {settings.queries} queries at once. There is no second round.",
        parameters={
            "type": "object",
            "properties": {"queries": queries},
            "required": ["queries"],
            "additionalProperties": False,
        },
    )


def _early_stop_rule(loop: BeliefLoop, settings: BlfSettings) -> str:
    if settings.early_stop is EarlyStopMode.OFF:
        return ""
    calls = f"- If your last {settings.early_stop_after} calls together"
    if isinstance(loop.question.shape, CurveShape):
        return f"{calls} hardly moved your distribution, submit."
    shift = (
        f"{100.0 * settings.early_stop_shift:g} points"
        if loop.answer_format.percent
        else f"{settings.early_stop_shift:g}"
    )
    return f"{calls} moved your answer by less than {shift}, submit."
