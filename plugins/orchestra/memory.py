"""The memory that the orchestrator and its subagents share within one trial. It ends with the trial.

All of it is in the ledger: each use of it is a step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bot.api import Json, Observation, Tool, ToolResult, quoted, reading
from plugins.orchestra.shapes import described, plain_name, text_of, words_of

NAME = "shared_memory"
TEXT_CHARS = 2000
TASK_CHARS = 100
SHOWN = 10
LINE_CHARS = 300


class Category(StrEnum):
    """What an entry is about."""

    RESEARCH = "research"
    ANALYSIS = "analysis"
    FORECAST_DATA = "forecast_data"
    DECISIONS = "decisions"
    PROGRESS = "progress"
    ERRORS = "errors"
    COORDINATION = "coordination"


class Operation(StrEnum):
    """What can be done with the memory."""

    STORE = "store"
    SEARCH = "search"
    GET = "get"
    RECENT = "recent"
    TASK_HISTORY = "task_history"
    UPDATE = "update"
    STATS = "stats"
    CATEGORIES = "categories"
    BY_AGENT = "by_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: who wrote it for which task, at which step of the trial, and the step of its last change."""

    name: str
    author: str
    category: Category
    task: str
    step: int
    text: str
    changed: int | None = None

    @property
    def line(self) -> str:
        """The entry in a line, its text cut."""
        text = " ".join(self.text.split())
        return f"{self._head} {text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + '...'}"

    @property
    def whole(self) -> str:
        """The entry with all of its text."""
        return f"{self._head}\n{self.text}"

    @property
    def _head(self) -> str:
        task = f", task {self.task}" if self.task else ""
        changed = f", changed at step {self.changed}" if self.changed is not None else ""
        return f"{self.name} [{self.category}] by {self.author}{task}, step {self.step}{changed}:"


