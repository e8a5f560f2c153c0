"""Resolution on the fake Manifold, with its payouts, and how it is undone."""

from __future__ import annotations

from collections.abc import Mapping

from bot.testing.venues.manifold_math import is_zero
from bot.testing.venues.manifold_state import Answer, Holding, Market, State

_PAYOUT = {"YES": 1.0, "NO": 0.0}


class Resolving:
    """Resolves markets of a state; each method returns the users whose balance changed."""

    def __init__(self, state: State) -> None:
        self._state = state

    def whole(self, market: Market, resolution: str, prob: float | None, now: int) -> set[str]:
        """Resolve a market without answers: YES, NO, MKT with a price, or CANCEL.

        The price that is shown with YES and NO is the one before, as the venue shows it.
        """
        market.resolution_prob = market.pool.prob if prob is None else prob
        self._close(market, resolution, now)
        worth = None if resolution == "CANCEL" else _PAYOUT.get(resolution, market.resolution_prob)
        return self._pay(market, {None: worth})

    def one_wins(self, market: Market, resolution: str, weights: Mapping[str, float], now: int) -> set[str]:
        """Resolve a market where one answer wins: its id, CHOOSE_MULTIPLE with weights that sum to 1, or CANCEL."""
        shares = {resolution: 1.0} if market.answer(resolution) else dict(weights)
        for answer in market.answers:
            answer.payout = None if resolution == "CANCEL" else shares.get(answer.id, 0.0)
        self._close(market, resolution, now)
        return self._pay(market, {answer.id: answer.payout for answer in market.answers})

    def answer(self, market: Market, answer: Answer, resolution: str, prob: float | None, now: int) -> set[str]:
        """Resolve one independent answer; with the last one the market is resolved too."""
        answer.resolution, answer.resolution_time = resolution, now
        answer.resolution_prob = answer.pool.prob if prob is None else prob
        worth = None if resolution == "CANCEL" else _PAYOUT.get(resolution, answer.resolution_prob)
        if all(each.resolution for each in market.answers):
            cancelled = all(each.resolution == "CANCEL" for each in market.answers)
            self._close(market, "CANCEL" if cancelled else "MKT", now)
        market.updated = now
        return self._pay(market, {answer.id: worth})

    def undo(self, market: Market, now: int) -> set[str]:
        """Take a resolution back, and what it paid."""
        market.resolution = market.resolution_prob = market.resolution_time = market.resolver = None
        market.updated = now
        for answer in market.answers:
            answer.resolution = answer.resolution_time = answer.resolution_prob = answer.payout = None
        changed = set(market.paid)
        for user, amount in market.paid.items():
            self._state.users[user].balance -= amount
        for user, _, holding in self._state.held(market.id):
            self._state.users[user].balance += sum(holding.repaid)
            holding.loan, holding.margin, holding.interest = holding.repaid
            holding.repaid, holding.lent_at = (0.0, 0.0, 0.0), now
        market.paid.clear()
        return changed

    def _close(self, market: Market, resolution: str, now: int) -> None:
        market.resolution, market.resolution_time = resolution, now
        market.resolver, market.updated = market.creator, now

    def _pay(self, market: Market, worth: Mapping[str | None, float | None]) -> set[str]:
        changed = set()
        for user, answer, holding in self._state.held(market.id):
            amount = _due(holding, worth[answer]) if answer in worth else 0.0
            if answer in worth:
                self._state.users[user].balance -= holding.repay(market.updated)
            if not is_zero(amount):
                self._state.users[user].balance += amount
                market.paid[user] = market.paid.get(user, 0.0) + amount
                changed.add(user)
        return changed


def _due(holding: Holding, worth: float | None) -> float:
    """Return what a holding pays where YES is worth that much, and what was spent on it where nothing counts."""
    return holding.spent if worth is None else holding.yes * worth + holding.no * (1.0 - worth)
