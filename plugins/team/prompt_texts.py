"""The prompts of members, from text files in the folder of this module and from the memory of each member.

The parts are those of the paper: instruction head, goals, state (progress, self, others, map), the last own actions,
the last messages after two seeds, and a closing note. Texts of others are in fences, also those of members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.api import Question, bounds_text, fence_text, join_prompt_sources, load_template, task_text
from plugins.team.action_options import ActionOption
from plugins.team.members import QUESTION_SOURCE, GoalBoard, TeamDialogue, TeamMember, TeamMessage
from plugins.team.option_parsing import option_letter
from plugins.team.settings import TeamSettings

PROMPT_PACKAGE = "plugins.team"
NONE = "none"
PROMPT_NAMES = ("head", "state", "draft", "think", "choose", "note", "restate", "seeds")
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


def prompt_version() -> str:
    """Return all prompts unfilled; their digest is the version of the prompts."""
    return join_prompt_sources(PROMPT_PACKAGE, *PROMPT_NAMES)


def seed_messages(names: Sequence[str]) -> tuple[TeamMessage, ...]:
    """Return the two messages that the dialogue begins with; a member alone has nobody to talk to."""
    lines = load_template(PROMPT_PACKAGE, "seeds").template.splitlines()
    return tuple(
        TeamMessage(name, line, seed=True) for name, line in zip(names[:2], lines, strict=False) if len(names) > 1
    )


def system_prompt(member: TeamMember, joint_context: JointStepContext) -> str:
    """Return the instruction head of a member."""
    others = [one.name for one in joint_context.members if one is not member]
    company = f"You work in a team with {_join_names(others)}." if others else "You work alone."
    return load_template(PROMPT_PACKAGE, "head").substitute(
        name=member.name,
        company=company,
        task=task_text(joint_context.question),
        steps=joint_context.steps,
        bounds=bounds_text(member.answer_format, joint_context.settings.submit_margin),
    )


def state_prompt(member: TeamMember, joint_context: JointStepContext) -> str:
    """Return goals, progress, self, others, map, actions and messages, as they are for a member now."""
    board, settings = joint_context.board, joint_context.settings
    return load_template(PROMPT_PACKAGE, "state").substitute(
        together=_common_task(joint_context),
        goals=_goals_text(member, board),
        number=joint_context.number,
        steps=joint_context.steps,
        settled=len(board.settled),
        all=len(board.goals),
        found=_findings_text(member, board),
        self=_self_text(member),
        others=_others_text(member, joint_context),
        map=_search_state_text(member),
        actions="\n".join(f"- {action}" for action in member.memory.actions[-settings.shown_actions :]) or NONE,
        messages=_messages_text(member, joint_context.dialogue.last(settings.shown_messages)),
    )


def draft_prompt(tool: str) -> str:
    """Return the prompt for a message."""
    return load_template(PROMPT_PACKAGE, "draft").substitute(tool=tool)


def think_prompt(options: Sequence[ActionOption], tool: str) -> str:
    """Return the prompt for thoughts before the choice."""
    return load_template(PROMPT_PACKAGE, "think").substitute(options=list_option_texts(options), tool=tool)


def choose_prompt(options: Sequence[ActionOption], thoughts: str, tool: str) -> str:
    """Return the prompt for the choice."""
    text = f"\nYou thought:\n{thoughts}\n" if thoughts else ""
    return load_template(PROMPT_PACKAGE, "choose").substitute(
        options=list_option_texts(options), thoughts=text, tool=tool
    )


def note_prompt(action: str, result: str, board: GoalBoard, tool: str) -> str:
    """Return the prompt after an action; ``result`` is the tool's text, with its own fences."""
    return load_template(PROMPT_PACKAGE, "note").substitute(
        action=action, result=result, question=_citation_rule(board), tool=tool
    )


def restate_prompt(board: GoalBoard, tool: str) -> str:
    """Return the prompt for a belief without another action."""
    cited = [goal.name for goal in board.open_goals() if goal.in_question]
    text = (
        f" Where the question itself settles {_join_names(cited)}, "
        f"record that as a fact of the source {QUESTION_SOURCE}."
        if cited
        else ""
    )
    return load_template(PROMPT_PACKAGE, "restate").substitute(tool=tool, facts=text)


def list_option_texts(options: Sequence[ActionOption]) -> str:
    """Return the options with their letters."""
    return "\n".join(f"{option_letter(place)}. {option.text}" for place, option in enumerate(options))


def _citation_rule(board: GoalBoard) -> str:
    cited = [goal.name for goal in board.open_goals() if goal.in_question]
    return f" (for {_join_names(cited)} the question itself may be the source: {QUESTION_SOURCE})" if cited else ""


def _common_task(joint_context: JointStepContext) -> str:
    count = len(joint_context.board.goals)
    return f"settle these {count} sub-goals, and find the probabilities that what they show is worth."


def _goals_text(member: TeamMember, board: GoalBoard) -> str:
    lines = []
    for goal in board.goals:
        whose = board.owner.get(goal.name, "")
        owner = "yours" if whose == member.name else f"{whose}'s" if whose else "nobody's"
        status = "settled" if goal.name in board.settled else "open"
        lines.append(f"- {goal.name} ({owner}, {status}): {goal.ask}")
    return "\n".join(lines)


def _findings_text(member: TeamMember, board: GoalBoard) -> str:
    lines = [
        f"\n- {name}, by {fact.member}:\n{fence_text(f'{fact.text} [{fact.source}]', f'fact from {fact.member}')}"
        for name, fact in board.settled.items()
        if fact.member != member.name
    ]
    return "".join(lines)


def _self_text(member: TeamMember) -> str:
    memory, stated = member.memory, member.belief
    believes = f"{member.answer_format.format(stated.predictions)} ({stated.confidence})" if stated else "nothing yet"
    lines = [f"You are {member.name}. You believe: {believes}.", *([f"Why: {stated.reason}"] if stated else [])]
    facts = [
        f"- [{fact.source}] {fact.text}" + (f" (settles {fact.goal})" if fact.goal else "")
        for fact in memory.facts[-SHOWN_FACTS:]
    ]
    return "\n".join([*lines, "Facts that you recorded:", *(facts or [NONE])])


def _others_text(member: TeamMember, joint_context: JointStepContext) -> str:
    lines = []
    for one in joint_context.members:
        if one is not member:
            doing = one.last or "nothing yet"
            # The reason may be in the words of its provider, which the others do not need.
            status = "takes no part any more" if one.name in joint_context.absent else f"did last: {doing}"
            open_goals = [
                goal.name
                for goal in joint_context.board.open_goals()
                if joint_context.board.owner.get(goal.name) == one.name
            ]
            lines.append(f"- {one.name}: {status}; open sub-goals: {_join_names(open_goals) or NONE}")
    return "\n".join(lines) or NONE


def _search_state_text(member: TeamMember) -> str:
    memory = member.memory
    titles = "\n".join(f"{found.label}: {found.source.title[:TITLE_CHARS]}" for found in memory.unread[:SHOWN_UNREAD])
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


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
