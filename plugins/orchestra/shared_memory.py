"""The memory that the orchestrator and its subagents share within one trial. It ends with the trial.

Every report of a subagent is stored here by code, at once. All of it is in the ledger: each use is a step.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bot.api import (
    Json,
    ToolDefinition,
    ToolResult,
    UnreadableAnswer,
    answer_tool,
    fence_text,
    parsing,
    read_word,
    require_text,
    text_field,
    text_result,
    word_field,
)

MEMORY_TOOL = "shared_memory"
TEXT_CHARS = 2000
TASK_CHARS = 100
# The maximum length of a name, and how much of one is read before it is normalised.
NAME_CHARS, NAME_TEXT = 40, 200
# The entries of one answer: so many, and whole as long as they have no more characters together.
MAX_SHOWN, WHOLE_CHARS = 10, 8000
LINE_CHARS = 300
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


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
        """The entry in a line, a long text shortened."""
        return f"{self._head} {parsing.cut_line(self.text, LINE_CHARS)}"

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

    def add_entry(self, *, author: str, category: MemoryCategory, task: str, text: str, step: int) -> str:
        """Store an entry and return its name."""
        self.names_given += 1
        name = f"M{self.names_given}"
        self.entries[name] = MemoryEntry(
            name=name, author=author, category=category, task=parsing.cut_text(task, TASK_CHARS), step=step, text=text
        )
        while len(self.entries) > self.most:
            del self.entries[next(iter(self.entries))]
        return name

    def use(self, author: str, arguments: Mapping[str, Json], *, step: int) -> ToolResult:
        """Do one operation for an author; invalid arguments give a failed result."""
        try:
            operation = read_word(MemoryOperation, arguments.get("operation"), "operation")
            self.uses[operation] += 1
            return self._use(operation, author, arguments, step)
        except UnreadableAnswer as error:
            return text_result(str(error), failed=True)

    def newest_text(self, most: int = MAX_SHOWN) -> str:
        """Return the newest entries in full."""
        return "\n\n".join(entry.whole for entry in list(self.entries.values())[-most:])

    def _use(self, operation: MemoryOperation, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        match operation:
            case MemoryOperation.STORE:
                text = require_text(arguments, "text", TEXT_CHARS)
                category = read_word(MemoryCategory, arguments.get("category"), "category")
                task = parsing.read_text(arguments.get("task"), TASK_CHARS)
                name = self.add_entry(author=author, category=category, task=task, text=text, step=step)
                return text_result(f"stored as {name}")
            case MemoryOperation.UPDATE:
                return self._update(author, arguments, step)
            case MemoryOperation.GET:
                return _fenced_result(self._entry(arguments).whole)
            case MemoryOperation.STATS | MemoryOperation.CATEGORIES:
                return text_result(self._counts(operation))
            case _:
                return _list_result(list(self._chosen(operation, arguments)))

    def _update(self, author: str, arguments: Mapping[str, Json], step: int) -> ToolResult:
        found = self._entry(arguments)
        if found.author != author:
            message = f"{found.name} belongs to {found.author}; store an entry of your own instead"
            raise UnreadableAnswer(message)
        text, category = require_text(arguments, "text", TEXT_CHARS), found.category
        if arguments.get("category") is not None:
            category = read_word(MemoryCategory, arguments["category"], "category")
        self.entries[found.name] = replace(found, text=text, category=category, changed=step)
        return text_result(f"{found.name} changed")

    def _entry(self, arguments: Mapping[str, Json]) -> MemoryEntry:
        found = self.entries.get(parsing.read_text(arguments.get("entry"), 10).upper())
        if found is None:
            asked = parsing.abbreviate_json(arguments.get("entry"))
            message = f"there is no entry {asked}; the newest are: {', '.join([*self.entries][-MAX_SHOWN:]) or 'none'}"
            raise UnreadableAnswer(message)
        return found

    def _chosen(self, operation: MemoryOperation, arguments: Mapping[str, Json]) -> Iterable[MemoryEntry]:
        newest = [*reversed(self.entries.values())]
        match operation:
            case MemoryOperation.SEARCH:
                category = arguments.get("category") and read_word(MemoryCategory, arguments["category"], "category")
                within = [entry for entry in newest if not category or entry.category is category]
                return search_entries(within, parsing.read_text(arguments.get("text"), TEXT_CHARS))
            case MemoryOperation.TASK_HISTORY:
                task = parsing.read_text(arguments.get("task"), TASK_CHARS).casefold()
                return reversed([entry for entry in newest if task and task in entry.task.casefold()])
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


def normalize_name(raw: str) -> str:
    """Return a name normalised to small letters, digits and _, so that all spellings of a model mean the same."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", raw.lower()) if not unicodedata.combining(one))
    return _NOT_IN_NAMES.sub("_", bare).strip("_")[:NAME_CHARS].rstrip("_")


def search_entries(entries: Iterable[MemoryEntry], query: str) -> list[MemoryEntry]:
    """Return the entries that share words with the query, those with the most first; all for an empty query."""
    wanted = parsing.significant_words(query)
    scored = [(len(wanted & parsing.significant_words(f"{entry.task} {entry.text}")), entry) for entry in entries]
    return [entry for score, entry in sorted(scored, key=lambda pair: -pair[0]) if score or not wanted]


def memory_tool() -> ToolDefinition:
    """Return the memory as a tool."""
    properties: dict[str, Json] = {
        "operation": word_field(MemoryOperation),
        "text": text_field(TEXT_CHARS, "what to store, or the words to search for"),
        "category": word_field(MemoryCategory),
        "task": text_field(TASK_CHARS, "a short name of the task, or words of it"),
        "entry": text_field(10, "the name of an entry, such as M3"),
        "agent": text_field(TASK_CHARS),
    }
    return answer_tool(
        MEMORY_TOOL,
        "The memory that all share, with every report. store: text and category (task if you have one); search: text "
        "(and category); get: entry; update: entry and text; task_history: task; by_agent: agent; recent, stats and "
        "categories need nothing else.",
        properties,
        required=("operation",),
    )


def _list_result(found: Sequence[MemoryEntry]) -> ToolResult:
    """Return entries: whole ones as far as there is room, and of the others a line each."""
    if not found:
        return text_result("nothing of that kind is in the shared memory")
    parts, room = list[str](), WHOLE_CHARS
    for entry in found[:MAX_SHOWN]:
        room -= len(entry.whole)
        parts.append(entry.whole if room >= 0 else entry.line)
    more = f"\n({len(found) - MAX_SHOWN} more; search with other words)" if len(found) > MAX_SHOWN else ""
    return _fenced_result("\n\n".join(parts), more)


def _fenced_result(text: str, more: str = "") -> ToolResult:
    # An entry may repeat what its author read on the web, so it is as untrusted as the page itself.
    return text_result(fence_text(text, "shared memory") + more)
