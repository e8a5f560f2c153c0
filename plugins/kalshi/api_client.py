"""Reading over HTTP without a key: requests, paging that always ends, and rate limits.

Every list has a limit of pages, and ends at an empty cursor or when it repeats itself: the venue answers an invalid
cursor with its first page. Series and fees are kept for an hour. Source: docs/facts/kalshi.md#market-data.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from urllib.parse import quote, urlencode

import structlog

from bot.api import AuthenticationError, Clock, HttpClient, MalformedDataError, NotFoundError, RateLimit
from plugins.kalshi.market_parser import JsonRecord, KalshiSeries, parse_series
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.signing import KalshiSigner

log = structlog.get_logger(__name__)

MAX_RESPONSE_BYTES = 60_000_000
MAX_TICKERS_PER_REQUEST = 100
MAX_PAGE_SIZE = 1000
# Events have some hundred markets at most.
MAX_ARCHIVE_PAGES = 5
SERIES_CACHE_S = 3600.0
# A version in another language would be another question.
REQUEST_HEADERS = {"User-Agent": "foxcast", "Accept": "application/json", "Accept-Language": "en"}

# Far below what the lowest tier of accounts allows; the limits without a key are not published.
READS_PER_S, ORDERS_PER_S, CANCELS_PER_S = 5, 1, 5

QueryParameters = Mapping[str, str | int]


class KalshiClient:
    """The read requests. All raise as ``HttpClient.get`` does, and MalformedDataError for an invalid response."""

    def __init__(
        self, settings: KalshiSettings, http: HttpClient, clock: Clock, signer: KalshiSigner | None = None
    ) -> None:
        self._settings, self._http, self.clock, self._signer = settings, http, clock, signer
        self._series: dict[str, tuple[float, KalshiSeries]] = {}

    async def open_events(self, parameters: QueryParameters) -> AsyncIterator[JsonRecord]:
        """Yield events that have an open market, each with its markets under ``markets``."""
        settings = self._settings
        query: dict[str, str | int] = {"status": "open", "with_nested_markets": "true", "limit": settings.page_size}
        seen: set[str] = set()
        for _ in range(settings.max_pages):
            answer = await self._get("events", {**query, **parameters})
            new = 0
            for record in _records(answer, "events", "events"):
                name = str(record.get("event_ticker", ""))
                if name not in seen:
                    new += 1
                    yield record
                seen.add(name)
            cursor = answer.get("cursor")
            if not isinstance(cursor, str) or not cursor:
                return
            if not new or cursor == query.get("cursor"):
                log.warning("a list repeats itself, reading it stops", path="events")
                return
            query["cursor"] = cursor
        log.info("a list is longer than max_pages", path="events", pages=settings.max_pages)

    async def event(self, ticker: str) -> JsonRecord:
        """Return an event with its markets under ``markets``; raises NotFoundError."""
        answer = await self._get(f"events/{quote(ticker, safe='')}", {"with_nested_markets": "true"})
        event = _record(answer, "event", f"events/{ticker}")
        return {**event, "markets": event.get("markets", answer.get("markets"))}

    async def market(self, ticker: str) -> JsonRecord:
        """Return a market, also an archived one; raises NotFoundError."""
        path = f"markets/{quote(ticker, safe='')}"
        try:
            answer = await self._get(path)
        except NotFoundError:
            answer = await self._get(f"historical/{path}")
        return _record(answer, "market", path)

    async def archived_markets(self, event: str) -> Sequence[JsonRecord]:
        """Return the archived markets of an event, which its own list leaves out.

        Raises MalformedDataError for a list of other events, or without an end: a winner may be missing from it.
        """
        path, found = "historical/markets", dict[str, JsonRecord]()
        query: dict[str, str | int] = {"event_ticker": event, "limit": MAX_PAGE_SIZE}
        for _ in range(MAX_ARCHIVE_PAGES):
            answer = await self._get(path, query)
            for record in _records(answer, "markets", path):
                if record.get("event_ticker") != event:
                    message = f"{path}: a market of {record.get('event_ticker')!r:.60} in the list of {event}"
                    raise MalformedDataError(message)
                found[str(record.get("ticker", ""))] = record
            cursor = answer.get("cursor")
            if not cursor:
                return tuple(found.values())
            if not isinstance(cursor, str) or cursor == query.get("cursor"):
                break
            query["cursor"] = cursor
        message = f"{path}: the list of {event} has no end"
        raise MalformedDataError(message)

    async def markets(self, tickers: Iterable[str]) -> dict[str, JsonRecord]:
        """Return markets by ticker, in any state; archived ones are missing."""
        wanted = list(dict.fromkeys(tickers))
        found: dict[str, JsonRecord] = {}
        for first in range(0, len(wanted), MAX_TICKERS_PER_REQUEST):
            part = wanted[first : first + MAX_TICKERS_PER_REQUEST]
            query: QueryParameters = {
                "tickers": ",".join(part),
                "mve_filter": "exclude",
                "limit": MAX_TICKERS_PER_REQUEST,
            }
            for record in _records(await self._get("markets", query), "markets", "markets"):
                if (ticker := record.get("ticker")) in part:
                    found[str(ticker)] = record
        return found

    async def book(self, ticker: str) -> JsonRecord:
        """Return the whole order book of a market; raises NotFoundError."""
        path = f"markets/{quote(ticker, safe='')}/orderbook"
        return _record(await self._get(path, {"depth": 0}), "orderbook_fp", path)

    async def series(self, ticker: str) -> KalshiSeries:
        """Return a series, read at most once an hour; raises NotFoundError."""
        read_s, known = self._series.get(ticker, (0.0, None))
        if known is None or self.clock.monotonic() - read_s >= SERIES_CACHE_S:
            path = f"series/{quote(ticker, safe='')}"
            known = parse_series(_record(await self._get(path), "series", path))
            self._series[ticker] = self.clock.monotonic(), known
        return known

    async def series_of_category(self, category: str | None) -> dict[str, KalshiSeries]:
        """Return all series of a category, of all for None, by ticker; unreadable ones are missing."""
        answer = await self._get("series", {} if category is None else {"category": category})
        found: dict[str, KalshiSeries] = {}
        for record in _records(answer, "series", "series"):
            try:
                series = parse_series(record)
            except MalformedDataError as error:
                log.warning("a series is skipped", error=str(error))
                continue
            found[series.ticker] = series
        now_s = self.clock.monotonic()
        self._series |= {ticker: (now_s, series) for ticker, series in found.items()}
        return found

    async def get_signed(self, path: str, parameters: QueryParameters | None = None) -> JsonRecord:
        """Return a response about the account; raises AuthenticationError without a signer or if it is refused."""
        if self._signer is None:
            message = "this client has no key"
            raise AuthenticationError(message, sent=False)
        headers = self._signer.headers("GET", build_url(self._settings, path))
        return await self._get(path, parameters, headers)

    async def _get(
        self, path: str, parameters: QueryParameters | None = None, more_headers: Mapping[str, str] | None = None
    ) -> JsonRecord:
        url = build_url(self._settings, path, parameters)
        headers = {**REQUEST_HEADERS, **(more_headers or {})}
        body = await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=headers)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            message = f"{path}: the response is not JSON"
            raise MalformedDataError(message) from error
        if not isinstance(answer, dict):
            message = f"{path}: the response is not an object"
            raise MalformedDataError(message)
        return answer


def build_url(settings: KalshiSettings, path: str, parameters: QueryParameters | None = None) -> str:
    """Return an address of the API."""
    return f"{settings.base_url}/{path}" + (f"?{urlencode(parameters)}" if parameters else "")


def rate_limits(settings: KalshiSettings) -> Sequence[RateLimit]:
    """Return the rate limits."""
    prefixes = (f"{settings.base_url}/",)
    return (
        RateLimit(
            name="kalshi_reads",
            prefixes=(*prefixes, settings.socket_address),
            methods=frozenset({"GET"}),
            count=READS_PER_S,
            per_s=1.0,
            max_in_flight=2,
        ),
        RateLimit(
            name="kalshi_orders",
            prefixes=prefixes,
            methods=frozenset({"POST"}),
            count=ORDERS_PER_S,
            per_s=1.0,
            max_in_flight=1,
        ),
        RateLimit(
            name="kalshi_cancels", prefixes=prefixes, methods=frozenset({"DELETE"}), count=CANCELS_PER_S, per_s=1.0
        ),
    )


def _record(answer: JsonRecord, name: str, path: str) -> JsonRecord:
    value = answer.get(name)
    if not isinstance(value, dict):
        message = f"{path}: the response has no {name}"
        raise MalformedDataError(message)
    return value


def _records(answer: JsonRecord, name: str, path: str) -> list[JsonRecord]:
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        message = f"{path}: the response has no list of {name}"
        raise MalformedDataError(message)
    return value
