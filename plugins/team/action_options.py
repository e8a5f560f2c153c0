"""The actions that are allowed for a member now, as a list to choose from: nothing else can be done.

Only tools that the trial offers at this moment are listed, with arguments that fit their schemas; actions that a quota,
the cutoff or a policy forbids are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from bot.api import Json, ToolDefinition, parsing
from plugins.team.members import (
    LOOKUP_TOOL,
    SEARCH_TOOL,
    SUMMARISE_TOOL,
    GoalBoard,
    MemberMemory,
    UnreadResult,
    use_key,
)
from plugins.team.settings import SubGoal

WORDS_CHARS = 400
DESCRIPTION_CHARS = 120
# At most this many results are read together.
MAX_READ_TOGETHER = 3
# A longer list would not be read with care, and there would not be enough letters.
MAX_OPTIONS = 24


class TeamActionKind(StrEnum):
    """What an action is; the value is its name in the ledger, except for a tool, which has its own name."""

    MESSAGE = "send_message"
    TOOL = "use_tool"
    BELIEF = "state_belief"
    SUBMIT = "submit"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOption:
    """One allowed action, in the words of the list.

    ``words`` names the argument that the member fills in its own words, ``default_words`` is used if it is left
    empty ("" if it must not be); ``reads`` are the labels of the results that will have been read.
    """

    text: str
    kind: TeamActionKind = TeamActionKind.TOOL
    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    words: str = ""
    default_words: str = ""
    goal: str = ""
    reads: tuple[str, ...] = ()

    def with_words(self, text: str) -> Mapping[str, Json]:
        """Return the arguments of the tool, with the member's words if it is asked for some."""
        return {**self.arguments, self.words: text or self.default_words} if self.words else self.arguments


