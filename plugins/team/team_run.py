"""One trial of a team: joint steps in which all members act concurrently, and the belief that they pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bot.api import (
    AnswerSettings,
    Belief,
    BeliefState,
    ChoicePrediction,
    ConfidenceLevel,
    Evidence,
    FoxcastError,
    Json,
    MalformedDataError,
    Step,
    StepAction,
    StepObservation,
    TargetPredictions,
    ToolResult,
    TrialContext,
    gather_all,
    pool_predictions,
)
from plugins.team import member_turns
from plugins.team.action_options import TeamActionKind
from plugins.team.member_turns import MemberTurn
from plugins.team.members import KnowledgeMarks, MemberFact, TeamMember, use_key
from plugins.team.prompt_texts import JointStepContext

MOST_EVIDENCE = 50
_CONFIDENCE_ORDER = list(ConfidenceLevel)
SUBMITTED = "submitted"
# Arguments of recorded actions: the member, the sub-goals that its facts settled, and how many there are in all.
AGENT, SETTLED, GOALS = "agent", "settled", "goals"


@dataclass(slots=True, kw_only=True)
class TeamRun:
    """One running trial.

    ``end_reason`` says why it ended, "" while it runs, ``failure`` that no member had an answer.
    """

    context: TrialContext
    joint_context: JointStepContext
    answer_settings: AnswerSettings
    start: BeliefState
    documents: tuple[str, ...] = ()
    end_reason: str = ""
    failure: FoxcastError | None = None
    _tokens: int = 0
    _invalid: int = 0
    _results: dict[str, ToolResult] = field(default_factory=dict)

    async def joint_step(self) -> list[Step]:
        """Let every active member do one action, and return their steps in the order of the team."""
        absent = frozenset(member.name for member in self.joint_context.members if member.left_because)
        number = self.joint_context.number + 1
        # If time is short this joint step is the last one.
        most = number if self.context.is_final_answer_time(f"joint step {number}") else self.joint_context.steps
        self.joint_context = joint_context = replace(self.joint_context, number=number, steps=most, absent=absent)
        turns = [MemberTurn(member=member) for member in joint_context.members if member.active]
        for turn in turns:
            member_turns.begin_turn(turn, joint_context, tuple(self.context.tools))
        talkers = [turn for turn in turns if member_turns.can_send_message(turn, joint_context)][
            : joint_context.dialogue.left
        ]
        await gather_all(member_turns.draft_message(turn, joint_context) for turn in talkers)
        self._drop_repeated_messages(talkers)
        await gather_all(member_turns.choose_action(turn, joint_context) for turn in turns if turn.member.active)
        await self._use_tools([turn for turn in turns if turn.member.active and turn.kind is TeamActionKind.TOOL])
        await gather_all(member_turns.take_notes(turn, joint_context) for turn in turns if _needs_notes(turn))
        before = {turn.member.name: member_turns.knowledge_marks(turn.member, joint_context) for turn in turns}
        steps = [self._make_step(turn, before[turn.member.name]) for turn in turns]
        self.end_reason = self._find_end_reason()
        if not self.end_reason:
            joint_context.board.share_out([member.name for member in joint_context.members if member.active])
            return steps
        return [*steps[:-1], await self._last(steps[-1])]

    def _drop_repeated_messages(self, talkers: Sequence[MemberTurn]) -> None:
        """Withdraw a message that repeats an earlier one, or one that another member sends in the same step."""
        dialogue = replace(self.joint_context.dialogue, sent=[*self.joint_context.dialogue.sent])
        for turn in talkers:
            if turn.draft and dialogue.repeats(turn.draft):
                turn.draft = ""
                turn.remarks += (f"{turn.member.name}: a message that repeats another one was not offered",)
            elif turn.draft:
                dialogue.send(turn.member.name, turn.draft, joint_step=self.joint_context.number)

    async def _use_tools(self, turns: Sequence[MemberTurn]) -> None:
        """Use each tool once with the same arguments for all members: later ones get the same result."""
        new: dict[str, MemberTurn] = {}
        for turn in turns:
            if _call_key(turn) not in self._results:
                new.setdefault(_call_key(turn), turn)
        used = await gather_all(self.context.use_tool(turn.name, turn.choice.arguments) for turn in new.values())
        results: dict[str, ToolResult] = {**self._results, **dict(zip(new, used, strict=True))}
        # A failed call may be tried again.
        self._results = {use: result for use, result in results.items() if not result.failed}
        for turn in turns:
            member_turns.apply_result(turn, results[_call_key(turn)], pays=new.get(_call_key(turn)) is turn)

    def _make_step(self, turn: MemberTurn, before: KnowledgeMarks) -> Step:
        """Apply a member's action for all, and return its step."""
        member, joint_context = turn.member, self.joint_context
        lines, remarks = [turn.choice_reason] if turn.choice_reason else [], [*turn.remarks]
        lines += [turn.result.observation.text] if turn.result else []
        settled: list[Json] = []
        if turn.notes is not None:
            for fact in turn.notes.facts:
                lines.append(f"recorded: {fact.text} [{fact.source}]")
                if remark := self._record_fact(member, fact):
                    remarks.append(remark)
                    settled.append(fact.goal)
            member.belief = turn.notes.belief
            member.marks_at_belief = replace(before, facts=len(member.memory.facts))
        if turn.kind is TeamActionKind.MESSAGE and member.active:
            joint_context.dialogue.send(member.name, turn.draft, joint_step=joint_context.number)
        if member.active and (turn.kind is TeamActionKind.SUBMIT or joint_context.last):
            member.leave(SUBMITTED)
        if member.left_because not in {"", SUBMITTED}:
            remarks.append(f"{member.name} takes no part any more: {member.left_because}")
        member.last = turn.name
        member.memory.actions.append(f"joint step {joint_context.number}: {_describe_turn(turn)}")
        self._invalid += turn.invalid
        self._tokens += turn.usage.tokens_in + turn.usage.tokens_out
        documents, self.documents = (*self.documents, *turn.documents), ()
        arguments: dict[str, Json] = {**turn.choice.arguments, AGENT: member.name}
        if settled:
            arguments |= {SETTLED: settled, GOALS: len(joint_context.board.goals)}
        return Step(
            action=StepAction(name=turn.name, arguments=arguments),
            observation=StepObservation(text="\n".join(lines), documents=documents),
            belief=self._belief(member),
            usage=turn.usage,
            remarks=tuple(remarks),
        )

    def _record_fact(self, member: TeamMember, fact: MemberFact) -> str:
        """Record a fact, and return a remark if it settled a sub-goal, else ""."""
        board = self.joint_context.board
        if not board.settle(fact):
            member.memory.facts.append(replace(fact, goal=""))
            return ""
        member.memory.facts.append(fact)
        count = f"{len(board.settled)} of {len(board.goals)}"
        return f"sub-goal {fact.goal} settled by {member.name} ({count}): {fact.text} [{fact.source}]"

    def _belief(self, spoke: TeamMember | None = None) -> Belief:
        """Return the present belief of the team; before any stated belief it is the start of the trial."""
        joint_context = self.joint_context
        stated = [member.belief for member in joint_context.members if member.belief is not None]
        predictions = self.start.predictions
        if stated:
            predictions = pool_predictions(
                joint_context.question, [one.predictions for one in stated], joint_context.settings.pool
            )
        facts = [fact for member in joint_context.members for fact in member.memory.facts]
        likely = _likeliest_option(predictions)
        reason = f"{spoke.name}: {spoke.belief.reason}" if spoke is not None and spoke.belief else self.start.reason
        return Belief(
            predictions=predictions,
            confidence=sorted((one.confidence for one in stated), key=_CONFIDENCE_ORDER.index)[(len(stated) - 1) // 2]
            if stated
            else self.start.confidence,
            anchor=self.start.anchor,
            evidence_for=_facts_as_evidence([fact for fact in facts if not fact.is_against(likely)]),
            evidence_against=_facts_as_evidence([fact for fact in facts if fact.is_against(likely)]),
            open_questions=tuple(goal.ask for goal in joint_context.board.open_goals()),
            searches=tuple(
                dict.fromkeys(query for member in joint_context.members for query in member.memory.searched)
            ),
            reason=reason,
            # Failed results are not kept, and a belief without any result is no answer.
            stated=bool(stated and self._results),
        )

    def _find_end_reason(self) -> str:
        """Return why the work ends now, "" if it continues."""
        joint_context, settings = self.joint_context, self.joint_context.settings
        if not any(member.active for member in joint_context.members):
            return "it was the last joint step" if joint_context.last else "all members are done"
        if settings.tokens is not None and self._tokens >= settings.tokens:
            return f"{self._tokens} tokens were used, of {settings.tokens}"
        if self._invalid >= settings.max_invalid:
            return f"{self._invalid} actions came to nothing, of {settings.max_invalid} that may"
        return ""

    async def _last(self, step: Step) -> Step:
        """Return the last step with the answer of the team, kept within its bounds, and the team's figures."""
        members = self.joint_context.members
        self.failure = self._failed()
        for member in members:
            stated = member.belief.predictions if member.belief else None
            submitted = (
                None if stated is None else member.answer_format.clamp(stated, self.answer_settings.submit_margin)
            )
            await member.session.report_performance(believed=stated, submitted=submitted, free=member.failure is None)
        predictions = members[0].answer_format.clamp(step.belief.predictions, self.answer_settings.submit_margin)
        return replace(
            step,
            action=replace(
                step.action, arguments={**step.action.arguments, GOALS: len(self.joint_context.board.goals)}
            ),
            belief=replace(step.belief, predictions=predictions),
            final=self.failure is None,
            remarks=(*step.remarks, self._summary()),
        )

    def _failed(self) -> FoxcastError | None:
        members = self.joint_context.members
        failures = [member.failure for member in members if member.failure is not None]
        if len(failures) == len(members):
            return failures[-1]
        if all(member.belief is None for member in members):
            return MalformedDataError("no member of the team stated a belief that could be read")
        return None

    def _summary(self) -> str:
        """Return the figures of the work in one line: the efficiency is shown with the score."""
        board, talk = self.joint_context.board, self.joint_context.dialogue
        still_open = ", ".join(goal.name for goal in board.open_goals()) or "none"
        return (
            f"evidence: {len(board.settled)} of {len(board.goals)} sub-goals settled "
            f"(efficiency {board.efficiency:.2f}, open: {still_open}) in {self.joint_context.number} joint steps with "
            f"{len(talk.sent)} messages, {self._invalid} invalid actions and {self._tokens} tokens; "
            f"ended: {self.end_reason}"
        )


def _likeliest_option(predictions: TargetPredictions) -> str:
    """Return the likeliest option of a choice, "" for other questions; of several targets the first counts."""
    first = next(iter(predictions.values()))
    if not isinstance(first, ChoicePrediction):
        return ""
    return max(first.probabilities, key=lambda option: first.probabilities[option])


def _call_key(turn: MemberTurn) -> str:
    return use_key(turn.name, turn.choice.arguments)


def _needs_notes(turn: MemberTurn) -> bool:
    """Whether there is something to note, and a member to note it."""
    found = turn.result is not None and not turn.result.failed
    return turn.member.active and (found or turn.kind is TeamActionKind.BELIEF)


def _describe_turn(turn: MemberTurn) -> str:
    option = turn.choice.option
    dialogue = f" ({turn.choice.arguments[option.words]})" if option.words else ""
    failed = "; it could not be done" if turn.result is not None and turn.result.failed else ""
    return f"{option.text}{dialogue}{failed}"


def _facts_as_evidence(facts: Sequence[MemberFact]) -> tuple[Evidence, ...]:
    once = {fact.text.casefold(): fact.evidence for fact in facts}
    return tuple(once.values())[:MOST_EVIDENCE]
