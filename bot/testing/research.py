"""Fakes for research.

Search engine, time series, reference pages, page fetcher and reader, and a model gateway, all scripted.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError, NotFoundError, RequestRejectedError
from bot.core.language_models import (
    CostAttribution,
    ModelAnswer,
    ModelCompletion,
    ModelDialect,
    ModelPerformance,
    ModelRequest,
)
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.research import FetchedPage, PageText, Passage, SearchResult, TimeSeries

REDIRECT_LIMIT = 5


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A search as it was requested."""

    query: str
    before: datetime | None
    limit: int


@dataclass(slots=True)
class ScriptedSearchEngine:
    """Implements SearchEngine: returns the same hits each time, ignoring dates and limit, or raises.

    That it keeps no bound is its purpose: callers must not rely on it.
    """

    hits: Sequence[SearchResult] | Exception = ()
    searched: list[RecordedSearch] = field(default_factory=list)

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        self.searched.append(RecordedSearch(query, before, limit))
        if isinstance(self.hits, Exception):
            raise self.hits
        return self.hits


@dataclass(slots=True)
class FakeDataSource:
    """Implements DataSource; it ignores ``before``, like a faulty source.

    ``series_of_questions`` are the names that each question is about; ``asked`` lists the requests.
    """

    by_name: Mapping[str, TimeSeries | Exception]
    series_of_questions: Sequence[str] = ()
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    def series_names(self, question: Question) -> Sequence[str]:
        return self.series_of_questions

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        self.asked.append((name, before))
        found = self.by_name.get(name, NotFoundError(f"no series {name}"))
        if isinstance(found, Exception):
            raise found
        return found


@dataclass(slots=True)
class FakePageSource:
    """Implements PageSource; passages by title and heading, ``before`` ignored as above."""

    passages: Mapping[tuple[str, str], Passage]
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    async def page_headings(self, page: str, *, before: datetime) -> Sequence[str]:
        self.asked.append((page, before))
        headings = [heading for title, heading in self.passages if title == page and heading]
        if not any(title == page for title, _ in self.passages):
            message = f"no page {page}"
            raise NotFoundError(message)
        return headings

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        self.asked.append((page, before))
        if (page, heading) not in self.passages:
            message = f"no section {heading!r} of {page}"
            raise NotFoundError(message)
        return self.passages[page, heading]


@dataclass(frozen=True, slots=True)
class FakeRedirect:
    """An address that redirects to another."""

    to: str


@dataclass(slots=True)
class FakePageFetcher:
    """Implements PageFetcher over a dictionary of texts, redirects and errors.

    ``requests`` lists each address that was requested, that is, that the refusal permitted.
    """

    web: Mapping[str, str | FakeRedirect | Exception] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
        for _ in range(REDIRECT_LIMIT + 1):
            if (why := refusal(url)) is not None:
                raise RequestRejectedError(why)
            self.requests.append(url)
            match self.web.get(url):
                case None:
                    message = f"404 at {url}"
                    raise NotFoundError(message)
                case FakeRedirect(to=to):
                    url = to
                case str(text):
                    return FetchedPage(url=url, content=text.encode(), media_type="text/plain")
                case error:
                    raise error
        message = "too many redirects"
        raise RequestRejectedError(message)


@dataclass(frozen=True, slots=True)
class PlainTextReader:
    """Reads a fetched text as it is: the first line is the title. ``dated`` gives pages a date by address."""

    dated: Mapping[str, datetime] = field(default_factory=dict)

    async def read(self, fetched: FetchedPage) -> PageText:
        title, _, text = fetched.content.decode().partition("\n")
        return PageText(url=fetched.url, title=title, text=text, published_at=self.dated.get(fetched.url))


GatewayReply = Callable[[ModelRequest], str | ModelCompletion | Exception]


def reply_in_turn(*replies: str | ModelCompletion | Exception) -> GatewayReply:
    """Return a reply that gives these in order, the last one for ever."""
    waiting = list(replies)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def drop_results(*numbers: int) -> GatewayReply:
    """Return the reply of a filter that drops the texts of these numbers, from 1, and keeps all others."""

    def judge(inquiry: ModelRequest) -> str:
        shown = re.findall(r"^Result (\d+):$", inquiry.prompt.messages[-1].text, re.MULTILINE)
        words = {number: "drop" if number in numbers else "keep" for number in map(int, shown)}
        results = [{"number": number, "verdict": word, "reason": "as scripted"} for number, word in words.items()]
        return json.dumps({"results": results})

    return judge


@dataclass(slots=True)
class ScriptedModelGateway:
    """Implements ``bot.forecasting.services.ModelGateway``: each role has a reply; a role without one has no model.

    Each answer costs ``usage``, and has no record of its call. ``requests`` lists the requests,
    ``reported_performances`` the reports about models.
    """

    roles: Mapping[str, GatewayReply] = field(default_factory=dict)
    dialects: Mapping[str, ModelDialect] = field(default_factory=dict)
    usage: ModelUsage = field(default_factory=lambda: ModelUsage(calls=1, tokens_in=100, tokens_out=10, cost_usd=0.001))
    requests: list[ModelRequest] = field(default_factory=list)
    reported_performances: list[tuple[ModelPerformance, CostAttribution]] = field(default_factory=list)

    def dialect(self, role: str) -> ModelDialect:
        if role not in self.roles:
            message = f"no model plays the role {role}"
            raise ConfigError(message)
        return self.dialects.get(role, ModelDialect.TOOLS)

    async def ask(self, inquiry: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        self.dialect(inquiry.role)
        self.requests.append(inquiry)
        reply = self.roles[inquiry.role](inquiry)
        if isinstance(reply, Exception):
            raise reply
        completion = ModelCompletion(text=reply, usage=self.usage) if isinstance(reply, str) else reply
        return ModelAnswer(completion=completion, usage=self.usage, model=f"scripted:{inquiry.role}", document="")

    async def grade(self, performance: ModelPerformance, charge: CostAttribution) -> None:
        self.reported_performances.append((performance, charge))
