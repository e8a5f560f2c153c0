"""What each member knows: facts, what it searched, read, and found but has not read; and what the team has settled.

The question itself is an immutable record that all share. What a member found is its own, until it tells the others or
a fact of its settles a sub-goal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from bot.api import Evidence, Json
from plugins.team.settings import Goal
from plugins.team.talk import normal

# The fence around a search result, as the desk makes it; no text within one can imitate it.
_RESULT = re.compile(r'<untrusted-([0-9a-f]+) label="(search_(\d+)_result_(\d+))">\n(.*?)\n</untrusted-\1>', re.DOTALL)
_LABEL = re.compile(r'<untrusted-[0-9a-f]+ label="([^"]+)">')
_ADDRESS = re.compile(r"https?://[^\s<>\"'()]+")
QUESTION = "question"
SEARCH, SUMMARISE, LOOKUP = "web_search", "summarize_results", "lookup_url"
_SHOWS_SOURCES = frozenset({SEARCH, SUMMARISE, LOOKUP})
# The beginning of the names of tools that read pages of a reference work.
_PAGES = "fetch_"
# How the desk calls the tool that lists the headings of a page of some source.
_HEADINGS = "_toc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact, the source that it names, whom it was found by, and the sub-goal that it settles ("" for none)."""

    text: str
    source: str
    who: str
    goal: str = ""
    against: bool = False

    @property
    def evidence(self) -> Evidence:
        """The fact as the ledger records it."""
        return Evidence(text=f"{self.text} ({self.who})", source=self.source)


@dataclass(frozen=True, slots=True)
class Found:
    """A result of a search that was shown by its excerpt alone; ``head`` is its title, in the words of others."""

    search: int
    place: int
    head: str
    url: str
    goal: str

    @property
    def label(self) -> str:
        """The name that the desk gave it."""
        return f"search_{self.search}_result_{self.place}"


@dataclass(slots=True, kw_only=True)
class Memory:
    """The memory of one member.

    ``done`` are the uses of tools so far, ``sources`` what its facts may name, ``pages`` the page that it saw the
    headings of last, by the beginning of the name of the tool.
    """

    facts: list[Fact] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    unread: list[Found] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    pages: dict[str, str] = field(default_factory=dict)

    def do(self, tool: str, arguments: Mapping[str, Json]) -> None:
        """Remember a use of a tool that begins, whatever comes of it."""
        self.done.add(use_key(tool, arguments))
        if isinstance(query := arguments.get("query"), str):
            self.searched.append(query)
        if tool.endswith(_HEADINGS) and isinstance(page := arguments.get("page"), str):
            self.pages[tool.removesuffix(_HEADINGS)] = page

    def learn(self, tool: str, text: str, goal: str, *, url: str = "") -> None:
        """Remember what a use of a tool showed: what can be cited from now on, and what can be read.

        ``url`` is the address that was read, if one was. Only search results and pages have names and addresses of
        their own; of any other tool it is the tool that is cited, whatever its text says. An address that a page only
        mentions was not read, and is no source.
        """
        self.sources |= {tool, url} if url else {tool}
        if tool in _SHOWS_SOURCES or tool.startswith(_PAGES):
            self.sources.update(_LABEL.findall(text))
        if tool.startswith(_PAGES):
            self.sources.update(_addresses(text)[:1])
        if tool == SEARCH:
            self._find(text, goal)

    def _find(self, text: str, goal: str) -> None:
        known = {found.label for found in self.unread} | set(self.read)
        for _, label, search, place, body in _RESULT.findall(text):
            head, _, rest = body.partition("\n")
            address = next(iter(_addresses(rest.partition("\n")[0])), "")
            self.sources |= {address} if address else set()
            if label not in known:
                self.unread.append(Found(int(search), int(place), head, address, goal))

    def have_read(self, labels: Iterable[str]) -> None:
        """Take these off what is not yet read."""
        known = {*labels}
        self.read += [found.label for found in self.unread if found.label in known]
        self.unread = [found for found in self.unread if found.label not in known]

    def knows_source(self, source: str) -> bool:
        """Whether a fact may name this: something that was shown to the member, in its own words or the desk's."""
        named = {part for part in (source, *_addresses(source), *re.findall(r"[\w:.-]+", source)) if part}
        return bool(named & self.sources)


@dataclass(slots=True, kw_only=True)
class Board:
    """The sub-goals of the team: whose each is, and the fact that settled it."""

    goals: tuple[Goal, ...]
    owner: dict[str, str] = field(default_factory=dict)
    reached: dict[str, Fact] = field(default_factory=dict)

    def share_out(self, names: Sequence[str]) -> None:
        """Deal the open sub-goals to these members in turn; those that one of them owns stay its own."""
        homeless = [goal for goal in self.open() if self.owner.get(goal.name) not in names]
        held = {name: sum(self.owner.get(goal.name) == name for goal in self.open()) for name in names}
        # Who has least comes first, in the order of the team.
        for goal, name in zip(homeless, cycle(sorted(names, key=lambda name: held[name])), strict=False):
            self.owner[goal.name] = name

    def open(self) -> list[Goal]:
        """Return the sub-goals that are not reached, in their order."""
        return [goal for goal in self.goals if goal.name not in self.reached]

    def open_for(self, who: str) -> list[Goal]:
        """Return what a member works on: its own open sub-goals, else those of the others."""
        return [goal for goal in self.open() if self.owner.get(goal.name) == who] or self.open()

    def settle(self, fact: Fact) -> bool:
        """Mark a sub-goal reached by a fact; False where it is none, or was reached before."""
        if not fact.goal or not fact.source or fact.goal not in {goal.name for goal in self.open()}:
            return False
        self.reached[fact.goal] = fact
        return True

    @property
    def efficiency(self) -> float:
        """The share of the sub-goals that were reached: what the Transport Rate is where things are carried."""
        return len(self.reached) / len(self.goals)


def use_key(tool: str, arguments: Mapping[str, Json]) -> str:
    """Return the name of a use of a tool: two that differ in nothing but case and signs have the same."""
    told = {name: normal(value) if isinstance(value, str) else value for name, value in arguments.items()}
    return f"{tool} {json.dumps(told, sort_keys=True)}"


def _addresses(text: str) -> list[str]:
    return [address.rstrip(".,;") for address in _ADDRESS.findall(text)]
