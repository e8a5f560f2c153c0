"""The press and the statistical office of a simulated world as a web service: search, articles, series.

``GET /search?q=&before=&n=`` ranks what is published by the words of the query; ``before`` is a moment, and bounds the
date of publication. Like real engines it shows pages as they are now, so an article that was rewritten since comes
with what it says today under its old date. ``GET /news/ID`` is such a page. ``GET /series/NAME?as_of=`` has the values
of the days that were over at that moment. Every answer says that it is a simulation.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from bot.testing.venues.faults import Fault, Faults
from bot.testing.venues.kit import FakeVenue
from bot.testing.venues.record import Heard, Limit
from bot.testing.world.news import Article, Newsroom
from bot.testing.world.world import World

if TYPE_CHECKING:
    from bot.ports import Clock

MARK = {"X-Simulation": "yes"}
MOST_RESULTS = 20
PER_SECOND = 20
# Most articles are shorter.
_SNIPPET = 480
_WORD = re.compile(r"[a-z0-9]+")
_IDLE = frozenset(
    (
        *("a", "an", "and", "are", "at", "be", "by", "do", "does", "for", "from", "how", "in", "is"),
        *("it", "its", "of", "on", "or", "the", "to", "was", "what", "when", "which", "who", "will", "with"),
    )
)
# Ways to hide a text from people and not from programs.
_HIDING = (
    "display:none",
    "visibility:hidden",
    "position:absolute;left:-9999px",
    "font-size:0",
    "opacity:0",
    "color:#ffffff;background-color:#ffffff",
)


class Press(FakeVenue):
    """The service; ``origin`` is what addresses of articles begin with, the asked host where it is not given."""

    def __init__(self, clock: Clock, world: World, *, faults: Faults | None = None, origin: str = "") -> None:
        self.world = world
        self.newsroom = Newsroom(world=world)
        self._origin = origin.rstrip("/")
        self._seen: dict[tuple[str, float], frozenset[str]] = {}
        super().__init__(clock, limits=[Limit(name="search", count=PER_SECOND, per_s=1.0)], faults=faults)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/search", self._search, methods=["GET"]),
            Route("/news/{number}", self._page, methods=["GET"]),
            Route("/series/{name}", self._series, methods=["GET"]),
            Route("/robots.txt", self._robots, methods=["GET"]),
        ]

    def account(self, heard: Heard) -> str:
        return ""

    def too_many(self, retry_after: str | None) -> Response:
        headers = MARK if retry_after is None else {**MARK, "Retry-After": retry_after}
        return _refusal(429, "too many requests", headers)

    def disturb(self, fault: Fault, heard: Heard) -> None:
        """Nothing that happens to a question in flight changes the press."""

    @property
    def day(self) -> float:
        """The day of the world."""
        return max(0.0, self.world.calendar.day(self.now()))

    async def _search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")
        try:
            wanted = int(request.query_params.get("n", "10"))
            before = _moment(request.query_params.get("before"))
        except ValueError:
            return _refusal(400, "n is a whole number, before a moment of ISO 8601 with its zone")
        if not query.strip() or not 1 <= wanted <= MOST_RESULTS:
            return _refusal(400, f"q is what to look for, n from 1 to {MOST_RESULTS}")
        until = self.day if before is None else min(self.day, self.world.calendar.day(before))
        articles = self.newsroom.published(self.day)
        known = {one: self._words(one) for one in articles if before is None or one.published < until}
        origin = self._origin or str(request.base_url).rstrip("/")
        results = [self._result(one, origin) for one in ranked(known, query)[:wanted]]
        return JSONResponse({"simulation": True, "query": query, "results": results}, headers=MARK)

    def _words(self, article: Article) -> frozenset[str]:
        version = article.at(self.day)
        key = (article.id, version.day)
        if key not in self._seen:
            self._seen[key] = words_of(f"{article.title} {version.text}")
        return self._seen[key]

    def _result(self, article: Article, origin: str) -> dict[str, object]:
        text = article.at(self.day).text
        cut = text if len(text) <= _SNIPPET else f"{text[:_SNIPPET].rpartition(' ')[0]} ..."
        return {
            "url": f"{origin}/news/{article.id}",
            "title": article.title,
            "outlet": article.outlet,
            "snippet": cut,
            # What a program that reads the page takes for its text, hidden parts included.
            "text": f"{text} {article.at(self.day).hidden}".strip(),
            "published": self.world.calendar.at(article.published).isoformat(timespec="seconds"),
        }

    async def _page(self, request: Request) -> Response:
        article = self.newsroom.article(request.path_params["number"])
        if article is None or article.published > self.day:
            return _refusal(404, "there is no such article")
        published = self.world.calendar.at(article.published)
        return Response(page(article, published, self.day), media_type="text/html", headers=MARK)

    async def _series(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            as_of = _moment(request.query_params.get("as_of"))
        except ValueError:
            return _refusal(400, "as_of is a moment of ISO 8601 with its zone")
        if name not in self.world.strips:
            return _refusal(404, "there is no such series")
        strip = self.world.strips[name]
        until = self.day if as_of is None else max(0.0, min(self.day, self.world.calendar.day(as_of)))
        points = [
            [self.world.calendar.at(number).date().isoformat(), value]
            for number, value in self.world.series(name, until).items()
        ]
        content = {"simulation": True, "name": name, "title": strip.title, "unit": strip.unit, "points": points}
        return JSONResponse(content, headers=MARK)

    async def _robots(self, request: Request) -> Response:
        return PlainTextResponse("User-agent: *\nAllow: /\nCrawl-delay: 1\n", headers=MARK)


def ranked(known: Mapping[Article, frozenset[str]], query: str) -> Sequence[Article]:
    """Return the articles that have words of the query, the best first; known are the words of each.

    Each word counts for the more the fewer articles have it; of two alike the newer one comes first.
    """
    wanted = words_of(query)
    found = {article: words & wanted for article, words in known.items() if words & wanted}
    counts = Counter(word for words in found.values() for word in words)
    weights = {word: math.log(len(known) / count) for word, count in counts.items()}

    def rank(article: Article) -> tuple[float, float, str]:
        return -sum(weights[word] for word in sorted(found[article])), -article.published, article.id

    return sorted(found, key=rank)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text that say something."""
    return frozenset(_WORD.findall(text.lower())) - _IDLE


def page(article: Article, published: datetime, day: float) -> str:
    """Return the page of an article as it stands on the day; a rewritten one keeps its date."""
    version, at = article.at(day), published.isoformat(timespec="seconds")
    title, text, outlet = (html.escape(part) for part in (article.title, version.text, article.outlet))
    paragraphs = "".join(f"<p>{part}</p>" for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text))
    hidden = ""
    if version.hidden:
        style = _HIDING[sum(map(ord, article.id)) % len(_HIDING)]
        hidden = f'<div style="{style}">{html.escape(version.hidden)}</div>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} - {outlet} (simulation)</title>'
        f'<meta property="article:published_time" content="{at}"><meta name="generator" content="simulation">'
        f'<meta property="og:site_name" content="{outlet}"></head>'
        f'<body><article><h1>{title}</h1><p><time datetime="{at}">{published:%d %B %Y}</time> {outlet}</p>'
        f"{paragraphs}{hidden}</article><footer>This page is part of a simulation.</footer></body></html>"
    )


def _moment(text: str | None) -> datetime | None:
    """Return an aware moment; raises ValueError for another text."""
    if not text:
        return None
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        message = "a moment without a zone"
        raise ValueError(message)
    return found


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"simulation": True, "error": why}, status_code=status, headers=headers or MARK)
