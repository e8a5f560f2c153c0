"""The world behind the fake Polymarket, moved by tests and simulations."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from bot.simulator.faults import RequestFault
from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues import polymarket_signatures as signing
from bot.simulator.venues.polymarket_matching import MatchingEngine
from bot.simulator.venues.polymarket_socket_messages import SocketMessages
from bot.simulator.venues.polymarket_state import (
    ONE_DOLLAR,
    FakePolymarketEvent,
    FakePolymarketMarket,
    FakePolymarketOrder,
    FakePolymarketState,
    FakePolymarketUser,
)
from bot.simulator.websocket_hub import WebSocketHub

_MONTH_S = 30 * 86_400
LevelList = Sequence[tuple[str, str]]


class PolymarketWorld:
    """Events, markets, users and their trades. Prices and sizes are given as text or Decimal."""

    def __init__(self, now: Callable[[], int], hub: WebSocketHub) -> None:
        self.state = FakePolymarketState()
        self.socket_messages = SocketMessages(self.state, hub, now)
        self.exchange = MatchingEngine(self.state, self.socket_messages, now)
        self._now = now

    @property
    def now_s(self) -> int:
        """The venue's time in whole seconds."""
        return self._now() // 1000

    # Events, markets and users

    def add_user(
        self,
        private_key: str,
        *,
        kind: int = 3,
        wallet: str | None = None,
        **more: Any,  # noqa: ANN401 - fields
    ) -> FakePolymarketUser:
        """Open an account for a key, with a wallet of that kind; it has no API key yet, see ``give_key``."""
        address = signing.key_address(private_key)
        number = self.state.new_id()
        own = address if kind == 0 else f"0x{0xD0 << 152 | number:040x}"
        user = FakePolymarketUser(address=address, wallet=wallet or own, kind=kind, **more)
        self.state.users[address.lower()] = user
        return user

    def give_key(self, user: FakePolymarketUser) -> FakePolymarketUser:
        """Make the API key of an account, as a log-in does."""
        if not user.key:
            seed = hashlib.sha256(user.address.encode()).digest()
            user.key = (
                f"{seed[:4].hex()}-{seed[4:6].hex()}-4{seed[6:8].hex()[1:]}-8{seed[8:10].hex()[1:]}-{seed[10:16].hex()}"
            )
            user.secret = base64.urlsafe_b64encode(hashlib.sha256(seed + b"secret").digest()).decode()
            user.passphrase = hashlib.sha256(seed + b"passphrase").hexdigest()
        return user

    def add_event(self, title: str = "Who will win?", **more: Any) -> FakePolymarketEvent:  # noqa: ANN401 - fields of Event
        """Make a page for markets: one where exactly one of them wins where ``neg_risk``."""
        number = str(20_000 + self.state.new_id())
        fields = {"slug": f"event-{number}", "end": self.now_s + _MONTH_S, **more}
        event = FakePolymarketEvent(id=number, title=title, **fields)
        self.state.events[number] = event
        return event

    def add_market(
        self,
        question: str = "Will it rain?",
        *,
        event: FakePolymarketEvent | None = None,
        bids: LevelList = (),
        asks: LevelList = (),
        **more: Any,  # noqa: ANN401 - fields
    ) -> FakePolymarketMarket:
        """Open a market, ending in a month, with 100 shares bid at .49 and asked at .51 unless levels are given.

        Without an event it gets one of its own. Other fields are those of FakePolymarketMarket.
        """
        number = self.state.new_id()
        version = more.get("version", "v1")
        condition, tokens = _new_market_ids(number, version)
        event = event or self.add_event(question, slug=f"page-{number}", end=more.get("end", self.now_s + _MONTH_S))
        fields = {
            "slug": f"market-{number}",
            "created": self.now_s,
            "end": event.end,
            "updated": self.now_s,
            "neg_risk": event.neg_risk,
            "moved_ms": self._now(),
            **more,
        }
        market = FakePolymarketMarket(
            id=str(500_000 + number), condition=condition, tokens=tokens, question=question, event=event.id, **fields
        )
        levels = (bids, asks) if bids or asks else ((("0.49", "100"),), (("0.51", "100"),))
        market.bids, market.asks = (_parse_levels(side) for side in levels)
        event.markets.append(condition)
        self.state.markets[condition] = market
        self.state.tokens.update(dict.fromkeys(tokens, market))
        self.remember(market)
        if market.is_minted:
            self.socket_messages.send_new_market(market)
        return market

    def add_choice(
        self,
        title: str,
        options: Mapping[str, str],
        **more: Any,  # noqa: ANN401 - fields
    ) -> tuple[FakePolymarketEvent, list[FakePolymarketMarket]]:
        """Open an event with a market for each option at its price: exactly one of them wins."""
        event = self.add_event(title, neg_risk=True, **more)
        return event, [self.add_outcome(event, option, price) for option, price in options.items()]

    def add_outcome(self, event: FakePolymarketEvent, option: str, price: str) -> FakePolymarketMarket:
        """Open the market of one option of an event at its price, also later."""
        cent = Decimal("0.01")
        return self.add_market(
            f"Will {option} be it?",
            event=event,
            item=option,
            bids=((str(Decimal(price) - cent), "100"),),
            asks=((str(Decimal(price) + cent), "100"),),
        )

    def register_market(self, market: FakePolymarketMarket) -> None:
        """Make a market known to the exchange that was too new."""
        market.is_minted = True
        self.socket_messages.send_new_market(market)

    # Books and trades

    def set_book(self, market: FakePolymarketMarket, *, bids: LevelList = (), asks: LevelList = ()) -> None:
        """Replace the crowd's whole book, without matching."""
        self.exchange.process_due()
        market.bids, market.asks, market.moved_ms = _parse_levels(bids), _parse_levels(asks), self._now()
        self._trim_queues(market)
        self.socket_messages.send_book(market)
        self.remember(market)

    def set_level(self, market: FakePolymarketMarket, side: str, price: str | Decimal, size: str | Decimal) -> None:
        """Set the crowd's size at one price of the first outcome; ``side`` is BUY or SELL."""
        self.exchange.process_due()
        levels, level = (market.bids if side == "BUY" else market.asks), Decimal(price)
        levels[level] = Decimal(size)
        if levels[level] <= 0:
            del levels[level]
        books.trim_queue(self.state, market, level, bids=side == "BUY")
        self.socket_messages.send_price_changes(market, [(side == "BUY", level)])
        self.remember(market)

    def move_price(
        self,
        market: FakePolymarketMarket,
        price: str | Decimal,
        *,
        size: str = "100",
        spread: str = "0.02",
        levels: int = 1,
    ) -> None:
        """Set the crowd's book around a price; orders of users that it would cross are matched.

        It has so many levels on each side, each a spread away from the one before.
        """
        self.exchange.process_due()
        half = Decimal(spread) / 2
        bid, ask = (max(min(Decimal(price) + by, ONE_DOLLAR - market.tick), market.tick) for by in (-half, half))
        # Users' orders in the way are matched, whatever else the crowd had.
        market.bids, market.asks = {}, {}
        for is_bid, limit in ((True, bid), (False, ask)):
            left = sum((order.left for order in self.state.resting(market, bids=not is_bid)), Decimal(0))
            self.exchange.trade(market, is_bid=is_bid, size=left, limit=limit)
        steps = [number * Decimal(spread) for number in range(levels)]
        self.set_book(
            market,
            bids=tuple((str(bid - step), size) for step in steps if not step or bid - step >= market.tick),
            asks=tuple((str(ask + step), size) for step in steps if not step or ask + step <= ONE_DOLLAR - market.tick),
        )

    def trade(
        self, market: FakePolymarketMarket, side: str, size: str | Decimal, *, limit: str | Decimal | None = None
    ) -> Decimal:
        """Let the crowd BUY or SELL the first outcome, through users' orders too; return the shares traded."""
        self.exchange.process_due()
        most = None if limit is None else Decimal(limit)
        done = self.exchange.trade(market, is_bid=side == "BUY", size=Decimal(size), limit=most)
        self.remember(market)
        return done

    def set_tick(self, market: FakePolymarketMarket, tick: str) -> None:
        """Change the grid of prices."""
        before, market.tick = market.tick, Decimal(tick)
        self.socket_messages.send_tick_change(market, before)

    def remember(self, market: FakePolymarketMarket) -> None:
        """Record the middle of the book in the history of prices."""
        middle = books.mid_price(self.state, market, market.tokens[0])
        if middle is not None:
            market.history.append((self.now_s, middle))

    # Events of the world

    def edit(self, market: FakePolymarketMarket, **fields: object) -> None:
        """Change fields of a market; a new ``description`` is a new version of its rules."""
        for name, value in fields.items():
            setattr(market, name, value)
        market.new_version = market.new_version or "description" in fields
        market.updated = self.now_s

    def close(self, market: FakePolymarketMarket) -> None:
        """End trading now, early or not."""
        self.exchange.process_due()
        self.edit(market, closed=True, closed_at=self.now_s)
        self._end_orders(market)

    def propose(self, market: FakePolymarketMarket, price: str) -> None:
        """Let somebody propose an outcome (1, 0 or 0.5): the exchange has no book of the market any more."""
        self.exchange.process_due()
        again = market.was_disputed
        self.edit(market, uma="proposed", oracle="reproposed" if again else "proposed")
        if again:
            market.reproposed = Decimal(price)
        else:
            market.proposed = Decimal(price)
        self._end_orders(market)

    def dispute(self, market: FakePolymarketMarket) -> None:
        """Let somebody dispute the proposed outcome; the second time there is a vote."""
        self.edit(market, uma="disputed", oracle="disputed" if market.was_disputed else "challenged", was_disputed=True)

    def resolve(self, market: FakePolymarketMarket, first: str, second: str | None = None) -> None:
        """End a market: it pays so much for each outcome, together one unless ``second`` is given too."""
        pays = Decimal(first), ONE_DOLLAR - Decimal(first) if second is None else Decimal(second)
        if not market.closed:
            self.close(market)
        self.edit(market, uma="resolved", oracle="resolved", payouts=pays, settled=pays[0], resolved_at=self.now_s)
        self.socket_messages.send_resolution(market)

    def redeem(self, user: FakePolymarketUser, market: FakePolymarketMarket) -> Decimal:
        """Pay an account the worth of its shares in an ended market; return it."""
        if market.payouts is None:
            return Decimal(0)
        total = Decimal(0)
        for token, pays in zip(market.tokens, market.payouts, strict=True):
            paid = user.shares.pop(token, Decimal(0)) * pays
            if token in user.spent:
                user.realise(token, paid - user.spent.pop(token))
            user.fees.pop(token, None)
            total += paid
        user.cash += total
        return total

    def apply_fault(self, fault: RequestFault, market: FakePolymarketMarket) -> bool:
        """Apply a fault of the world to a market, while a request about it is under way.

        Return whether it had an effect.
        """
        if fault is RequestFault.CLOSING:
            self.close(market)
        elif fault is RequestFault.EDITED:
            self.edit(market, description=f"{market.description} Clarified.")
        elif fault is RequestFault.RESOLVED:
            self.resolve(market, "1")
        elif fault is RequestFault.PARTIAL_FILL and (market.asks or market.bids):
            # Somebody was first: half of the best of each side is gone.
            for side, levels in (("SELL", market.asks), ("BUY", market.bids)):
                if levels:
                    level = min(levels) if side == "SELL" else max(levels)
                    self.set_level(market, side, level, levels[level] / 2)
        else:
            return False
        return True

    def _end_orders(self, market: FakePolymarketMarket) -> None:
        for order in tuple(self.state.orders.values()):
            if order.market is market and _is_open(order):
                self.exchange.cancel(order, "CANCELED_MARKET_RESOLVED")

    def _trim_queues(self, market: FakePolymarketMarket) -> None:
        for bids in (True, False):
            for order in self.state.resting(market, bids=bids):
                books.trim_queue(self.state, market, order.level, bids=bids)


def _is_open(order: FakePolymarketOrder) -> bool:
    return order.status in {"LIVE", "DELAYED"}


def _parse_levels(side: LevelList) -> dict[Decimal, Decimal]:
    return {Decimal(price): Decimal(size) for price, size in side}


def _new_market_ids(number: int, version: str) -> tuple[str, tuple[str, str]]:
    """Return condition and tokens of a market: of 32 and 31 bytes, and of either protocol's form."""
    seed = hashlib.sha256(f"market {number}".encode()).hexdigest()
    if version == "v1":
        tokens = [str(int(hashlib.sha256(f"{seed} {side}".encode()).hexdigest(), 16) | 1 << 255) for side in range(2)]
        return f"0x{seed}", (tokens[0], tokens[1])
    # Module, 18 bytes of its own, eight zero bytes, and a number.
    condition = f"01{seed[:36]}{'00' * 8}{number:08x}"
    return f"0x{condition}", (signing.v2_token(condition, 0), signing.v2_token(condition, 1))
