"""The modules of a member: communication (what to say), reasoning (what to do), and notes (what came of it).

Each is one question to its model. Whatever a model answers, or fails to, a member has an action: the safe one is to
submit the belief that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from bot.api import Json, Tool, ToolResult, Usage
from plugins.team import answers, wording
from plugins.team.answers import Choice, Notes, Noting
from plugins.team.member import Marks, Member
from plugins.team.options import SUBMIT, Kind, View, legal, reading_of
from plugins.team.wording import Scene

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """What one member does in one joint step, what that brought and cost, and what there is to say of it.

    ``draft`` is the message that it may send, ``how`` says how it came to its choice ("" before). ``invalid`` counts
    the answers that were no action on the list, and actions that could not be done.
    """

    member: Member
    view: View | None = None
    draft: str = ""
    choice: Choice = field(default_factory=lambda: Choice(SUBMIT, {}))
    how: str = ""
    result: ToolResult | None = None
    notes: Notes | None = None
    invalid: int = 0
    usage: Usage = field(default_factory=Usage)
    documents: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """What the member does."""
        return self.choice.option.kind

    @property
    def name(self) -> str:
        """What the action is called in the ledger."""
        return self.choice.option.tool or str(self.kind)

    async def ask(self, tool: Tool, read: Callable[[Mapping[str, Json]], T], told: str) -> T | None:
        """Ask the member's model for one answer, in a conversation made anew; None where there was none."""
        voice = self.member.voice
        voice.restart(self.member.opening)
        voice.say(told)
        filled = await voice.fill(tool, read, keep=False)
        self.usage += filled.usage
        self.documents += filled.documents
        self.said += tuple(f"{self.member.name}: {note}" for note in filled.notes)
        if filled.unasked is not None:
            self.member.leave(f"could not be asked: {filled.unasked}", filled.unasked)
        return filled.value


def begin(turn: Turn, scene: Scene, tools: tuple[Tool, ...]) -> None:
    """Look at what a member could do now, and let it go on with what it is at, unless something came up."""
    member = turn.member
    turn.view = View(
        tools=tools,
        memory=member.memory,
        board=scene.board,
        who=member.name,
        title=scene.question.title,
        last=scene.last,
        news=member.stated is None or marks(member, scene) != member.weighed,
        listed=scene.settings.listed,
    )
    came_up, member.planned = _is_news(member, scene), marks(member, scene)
    search, member.search = member.search, 0
    going_on = reading_of(search, turn.view) if search and not came_up and not scene.last else None
    if going_on is not None and going_on.goal not in scene.board.reached:
        turn.choice, turn.how = Choice(going_on, going_on.arguments), "went on, since nothing came up"


def may_talk(turn: Turn, scene: Scene) -> bool:
    """Say whether a member may send a message: not before it has done anything, and never two in a row."""
    member = turn.member
    others = any(one.active for one in scene.members if one is not member)
    is_its_turn = member.last not in {"", Kind.MESSAGE} and not turn.how and not scene.last
    return others and is_its_turn and scene.talk.left > 0


async def draft(turn: Turn, scene: Scene) -> None:
    """Let a member write what it would tell the others, if anything."""
    limit = scene.settings.message_chars
    tool = answers.message_tool(limit)
    told = f"{wording.state(turn.member, scene)}\n\n{wording.draft(tool.name)}"
    turn.draft = await turn.ask(tool, lambda arguments: answers.read_message(arguments, limit), told) or ""


async def choose(turn: Turn, scene: Scene) -> None:
    """Let a member choose one of the actions that are legal now; who chooses none is done, with the belief it has."""
    member = turn.member
    if turn.how or turn.view is None:
        return
    options = legal(replace(turn.view, draft=turn.draft))
    if len(options) == 1:
        turn.choice, turn.how = Choice(options[0], options[0].arguments), "the only legal action"
        return
    state, thoughts = wording.state(member, scene), ""
    if member.thinks:
        form = answers.thought_tool()
        told = f"{state}\n\n{wording.think(options, form.name)}"
        thoughts = await turn.ask(form, answers.read_thoughts, told) or ""
    tool = answers.choice_tool(len(options))
    told = f"{state}\n\n{wording.choose(options, thoughts, tool.name)}"
    for _ in range(scene.settings.plan_tries if member.active else 0):
        found = await turn.ask(tool, lambda arguments: answers.read_choice(arguments, options, member.memory), told)
        if found is not None:
            turn.choice, turn.how = found, f"chosen of {len(options)} legal actions"
            return
        if not member.active:
            return
        turn.invalid += 1
    if member.active:
        member.leave("chose no action on the list, so that the belief it has is what it submits")


async def note(turn: Turn, scene: Scene) -> None:
    """Let a member take notes of what came of its action, and state its belief."""
    member, result = turn.member, turn.result
    noting = Noting(
        who=member.name,
        ballot=member.ballot,
        margin=scene.settings.step_margin,
        memory=member.memory,
        board=scene.board,
    )
    tool = answers.notes_tool(noting)
    asked = (
        wording.restate(scene.board, tool.name)
        if result is None
        else wording.note(turn.choice.option.text, result.observation.text, scene.board, tool.name)
    )
    told = f"{wording.state(member, scene)}\n\n{asked}"
    turn.notes = await turn.ask(tool, lambda arguments: answers.read_notes(arguments, noting), told)
    turn.said += tuple(f"{member.name}: {why}" for why in turn.notes.refused) if turn.notes else ()


def act(turn: Turn, result: ToolResult, *, pays: bool) -> None:
    """Give a member the result of the tool that it used; of those who did the same only the first one pays."""
    turn.result = result
    turn.usage += result.usage if pays else Usage()
    turn.documents += result.observation.documents
    turn.invalid += result.failed
    option, memory = turn.choice.option, turn.member.memory
    memory.do(option.tool, turn.choice.arguments)
    if result.failed:
        return
    url = str(turn.choice.arguments.get("url", ""))
    memory.learn(option.tool, result.observation.text, option.goal, url=url)
    memory.have_read(option.reads)
    if option.words:
        found = [one.search for one in memory.unread if one.goal == option.goal]
        turn.member.search = max(found, default=0)


def marks(member: Member, scene: Scene) -> Marks:
    """Return how much a member could know now: what others said and settled, and its own facts."""
    return Marks(
        messages=sum(said.who != member.name for said in scene.talk.sent),
        settled=sum(fact.who != member.name for fact in scene.board.reached.values()),
        facts=len(member.memory.facts),
    )


def _is_news(member: Member, scene: Scene) -> bool:
    """Whether a message came or a sub-goal was settled since the member last planned: then all plan anew."""
    now, before = marks(member, scene), member.planned
    return (now.messages, now.settled) != (before.messages, before.settled)
