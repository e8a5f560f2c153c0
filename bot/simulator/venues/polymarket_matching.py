"""The matching engine of the fake Polymarket.

Orders are delayed, matched, settled on chain, expire and are cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal

from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues.polymarket_order_books import BookMatch, TakerOrder
from bot.simulator.venues.polymarket_socket_messages import SocketMessages
from bot.simulator.venues.polymarket_state import (
    FakePolymarketMarket,
    FakePolymarketOrder,
    FakePolymarketState,
    FakePolymarketTrade,
    FakePolymarketUser,
    PublicTrade,
    RestingSide,
)

_WITHOUT_REST = frozenset({"FAK", "FOK"})
_MIN_SPEND = Decimal("0.0001")
_CROWD_WALLET = "0x" + "11" * 20
HEARTBEAT_S = 10.0
EARLY_S = 60


class MatchingEngine:
    """``fates`` says how the next matches end (CONFIRMED or FAILED), CONFIRMED where it is empty.

    ``mined_s`` and ``confirmed_s`` count from the match. ``has_better_shares``: an order for dollars that is matched at
    a better price gets more shares, else keeps dollars.
    """

    def __init__(self, state: FakePolymarketState, news: SocketMessages, now: Callable[[], int]) -> None:
        self.state, self.news, self.now = state, news, now
        self.next_settlements: deque[str] = deque()
        self.mined_s, self.confirmed_s = 2.0, 5.0
        self.has_better_shares = True

    # Orders

    def appetite(self, order: FakePolymarketOrder) -> TakerOrder:
        """Return what an order would match."""
        by_money = order.side == "BUY" and order.kind in _WITHOUT_REST and self.has_better_shares
        return TakerOrder(
            is_bid=order.is_bid,
            limit=order.level,
            size=None if by_money else order.left,
            spend=order.spend if by_money else None,
            mirrored=order.token != order.market.tokens[0],
        )

    def crosses(self, order: FakePolymarketOrder) -> bool:
        """Whether it would be matched at once."""
        return books.preview_match(self.state, order.market, self.appetite(order))[0] > 0

    def fills_whole(self, order: FakePolymarketOrder) -> bool:
        """Whether the book has all that it requests."""
        wanted = self.appetite(order)
        got, paid = books.preview_match(self.state, order.market, wanted)
        return got >= order.size if wanted.spend is None else wanted.spend - paid < _MIN_SPEND

    def place(self, order: FakePolymarketOrder, delay_s: float) -> list[FakePolymarketTrade]:
        """Accept an order: match it, or hold it first where takers are delayed and it would be matched."""
        self.state.orders[order.id] = order
        if delay_s > 0 and not order.post_only and self.crosses(order):
            order.status, order.due_ms = "DELAYED", self.now() + round(delay_s * 1000)
            self.news.send_order(order, "PLACEMENT")
            return []
        return self._enter_order(order)

    def cancel(self, order: FakePolymarketOrder, status: str = "CANCELED") -> None:
        """Remove an order from the book."""
        order.status = status
        self.news.send_order(order, "CANCELLATION")
        self.news.send_price_changes(order.market, [(order.is_bid, order.level)])

    def cancel_all(
        self, user: FakePolymarketUser, *, of: Callable[[FakePolymarketOrder], bool] = lambda _: True
    ) -> list[FakePolymarketOrder]:
        """Cancel the open orders of an account."""
        found = [order for order in self.state.orders_of(user) if order.is_resting and of(order)]
        for order in found:
            self.cancel(order)
        return found

    def trade(
        self, market: FakePolymarketMarket, *, is_bid: bool, size: Decimal, limit: Decimal | None = None
    ) -> Decimal:
        """Let the crowd take from the book; return the shares."""
        wanted = TakerOrder(is_bid=is_bid, limit=limit, size=size)
        matches = books.match_taker(self.state, market, wanted)
        for match in matches:
            self._record_match(market, None, match, is_bid=is_bid)
        return sum((match.size for match in matches), Decimal(0))

    # Time

    def process_due(self) -> None:
        """Do everything that is due."""
        now = self.now()
        for user in self.state.users.values():
            if user.beat_s is not None and now / 1000 - user.beat_s >= HEARTBEAT_S:
                user.beat_s = None
                self.cancel_all(user)
        for order in tuple(self.state.orders.values()):
            if order.status == "DELAYED" and order.due_ms is not None and order.due_ms <= now:
                order.due_ms = None
                self._enter_order(order)
            if order.is_resting and order.expires and order.expires - EARLY_S <= now / 1000:
                self.cancel(order)
        for trade in tuple(self.state.trades.values()):
            self._settle_due(trade, now)

    def settle(self, trade: FakePolymarketTrade, status: str) -> None:
        """Report the state of a trade; CONFIRMED moves money and shares."""
        if trade.is_over or trade.status == status:
            return
        trade.status, trade.updated_ms = status, self.now()
        if status in {"MINED", "CONFIRMED"}:
            trade.hash = trade.hash or f"0x{int(trade.id.replace('-', ''), 16):064x}"
        if status == "CONFIRMED":
            self._move_funds(trade)
        self.news.send_trade(trade)

    def _settle_due(self, trade: FakePolymarketTrade, now: int) -> None:
        fails = trade.fate == "FAILED"
        steps = ((self.mined_s, "RETRYING" if fails else "MINED"), (self.confirmed_s, trade.fate))
        order = ("MATCHED", "MINED", "RETRYING", "CONFIRMED", "FAILED")
        for wait_s, status in steps:
            is_due = now >= trade.matched_ms + wait_s * 1000
            if is_due and not trade.is_over and order.index(status) > order.index(trade.status):
                self.settle(trade, status)

    def _move_funds(self, trade: FakePolymarketTrade) -> None:
        for order, size, fee in trade_sides(trade):
            user, price = order.user, trade.market.mirrored(order.token, trade.level)
            before = user.shares.get(order.token, Decimal(0))
            sign = 1 if order.side == "BUY" else -1
            user.cash -= sign * size * price + fee
            user.shares[order.token] = before + sign * size
            spent, fees = user.spent.get(order.token, Decimal(0)), user.fees.get(order.token, Decimal(0))
            if sign > 0:
                user.spent[order.token], user.fees[order.token] = spent + size * price, fees + fee
            elif before > 0:
                left = (before - size) / before
                user.spent[order.token], user.fees[order.token] = spent * left, fees * left
                user.realise(order.token, size * price - spent * (1 - left))

    # Matching

    def _enter_order(self, order: FakePolymarketOrder) -> list[FakePolymarketTrade]:
        """Match an order and keep the rest of it open, where it is of that kind."""
        whole = order.kind != "FOK" or self.fills_whole(order)
        market = order.market
        order.status = "MATCHED"
        matches = books.match_taker(self.state, market, self.appetite(order)) if whole else []
        trades = [self._record_match(market, order, match, is_bid=order.is_bid) for match in matches]
        if order.kind in _WITHOUT_REST or order.left <= 0:
            order.status = "MATCHED" if trades else "CANCELED"
        else:
            side = market.bids if order.is_bid else market.asks
            order.ahead = side.get(order.level, Decimal(0))
            order.status = "LIVE"
        self.news.send_order(order, "PLACEMENT")
        self.news.send_price_changes(market, [(order.is_bid, order.level)])
        return trades

    def _record_match(
        self, market: FakePolymarketMarket, taker: FakePolymarketOrder | None, match: BookMatch, *, is_bid: bool
    ) -> FakePolymarketTrade:
        now = self.now()
        price = match.level
        fee = Decimal(0) if market.fees is None or taker is None else market.fees.fee_of(price, match.size)
        number = self.state.new_id()
        trade = FakePolymarketTrade(
            id=f"{number:08x}-0000-4000-8000-{number:012x}",
            market=market,
            taker=taker,
            is_bid=is_bid,
            level=price,
            size=match.size,
            fee=fee,
            makers=match.makers,
            matched_ms=now,
            updated_ms=now,
            fate=self.next_settlements.popleft()
            if self.next_settlements and _involves_user(taker, match.makers)
            else "CONFIRMED",
        )
        self._note_trade(trade)
        self._print_trade(trade, now)
        return trade

    def _note_trade(self, trade: FakePolymarketTrade) -> None:
        """Record a trade where a user took part in it."""
        taker = trade.taker
        if taker is not None:
            taker.matched += trade.size
            taker.paid += trade.size * trade.price
        if not _involves_user(taker, trade.makers):
            return
        self.state.trades[trade.id] = trade
        for order, _, _ in trade_sides(trade):
            order.trades.append(trade.id)
            if order is not taker:
                order.status = "LIVE" if order.left > 0 else "MATCHED"
                self.news.send_order(order, "UPDATE")
        self.news.send_trade(trade)

    def _print_trade(self, trade: FakePolymarketTrade, now: int) -> None:
        market = trade.market
        market.last, market.last_side = trade.level, "BUY" if trade.is_bid else "SELL"
        market.volume += trade.size * trade.level
        market.volume_day += trade.size * trade.level
        market.history.append((now // 1000, trade.level))
        wallet = _CROWD_WALLET if trade.taker is None else trade.taker.user.wallet
        market.public_trades.append(
            PublicTrade(at_ms=now, level=trade.level, size=trade.size, is_bid=trade.is_bid, wallet=wallet)
        )
        self.news.send_price_changes(market, [(not trade.is_bid, trade.level)])
        self.news.send_last_trade(market, trade.token, trade.level, trade.size, trade.side)


def trade_sides(trade: FakePolymarketTrade) -> list[tuple[FakePolymarketOrder, Decimal, Decimal]]:
    """Return the users' orders of a trade with the amount and fee of each; makers pay none."""
    makers = [(maker.order, maker.size, Decimal(0)) for maker in trade.makers if maker.order is not None]
    return makers if trade.taker is None else [(trade.taker, trade.size, trade.fee), *makers]


def _involves_user(taker: FakePolymarketOrder | None, makers: tuple[RestingSide, ...]) -> bool:
    return taker is not None or any(maker.order is not None for maker in makers)
