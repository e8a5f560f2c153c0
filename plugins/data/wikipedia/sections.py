"""A page as its sections: headings that tell each other apart, and the text below them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plugins.data.wikipedia.hidden_markup import visible_wikitext
from plugins.data.wikipedia.wikitext import wikitext_to_line, wikitext_to_text

HEADING_LEVELS = range(2, 7)
# Longer headings are mistakes.
MAX_TITLE_CHARS = 250


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading as it is listed and as it reads, and its place: its markup, its text, and the text below it."""

    heading: str
    title: str
    at: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _HeadingLine:
    """A line that is a heading: its level, the text between its signs, and its place."""

    level: int
    markup: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WikipediaArticle:
    """A page without the parts that no reader sees; ``sections`` are in the order of the page, without the lead."""

    text: str
    sections: tuple[PageSection, ...]

    @property
    def headings(self) -> Sequence[str]:
        """The headings as they are listed; a repeated one has the heading above it in front."""
        return tuple(section.heading for section in self.sections)

    def section_text(self, heading: str) -> str | None:
        """Return the plain text under a heading with its sections, before the first one for "".

        None for an unknown one.
        """
        if not heading.strip():
            return wikitext_to_text(self.text[: self.sections[0].at] if self.sections else self.text)
        wanted = _fold_heading(heading)
        for section in self.sections:
            if wanted == _fold_heading(section.heading):
                return wikitext_to_text(self.text[section.start : section.end])
        for section in self.sections:
            if wanted == _fold_heading(section.title):
                return wikitext_to_text(self.text[section.start : section.end])
        return None


def parse_article(wikitext: str) -> WikipediaArticle:
    """Return the page with its sections found."""
    text = visible_wikitext(wikitext)
    found = list(_heading_lines(text))
    titles = [wikitext_to_line(line.markup)[:MAX_TITLE_CHARS].rstrip() or "(no title)" for line in found]
    parents, ends = _nest_headings([(line.level, line.start) for line in found], len(text))
    names = _unique_headings(titles, parents)
    return WikipediaArticle(
        text=text,
        sections=tuple(
            PageSection(heading=name, title=title, at=line.start, start=line.end, end=end)
            for name, title, line, end in zip(names, titles, found, ends, strict=True)
        ),
    )


def _heading_lines(text: str) -> Iterator[_HeadingLine]:
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        bare = line.rstrip(" \t")
        markup = bare.strip("=")
        level = min(len(bare) - len(bare.lstrip("=")), len(bare) - len(bare.rstrip("=")), HEADING_LEVELS[-1])
        if markup.strip() and level in HEADING_LEVELS:
            yield _HeadingLine(level, bare[level:-level], start, end)
        start = end + 1


def _nest_headings(headings: Sequence[tuple[int, int]], length: int) -> tuple[list[int | None], list[int]]:
    """Return, for headings given by level and place, the heading above each one, and where its section ends."""
    parents: list[int | None] = []
    ends = [length] * len(headings)
    still_open: list[int] = []
    for index, (level, at) in enumerate(headings):
        while still_open and headings[still_open[-1]][0] >= level:
            ends[still_open.pop()] = at
        parents.append(still_open[-1] if still_open else None)
        still_open.append(index)
    return parents, ends


def _unique_headings(titles: Sequence[str], parents: Sequence[int | None]) -> list[str]:
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


def _fold_heading(heading: str) -> str:
    return " ".join(heading.replace("_", " ").strip("= ").casefold().split())
