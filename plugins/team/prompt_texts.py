"""The prompts of members, from text files in the folder of this module and from the memory of each member.

The parts are those of the paper: instruction head, goals, state (progress, self, others, map), the last own actions,
the last dialogues after two seeds, and a closing note. The head is the same for all members, the state follows the
question, and within a joint step the conversation only grows: so providers find its beginning in their cache. A person
reads the same parts as a page without marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.api import (
    Question,
    bounds_text,
    fence_text,
    join_prompt_sources,
    judging_name,
    judging_text,
    load_template,
    parsing,
    show_to_person,
    task_text,
)
from plugins.team.action_options import ActionOption
from plugins.team.members import QUESTION_SOURCE, GoalBoard, TeamDialogue, TeamMember, TeamMessage
from plugins.team.option_parsing import option_letter
from plugins.team.settings import TeamSettings

PROMPT_PACKAGE = "plugins.team"
NONE = "none"
PROMPT_NAMES = (
    "head",
    "others",
    "others_for_people",
    "state",
    "draft",
    "options",
    "think",
    "choose",
    "note",
    "restate",
    "seeds",
)
SHOWN_FACTS = 12
SHOWN_SEARCHES = 12
SHOWN_UNREAD = 8
TITLE_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStepContext:
    """What all members share at a joint step: the question, the sub-goals, the dialogue, and who they are.

    ``absent`` are those who had left when the step began: who leaves during it, and when, may depend on how fast
    each one is answered, and must not affect the others before the next step.
    """

    question: Question
    settings: TeamSettings
    board: GoalBoard
    dialogue: TeamDialogue
    members: Sequence[TeamMember]
    steps: int
    number: int = 1
    absent: frozenset[str] = frozenset()

    @property
    def last(self) -> bool:
        """Whether it is the last joint step."""
        return self.number >= self.steps


def prompt_version(question: Question) -> str:
    """Return all prompts unfilled; their digest is the version of the prompts."""
    return join_prompt_sources(PROMPT_PACKAGE, *PROMPT_NAMES, shared=(judging_name(question),))


def seed_messages(names: Sequence[str]) -> tuple[TeamMessage, ...]:
    """Return the two messages that the dialogue begins with; a member alone has nobody to talk to."""
    lines = load_template(PROMPT_PACKAGE, "seeds").template.splitlines()
    return tuple(
        TeamMessage(name, line, seed=True) for name, line in zip(names[:2], lines, strict=False) if len(names) > 1
    )


def page_text(member: TeamMember, text: str) -> str:
    """Return a text as the member reads it."""
    return show_to_person(text) if member.is_person else text


def system_prompt(member: TeamMember, joint_context: JointStepContext) -> str:
    """Return the instruction head: the same for all members, but for what people are not asked."""
    names = [one.name for one in joint_context.members]
    company = f"You are one of a team of forecasters: {_join_names(names)}." if len(names) > 1 else "You work alone."
    return load_template(PROMPT_PACKAGE, "head").substitute(
        company=company,
        task=task_text(joint_context.question),
        steps=joint_context.steps,
        goals=_list_lines(f"{goal.name}: {goal.ask}" for goal in joint_context.board.goals),
        judging=judging_text(joint_context.question),
        bounds=bounds_text(member.answer_format, joint_context.settings.submit_margin),
        others_text=load_template(PROMPT_PACKAGE, "others_for_people" if member.is_person else "others").template,
    )


def state_prompt(member: TeamMember, joint_context: JointStepContext) -> str:
    """Return the question and the state for a member now: progress, self, others, map, actions and messages."""
    board, settings = joint_context.board, joint_context.settings
    return load_template(PROMPT_PACKAGE, "state").substitute(
        question=member.question_text,
        name=member.name,
        number=joint_context.number,
        steps=joint_context.steps,
        settled=len(board.settled),
        all=len(board.goals),
        goals=_goals_text(member, board),
        found=_findings_text(member, board),
        self=_self_text(member),
        others=_others_text(member, joint_context),
        map=_search_state_text(member),
        actions=_list_lines(member.memory.actions[-settings.shown_actions :]),
        messages=_messages_text(member, joint_context.dialogue.last(settings.shown_dialogues)),
    )


def fixed_prompt(name: str) -> str:
    """Return a prompt without placeholders: ``draft``, ``think`` or ``choose``."""
    return load_template(PROMPT_PACKAGE, name).template


def options_prompt(options: Sequence[ActionOption]) -> str:
    """Return the list of the actions that are allowed now."""
    listed = "\n".join(f"{option_letter(place)}. {option.text}" for place, option in enumerate(options))
    return load_template(PROMPT_PACKAGE, "options").substitute(options=listed)


def note_prompt(action: str, result: str, board: GoalBoard) -> str:
    """Return the prompt after an action; ``result`` is the tool's text, with its own fences."""
    cited = _settled_by_question(board)
    rule = f" (for {_join_names(cited)} the question itself may be the source: {QUESTION_SOURCE})" if cited else ""
    return load_template(PROMPT_PACKAGE, "note").substitute(action=action, result=result, question=rule)


