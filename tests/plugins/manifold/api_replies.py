"""Replies of the venue as its document describes them, and a reader that gives them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.api import NotFoundError

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def at(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def binary(**changes: Any) -> dict[str, Any]:
    market = {
        "id": "m1",
        "creatorId": "c1",
        "question": "Will it rain?",
        "outcomeType": "BINARY",
        "mechanism": "cpmm-1",
        "pool": {"YES": 1000.0, "NO": 1000},
        "p": 0.5,
        "probability": 0.5,
        "createdTime": at(NOW - timedelta(days=9)),
        "closeTime": at(NOW + timedelta(days=30)),
        "isResolved": False,
        "volume": 12,
        "token": "MANA",
        "someNewField": {"a": 1},
    }
    return market | changes


def answer(name: str, price: float, **changes: Any) -> dict[str, Any]:
    odds = (1.0 - price) / price
    return {
        "id": name,
        "index": ord(name[0]) - ord("a"),
        "contractId": "m2",
        "text": f"Option {name}",
        "pool": {"YES": 1000.0 * odds**0.5, "NO": 1000.0 * odds**-0.5},
        "probability": price,
    } | changes


def choice(*answers: Mapping[str, Any], linked: bool = True, **changes: Any) -> dict[str, Any]:
    market = binary(id="m2", outcomeType="MULTIPLE_CHOICE", mechanism="cpmm-multi-1", shouldAnswersSumToOne=linked)
    for name in ("pool", "p", "probability"):
        del market[name]
    return market | {"answers": list(answers)} | changes


def numeric(**changes: Any) -> dict[str, Any]:
    return binary(outcomeType="PSEUDO_NUMERIC", value=50, min=0, max=100, isLogScale=False) | changes


def limit_bet(name: str, outcome: str, limit: float, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "userId": f"owner-{name}",
        "contractId": "m1",
        "outcome": outcome,
        "limitProb": limit,
        "orderAmount": 90,
        "amount": 0,
        "shares": 0,
        "isFilled": False,
        "isCancelled": False,
        "fills": [],
        "createdTime": at(NOW - timedelta(hours=1)),
    } | changes


@dataclass
class FakeMarketReader:
    """A venue of one market, for any reader; it counts whose balances were asked for."""

    full_market: Mapping[str, Any]
    bets: Sequence[Mapping[str, Any]] = ()
    balances_by_user: Mapping[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def market(self, market_id: str) -> Mapping[str, Any]:
        if market_id != self.full_market["id"]:
            message = f"no market {market_id}"
            raise NotFoundError(message)
        return self.full_market

    async def orders(self, market_id: str) -> Sequence[Mapping[str, Any]]:
        return self.bets

    async def balances(self, user_ids: Collection[str]) -> Mapping[str, float]:
        self.asked += user_ids
        return {user: self.balances_by_user[user] for user in user_ids if user in self.balances_by_user}
