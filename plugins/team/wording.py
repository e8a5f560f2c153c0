"""What members are told: the parts of a prompt, from text files beside this module and from what a member remembers.

The parts are those of the paper: instruction head, goals, state (progress, self, others, map), the last own actions,
the last messages after two seeds, and a closing note. What others wrote stands in fences, also what members wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.api import Question, bounds_of, quoted, task_of, template, unfilled
from plugins.team.extraction import letter_of
from plugins.team.member import Member
from plugins.team.memory import QUESTION, Board
from plugins.team.options import Option
from plugins.team.settings import TeamSettings
from plugins.team.talk import Said, Talk

HERE = "plugins.team"
NONE = "none"
NAMES = ("head", "state", "draft", "think", "choose", "note", "restate", "seeds")
SHOWN_FACTS = 12
SHOWN_SEARCHES = 12
SHOWN_UNREAD = 8
TITLE_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What all members share at a joint step: the question, the sub-goals, the dialogue, and who they are.

    ``absent`` are those who took no part any more when the step began: who leaves in the middle of it, and when, may
    depend on how fast each one is answered, and is no matter of the others before the next one.
    """

    question: Question
    settings: TeamSettings
    board: Board
    talk: Talk
    members: Sequence[Member]
    steps: int
    number: int = 1
    absent: frozenset[str] = frozenset()

    @property
    def last(self) -> bool:
        """Whether it is the last joint step."""
        return self.number >= self.steps


def versions() -> str:
    """Return all prompts unfilled; their digest is the version of the prompts."""
    return unfilled(HERE, *NAMES)


def seeds(names: Sequence[str]) -> tuple[Said, ...]:
    """Return the two messages that the dialogue begins with; a member alone has nobody to talk to."""
    lines = template(HERE, "seeds").template.splitlines()
    return tuple(Said(name, line, seed=True) for name, line in zip(names[:2], lines, strict=False) if len(names) > 1)


def head(member: Member, scene: Scene) -> str:
    """Return the instruction head of a member."""
    others = [one.name for one in scene.members if one is not member]
    company = f"You work in a team with {_listed(others)}." if others else "You work alone."
    return template(HERE, "head").substitute(
        name=member.name,
        company=company,
        task=task_of(scene.question),
        steps=scene.steps,
        bounds=bounds_of(member.ballot, scene.settings.submit_margin),
    )


def state(member: Member, scene: Scene) -> str:
    """Return goals, progress, self, others, map, actions and messages, as they are for a member now."""
    board, settings = scene.board, scene.settings
    return template(HERE, "state").substitute(
        together=_together(scene),
        goals=_goals(member, board),
        number=scene.number,
        steps=scene.steps,
        settled=len(board.reached),
        all=len(board.goals),
        found=_found(member, board),
        self=_self(member),
        others=_others(member, scene),
        map=_map(member),
        actions="\n".join(f"- {action}" for action in member.memory.actions[-settings.past :]) or NONE,
        messages=_messages(member, scene.talk.last(settings.heard)),
    )


def draft(tool: str) -> str:
    """Return what a member is told that may say something."""
    return template(HERE, "draft").substitute(tool=tool)


def think(options: Sequence[Option], tool: str) -> str:
    """Return what a member is told that is to think before it chooses."""
    return template(HERE, "think").substitute(options=listed(options), tool=tool)


def choose(options: Sequence[Option], thoughts: str, tool: str) -> str:
    """Return what a member is told that is to choose."""
    told = f"\nYou thought:\n{thoughts}\n" if thoughts else ""
    return template(HERE, "choose").substitute(options=listed(options), thoughts=told, tool=tool)


def note(action: str, result: str, board: Board, tool: str) -> str:
    """Return what a member is told after an action; ``result`` is as the desk gave it, with fences of its own."""
    return template(HERE, "note").substitute(action=action, result=result, question=_may_cite(board), tool=tool)


def restate(board: Board, tool: str) -> str:
    """Return what a member is told that is to state its belief without having done anything else."""
    cited = [goal.name for goal in board.open() if goal.in_question]
    told = (
        f" Where the question itself settles {_listed(cited)}, record that as a fact of the source {QUESTION}."
        if cited
        else ""
    )
    return template(HERE, "restate").substitute(tool=tool, facts=told)


def listed(options: Sequence[Option]) -> str:
    """Return the options with their letters."""
    return "\n".join(f"{letter_of(place)}. {option.text}" for place, option in enumerate(options))


def _may_cite(board: Board) -> str:
    cited = [goal.name for goal in board.open() if goal.in_question]
    return f" (for {_listed(cited)} the question itself may be the source: {QUESTION})" if cited else ""


def _together(scene: Scene) -> str:
    count = len(scene.board.goals)
    return f"settle these {count} sub-goals, and find the probabilities that what they show is worth."


def _goals(member: Member, board: Board) -> str:
    lines = []
    for goal in board.goals:
        whose = board.owner.get(goal.name, "")
        owner = "yours" if whose == member.name else f"{whose}'s" if whose else "nobody's"
        stands = "settled" if goal.name in board.reached else "open"
        lines.append(f"- {goal.name} ({owner}, {stands}): {goal.ask}")
    return "\n".join(lines)


def _found(member: Member, board: Board) -> str:
    lines = [
        f"\n- {name}, by {fact.who}:\n{quoted(f'{fact.text} [{fact.source}]', f'fact from {fact.who}')}"
        for name, fact in board.reached.items()
        if fact.who != member.name
    ]
    return "".join(lines)


def _self(member: Member) -> str:
    memory, stated = member.memory, member.stated
    believes = f"{member.ballot.shown(stated.predictions)} ({stated.confidence})" if stated else "nothing yet"
    lines = [f"You are {member.name}. You believe: {believes}.", *([f"Why: {stated.reason}"] if stated else [])]
    facts = [
        f"- [{fact.source}] {fact.text}" + (f" (settles {fact.goal})" if fact.goal else "")
        for fact in memory.facts[-SHOWN_FACTS:]
    ]
    return "\n".join([*lines, "Facts that you recorded:", *(facts or [NONE])])


def _others(member: Member, scene: Scene) -> str:
    lines = []
    for one in scene.members:
        if one is not member:
            doing = one.last or "nothing yet"
            # Why it left may be in the words of its provider, which are nobody's business here.
            stands = "takes no part any more" if one.name in scene.absent else f"did last: {doing}"
            open_goals = [goal.name for goal in scene.board.open() if scene.board.owner.get(goal.name) == one.name]
            lines.append(f"- {one.name}: {stands}; open sub-goals: {_listed(open_goals) or NONE}")
    return "\n".join(lines) or NONE


def _map(member: Member) -> str:
    memory = member.memory
    titles = "\n".join(f"{found.label}: {found.head[:TITLE_CHARS]}" for found in memory.unread[:SHOWN_UNREAD])
    return "\n".join(
        [
            f"Searched: {' | '.join(memory.searched[-SHOWN_SEARCHES:]) or NONE}",
            f"Read: {', '.join(memory.read) or NONE}",
            f"Not yet read:\n{quoted(titles, 'titles of results')}" if titles else f"Not yet read: {NONE}",
        ]
    )


def _messages(member: Member, messages: Sequence[Said]) -> str:
    return (
        "\n".join(
            f"{said.who}: {said.text}"
            if said.seed or said.who == member.name
            else f"{said.who}:\n{quoted(said.text, f'message from {said.who}')}"
            for said in messages
        )
        or NONE
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
