"""Articles: found by search, read in chunks, and rated for relevance and objectivity, S = (R + O) / 2.

Source: Li et al., Forecasting with Societies of Agents (2024), sections 3.2 and 3.6: chunks of 2000 tokens, at most
three of an article, R and O from 1 to 10. An article without a rating scores 0.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bot.api import Json, ToolDefinition, ToolResult, UnreadableAnswer, fence_text, parsing
from plugins.society.agent_prompts import object_schema

# No tokenizer suits every model. Four bytes of UTF-8 to a token is about right for English, and counts too many tokens
# for most other scripts, so that no chunk is too long.
BYTES_PER_TOKEN = 4
FINDING_CHARS = 500
EXCERPT_CHARS = 1200
LOWEST_GRADE, HIGHEST_GRADE = 1, 10

_WORD = re.compile(r"[^\W_]+(?:[.,:'\u2019-][^\W_]+)*%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleRating:
    """The rating of one chunk: relevance and objectivity from 1 to 10, and what in it matters for the question."""

    relevance: int
    objectivity: int
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedArticle:
    """One article.

    ``ratings`` are the available ones of its chunks, ``problem`` says what failed.
    """

    id: str
    url: str = ""
    title: str = ""
    date: str = ""
    text: str = ""
    chunks: int = 0
    ratings: tuple[ArticleRating, ...] = ()
    problem: str = ""

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
        """S = (R + O) / 2, 0 without a rating."""
        return (self.relevance + self.objectivity) / 2

    def to_record(self, *, kept: bool) -> dict[str, Json]:
        """Return the article as it is recorded; its text is in the documents of the step."""
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
            **({"why": self.problem} if self.problem else {}),
        }


def normalize_query(query: str) -> str:
    """Return a query in lower case without punctuation, except inside a word or a number."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", query).casefold()))


def found_articles(result: ToolResult) -> Iterator[RatedArticle]:
    """Yield the search results at an address, each with its text."""
    for source in result.sources:
        if source.url.startswith(("http://", "https://")):
            date, text = source.date or "no date", f"{source.title}\n{source.text}"
            yield RatedArticle(id=source.name, url=source.url, title=source.title, date=date, text=text)


def shown_text(result: ToolResult) -> str:
    """Return the text of a tool without its fences, to be cut and fenced anew."""
    return "\n\n".join(source.text for source in result.sources) or result.observation.text


def split_chunks(text: str, *, tokens: int, most: int) -> tuple[str, ...]:
    """Return the beginning of a text in at most ``most`` chunks with a maximum of tokens, cut between words."""
    limit = tokens * BYTES_PER_TOKEN
    chunks: list[str] = []
    rest = text.strip()
    while rest and len(chunks) < most:
        piece = rest.encode()[:limit].decode(errors="ignore")
        if len(piece) < len(rest):
            # A cut in the first half would waste more than a split word does.
            place = max(piece.rfind("\n"), piece.rfind(" "))
            piece = piece[:place] if place > len(piece) // 2 else piece
        chunks.append(piece.strip())
        rest = rest[len(piece) :].strip()
    return tuple(filter(None, chunks))


def rating_tool() -> ToolDefinition:
    """Return the call by which a chunk is rated."""
    grade: Json = {"type": "integer", "minimum": LOWEST_GRADE, "maximum": HIGHEST_GRADE}
    finding: Json = {"type": "string", "maxLength": FINDING_CHARS}
    return ToolDefinition(
        name="rate",
        description="Say what in this text bears on the question, then rate its relevance and its objectivity",
        parameters=object_schema({"finding": finding, "relevance": grade, "objectivity": grade}),
    )


def read_rating(arguments: Mapping[str, Json]) -> ArticleRating:
    """Return a rating; raises UnreadableAnswer for grades that are not whole numbers from 1 to 10."""
    grades = {}
    for name in ("relevance", "objectivity"):
        value = parsing.read_number(arguments.get(name), name)
        if not (value.is_integer() and LOWEST_GRADE <= value <= HIGHEST_GRADE):
            message = f"{name} should be a whole number from {LOWEST_GRADE} to {HIGHEST_GRADE}"
            raise UnreadableAnswer(message)
        grades[name] = int(value)
    return ArticleRating(**grades, finding=parsing.read_text(arguments.get("finding"), FINDING_CHARS))


def rank_articles(articles: Sequence[RatedArticle], most: int) -> tuple[RatedArticle, ...]:
    """Return the best articles, best first, in the order found if they are equal; none that scored 0."""
    return tuple(sorted((one for one in articles if one.score > 0), key=lambda one: -one.score)[:most])


def article_line(article: RatedArticle, *, kept: bool) -> str:
    """Return an article in a line, as a person reads it: whether it was kept, its scores, and its findings."""
    scores = f"S {article.score:.1f} (R {article.relevance:.1f}, O {article.objectivity:.1f})"
    findings = " ".join(rating.finding for rating in article.ratings if rating.finding)
    line = f"{'kept' if kept else 'left'} {scores} [{article.id}] {article.title} {article.url}: {findings}"
    return " ".join(line.split()).removesuffix(":")


def articles_text(articles: Sequence[RatedArticle]) -> str:
    """Return articles as agents read them, each in a fence named by the id that it is cited by."""
    shown = []
    for article in articles:
        findings = " ".join(rating.finding for rating in article.ratings if rating.finding)
        head = f"{article.title}\n{article.url} ({article.date or 'no date'})"
        shown.append(fence_text(f"{head}\n{findings}\n\n{article.text[:EXCERPT_CHARS]}", article.id))
    return "\n\n".join(shown) or "No article was kept."
