"""The simulated world on the fake Manifold: binary markets, linked answers, and numeric markets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.manifold_market_maker import NumericPriceScale
from bot.simulator.venues.manifold_trading import ManifoldRefusal
from bot.simulator.venues.world_bridge import bound_price, question_text
from bot.simulator.world.questions import AnswerKind, LifecycleAction

if TYPE_CHECKING:
    from bot.simulator.venues.manifold import FakeManifold
    from bot.simulator.venues.manifold_state import FakeManifoldMarket
    from bot.simulator.world.questions import LifecycleEvent, SimulatedOutcome, SimulatedQuestion
    from bot.simulator.world.simulated_world import SimulatedWorld

# The crowd does not trade for less than this.
LEAST_MOVE = 0.01
LIQUIDITY = 250.0
# Every other list of answers is as long as real ones are: the rest are names that nobody expects to win.
LONGEST_LIST = 30
LONG_SHOT = 0.001
_GRID = 60


@dataclass(frozen=True, kw_only=True)
class ManifoldBridge:
    """Implements VenueBridge; ``markets`` are by the keys of their questions."""

    world: SimulatedWorld
    venue: FakeManifold
    markets: dict[str, FakeManifoldMarket] = field(default_factory=dict, init=False)

    def apply_event(self, one: LifecycleEvent) -> None:
        if one.action is LifecycleAction.OPEN:
            self.markets[one.question.key] = self._open_market(one.question)
            return
        market = self.markets.get(one.question.key)
        if market is None:
            return
        match one.action:
            case LifecycleAction.EDIT:
                self.venue.world.edit(market, description=f"{market.description}\n\n{one.text}")
            case LifecycleAction.CLOSE if market.is_open(self.venue.now_ms()):
                self.venue.world.close(market)
            case LifecycleAction.RESOLVE if not market.resolved and one.outcome is not None:
                self._resolve_market(market, one.question, one.outcome)
            case LifecycleAction.ANNUL if not market.resolved:
                self.venue.world.resolve(market, "CANCEL")
            case LifecycleAction.UNDO if market.resolved:
                self.venue.world.unresolve(market)
            case _:
                return

    def move_price(self, simulated: SimulatedQuestion, day: float) -> None:
        market = self.markets.get(simulated.key)
        if market is None or not market.is_open(self.venue.now_ms()):
            return
        price = self._price(simulated, day)
        try:
            if isinstance(price, Mapping):
                self._trade_answers(market, price)
            elif abs(market.pool.prob - price) > LEAST_MOVE:
                self.venue.world.move_price(market, price)
        except ManifoldRefusal:
            # The pool is too small for such a large step; the crowd will try again.
            return

    def _open_market(self, simulated: SimulatedQuestion) -> FakeManifoldMarket:
        price = self._price(simulated, simulated.opens)
        terms: dict[str, Any] = {
            "closes": round(self.world.calendar.moment_of(simulated.closes).timestamp() * 1000),
            "description": question_text(simulated),
            "groups": simulated.tags,
            "liquidity": LIQUIDITY,
        }
        if isinstance(price, Mapping):
            long = sum(1 for market in self.markets.values() if market.answers) % 2 == 0
            answers = with_long_shots(price) if long else price
            terms |= {"type": "MULTIPLE_CHOICE", "answers": [*answers.items()], "sums_to_one": True}
        elif simulated.scale is not None:
            scale = NumericPriceScale(low=simulated.scale.low, high=simulated.scale.high, is_log=False)
            terms |= {"type": "PSEUDO_NUMERIC", "scale": scale, "prob": price}
        else:
            terms |= {"prob": price}
        return self.venue.world.add_market(simulated.title, **terms)

    def _price(self, simulated: SimulatedQuestion, day: float) -> float | Mapping[str, float]:
        if simulated.answer_kind is AnswerKind.NUMBER:
            return bound_price(self._crowd_mean(simulated, day))
        price = self.world.crowd_price(simulated, day)
        if not isinstance(price, Mapping):
            return bound_price(price)
        # Answers of a linked market sum to one, and none is at an end.
        raised = {name: max(share, 0.02) for name, share in price.items()}
        return {name: share / sum(raised.values()) for name, share in raised.items()}

    def _crowd_mean(self, simulated: SimulatedQuestion, day: float) -> float:
        """Return the crowd's mean as a share of the scale."""
        import numpy as np  # noqa: PLC0415 - a double that has no world does without

        assert simulated.scale is not None  # noqa: S101 - numbers have a scale
        below = self.world.crowd_cdf(simulated, day, np.linspace(simulated.scale.low, simulated.scale.high, _GRID))
        return float(1.0 - below.mean())

    def _trade_answers(self, market: FakeManifoldMarket, prices: Mapping[str, float]) -> None:
        """Move the answers one by one, the farthest first: each trade moves the others too."""
        for _ in market.answers:
            gaps = {a.id: prices[a.text] - a.pool.prob for a in market.answers if a.text in prices}
            farthest = max(gaps, key=lambda answer: abs(gaps[answer]))
            if abs(gaps[farthest]) <= LEAST_MOVE:
                return
            answer = market.answer(farthest)
            assert answer is not None  # noqa: S101 - it is one of this market
            self.venue.world.move_price(market, prices[answer.text], answer=answer)

    def _resolve_market(
        self, market: FakeManifoldMarket, simulated: SimulatedQuestion, outcome: SimulatedOutcome
    ) -> None:
        world = self.venue.world
        if isinstance(outcome, str):
            (winner,) = (answer.id for answer in market.answers if answer.text == outcome)
            world.resolve(market, winner)
        elif isinstance(outcome, bool):
            world.resolve(market, "YES" if outcome else "NO")
        elif simulated.scale is not None:
            share = (outcome - simulated.scale.low) / (simulated.scale.high - simulated.scale.low)
            world.resolve(market, "MKT", prob=min(1.0, max(0.0, share)))


def with_long_shots(prices: Mapping[str, float], length: int = LONGEST_LIST) -> dict[str, float]:
    """Return a list of answers lengthened by names at a tenth of a percent each; the sum is still 1."""
    names = [f"Number {number} on the list" for number in range(len(prices) + 1, length + 1)]
    kept = 1.0 - LONG_SHOT * len(names)
    return {name: price * kept for name, price in prices.items()} | dict.fromkeys(names, LONG_SHOT)
