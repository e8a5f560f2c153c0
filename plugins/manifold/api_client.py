"""Reading over HTTP: the addresses of this venue, its query format, and reads that bypass caches.

The venue's servers answer from a cache for up to 15 seconds. Requests that need current data use an address that is new
each time: with a meaningless parameter, or a time bound that excludes nothing. Source:
docs/facts/manifold.md#essentials, #reading and #account.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from bot.api import (
    AuthenticationError,
    CacheBuster,
    Clock,
    HttpClient,
    Json,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from plugins.manifold.settings import ManifoldSettings

MAX_RESPONSE_BYTES = 40_000_000
MAX_MARKETS_PER_REQUEST = 100
MAX_ROWS = 10_000
# Each comes with its whole market, and ten thousand of those are more than one response may have.
MAX_POSITIONS_PER_PAGE, MAX_POSITION_PAGES = 2_000, 100
# Later than any row, even if the two clocks differ.
_CLOCK_MARGIN_MS = 3_600_000
# Longer than any cache keeps a response, and no divisor of the periods of jobs: a job at the same second of each hour
# would otherwise use the same address each time.
_CACHE_SPREAD_MS, _CACHE_SPREAD_ROWS = 99_991, 997

QueryValue = str | bool | float | Sequence[str]
QueryParameters = Mapping[str, QueryValue | None]
JsonRecord = Mapping[str, Any]


def encode_query(parameters: QueryParameters) -> str:
    """Return a query as the venue's server reads it: booleans are true and false, lists are written with brackets."""
    pairs: list[tuple[str, str]] = []
    for name, value in parameters.items():
        if value is None:
            continue
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif isinstance(value, str | float | int):
            pairs.append((name, str(value)))
        else:
            pairs += [(f"{name}[]", each) for each in value]
    return f"?{urlencode(pairs, safe='[]')}" if pairs else ""


def auth_headers(settings: ManifoldSettings) -> dict[str, str]:
    """Return the header with the key of the environment in use; raises AuthenticationError if none is set."""
    if settings.key_in_use is None:
        name = settings.key_name
        message = (
            f"no {name}: create one on the account page, set its file as {name}_file in [venues.manifold.settings]"
        )
        raise AuthenticationError(message)
    return {"Authorization": f"Key {settings.key_in_use.get_secret_value()}"}


