"""A team of agents as a forecaster: creates the members and yields their actions as steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Message,
    MessageRole,
    PluginContext,
    Question,
    Step,
    TrialContext,
    create_answer_format,
    derive_seed,
    find_starting_point,
    initial_belief_state,
    open_session,
    question_text,
)
from plugins.team import member_answers, prompt_texts
from plugins.team.members import GoalBoard, TeamDialogue, TeamMember
from plugins.team.prompt_texts import JointStepContext
from plugins.team.settings import TeamSettings
from plugins.team.team_run import TeamRun

TEAM_ROLE, FALLBACK_ROLE = "team", "main"


@asynccontextmanager
async def open_team(settings: TeamSettings, _place: PluginContext) -> AsyncIterator[TeamForecaster]:
    """Open a team; it holds no connection: the trial context provides models and tools."""
    yield TeamForecaster(settings)


class TeamForecaster:
    """Implements the interface Forecaster. All state of a trial belongs to its stream of steps."""

    def __init__(self, settings: TeamSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield one step for each action of a member; raises after the last one if no member produced an answer.

        Raises ConfigError before any step if no model plays the role of a member.
        """
        work = await _create_run(question, context, self.settings)
        while not work.end_reason:
            for step in await work.joint_step():
                yield step
        if work.failure is not None:
            raise work.failure


async def _create_run(question: Question, context: TrialContext, settings: TeamSettings) -> TeamRun:
    # Every member's action is a step of the engine, which counts them all: a member without any is left out.
    count = min(settings.members, max(1, context.limits.steps))
    names, manner = settings.names[:count], settings.answer_settings
    members = [_create_member(number, question, context, settings) for number in range(1, count + 1)]
    board = GoalBoard(goals=settings.goals)
    board.share_out(names)
    joint_context = JointStepContext(
        question=question,
        settings=settings,
        board=board,
        dialogue=TeamDialogue(
            budget=settings.max_messages, likeness=settings.repeat_similarity, seeds=prompt_texts.seed_messages(names)
        ),
        members=members,
        steps=max(1, min(settings.steps, context.limits.steps // count)),
        number=0,
    )
    for member in members:
        system = prompt_texts.page_text(member, prompt_texts.system_prompt(member, joint_context))
        member.opening = (Message(speaker=MessageRole.SYSTEM, text=system),)
    # The separate answer format of a member who is asked for percentages has the same bounds as any.
    anchor = find_starting_point(question, crowd=settings.crowd)
    start = initial_belief_state(anchor, question, members[0].answer_format, manner.step_margin)
    return TeamRun(
        context=context,
        joint_context=joint_context,
        answer_settings=manner,
        start=start,
        documents=(await context.store_text(prompt_texts.prompt_version(question)),),
    )


def _create_member(number: int, question: Question, context: TrialContext, settings: TeamSettings) -> TeamMember:
    name, role = settings.names[number - 1], f"{TEAM_ROLE}_{number}"
    session = open_session(context, role, TEAM_ROLE, FALLBACK_ROLE, seed=derive_seed(context, "seed", role))
    answer_format = create_answer_format(question, settings.answer_settings, percent=session.percent)
    anchor, is_person = find_starting_point(question, crowd=settings.crowd), number in settings.human_members
    return TeamMember(
        name=name,
        session=session,
        answer_format=answer_format,
        question_text=question_text(question, answer_format, anchor, cutoff=context.cutoff, crowd=settings.crowd),
        tools=member_answers.member_tools(question, answer_format, settings),
        # Persons are spared: they think before they type.
        thinks=settings.think_aloud and not is_person,
        is_person=is_person,
    )