@dataclass(slots=True, kw_only=True)
class SharedMemory:
    """The entries of one trial, oldest first; of more than ``most`` the oldest are forgotten."""

    most: int
    entries: dict[str, Entry] = field(default_factory=dict)
    given: int = 0
    uses: Counter[str] = field(default_factory=Counter)

    def use(self, author: str, arguments: Mapping[str, Json], *, step: int) -> ToolResult:
        """Do one operation for an author; what is wrong with the arguments comes as a failed result."""
        try:
            operation = Operation(reading.text(arguments.get("operation"), 20))
        except ValueError:
            return _failed(f"operation should be one of {', '.join(Operation)}")
        self.uses[operation] += 1
        match operation:
            case Operation.STORE:
                return self._store(author, arguments, step)
            case Operation.UPDATE:
                return self._update(author, arguments, step)
            case Operation.GET:
                found = self.entries.get(reading.text(arguments.get("entry"), 10).upper())
                return _told(found.whole, "shared memory") if found else self._missing(arguments)
            case Operation.STATS | Operation.CATEGORIES:
                return ToolResult(observation=Observation(text=self._counts(operation)))
            case _:
                return self._listed(operation, arguments)

    def told(self, most: int = SHOWN) -> str:
        """Return the newest entries, whole."""
        return "\n\n".join(entry.whole for entry in list(self.entries.values())[-most:])

    def _store(self, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        text = reading.text(arguments.get("text"), TEXT_CHARS)
        if not text:
            return _failed("text is missing: what is to be stored?")
        category = _category(arguments)
        if category is None:
            return _failed(f"category should be one of {', '.join(Category)}")
        self.given += 1
        name = f"M{self.given}"
        task = reading.text(arguments.get("task"), TASK_CHARS)
        self.entries[name] = Entry(name=name, author=author, category=category, task=task, step=step, text=text)
        while len(self.entries) > self.most:
            del self.entries[next(iter(self.entries))]
        return ToolResult(observation=Observation(text=f"stored as {name}"))

    def _update(self, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        found = self.entries.get(reading.text(arguments.get("entry"), 10).upper())
        if found is None:
            return self._missing(arguments)
        if found.author != author:
            return _failed(f"{found.name} belongs to {found.author}; store an entry of your own instead")
        if not (text := reading.text(arguments.get("text"), TEXT_CHARS)):
            return _failed("text is missing: what should stand there?")
        category = _category(arguments) or found.category
        self.entries[found.name] = replace(found, text=text, category=category, changed=step)
        return ToolResult(observation=Observation(text=f"{found.name} changed"))

    def _missing(self, arguments: Mapping[str, Json]) -> ToolResult:
        asked = reading.short(arguments.get("entry"))
        known = ", ".join(list(self.entries)[-SHOWN:]) or "none yet"
        return _failed(f"there is no entry {asked}; the newest are: {known}")

    def _listed(self, operation: Operation, arguments: Mapping[str, Json]) -> ToolResult:
        found = list(self._chosen(operation, arguments))
        if not found:
            return ToolResult(observation=Observation(text="nothing of that kind is in the shared memory"))
        shown = found[:SHOWN]
        more = f"\n({len(found) - len(shown)} more; search with other words)" if len(found) > len(shown) else ""
        return _told("\n".join(entry.line for entry in shown), "shared memory", more)

    def _chosen(self, operation: Operation, arguments: Mapping[str, Json]) -> Iterable[Entry]:
        newest = [*reversed(self.entries.values())]
        match operation:
            case Operation.SEARCH:
                category = _category(arguments)
                within = [entry for entry in newest if category is None or entry.category is category]
                return by_words(within, reading.text(arguments.get("text"), TEXT_CHARS))
            case Operation.TASK_HISTORY:
                task = reading.text(arguments.get("task"), TASK_CHARS)
                return reversed([entry for entry in newest if entry.task == task])
            case Operation.BY_AGENT:
                agent = plain_name(reading.text(arguments.get("agent"), TASK_CHARS))
                return [entry for entry in newest if entry.author == agent]
            case _:
                return newest

    def _counts(self, operation: Operation) -> str:
        entries = self.entries.values()
        by_category = Counter(entry.category for entry in entries)
        lines = [f"{category}: {by_category[category]}" for category in Category]
        if operation is Operation.CATEGORIES:
            return "\n".join(lines)
        authors = Counter(entry.author for entry in entries)
        written = ", ".join(f"{author} {count}" for author, count in sorted(authors.items())) or "nobody"
        used = ", ".join(f"{name} {count}" for name, count in sorted(self.uses.items()))
        return "\n".join([f"{len(entries)} of at most {self.most} entries", *lines, f"by: {written}", f"used: {used}"])


def by_words(entries: Iterable[Entry], query: str) -> list[Entry]:
    """Return the entries that share words with the query, those with the most first; all for an empty query."""
    wanted = words(query)
    scored = [(len(wanted & words(f"{entry.task} {entry.text}")), entry) for entry in entries]
    return [entry for score, entry in sorted(scored, key=lambda pair: -pair[0]) if score or not wanted]


def words(text: str) -> frozenset[str]:
    """Return the words of a text that say something, in lower case."""
    return frozenset(_said(text))


def memory_tool() -> Tool:
    """Return the memory as a tool."""
    properties: dict[str, Json] = {
        "operation": words_of(Operation),
        "text": text_of(TEXT_CHARS, "what to store, or the words to search for"),
        "category": words_of(Category),
        "task": text_of(TASK_CHARS, "a short name of the task"),
        "entry": text_of(10, "the name of an entry, such as M3"),
        "agent": text_of(TASK_CHARS),
    }
    return described(
        NAME,
        "The memory shared by everybody in this work. store: text and category (task if you have one); search: text "
        "(and category); get: entry; update: entry and text; task_history: task; by_agent: agent; recent, stats and "
        "categories need nothing else.",
        properties,
        required=("operation",),
    )


def _said(text: str) -> Iterator[str]:
    for word in re.findall(r"\w+", text.casefold()):
        # Words of one and two letters stand in every text; figures say something whatever their length.
        if len(word) > 2 or word.isdigit():
            yield word


def _category(arguments: Mapping[str, Json]) -> Category | None:
    try:
        return Category(reading.text(arguments.get("category"), 20))
    except ValueError:
        return None


def _told(text: str, label: str, more: str = "") -> ToolResult:
    # What one of them read on the web may have been written into it: no less foreign than the page itself.
    return ToolResult(observation=Observation(text=quoted(text, label) + more))


def _failed(why: str) -> ToolResult:
    return ToolResult(observation=Observation(text=why), failed=True)
