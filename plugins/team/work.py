"""The work of a team: joint steps, in which all members act at the same time, and what comes of them for all.

What members ask at the same time they ask side by side; what is told afterwards is told in the order of the team, so
that it never depends on who was faster. Source: the limits and the interruptible joint step of seed 001.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.api import (
    Action,
    Belief,
    Confidence,
    ContractError,
    Desk,
    Evidence,
    FoxcastError,
    Manner,
    Observation,
    State,
    Step,
    ToolResult,
    pooled,
)
from plugins.team import brain
from plugins.team.brain import Turn
from plugins.team.member import Marks, Member
from plugins.team.memory import Fact, use_key
from plugins.team.options import Kind
from plugins.team.wording import Scene

MOST_EVIDENCE = 50
_ORDER = list(Confidence)
DONE = "submitted"


@dataclass(slots=True, kw_only=True)
class Work:
    """One trial under way. ``why`` says why it ended, "" while it goes on, ``failure`` that no member had an answer."""

    desk: Desk
    scene: Scene
    manner: Manner
    start: State
    documents: tuple[str, ...] = ()
    why: str = ""
    failure: FoxcastError | None = None
    _tokens: int = 0
    _invalid: int = 0
    _results: dict[str, ToolResult] = field(default_factory=dict)

    async def joint_step(self) -> list[Step]:
        """Let every member who takes part do one action, and return their steps in the order of the team."""
        absent = frozenset(member.name for member in self.scene.members if member.out)
        number = self.scene.number + 1
        # Where time is short this joint step is the last one.
        most = number if self.desk.is_late(f"joint step {number}") else self.scene.steps
        self.scene = scene = replace(self.scene, number=number, steps=most, absent=absent)
        turns = [Turn(member=member) for member in scene.members if member.active]
        for turn in turns:
            brain.begin(turn, scene, tuple(self.desk.tools))
        talkers = [turn for turn in turns if brain.may_talk(turn, scene)][: scene.talk.left]
        await _side_by_side(brain.draft(turn, scene) for turn in talkers)
        self._tell_apart(talkers)
        await _side_by_side(brain.choose(turn, scene) for turn in turns if turn.member.active)
        await self._use_tools([turn for turn in turns if turn.member.active and turn.kind is Kind.TOOL])
        await _side_by_side(brain.note(turn, scene) for turn in turns if _has_news(turn))
        before = {turn.member.name: brain.marks(turn.member, scene) for turn in turns}
        steps = [self._told(turn, before[turn.member.name]) for turn in turns]
        self.why = self._end()
        if not self.why:
            scene.board.share_out([member.name for member in scene.members if member.active])
            return steps
        return [*steps[:-1], await self._last(steps[-1])]

    def _tell_apart(self, talkers: Sequence[Turn]) -> None:
        """Take back what repeats an earlier message, or what another one means to say at the same time."""
        said = replace(self.scene.talk, sent=[*self.scene.talk.sent])
        for turn in talkers:
            if turn.draft and said.repeats(turn.draft):
                turn.draft = ""
                turn.said += (f"{turn.member.name}: a message that repeats another one was not offered",)
            elif turn.draft:
                said.send(turn.member.name, turn.draft)

    async def _use_tools(self, turns: Sequence[Turn]) -> None:
        """Use each tool once in the same way, for all members that ever would: who comes later gets what came then."""
        new: dict[str, Turn] = {}
        for turn in turns:
            if _use(turn) not in self._results:
                new.setdefault(_use(turn), turn)
        used = await _side_by_side(self.desk.use(turn.name, turn.choice.arguments) for turn in new.values())
        results: dict[str, ToolResult] = {**self._results, **dict(zip(new, used, strict=True))}
        # What failed may be tried again.
        self._results = {use: result for use, result in results.items() if not result.failed}
        for turn in turns:
            brain.act(turn, results[_use(turn)], pays=new.get(_use(turn)) is turn)

    def _told(self, turn: Turn, before: Marks) -> Step:
        """Let what a member did count for all, and return its step."""
        member, scene = turn.member, self.scene
        lines, remarks = [turn.how] if turn.how else [], [*turn.said]
        lines += [turn.result.observation.text] if turn.result else []
        if turn.notes is not None:
            for fact in turn.notes.facts:
                lines.append(f"recorded: {fact.text} [{fact.source}]")
                remarks += self._recorded(member, fact)
            member.stated = turn.notes.stated
            member.weighed = replace(before, facts=len(member.memory.facts))
        if turn.kind is Kind.MESSAGE and member.active:
            scene.talk.send(member.name, turn.draft)
        if member.active and (turn.kind is Kind.SUBMIT or scene.last):
            member.leave(DONE)
        if member.out not in {"", DONE}:
            remarks.append(f"{member.name} takes no part any more: {member.out}")
        member.last = turn.name
        member.memory.actions.append(f"joint step {scene.number}: {_in_words(turn)}")
        self._invalid += turn.invalid
        self._tokens += turn.usage.tokens_in + turn.usage.tokens_out
        documents, self.documents = (*self.documents, *turn.documents), ()
        return Step(
            action=Action(name=turn.name, arguments={"agent": member.name, **turn.choice.arguments}),
            observation=Observation(text="\n".join(lines), documents=documents),
            belief=self._belief(member),
            usage=turn.usage,
            remarks=tuple(remarks),
        )

    def _recorded(self, member: Member, fact: Fact) -> Iterator[str]:
        board = self.scene.board
        if not board.settle(fact):
            fact = replace(fact, goal="")
        member.memory.facts.append(fact)
        if fact.goal:
            count = f"{len(board.reached)} of {len(board.goals)}"
            yield f"sub-goal {fact.goal} settled by {member.name} ({count}): {fact.text} [{fact.source}]"

    def _belief(self, spoke: Member | None = None) -> Belief:
        """Return what the team believes now; before anybody stated a belief it is what the trial started from."""
        scene = self.scene
        stated = [member.stated for member in scene.members if member.stated is not None]
        predictions = self.start.predictions
        if stated:
            predictions = pooled(scene.question, [one.predictions for one in stated], scene.settings.pool)
        facts = [fact for member in scene.members for fact in member.memory.facts]
        reason = f"{spoke.name}: {spoke.stated.reason}" if spoke is not None and spoke.stated else self.start.reason
        return Belief(
            predictions=predictions,
            confidence=sorted((one.confidence for one in stated), key=_ORDER.index)[(len(stated) - 1) // 2]
            if stated
            else self.start.confidence,
            anchor=self.start.anchor,
            evidence_for=_evidence([fact for fact in facts if not fact.against]),
            evidence_against=_evidence([fact for fact in facts if fact.against]),
            open_questions=tuple(goal.ask for goal in scene.board.open()),
            searches=tuple(dict.fromkeys(query for member in scene.members for query in member.memory.searched)),
            reason=reason,
            # What failed is not kept among the results, and a belief without any is no answer.
            stated=bool(stated and self._results),
        )

    def _end(self) -> str:
        """Return why the work ends now, "" where it goes on."""
        scene, settings = self.scene, self.scene.settings
        if not any(member.active for member in scene.members):
            return "it was the last joint step" if scene.last else "all members are done"
        if settings.tokens is not None and self._tokens >= settings.tokens:
            return f"{self._tokens} tokens were used, of {settings.tokens}"
        if self._invalid >= settings.invalid:
            return f"{self._invalid} actions came to nothing, of {settings.invalid} that may"
        return ""

    async def _last(self, step: Step) -> Step:
        """Return the last step with the answer of the team, kept within its bounds, and how the team did."""
        members = self.scene.members
        self.failure = self._failed()
        for member in members:
            stated = member.stated.predictions if member.stated else None
            submitted = None if stated is None else member.ballot.bounded(stated, self.manner.submit_margin)
            await member.voice.grade(believed=stated, submitted=submitted, free=member.failure is None)
        predictions = members[0].ballot.bounded(step.belief.predictions, self.manner.submit_margin)
        return replace(
            step,
            belief=replace(step.belief, predictions=predictions),
            final=self.failure is None,
            remarks=(*step.remarks, self._summary()),
        )

    def _failed(self) -> FoxcastError | None:
        members = self.scene.members
        failures = [member.failure for member in members if member.failure is not None]
        if len(failures) == len(members):
            return failures[-1]
        if all(member.stated is None for member in members):
            return ContractError("no member of the team stated a belief that could be read")
        return None

    def _summary(self) -> str:
        """Return the figures of the work in one line: the efficiency stands beside the score."""
        board, talk = self.scene.board, self.scene.talk
        still_open = ", ".join(goal.name for goal in board.open()) or "none"
        return (
            f"evidence: {len(board.reached)} of {len(board.goals)} sub-goals settled "
            f"(efficiency {board.efficiency:.2f}, open: {still_open}) in {self.scene.number} joint steps with "
            f"{len(talk.sent)} messages, {self._invalid} invalid actions and {self._tokens} tokens; ended: {self.why}"
        )


def _use(turn: Turn) -> str:
    return use_key(turn.name, turn.choice.arguments)


def _has_news(turn: Turn) -> bool:
    """Whether there is something to take notes of, and somebody to take them."""
    found = turn.result is not None and not turn.result.failed
    return turn.member.active and (found or turn.kind is Kind.BELIEF)


def _in_words(turn: Turn) -> str:
    option = turn.choice.option
    said = f" ({turn.choice.arguments[option.words]})" if option.words else ""
    failed = "; it could not be done" if turn.result is not None and turn.result.failed else ""
    return f"{option.text}{said}{failed}"


def _evidence(facts: Sequence[Fact]) -> tuple[Evidence, ...]:
    once = {fact.text.casefold(): fact.evidence for fact in facts}
    return tuple(once.values())[:MOST_EVIDENCE]


async def _side_by_side(work: Iterator[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Do all of this at the same time; where one fails the others are cancelled, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    return [task.result() for task in tasks]
