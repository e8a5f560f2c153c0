"""How the fake Manifold finds things: filters and orders of its lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from bot.testing.venues.manifold_rows import day_volume
from bot.testing.venues.manifold_state import Bet, Market, State

_DAY_MS = 86_400_000
_CLOSING = {"closing-day": 1, "closing-week": 7, "closing-month": 30, "closing-90-days": 90}
_TYPE_GROUPS = {"PSEUDO_NUMERIC": {"PSEUDO_NUMERIC", "NUMBER", "MULTI_NUMERIC"}}
_TOKENS = {"ALL": {"MANA", "CASH"}, "CASH_AND_MANA": {"MANA", "CASH"}}
# A text index takes words; what is made of other signs it cannot parse, and finds nothing.
_WORD = re.compile(r"\w+")


def search(state: State, asked: Mapping[str, Any], now: int) -> Sequence[Market]:
    """Return a page of the markets that were searched for."""
    found = [market for market in state.markets.values() if _is_wanted(market, asked, now)]
    ordered = _in_order(state, found, asked["sort"], now)
    return ordered[asked["offset"] : asked["offset"] + asked["limit"]]


def _is_wanted(market: Market, asked: Mapping[str, Any], now: int) -> bool:
    return (
        _has_term(market, asked["term"])
        and _has_state(market, asked["filter"], now)
        and _has_type(market, asked["contractType"], asked["sort"])
        and _has_time(market, asked, now)
        and market.token in _TOKENS.get(asked["token"], {asked["token"]})
        and (asked["creatorId"] in {None, market.creator})
        and (asked["topicSlug"] is None or asked["topicSlug"] in market.groups)
        and (asked["gids"] is None or any(group in market.groups for group in asked["gids"].split(",")))
        and (asked["liquidity"] is None or market.liquidity >= asked["liquidity"])
    )


def _has_term(market: Market, term: str) -> bool:
    if not term:
        return True
    words = _WORD.findall(term.lower())
    text = f"{market.question} {market.description}".lower()
    return bool(words) and all(word in text for word in words)


def _has_state(market: Market, wanted: str, now: int) -> bool:
    if wanted == "uncertain":
        return market.type == "BINARY" and market.is_open(now) and 0.3 <= market.pool.prob <= 0.7
    if wanted in _CLOSING:
        return market.is_open(now) and market.closes is not None and market.closes < now + _CLOSING[wanted] * _DAY_MS
    return {
        "open": market.is_open(now),
        "closed": not market.resolved and not market.is_open(now),
        "resolved": market.resolved,
    }.get(wanted, True)


def _has_type(market: Market, wanted: str, sort: str) -> bool:
    if wanted == "DEPENDENT_MULTIPLE_CHOICE":
        return market.type == "MULTIPLE_CHOICE" and market.sums_to_one
    if wanted == "INDEPENDENT_MULTIPLE_CHOICE":
        return market.type == "MULTIPLE_CHOICE" and not market.sums_to_one
    if wanted == "ALL":
        return market.type != "STONK" or sort != "score"
    return market.type in _TYPE_GROUPS.get(wanted, {wanted})


def _has_time(market: Market, asked: Mapping[str, Any], now: int) -> bool:
    if asked["beforeTime"] is not None and market.created >= asked["beforeTime"]:
        return False
    if asked["sort"] == "close-date":
        return market.closes is not None and market.closes > now
    return asked["sort"] != "24-hour-vol" or market.volume > 0


def _in_order(state: State, found: list[Market], sort: str, now: int) -> list[Market]:
    keys: Mapping[str, Callable[[Market], float]] = {
        "newest": lambda market: -market.created,
        "start-time": lambda market: -market.created,
        "liquidity": lambda market: -market.liquidity,
        "subsidy": lambda market: -market.liquidity,
        "24-hour-vol": lambda market: -day_volume(state, market, now),
        "last-updated": lambda market: -market.updated,
        "close-date": lambda market: market.closes or 0,
        "resolve-date": lambda market: -(market.resolution_time or 0),
        "prob-descending": lambda market: -market.pool.prob,
        "prob-ascending": lambda market: market.pool.prob,
        "prob-50": lambda market: abs(market.pool.prob - 0.5),
    }
    return sorted(found, key=keys.get(sort, lambda market: -len(market.bettors)))


_TIMES: Mapping[str, Callable[[Market], int]] = {
    "created-time": lambda market: market.created,
    "updated-time": lambda market: market.updated,
    "last-bet-time": lambda market: market.last_bet or 0,
    "last-comment-time": lambda market: market.last_comment or 0,
}


def listed(state: State, asked: Mapping[str, Any]) -> Sequence[Market]:
    """Return a page of the plain list, with its traps.

    An unknown ``before`` is ignored, and with order asc it still means earlier than.
    """
    time = _TIMES[asked["sort"]]
    found = [
        market
        for market in state.markets.values()
        if asked["userId"] in {None, market.creator} and (asked["groupId"] is None or asked["groupId"] in market.groups)
    ]
    before = state.markets.get(asked["before"] or "")
    if before is not None:
        found = [market for market in found if time(market) < time(before)]
    found.sort(key=time, reverse=asked["order"] == "desc")
    return found[: asked["limit"]]


def bets(state: State, asked: Mapping[str, Any], now: int) -> Sequence[Bet]:
    """Return a page of bets."""
    tests = [*_tests_of_bets(state, asked, now)]
    found = [bet for bet in _bets_to_test(state, asked) if all(test(bet) for test in tests)]
    found.sort(key=lambda bet: (bet.created, bet.id), reverse=asked["order"] == "desc")
    return found[: asked["limit"]]


def _bets_to_test(state: State, asked: Mapping[str, Any]) -> Iterable[Bet]:
    """Return all bets that can be in a page, and as few others as are easily left out."""
    if asked["contractId"] is not None:
        return chain.from_iterable(state.bets_on(market) for market in dict.fromkeys(asked["contractId"]))
    return state.bets.values() if asked["userId"] is None else state.bets_by(asked["userId"])


def _tests_of_bets(state: State, asked: Mapping[str, Any], now: int) -> Iterator[Callable[[Bet], bool]]:
    """Yield what a bet must be, those first that most bets fail."""
    before, after = (state.bets.get(asked[name] or "") for name in ("before", "after"))
    tests: Sequence[tuple[object, Callable[[Bet], bool]]] = (
        (asked["id"], lambda bet: bet.id == asked["id"]),
        (asked["contractId"], lambda bet: bet.market in asked["contractId"]),
        (asked["contractSlug"], lambda bet: state.markets[bet.market].slug == asked["contractSlug"]),
        (asked["answerId"], lambda bet: bet.answer == asked["answerId"]),
        (asked["userId"], lambda bet: bet.user == asked["userId"]),
        (asked["username"], lambda bet: state.users[bet.user].username == asked["username"]),
        (asked["kinds"], lambda bet: bet.rests(now)),
        (asked["minAmount"], lambda bet: abs(bet.amount) >= asked["minAmount"]),
        (asked["filterRedemptions"] or None, lambda bet: not bet.is_redemption),
        (asked["excludeApi"] or None, lambda bet: not bet.is_api),
        (asked["beforeTime"], lambda bet: bet.created < asked["beforeTime"]),
        (asked["afterTime"], lambda bet: bet.created > asked["afterTime"]),
        (before, lambda bet: before is not None and bet.created < before.created),
        (after, lambda bet: after is not None and bet.created > after.created),
    )
    yield from (test for wanted, test in tests if wanted is not None)
