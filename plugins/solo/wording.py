"""The prompts: text files beside this module, filled in by name."""

from __future__ import annotations

from bot.api import Course, bounds_of, filled, task_of, unfilled
from plugins.solo.answer import BOTTOM_LINE, RATIONALE, RESTATED
from plugins.solo.settings import SoloSettings

HERE = "plugins.solo"


def system(course: Course, settings: SoloSettings) -> str:
    """Return what the model is told about its work, the same for all questions of one shape."""
    return filled(
        HERE,
        "system",
        task=task_of(course.question),
        bounds=bounds_of(course.ballot, settings.margin),
        steps=course.steps,
        words=settings.words,
        sources=max(2, settings.sources),
        high=f"{settings.extreme:.0%}",
        low=f"{1.0 - settings.extreme:.0%}",
        bottom_line=BOTTOM_LINE,
        rationale=RATIONALE,
        restated=RESTATED,
    )


def earlier(text: str, settings: SoloSettings, *, stale: bool) -> str:
    """Return how the model is told what it said before; ``text`` is the desk's, fenced by it."""
    advice = (
        f"The newest is at least {settings.stale_days:g} days old: begin anew, as if there were none."
        if stale
        else "Depart from the newest by as much as has changed since, and no more."
    )
    return f"## Your earlier forecasts\n{text}\n{advice}"


def critic() -> str:
    """Return what the critic is told about its work."""
    return filled(HERE, "critic")


def version() -> str:
    """Return the texts that prompts are made from: their digest is the version of the prompts."""
    return unfilled(HERE, "system", "critic")
