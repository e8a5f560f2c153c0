"""The turn of one member in a joint step: it may draft a message, choose an action, and take notes of the result.

A member whose model fails submits the belief that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from bot.api import Json, ModelUsage, ToolDefinition, ToolResult
from plugins.team import member_answers, prompt_texts
from plugins.team.action_options import (
    LEAVE_OPTION,
    STATE_OPTION,
    SUBMIT_OPTION,
    MemberView,
    TeamActionKind,
    find_reading_option,
    list_options,
)
from plugins.team.member_answers import ChosenAction, MemberNotes, NoteContext
from plugins.team.members import KnowledgeMarks, TeamMember
from plugins.team.prompt_texts import JointStepContext

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class MemberTurn:
    """What one member does in one joint step, with result, cost and remarks.

    ``draft_message`` is the message that it may send, ``choice_reason`` says how the choice was read ("" before).
    ``invalid`` counts the answers that were no action on the list, and actions that could not be done.
    """

    member: TeamMember
    view: MemberView | None = None
    draft: str = ""
    choice: ChosenAction = field(default_factory=lambda: ChosenAction(LEAVE_OPTION, {}))
    choice_reason: str = ""
    result: ToolResult | None = None
    notes: MemberNotes | None = None
    invalid: int = 0
    usage: ModelUsage = field(default_factory=ModelUsage)
    documents: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def kind(self) -> TeamActionKind:
        """What the member does."""
        return self.choice.option.kind

    @property
    def name(self) -> str:
        """The name of the action in the ledger."""
        return self.choice.option.tool or str(self.kind)

    async def ask(self, tool: ToolDefinition, read: Callable[[Mapping[str, Json]], T], prompt: str) -> T | None:
        """Ask the member's model for one answer, in the conversation of this joint step; None if there was none."""
        member, session = self.member, self.member.session
        if prompt:
            session.say(prompt_texts.page_text(member, prompt))
        filled = await session.ask_structured(tool, read, instruction="" if member.is_person else None)
        self.usage += filled.usage
        self.documents += filled.documents
        self.remarks += tuple(f"{self.member.name}: {note}" for note in filled.notes)
        if filled.request_error is not None:
            self.member.leave(f"could not be asked: {filled.request_error}", filled.request_error)
        return filled.value


def begin_turn(turn: MemberTurn, joint_context: JointStepContext, tools: tuple[ToolDefinition, ...]) -> None:
    """Begin a member's conversation, find its allowed actions, and let it continue unless something changed."""
    member = turn.member
    member.session.restart(member.opening)
    member.session.declare_tools(member.tools)
    member.session.say(prompt_texts.page_text(member, prompt_texts.state_prompt(member, joint_context)))
    turn.view = MemberView(
        tools=tools,
        memory=member.memory,
        board=joint_context.board,
        who=member.name,
        title=joint_context.question.title,
        last=joint_context.last,
        believes=member.belief is not None,
        news=member.belief is None or knowledge_marks(member, joint_context) != member.marks_at_belief,
        listed=joint_context.settings.max_listed,
    )
    news, member.marks_at_plan = _has_news(member, joint_context), knowledge_marks(member, joint_context)
    search, member.pending_search = member.pending_search, 0
    continued = find_reading_option(search, turn.view) if search and not news and not joint_context.last else None
    if continued is not None and continued.goal not in joint_context.board.settled:
        turn.choice, turn.choice_reason = (
            ChosenAction(continued, continued.arguments),
            "continued, since nothing changed",
        )


def can_send_message(turn: MemberTurn, joint_context: JointStepContext) -> bool:
    """Say whether a member may send a message: not before its first action, and never two in a row."""
    member = turn.member
    others = any(one.active for one in joint_context.members if one is not member)
    is_its_turn = member.last not in {"", TeamActionKind.MESSAGE} and not turn.choice_reason and not joint_context.last
    return others and is_its_turn and joint_context.dialogue.left > 0


async def draft_message(turn: MemberTurn, joint_context: JointStepContext) -> None:
    """Let a member write a message to the others, if it has one."""
    limit, tool = joint_context.settings.message_chars, turn.member.tools.message
    prompt = prompt_texts.fixed_prompt("draft")
    turn.draft = await turn.ask(tool, lambda arguments: member_answers.read_message(arguments, limit), prompt) or ""


