"""Fakes of what the desk works with: an engine, series, pages, the open web and models, all told what to say."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Completion, Dialect
from bot.domain.question import Question
from bot.domain.research import Fetched, Hit, Page, Passage, Series
from bot.domain.step import Usage
from bot.errors import ConfigError, NotFound, Rejected

REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class Searched:
    """A search as it was asked for."""

    query: str
    before: datetime | None
    limit: int


@dataclass(slots=True)
class ScriptedEngine:
    """Implements the port SearchEngine: brings the same hits each time, dates and limit ignored, or raises.

    That it keeps no bound is the point: whoever asks must not trust it.
    """

    hits: Sequence[Hit] | Exception = ()
    searched: list[Searched] = field(default_factory=list)

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        self.searched.append(Searched(query, before, limit))
        if isinstance(self.hits, Exception):
            raise self.hits
        return self.hits


@dataclass(slots=True)
class MemorySeries:
    """Implements the port DataSource; it ignores ``before``, as a source at fault would.

    ``about`` are the names that each question is about; ``asked`` lists what was asked for.
    """

    by_name: Mapping[str, Series | Exception]
    about: Sequence[str] = ()
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    def names(self, question: Question) -> Sequence[str]:
        return self.about

    async def series(self, name: str, *, before: datetime) -> Series:
        self.asked.append((name, before))
        found = self.by_name.get(name, NotFound(f"no series {name}"))
        if isinstance(found, Exception):
            raise found
        return found


@dataclass(slots=True)
class MemoryPages:
    """Implements the port PageSource; passages by title and heading, ``before`` ignored as above."""

    passages: Mapping[tuple[str, str], Passage]
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    async def contents(self, page: str, *, before: datetime) -> Sequence[str]:
        self.asked.append((page, before))
        headings = [heading for title, heading in self.passages if title == page and heading]
        if not any(title == page for title, _ in self.passages):
            message = f"no page {page}"
            raise NotFound(message)
        return headings

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        self.asked.append((page, before))
        if (page, heading) not in self.passages:
            message = f"no section {heading!r} of {page}"
            raise NotFound(message)
        return self.passages[page, heading]


@dataclass(frozen=True, slots=True)
class Redirect:
    """An address that leads to another."""

    to: str


@dataclass(slots=True)
class MemoryFetcher:
    """Implements the port Fetcher over a dictionary of texts, redirects and errors.

    ``requests`` lists each address that was really asked, that is, after the refusal had nothing against it.
    """

    web: Mapping[str, str | Redirect | Exception] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
        for _ in range(REDIRECTS + 1):
            if (why := refusal(url)) is not None:
                raise Rejected(why)
            self.requests.append(url)
            match self.web.get(url, NotFound(f"404 at {url}")):
                case Redirect(to=to):
                    url = to
                case str(text):
                    return Fetched(url=url, content=text.encode(), media_type="text/plain")
                case error:
                    raise error
        message = "too many redirects"
        raise Rejected(message)


@dataclass(frozen=True, slots=True)
class PlainReader:
    """Reads a fetched text as it stands: the first line is the title. ``dated`` gives pages a date by address."""

    dated: Mapping[str, datetime] = field(default_factory=dict)

    async def read(self, fetched: Fetched) -> Page:
        title, _, text = fetched.content.decode().partition("\n")
        return Page(url=fetched.url, title=title, text=text, published_at=self.dated.get(fetched.url))


Reply = Callable[[Inquiry], str | Completion | Exception]


def replying(*replies: str | Completion | Exception) -> Reply:
    """Return a reply that gives these in order, the last one for ever."""
    waiting = list(replies)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def dropping(*numbers: int) -> Reply:
    """Return the reply of a filter that drops the texts of these numbers, from 1, and lets all others through."""

    def judge(inquiry: Inquiry) -> str:
        shown = re.findall(r"^Result (\d+):$", inquiry.prompt.messages[-1].text, re.MULTILINE)
        words = {number: "drop" if number in numbers else "keep" for number in map(int, shown)}
        results = [{"number": number, "verdict": word, "reason": "as told"} for number, word in words.items()]
        return json.dumps({"results": results})

    return judge


@dataclass(slots=True)
class ScriptedModels:
    """Implements ``bot.desk.parts.Models``: each role has a reply; a role without one has no model.

    Each answer costs ``usage``; ``inquiries`` lists what was asked, ``grades`` what was told about models.
    """

    roles: Mapping[str, Reply] = field(default_factory=dict)
    dialects: Mapping[str, Dialect] = field(default_factory=dict)
    usage: Usage = field(default_factory=lambda: Usage(calls=1, tokens_in=100, tokens_out=10, cost_usd=0.001))
    inquiries: list[Inquiry] = field(default_factory=list)
    grades: list[tuple[Conduct, Charge]] = field(default_factory=list)

    def dialect(self, role: str) -> Dialect:
        if role not in self.roles:
            message = f"no model plays the role {role}"
            raise ConfigError(message)
        return self.dialects.get(role, Dialect.TOOLS)

    async def ask(self, inquiry: Inquiry, *, deadline_s: float) -> Answer:
        self.dialect(inquiry.role)
        self.inquiries.append(inquiry)
        reply = self.roles[inquiry.role](inquiry)
        if isinstance(reply, Exception):
            raise reply
        completion = Completion(text=reply, usage=self.usage) if isinstance(reply, str) else reply
        return Answer(completion=completion, usage=self.usage, model=f"scripted:{inquiry.role}", document="0" * 64)

    async def grade(self, conduct: Conduct, charge: Charge) -> None:
        self.grades.append((conduct, charge))
