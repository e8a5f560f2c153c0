"""The state of a trial that decides which tools it may use: its recorded opening, and its memory of tool calls.

The opening stays the same when the trial is resumed under another configuration. The memory holds search results,
addresses that may be read, used tools and counts of what the leak guard filtered out; it is rebuilt from the record.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from bot.core.errors import LeakError
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.research import SourcePolicy
from bot.forecasting.recording import TrialRecording
from bot.forecasting.web_addresses import parse_address
from bot.store.serialization import JsonSerializer

WEB_SEARCH = "web_search"
SUMMARIZE_RESULTS = "summarize_results"
LOOKUP_URL = "lookup_url"
# The only tools that an obstacle of their own may hinder (``TrialOpening.find_obstacle``).
_HINDERED_TOOLS = frozenset({WEB_SEARCH, SUMMARIZE_RESULTS, LOOKUP_URL})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCounts:
    """How many items were left out: by date, by content, by clamping data at the cutoff, by address, or unchecked.

    ``unchecked`` counts what the judging model did not mention.
    """

    dates: int = 0
    content: int = 0
    clamped: int = 0
    blocked: int = 0
    unchecked: int = 0

    def __add__(self, other: "FilterCounts") -> "FilterCounts":
        if other is NOTHING_CAUGHT:
            return self
        return FilterCounts(
            dates=self.dates + other.dates,
            content=self.content + other.content,
            clamped=self.clamped + other.clamped,
            blocked=self.blocked + other.blocked,
            unchecked=self.unchecked + other.unchecked,
        )

    def describe(self, what: str = "results") -> str:
        """Return one line for the model, empty if nothing was left out; ``what`` names the items in the plural."""
        if self is NOTHING_CAUGHT:
            return ""
        reasons = {
            "dated after the cutoff": self.dates,
            "reporting what happened after the cutoff": self.content,
            "on or after the cutoff": self.clamped,
            "from an address that is not read for this question": self.blocked,
            "not checked for information from after the cutoff": self.unchecked,
        }
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
        return f"{what} left out: {counts}" if counts else ""


NOTHING_CAUGHT = FilterCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """A result as the model saw it: the exchange that holds it in full, and its index in it, from 0.

    ``checked`` says that its text was judged and may be read.
    """

    exchange: str
    place: int
    url: str
    checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallNote:
    """The note of one tool call; ``search`` is the number of a search from 1, 0 if there was none."""

    search: int = 0
    found: tuple[ShownResult, ...] = ()
    addresses: tuple[str, ...] = ()
    caught: FilterCounts = NOTHING_CAUGHT


NOTE_SERIALIZER: JsonSerializer[ToolCallNote] = JsonSerializer("note", ToolCallNote)
_RESULTS_SERIALIZER: JsonSerializer[Sequence[ShownResult]] = JsonSerializer(
    "list of results that were shown", tuple[ShownResult, ...]
)
_COUNTS_SERIALIZER: JsonSerializer[FilterCounts] = JsonSerializer("count of what was caught", FilterCounts)


@dataclass(slots=True)
class TrialMemory:
    """The notes of a trial so far."""

    used_tools: set[str] = field(default_factory=set)
    filtered: FilterCounts = NOTHING_CAUGHT
    next_search: int = 1
    _results: dict[int, Sequence[Any]] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _unread: deque[str] = field(default_factory=deque)

    @property
    def readable_addresses(self) -> Mapping[str, str]:
        """The addresses that may be read: the key of each, and the address as it was found."""
        while self._unread:
            self._read_one()
        return self._known

    @property
    def knows_addresses(self) -> bool:
        """Whether any address may be read."""
        while self._unread and not self._known:
            self._read_one()
        return bool(self._known)

    @property
    def searches(self) -> Mapping[int, Sequence[ShownResult]]:
        """The searches by number, with the results of each."""
        return {number: _RESULTS_SERIALIZER.value(found) for number, found in self._results.items()}

    @property
    def search_count(self) -> int:
        """How many searches there were."""
        return len(self._results)

    @property
    def found_anything(self) -> bool:
        """Whether any search had a result."""
        return any(self._results.values())

    def begin_search(self) -> int:
        """Return the number of a new search; it counts from now on, even if the search fails."""
        number = self.next_search
        self.next_search += 1
        self._results[number] = ()
        return number

    def add_note(self, tool: str, note: Mapping[str, Any]) -> None:
        """Remember the note of a tool call: a ``ToolCallNote`` as it is on record."""
        self.used_tools.add(tool)
        if search := note.get("search", 0):
            self._results[search] = note.get("found", ())
            self.next_search = max(self.next_search, search + 1)
        if "caught" in note:
            self.filtered += _COUNTS_SERIALIZER.value(note["caught"])
        self.allow_addresses(note.get("addresses", ()))

    def allow_addresses(self, addresses: Iterable[str]) -> None:
        """Allow reading these addresses."""
        self._unread.extend(addresses)

    def skip_recorded_searches(self, record: TrialRecording) -> None:
        """Give new searches numbers above all recorded ones, whose order may differ when they are repeated."""
        numbers = (value["note"].get("search", 0) for value in record.values_of_kind("tool"))
        self.next_search = max((self.next_search, *(number + 1 for number in numbers)))

    def _read_one(self) -> None:
        url = self._unread.popleft()
        if (address := parse_address(url)) is not None:
            self._known.setdefault(address.key, url)


REMEDY = "undo the change, or begin again (a backtest under another --run)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOpening:
    """The policy, all tools that it allows, the addresses that may be read from the beginning, and the guards.

    ``bound`` is the moment before which data is requested, ``content`` whether a model judges texts by their content,
    ``guarded`` whether the leak guards are on. ``configuration`` is the digest of the configuration of the
    trial context.
    """

    policy: SourcePolicy = field(default_factory=SourcePolicy)
    tools: tuple[ToolDefinition, ...] = ()
    addresses: tuple[str, ...] = ()
    bound: datetime
    backdated: bool = False
    content: bool = False
    guarded: bool = True
    configuration: str = ""

    def require_same_guard(self, *, guarded: bool, cutoff: datetime, whose: str) -> None:
        """Raise LeakError if the trial may have seen more than it may see now, or may now see more than it did."""
        if self.guarded != guarded:
            began = (
                "under guard against knowing the future" if self.guarded else "without guard against knowing the future"
            )
            message = f"{whose} began {began} and cannot continue otherwise: {REMEDY}"
            raise LeakError(message)
        if guarded and self.bound > cutoff:
            message = (
                f"{whose} began with what was known before {self.bound.isoformat()}, and its cutoff is "
                f"{cutoff.isoformat()} now: {REMEDY}"
            )
            raise LeakError(message)

    def offered_tools(self, memory: TrialMemory) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be used now."""
        if self.policy.first is not None:
            return tuple([tool for tool in self.tools if self.find_obstacle(tool.name, memory) is None])
        # The others have no obstacle then, and this runs twice a step.
        return tuple(
            [
                tool
                for tool in self.tools
                if tool.name not in _HINDERED_TOOLS or self.find_obstacle(tool.name, memory) is None
            ]
        )

    def find_obstacle(self, name: str, memory: TrialMemory) -> str | None:
        """Say in words for the model why one of the tools cannot be used now; None if it can."""
        first = self.policy.first
        if (
            first is not None
            and first not in {name, *memory.used_tools}
            and any(one.name == first for one in self.tools)
        ):
            return f"{first} has to be used first"
        if name == WEB_SEARCH:
            return self._search_obstacle(memory)
        if name == SUMMARIZE_RESULTS and not memory.found_anything:
            return "no search has found anything that could be read"
        if name == LOOKUP_URL and self.backdated and not memory.knows_addresses:
            return "no address is known yet; those of search results and of pages can be read"
        return None

    def _search_obstacle(self, memory: TrialMemory) -> str | None:
        limit = self.policy.searches
        if limit is None or memory.search_count < limit:
            return None
        if limit == 0:
            return "questions of this source are answered without web searches"
        return (
            f"all {limit} web searches of this question are used up" if limit > 1 else "the one web search is used up"
        )


OPENING_SERIALIZER: JsonSerializer[TrialOpening] = JsonSerializer("beginning of a trial", TrialOpening)