# Never listed: what a member does that cannot be asked.
LEAVE_OPTION = ActionOption(text="take no further part", kind=TeamActionKind.LEAVE)
SUBMIT_OPTION = ActionOption(text="submit the belief you have now and be done", kind=TeamActionKind.SUBMIT)
STATE_OPTION = ActionOption(
    text="state what you believe now, in the light of what you know", kind=TeamActionKind.BELIEF
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """What a member's list is made from. ``draft`` is the message it may send now, "" if it may send none.

    ``last`` says that it is the last joint step, ``believes`` that the member has stated a belief, ``news`` that
    something changed since.
    """

    tools: Sequence[ToolDefinition]
    memory: MemberMemory
    board: GoalBoard
    who: str
    title: str
    draft: str = ""
    last: bool = False
    believes: bool = True
    news: bool = True
    listed: int = 4


def list_options(view: MemberView) -> list[ActionOption]:
    """Return the actions that are allowed now, the message first and submitting last: not before a belief was stated.

    In the last joint step only stating a belief remains: a new one, if something changed.
    """
    if view.last:
        return [STATE_OPTION if view.news else SUBMIT_OPTION]
    actions: list[ActionOption] = []
    if view.draft:
        sent = {"text": view.draft}
        actions.append(
            ActionOption(text=f'send a message: "{view.draft}"', kind=TeamActionKind.MESSAGE, arguments=sent)
        )
    uses = [option for option in _tool_options(view) if _is_new(option, view.memory)]
    ends = [*([STATE_OPTION] if view.news or not view.believes else []), *([SUBMIT_OPTION] if view.believes else [])]
    return [*actions, *uses[: MAX_OPTIONS - 3], *ends]


def find_reading_option(search: int, view: MemberView) -> ActionOption | None:
    """Return the reading of a search's results, if that is allowed now: a member continues with it after a search."""
    return next(
        (option for option in _tool_options(view) if option.tool == SUMMARISE_TOOL and _reads_search(option, search)),
        None,
    )


def _reads_search(option: ActionOption, search: int) -> bool:
    return option.arguments.get("search_index") == search


def _tool_options(view: MemberView) -> Iterator[ActionOption]:
    offered = {tool.name: tool for tool in view.tools}
    goals = view.board.goals_for(view.who)
    asks = {goal.name: goal.ask for goal in view.board.goals}
    if SUMMARISE_TOOL in offered:
        yield from _reading_options(view.memory.unread, asks)
    if LOOKUP_TOOL in offered:
        for found in [found for found in view.memory.unread if found.source.url][: view.listed]:
            text = f"open the page of {found.label}{_goal_suffix(found.goal)}"
            yield ActionOption(
                text=text, tool=LOOKUP_TOOL, arguments={"url": found.source.url}, goal=found.goal, reads=(found.label,)
            )
    if SEARCH_TOOL in offered:
        yield from (_search_option(goal, view.title) for goal in goals[: view.listed])
    for tool in view.tools:
        if (
            tool.name not in {SEARCH_TOOL, SUMMARISE_TOOL, LOOKUP_TOOL}
            and (option := _simple_option(tool, view.memory)) is not None
        ):
            yield option


def _reading_options(unread: Sequence[UnreadResult], asks: Mapping[str, str]) -> Iterator[ActionOption]:
    """Yield a reading for each search with unread results, the newest search first."""
    newest = sorted(unread, key=lambda found: (-found.source.search, found.source.place))
    for search, group in groupby(newest, key=lambda found: found.source.search):
        found = list(group)[:MAX_READ_TOGETHER]
        goal = found[0].goal
        places: list[Json] = [one.source.place for one in found]
        labels = tuple(one.label for one in found)
        yield ActionOption(
            text=f"read {', '.join(labels)}{_goal_suffix(goal)}",
            tool=SUMMARISE_TOOL,
            arguments={
                "search_index": search,
                "result_indices": places,
                "question": asks.get(goal) or "What bears on the question?",
            },
            goal=goal,
            reads=labels,
        )


def _search_option(goal: SubGoal, title: str) -> ActionOption:
    return ActionOption(
        text=f"search the web for sub-goal {goal.name} in your own words",
        tool=SEARCH_TOOL,
        words="query",
        default_words=parsing.cut_line(f"{title} {goal.search_words}", WORDS_CHARS),
        goal=goal.name,
    )


def _simple_option(tool: ToolDefinition, memory: MemberMemory) -> ActionOption | None:
    """Return the use of a tool that needs nothing, or one text that the member can word; None for any other."""
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    needs = [name for name in (required if isinstance(required, list) else []) if isinstance(name, str)]
    if not needs:
        return ActionOption(text=f"use {tool.name}: {_short_description(tool)}", tool=tool.name)
    known = _last_page(tool.name, needs, memory)
    left = [name for name in needs if name not in known]
    if len(left) != 1 or not _is_text_argument(properties, left[0]):
        return None
    where = ", on the page that you looked up last" if known else ""
    text = f"use {tool.name} ({left[0]} in your own words{where}): {_short_description(tool)}"
    return ActionOption(text=text, tool=tool.name, arguments=known, words=left[0])


def _short_description(tool: ToolDefinition) -> str:
    """Return the first sentence of a tool's description, which the engine wrote."""
    return parsing.cut_text(tool.description.partition(". ")[0].removesuffix("."), DESCRIPTION_CHARS)


def _last_page(name: str, needs: Sequence[str], memory: MemberMemory) -> dict[str, Json]:
    """Return the page whose headings a member saw last in this source: only sections of a known page are read."""
    page = memory.pages.get(name.removesuffix("_section")) if name.endswith("_section") and "page" in needs else None
    return {"page": page} if page else {}


def _is_text_argument(properties: Json, name: str) -> bool:
    schema = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(schema, dict) or schema.get("type") != "string" or "enum" in schema:
        return False
    most = schema.get("maxLength", WORDS_CHARS)
    return isinstance(most, int) and most >= WORDS_CHARS // 2


def _is_new(option: ActionOption, memory: MemberMemory) -> bool:
    return bool(option.words) or use_key(option.tool, option.arguments) not in memory.calls_made


def _goal_suffix(goal: str) -> str:
    return f" for sub-goal {goal}" if goal else ""
