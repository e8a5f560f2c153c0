"""Reading over HTTP: what can be asked of the venue's three interfaces, and pages that end one way or another.

The venue's own client is not used here: it loses a whole page over one record with an unknown word in it.
Sources: venue document, sections 4.1, 4.2, 5.1 and 6.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import quote, urlencode, urlsplit

import structlog

from bot.api import ConfigError, ContractError, Http, Json, LeakError, NotFound
from plugins.polymarket.books import Book, parse_book
from plugins.polymarket.raw import decimal_of, moment_of, record_of, text_of
from plugins.polymarket.settings import ReadingSettings

log = structlog.get_logger(__name__)

MAX_BYTES = 60_000_000
# More is cut to this by the server, without a word.
MOST_A_PAGE = 100
BOOKS_AT_ONCE = 500
CONDITIONS_AT_ONCE = 20
# In one address; each is 66 characters.
MARKETS_AT_ONCE = 50
HEADERS = {"User-Agent": "foxcast", "Accept": "application/json"}
# Where the version is left out, newer markets are.
VERSIONS = ("v1", "v2")

Parameters = Mapping[str, str | int | float | Sequence[str]]
Record = Mapping[str, object]


class Client:
    """What can be asked. All raise as ``Http.get`` does, and ContractError for an answer of another form."""

    def __init__(self, settings: ReadingSettings, http: Http) -> None:
        self._settings = settings
        self._http = http

    async def events(self, parameters: Parameters, *, most_pages: int) -> AsyncIterator[Record]:
        """Yield open or closed events, as ``closed`` in the parameters says, with all their markets in them."""
        async for record in self._keyset("events", parameters, most_pages):
            yield record

    async def markets(self, parameters: Parameters, *, most_pages: int) -> AsyncIterator[Record]:
        """Yield open or closed markets, as ``closed`` in the parameters says."""
        async for record in self._keyset("markets", parameters, most_pages):
            yield record

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> list[Record]:
        """Return those markets that are open, or those that are closed: one query does not return both."""
        found: list[Record] = []
        for part in parts_of(list(conditions), MARKETS_AT_ONCE):
            asked: Parameters = {"condition_ids": part, "closed": _flag(value=closed), "limit": MOST_A_PAGE}
            async for record in self._keyset("markets", asked, 2):
                # A filter that is not understood returns everything.
                if text_of(record.get("conditionId")).lower() in part:
                    found.append(record)  # noqa: PERF401 - an asynchronous source and a condition
        return found

    async def market(self, slug: str) -> Record:
        """Return a market by the name in its address; raises NotFound."""
        return record_of(await self._gamma(f"markets/slug/{quote(slug, safe='')}"))

    async def event(self, event_id: str) -> Record:
        """Return an event with all its markets by its number; raises NotFound."""
        return record_of(await self._gamma(f"events/{quote(event_id, safe='')}"))

    async def event_by_slug(self, slug: str) -> Record:
        """Return an event with all its markets by the name in its address; raises NotFound."""
        return record_of(await self._gamma(f"events/slug/{quote(slug, safe='')}"))

    async def tag_id(self, slug: str) -> str:
        """Return the number of a tag; raises NotFound."""
        tag = record_of(await self._gamma(f"tags/slug/{quote(slug, safe='')}"))
        number = tag.get("id")
        if not isinstance(number, str | int):
            message = f"tag {slug}: no id"
            raise ContractError(message)
        return str(number)

    async def books(self, tokens: Iterable[str]) -> dict[str, Book]:
        """Return the books of tokens as they are now; what has none, or none that can be read, is missing."""
        found: dict[str, Book] = {}
        bad = 0
        for part in parts_of(list(dict.fromkeys(tokens)), BOOKS_AT_ONCE):
            body: Json = [{"token_id": token} for token in part]
            url = self._address(self._settings.clob_url, "books")
            answer = _decoded(await self._http.post(url, body, max_bytes=MAX_BYTES, headers=HEADERS), "books")
            if not isinstance(answer, list):
                message = "books: the answer is not a list"
                raise ContractError(message)
            for raw in answer:
                try:
                    book = parse_book(raw)
                except ContractError as error:
                    bad += 1
                    log.warning("a book is left out", error=str(error), bad=bad)
                    continue
                if book.token in part:
                    found[book.token] = book
        return found

    async def book(self, token: str) -> Book | None:
        """Return the book of one token, None where it has none: a market may be too new, or about to end."""
        try:
            url = self._address(self._settings.clob_url, "book", {"token_id": token})
            answer = _decoded(await self._http.get(url, max_bytes=MAX_BYTES, headers=HEADERS), "book")
        except NotFound:
            return None
        book = parse_book(answer)
        if book.token != token:
            message = f"book: asked for {token}, got {book.token}"
            raise ContractError(message)
        return book

    async def long_market(self, condition: str) -> Record:
        """Return a market as the exchange has it, with its winner; raises NotFound."""
        url = self._address(self._settings.clob_url, f"markets/{quote(condition, safe='')}")
        return record_of(_decoded(await self._http.get(url, max_bytes=MAX_BYTES, headers=HEADERS), "markets"))

    async def short_market(self, condition: str) -> Record:
        """Return the terms of a market as the exchange has them, under short names; raises NotFound."""
        url = self._address(self._settings.clob_url, f"clob-markets/{quote(condition, safe='')}")
        return record_of(_decoded(await self._http.get(url, max_bytes=MAX_BYTES, headers=HEADERS), "clob-markets"))

    async def resolutions(self, conditions: Iterable[str]) -> dict[str, Record]:
        """Return how markets stand with the oracle, by condition; what it does not know is missing."""
        found: dict[str, Record] = {}
        for part in parts_of(list(dict.fromkeys(conditions)), CONDITIONS_AT_ONCE):
            async for row in self.data("resolutions", {"condition_id": ",".join(part)}):
                condition = text_of(row.get("condition_id")).lower()
                if condition in part:
                    found[condition] = row
        return found

    async def price_at(self, token: str, moment: datetime) -> tuple[Decimal, datetime] | None:
        """Return what a token cost at a past moment, and since when; None where it had no price yet.

        For beliefs of the crowd alone: it is a midpoint, and fills nothing. Raises LeakError for a later price.
        """
        asked: Parameters = {"token_id": token, "as_of": int(moment.timestamp())}
        rows = [row async for row in self.data("prices-history", asked, most_pages=1)]
        if not rows:
            return None
        price, at = decimal_of(rows[-1].get("price")), moment_of(rows[-1].get("timestamp"))
        if price is None or at is None or not 0 <= price <= 1:
            message = f"prices-history of {token}: a row without price or time"
            raise ContractError(message)
        if at > moment:
            message = f"prices-history of {token}: asked for {moment.isoformat()}, got a price of {at.isoformat()}"
            raise LeakError(message)
        return price, at.astimezone(UTC)

    async def data(self, path: str, parameters: Parameters, *, most_pages: int = 20) -> AsyncIterator[Record]:
        """Yield the rows of the Data API: ``cursor`` goes on for as long as it says that there is more."""
        asked = dict(parameters)
        for _ in range(most_pages):
            url = self._address(self._settings.data_url, f"v2/{path}", asked)
            answer = record_of(_decoded(await self._http.get(url, max_bytes=MAX_BYTES, headers=HEADERS), path))
            rows = answer.get("data", "missing")
            if isinstance(rows, Mapping):
                rows = [rows]
            if rows is not None and not isinstance(rows, list):
                message = f"{path}: the answer has no data"
                raise ContractError(message)
            for row in rows or ():
                yield record_of(row)
            told = record_of(answer.get("pagination"))
            cursor = text_of(told.get("next_cursor"))
            if told.get("has_more") is not True or not cursor or cursor == asked.get("cursor"):
                return
            asked["cursor"] = cursor
        if most_pages > 1:
            log.warning("a list is longer than is read", path=path, pages=most_pages)

    async def _keyset(self, kind: str, parameters: Parameters, most_pages: int) -> AsyncIterator[Record]:
        """Yield records of a list page by page, until it has no cursor, repeats itself, or is long enough.

        A page that is shorter than was asked for ends nothing: the server shortens them at will.
        """
        limit = min(int(str(parameters.get("limit", MOST_A_PAGE))), MOST_A_PAGE)
        asked: dict[str, str | int | float | Sequence[str]] = {**parameters, "version": VERSIONS, "limit": limit}
        if "closed" not in asked:
            message = "whether markets are open or closed must be asked for: the default has changed before"
            raise ValueError(message)
        seen: set[str] = set()
        for _ in range(most_pages):
            answer = await self._gamma(f"{kind}/keyset", asked)
            page = record_of(answer).get(kind)
            if not isinstance(page, list):
                message = f"{kind}/keyset: the answer is not a list of {kind}"
                raise ContractError(message)
            named, new = 0, 0
            for item in page:
                record = record_of(item)
                number = "" if record.get("id") is None else str(record["id"])
                named += bool(number)
                # What moved while the pages were read comes again.
                if number not in seen:
                    new += bool(number)
                    yield record
                if number:
                    seen.add(number)
            if named and not new:
                log.warning("a list repeats itself and is left there", path=f"{kind}/keyset")
                return
            cursor = text_of(record_of(answer).get("next_cursor"))
            if not cursor or cursor == asked.get("after_cursor"):
                return
            asked["after_cursor"] = cursor

    async def _gamma(self, path: str, parameters: Parameters | None = None) -> Json:
        url = self._address(self._settings.gamma_url, path, parameters)
        return _decoded(await self._http.get(url, max_bytes=MAX_BYTES, headers=HEADERS), path)

    def _address(self, base: str, path: str, parameters: Parameters | None = None) -> str:
        return address(self._settings, base, path, parameters)


def address(settings: ReadingSettings, base: str, path: str, parameters: Parameters | None = None) -> str:
    """Return an address below one of the venue's; several values of one parameter are repeated.

    Raises ConfigError for one that is not at the test host, where settings name one.
    """
    query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
    url = f"{base.rstrip('/')}/{path}{query}"
    if settings.test_host is not None and urlsplit(url).netloc != settings.test_host:
        message = f"{base} is not at test_host, {settings.test_host}, and nothing else is asked in a test"
        raise ConfigError(message)
    return url


def parts_of(items: Sequence[str], size: int) -> list[list[str]]:
    """Cut a list into parts of at most that size."""
    return [list(items[first : first + size]) for first in range(0, len(items), size)]


def _flag(*, value: bool) -> str:
    return "true" if value else "false"


def _decoded(body: bytes, path: str) -> Json:
    try:
        answer: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the answer is not JSON"
        raise ContractError(message) from error
    return answer