def restate_prompt(board: GoalBoard) -> str:
    """Return the prompt for a belief without another action."""
    cited = _settled_by_question(board)
    text = (
        f" Where the question itself settles {_join_names(cited)}, "
        f"record that as a fact of the source {QUESTION_SOURCE}."
        if cited
        else ""
    )
    return load_template(PROMPT_PACKAGE, "restate").substitute(facts=text)


def _settled_by_question(board: GoalBoard) -> list[str]:
    return [goal.name for goal in board.open_goals() if goal.in_question]


def _goals_text(member: TeamMember, board: GoalBoard) -> str:
    lines = []
    for goal in board.goals:
        whose = board.owner.get(goal.name, "")
        owner = "yours" if whose == member.name else f"{whose}'s" if whose else "nobody's"
        lines.append(f"{goal.name} ({owner}, {'settled' if goal.name in board.settled else 'open'})")
    return _list_lines(lines)


def _findings_text(member: TeamMember, board: GoalBoard) -> str:
    found = [(name, fact) for name, fact in board.settled.items() if fact.member != member.name]
    fenced = (fence_text(f"{fact.text} [{fact.source}]", f"fact of {fact.member}") for _, fact in found)
    return "".join(
        f"\n{name} was settled by {fact.member}:\n{text}" for (name, fact), text in zip(found, fenced, strict=True)
    )


def _self_text(member: TeamMember) -> str:
    stated = member.belief
    believes = f"{member.answer_format.format(stated.predictions)} ({stated.confidence})" if stated else "nothing yet"
    facts = (
        f"[{fact.source}] {fact.text}" + (f" (settles {fact.goal})" if fact.goal else "")
        for fact in member.memory.facts[-SHOWN_FACTS:]
    )
    why = [f"Why: {stated.reason}"] if stated else []
    return "\n".join([f"You believe: {believes}.", *why, "Facts that you recorded:", _list_lines(facts)])


def _others_text(member: TeamMember, joint_context: JointStepContext) -> str:
    lines = []
    for one in joint_context.members:
        if one is not member:
            # The reason may be in the words of its provider, which the others do not need.
            status = (
                "takes no part any more"
                if one.name in joint_context.absent
                else f"did last: {one.last or 'nothing yet'}"
            )
            owned = (
                goal.name
                for goal in joint_context.board.open_goals()
                if joint_context.board.owner.get(goal.name) == one.name
            )
            lines.append(f"{one.name}: {status}; open sub-goals: {_join_names([*owned]) or NONE}")
    return _list_lines(lines)


def _search_state_text(member: TeamMember) -> str:
    memory = member.memory
    titles = "\n".join(
        f"{found.label}: {parsing.cut_text(found.source.title, TITLE_CHARS)}" for found in memory.unread[:SHOWN_UNREAD]
    )
    return "\n".join(
        [
            f"Searched: {' | '.join(memory.searched[-SHOWN_SEARCHES:]) or NONE}",
            f"Read: {', '.join(memory.read) or NONE}",
            f"Not yet read:\n{fence_text(titles, 'titles of results')}" if titles else f"Not yet read: {NONE}",
        ]
    )


def _messages_text(member: TeamMember, messages: Sequence[TeamMessage]) -> str:
    return (
        "\n".join(
            f"{message.member}: {message.text}"
            if message.seed or message.member == member.name
            else f"{message.member}:\n{fence_text(message.text, f'message from {message.member}')}"
            for message in messages
        )
        or NONE
    )


def _list_lines(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or NONE


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
