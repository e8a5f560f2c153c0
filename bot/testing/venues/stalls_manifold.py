"""The simulated world on the fake Manifold: binary markets, linked answers, and prices that stand for numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.testing.venues.manifold_math import Numeric
from bot.testing.venues.manifold_trading import Refusal
from bot.testing.venues.stalls import held, told
from bot.testing.world.ask import Form
from bot.testing.world.life import Act

if TYPE_CHECKING:
    from bot.testing.venues.manifold import FakeManifold
    from bot.testing.venues.manifold_state import Market
    from bot.testing.world.ask import Ask
    from bot.testing.world.life import Happening, Outcome
    from bot.testing.world.world import World

# The crowd does not trade for less than this.
LEAST_MOVE = 0.01
LIQUIDITY = 250.0
# Every other list of answers is as long as the real ones are: the rest of it are names that nobody expects to win.
LONGEST_LIST = 30
LONG_SHOT = 0.001
_GRID = 60


@dataclass(frozen=True, kw_only=True)
class ManifoldStall:
    """Implements Stall; ``markets`` are by the keys of their questions."""

    world: World
    venue: FakeManifold
    markets: dict[str, Market] = field(default_factory=dict, init=False)

    def happen(self, one: Happening) -> None:
        if one.act is Act.OPEN:
            self.markets[one.ask.key] = self._opened(one.ask)
            return
        market = self.markets.get(one.ask.key)
        if market is None:
            return
        match one.act:
            case Act.EDIT:
                self.venue.world.edit(market, description=f"{market.description}\n\n{one.text}")
            case Act.CLOSE if market.is_open(self.venue.now_ms()):
                self.venue.world.close(market)
            case Act.RESOLVE if not market.resolved and one.outcome is not None:
                self._resolve(market, one.ask, one.outcome)
            case Act.ANNUL if not market.resolved:
                self.venue.world.resolve(market, "CANCEL")
            case Act.UNDO if market.resolved:
                self.venue.world.unresolve(market)
            case _:
                return

    def trade(self, ask: Ask, day: float) -> None:
        market = self.markets.get(ask.key)
        if market is None or not market.is_open(self.venue.now_ms()):
            return
        price = self._price(ask, day)
        try:
            if isinstance(price, Mapping):
                self._trade_answers(market, price)
            elif abs(market.pool.prob - price) > LEAST_MOVE:
                self.venue.world.move(market, price)
        except Refusal:
            # The pool is too small for so large a step; the crowd comes back.
            return

    def _opened(self, ask: Ask) -> Market:
        price = self._price(ask, ask.opens)
        terms: dict[str, Any] = {
            "closes": round(self.world.calendar.at(ask.closes).timestamp() * 1000),
            "description": told(ask),
            "groups": ask.tags,
            "liquidity": LIQUIDITY,
        }
        if isinstance(price, Mapping):
            long = sum(1 for market in self.markets.values() if market.answers) % 2 == 0
            answers = with_long_shots(price) if long else price
            terms |= {"type": "MULTIPLE_CHOICE", "answers": [*answers.items()], "sums_to_one": True}
        elif ask.scale is not None:
            scale = Numeric(low=ask.scale.low, high=ask.scale.high, is_log=False)
            terms |= {"type": "PSEUDO_NUMERIC", "scale": scale, "prob": price}
        else:
            terms |= {"prob": price}
        return self.venue.world.add_market(ask.title, **terms)

    def _price(self, ask: Ask, day: float) -> float | Mapping[str, float]:
        if ask.form is Form.NUMBER:
            return held(self._mean(ask, day))
        price = self.world.price(ask, day)
        if not isinstance(price, Mapping):
            return held(price)
        # Answers of a linked market sum to one, and none is at an end.
        raised = {name: max(share, 0.02) for name, share in price.items()}
        return {name: share / sum(raised.values()) for name, share in raised.items()}

    def _mean(self, ask: Ask, day: float) -> float:
        """Return where the crowd's mean lies between the ends of the scale, as a share."""
        import numpy as np  # noqa: PLC0415 - a double that has no world does without

        assert ask.scale is not None  # noqa: S101 - numbers have a scale
        below = self.world.guess(ask, day, np.linspace(ask.scale.low, ask.scale.high, _GRID))
        return float(1.0 - below.mean())

    def _trade_answers(self, market: Market, prices: Mapping[str, float]) -> None:
        """Move the answers one by one, the farthest first: each trade moves the others too."""
        for _ in market.answers:
            gaps = {a.id: prices[a.text] - a.pool.prob for a in market.answers if a.text in prices}
            farthest = max(gaps, key=lambda answer: abs(gaps[answer]))
            if abs(gaps[farthest]) <= LEAST_MOVE:
                return
            answer = market.answer(farthest)
            assert answer is not None  # noqa: S101 - it is one of this market
            self.venue.world.move(market, prices[answer.text], answer=answer)

    def _resolve(self, market: Market, ask: Ask, outcome: Outcome) -> None:
        world = self.venue.world
        if isinstance(outcome, str):
            (winner,) = (answer.id for answer in market.answers if answer.text == outcome)
            world.resolve(market, winner)
        elif isinstance(outcome, bool):
            world.resolve(market, "YES" if outcome else "NO")
        elif ask.scale is not None:
            share = (outcome - ask.scale.low) / (ask.scale.high - ask.scale.low)
            world.resolve(market, "MKT", prob=min(1.0, max(0.0, share)))


def with_long_shots(prices: Mapping[str, float]) -> dict[str, float]:
    """Return a list of answers made long by names at a tenth of a percent each, in all still 1."""
    names = [f"Number {number} on the list" for number in range(len(prices) + 1, LONGEST_LIST + 1)]
    kept = 1.0 - LONG_SHOT * len(names)
    return {name: price * kept for name, price in prices.items()} | dict.fromkeys(names, LONG_SHOT)
