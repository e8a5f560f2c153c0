"""A page as its sections: headings that tell each other apart, and the text below them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plugins.data.wikipedia.hidden import visible
from plugins.data.wikipedia.wikitext import one_line, plain

LEVELS = range(2, 7)
# Longer headings are mistakes.
MAX_TITLE = 250


@dataclass(frozen=True, slots=True)
class Section:
    """A heading as it is listed and as it reads, and where it stands: its markup, its text, and what is below it."""

    heading: str
    title: str
    at: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that is a heading: how deep it is, what is between its signs, and where it stands."""

    level: int
    markup: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Article:
    """A page without what no reader sees; ``sections`` are in the order of the page, the lead is not among them."""

    text: str
    sections: tuple[Section, ...]

    @property
    def headings(self) -> Sequence[str]:
        """The headings as they are listed; one that comes twice has the heading above it in front."""
        return tuple(section.heading for section in self.sections)

    def under(self, heading: str) -> str | None:
        """Return the plain text under a heading with its sections, before the first one for ""; None for no such."""
        if not heading.strip():
            return plain(self.text[: self.sections[0].at] if self.sections else self.text)
        wanted = _folded(heading)
        for section in self.sections:
            if wanted == _folded(section.heading):
                return plain(self.text[section.start : section.end])
        for section in self.sections:
            if wanted == _folded(section.title):
                return plain(self.text[section.start : section.end])
        return None


def article(wikitext: str) -> Article:
    """Return the page with its sections found."""
    text = visible(wikitext)
    found = list(_heading_lines(text))
    titles = [one_line(line.markup)[:MAX_TITLE].rstrip() or "(no title)" for line in found]
    parents, ends = _nested([(line.level, line.start) for line in found], len(text))
    names = _told_apart(titles, parents)
    return Article(
        text=text,
        sections=tuple(
            Section(heading=name, title=title, at=line.start, start=line.end, end=end)
            for name, title, line, end in zip(names, titles, found, ends, strict=True)
        ),
    )


def _heading_lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        bare = line.rstrip(" \t")
        markup = bare.strip("=")
        level = min(len(bare) - len(bare.lstrip("=")), len(bare) - len(bare.rstrip("=")), LEVELS[-1])
        if markup.strip() and level in LEVELS:
            yield _Line(level, bare[level:-level], start, end)
        start = end + 1


def _nested(headings: Sequence[tuple[int, int]], length: int) -> tuple[list[int | None], list[int]]:
    """Return, for headings given by level and place, which one each stands below, and where its section ends."""
    parents: list[int | None] = []
    ends = [length] * len(headings)
    still_open: list[int] = []
    for index, (level, at) in enumerate(headings):
        while still_open and headings[still_open[-1]][0] >= level:
            ends[still_open.pop()] = at
        parents.append(still_open[-1] if still_open else None)
        still_open.append(index)
    return parents, ends


def _told_apart(titles: Sequence[str], parents: Sequence[int | None]) -> list[str]:
    often = {title for title, count in Counter(titles).items() if count > 1}
    names: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for title, parent in zip(titles, parents, strict=True):
        name = f"{titles[parent]} > {title}" if title in often and parent is not None else title
        unique = name
        while unique in names:
            seen[name] += 1
            unique = f"{name} ({seen[name] + 1})"
        names[unique] = None
    return list(names)


def _folded(heading: str) -> str:
    return " ".join(heading.replace("_", " ").strip("= ").casefold().split())
