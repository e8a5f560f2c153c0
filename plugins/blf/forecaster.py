"""BLF: a model that works in steps, states its belief at each of them, and submits.

Source: BLF (arXiv 2604.18576v3), section 3, algorithm 1 and appendix C. Trials, their aggregation, calibration and the
record are the engine's, the loop and its belief are shared with other forecasters.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from bot.api import (
    Anchor,
    ConfigError,
    Course,
    Desk,
    Question,
    Step,
    Tool,
    Way,
    Workplace,
    course_for,
    margins_for,
    question_text,
    seed_of,
    submit_tool,
    voice_for,
)
from plugins.blf import batch, bypass, wording
from plugins.blf.anchors import anchor_of, prior_of
from plugins.blf.settings import PAGES, BlfSettings, EarlyStop, Mode, ZeroShot

MAIN = "main"


@asynccontextmanager
async def open_blf(settings: BlfSettings, _place: Workplace) -> AsyncIterator[Blf]:
    """Open BLF; it holds no connection: models and tools are the desk's."""
    yield Blf(settings)


class Blf:
    """Implements the port Forecaster. Everything that a trial knows lives in its stream."""

    def __init__(self, settings: BlfSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield one step per action; raises after the last one where the trial did not come to submitting.

        Raises ConfigError before any step where no model plays the role main, or a tool to read pages is named of which
        the desk has no source.
        """
        settings = self.settings
        _require_pages(desk, settings)
        anchor = anchor_of(question, desk, settings)
        if bypass.applies(question, desk.policy, settings.allowed(desk.tools)):
            passed = bypass.steps(question, desk, settings, anchor)
        else:
            voice = voice_for(desk, MAIN, seed=seed_of(desk, "seed"), folder=settings.prompts)
            manner = margins_for(question, anchor, settings.manner)
            course = course_for(question, voice, anchor, steps=settings.most_steps, manner=manner)
            asked = _asked(course, anchor, settings)
            is_batch = settings.mode is Mode.BATCH and settings.zero_shot is ZeroShot.OFF
            passed = (batch.steps if is_batch else _sequential)(course, settings, asked)
        prior = prior_of(anchor)
        async with aclosing(passed) as stream:
            async for step in stream:
                yield replace(step, prior=prior)
                prior = None


def _asked(course: Course, anchor: Anchor, settings: BlfSettings) -> str:
    desk = course.desk
    return question_text(
        course.question,
        course.ballot,
        anchor,
        cutoff=desk.cutoff,
        crowd=settings.crowd,
        advice=desk.policy.advice,
        folder=settings.prompts,
    )


async def _sequential(course: Course, settings: BlfSettings, asked: str) -> AsyncGenerator[Step, None]:
    submit = submit_tool(course.question, course.ballot, course.manner.submit_margin)

    def offer(number: int) -> tuple[Tool, ...]:
        if number >= course.steps or _is_calm(course, settings):
            return (submit,)
        return (*settings.allowed(course.desk.tools), submit)

    await course.open(wording.system(course, settings), asked, wording.version(course.question, settings))
    tools = (*settings.allowed(course.desk.all_tools), submit)
    async with aclosing(course.walk(Way(offer=offer, act=course.use, tools=tools, repeats=None))) as steps:
        async for step in steps:
            yield step


def _is_calm(course: Course, settings: BlfSettings) -> bool:
    """Say whether the last actions together moved the answer by less than is worth another one."""
    if settings.early_stop is not EarlyStop.FORCED:
        return False
    moved = course.moved(settings.early_stop_after)
    return moved is not None and moved < settings.early_stop_shift


def _require_pages(desk: Desk, settings: BlfSettings) -> None:
    policy = desk.policy
    # Where the policy keeps tools back, that they are not offered says nothing.
    if settings.tools is None or policy.tools is not None or policy.first is not None:
        return
    there = [tool.name for tool in desk.tools]
    if missing := [name for name in settings.tools if name.startswith(PAGES) and name not in there]:
        pages = ", ".join(name for name in there if name.startswith(PAGES)) or "none that reads pages of a source"
        message = f"the setting tools names {', '.join(missing)}, which the desk does not have; there is {pages}"
        raise ConfigError(message)
