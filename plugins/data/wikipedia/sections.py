"""A page as its sections: headings that tell each other apart, and the text below them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from plugins.data.wikipedia.wikitext import one_line, plain, visible

_HEADING = re.compile(r"^(={2,6})[ \t]*(.+?)[ \t]*\1[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading as it is listed and as it reads, and where it stands: its markup, its text, and what is below it."""

    heading: str
    title: str
    at: int
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
    found = list(_HEADING.finditer(text))
    titles = [one_line(heading[2]) or "(no title)" for heading in found]
    parents, ends = _nested([(len(heading[1]), heading.start()) for heading in found], len(text))
    names = _told_apart(titles, parents)
    return Article(
        text=text,
        sections=tuple(
            Section(heading=name, title=title, at=heading.start(), start=heading.end(), end=end)
            for name, title, heading, end in zip(names, titles, found, ends, strict=True)
        ),
    )


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
