"""The trading rules of the fake Manifold: bets, limit orders, redemption of share pairs, sales, cancels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from decimal import ROUND_HALF_UP, Decimal

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.manifold_market_maker import (
    MIN_POOL_SHARES,
    ArbitrageTrade,
    LinkedAnswers,
    ReferenceFill,
    ReferenceLimitOrder,
    ReferenceOrderBook,
    ReferencePool,
    ReferenceTrade,
    WantedTrade,
    buy_answer,
    buy_answers,
    fill_trade,
    is_zero,
)
from bot.simulator.venues.manifold_state import (
    TRADED_BY_ANSWER,
    TRADED_SINGLY,
    FakeManifoldAnswer,
    FakeManifoldBet,
    FakeManifoldMarket,
    FakeManifoldState,
    FakeManifoldUser,
)

_STATUS_FORBIDDEN = 403
_STATUS_BAD_REQUEST = 400


class ManifoldRefusal(Exception):
    """The venue refuses, with its status and words."""

    def __init__(self, status: int, message: str, details: object = None) -> None:
        super().__init__(message)
        self.status, self.message, self.details = status, message, details


@dataclass(frozen=True, slots=True, kw_only=True)
class BetRequest:
    """A requested bet. ``amount`` is mana, ``shares`` is the number of other-side shares to buy for a sale."""

    user: FakeManifoldUser
    market: FakeManifoldMarket
    answer: FakeManifoldAnswer | None
    outcome: str
    now: int
    amount: float = float("inf")
    shares: float = float("inf")
    limit: float | None = None
    expires: int | None = None
    is_api: bool = True
    reply_to: str | None = None
    # Whether this sells shares of the other side.
    is_sale: bool = False

    @property
    def wanted_trade(self) -> WantedTrade:
        """What is taken from pool and book."""
        return WantedTrade(
            outcome=self.outcome, amount=self.amount, shares=self.shares, limit=self.limit, ignores_price=self.is_sale
        )

    @property
    def answer_id(self) -> str | None:
        """The id of the answer, None in a market without answers."""
        return None if self.answer is None else self.answer.id


@dataclass(frozen=True, slots=True, kw_only=True)
class BetPreview:
    """The result of a bet before it is made: the pools, by answer id, and all orders that it meets."""

    amount: float
    shares: float
    prob_before: float
    prob_after: float
    fills: tuple[ReferenceFill, ...]
    pools: Mapping[str | None, ReferencePool]
    trades: Mapping[str | None, ReferenceTrade] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class BetResult:
    """The result of a bet, for those who are informed of it."""

    bet: FakeManifoldBet
    bets: list[FakeManifoldBet]
    orders: list[FakeManifoldBet]
    users: set[str]


def require_tradable(market: FakeManifoldMarket, answer: FakeManifoldAnswer | None, now: int) -> None:
    """Refuse a market that cannot be traded."""
    if market.type not in TRADED_SINGLY | TRADED_BY_ANSWER:
        raise ManifoldRefusal(_STATUS_BAD_REQUEST, f"{market.type} is not a market that can be bet on")
    if market.type == "STONK":
        raise ManifoldRefusal(_STATUS_FORBIDDEN, "Stonks cannot be traded by API")
    if market.resolved:
        raise ManifoldRefusal(_STATUS_FORBIDDEN, "Market is resolved.")
    if not market.is_open(now):
        raise ManifoldRefusal(_STATUS_FORBIDDEN, "Trading is closed.")
    if answer is not None and answer.resolution is not None:
        raise ManifoldRefusal(_STATUS_FORBIDDEN, "Answer is resolved and cannot be bet on")


def round_limit(limit: float, market: FakeManifoldMarket) -> float:
    """Return a limit in whole percent, or unchanged on a numeric market; refuse any other."""
    if market.type == "PSEUDO_NUMERIC":
        return limit
    rounded = Decimal(repr(limit * 100)).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    if not is_zero(float(rounded) - limit * 100):
        raise ManifoldRefusal(
            _STATUS_BAD_REQUEST, "limitProb must be in increments of 0.01 (i.e. whole percentage points)"
        )
    return float(rounded / 100)


class ManifoldTrading:
    """Trades on a state."""

    def __init__(self, state: FakeManifoldState) -> None:
        self.state = state

    def preview_bet(self, bet_request: BetRequest) -> BetPreview:
        """Return the result that a bet would have."""
        found = (
            self._preview_linked(bet_request)
            if bet_request.market.sums_to_one and bet_request.answer is not None
            else self._preview_single(bet_request)
        )
        if bet_request.answer is None and any(
            min(pool.yes, pool.no) < MIN_POOL_SHARES for pool in found.pools.values()
        ):
            raise ManifoldRefusal(_STATUS_FORBIDDEN, "Trade too large for current liquidity pool.")
        if bet_request.limit is None and not bet_request.is_sale and is_zero(found.amount):
            raise ManifoldRefusal(_STATUS_BAD_REQUEST, "Betting allowed only between 1-99%.")
        return found

    def place_bet(self, bet_request: BetRequest, found: BetPreview) -> BetResult:
        """Execute a computed bet."""
        bet = self.row(bet_request, found)
        self.state.add_bet(bet)
        done = BetResult(bet=bet, bets=[bet], orders=[bet] if not bet.is_filled else [], users={bet_request.user.id})
        bet_request.user.balance -= bet.amount
        self._book_shares(bet)
        before = {answer.id: answer.pool.prob for answer in bet_request.market.answers}
        for answer_id, pool in found.pools.items():
            _set_pool(bet_request.market, answer_id, pool)
        for answer_id, trade in found.trades.items():
            self._meet_makers(trade, bet, done)
            if answer_id != bet.answer:
                done.bets.append(self._turned_row(bet, answer_id, (before[answer_id or ""], trade.pool.prob)))
        self._update_market(bet_request.market, bet)
        for user in sorted(done.users):
            self._redeem_pairs(user, bet.market, bet.answer, done)
        if bet_request.is_sale:
            _show_as_sale(done, bet_request.user.id)
        for row in done.bets:
            self.state.add_bet(row)
        return done

    def sell_shares(self, bet_request: BetRequest) -> BetResult:
        """Sell shares of an outcome: buy the other side and redeem the pairs; ``ask.shares`` is how many."""
        held = self.state.holding(bet_request.user.id, bet_request.market.id, bet_request.answer_id).of(
            bet_request.outcome
        )
        if is_zero(held):
            raise ManifoldRefusal(_STATUS_FORBIDDEN, f"You don't have any {bet_request.outcome} shares to sell.")
        shares = held if bet_request.shares == float("inf") else bet_request.shares
        if shares > held + 1e-6:
            raise ManifoldRefusal(_STATUS_BAD_REQUEST, f"You can only sell up to {held} shares.")
        other = "NO" if bet_request.outcome == "YES" else "YES"
        buying = replace(bet_request, outcome=other, shares=min(shares, held), is_sale=True)
        return self.place_bet(buying, self.preview_bet(buying))

    def buy_several(self, bet_requests: Sequence[BetRequest], amount: float) -> list[BetResult]:
        """Buy the same number of YES shares of several answers of a market where one wins."""
        first = bet_requests[0]
        chosen = tuple(bet_request.answer_id or "" for bet_request in bet_requests)
        joint = buy_answers(self._linked_answers(first), chosen, amount)
        dones = []
        for nth, bet_request in enumerate(bet_requests):
            found = _preview_of_arbitrage(joint, bet_request, share=1.0 / len(bet_requests), others=nth == 0)
            dones.append(self.place_bet(bet_request, found))
        return dones

    def cancel(self, bet: FakeManifoldBet, now: int) -> None:
        """Cancel an order."""
        if bet.limit is None:
            raise ManifoldRefusal(_STATUS_FORBIDDEN, "Not a limit order.")
        if bet.is_cancelled or bet.cancelled(now):
            raise ManifoldRefusal(_STATUS_FORBIDDEN, "Order already cancelled.")
        if bet.is_filled:
            raise ManifoldRefusal(_STATUS_FORBIDDEN, "Order already filled.")
        bet.is_cancelled, bet.updated = True, now

    # The orders that a bet meets

    def _preview_single(self, bet_request: BetRequest) -> BetPreview:
        pool = bet_request.market.pool if bet_request.answer is None else bet_request.answer.pool
        trade = fill_trade(
            pool, bet_request.wanted_trade, self._order_book(bet_request.market, bet_request.answer_id, bet_request.now)
        )
        return BetPreview(
            amount=trade.amount,
            shares=trade.shares,
            prob_before=pool.prob,
            prob_after=trade.pool.prob,
            fills=trade.fills,
            pools={bet_request.answer_id: trade.pool},
            trades={bet_request.answer_id: trade},
        )

    def _preview_linked(self, bet_request: BetRequest) -> BetPreview:
        return _preview_of_arbitrage(
            buy_answer(self._linked_answers(bet_request), bet_request.answer_id or "", bet_request.wanted_trade),
            bet_request,
            share=1.0,
            others=True,
        )

    def _linked_answers(self, bet_request: BetRequest) -> LinkedAnswers:
        alive = [answer for answer in bet_request.market.answers if answer.resolution is None]
        return LinkedAnswers(
            pools={answer.id: answer.pool for answer in alive},
            books={answer.id: self._order_book(bet_request.market, answer.id, bet_request.now) for answer in alive},
        )

    def _order_book(self, market: FakeManifoldMarket, answer: str | None, now: int) -> ReferenceOrderBook:
        orders = [
            ReferenceLimitOrder(
                id=bet.id,
                user=bet.user,
                outcome=bet.outcome,
                limit=bet.limit or 0.0,
                left=bet.order_amount - bet.amount,
                created=bet.created,
                expires=bet.expires,
            )
            for bet in self.state.book(market.id, answer, now)
        ]
        balances = {order.user: self.state.users[order.user].balance for order in orders}
        return ReferenceOrderBook(orders=orders, balances=balances, now=now)

    # The effects of a bet

    def row(self, bet_request: BetRequest, found: BetPreview) -> FakeManifoldBet:
        """Return the row of a bet that changes nothing."""
        asked = found.amount if bet_request.limit is None else bet_request.amount
        return FakeManifoldBet(
            id=self.state.new_id("bet"),
            user=bet_request.user.id,
            market=bet_request.market.id,
            answer=bet_request.answer_id,
            outcome=bet_request.outcome,
            amount=found.amount,
            order_amount=asked,
            shares=found.shares,
            prob_before=found.prob_before,
            prob_after=found.prob_after,
            created=bet_request.now,
            limit=bet_request.limit,
            is_filled=is_zero(asked - found.amount),
            fills=[_fill_row(fill, bet_request.now) for fill in found.fills],
            updated=bet_request.now,
            expires=bet_request.expires,
            is_api=bet_request.is_api,
            group=self.state.new_id("group") if bet_request.market.sums_to_one else None,
            reply_to=bet_request.reply_to,
        )

    def _turned_row(self, bet: FakeManifoldBet, answer_id: str | None, probs: tuple[float, float]) -> FakeManifoldBet:
        """Return the row of another answer's shares that were converted into this bet's: bought and redeemed."""
        return FakeManifoldBet(
            id=self.state.new_id("bet"),
            user=bet.user,
            market=bet.market,
            answer=answer_id,
            outcome="NO" if bet.outcome == "YES" else "YES",
            amount=0.0,
            order_amount=0.0,
            shares=0.0,
            prob_before=probs[0],
            prob_after=probs[1],
            created=bet.created,
            is_redemption=True,
            group=bet.group,
        )

    def _book_shares(self, bet: FakeManifoldBet) -> None:
        holding = self.state.holding(bet.user, bet.market, bet.answer)
        holding.buy(bet.outcome, bet.shares, bet.amount)
        holding.last = bet.created

    def _meet_makers(self, trade: ReferenceTrade, bet: FakeManifoldBet, done: BetResult) -> None:
        for fill in trade.makers:
            order = self.state.bets[fill.order or ""]
            order.amount += fill.amount
            order.shares += fill.shares
            order.is_filled = is_zero(order.order_amount - order.amount)
            order.updated = bet.created
            order.fills.append(
                {"matchedBetId": bet.id, "amount": fill.amount, "shares": fill.shares, "timestamp": bet.created}
            )
            self.state.users[order.user].balance -= fill.amount
            holding = self.state.holding(order.user, order.market, order.answer)
            holding.buy(order.outcome, fill.shares, fill.amount)
            done.orders.append(order)
            done.users.add(order.user)
            if order.answer != bet.answer:
                self._redeem_pairs(order.user, order.market, order.answer, done)
        for dry in trade.exhausted_orders:
            order = self.state.bets[dry]
            order.is_cancelled, order.updated = not order.is_filled, bet.created
            done.orders.append(order)

    def _redeem_pairs(self, user: str, market: str, answer: str | None, done: BetResult) -> None:
        """Pay one mana for each pair of YES and NO that one user holds, less the loan on them."""
        holding = self.state.holding(user, market, answer)
        pairs = min(holding.yes, holding.no)
        if is_zero(pairs):
            return
        self.state.users[user].balance += pairs - holding.redeem(pairs, done.bet.created)
        for outcome, paid in (("YES", pairs * done.bet.prob_after), ("NO", pairs * (1.0 - done.bet.prob_after))):
            row = FakeManifoldBet(
                id=self.state.new_id("bet"),
                user=user,
                market=market,
                answer=answer,
                outcome=outcome,
                amount=-paid,
                order_amount=-paid,
                shares=-pairs,
                prob_before=done.bet.prob_after,
                prob_after=done.bet.prob_after,
                created=done.bet.created,
                is_redemption=True,
                group=done.bet.group,
            )
            done.bets.append(row)

    def _update_market(self, market: FakeManifoldMarket, bet: FakeManifoldBet) -> None:
        spent = abs(bet.amount)
        market.volume += spent
        market.last_bet = market.updated = bet.created
        market.bettors.add(bet.user)
        answer = market.answer(bet.answer)
        if answer is not None:
            answer.volume += spent


def _preview_of_arbitrage(joint: ArbitrageTrade, bet_request: BetRequest, *, share: float, others: bool) -> BetPreview:
    """Return one leg of a joint bet; ``others`` where this leg includes the trades on other answers."""
    answer = bet_request.answer_id or ""
    before = bet_request.answer.pool.prob if bet_request.answer is not None else 0.0
    direct = joint.direct[answer]
    cost = joint.converted_cost * share
    shares = 0.0 if joint.is_nothing else joint.converted_shares
    turned = () if is_zero(shares) else (ReferenceFill(order=None, amount=cost, shares=shares),)
    trades: dict[str | None, ReferenceTrade] = {answer: direct}
    if others and turned:
        trades.update(joint.others)
    return BetPreview(
        amount=direct.amount + (cost if turned else 0.0),
        shares=direct.shares + shares,
        prob_before=before,
        prob_after=direct.pool.prob,
        fills=(*direct.fills, *turned),
        pools={name: trade.pool for name, trade in trades.items()},
        trades=trades,
    )


def _fill_row(fill: ReferenceFill, now: int) -> dict[str, object]:
    return {"matchedBetId": fill.order, "amount": fill.amount, "shares": fill.shares, "timestamp": now}


def _set_pool(market: FakeManifoldMarket, answer_id: str | None, pool: ReferencePool) -> None:
    answer = market.answer(answer_id)
    if answer is None:
        market.pool = pool
    else:
        answer.pool = pool


def _show_as_sale(done: BetResult, seller: str) -> None:
    """Show an immediately redeemed purchase as the venue shows it: one row, the side sold, below zero."""
    bet = done.bet
    bet.outcome = "NO" if bet.outcome == "YES" else "YES"
    bet.amount = bet.order_amount = bet.amount - bet.shares
    bet.shares = -bet.shares
    for part in bet.fills:
        part["amount"], part["shares"] = part["amount"] - part["shares"], -part["shares"]
    done.bets = [
        row for row in done.bets if row is bet or not (row.is_redemption and row.user == seller and row.shares)
    ]
