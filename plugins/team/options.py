"""The actions that are legal for a member now, as a list to choose from: nothing else can be done.

Of the tools only those that the desk offers at this moment come in, with arguments that fit their schemas; what a
quota, the cutoff or a policy keeps back is not there to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from bot.api import Json, Tool
from plugins.team.memory import LOOKUP, SEARCH, SUMMARISE, Board, Found, Memory, use_key
from plugins.team.settings import Goal

WORDS_CHARS = 400
SAYS_CHARS = 120
# So many results are read together at most.
TOGETHER = 3
# More would not be read with care; letters would run out as well.
MOST_OPTIONS = 24


class Kind(StrEnum):
    """What an action is; the value is its name in the ledger, but for the use of a tool, which has the tool's."""

    MESSAGE = "send_message"
    TOOL = "use_tool"
    BELIEF = "state_belief"
    SUBMIT = "submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One legal action, in the words of the list.

    ``words`` names the argument that the member fills in its own words, ``unsaid`` is what stands there if it leaves
    that empty ("" where it may not); ``reads`` are the labels of the results that will have been read.
    """

    text: str
    kind: Kind = Kind.TOOL
    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    words: str = ""
    unsaid: str = ""
    goal: str = ""
    reads: tuple[str, ...] = ()

    def with_words(self, said: str) -> Mapping[str, Json]:
        """Return the arguments of the tool, with the member's words where it is asked for some."""
        return {**self.arguments, self.words: said or self.unsaid} if self.words else self.arguments


SUBMIT = Option(text="submit the belief you have now and be done", kind=Kind.SUBMIT)
STATE = Option(text="state anew what you believe, in the light of what you know and heard", kind=Kind.BELIEF)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a member's list is made from. ``draft`` is the message it may send now, "" where it may send none.

    ``last`` says that it is the last joint step, ``news`` that something came up since the member stated its belief.
    """

    tools: Sequence[Tool]
    memory: Memory
    board: Board
    who: str
    title: str
    draft: str = ""
    last: bool = False
    news: bool = True
    listed: int = 4


def legal(view: View) -> list[Option]:
    """Return the actions that are legal now, the message first and submitting last.

    In the last joint step nothing is left but to say what is believed: anew, where something came up.
    """
    if view.last:
        return [STATE if view.news else SUBMIT]
    actions: list[Option] = []
    if view.draft:
        sent = {"text": view.draft}
        actions.append(Option(text=f'send a message: "{view.draft}"', kind=Kind.MESSAGE, arguments=sent))
    uses = [option for option in _uses(view) if _is_new(option, view.memory)]
    return [*actions, *uses[: MOST_OPTIONS - 3], *([STATE] if view.news else []), SUBMIT]


def reading_of(search: int, view: View) -> Option | None:
    """Return the reading of what a search found, if that is legal now: what a member goes on with after a search."""
    return next((option for option in _uses(view) if option.tool == SUMMARISE and _is_of(option, search)), None)


def _is_of(option: Option, search: int) -> bool:
    return option.arguments.get("search_index") == search


def _uses(view: View) -> Iterator[Option]:
    offered = {tool.name: tool for tool in view.tools}
    goals = view.board.open_for(view.who)
    asks = {goal.name: goal.ask for goal in view.board.goals}
    if SUMMARISE in offered:
        yield from _readings(view.memory.unread, asks)
    if LOOKUP in offered:
        for found in [found for found in view.memory.unread if found.url][: view.listed]:
            said = f"open the page of {found.label}{_for(found.goal)}"
            yield Option(text=said, tool=LOOKUP, arguments={"url": found.url}, goal=found.goal, reads=(found.label,))
    if SEARCH in offered:
        yield from (_search(goal, view.title) for goal in goals[: view.listed])
    for tool in view.tools:
        if tool.name not in {SEARCH, SUMMARISE, LOOKUP} and (option := _plain_use(tool, view.memory)) is not None:
            yield option


def _readings(unread: Sequence[Found], asks: Mapping[str, str]) -> Iterator[Option]:
    """Yield a reading for each search with results that were not read, the newest search first."""
    newest = sorted(unread, key=lambda found: (-found.search, found.place))
    for search, group in groupby(newest, key=lambda found: found.search):
        found = list(group)[:TOGETHER]
        goal = found[0].goal
        places: list[Json] = [one.place for one in found]
        labels = tuple(one.label for one in found)
        yield Option(
            text=f"read {', '.join(labels)}{_for(goal)}",
            tool=SUMMARISE,
            arguments={
                "search_index": search,
                "result_indices": places,
                "question": asks.get(goal) or "What bears on the question?",
            },
            goal=goal,
            reads=labels,
        )


def _search(goal: Goal, title: str) -> Option:
    return Option(
        text=f"search the web for sub-goal {goal.name} in your own words",
        tool=SEARCH,
        words="query",
        unsaid=" ".join(f"{title} {goal.words}".split())[:WORDS_CHARS],
        goal=goal.name,
    )


def _plain_use(tool: Tool, memory: Memory) -> Option | None:
    """Return the use of a tool that needs nothing, or one text that the member can word; None for any other."""
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    needs = [name for name in (required if isinstance(required, list) else []) if isinstance(name, str)]
    if not needs:
        return Option(text=f"use {tool.name}: {_says(tool)}", tool=tool.name)
    known = _known_page(tool.name, needs, memory)
    left = [name for name in needs if name not in known]
    if len(left) != 1 or not _is_text(properties, left[0]):
        return None
    where = ", on the page that you looked up last" if known else ""
    said = f"use {tool.name} ({left[0]} in your own words{where}): {_says(tool)}"
    return Option(text=said, tool=tool.name, arguments=known, words=left[0])


def _says(tool: Tool) -> str:
    """Return the first sentence of what a tool says of itself, which the desk wrote."""
    return tool.description.partition(". ")[0].removesuffix(".")[:SAYS_CHARS]


def _known_page(name: str, needs: Sequence[str], memory: Memory) -> dict[str, Json]:
    """Return the page whose headings a member saw last in this source: sections are read of a page that is known."""
    page = memory.pages.get(name.removesuffix("_section")) if name.endswith("_section") and "page" in needs else None
    return {"page": page} if page else {}


def _is_text(properties: Json, name: str) -> bool:
    schema = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(schema, dict) or schema.get("type") != "string" or "enum" in schema:
        return False
    most = schema.get("maxLength", WORDS_CHARS)
    return isinstance(most, int) and most >= WORDS_CHARS // 2


def _is_new(option: Option, memory: Memory) -> bool:
    return bool(option.words) or use_key(option.tool, option.arguments) not in memory.done


def _for(goal: str) -> str:
    return f" for sub-goal {goal}" if goal else ""
