"""What a trial remembers between tool calls.

Search results, addresses that may be read, tools used and counts of what was filtered. It is rebuilt from the record
when a trial is resumed.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.forecasting.leak_guard.filter_counts import FilterCounts
from bot.forecasting.recording import TrialRecording
from bot.forecasting.web_addresses import parse_address
from bot.store.serialization import JsonSerializer


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
    caught: FilterCounts = field(default_factory=FilterCounts)


NOTE_SERIALIZER: JsonSerializer[ToolCallNote] = JsonSerializer("note", ToolCallNote)
_RESULTS_SERIALIZER: JsonSerializer[Sequence[ShownResult]] = JsonSerializer(
    "list of results that were shown", tuple[ShownResult, ...]
)
_COUNTS_SERIALIZER: JsonSerializer[FilterCounts] = JsonSerializer("count of what was caught", FilterCounts)


@dataclass(slots=True)
class TrialMemory:
    """The notes of a trial so far."""

    used_tools: set[str] = field(default_factory=set)
    filtered: FilterCounts = field(default_factory=FilterCounts)
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
        """Give new searches numbers above all those on record, in whatever order those are repeated."""
        numbers = (value["note"].get("search", 0) for value in record.values_of_kind("tool"))
        self.next_search = max((self.next_search, *(number + 1 for number in numbers)))

    def _read_one(self) -> None:
        url = self._unread.popleft()
        if (address := parse_address(url)) is not None:
            self._known.setdefault(address.key, url)
