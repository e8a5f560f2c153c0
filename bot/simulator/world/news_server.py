"""The press and the statistical office of a simulated world as a web service: search, articles, time series."""

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

from bot.simulator.fake_service import FakeService
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.world.news import NewsArticle, NewsGenerator
from bot.simulator.world.simulated_world import SimulatedWorld

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

SIMULATION_HEADERS = {"X-Simulation": "yes"}
MAX_RESULTS = 20
REQUESTS_PER_SECOND = 20
# Most articles are shorter.
_SNIPPET = 480
_WORD = re.compile(r"[a-z0-9]+")
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "at", "be", "by", "do", "does", "for", "from", "how", "in", "is"),
        *("it", "its", "of", "on", "or", "the", "to", "was", "what", "when", "which", "who", "will", "with"),
    )
)
# Ways to hide a text from people but not from programs.
_HIDING_STYLES = (
    "display:none",
    "visibility:hidden",
    "position:absolute;left:-9999px",
    "font-size:0",
    "opacity:0",
    "color:#ffffff;background-color:#ffffff",
)


class NewsServer(FakeService):
    """The service; ``origin`` is the beginning of articles' addresses, by default the requested host."""

    def __init__(
        self, clock: Clock, world: SimulatedWorld, *, faults: FaultSchedule | None = None, origin: str = ""
    ) -> None:
        self.world = world
        self.news = NewsGenerator(world=world)
        self._origin = origin.rstrip("/")
        self._seen: dict[tuple[str, float], frozenset[str]] = {}
        super().__init__(
            clock, limits=[RequestLimit(name="search", count=REQUESTS_PER_SECOND, per_s=1.0)], faults=faults
        )

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/search", self._serve_search, methods=["GET"]),
            Route("/news/{number}", self._serve_page, methods=["GET"]),
            Route("/series/{name}", self._serve_series, methods=["GET"]),
            Route("/robots.txt", self._serve_robots, methods=["GET"]),
        ]

    def account(self, logged: LoggedRequest) -> str:
        return ""

    def rate_limit_response(self, retry_after: str | None) -> Response:
        headers = SIMULATION_HEADERS if retry_after is None else {**SIMULATION_HEADERS, "Retry-After": retry_after}
        return _error_response(429, "too many requests", headers)

    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Events of a question in flight do not change the press."""

    @property
    def day(self) -> float:
        """The day of the world."""
        return max(0.0, self.world.calendar.day_of(self.now()))

    async def _serve_search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")
        try:
            wanted = int(request.query_params.get("n", "10"))
            before = _parse_moment(request.query_params.get("before"))
        except ValueError:
            return _error_response(400, "n is a whole number, before a moment of ISO 8601 with its zone")
        if not query.strip() or not 1 <= wanted <= MAX_RESULTS:
            return _error_response(400, f"q is what to look for, n from 1 to {MAX_RESULTS}")
        until = self.day if before is None else min(self.day, self.world.calendar.day_of(before))
        articles = self.news.published(self.day)
        known = {one: self._article_words(one) for one in articles if before is None or one.published < until}
        origin = self._origin or str(request.base_url).rstrip("/")
        results = [self._search_row(one, origin) for one in rank_articles(known, query)[:wanted]]
        return JSONResponse({"simulation": True, "query": query, "results": results}, headers=SIMULATION_HEADERS)

    def _article_words(self, article: NewsArticle) -> frozenset[str]:
        version = article.at(self.day)
        key = (article.id, version.day)
        if key not in self._seen:
            self._seen[key] = search_words(f"{article.title} {version.text}")
        return self._seen[key]

    def _search_row(self, article: NewsArticle, origin: str) -> dict[str, object]:
        text = article.at(self.day).text
        cut = text if len(text) <= _SNIPPET else f"{text[:_SNIPPET].rpartition(' ')[0]} ..."
        return {
            "url": f"{origin}/news/{article.id}",
            "title": article.title,
            "outlet": article.outlet,
            "snippet": cut,
            # The text that a program reads from the page, hidden parts included.
            "text": f"{text} {article.at(self.day).hidden}".strip(),
            "published": self.world.calendar.moment_of(article.published).isoformat(timespec="seconds"),
        }

    async def _serve_page(self, request: Request) -> Response:
        article = self.news.article(request.path_params["number"])
        if article is None or article.published > self.day:
            return _error_response(404, "there is no such article")
        published = self.world.calendar.moment_of(article.published)
        return Response(
            render_article(article, published, self.day), media_type="text/html", headers=SIMULATION_HEADERS
        )

    async def _serve_series(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            as_of = _parse_moment(request.query_params.get("as_of"))
        except ValueError:
            return _error_response(400, "as_of is a moment of ISO 8601 with its zone")
        if name not in self.world.series_by_name:
            return _error_response(404, "there is no such series")
        strip = self.world.series_by_name[name]
        until = self.day if as_of is None else max(0.0, min(self.day, self.world.calendar.day_of(as_of)))
        points = [
            [self.world.calendar.moment_of(number).date().isoformat(), value]
            for number, value in self.world.series(name, until).items()
        ]
        content = {"simulation": True, "name": name, "title": strip.title, "unit": strip.unit, "points": points}
        return JSONResponse(content, headers=SIMULATION_HEADERS)

    async def _serve_robots(self, request: Request) -> Response:
        return PlainTextResponse("User-agent: *\nAllow: /\nCrawl-delay: 1\n", headers=SIMULATION_HEADERS)


def rank_articles(known: Mapping[NewsArticle, frozenset[str]], query: str) -> Sequence[NewsArticle]:
    """Return the articles that have words of the query, the best first; known are the words of each.

    Each word counts for more the fewer articles have it; of two equal ones the newer comes first.
    """
    wanted = search_words(query)
    found = {article: words & wanted for article, words in known.items() if words & wanted}
    counts = Counter(word for words in found.values() for word in words)
    weights = {word: math.log(len(known) / count) for word, count in counts.items()}

    def rank(article: NewsArticle) -> tuple[float, float, str]:
        return -sum(weights[word] for word in sorted(found[article])), -article.published, article.id

    return sorted(found, key=rank)


def search_words(text: str) -> frozenset[str]:
    """Return the content words of a text."""
    return frozenset(_WORD.findall(text.lower())) - _STOP_WORDS


def render_article(article: NewsArticle, published: datetime, day: float) -> str:
    """Return the page of an article as it is on the day; a rewritten one keeps its date."""
    version, at = article.at(day), published.isoformat(timespec="seconds")
    title, text, outlet = (html.escape(part) for part in (article.title, version.text, article.outlet))
    paragraphs = "".join(f"<p>{part}</p>" for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text))
    hidden = ""
    if version.hidden:
        style = _HIDING_STYLES[sum(map(ord, article.id)) % len(_HIDING_STYLES)]
        hidden = f'<div style="{style}">{html.escape(version.hidden)}</div>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} - {outlet} (simulation)</title>'
        f'<meta property="article:published_time" content="{at}"><meta name="generator" content="simulation">'
        f'<meta property="og:site_name" content="{outlet}"></head>'
        f'<body><article><h1>{title}</h1><p><time datetime="{at}">{published:%d %B %Y}</time> {outlet}</p>'
        f"{paragraphs}{hidden}</article><footer>This page is part of a simulation.</footer></body></html>"
    )


def _parse_moment(text: str | None) -> datetime | None:
    """Return an aware moment; raises ValueError for another text."""
    if not text:
        return None
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        message = "a moment without a zone"
        raise ValueError(message)
    return found


def _error_response(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"simulation": True, "error": why}, status_code=status, headers=headers or SIMULATION_HEADERS)