class ManifoldPositions:
    """The positions of an account, page by page: a page may repeat rows of the one before it.

    ``rows`` are by market and answer, which is "" for a market without answers and for the sums of one with them;
    ``contracts`` are the markets by their ids.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], JsonRecord] = {}
        self.contracts: dict[str, JsonRecord] = {}
        self.next_offset = 0

    def add_page(self, page: JsonRecord) -> int:
        """Add a page; return how many markets it has, or rows if those are more. Raises MalformedDataError."""
        by_market, contracts = page.get("metricsByContract"), page.get("contracts")
        if not isinstance(by_market, Mapping):
            message = "the positions of the account are not listed by market"
            raise MalformedDataError(message)
        count = 0
        for market, rows in by_market.items():
            for row in _only_records(rows):
                count += 1
                self.rows[str(market), str(row.get("answerId") or "")] = row
        self.contracts.update((str(row.get("id")), row) for row in _only_records(contracts))
        self.next_offset += len(by_market)
        return max(count, len(by_market))


class ManifoldClient:
    """The read requests; implements ``plugins.manifold.market_state.ManifoldMarketSource``.

    All raise as ``HttpClient.get`` does, and MalformedDataError for a response that is not of the documented form.
    """

    def __init__(self, settings: ManifoldSettings, http: HttpClient, clock: Clock) -> None:
        self._settings = settings
        self._http = http
        self._stamps = CacheBuster(clock)

    def stamp_ms(self) -> int:
        """Return the time in milliseconds, but never the same twice."""
        return self._stamps.next_ms()

    async def get(self, path: str, parameters: QueryParameters | None = None) -> Json:
        """Return the decoded response to a request that needs no key."""
        return _decode_json(await self._http.get(self._url(path, parameters), max_bytes=MAX_RESPONSE_BYTES), path)

    async def own_account(self) -> JsonRecord:
        """Return the account of the key; raises AuthenticationError, naming the setting."""
        headers = auth_headers(self._settings)
        try:
            body = await self._http.get(self._url("me"), max_bytes=MAX_RESPONSE_BYTES, headers=headers)
        except AuthenticationError as error:
            message = f"{error}; check {self._settings.key_name} in [venues.manifold.settings]"
            raise AuthenticationError(message) from error
        return _require_record(_decode_json(body, "me"), "me")

    async def user(self, username: str) -> JsonRecord:
        """Return a user; raises NotFoundError."""
        return _require_record(await self.get(f"user/{_path_segment(username)}"), f"user/{username}")

    async def search(self, parameters: QueryParameters) -> list[Json]:
        """Return a page of markets (LiteMarket), unparsed."""
        return _require_list(await self.get("search-markets", parameters), "search-markets")

    async def market(self, market_id: str) -> JsonRecord:
        """Return the FullMarket as it is now."""
        return await self._get_uncached(f"market/{_path_segment(market_id)}")

    async def market_by_slug(self, slug: str) -> JsonRecord:
        """Return the FullMarket of a slug as it is now."""
        return await self._get_uncached(f"slug/{_path_segment(slug)}")

    async def answers(self, market_id: str) -> list[Json]:
        """Return the answers as the database has them; ``prob`` is what they paid once the market is resolved."""
        path = f"market/{_path_segment(market_id)}/answers"
        return _require_list(await self.get(path), path)

    async def market_prices(self, market_ids: Sequence[str]) -> dict[str, JsonRecord]:
        """Return prices by market id, without unknown markets; a hundred per request."""
        found: dict[str, JsonRecord] = {}
        for first in range(0, len(market_ids), MAX_MARKETS_PER_REQUEST):
            page = await self.get("market-probs", {"ids": market_ids[first : first + MAX_MARKETS_PER_REQUEST]})
            rows = _require_record(page, "market-probs").items()
            found.update((market, row) for market, row in rows if isinstance(row, Mapping))
        return found

    async def orders(self, market_id: str) -> list[JsonRecord]:
        """Return the open limit orders of all users on a market, as they are now; raises as ``own_orders`` does."""
        rows = await self._open_orders({"contractId": market_id})
        return [row for row in rows if isinstance(row, Mapping)]

    async def own_orders(self, user_id: str, market_id: str | None = None) -> list[JsonRecord]:
        """Return the open limit orders of one user, as they are now; expired ones may be among them.

        Raises MalformedDataError if a row is no order, or if there may be more.
        """
        return _require_bets(await self._open_orders({"userId": user_id, "contractId": market_id}))

    async def bets_since(self, user_id: str, market_id: str | None, since_ms: int) -> list[JsonRecord]:
        """Return the bets of one user on one market (None: on all) from that moment on, oldest first, as they are now.

        Raises MalformedDataError if a row is invalid, or if there are more: a missing bet would then prove nothing.
        """
        # A little earlier each time, so that no cache has the response.
        after = since_ms - self.stamp_ms() % _CACHE_SPREAD_MS
        query: QueryParameters = {"userId": user_id, "contractId": market_id, "afterTime": after, "order": "asc"}
        return list({str(row["id"]): row for row in _require_bets(await self._all_bets(query))}.values())

    async def balances(self, user_ids: Collection[str]) -> dict[str, float]:
        """Return the balances of these users, without those that cannot be read."""
        found = await asyncio.gather(*(self._balance(user) for user in user_ids))
        return {user: balance for user, balance in zip(user_ids, found, strict=True) if balance is not None}

    async def positions(self, user_id: str) -> ManifoldPositions:
        """Return all positions of a user, by market; raises MalformedDataError for a list that cannot be read whole.

        A page counts markets, or rows of answers: the venue documents neither. Each page begins after as many as the
        markets of the one before it, which is right for markets, and reads some rows twice otherwise.
        """
        # A different limit each time, for the same reason.
        limit = MAX_POSITIONS_PER_PAGE - self.stamp_ms() % _CACHE_SPREAD_ROWS
        path, positions = "get-user-contract-metrics-with-contracts", ManifoldPositions()
        for _ in range(MAX_POSITION_PAGES):
            query: QueryParameters = {
                "userId": user_id,
                "limit": limit,
                "offset": positions.next_offset,
                "perAnswer": True,
            }
            known = len(positions.rows)
            if positions.add_page(_require_record(await self.get(path, query), path)) < limit:
                return positions
            if len(positions.rows) == known:
                break
        message = f"{path}: the list has no end"
        raise MalformedDataError(message)

    async def comments(self, user_id: str, market_id: str) -> list[JsonRecord]:
        """Return the comments of one user on one market, the newest first, as they are now."""
        query: QueryParameters = {
            "userId": user_id,
            "contractId": market_id,
            "order": "newest",
            "afterTime": self.stamp_ms() % 10**6,
        }
        found = _require_list(await self.get("comments", query), "comments")
        return [row for row in found if isinstance(row, Mapping)]

    async def _get_uncached(self, path: str) -> JsonRecord:
        # These addresses ignore an unknown parameter.
        return _require_record(await self.get(path, {"fresh": self.stamp_ms()}), path)

    async def _open_orders(self, query: QueryParameters) -> list[Json]:
        before = self.stamp_ms() + _CLOCK_MARGIN_MS
        return await self._all_bets({**query, "kinds": "open-limit", "beforeTime": before})

    async def _all_bets(self, query: QueryParameters) -> list[Json]:
        rows = _require_list(await self.get("bets", {**query, "limit": MAX_ROWS}), "bets")
        if len(rows) >= MAX_ROWS:
            message = f"bets: there are more than the {MAX_ROWS} rows of one response"
            raise MalformedDataError(message)
        return rows

    async def _balance(self, user_id: str) -> float | None:
        try:
            path = f"user/by-id/{_path_segment(user_id)}"
            balance = _require_record(await self.get(path), path).get("balance")
        except (MalformedDataError, NotFoundError, RequestRejectedError, AuthenticationError, ServiceUnavailableError):
            return None
        return float(balance) if isinstance(balance, int | float) and not isinstance(balance, bool) else None

    def _url(self, path: str, parameters: QueryParameters | None = None) -> str:
        return f"{self._settings.addresses.api}/v0/{path}{encode_query(parameters or {})}"


def _path_segment(text: str) -> str:
    if not text or not text.isascii() or text in {".", ".."}:
        message = f"the venue has nothing named {text[:80]!r}"
        raise NotFoundError(message)
    return quote(text, safe="")


def _decode_json(body: bytes, path: str) -> Json:
    try:
        answer: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the response is not JSON"
        raise MalformedDataError(message) from error
    return answer


def _require_list(answer: Json, path: str) -> list[Json]:
    if not isinstance(answer, list):
        message = f"{path}: the response is not a list"
        raise MalformedDataError(message)
    return list(answer)


def _require_bets(rows: Sequence[Json]) -> list[JsonRecord]:
    bets: list[JsonRecord] = [row for row in rows if isinstance(row, Mapping) and isinstance(row.get("id"), str)]
    if len(bets) < len(rows):
        message = f"bets: {len(rows) - len(bets)} of {len(rows)} rows are not bets"
        raise MalformedDataError(message)
    return bets


def _only_records(rows: object) -> list[JsonRecord]:
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _require_record(answer: Json, path: str) -> JsonRecord:
    if not isinstance(answer, Mapping):
        message = f"{path}: the response is not an object"
        raise MalformedDataError(message)
    return answer