async def choose_action(turn: MemberTurn, joint_context: JointStepContext) -> None:
    """Let a member choose one of the allowed actions.

    One that chooses none submits its belief, or is asked for one if it has none.
    """
    member = turn.member
    if turn.choice_reason or turn.view is None:
        return
    options = list_options(replace(turn.view, draft=turn.draft))
    if len(options) == 1:
        turn.choice, turn.choice_reason = ChosenAction(options[0], options[0].arguments), "the only legal action"
        return
    listed = prompt_texts.options_prompt(options)
    if member.thinks:
        prompt = f"{listed}\n\n{prompt_texts.fixed_prompt('think')}"
        await turn.ask(member.tools.thoughts, member_answers.read_thoughts, prompt)
        listed = ""
    tool = member_answers.choice_tool(len(options)) if member.exact_tools else member.tools.choice
    prompt = "\n\n".join(filter(None, (listed, prompt_texts.fixed_prompt("choose"))))
    for _ in range(joint_context.settings.plan_tries):
        if not member.active:
            return
        found = await turn.ask(
            tool, lambda arguments: member_answers.read_choice(arguments, options, member.memory), prompt
        )
        if found is not None:
            turn.choice, turn.choice_reason = found, f"chosen of {len(options)} legal actions"
            return
        turn.invalid, prompt = turn.invalid + member.active, ""
    if member.belief is None:
        turn.choice, turn.choice_reason = ChosenAction(STATE_OPTION, {}), "chose no action on the list"
    elif member.active:
        turn.choice = ChosenAction(SUBMIT_OPTION, {})
        member.leave("chose no action on the list, so that the belief it has is what it submits")


async def take_notes(turn: MemberTurn, joint_context: JointStepContext) -> None:
    """Let a member take notes of the result of its action, and state its belief."""
    member, result, board = turn.member, turn.result, joint_context.board
    noting = NoteContext(
        who=member.name,
        question=joint_context.question,
        answer_format=member.answer_format,
        margin=joint_context.settings.step_margin,
        memory=member.memory,
        board=board,
    )
    tool = member.tools.notes
    if member.exact_tools:
        tool = member_answers.notes_tool(noting.question, noting.answer_format, noting.margin, board.open_goals())
    prompt = (
        prompt_texts.restate_prompt(board)
        if result is None
        else prompt_texts.note_prompt(turn.choice.option.text, result.observation.text, board)
    )
    turn.notes = await turn.ask(tool, lambda arguments: member_answers.read_notes(arguments, noting), prompt)
    turn.remarks += tuple(f"{member.name}: {why}" for why in turn.notes.refused) if turn.notes else ()


def apply_result(turn: MemberTurn, result: ToolResult, *, pays: bool) -> None:
    """Give a member the result of its tool; of those who made the same call only the first one pays."""
    turn.result = result
    turn.usage += result.usage if pays else ModelUsage()
    turn.documents += result.observation.documents
    turn.invalid += result.failed
    option, memory = turn.choice.option, turn.member.memory
    memory.add_call(option.tool, turn.choice.arguments)
    if result.failed:
        return
    url = str(turn.choice.arguments.get("url", ""))
    memory.add_result(option.tool, result.sources, option.goal, url=url)
    memory.mark_read(option.reads)
    if option.words:
        found = [one.source.search for one in memory.unread if one.goal == option.goal]
        turn.member.pending_search = max(found, default=0)


def knowledge_marks(member: TeamMember, joint_context: JointStepContext) -> KnowledgeMarks:
    """Return how much a member could know now: messages and settled sub-goals of others, and its own facts."""
    return KnowledgeMarks(
        messages=sum(message.member != member.name for message in joint_context.dialogue.sent),
        settled=sum(fact.member != member.name for fact in joint_context.board.settled.values()),
        facts=len(member.memory.facts),
    )


def _has_news(member: TeamMember, joint_context: JointStepContext) -> bool:
    """Whether a message was sent or a sub-goal settled since the member last planned: then all plan anew."""
    now, before = knowledge_marks(member, joint_context), member.marks_at_plan
    return (now.messages, now.settled) != (before.messages, before.settled)
