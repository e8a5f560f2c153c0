"""Articles: found by search, rated for relevance and objectivity, S = (R + O) / 2, and shown in excerpts.

Source: Li et al., Forecasting with Societies of Agents (2024), sections 3.2 and 3.6: chunks of 2000 tokens, at most
three of an article, R and O from 1 to 10. An article without a rating scores 0. Unless pages are rated, ratings are of
what the search showed, and a page shows the passages that share the rarest words with what is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import fmean

from bot.api import Json, ToolResult, fence_text, parsing

# No tokenizer suits every model. Four bytes of UTF-8 to a token is about right for English, and counts too many tokens
# for most other scripts, so that no chunk is too long.
BYTES_PER_TOKEN = 4
# An excerpt of a page that was not rated is made of passages of this length.
PASSAGE_TOKENS = 250
# Between two parts of an excerpt that follow each other, and two that do not.
NEXT_PART, GAP = "\n", "\n[...]\n"

_WORD = re.compile(r"[^\W_]+(?:[.,:'\u2019-][^\W_]+)*%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleRating:
    """The rating of one chunk: relevance and objectivity from 1 to 10, and what in it matters for the question."""

    relevance: int
    objectivity: int
    finding: str


@dataclass(frozen=True, slots=True)
class ArticleChunk:
    """One part of an article: its rating, if it has one, and how much it shares with what is asked."""

    text: str
    rating: ArticleRating | None = None
    closeness: float = 0.0

    @property
    def weight(self) -> float:
        """How early it is chosen for an excerpt."""
        return self.closeness if self.rating is None else self.rating.relevance


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedArticle:
    """One article; ``chunks`` are the parts of its ``text`` that were read, ``problem`` says what failed.

    ``search_rating`` is of what the search showed of it, where its chunks were not rated.
    """

    id: str
    url: str = ""
    title: str = ""
    date: str = ""
    text: str = ""
    chunks: tuple[ArticleChunk, ...] = ()
    search_rating: ArticleRating | None = None
    problem: str = ""

    @property
    def ratings(self) -> tuple[ArticleRating, ...]:
        """Its ratings, without the missing ones."""
        return tuple(filter(None, (self.search_rating, *(chunk.rating for chunk in self.chunks))))

    @property
    def relevance(self) -> float:
        """The mean relevance of its ratings, 0 without one."""
        return fmean(rating.relevance for rating in self.ratings) if self.ratings else 0.0

    @property
    def objectivity(self) -> float:
        """The mean objectivity of its ratings, 0 without one."""
        return fmean(rating.objectivity for rating in self.ratings) if self.ratings else 0.0

    @property
    def score(self) -> float:
        """S = (R + O) / 2, 0 without a rating."""
        return (self.relevance + self.objectivity) / 2

    @property
    def findings(self) -> str:
        """What its raters found in it, in the order of the text."""
        return " ".join(rating.finding for rating in self.ratings if rating.finding)

    @property
    def heading(self) -> str:
        """Its title, address and date."""
        return f"{self.title}\n{self.url} ({self.date or 'no date'})"

    def excerpt(self, limit: int) -> str:
        """Return its chunks of most weight, in the order of the text, in at most ``limit`` characters."""
        chosen: dict[int, str] = {}
        room = limit
        for place in sorted(range(len(self.chunks)), key=lambda one: -self.chunks[one].weight):
            if room > len(GAP):
                chosen[place] = parsing.cut_text(self.chunks[place].text, room)
                room -= len(chosen[place]) + len(GAP)
        return "".join(
            f"{'' if number == 0 else NEXT_PART if place - 1 in chosen else GAP}{chosen[place]}"
            for number, place in enumerate(sorted(chosen))
        )

    def to_record(self, *, kept: bool) -> dict[str, Json]:
        """Return the article as it is recorded; its text is in the documents of the step."""
        return {
            "id": self.id,
            "url": self.url,
            "title": self.title,
            "date": self.date,
            "chunks": len(self.chunks),
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
            date = source.date or "no date"
            yield RatedArticle(id=source.name, url=source.url, title=source.title, date=date, text=source.text)


def share_places(lists: Sequence[Sequence[RatedArticle]], most: int) -> list[RatedArticle]:
    """Return at most ``most`` articles, each address once: the first of each list, then the second of each."""
    first: dict[str, RatedArticle] = {}
    for turn in zip_longest(*lists):
        for article in filter(None, turn):
            first.setdefault(article.url, article)
    return [*first.values()][:most]


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


def with_passages(article: RatedArticle, asked: str, *, tokens: int) -> RatedArticle:
    """Return an article, rated by what the search showed, with the passages of its page in place of that.

    ``asked`` are words of the question; the rarer one of them, or of the findings, is among the passages, the more it
    counts.
    """
    texts = split_chunks(article.text, tokens=PASSAGE_TOKENS, most=-(-tokens // PASSAGE_TOKENS))
    words = [parsing.significant_words(text) for text in texts]
    counts = Counter(word for found in words for word in found)
    wanted = parsing.significant_words(f"{asked}\n{article.findings}")
    passages = (
        ArticleChunk(text, closeness=sum(1 / counts[word] for word in wanted & found))
        for text, found in zip(texts, words, strict=True)
    )
    return replace(article, chunks=tuple(passages), search_rating=article.ratings[0])


def rank_articles(articles: Sequence[RatedArticle], most: int) -> tuple[RatedArticle, ...]:
    """Return the best articles, best first, in the order found if they are equal; none that scored 0."""
    return tuple(sorted((one for one in articles if one.score > 0), key=lambda one: -one.score)[:most])


def article_line(article: RatedArticle, *, kept: bool) -> str:
    """Return an article in a line, as a person reads it: whether it was kept, its scores, and its findings."""
    scores = f"S {article.score:.1f} (R {article.relevance:.1f}, O {article.objectivity:.1f})"
    line = f"{'kept' if kept else 'left'} {scores} [{article.id}] {article.title} {article.url}: {article.findings}"
    return " ".join(line.split()).removesuffix(":")


def articles_text(articles: Sequence[RatedArticle], excerpt_chars: int) -> str:
    """Return articles as agents read them, each in a fence named by the id that it is cited by."""
    shown = (
        fence_text(f"{article.heading}\n{article.findings}\n\n{article.excerpt(excerpt_chars)}", article.id, 2**20)
        for article in articles
    )
    return "\n\n".join(shown) or "No article was kept."
