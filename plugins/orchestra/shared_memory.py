"""The memory that the orchestrator and its subagents share within one trial. It ends with the trial.

All of it is in the ledger: each use of it is a step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bot.api import Json, StepObservation, ToolDefinition, ToolResult, fence_text, parsing
from plugins.orchestra.tool_schemas import define_tool, enum_schema, normalize_name, text_schema

MEMORY_TOOL = "shared_memory"
TEXT_CHARS = 2000
TASK_CHARS = 100
MAX_SHOWN = 10
LINE_CHARS = 300


class MemoryCategory(StrEnum):
    """What an entry is about."""

    RESEARCH = "research"
    ANALYSIS = "analysis"
    FORECAST_DATA = "forecast_data"
    DECISIONS = "decisions"
    PROGRESS = "progress"
    ERRORS = "errors"
    COORDINATION = "coordination"


class MemoryOperation(StrEnum):
    """The operations on the memory."""

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
class MemoryEntry:
    """One entry: who wrote it for which task, at which step of the trial, and the step of its last change."""

    name: str
    author: str
    category: MemoryCategory
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
    """The entries of one trial, oldest first; beyond ``most`` the oldest are forgotten."""

    most: int
    entries: dict[str, MemoryEntry] = field(default_factory=dict)
    names_given: int = 0
    uses: Counter[str] = field(default_factory=Counter)

    def use(self, author: str, arguments: Mapping[str, Json], *, step: int) -> ToolResult:
        """Do one operation for an author; invalid arguments give a failed result."""
        try:
            operation = MemoryOperation(parsing.read_text(arguments.get("operation"), 20))
        except ValueError:
            return _failed_result(f"operation should be one of {', '.join(MemoryOperation)}")
        self.uses[operation] += 1
        match operation:
            case MemoryOperation.STORE:
                return self._store(author, arguments, step)
            case MemoryOperation.UPDATE:
                return self._update(author, arguments, step)
            case MemoryOperation.GET:
                found = self.entries.get(parsing.read_text(arguments.get("entry"), 10).upper())
                return _fenced_result(found.whole, "shared memory") if found else self._missing(arguments)
            case MemoryOperation.STATS | MemoryOperation.CATEGORIES:
                return ToolResult(observation=StepObservation(text=self._counts(operation)))
            case _:
                return self._listed(operation, arguments)

    def newest_text(self, most: int = MAX_SHOWN) -> str:
        """Return the newest entries in full."""
        return "\n\n".join(entry.whole for entry in list(self.entries.values())[-most:])

    def _store(self, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        text = parsing.read_text(arguments.get("text"), TEXT_CHARS)
        if not text:
            return _failed_result("text is missing: what is to be stored?")
        category = _read_category(arguments)
        if category is None:
            return _failed_result(f"category should be one of {', '.join(MemoryCategory)}")
        self.names_given += 1
        name = f"M{self.names_given}"
        task = parsing.read_text(arguments.get("task"), TASK_CHARS)
        self.entries[name] = MemoryEntry(name=name, author=author, category=category, task=task, step=step, text=text)
        while len(self.entries) > self.most:
            del self.entries[next(iter(self.entries))]
        return ToolResult(observation=StepObservation(text=f"stored as {name}"))

    def _update(self, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        found = self.entries.get(parsing.read_text(arguments.get("entry"), 10).upper())
        if found is None:
            return self._missing(arguments)
        if found.author != author:
            return _failed_result(f"{found.name} belongs to {found.author}; store an entry of your own instead")
        if not (text := parsing.read_text(arguments.get("text"), TEXT_CHARS)):
            return _failed_result("text is missing: what should stand there?")
        category = _read_category(arguments) or found.category
        self.entries[found.name] = replace(found, text=text, category=category, changed=step)
        return ToolResult(observation=StepObservation(text=f"{found.name} changed"))

    def _missing(self, arguments: Mapping[str, Json]) -> ToolResult:
        asked = parsing.abbreviate_json(arguments.get("entry"))
        known = ", ".join(list(self.entries)[-MAX_SHOWN:]) or "none yet"
        return _failed_result(f"there is no entry {asked}; the newest are: {known}")

    def _listed(self, operation: MemoryOperation, arguments: Mapping[str, Json]) -> ToolResult:
        found = list(self._chosen(operation, arguments))
        if not found:
            return ToolResult(observation=StepObservation(text="nothing of that kind is in the shared memory"))
        shown = found[:MAX_SHOWN]
        more = f"\n({len(found) - len(shown)} more; search with other words)" if len(found) > len(shown) else ""
        return _fenced_result("\n".join(entry.line for entry in shown), "shared memory", more)

    def _chosen(self, operation: MemoryOperation, arguments: Mapping[str, Json]) -> Iterable[MemoryEntry]:
        newest = [*reversed(self.entries.values())]
        match operation:
            case MemoryOperation.SEARCH:
                category = _read_category(arguments)
                within = [entry for entry in newest if category is None or entry.category is category]
                return search_entries(within, parsing.read_text(arguments.get("text"), TEXT_CHARS))
            case MemoryOperation.TASK_HISTORY:
                task = parsing.read_text(arguments.get("task"), TASK_CHARS)
                return reversed([entry for entry in newest if entry.task == task])
            case MemoryOperation.BY_AGENT:
                agent = normalize_name(parsing.read_text(arguments.get("agent"), TASK_CHARS))
                return [entry for entry in newest if entry.author == agent]
            case _:
                return newest

    def _counts(self, operation: MemoryOperation) -> str:
        entries = self.entries.values()
        by_category = Counter(entry.category for entry in entries)
        lines = [f"{category}: {by_category[category]}" for category in MemoryCategory]
        if operation is MemoryOperation.CATEGORIES:
            return "\n".join(lines)
        authors = Counter(entry.author for entry in entries)
        written = ", ".join(f"{author} {count}" for author, count in sorted(authors.items())) or "nobody"
        used = ", ".join(f"{name} {count}" for name, count in sorted(self.uses.items()))
        return "\n".join([f"{len(entries)} of at most {self.most} entries", *lines, f"by: {written}", f"used: {used}"])


def search_entries(entries: Iterable[MemoryEntry], query: str) -> list[MemoryEntry]:
    """Return the entries that share words with the query, those with the most first; all for an empty query."""
    wanted = significant_words(query)
    scored = [(len(wanted & significant_words(f"{entry.task} {entry.text}")), entry) for entry in entries]
    return [entry for score, entry in sorted(scored, key=lambda pair: -pair[0]) if score or not wanted]


def significant_words(text: str) -> frozenset[str]:
    """Return the significant words of a text, in lower case."""
    return frozenset(_split_words(text))


def memory_tool() -> ToolDefinition:
    """Return the memory as a tool."""
    properties: dict[str, Json] = {
        "operation": enum_schema(MemoryOperation),
        "text": text_schema(TEXT_CHARS, "what to store, or the words to search for"),
        "category": enum_schema(MemoryCategory),
        "task": text_schema(TASK_CHARS, "a short name of the task"),
        "entry": text_schema(10, "the name of an entry, such as M3"),
        "agent": text_schema(TASK_CHARS),
    }
    return define_tool(
        MEMORY_TOOL,
        "The memory shared by everybody in this work. store: text and category (task if you have one); search: text "
        "(and category); get: entry; update: entry and text; task_history: task; by_agent: agent; recent, stats and "
        "categories need nothing else.",
        properties,
        required=("operation",),
    )


def _split_words(text: str) -> Iterator[str]:
    for word in re.findall(r"\w+", text.casefold()):
        # Words of one and two letters are in every text; numbers are significant whatever their length.
        if len(word) > 2 or word.isdigit():
            yield word


def _read_category(arguments: Mapping[str, Json]) -> MemoryCategory | None:
    try:
        return MemoryCategory(parsing.read_text(arguments.get("category"), 20))
    except ValueError:
        return None


def _fenced_result(text: str, label: str, more: str = "") -> ToolResult:
    # An entry may repeat what its author read on the web, so it is as untrusted as the page itself.
    return ToolResult(observation=StepObservation(text=fence_text(text, label) + more))


def _failed_result(why: str) -> ToolResult:
    return ToolResult(observation=StepObservation(text=why), failed=True)
