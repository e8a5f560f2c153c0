"""The Data API of the fake Polymarket, second version: resolutions, past prices, trades and positions."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues import polymarket_responses as rows
from bot.simulator.venues.polymarket_queries import PolymarketQuery, PolymarketRefusal
from bot.simulator.venues.polymarket_service import DATA, PolymarketService, get_routes, request_query
from bot.simulator.venues.polymarket_state import FakePolymarketMarket, FakePolymarketUser

MAX_IDS = 20
_SPANS = {"max": None, "all": None, "1m": 30 * 86_400, "1w": 7 * 86_400, "1d": 86_400, "6h": 21_600, "1h": 3_600}
_LONGEST_S = 15 * 86_400
_STATUSES = frozenset({"OPEN", "REDEEMABLE", "REDEEMABLE_LOST", "MERGEABLE", "CLOSED"})


class DataApi:
    """The handlers; each reply has data and pagination, and missing items give an empty list."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue

    def routes(self) -> list[BaseRoute]:
        """Return the paths."""
        handlers = {
            "/resolutions": self._serve_resolutions,
            "/prices-history": self._serve_history,
            "/trades": self._serve_trades,
            "/positions": self._serve_positions,
        }
        return get_routes({f"{DATA}/v2{path}": handler for path, handler in handlers.items()})

    async def _serve_resolutions(self, request: Request) -> Response:
        asked = request_query(request)
        names = {name: asked.all(name) for name in ("condition_id", "question_id", "event_id")}
        given = [name for name, values in names.items() if values]
        if len(given) != 1 or len(names[given[0]]) > MAX_IDS:
            raise PolymarketRefusal(400, f"ask for one to {MAX_IDS} of condition_id, question_id or event_id")
        wanted = set(names[given[0]])
        minted = [market for market in self._venue.state.markets.values() if market.is_minted]
        listed = [
            row for market in minted if _with_names(market, row := rows.resolution_row(market), given[0]) in wanted
        ]
        return self._page_response(asked, listed, usual=100)

    async def _serve_history(self, request: Request) -> Response:
        asked = request_query(request)
        token = asked.one("token_id") or ""
        market = self._venue.state.tokens.get(token)
        spans = [name for name in ("interval", "start", "as_of") if asked.one(name) is not None]
        if len(spans) != 1:
            raise PolymarketRefusal(400, "give exactly one of interval, start or as_of")
        if market is None:
            return self._page_response(asked, [], usual=1_000)
        points = sorted(market.history, key=lambda point: point[0])
        first, last = self._parse_span(asked, spans[0])
        found = [(at, market.mirrored(token, price)) for at, price in points if first <= at <= last]
        if spans[0] == "as_of":
            # What was known at that moment, which is included, and nothing later.
            found = found[-1:]
        listed = [{"timestamp": at, "price": float(price), "resolution_seconds": 0} for at, price in found]
        return self._page_response(asked, listed, usual=1_000)

    def _parse_span(self, asked: PolymarketQuery, kind: str) -> tuple[int, int]:
        now = self._venue.world.now_s
        if kind == "as_of":
            return 0, asked.whole("as_of", now)
        if kind == "interval":
            name = asked.one("interval") or ""
            if name not in _SPANS:
                raise PolymarketRefusal(400, f"interval must be one of {', '.join(_SPANS)}")
            length = _SPANS[name]
            return (0 if length is None else now - length), now
        first, last = asked.whole("start", 0), asked.whole("end", now)
        if last - first > _LONGEST_S:
            raise PolymarketRefusal(400, "start and end are more than 15 days apart")
        return first, last

    async def _serve_trades(self, request: Request) -> Response:
        asked = request_query(request)
        conditions, user = set(asked.all("condition_id")), asked.one("user")
        if len(conditions) > MAX_IDS:
            raise PolymarketRefusal(400, f"at most {MAX_IDS} of condition_id")
        first, last = asked.whole("start", 0), asked.whole("end", 2**40)
        listed = [
            {
                "proxy_wallet": seen.wallet,
                "token_id": market.tokens[0],
                "condition_id": market.condition,
                "side": "BUY" if seen.is_bid else "SELL",
                "size": float(seen.size),
                "price": float(seen.level),
                "timestamp": seen.at_ms // 1000,
                "transaction_hash": "0x" + f"{seen.at_ms:064x}",
                "outcome": market.outcomes[0],
                "outcome_index": 0,
                "slug": market.slug,
            }
            for market in self._venue.state.markets.values()
            for seen in market.public_trades
            if (not conditions or market.condition in conditions)
            and first <= seen.at_ms // 1000 <= last
            and user in {None, seen.wallet}
        ]
        listed.sort(key=lambda row: -int(str(row["timestamp"])))
        return self._page_response(asked, listed, usual=100)

    async def _serve_positions(self, request: Request) -> Response:
        asked = request_query(request)
        wallet, conditions, status = asked.one("user"), asked.all("condition_id"), asked.one("status")
        if wallet is None and len(conditions) != 1:
            raise PolymarketRefusal(400, "give user or exactly one condition_id")
        if status is not None and status not in _STATUSES:
            raise PolymarketRefusal(400, "unknown status")
        self._venue.world.exchange.process_due()
        # Positions without shares are listed on request.
        listed = [
            self._position_row(user, token, user.shares.get(token, Decimal(0)))
            for user in self._venue.state.users.values()
            for token in dict.fromkeys((*user.shares, *user.realised))
            if (user.shares.get(token, Decimal(0)) > 0) is (status != "CLOSED")
            and (wallet is None or user.wallet.lower() == wallet.lower())
        ]
        fitting = [row for row in listed if not conditions or row["condition_id"] in conditions]
        return self._page_response(asked, [row for row in fitting if _has_status(row, status)], usual=100)

    def _position_row(self, user: FakePolymarketUser, token: str, size: Decimal) -> dict[str, Any]:
        market = self._venue.state.tokens[token]
        index = market.tokens.index(token)
        spent = user.spent.get(token, Decimal(0))
        price = self._current_price(market, token)
        return {
            "proxy_wallet": user.wallet,
            "token_id": token,
            "condition_id": market.condition,
            "current_size": float(size),
            "total_size": float(size),
            "avg_price": float(spent / size) if size > 0 else 0.0,
            "entry_cost_usdc": float(spent),
            "entry_fees_usdc": float(user.fees.get(token, Decimal(0))),
            "current_price": float(price),
            "current_value": float(size * price),
            "realized_pnl": float(user.realised.get(token, Decimal(0))),
            "unrealized_pnl": float(size * price - spent),
            "status": "CLOSED" if size <= 0 else "REDEEMABLE" if market.has_ended else "OPEN",
            "redeemable": market.has_ended and size > 0,
            "mergeable": user.shares.get(market.tokens[1 - index], Decimal(0)) > 0,
            "negative_risk": market.neg_risk,
            "outcome": market.outcomes[index],
            "outcome_index": index,
            "opposite_token_id": market.tokens[1 - index],
            "slug": market.slug,
        }

    def _current_price(self, market: FakePolymarketMarket, token: str) -> Decimal:
        if market.payouts is not None:
            return market.payouts[market.tokens.index(token)]
        bid, _ = books.best_bid_and_ask(self._venue.state, market, token)
        return Decimal(0) if bid is None else bid

    def _page_response(self, asked: PolymarketQuery, listed: Sequence[Any], *, usual: int) -> Response:
        limit = max(1, min(asked.whole("limit", usual), 1_000))
        cursor = asked.one("cursor")
        try:
            first = 0 if not cursor else int(base64.urlsafe_b64decode(cursor))
        except ValueError:
            raise PolymarketRefusal(400, "invalid cursor") from None
        more = first + limit < len(listed)
        following = base64.urlsafe_b64encode(str(first + limit).encode()).decode() if more else None
        page = {"limit": limit, "has_more": more, "next_cursor": following}
        return JSONResponse({"data": list(listed[first : first + limit]), "pagination": page})


def _has_status(row: dict[str, Any], status: str | None) -> bool:
    match status:
        case None:
            return True
        case "REDEEMABLE_LOST":
            return bool(row["redeemable"]) and row["current_value"] == 0.0
        case "MERGEABLE":
            return bool(row["mergeable"]) and not row["redeemable"]
        case _:
            return bool(row["status"] == status)


def _with_names(market: FakePolymarketMarket, row: dict[str, Any], name: str) -> str:
    return market.event if name == "event_id" else str(row[name])
