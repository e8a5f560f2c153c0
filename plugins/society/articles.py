"""Articles: found by search, read in chunks, and rated for relevance and objectivity, S = (R + O) / 2.

Source: Li et al., Forecasting with Societies of Agents (2024), sections 3.2 and 3.6: chunks of 2000 tokens, at most
three of an article, R and O from 1 to 10. An article that nobody rated scores 0.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bot.api import Json, Misread, Tool, quoted, reading
from plugins.society.answers import record

# No tokenizer is at hand that would suit every model. Four bytes of UTF-8 to a token is near the truth for English, and
# errs by counting too many tokens for most other scripts, so that a chunk is at most as long as it may be.
BYTES_PER_TOKEN = 4
FINDING_CHARS = 500
EXCERPT_CHARS = 1200
LEAST, MOST = 1, 10

_RESULT = re.compile(r'<untrusted-([0-9a-f]{16}) label="(search_\d+_result_\d+)">\n(.*?)\n</untrusted-\1>', re.DOTALL)
_WORD = re.compile(r"[^\W_]+(?:[.,:'\u2019-][^\W_]+)*%?")
_FENCE = re.compile(r"</?untrusted-[0-9a-f]{16}(?: label=\"[^\"]*\")?>\n?")
_PLACE = re.compile(r"(https?://\S+) \((\d{4}-\d\d-\d\d|no date)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What was made of one chunk: relevance and objectivity from 1 to 10, and what in it bears on the question."""

    relevance: int
    objectivity: int
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """One article; ``ratings`` are those of its chunks that could be had, ``why`` says what went wrong on the way."""

    id: str
    url: str = ""
    title: str = ""
    date: str = ""
    text: str = ""
    chunks: int = 0
    ratings: tuple[Rating, ...] = ()
    why: str = ""

    @property
    def relevance(self) -> float:
        """The mean relevance of its chunks, 0 without one."""
        return fmean(rating.relevance for rating in self.ratings) if self.ratings else 0.0

    @property
    def objectivity(self) -> float:
        """The mean objectivity of its chunks, 0 without one."""
        return fmean(rating.objectivity for rating in self.ratings) if self.ratings else 0.0

    @property
    def score(self) -> float:
        """S = (R + O) / 2, 0 where nobody rated it."""
        return (self.relevance + self.objectivity) / 2

    def told(self, *, kept: bool) -> dict[str, Json]:
        """Return the article as it goes on record; its text is in the documents of the step."""
        return {
            "id": self.id,
            "url": self.url,
            "title": self.title,
            "date": self.date,
            "chunks": self.chunks,
            "relevance": round(self.relevance, 3),
            "objectivity": round(self.objectivity, 3),
            "score": round(self.score, 3),
            "kept": kept,
            **({"why": self.why} if self.why else {}),
        }


def normalised(query: str) -> str:
    """Return a query in lower case without punctuation, but for what stands inside a word or a number."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", query).casefold()))


def found_in(text: str) -> Iterator[Article]:
    """Yield the results in what the desk's search said, with what it told of each."""
    for match in _RESULT.finditer(text):
        lines = match.group(3).split("\n")
        for number, line in enumerate(lines):
            if place := _PLACE.fullmatch(line.strip()):
                rest = "\n".join([" ".join(lines[:number]), *lines[number + 1 :]])
                title = " ".join(" ".join(lines[:number]).split())
                yield Article(id=match.group(2), url=place.group(1), title=title, date=place.group(2), text=rest)
                break


def without_fence(text: str) -> str:
    """Return a page without the marks of the desk, to be cut and fenced anew."""
    return _FENCE.sub("", text).strip()


def chunks_of(text: str, *, tokens: int, most: int) -> tuple[str, ...]:
    """Return the beginning of a text in at most ``most`` chunks of at most so many tokens, cut between words."""
    limit = tokens * BYTES_PER_TOKEN
    chunks: list[str] = []
    rest = text.strip()
    while rest and len(chunks) < most:
        piece = rest.encode()[:limit].decode(errors="ignore")
        if len(piece) < len(rest):
            # A cut in the first half would waste more than a torn word does.
            place = max(piece.rfind("\n"), piece.rfind(" "))
            piece = piece[:place] if place > len(piece) // 2 else piece
        chunks.append(piece.strip())
        rest = rest[len(piece) :].strip()
    return tuple(filter(None, chunks))


def rating_tool() -> Tool:
    """Return the call by which a chunk is rated."""
    grade: Json = {"type": "integer", "minimum": LEAST, "maximum": MOST}
    finding: Json = {"type": "string", "maxLength": FINDING_CHARS}
    return Tool(
        name="rate",
        description="Say what in this text bears on the question, then rate its relevance and its objectivity",
        parameters=record({"finding": finding, "relevance": grade, "objectivity": grade}),
    )


def read_rating(arguments: Mapping[str, Json]) -> Rating:
    """Return a rating; raises Misread for grades that are not whole numbers from 1 to 10."""
    grades = {}
    for name in ("relevance", "objectivity"):
        value = reading.number(arguments.get(name), name)
        if not (value.is_integer() and LEAST <= value <= MOST):
            message = f"{name} should be a whole number from {LEAST} to {MOST}"
            raise Misread(message)
        grades[name] = int(value)
    return Rating(**grades, finding=reading.text(arguments.get("finding"), FINDING_CHARS))


def ranked(articles: Sequence[Article], most: int) -> tuple[Article, ...]:
    """Return the best articles, the better one first, in the order found where they are equal; none that scored 0."""
    return tuple(sorted((one for one in articles if one.score > 0), key=lambda one: -one.score)[:most])


def rated_line(article: Article, *, kept: bool) -> str:
    """Return an article in a line, as a person reads it: whether it was kept, its scores, and what it says."""
    scores = f"S {article.score:.1f} (R {article.relevance:.1f}, O {article.objectivity:.1f})"
    said = " ".join(rating.finding for rating in article.ratings if rating.finding)
    line = f"{'kept' if kept else 'left'} {scores} [{article.id}] {article.title} {article.url}: {said}"
    return " ".join(line.split()).removesuffix(":")


def articles_text(articles: Sequence[Article]) -> str:
    """Return articles as agents read them, each in a fence named by the id that it is cited by."""
    shown = []
    for article in articles:
        said = " ".join(rating.finding for rating in article.ratings if rating.finding)
        head = f"{article.title}\n{article.url} ({article.date or 'no date'})"
        shown.append(quoted(f"{head}\n{said}\n\n{article.text[:EXCERPT_CHARS]}", article.id))
    return "\n\n".join(shown) or "No article was kept."
