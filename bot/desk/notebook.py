"""What a trial remembers between its tools: results found, addresses that may be read, what was used and caught.

Each use of a tool leaves a note, which is on record with its result: a trial that is taken up reads its notes again
and stands where it stood. Most of what is in them is never asked for, so it is read when it is.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.desk.addresses import address_of
from bot.desk.leaks.caught import Caught
from bot.desk.record import Record
from bot.store.codec import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A result as the model was shown it: the exchange that holds it in full, and its place in it, from 0.

    ``checked`` says that its text was judged and may be read.
    """

    exchange: str
    place: int
    url: str
    checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What one use of a tool leaves behind; ``search`` is the number of a search from 1, 0 where there was none."""

    search: int = 0
    found: tuple[Found, ...] = ()
    addresses: tuple[str, ...] = ()
    caught: Caught = field(default_factory=Caught)


NOTE: Form[Note] = Form("note", Note)
_FOUND: Form[Sequence[Found]] = Form("list of results that were shown", tuple[Found, ...])
_CAUGHT: Form[Caught] = Form("count of what was caught", Caught)


@dataclass(slots=True)
class Notebook:
    """The notes of a trial so far."""

    used: set[str] = field(default_factory=set)
    caught: Caught = field(default_factory=Caught)
    next_search: int = 1
    _results: dict[int, Sequence[Any]] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _unread: deque[str] = field(default_factory=deque)

    @property
    def known(self) -> Mapping[str, str]:
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
    def searches(self) -> Mapping[int, Sequence[Found]]:
        """The searches by number, with what each found."""
        return {number: _FOUND.value(found) for number, found in self._results.items()}

    @property
    def search_count(self) -> int:
        """How many searches there were."""
        return len(self._results)

    @property
    def found_anything(self) -> bool:
        """Whether any search had a result."""
        return any(self._results.values())

    def number(self) -> int:
        """Return the number of a search that begins; it counts from now on, whatever becomes of it."""
        number = self.next_search
        self.next_search += 1
        self._results[number] = ()
        return number

    def add(self, tool: str, note: Mapping[str, Any]) -> None:
        """Remember what a use of a tool left behind: a ``Note`` as it is on record."""
        self.used.add(tool)
        if search := note.get("search", 0):
            self._results[search] = note.get("found", ())
            self.next_search = max(self.next_search, search + 1)
        if "caught" in note:
            self.caught += _CAUGHT.value(note["caught"])
        self.learn(note.get("addresses", ()))

    def learn(self, addresses: Iterable[str]) -> None:
        """Let these addresses be read."""
        self._unread.extend(addresses)

    def keep_clear_of(self, record: Record) -> None:
        """Let new searches have numbers above all those on record, in whatever order those are told again."""
        numbers = (told["note"].get("search", 0) for told in record.of_kind("tool"))
        self.next_search = max((self.next_search, *(number + 1 for number in numbers)))

    def _read_one(self) -> None:
        url = self._unread.popleft()
        if (address := address_of(url)) is not None:
            self._known.setdefault(address.key, url)
