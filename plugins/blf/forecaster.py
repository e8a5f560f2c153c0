"""BLF: a model that works in steps, states its belief at each of them, and submits.

Source: BLF (arXiv 2604.18576v3), section 3, algorithm 1 and appendix C. Trials, their aggregation, calibration and the
record are the engine's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC

from bot.api import ConfigError, Desk, Dialect, Question, Step, Tool, ToolResult, Workplace
from plugins.blf import batch, bypass, wording
from plugins.blf.anchors import Anchor, anchor_of, first_state
from plugins.blf.ballot import ballot_for
from plugins.blf.belief import belief_schema
from plugins.blf.course import MAIN, SEARCH, Course, Way, allowed
from plugins.blf.dialects.json_object import JsonSpeech
from plugins.blf.dialects.move import Move, Speech
from plugins.blf.dialects.native import NativeSpeech
from plugins.blf.settings import PAGES, BlfSettings, Mode, ZeroShot


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
        if bypass.applies(question, desk.policy, allowed(desk, settings)):
            passed = bypass.steps(question, desk, settings, anchor)
        else:
            course = _course(question, desk, settings, anchor)
            opening = wording.asked(
                question, settings, course.ballot, anchor, f"{desk.cutoff.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            )
            is_batch = settings.mode is Mode.BATCH and settings.zero_shot is ZeroShot.OFF
            passed = (batch.steps if is_batch else _sequential)(course, opening)
        async with aclosing(passed) as stream:
            async for step in stream:
                yield step


async def _sequential(course: Course, asked: str) -> AsyncGenerator[Step, None]:
    submit = wording.submit_tool(course.question, course.settings, course.ballot)

    def offer(number: int) -> tuple[Tool, ...]:
        if number >= course.steps or course.is_calm():
            return (submit,)
        return (*course.allowed(), submit)

    async def act(move: Move) -> ToolResult:
        result = await course.desk.use(move.name, move.arguments)
        if move.name == SEARCH and isinstance(query := move.arguments.get("query"), str):
            course.state = course.state.having_searched((query,))
        return result

    system = wording.system(course.question, course.settings, course.ballot, steps=course.steps)
    await course.open(system, asked, course.turn_line(1, offer(1)))
    async with aclosing(course.walk(Way(offer=offer, act=act))) as steps:
        async for step in steps:
            yield step


def _course(question: Question, desk: Desk, settings: BlfSettings, anchor: Anchor) -> Course:
    percent = desk.dialect(MAIN) is Dialect.JSON
    ballot = ballot_for(question, settings, percent=percent)
    schema = belief_schema(ballot, settings.step_margin) if settings.states_beliefs else None
    speech: Speech = JsonSpeech(schema) if percent else NativeSpeech(schema)
    return Course(
        question=question,
        desk=desk,
        settings=settings,
        ballot=ballot,
        speech=speech,
        state=first_state(anchor, question, ballot, settings.step_margin),
        steps=max(1, min(settings.most_steps, desk.limits.steps)),
        # One seed for the whole trial: trials differ by it, and a repeated trial finds its own answers on record.
        seed=int(desk.stream("seed").integers(2**31)),
    )


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
