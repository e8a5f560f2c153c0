"""Requests the revision of a page that was current at a moment, and checks that it was."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from pydantic import BaseModel, Field

from bot.api import MalformedDataError, NotFoundError, PluginContext, PluginSettings, ServiceUnavailableError
from plugins.data._series_replies import parse_reply

SOURCE = "wikipedia"
# The longest pages have 2 MB of source text, which JSON makes longer.
MAX_BYTES = 16_000_000
MAX_REDIRECTS = 2
# Several sections of one page are read, and many questions need the same page.
MAX_CACHED_REVISIONS = 16
# What the service answers when it is too busy for a request.
BUSY_CODES = frozenset({"maxlag", "ratelimited", "readonly", "internal_api_error_DBQueryTimeoutError"})

_LANGUAGE_PATTERN = r"^[a-z][a-z0-9-]{1,15}$"
_REDIRECT_PATTERN = re.compile(r"\s*+#\s*+\w++\s*+:?+\s*+\[\[\s*+:?+([^\[\]|#]++)[^\[\]]*+\]\]")


class WikipediaSettings(PluginSettings):
    """The language of titles without an address, and a contact for the service."""

    language: str = Field(default="en", pattern=_LANGUAGE_PATTERN)
    """Edition in which a title without an address is looked up."""

    contact: str = Field(default="", max_length=200)
    """Email address or page of the operator, which the service asks programs to name; empty: none."""


class _SlotContent(BaseModel):
    content: str | None = None


class _RevisionSlots(BaseModel):
    main: _SlotContent


class _RevisionRow(BaseModel):
    revid: int
    timestamp: datetime
    slots: _RevisionSlots


class _PageRow(BaseModel):
    revisions: list[_RevisionRow] = Field(default_factory=list)


class _QueryResult(BaseModel):
    pages: list[_PageRow] = Field(min_length=1)


class _ApiError(BaseModel):
    code: str
    info: str = ""


class _ApiReply(BaseModel):
    query: _QueryResult | None = None
    error: _ApiError | None = None


@dataclass(frozen=True, slots=True)
class PageTitle:
    """A page of one language's edition."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class PageRevision:
    """A page as it was: its permanent address, its source text and when that was written.

    ``title`` is the requested one, or the target of a redirect of that time: today's title may reveal what happened.
    """

    url: str
    title: str
    wikitext: str
    at: datetime


class RevisionReader:
    """Reads revisions; the last ones are kept, each under its requested moment."""

    def __init__(self, settings: WikipediaSettings, context: PluginContext) -> None:
        self._language = settings.language
        self._headers = {"User-Agent": f"foxcast ({settings.contact})" if settings.contact else "foxcast"}
        self._http = context.http
        self._kept: dict[tuple[PageTitle, datetime], PageRevision] = {}

    async def read_revision(self, page: str, *, before: datetime) -> PageRevision:
        """Return the last revision strictly before the moment, following the redirects of that time.

        Raises NotFoundError for a page that does not exist, or did not yet.
        """
        title = parse_title(page, self._language)
        moment = before.astimezone(UTC)
        for _ in range(MAX_REDIRECTS + 1):
            found = await self._fetch_revision(title, moment)
            target = _REDIRECT_PATTERN.match(found.wikitext)
            if target is None:
                return found
            title = PageTitle(title.language, _normalise_title(target[1]))
        message = f"{SOURCE}: {page} redirects more than {MAX_REDIRECTS} times"
        raise NotFoundError(message)

    async def _fetch_revision(self, title: PageTitle, before: datetime) -> PageRevision:
        key = (title, before)
        if key not in self._kept:
            body = await self._http.get(_request_url(title, before), max_bytes=MAX_BYTES, headers=self._headers)
            self._kept[key] = _read_revision(parse_reply(_ApiReply, body, SOURCE), title, before)
            while len(self._kept) > MAX_CACHED_REVISIONS:
                del self._kept[next(iter(self._kept))]
        return self._kept[key]


def parse_title(page: str, language: str) -> PageTitle:
    """Return the page that a title or an address names; raises NotFoundError for an address elsewhere."""
    if "://" not in page:
        return PageTitle(language, _normalise_title(page))
    try:
        parts = urlsplit(page)
        edition, *rest = (parts.hostname or "").split(".")
    except ValueError:
        _raise_malformed(f"{page!r} is not an address")
    if [part for part in rest if part != "m"] != ["wikipedia", "org"] or not re.match(_LANGUAGE_PATTERN, edition):
        _raise_malformed(f"{page} is not a page of the encyclopedia")
    if edition == "www":
        edition = language
    _, wiki, text = parts.path.partition("/wiki/")
    return PageTitle(edition, _normalise_title(unquote(text) if wiki else parse_qs(parts.query).get("title", [""])[0]))


def _normalise_title(text: str) -> str:
    title = " ".join(text.partition("#")[0].replace("_", " ").split())
    # A bar would request two pages at once.
    if not title or "|" in title or not title.isprintable():
        _raise_malformed(f"{text!r} is not the title of a page")
    return title


def _request_url(title: PageTitle, before: datetime) -> str:
    asked = {
        "action": "query",
        "prop": "revisions",
        "titles": title.text,
        "rvlimit": "1",
        "rvdir": "older",
        # The listing begins with this second, and revisions are dated to the second.
        "rvstart": (before - timedelta(microseconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "rvprop": "ids|timestamp|content",
        "rvslots": "main",
        "format": "json",
        "formatversion": "2",
    }
    return f"https://{title.language}.wikipedia.org/w/api.php?{urlencode(asked)}"


def _read_revision(reply: _ApiReply, title: PageTitle, before: datetime) -> PageRevision:
    if reply.error is not None and reply.error.code in BUSY_CODES:
        message = f"{SOURCE} is busy: {reply.error.code}"
        raise ServiceUnavailableError(message)
    if reply.query is None:
        why = f"{reply.error.code}: {reply.error.info}" if reply.error else "it holds neither pages nor an error"
        message = f"{SOURCE}: {why}"
        raise MalformedDataError(message)
    page = reply.query.pages[0]
    # Whether the page exists today would reveal what happened since.
    if not page.revisions:
        _raise_malformed(f"there was no page {title.text} before {before.isoformat()}")
    return _page_revision(page, title, before)


def _page_revision(page: _PageRow, title: PageTitle, before: datetime) -> PageRevision:
    found = page.revisions[0]
    if found.timestamp.tzinfo is None or found.timestamp >= before:
        message = f"{SOURCE}: requested {title.text} before {before.isoformat()}, got it as of {found.timestamp}"
        raise MalformedDataError(message)
    if found.slots.main.content is None:
        _raise_malformed(f"the text of {title.text} from {found.timestamp} was withdrawn")
    url = f"https://{title.language}.wikipedia.org/w/index.php?oldid={found.revid}"
    return PageRevision(url=url, title=title.text, wikitext=found.slots.main.content, at=found.timestamp)


def _raise_malformed(why: str) -> NoReturn:
    message = f"{SOURCE}: {why}"
    raise NotFoundError(message)
