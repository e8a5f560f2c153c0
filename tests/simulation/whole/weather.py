"""What happens at the venues: people trade, questions open, are edited, close, resolve, and resolve again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.testing.venues.metaculus_world import grid
from tests.simulation.whole.plan import HOUR_S

if TYPE_CHECKING:
    import numpy as np

    from bot.ports import Clock
    from bot.testing.venues.manifold_state import Market
    from tests.simulation.whole.stalls import Stalls

MARKETS, QUESTIONS = 12, 8
TREES = ("Ash", "Elm", "Oak")
# Most questions that are open at once, so that a simulated year is as fast at its end as at its beginning.
MOST_OPEN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What goes on at the venues, drawn from one stream; ``undone`` is what had an outcome that was taken back."""

    stalls: Stalls
    clock: Clock
    stream: np.random.Generator
    undone: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Open what is there on the first day."""
        for _ in range(MARKETS):
            self._open_market()
        for _ in range(QUESTIONS):
            self._ask()

    async def blow(self) -> None:
        """Let things happen, for ever."""
        events: tuple[tuple[float, Callable[[], object]], ...] = (
            (0.66, self._trade),
            (0.82, self._resolve),
            (0.84, self._resolve_again),
            (0.88, self._edit),
            (0.94, self._open_market),
            (1.01, self._ask),
        )
        while True:
            await self.clock.sleep(float(self.stream.exponential(HOUR_S / 2.0)))
            draw = self.stream.random()
            next(act for share, act in events if draw < share)()

    def _days(self, low: float, high: float) -> timedelta:
        return timedelta(days=float(self.stream.uniform(low, high)))

    def _open(self) -> list[Market]:
        now = round(self.clock.now().timestamp() * 1000)
        return [one for one in self.stalls.manifold.state.markets.values() if one.is_open(now)]

    def _open_market(self) -> None:
        number = len(self.stalls.manifold.state.markets)
        closes = round((self.clock.now() + self._days(0.5, 20.0)).timestamp() * 1000)
        price = float(self.stream.uniform(0.1, 0.9))
        if len(self._open()) < MOST_OPEN:
            self.stalls.manifold.world.add_market(f"Will lamp {number} be lit in time?", prob=price, closes=closes)

    def _ask(self) -> None:
        world, now = self.stalls.metaculus.world, self.clock.now()
        number, closes = len(world.state.questions), now + self._days(0.5, 20.0)
        terms = {"scheduled_close": closes, "scheduled_resolve": closes + timedelta(days=1)}
        kind = int(self.stream.integers(4))
        if len([one for one in world.state.questions.values() if one.close > now]) >= MOST_OPEN:
            return
        match kind:
            case 0:
                scale = grid(0.0, 100.0, open_upper=True)
                world.add_question(f"How many boats come to harbour {number}?", type="numeric", scaling=scale, **terms)
            case 1:
                world.add_question(f"Who wins cup {number}?", type="multiple_choice", options=[*TREES], **terms)
            case _:
                world.add_question(f"Will bridge {number} open?", **terms)

    def _trade(self) -> None:
        if markets := self._open():
            market = markets[int(self.stream.integers(len(markets)))]
            odds = math.log(market.pool.prob / (1.0 - market.pool.prob)) + float(self.stream.normal(0.0, 0.4))
            self.stalls.manifold.world.move(market, min(0.97, max(0.03, 1.0 / (1.0 + math.exp(-odds)))))

    def _edit(self) -> None:
        if markets := self._open():
            market = markets[int(self.stream.integers(len(markets)))]
            self.stalls.manifold.world.edit(market, description=f"As of {self.clock.now():%Y-%m-%d}, by clock only.")
        now, world = self.clock.now(), self.stalls.metaculus.world
        if asked := [one for one in world.state.questions.values() if one.resolution is None and one.close > now]:
            question = asked[int(self.stream.integers(len(asked)))]
            world.edit(question, fine_print=f"As of {now:%Y-%m-%d}, by the clock of the tower.")

    def _resolve(self) -> None:
        """Let one of each that is closed, for hours or nearly, find its end."""
        soon = self.clock.now() + timedelta(hours=float(self.stream.uniform(-12.0, 6.0)))
        manifold, metaculus = self.stalls.manifold, self.stalls.metaculus
        over = [one for one in manifold.state.markets.values() if not one.resolved]
        over = [one for one in over if one.closes is not None and one.closes < soon.timestamp() * 1000]
        if over:
            ends = ("YES", "NO", "NO", "CANCEL")
            manifold.world.resolve(over[0], ends[int(self.stream.integers(len(ends)))])
        asked = metaculus.world.state.questions.values()
        if due := [one for one in asked if one.resolution is None and one.close < soon]:
            known = {"binary": ("yes", "no", "annulled"), "multiple_choice": TREES}
            outcomes = known.get(due[0].type, ("17.5", "above_upper_bound"))
            metaculus.world.resolve(due[0], outcomes[int(self.stream.integers(len(outcomes)))])

    def _resolve_again(self) -> None:
        """Undo an outcome of each; the next one may be another."""
        manifold, metaculus = self.stalls.manifold, self.stalls.metaculus
        if ended := [one for one in manifold.state.markets.values() if one.resolved]:
            market = ended[int(self.stream.integers(len(ended)))]
            manifold.world.unresolve(market)
            self.undone.add(f"manifold:{market.id}")
        if known := [one for one in metaculus.world.state.questions.values() if one.resolution is not None]:
            question = known[int(self.stream.integers(len(known)))]
            metaculus.world.unresolve(question)
            self.undone.add(f"metaculus:{question.id}")
