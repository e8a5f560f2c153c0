"""The world behind the fake Manifold, moved by tests and simulations.

Users, markets, trades, and resolutions with their payouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bot.simulator.faults import RequestFault
from bot.simulator.venues import manifold_responses as rows
from bot.simulator.venues.manifold_market_maker import NumericPriceScale, ReferencePool, WantedTrade, is_zero
from bot.simulator.venues.manifold_state import (
    FakeManifoldAnswer,
    FakeManifoldBet,
    FakeManifoldComment,
    FakeManifoldHolding,
    FakeManifoldMarket,
    FakeManifoldState,
    FakeManifoldUser,
)
from bot.simulator.venues.manifold_trading import BetPreview, BetRequest, BetResult, ManifoldRefusal, ManifoldTrading
from bot.simulator.websocket_hub import FakeSocketChannel, WebSocketHub

_PAYOUT = {"YES": 1.0, "NO": 0.0}


class ManifoldResolver:
    """Resolves markets of a state; each method returns the users whose balance changed."""

    def __init__(self, state: FakeManifoldState) -> None:
        self._state = state

    def resolve_market(self, market: FakeManifoldMarket, resolution: str, prob: float | None, now: int) -> set[str]:
        """Resolve a market without answers: YES, NO, MKT with a price, or CANCEL.

        The price that is shown with YES and NO is the one before, as the venue shows it.
        """
        market.resolution_prob = market.pool.prob if prob is None else prob
        self._close_market(market, resolution, now)
        worth = None if resolution == "CANCEL" else _PAYOUT.get(resolution, market.resolution_prob)
        return self._pay_holders(market, {None: worth})

    def resolve_linked(
        self, market: FakeManifoldMarket, resolution: str, weights: Mapping[str, float], now: int
    ) -> set[str]:
        """Resolve a market where one answer wins: its id, CHOOSE_MULTIPLE with weights that sum to 1, or CANCEL."""
        shares = {resolution: 1.0} if market.answer(resolution) else dict(weights)
        for answer in market.answers:
            answer.payout = None if resolution == "CANCEL" else shares.get(answer.id, 0.0)
        self._close_market(market, resolution, now)
        return self._pay_holders(market, {answer.id: answer.payout for answer in market.answers})

    def resolve_answer(
        self, market: FakeManifoldMarket, answer: FakeManifoldAnswer, resolution: str, prob: float | None, now: int
    ) -> set[str]:
        """Resolve one independent answer; with the last one the market is resolved too."""
        answer.resolution, answer.resolution_time = resolution, now
        answer.resolution_prob = answer.pool.prob if prob is None else prob
        worth = None if resolution == "CANCEL" else _PAYOUT.get(resolution, answer.resolution_prob)
        if all(each.resolution for each in market.answers):
            cancelled = all(each.resolution == "CANCEL" for each in market.answers)
            self._close_market(market, "CANCEL" if cancelled else "MKT", now)
        market.updated = now
        return self._pay_holders(market, {answer.id: worth})

    def undo_resolution(self, market: FakeManifoldMarket, now: int) -> set[str]:
        """Undo a resolution and its payouts."""
        market.resolution = market.resolution_prob = market.resolution_time = market.resolver = None
        market.updated = now
        for answer in market.answers:
            answer.resolution = answer.resolution_time = answer.resolution_prob = answer.payout = None
        changed = set(market.paid)
        for user, amount in market.paid.items():
            self._state.users[user].balance -= amount
        for user, _, holding in self._state.holdings_of(market.id):
            self._state.users[user].balance += sum(holding.repaid)
            holding.loan, holding.margin, holding.interest = holding.repaid
            holding.repaid, holding.lent_at = (0.0, 0.0, 0.0), now
        market.paid.clear()
        return changed

    def _close_market(self, market: FakeManifoldMarket, resolution: str, now: int) -> None:
        market.resolution, market.resolution_time = resolution, now
        market.resolver, market.updated = market.creator, now

    def _pay_holders(self, market: FakeManifoldMarket, worth: Mapping[str | None, float | None]) -> set[str]:
        changed = set()
        for user, answer, holding in self._state.holdings_of(market.id):
            amount = _payout_due(holding, worth[answer]) if answer in worth else 0.0
            if answer in worth:
                self._state.users[user].balance -= holding.repay(market.updated)
            if not is_zero(amount):
                self._state.users[user].balance += amount
                market.paid[user] = market.paid.get(user, 0.0) + amount
                changed.add(user)
        return changed


def _payout_due(holding: FakeManifoldHolding, worth: float | None) -> float:
    """Return the payout of a holding where YES is worth that much, and its cost where the market is cancelled."""
    return holding.spent if worth is None else holding.yes * worth + holding.no * (1.0 - worth)


_WEEK_MS = 7 * 86_400_000


_CROWD_BALANCE = 1e12


class ManifoldWorld:
    """Users, markets and trades. Markets and answers are given as the objects, or by their ids."""

    def __init__(self, now: Callable[[], int], hub: WebSocketHub) -> None:
        self.state = FakeManifoldState()
        self.trading = ManifoldTrading(self.state)
        self._resolving = ManifoldResolver(self.state)
        self._now = now
        self._hub = hub
        self.crowd = self.add_user("crowd", balance=_CROWD_BALANCE)

    def deposit(self, user: FakeManifoldUser, amount: float) -> None:
        """Credit a user without a trade, as from somebody's link; a negative amount is a debit."""
        user.balance += amount
        user.deposits += amount
        self._broadcast_users([user.id])

    def lend(
        self,
        user: FakeManifoldUser,
        market: FakeManifoldMarket,
        amount: float,
        *,
        answer: str | None = None,
        margin: bool = True,
    ) -> None:
        """Lend mana on a user's holding of a market."""
        self.state.holding(user.id, market.id, answer).lend(amount, self._now(), margin=margin)
        user.balance += amount
        self._broadcast_users([user.id])

    # Users and markets

    def add_user(
        self, username: str, *, balance: float = 1_000.0, key: str | None = None, is_bot: bool = False
    ) -> FakeManifoldUser:
        """Open an account, old enough to comment."""
        user = FakeManifoldUser(
            id=self.state.new_id("user"),
            username=username,
            created=self._now() - 2 * _WEEK_MS,
            balance=balance,
            deposits=balance,
            key=key,
            is_bot=is_bot,
        )
        self.state.users[user.id] = user
        return user

    def add_market(self, question: str = "Will it rain tomorrow?", **more: Any) -> FakeManifoldMarket:  # noqa: ANN401 - fields
        """Open a market: BINARY at one half, closing in a week, unless the fields of FakeManifoldMarket say otherwise.

        ``prob`` sets the price instead of a pool; ``answers`` are (text, price) pairs, with ``midpoints`` where the
        type has them.
        """
        now = self._now()
        number = self.state.new_id("market")
        prob, answers = more.pop("prob", None), more.pop("answers", ())
        midpoints: Sequence[float | None] = more.pop("midpoints", [None] * len(answers))
        fields = {
            "slug": f"question-{number}",
            "creator": self.crowd.id,
            "type": "BINARY",
            "created": now,
            "closes": now + _WEEK_MS,
            "updated": now,
            **more,
        }
        market = FakeManifoldMarket(id=number, question=question, **fields)
        if prob is not None:
            market.pool = pool_at(prob, market.liquidity)
        market.answers = [
            self._create_answer(market, nth, text, (price, midpoints[nth])) for nth, (text, price) in enumerate(answers)
        ]
        self.state.markets[market.id] = market
        row = {"contract": rows.raw_market(market), "creator": {"id": market.creator}}
        self._broadcast(["global/new-contract"], row)
        return market

    def add_numeric(
        self, question: str, low: float, high: float, *, is_log: bool = False, prob: float = 0.5
    ) -> FakeManifoldMarket:
        """Open a market whose price represents a number."""
        return self.add_market(
            question, type="PSEUDO_NUMERIC", scale=NumericPriceScale(low=low, high=high, is_log=is_log), prob=prob
        )

    def _create_answer(
        self, market: FakeManifoldMarket, index: int, text: str, terms: tuple[float, float | None]
    ) -> FakeManifoldAnswer:
        prob, midpoint = terms
        return FakeManifoldAnswer(
            id=self.state.new_id("answer"),
            index=index,
            text=text,
            pool=pool_at(prob, market.liquidity),
            created=market.created,
            user=market.creator,
            liquidity=market.liquidity,
            midpoint=midpoint,
            is_other=text == "Other",
        )

    def add_answer(self, market: FakeManifoldMarket, text: str, prob: float = 0.5) -> FakeManifoldAnswer:
        """Add an answer to an open market: at a price of its own, or with half of that of the last where one wins."""
        market.edits.append((self._now(), market.terms))
        if market.sums_to_one:
            last = market.answers[-1]
            prob = last.pool.prob / 2.0
            last.pool = pool_at(prob, market.liquidity)
        answer = self._create_answer(market, len(market.answers), text, (prob, None))
        market.answers.append(answer)
        self.edit(market)
        return answer

    # Trades

    def bet(self, bet_request: BetRequest, found: BetPreview) -> FakeManifoldBet:
        """Execute a computed bet, and broadcast it."""
        return self._broadcast_bet(bet_request.market, self.trading.place_bet(bet_request, found))

    def sell(self, bet_request: BetRequest) -> FakeManifoldBet:
        """Sell shares, and broadcast it."""
        return self._broadcast_bet(bet_request.market, self.trading.sell_shares(bet_request))

    def buy_several(self, bet_requests: Sequence[BetRequest], amount: float) -> list[FakeManifoldBet]:
        """Buy several answers at once, and broadcast it."""
        return [
            self._broadcast_bet(bet_requests[0].market, done) for done in self.trading.buy_several(bet_requests, amount)
        ]

    def cancel(self, bet: FakeManifoldBet) -> None:
        """Cancel an order, and broadcast it."""
        self.trading.cancel(bet, self._now())
        self._broadcast_orders([bet])

    def trade(
        self,
        user: FakeManifoldUser,
        market: FakeManifoldMarket,
        want: WantedTrade,
        *,
        answer: FakeManifoldAnswer | None = None,
    ) -> FakeManifoldBet:
        """Bet as somebody else, without going through the interface."""
        bet_request = BetRequest(
            user=user,
            market=market,
            answer=answer,
            outcome=want.outcome,
            now=self._now(),
            amount=want.amount,
            limit=want.limit,
            is_api=False,
        )
        return self.bet(bet_request, self.trading.preview_bet(bet_request))

    def move_price(self, market: FakeManifoldMarket, prob: float, *, answer: FakeManifoldAnswer | None = None) -> None:
        """Let the crowd trade until that price is reached."""
        now = market.pool.prob if answer is None else answer.pool.prob
        if abs(now - prob) > 1e-9:
            want = WantedTrade(outcome="YES" if prob > now else "NO", amount=_CROWD_BALANCE / 1e3, limit=prob)
            bet = self.trade(self.crowd, market, want, answer=answer)
            if not bet.is_filled:
                self.cancel(bet)

    # Events of the world

    def edit(self, market: FakeManifoldMarket, **fields: object) -> None:
        """Change fields of a market (question, description, closes)."""
        market.edits.append((self._now(), market.terms))
        for name, value in fields.items():
            setattr(market, name, value)
        market.updated = self._now()
        self._broadcast_market(market)

    def close(self, market: FakeManifoldMarket) -> None:
        """End trading now."""
        self.edit(market, closes=self._now())

    def resolve(
        self,
        market: FakeManifoldMarket,
        resolution: str,
        *,
        prob: float | None = None,
        answer: FakeManifoldAnswer | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Resolve: YES, NO, MKT (with ``prob``), CANCEL; the id of the winner or CHOOSE_MULTIPLE; or one answer."""
        now = self._now()
        if market.sums_to_one:
            changed = self._resolving.resolve_linked(market, resolution, weights or {}, now)
        elif answer is not None:
            changed = self._resolving.resolve_answer(market, answer, resolution, prob, now)
            self._broadcast([f"answer/{answer.id}/update"], {"answer": rows.raw_answer(market, answer)})
        else:
            changed = self._resolving.resolve_market(market, resolution, prob, now)
        self._broadcast_market(market)
        self._broadcast_users(changed)

    def unresolve(self, market: FakeManifoldMarket) -> None:
        """Undo a resolution."""
        changed = self._resolving.undo_resolution(market, self._now())
        self._broadcast_market(market)
        self._broadcast_users(changed)

    def may_comment(self, user: FakeManifoldUser, market: FakeManifoldMarket) -> None:
        """Refuse comments of new accounts on markets of others."""
        if user.id != market.creator and self._now() - user.created < _WEEK_MS:
            raise ManifoldRefusal(403, "You must be at least 7 days old, verified or a buyer to comment.")

    def comment(
        self,
        user: FakeManifoldUser,
        market: FakeManifoldMarket,
        content: object,
        reply_to: str | None = None,
        *,
        answer: str | None = None,
    ) -> FakeManifoldComment:
        """Post a comment, and broadcast it; ``answer`` is the commented answer, which nothing checks."""
        comment = FakeManifoldComment(
            id=self.state.new_id("comment"),
            user=user.id,
            market=market.id,
            content=content,
            created=self._now(),
            reply_to=reply_to,
            answer=answer,
        )
        self.state.comments[comment.id] = comment
        market.last_comment = comment.created
        data = {"creator": {"id": user.id}, "comment": rows.comment_row(self.state, comment)}
        self._broadcast(["global/new-comment", f"contract/{market.id}/new-comment"], data)
        return comment

    def apply_fault(self, fault: RequestFault, market: FakeManifoldMarket, asked: Mapping[str, Any]) -> bool:
        """Apply a fault of the world to a market, while a request about it is under way.

        Return whether it had an effect.
        """
        answer = market.answer(asked.get("answerId"))
        if fault is RequestFault.CLOSING:
            self.close(market)
        elif fault is RequestFault.EDITED:
            self._edit_somehow(market)
        elif fault is RequestFault.RESOLVED and market.type == "PSEUDO_NUMERIC":
            self.resolve(market, "MKT", prob=market.pool.prob)
        elif fault is RequestFault.RESOLVED:
            winner = market.answers[0].id if market.sums_to_one else "YES"
            for each in [None] if market.sums_to_one or not market.answers else market.answers:
                self.resolve(market, winner, answer=each)
        elif fault is RequestFault.PARTIAL_FILL and isinstance(asked.get("limitProb"), float):
            now = market.pool.prob if answer is None else answer.pool.prob
            self.move_price(market, (now + asked["limitProb"]) / 2, answer=answer)
        else:
            return False
        return True

    def _edit_somehow(self, market: FakeManifoldMarket) -> None:
        """Edit one field of a market, which depends on how often it was edited."""
        edits: list[dict[str, object]] = [
            {"description": f"{market.description} Clarified."},
            {"question": f"{market.question} (edited)"},
            {"closes": (market.closes or self._now()) + 52 * _WEEK_MS},
        ]
        self.edit(market, **edits[len(market.edits) % len(edits)])

    # Broadcasts

    def _broadcast_bet(self, market: FakeManifoldMarket, done: BetResult) -> FakeManifoldBet:
        now = self._now()
        bets = {"bets": [rows.bet_row(bet, now) for bet in done.bets]}
        self._broadcast(["global/new-bet", f"contract/{market.id}/new-bet"], bets)
        self._broadcast_orders(done.orders)
        self._broadcast_market(market)
        self._broadcast_users(done.users)
        return done.bet

    def _broadcast_orders(self, orders: Iterable[FakeManifoldBet]) -> None:
        for order in orders:
            topics = [f"contract/{order.market}/orders", f"user/{order.user}/orders"]
            self._broadcast(topics, {"bets": [rows.bet_row(order, self._now())]})

    def _broadcast_market(self, market: FakeManifoldMarket) -> None:
        self._broadcast([f"contract/{market.id}", "global/updated-contract"], {"contract": rows.raw_market(market)})
        if market.answers:
            keys = ("id", "poolYes", "poolNo", "prob", "volume")
            answers = [rows.raw_answer(market, answer) for answer in market.answers]
            data = {"answers": [{key: answer[key] for key in keys} for answer in answers]}
            self._broadcast([f"contract/{market.id}/updated-answers"], data)

    def _broadcast_users(self, users: Iterable[str]) -> None:
        for user in sorted(users):
            self._broadcast([f"user/{user}"], {"user": {"id": user, "balance": self.state.users[user].balance}})

    def _broadcast(self, topics: Sequence[str], data: object) -> None:
        def wanted(channel: FakeSocketChannel) -> list[dict[str, object]]:
            subscribed = channel.facts.get("topics", {})
            wanted_topics = [topic for topic in (*topics, "global") if topic in subscribed]
            return [{"type": "broadcast", "topic": topic, "data": data} for topic in wanted_topics]

        self._hub.publish(wanted)


def pool_at(prob: float, liquidity: float) -> ReferencePool:
    """Return a market maker of that depth at a price, with p of one half."""
    return ReferencePool(liquidity * ((1.0 - prob) / prob) ** 0.5, liquidity * (prob / (1.0 - prob)) ** 0.5)
