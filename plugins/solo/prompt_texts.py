"""The prompts: text files in the folder of this module, filled in by name."""

from __future__ import annotations

from bot.api import (
    CRITIC_PROMPT,
    BeliefLoop,
    Question,
    bounds_text,
    fill_prompt,
    join_prompt_sources,
    judging_name,
    judging_text,
    task_text,
)
from plugins.solo.answer_rules import BOTTOM_LINE, CRITERIA_RESTATED, RATIONALE
from plugins.solo.settings import SoloSettings

PROMPT_PACKAGE = "plugins.solo"


def system_prompt(loop: BeliefLoop, settings: SoloSettings) -> str:
    """Return the instructions for the model, the same for all questions of one shape."""
    return fill_prompt(
        PROMPT_PACKAGE,
        "system",
        task=task_text(loop.question),
        judging=judging_text(loop.question),
        bounds=bounds_text(loop.answer_format, settings.margin),
        steps=loop.steps,
        words=settings.max_words,
        sources=max(2, settings.min_sources),
        high=f"{settings.extreme_probability:.0%}",
        low=f"{1.0 - settings.extreme_probability:.0%}",
        bottom_line=BOTTOM_LINE,
        rationale=RATIONALE,
        restated=CRITERIA_RESTATED,
    )


def earlier_forecast_text(text: str, settings: SoloSettings, *, stale: bool) -> str:
    """Return the text on the model's earlier forecast; ``text`` comes from a tool and is already fenced."""
    advice = (
        f"The newest is at least {settings.stale_days:g} days old: begin anew, as if there were none."
        if stale
        else "Depart from the newest by as much as has changed since, and no more."
    )
    return f"## Your earlier forecasts\n{text}\n{advice}"


def prompt_version(question: Question) -> str:
    """Return the texts that prompts are made from: their digest is the version of the prompts."""
    return join_prompt_sources(PROMPT_PACKAGE, "system", shared=(CRITIC_PROMPT, judging_name(question)))
