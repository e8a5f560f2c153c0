"""What a trial remembers between its tools: results found, addresses that may be read, what was used and caught.

Each use of a tool leaves a note, which is on record with its result: a trial that is taken up reads its notes again
and stands where it stood.
"""

from dataclasses import dataclass, field

from bot.desk.addresses import address_of
from bot.desk.leaks.caught import Caught
from bot.desk.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A result as the model was shown it: the exchange that holds it in full, and its place in it, from 0."""

    exchange: str
    place: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What one use of a tool leaves behind; ``search`` is the number of a search from 1, 0 where there was none."""

    search: int = 0
    found: tuple[Found, ...] = ()
    addresses: tuple[str, ...] = ()
    caught: Caught = field(default_factory=Caught)


@dataclass(slots=True)
class Notebook:
    """The notes of a trial so far. ``known`` maps the key of an address to the address as it was found."""

    known: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    searches: dict[int, tuple[Found, ...]] = field(default_factory=dict)
    caught: Caught = field(default_factory=Caught)
    next_search: int = 1

    def number(self) -> int:
        """Return the number of a search that begins; it counts from now on, whatever becomes of it."""
        number = self.next_search
        self.next_search += 1
        self.searches[number] = ()
        return number

    def add(self, tool: str, note: Note) -> None:
        """Remember what a use of a tool left behind."""
        self.used.add(tool)
        if note.search:
            self.searches[note.search] = note.found
            self.next_search = max(self.next_search, note.search + 1)
        self.caught += note.caught
        self.learn(note.addresses)

    def learn(self, addresses: tuple[str, ...]) -> None:
        """Let these addresses be read."""
        for url in addresses:
            if (address := address_of(url)) is not None:
                self.known.setdefault(address.key, url)

    def keep_clear_of(self, record: Record) -> None:
        """Let new searches have numbers above all those on record, in whatever order those are told again."""
        numbers = (told["note"].get("search", 0) for told in record.of_kind("tool"))
        self.next_search = max((self.next_search, *(number + 1 for number in numbers)))
