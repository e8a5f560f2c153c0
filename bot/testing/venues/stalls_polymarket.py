"""The simulated world on the fake Polymarket: markets with books, and events where exactly one market wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.testing.venues.stalls import held, told
from bot.testing.world.ask import Fate
from bot.testing.world.grammar import headed
from bot.testing.world.life import Act, truth

if TYPE_CHECKING:
    from bot.testing.venues.polymarket import FakePolymarket
    from bot.testing.venues.polymarket_state import Market
    from bot.testing.world.ask import Ask
    from bot.testing.world.life import Happening, Outcome
    from bot.testing.world.world import World

_CENT = Decimal("0.01")
_SIZE = "250"


@dataclass(frozen=True, kw_only=True)
class PolymarketStall:
    """Implements Stall; ``markets`` are by the keys of their questions, and by option, "" where there is one.

    When an event is over somebody proposes its outcome, which ends the books. What is to be undone is a wrong proposal
    that is disputed: outcomes on a chain are final.
    """

    world: World
    venue: FakePolymarket
    markets: dict[str, Mapping[str, Market]] = field(default_factory=dict, init=False)

    def happen(self, one: Happening) -> None:
        if one.act is Act.OPEN:
            self.markets[one.ask.key] = self._opened(one.ask)
            return
        for option, market in self.markets.get(one.ask.key, {}).items():
            if not market.has_ended:
                self._do(one, option, market)

    def _do(self, one: Happening, option: str, market: Market) -> None:
        world = self.venue.world
        match one.act:
            case Act.EDIT:
                world.edit(market, description=f"{market.description}\n\n{one.text}")
            case Act.CLOSE if market.uma is None:
                world.propose(market, self._proposed(one.ask, option))
            case Act.RESOLVE if one.ask.fate is Fate.REVISED and one.outcome != truth(one.ask):
                # It was proposed, and somebody is about to object.
                return
            case Act.RESOLVE if one.outcome is not None:
                if market.was_disputed and market.uma == "disputed":
                    world.propose(market, _pays(one.outcome, option))
                world.resolve(market, _pays(one.outcome, option))
            case Act.ANNUL:
                world.resolve(market, "0.5")
            case Act.UNDO:
                world.dispute(market)
            case _:
                return

    def _proposed(self, ask: Ask, option: str) -> str:
        if ask.fate is Fate.ANNULLED:
            return "0.5"
        pays = _pays(truth(ask), option)
        if ask.fate is not Fate.REVISED:
            return pays
        return "0" if pays == "1" else "1"

    def trade(self, ask: Ask, day: float) -> None:
        price = self.world.price(ask, day)
        for option, market in self.markets.get(ask.key, {}).items():
            wanted = _cents(price[option] if isinstance(price, Mapping) else price)
            last = market.history[-1][1] if market.history else None
            if market.trades_now and wanted != last:
                self.venue.world.move(market, wanted, size=_SIZE)

    def _opened(self, ask: Ask) -> Mapping[str, Market]:
        world, price = self.venue.world, self.world.price(ask, ask.opens)
        end = round(self.world.calendar.at(ask.closes).timestamp())
        if not isinstance(price, Mapping):
            event = world.add_event(ask.title, end=end, tags=ask.tags, description=told(ask))
            market = world.add_market(ask.title, event=event, description=told(ask))
            world.move(market, _cents(price), size=_SIZE)
            return {"": market}
        event = world.add_event(ask.title, neg_risk=True, end=end, tags=ask.tags, description=told(ask))
        markets = {
            option: world.add_market(
                f"{headed(option)}: {ask.title}", event=event, item=headed(option), description=told(ask)
            )
            for option in price
        }
        for option, market in markets.items():
            world.move(market, _cents(price[option]), size=_SIZE)
        return markets


def _pays(outcome: Outcome, option: str) -> str:
    """Return what the first outcome of a market pays."""
    return "1" if (outcome == option if isinstance(outcome, str) else bool(outcome)) else "0"


def _cents(price: float) -> Decimal:
    return Decimal(str(round(held(price, 0.03), 2))).quantize(_CENT)
