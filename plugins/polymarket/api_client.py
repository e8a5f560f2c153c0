"""Reading over HTTP: the requests to the venue's three APIs, their paging, and their rate limits.

The venue's own client is not used: it loses a whole page because of one record with an unknown word. The rate limits
are far below those of the venue, since it slows down before it refuses. Sources: docs/facts/polymarket.md#lists,
#books, #data-api and #rate-limits.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit

import structlog

from bot.api import ConfigError, HttpClient, Json, MalformedDataError, NotFoundError, RateLimit
from plugins.polymarket.json_values import parse_record, parse_text
from plugins.polymarket.order_books import PolymarketOrderBook, parse_book
from plugins.polymarket.settings import PolymarketReadingSettings

log = structlog.get_logger(__name__)


MAX_RESPONSE_BYTES = 60_000_000


# The server silently cuts larger pages to this.
MAX_PAGE_SIZE = 100


MAX_BOOKS_PER_REQUEST = 500


MAX_ROW_PAGES = 100
MAX_CONDITIONS_PER_REQUEST = 20


# Per address; each is 66 characters.
MAX_MARKETS_PER_REQUEST = 50


REQUEST_HEADERS = {"User-Agent": "foxcast", "Accept": "application/json"}


# Without the version, newer markets are missing.
MARKET_VERSIONS = ("v1", "v2")


QueryParameters = Mapping[str, str | int | float | Sequence[str]]


JsonRecord = Mapping[str, object]


class PolymarketClient:
    """The read requests. All raise as ``HttpClient.get`` does, and MalformedDataError for an invalid response."""

    def __init__(self, settings: PolymarketReadingSettings, http: HttpClient) -> None:
        self._settings = settings
        self._http = http

    async def events(self, parameters: QueryParameters, *, most_pages: int) -> AsyncIterator[JsonRecord]:
        """Yield open or closed events (``closed`` in the parameters), with all their markets."""
        async for record in self._read_pages("events", parameters, most_pages):
            yield record

    async def markets(self, parameters: QueryParameters, *, most_pages: int) -> AsyncIterator[JsonRecord]:
        """Yield open or closed markets (``closed`` in the parameters)."""
        async for record in self._read_pages("markets", parameters, most_pages):
            yield record

    async def markets_by_condition(self, conditions: Iterable[str], *, closed: bool) -> list[JsonRecord]:
        """Return those markets that are open, or those that are closed: one query does not return both."""
        found: list[JsonRecord] = []
        for part in split_into_chunks(list(conditions), MAX_MARKETS_PER_REQUEST):
            query: QueryParameters = {
                "condition_ids": part,
                "closed": _format_flag(value=closed),
                "limit": MAX_PAGE_SIZE,
            }
            async for record in self._read_pages("markets", query, 2):
                # If the server ignores the filter, it returns everything.
                if parse_text(record.get("conditionId")).lower() in part:
                    found.append(record)  # noqa: PERF401 - an asynchronous source and a condition
        return found

    async def market(self, slug: str) -> JsonRecord:
        """Return a market by its slug; raises NotFoundError."""
        return parse_record(await self._get_market_data(f"markets/slug/{quote(slug, safe='')}"))

    async def event(self, event_id: str) -> JsonRecord:
        """Return an event with all its markets by its number; raises NotFoundError."""
        return parse_record(await self._get_market_data(f"events/{quote(event_id, safe='')}"))

    async def event_by_slug(self, slug: str) -> JsonRecord:
        """Return an event with all its markets by its slug; raises NotFoundError."""
        return parse_record(await self._get_market_data(f"events/slug/{quote(slug, safe='')}"))

    async def tag_id(self, slug: str) -> str:
        """Return the number of a tag; raises NotFoundError."""
        tag = parse_record(await self._get_market_data(f"tags/slug/{quote(slug, safe='')}"))
        number = tag.get("id")
        if not isinstance(number, str | int):
            message = f"tag {slug}: no id"
            raise MalformedDataError(message)
        return str(number)

    async def books(self, tokens: Iterable[str]) -> dict[str, PolymarketOrderBook]:
        """Return the books of tokens as they are now; tokens without a valid book are missing."""
        found: dict[str, PolymarketOrderBook] = {}
        bad = 0
        for part in split_into_chunks(list(dict.fromkeys(tokens)), MAX_BOOKS_PER_REQUEST):
            body: Json = [{"token_id": token} for token in part]
            url = self._address(self._settings.clob_url, "books")
            answer = _decode_json(
                await self._http.post(url, body, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), "books"
            )
            if not isinstance(answer, list):
                message = "books: the response is not a list"
                raise MalformedDataError(message)
            for raw in answer:
                try:
                    book = parse_book(raw)
                except MalformedDataError as error:
                    bad += 1
                    log.warning("a book is skipped", error=str(error), bad=bad)
                    continue
                if book.token in part:
                    found[book.token] = book
        return found

    async def book(self, token: str) -> PolymarketOrderBook | None:
        """Return the book of one token, None if it has none: a market may be too new, or about to end."""
        try:
            url = self._address(self._settings.clob_url, "book", {"token_id": token})
            answer = _decode_json(
                await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), "book"
            )
        except NotFoundError:
            return None
        book = parse_book(answer)
        if book.token != token:
            message = f"book: requested {token}, got {book.token}"
            raise MalformedDataError(message)
        return book

    async def exchange_market(self, condition: str) -> JsonRecord:
        """Return a market as the exchange has it, with its winner; raises NotFoundError."""
        url = self._address(self._settings.clob_url, f"markets/{quote(condition, safe='')}")
        return parse_record(
            _decode_json(await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), "markets")
        )

    async def exchange_terms(self, condition: str) -> JsonRecord:
        """Return the terms of a market as the exchange has them, under short names; raises NotFoundError."""
        url = self._address(self._settings.clob_url, f"clob-markets/{quote(condition, safe='')}")
        return parse_record(
            _decode_json(
                await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), "clob-markets"
            )
        )

    async def resolutions(self, conditions: Iterable[str]) -> dict[str, JsonRecord]:
        """Return the oracle states of markets, by condition; unknown markets are missing."""
        found: dict[str, JsonRecord] = {}
        for part in split_into_chunks(list(dict.fromkeys(conditions)), MAX_CONDITIONS_PER_REQUEST):
            async for row in self.read_rows("resolutions", {"condition_id": ",".join(part)}):
                condition = parse_text(row.get("condition_id")).lower()
                if condition in part:
                    found[condition] = row
        return found

    async def read_rows(self, path: str, parameters: QueryParameters) -> AsyncIterator[JsonRecord]:
        """Yield the rows of the Data API, following ``cursor`` while there is more.

        Raises MalformedDataError for a list without an end: a position that is missing would look like a loss.
        """
        query = dict(parameters)
        for _ in range(MAX_ROW_PAGES):
            url = self._address(self._settings.data_url, f"v2/{path}", query)
            answer = parse_record(
                _decode_json(await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), path)
            )
            rows = answer.get("data", "missing")
            if isinstance(rows, Mapping):
                rows = [rows]
            if rows is not None and not isinstance(rows, list):
                message = f"{path}: the response has no data"
                raise MalformedDataError(message)
            for row in rows or ():
                yield parse_record(row)
            pagination = parse_record(answer.get("pagination"))
            cursor = parse_text(pagination.get("next_cursor"))
            if pagination.get("has_more") is not True:
                return
            if not cursor or cursor == query.get("cursor"):
                break
            query["cursor"] = cursor
        message = f"{path}: the list has no end"
        raise MalformedDataError(message)

    async def _read_pages(self, kind: str, parameters: QueryParameters, most_pages: int) -> AsyncIterator[JsonRecord]:
        """Yield records of a list page by page, until it has no cursor, repeats itself, or is long enough.

        A short page is not the end: the server shortens pages at will.
        """
        limit = min(int(str(parameters.get("limit", MAX_PAGE_SIZE))), MAX_PAGE_SIZE)
        query: dict[str, str | int | float | Sequence[str]] = {**parameters, "version": MARKET_VERSIONS, "limit": limit}
        if "closed" not in query:
            message = "closed must be given: the default has changed before"
            raise ValueError(message)
        seen: set[str] = set()
        for _ in range(most_pages):
            answer = await self._get_market_data(f"{kind}/keyset", query)
            page = parse_record(answer).get(kind)
            if not isinstance(page, list):
                message = f"{kind}/keyset: the response is not a list of {kind}"
                raise MalformedDataError(message)
            named, new = 0, 0
            for item in page:
                record = parse_record(item)
                number = "" if record.get("id") is None else str(record["id"])
                named += bool(number)
                # Records that moved while the pages were read appear again.
                if number not in seen:
                    new += bool(number)
                    yield record
                if number:
                    seen.add(number)
            if named and not new:
                log.warning("a list repeats itself, reading it stops", path=f"{kind}/keyset")
                return
            cursor = parse_text(parse_record(answer).get("next_cursor"))
            if not cursor or cursor == query.get("after_cursor"):
                return
            query["after_cursor"] = cursor

    async def _get_market_data(self, path: str, parameters: QueryParameters | None = None) -> Json:
        url = self._address(self._settings.gamma_url, path, parameters)
        return _decode_json(await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=REQUEST_HEADERS), path)

    def _address(self, base: str, path: str, parameters: QueryParameters | None = None) -> str:
        return build_url(self._settings, base, path, parameters)


def build_url(
    settings: PolymarketReadingSettings, base: str, path: str, parameters: QueryParameters | None = None
) -> str:
    """Return an address of the venue; several values of one parameter are repeated.

    Raises ConfigError for an address that is not at the test host, if settings name one.
    """
    query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
    url = f"{base.rstrip('/')}/{path}{query}"
    if settings.test_host is not None and urlsplit(url).netloc != settings.test_host:
        message = f"{base} is not at test_host, {settings.test_host}, and a test sends requests nowhere else"
        raise ConfigError(message)
    return url


def split_into_chunks(items: Sequence[str], size: int) -> list[list[str]]:
    """Cut a list into parts of at most that size."""
    return [list(items[first : first + size]) for first in range(0, len(items), size)]


def _format_flag(*, value: bool) -> str:
    return "true" if value else "false"


def _decode_json(body: bytes, path: str) -> Json:
    try:
        answer: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the response is not JSON"
        raise MalformedDataError(message) from error
    return answer


READ_METHODS = frozenset({"GET"})


WRITE_METHODS = frozenset({"POST"})


CANCEL_METHODS = frozenset({"DELETE"})


def rate_limits(settings: PolymarketReadingSettings) -> Sequence[RateLimit]:
    """Return the rate limits of each API: reading, ordering and cancelling have separate ones."""
    clob = settings.clob_url.rstrip("/")
    gamma, data, site, socket = (
        f"{url.rstrip('/')}/" for url in (settings.gamma_url, settings.data_url, settings.site_url, settings.socket_url)
    )
    return (
        # One at a time: a slow response is the venue's first sign of overload.
        RateLimit(name="polymarket_gamma", prefixes=(gamma,), count=2, per_s=1.0, max_in_flight=1),
        RateLimit(name="polymarket_data", prefixes=(data,), count=2, per_s=1.0, max_in_flight=1),
        # The two limits of the exchange add up to five per second.
        RateLimit(
            name="polymarket_clob", prefixes=(f"{clob}/",), methods=READ_METHODS, count=4, per_s=1.0, max_in_flight=2
        ),
        RateLimit(
            name="polymarket_books",
            prefixes=(f"{clob}/books",),
            methods=WRITE_METHODS,
            count=1,
            per_s=1.0,
            max_in_flight=1,
        ),
        # Both /order and /orders.
        RateLimit(
            name="polymarket_orders",
            prefixes=(f"{clob}/order",),
            methods=WRITE_METHODS,
            count=1,
            per_s=10.0,
            max_in_flight=1,
        ),
        RateLimit(name="polymarket_cancels", prefixes=(f"{clob}/",), methods=CANCEL_METHODS, count=2, per_s=1.0),
        RateLimit(name="polymarket_site", prefixes=(f"{site}api/",), count=1, per_s=1.0),
        RateLimit(name="polymarket_sockets", prefixes=(socket,), count=5, per_s=10.0, burst=5),
    )
