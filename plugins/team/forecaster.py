"""A team of agents as a forecaster: puts the members together, and yields what they do as steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Desk,
    Manner,
    Question,
    Step,
    Workplace,
    ballot_for,
    first_state,
    question_text,
    seed_of,
    starting_point,
    voice_for,
)
from plugins.team import wording
from plugins.team.member import Member
from plugins.team.memory import Board
from plugins.team.settings import TeamSettings
from plugins.team.talk import Talk
from plugins.team.wording import Scene
from plugins.team.work import Work

ROLE, LAST_ROLE = "team", "main"


@asynccontextmanager
async def open_team(settings: TeamSettings, _place: Workplace) -> AsyncIterator[Team]:
    """Open a team; it holds no connection: models and tools are the desk's."""
    yield Team(settings)


class Team:
    """Implements the port Forecaster. Everything that a trial knows lives in its stream."""

    def __init__(self, settings: TeamSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield one step for each action of a member; raises after the last one where no member came to an answer.

        Raises ConfigError before any step where no model plays the role of a member.
        """
        work = await _assembled(question, desk, self.settings)
        while not work.why:
            for step in await work.joint_step():
                yield step
        if work.failure is not None:
            raise work.failure


async def _assembled(question: Question, desk: Desk, settings: TeamSettings) -> Work:
    # Every member's action is a step of the engine, which counts them all: who would never have one is left out.
    count = min(settings.members, max(1, desk.limits.steps))
    names, manner = settings.names[:count], _manner(settings)
    members = [_member(number, question, desk, settings) for number in range(1, count + 1)]
    board = Board(goals=settings.goals)
    board.share_out(names)
    scene = Scene(
        question=question,
        settings=settings,
        board=board,
        talk=Talk(budget=settings.messages, likeness=settings.likeness, seeds=wording.seeds(names)),
        members=members,
        steps=max(1, min(settings.steps, desk.limits.steps // count)),
        number=0,
    )
    anchor = starting_point(question, crowd=settings.crowd)
    for member in members:
        told = question_text(question, member.ballot, anchor, cutoff=desk.cutoff, crowd=settings.crowd)
        member.voice.begin(wording.head(member, scene), told)
        member.opening = tuple(member.voice.messages)
    # The form of one's own of a member who is asked for percentages has the same bounds as any.
    start = first_state(anchor, question, members[0].ballot, manner.step_margin)
    return Work(desk=desk, scene=scene, manner=manner, start=start, documents=(await desk.keep(wording.versions()),))


def _member(number: int, question: Question, desk: Desk, settings: TeamSettings) -> Member:
    name, role = settings.names[number - 1], f"{ROLE}_{number}"
    voice = voice_for(desk, role, ROLE, LAST_ROLE, seed=seed_of(desk, "seed", role))
    return Member(
        name=name,
        voice=voice,
        ballot=ballot_for(question, _manner(settings), percent=voice.percent),
        # Persons are spared: they think before they type.
        thinks=settings.cot and number not in settings.people,
    )


def _manner(settings: TeamSettings) -> Manner:
    return Manner(
        option_floor=settings.option_floor,
        quantiles=settings.quantiles,
        step_margin=settings.step_margin,
        submit_margin=settings.submit_margin,
    )
