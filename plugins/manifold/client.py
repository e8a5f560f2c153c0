"""Reading over HTTP: the addresses of this venue, its ways of writing a query, and reads that no cache answers.

The venue's own servers let a cache answer for up to 15 seconds. What must be true now is asked under an address that
was never asked before: with a parameter that means nothing, or a bound in time that leaves nothing out.
Source: venue document, sections 1, 4 and 5.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from bot.api import CacheBuster, Clock, ContractError, Http, Json, NotFound, Rejected, Unauthorized, Unavailable
from plugins.manifold.settings import ManifoldSettings

MAX_BYTES = 40_000_000
PROBS_AT_ONCE = 100
MOST_ROWS = 10_000
# Later than whatever is there, also where the two clocks differ.
_AHEAD_MS = 3_600_000
# Longer than any cache holds an answer, and no part of the periods of jobs: what comes at the same second of each hour
# would ask under the same address each time.
_SPREAD_MS, _SPREAD_ROWS = 99_991, 997

Value = str | bool | float | Sequence[str]
Asked = Mapping[str, Value | None]
Record = Mapping[str, Any]


def query(parameters: Asked) -> str:
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


def headers_of(settings: ManifoldSettings) -> dict[str, str]:
    """Return the header with the key of the world in use; raises Unauthorized where none is set."""
    if settings.key_in_use is None:
        name = settings.key_name
        message = (
            f"no {name}: make one on the account's page, and name its file as {name}_file in [venues.manifold.settings]"
        )
        raise Unauthorized(message)
    return {"Authorization": f"Key {settings.key_in_use.get_secret_value()}"}


class Client:
    """What can be asked. All raise as ``Http.get`` does, and ContractError for what is not of the documented form.

    Implements ``plugins.manifold.reading.Reads``.
    """

    def __init__(self, settings: ManifoldSettings, http: Http, clock: Clock) -> None:
        self._settings = settings
        self._http = http
        self._stamps = CacheBuster(clock)

    def stamp_ms(self) -> int:
        """Return the time in milliseconds, but never the same twice."""
        return self._stamps.next_ms()

    async def get(self, path: str, parameters: Asked | None = None) -> Json:
        """Return the decoded answer to a question that needs no key."""
        return _decoded(await self._http.get(self._url(path, parameters), max_bytes=MAX_BYTES), path)

    async def me(self) -> Record:
        """Return the account of the key; raises Unauthorized, naming the setting."""
        headers = headers_of(self._settings)
        try:
            body = await self._http.get(self._url("me"), max_bytes=MAX_BYTES, headers=headers)
        except Unauthorized as error:
            message = f"{error}; check {self._settings.key_name} in [venues.manifold.settings]"
            raise Unauthorized(message) from error
        return _record(_decoded(body, "me"), "me")

    async def user(self, username: str) -> Record:
        """Return a user; raises NotFound."""
        return _record(await self.get(f"user/{_part(username)}"), f"user/{username}")

    async def search(self, parameters: Asked) -> list[Json]:
        """Return a page of LiteMarkets, unread."""
        return _list(await self.get("search-markets", parameters), "search-markets")

    async def market(self, market_id: str) -> Record:
        """Return the FullMarket as it is now."""
        return await self._fresh(f"market/{_part(market_id)}")

    async def slug(self, slug: str) -> Record:
        """Return the FullMarket of a slug as it is now."""
        return await self._fresh(f"slug/{_part(slug)}")

    async def answers(self, market_id: str) -> list[Json]:
        """Return the answers as the database has them; ``prob`` is what they paid once the market is resolved."""
        path = f"market/{_part(market_id)}/answers"
        return _list(await self.get(path), path)

    async def probs(self, market_ids: Sequence[str]) -> dict[str, Record]:
        """Return prices by the ids of markets, those that are not there left out; a hundred are asked for at once."""
        found: dict[str, Record] = {}
        for first in range(0, len(market_ids), PROBS_AT_ONCE):
            page = await self.get("market-probs", {"ids": market_ids[first : first + PROBS_AT_ONCE]})
            rows = _record(page, "market-probs").items()
            found.update((market, row) for market, row in rows if isinstance(row, Mapping))
        return found

    async def orders(self, market_id: str) -> list[Record]:
        """Return the open limit orders of all users on a market, as they are now."""
        return await self._bets({"contractId": market_id, "kinds": "open-limit"})

    async def own_orders(self, user_id: str, market_id: str | None = None) -> list[Record]:
        """Return the open limit orders of one user, as they are now; expired ones may be among them."""
        return await self._bets({"userId": user_id, "contractId": market_id, "kinds": "open-limit"})

    async def bets_since(self, user_id: str, market_id: str, since_ms: int) -> list[Record]:
        """Return the bets of one user on one market from that moment on, oldest first, as they are now.

        Raises ContractError where some row is none: what is missing then proves nothing.
        """
        # A little earlier each time: a question that no cache has heard.
        after = since_ms - self.stamp_ms() % _SPREAD_MS
        asked: Asked = {"userId": user_id, "contractId": market_id, "afterTime": after, "order": "asc"}
        rows = _list(await self.get("bets", {**asked, "limit": MOST_ROWS}), "bets")
        if odd := [row for row in rows if not isinstance(row, Mapping) or not isinstance(row.get("id"), str)]:
            message = f"bets: {len(odd)} of {len(rows)} rows are no bets"
            raise ContractError(message)
        return list({str(row["id"]): row for row in rows if isinstance(row, Mapping)}.values())

    async def balances(self, user_ids: Collection[str]) -> dict[str, float]:
        """Return what these users have, without those who cannot be read."""
        found = await asyncio.gather(*(self._balance(user) for user in user_ids))
        return {user: balance for user, balance in zip(user_ids, found, strict=True) if balance is not None}

    async def metrics(self, user_id: str) -> Record:
        """Return all positions of a user, by market."""
        # Never quite so many twice, for the same reason.
        asked: Asked = {"userId": user_id, "limit": MOST_ROWS - self.stamp_ms() % _SPREAD_ROWS, "perAnswer": True}
        path = "get-user-contract-metrics-with-contracts"
        return _record(await self.get(path, asked), path)

    async def comments(self, user_id: str, market_id: str) -> list[Record]:
        """Return the comments of one user on one market, the newest first, as they are now."""
        asked: Asked = {
            "userId": user_id,
            "contractId": market_id,
            "order": "newest",
            "afterTime": self.stamp_ms() % 10**6,
        }
        found = _list(await self.get("comments", asked), "comments")
        return [row for row in found if isinstance(row, Mapping)]

    async def _fresh(self, path: str) -> Record:
        # These addresses tolerate a parameter that means nothing.
        return _record(await self.get(path, {"fresh": self.stamp_ms()}), path)

    async def _bets(self, asked: Asked) -> list[Record]:
        rows = _list(await self.get("bets", {**asked, "beforeTime": self.stamp_ms() + _AHEAD_MS}), "bets")
        return [row for row in rows if isinstance(row, Mapping)]

    async def _balance(self, user_id: str) -> float | None:
        try:
            path = f"user/by-id/{_part(user_id)}"
            balance = _record(await self.get(path), path).get("balance")
        except (ContractError, NotFound, Rejected, Unauthorized, Unavailable):
            return None
        return float(balance) if isinstance(balance, int | float) and not isinstance(balance, bool) else None

    def _url(self, path: str, parameters: Asked | None = None) -> str:
        return f"{self._settings.place.api}/v0/{path}{query(parameters or {})}"


def _part(text: str) -> str:
    if not text or not text.isascii() or text in {".", ".."}:
        message = f"nothing is called {text[:80]!r} there"
        raise NotFound(message)
    return quote(text, safe="")


def _decoded(body: bytes, path: str) -> Json:
    try:
        answer: Json = json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"{path}: the answer is not JSON"
        raise ContractError(message) from error
    return answer


def _list(answer: Json, path: str) -> list[Json]:
    if not isinstance(answer, list):
        message = f"{path}: the answer is not a list"
        raise ContractError(message)
    return list(answer)


def _record(answer: Json, path: str) -> Record:
    if not isinstance(answer, Mapping):
        message = f"{path}: the answer is not an object"
        raise ContractError(message)
    return answer
