"""What happens at the fake Polymarket during a simulation: its crowd trades, matches fail, outcomes are proposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from tests.simulation.full_system.plan import DAY_S, HOUR_S, OF_EVENTS, draw_days_open

if TYPE_CHECKING:
    import numpy as np

    from bot.core.interfaces import Clock
    from bot.simulator.venues.polymarket import FakePolymarket
    from bot.simulator.venues.polymarket_state import FakePolymarketMarket
    from tests.simulation.full_system.fake_venues import SimulationVenues
    from tests.simulation.full_system.plan import SimulationTraits

# The most questions that are open at once, and with a world that has its own.
MOST_OPEN, MOST_BESIDE = 10, 3
# So late may come what is to be matched at once: what was sent in time is waited for that long.
AT_ONCE_S = 50.0
# Between two things that happen; books in which nothing moves for hours are traded on by nobody.
PAUSE_S = 600.0
# An outcome that was proposed may be disputed for so long.
LIVENESS_S = 2.0 * HOUR_S
# How many questions are events with several markets, and where the bound of an event is the tight one.
CHOICES, MANY_CHOICES = 1 / 4, 3 / 4
PORTS = ("Aden", "Brest", "Cork")
# The topics of events, one after the other; some have none.
TAGS: Sequence[tuple[str, ...]] = (("sea", "sail"), ("sea",), ())
ENDS = ("1", "1", "1", "1", "0", "0", "0", "0", "0.5")
_CENT = Decimal("0.01")
_FEES = FakeFeeSchedule(rate=Decimal("0.04"))
# How long takers are held before they are matched, on some markets.
_HELD_S = Decimal(3)
# How the outcome of an order stays unknown to its sender.
LOST = (RequestFault.LATE, RequestFault.ERROR_AFTER, RequestFault.DROPPED_AFTER, RequestFault.PAGE_AFTER)
# How many shares a book has at each price, and a shallow one: an order takes five at least.
DEPTH, SHALLOW_DEPTH = (8, 300), (5, 16)
# At how many prices of each side there are shares, so that an order may want some of them and not others.
LEVELS = 3
# The least distance from both ends of a price.
_ROOM = 0.04


@dataclass(slots=True, kw_only=True)
class PolymarketEvents:
    """Its markets and the events there, drawn from one stream; at most ``most`` questions are open at once.

    Where ``rough``, matches fail, the engine rests, and orders take effect up to ``late_s`` after they came. ``depth``
    says how many shares its books have at each price, ``confirmed_s`` when matches are settled on chain, 0: in seconds,
    ``choices`` how many questions are events.
    """

    bridges: SimulationVenues
    venue: FakePolymarket
    clock: Clock
    stream: np.random.Generator
    most: int
    rough: bool
    late_s: float
    depth: tuple[int, int]
    confirmed_s: float = 0.0
    choices: float = CHOICES
    _markets: list[FakePolymarketMarket] = field(default_factory=list)
    _number: int = 0
    # When something is known of what is closed: who proposes its outcome, and when that stands.
    _known: dict[str, datetime] = field(default_factory=dict)
    _pays: dict[str, str] = field(default_factory=dict)

    def begin(self, first: int) -> None:
        """Open what is there on the first day."""
        if self.confirmed_s:
            exchange = self.venue.world.exchange
            exchange.mined_s, exchange.confirmed_s = self.confirmed_s / 4.0, self.confirmed_s
        for _ in range(first):
            self._open_question()

    async def run_events(self) -> None:
        """Let things happen, for ever."""
        events: tuple[tuple[float, Callable[[], object]], ...] = (
            (0.60, self._move_price),
            (0.79, self._trade_some),
            (0.87, self._end_markets),
            (0.92, self._open_question),
            (0.93, self._edit_rules),
            (0.96, self._fail_next_match),
            (0.98, self._lose_next_reply),
            (0.985, self._restart),
            (1.01, self._redeem_shares),
        )
        while True:
            await self.clock.sleep(float(self.stream.exponential(PAUSE_S)))
            self.venue.mode = "open"
            draw = self.stream.random()
            next(act for share, act in events if draw < share)()

    def stop_faults(self) -> None:
        """Let the engine run, and no match fail any more."""
        self.venue.mode = "open"
        self.venue.world.exchange.next_settlements.clear()

    def _any_market(self) -> FakePolymarketMarket | None:
        trading = [one for one in self._markets if one.trades_now]
        return trading[int(self.stream.integers(len(trading)))] if trading else None

    def _open_question(self) -> None:
        """Open a question: one market, or an event where exactly one of several wins."""
        ends = self.clock.now() + timedelta(days=draw_days_open(self.stream))
        is_choice = self.stream.random() < self.choices
        terms: dict[str, Any] = {
            "fees": _FEES if self.stream.random() < 1 / 2 else None,
            "delay_s": _HELD_S if self.stream.random() < 1 / 6 else Decimal(0),
        }
        if len({one.event for one in self._markets if one.trades_now}) >= self.most:
            return
        self._number += 1
        world, end = self.venue.world, round(ends.timestamp())
        reported: list[tuple[str, dict[str, Any]]]
        tags = TAGS[self._number % len(TAGS)]
        if is_choice:
            event = world.add_event(f"Which port wins race {self._number}?", neg_risk=True, end=end, tags=tags)
            reported = [(f"Will {port} win race {self._number}?", {"event": event, "item": port}) for port in PORTS]
        else:
            title = f"Will ship {self._number} come in?"
            reported = [(title, {"event": world.add_event(title, end=end, tags=tags)})]
        opened = [world.add_market(title, **more, **terms) for title, more in reported]
        self._markets += opened
        prices = [float(self.stream.uniform(0.15, 0.7)) for _ in opened]
        # Of an event they sum to about 1.
        whole = sum(prices) if is_choice else 1.0
        for market, price in zip(opened, prices, strict=True):
            self._set_price(market, price / whole, size=int(self.stream.integers(*self.depth)))

    def _set_price(self, market: FakePolymarketMarket, price: float, *, size: int) -> None:
        cents = Decimal(str(round(min(1.0 - _ROOM, max(_ROOM, price)), 2))).quantize(_CENT)
        self.venue.world.move_price(market, cents, size=str(size), levels=LEVELS)

    def _move_price(self) -> None:
        """Let the crowd's book stand elsewhere, and those of the same event too; own orders in its way are matched."""
        if (market := self._any_market()) is not None:
            move, size = float(self.stream.normal(0.0, 0.06)), int(self.stream.integers(*self.depth))
            self._set_price(market, _last_price(market) + move, size=size)
            others = [one for one in self._markets if one.event == market.event and one is not market]
            for other in [one for one in others if one.trades_now]:
                self._set_price(other, _last_price(other) - move / len(others), size=size)

    def move_price(self, condition: str, move: float) -> None:
        """Let the crowd's book of a market stand elsewhere, if it trades."""
        for market in [one for one in self._markets if one.condition == condition and one.trades_now]:
            self._set_price(market, _last_price(market) + move, size=int(self.stream.integers(*self.depth)))

    def _trade_some(self) -> None:
        """Let somebody take a little from one side; every other time what rests there of Foxcast is what they want."""
        side, size = ("BUY", "SELL")[int(self.stream.integers(2))], str(int(self.stream.integers(1, 200)))
        resting = [one for one in self.venue.state.orders.values() if one.is_resting]
        if resting and self.stream.random() < 1 / 2:
            order = resting[0]
            self.venue.world.trade(order.market, "SELL" if order.is_bid else "BUY", size, limit=order.level)
        elif (market := self._any_market()) is not None:
            self.venue.world.trade(market, side, size)

    def _edit_rules(self) -> None:
        if (market := self._any_market()) is not None:
            self.venue.world.edit(market, description=f"{market.description} As of {self.clock.now():%Y-%m-%d}.")

    def _fail_next_match(self) -> None:
        """Let the next match fail on chain."""
        if self.rough:
            self.venue.world.exchange.next_settlements.append("FAILED")

    def _lose_next_reply(self) -> None:
        """Let the next order have no answer that tells of it; where it is late, until it is nearly too old for it."""
        wait_s = float(self.stream.uniform(0.1, 0.95)) * self.late_s
        fault = LOST[int(self.stream.integers(len(LOST)))]
        if self.rough:
            wait_s = wait_s if fault is RequestFault.LATE else 1.0
            details = FaultDetails(fault=fault, wait_s=wait_s, page_status=503)
            self.venue.faults.schedule(details, method="POST", path="/order")

    def _restart(self) -> None:
        """Let the engine take no orders for some minutes, or nothing but cancels."""
        mode = ("restarting", "cancel_only")[int(self.stream.integers(2))]
        if self.rough:
            self.venue.mode = mode

    def _end_markets(self) -> None:
        """Move all that is over towards its end: proposed, disputed where that was wrong, settled."""
        now = self.clock.now()
        for market in self._markets:
            if not market.has_ended and self._is_known(market, now):
                self._known[market.condition] = now + timedelta(seconds=LIVENESS_S)
                self._advance_resolution(market, self._draw_outcome(market))

    def _advance_resolution(self, market: FakePolymarketMarket, pays: str) -> None:
        world = self.venue.world
        is_right = market.proposed == Decimal(pays) or market.was_disputed
        if market.uma == "disputed":
            world.propose(market, pays)
        elif market.uma is None:
            is_wrong = self.stream.random() < 1 / 8
            world.propose(market, {"1": "0", "0": "1"}.get(pays, pays) if is_wrong else pays)
        elif is_right:
            world.resolve(market, pays)
        else:
            world.dispute(market)

    def _draw_outcome(self, market: FakePolymarketMarket) -> str:
        """Return what its first outcome pays, drawn once: of an event exactly one market wins."""
        if market.condition not in self._pays:
            together = [one.condition for one in self._markets if one.event == market.event]
            if len(together) > 1:
                self._pays.update(dict.fromkeys(together, "0"))
                self._pays[together[int(self.stream.integers(len(together)))]] = "1"
            else:
                self._pays[market.condition] = ENDS[int(self.stream.integers(len(ENDS)))]
        return self._pays[market.condition]

    def _is_known(self, market: FakePolymarketMarket, now: datetime) -> bool:
        """Say whether something is known: up to six hours before the end, or up to a day and a half after it."""
        if market.condition not in self._known:
            wait_s = float(self.stream.uniform(-0.25, 1.5)) * DAY_S
            known = now + timedelta(seconds=market.end + wait_s - now.timestamp())
            together = [one.condition for one in self._markets if one.event == market.event]
            self._known.update(dict.fromkeys(together, known))
        return self._known[market.condition] <= now

    def _redeem_shares(self) -> None:
        """Let the owner of the wallet redeem what is decided, which Foxcast never does."""
        signer = self.bridges.environment.polymarket_account
        if signer is not None:
            for market in self._markets:
                self.venue.world.redeem(signer, market)


def _last_price(market: FakePolymarketMarket) -> float:
    return float(market.history[-1][1]) if market.history else 0.5


def polymarket_events(
    bridges: SimulationVenues, traits: SimulationTraits, *, clock: Clock, stream: np.random.Generator
) -> PolymarketEvents | None:
    """Return the events at the exchange where Foxcast has an account, else None."""
    if bridges.polymarket is None or not traits.signs:
        return None
    return PolymarketEvents(
        bridges=bridges,
        venue=bridges.polymarket,
        clock=clock,
        stream=stream,
        most=MOST_BESIDE if traits.has_world else MOST_OPEN,
        rough=traits.roughness > 0.0,
        late_s=traits.signed_lifetime_s if traits.order_type == "GTD" else AT_ONCE_S,
        depth=SHALLOW_DEPTH if traits.is_shallow else DEPTH,
        confirmed_s=traits.confirmed_s,
        choices=MANY_CHOICES if traits.tight is not None and traits.tight[0] in OF_EVENTS else CHOICES,
    )
