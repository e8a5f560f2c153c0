"""Asks the encyclopedia for the revision of a page that stood at a moment, and checks that it did."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from bot.api import ContractError, NotFound, Settings, Unavailable, Workplace
from plugins.data._reading import parsed

SOURCE = "wikipedia"
# The longest pages have 2 MB of source text, which JSON makes longer.
MAX_BYTES = 16_000_000
MAX_REDIRECTS = 2
# Several sections are read of the same page, and the same page is asked about by many questions.
KEPT = 16
# What the service answers when it is too busy for a request.
BUSY = frozenset({"maxlag", "ratelimited", "readonly", "internal_api_error_DBQueryTimeoutError"})

_LANGUAGE = r"^[a-z][a-z0-9-]{1,15}$"
_REDIRECT = re.compile(r"\s*+#\s*+\w++\s*+:?+\s*+\[\[\s*+:?+([^\[\]|#]++)[^\[\]]*+\]\]")


class WikipediaSettings(Settings):
    """The language of titles without an address, and whom to call."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    language: str = Field(default="en", pattern=_LANGUAGE)
    """Which edition a title without an address is looked up in."""

    contact: str = Field(default="", max_length=200)
    """An address or page of the operator; the service asks programs to name one."""


class _Content(BaseModel):
    content: str | None = None


class _Slots(BaseModel):
    main: _Content


class _Revision(BaseModel):
    revid: int
    timestamp: datetime
    slots: _Slots


class _Page(BaseModel):
    revisions: list[_Revision] = Field(default_factory=list)


class _Query(BaseModel):
    pages: list[_Page] = Field(min_length=1)


class _Error(BaseModel):
    code: str
    info: str = ""


class _Reply(BaseModel):
    query: _Query | None = None
    error: _Error | None = None


@dataclass(frozen=True, slots=True)
class Title:
    """A page of one language's edition."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A page as it stood: its permanent address, its source text and when that was written.

    ``title`` is the one that was asked for, or that a redirect of then named: the one of today may tell what happened.
    """

    url: str
    title: str
    wikitext: str
    at: datetime


class Encyclopedia:
    """Reads revisions; the last ones are kept, each under the moment that it was asked for."""

    def __init__(self, settings: WikipediaSettings, workplace: Workplace) -> None:
        self._language = settings.language
        self._headers = {"User-Agent": f"foxcast ({settings.contact})" if settings.contact else "foxcast"}
        self._http = workplace.http
        self._kept: dict[tuple[Title, datetime], Revision] = {}

    async def revision(self, page: str, *, before: datetime) -> Revision:
        """Return the last revision strictly before the moment, of the page that it redirected to then.

        Raises NotFound for a page that is not there, or was not yet.
        """
        title = title_of(page, self._language)
        moment = before.astimezone(UTC)
        for _ in range(MAX_REDIRECTS + 1):
            found = await self._revision(title, moment)
            target = _REDIRECT.match(found.wikitext)
            if target is None:
                return found
            title = Title(title.language, _clean(target[1]))
        message = f"{SOURCE}: {page} redirects more than {MAX_REDIRECTS} times"
        raise NotFound(message)

    async def _revision(self, title: Title, before: datetime) -> Revision:
        key = (title, before)
        if key not in self._kept:
            body = await self._http.get(_address(title, before), max_bytes=MAX_BYTES, headers=self._headers)
            self._kept[key] = _read(parsed(_Reply, body, SOURCE), title, before)
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return self._kept[key]


def title_of(page: str, language: str) -> Title:
    """Return the page that a title or an address names; raises NotFound for an address elsewhere."""
    if "://" not in page:
        return Title(language, _clean(page))
    try:
        parts = urlsplit(page)
        edition, *rest = (parts.hostname or "").split(".")
    except ValueError:
        _refuse(f"{page!r} is not an address")
    if [part for part in rest if part != "m"] != ["wikipedia", "org"] or not re.match(_LANGUAGE, edition):
        _refuse(f"{page} is not a page of the encyclopedia")
    if edition == "www":
        edition = language
    _, wiki, text = parts.path.partition("/wiki/")
    return Title(edition, _clean(unquote(text) if wiki else parse_qs(parts.query).get("title", [""])[0]))


def _clean(text: str) -> str:
    title = " ".join(text.partition("#")[0].replace("_", " ").split())
    # A bar would ask for two pages at once.
    if not title or "|" in title or not title.isprintable():
        _refuse(f"{text!r} is not the title of a page")
    return title


def _address(title: Title, before: datetime) -> str:
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


def _read(reply: _Reply, title: Title, before: datetime) -> Revision:
    if reply.error is not None and reply.error.code in BUSY:
        message = f"{SOURCE} is busy: {reply.error.code}"
        raise Unavailable(message)
    if reply.query is None:
        why = f"{reply.error.code}: {reply.error.info}" if reply.error else "it holds neither pages nor an error"
        message = f"{SOURCE}: {why}"
        raise ContractError(message)
    page = reply.query.pages[0]
    # Whether there is such a page today would tell what happened since.
    if not page.revisions:
        _refuse(f"there was no page {title.text} before {before.isoformat()}")
    return _revision_of(page, title, before)


def _revision_of(page: _Page, title: Title, before: datetime) -> Revision:
    found = page.revisions[0]
    if found.timestamp.tzinfo is None or found.timestamp >= before:
        message = f"{SOURCE}: asked for {title.text} before {before.isoformat()}, got it as of {found.timestamp}"
        raise ContractError(message)
    if found.slots.main.content is None:
        _refuse(f"the text of {title.text} from {found.timestamp} was withdrawn")
    url = f"https://{title.language}.wikipedia.org/w/index.php?oldid={found.revid}"
    return Revision(url=url, title=title.text, wikitext=found.slots.main.content, at=found.timestamp)


def _refuse(why: str) -> NoReturn:
    message = f"{SOURCE}: {why}"
    raise NotFound(message)
