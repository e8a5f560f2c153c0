"""The world behind the fake Manifold, moved by tests and simulations; whoever listens on its socket hears of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bot.testing.venues import manifold_rows as rows
from bot.testing.venues.faults import Fault
from bot.testing.venues.hub import Channel, Hub
from bot.testing.venues.manifold_math import Numeric, Pool, Want
from bot.testing.venues.manifold_resolution import Resolving
from bot.testing.venues.manifold_state import Answer, Bet, Comment, Market, State, User
from bot.testing.venues.manifold_trading import Ask, Done, Outcome, Refusal, Trading

_WEEK_MS = 7 * 86_400_000
_RICH = 1e12


class World:
    """Users, markets and trades. Markets and answers are given as the objects, or by their ids."""

    def __init__(self, now: Callable[[], int], hub: Hub) -> None:
        self.state = State()
        self.trading = Trading(self.state)
        self._resolving = Resolving(self.state)
        self._now = now
        self._hub = hub
        self.crowd = self.add_user("crowd", balance=_RICH)

    def deposit(self, user: User, amount: float) -> None:
        """Let mana come to a user otherwise than by trading, such as from somebody's link; below 0 it goes."""
        user.balance += amount
        user.deposits += amount
        self._say_users([user.id])

    def lend(
        self, user: User, market: Market, amount: float, *, answer: str | None = None, margin: bool = True
    ) -> None:
        """Lend mana on what a user holds of a market."""
        self.state.holding(user.id, market.id, answer).lend(amount, self._now(), margin=margin)
        user.balance += amount
        self._say_users([user.id])

    # Who and what there is

    def add_user(
        self, username: str, *, balance: float = 1_000.0, key: str | None = None, is_bot: bool = False
    ) -> User:
        """Open an account, old enough to comment."""
        user = User(
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

    def add_market(self, question: str = "Will it rain tomorrow?", **more: Any) -> Market:  # noqa: ANN401 - fields
        """Open a market: BINARY at one half, closing in a week, unless the fields of Market say otherwise.

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
        market = Market(id=number, question=question, **fields)
        if prob is not None:
            market.pool = pool_at(prob, market.liquidity)
        market.answers = [
            self._answer(market, nth, text, (price, midpoints[nth])) for nth, (text, price) in enumerate(answers)
        ]
        self.state.markets[market.id] = market
        row = {"contract": rows.raw_market(market), "creator": {"id": market.creator}}
        self._say(["global/new-contract"], row)
        return market

    def add_numeric(self, question: str, low: float, high: float, *, is_log: bool = False, prob: float = 0.5) -> Market:
        """Open a market whose price stands for a number."""
        return self.add_market(
            question, type="PSEUDO_NUMERIC", scale=Numeric(low=low, high=high, is_log=is_log), prob=prob
        )

    def _answer(self, market: Market, index: int, text: str, terms: tuple[float, float | None]) -> Answer:
        prob, midpoint = terms
        return Answer(
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

    def add_answer(self, market: Market, text: str, prob: float = 0.5) -> Answer:
        """Add an answer to an open market: at a price of its own, or with half of that of the last where one wins."""
        market.edits.append((self._now(), market.asks))
        if market.sums_to_one:
            last = market.answers[-1]
            prob = last.pool.prob / 2.0
            last.pool = pool_at(prob, market.liquidity)
        answer = self._answer(market, len(market.answers), text, (prob, None))
        market.answers.append(answer)
        self.edit(market)
        return answer

    # Trades

    def bet(self, ask: Ask, found: Outcome) -> Bet:
        """Do what was foreseen, and tell."""
        return self._told(ask.market, self.trading.bet(ask, found))

    def sell(self, ask: Ask) -> Bet:
        """Sell shares, and tell."""
        return self._told(ask.market, self.trading.sell(ask))

    def buy_several(self, asks: Sequence[Ask], amount: float) -> list[Bet]:
        """Buy several answers at once, and tell."""
        return [self._told(asks[0].market, done) for done in self.trading.buy_several(asks, amount)]

    def cancel(self, bet: Bet) -> None:
        """Cancel an order, and tell."""
        self.trading.cancel(bet, self._now())
        self._say_orders([bet])

    def trade(self, user: User, market: Market, want: Want, *, answer: Answer | None = None) -> Bet:
        """Bet as somebody else, without the manners of the interface."""
        ask = Ask(
            user=user,
            market=market,
            answer=answer,
            outcome=want.outcome,
            now=self._now(),
            amount=want.amount,
            limit=want.limit,
            is_api=False,
        )
        return self.bet(ask, self.trading.foresee(ask))

    def move(self, market: Market, prob: float, *, answer: Answer | None = None) -> None:
        """Let the crowd trade until the price is there."""
        now = market.pool.prob if answer is None else answer.pool.prob
        if abs(now - prob) > 1e-9:
            want = Want(outcome="YES" if prob > now else "NO", amount=_RICH / 1e3, limit=prob)
            bet = self.trade(self.crowd, market, want, answer=answer)
            if not bet.is_filled:
                self.cancel(bet)

    # Turns of fate

    def edit(self, market: Market, **fields: object) -> None:
        """Change fields of a market (question, description, closes)."""
        market.edits.append((self._now(), market.asks))
        for name, value in fields.items():
            setattr(market, name, value)
        market.updated = self._now()
        self._say_market(market)

    def close(self, market: Market) -> None:
        """End trading now."""
        self.edit(market, closes=self._now())

    def resolve(
        self,
        market: Market,
        resolution: str,
        *,
        prob: float | None = None,
        answer: Answer | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Resolve: YES, NO, MKT (with ``prob``), CANCEL; the id of the winner or CHOOSE_MULTIPLE; or one answer."""
        now = self._now()
        if market.sums_to_one:
            changed = self._resolving.one_wins(market, resolution, weights or {}, now)
        elif answer is not None:
            changed = self._resolving.answer(market, answer, resolution, prob, now)
            self._say([f"answer/{answer.id}/update"], {"answer": rows.raw_answer(market, answer)})
        else:
            changed = self._resolving.whole(market, resolution, prob, now)
        self._say_market(market)
        self._say_users(changed)

    def unresolve(self, market: Market) -> None:
        """Undo a resolution."""
        changed = self._resolving.undo(market, self._now())
        self._say_market(market)
        self._say_users(changed)

    def may_comment(self, user: User, market: Market) -> None:
        """Refuse comments of new accounts on markets of others."""
        if user.id != market.creator and self._now() - user.created < _WEEK_MS:
            raise Refusal(403, "You must be at least 7 days old, verified or a buyer to comment.")

    def comment(self, user: User, market: Market, content: object, reply_to: str | None = None) -> Comment:
        """Comment, and tell."""
        comment = Comment(
            id=self.state.new_id("comment"),
            user=user.id,
            market=market.id,
            content=content,
            created=self._now(),
            reply_to=reply_to,
        )
        self.state.comments[comment.id] = comment
        market.last_comment = comment.created
        data = {"creator": {"id": user.id}, "comment": rows.comment_row(self.state, comment)}
        self._say(["global/new-comment", f"contract/{market.id}/new-comment"], data)
        return comment

    def disturb(self, fault: Fault, market: Market, asked: Mapping[str, Any]) -> bool:
        """Let a fault of the world befall a market, while a request about it is under way; say whether it did."""
        answer = market.answer(asked.get("answerId"))
        if fault is Fault.CLOSING:
            self.close(market)
        elif fault is Fault.EDITED:
            self._edit_somehow(market)
        elif fault is Fault.RESOLVED and market.type == "PSEUDO_NUMERIC":
            self.resolve(market, "MKT", prob=market.pool.prob)
        elif fault is Fault.RESOLVED:
            winner = market.answers[0].id if market.sums_to_one else "YES"
            for each in [None] if market.sums_to_one or not market.answers else market.answers:
                self.resolve(market, winner, answer=each)
        elif fault is Fault.PARTIAL_FILL and isinstance(asked.get("limitProb"), float):
            now = market.pool.prob if answer is None else answer.pool.prob
            self.move(market, (now + asked["limitProb"]) / 2, answer=answer)
        else:
            return False
        return True

    def _edit_somehow(self, market: Market) -> None:
        """Edit one field of a market, which depends on how often it was edited."""
        edits: list[dict[str, object]] = [
            {"description": f"{market.description} Clarified."},
            {"question": f"{market.question} (edited)"},
            {"closes": (market.closes or self._now()) + 52 * _WEEK_MS},
        ]
        self.edit(market, **edits[len(market.edits) % len(edits)])

    # What is heard of it

    def _told(self, market: Market, done: Done) -> Bet:
        now = self._now()
        bets = {"bets": [rows.bet_row(bet, now) for bet in done.bets]}
        self._say(["global/new-bet", f"contract/{market.id}/new-bet"], bets)
        self._say_orders(done.orders)
        self._say_market(market)
        self._say_users(done.users)
        return done.bet

    def _say_orders(self, orders: Iterable[Bet]) -> None:
        for order in orders:
            topics = [f"contract/{order.market}/orders", f"user/{order.user}/orders"]
            self._say(topics, {"bets": [rows.bet_row(order, self._now())]})

    def _say_market(self, market: Market) -> None:
        self._say([f"contract/{market.id}", "global/updated-contract"], {"contract": rows.raw_market(market)})
        if market.answers:
            keys = ("id", "poolYes", "poolNo", "prob", "volume")
            answers = [rows.raw_answer(market, answer) for answer in market.answers]
            data = {"answers": [{key: answer[key] for key in keys} for answer in answers]}
            self._say([f"contract/{market.id}/updated-answers"], data)

    def _say_users(self, users: Iterable[str]) -> None:
        for user in sorted(users):
            self._say([f"user/{user}"], {"user": {"id": user, "balance": self.state.users[user].balance}})

    def _say(self, topics: Sequence[str], data: object) -> None:
        def wanted(channel: Channel) -> list[dict[str, object]]:
            subscribed = channel.facts.get("topics", {})
            heard = [topic for topic in (*topics, "global") if topic in subscribed]
            return [{"type": "broadcast", "topic": topic, "data": data} for topic in heard]

        self._hub.publish(wanted)


def pool_at(prob: float, liquidity: float) -> Pool:
    """Return a market maker of that depth at a price, with p of one half."""
    return Pool(liquidity * ((1.0 - prob) / prob) ** 0.5, liquidity * (prob / (1.0 - prob)) ** 0.5)
