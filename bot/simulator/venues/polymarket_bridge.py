"""The simulated world on the fake Polymarket: markets with order books, and events where exactly one market wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.world_bridge import bound_price, question_text
from bot.simulator.world.questions import LifecycleAction, QuestionEnding, outcome_of
from bot.simulator.world.text_generation import capitalize_first

if TYPE_CHECKING:
    from bot.simulator.venues.polymarket import FakePolymarket
    from bot.simulator.venues.polymarket_state import FakePolymarketMarket
    from bot.simulator.world.questions import LifecycleEvent, SimulatedOutcome, SimulatedQuestion
    from bot.simulator.world.simulated_world import SimulatedWorld

_CENT = Decimal("0.01")
_SIZE = "250"


@dataclass(frozen=True, kw_only=True)
class PolymarketBridge:
    """Implements VenueBridge; ``markets`` are by the keys of their questions, and by option, "" where there is one.

    When an event is over somebody proposes its outcome, which ends the books. An outcome that is undone is a wrong
    proposal that is disputed: outcomes on a chain are final.
    """

    world: SimulatedWorld
    venue: FakePolymarket
    markets: dict[str, Mapping[str, FakePolymarketMarket]] = field(default_factory=dict, init=False)

    def apply_event(self, one: LifecycleEvent) -> None:
        if one.action is LifecycleAction.OPEN:
            self.markets[one.question.key] = self._open_markets(one.question)
            return
        for option, market in self.markets.get(one.question.key, {}).items():
            if not market.has_ended:
                self._apply_event(one, option, market)

    def _apply_event(self, one: LifecycleEvent, option: str, market: FakePolymarketMarket) -> None:
        world = self.venue.world
        match one.action:
            case LifecycleAction.EDIT:
                world.edit(market, description=f"{market.description}\n\n{one.text}")
            case LifecycleAction.CLOSE if market.uma is None:
                world.propose(market, self._proposed_outcome(one.question, option))
            case LifecycleAction.RESOLVE if one.question.ending is QuestionEnding.REVISED and one.outcome != outcome_of(
                one.question
            ):
                # It was proposed, and somebody is about to object.
                return
            case LifecycleAction.RESOLVE if one.outcome is not None:
                if market.was_disputed and market.uma == "disputed":
                    world.propose(market, _first_payout(one.outcome, option))
                world.resolve(market, _first_payout(one.outcome, option))
            case LifecycleAction.ANNUL:
                world.resolve(market, "0.5")
            case LifecycleAction.UNDO:
                world.dispute(market)
            case _:
                return

    def _proposed_outcome(self, simulated: SimulatedQuestion, option: str) -> str:
        if simulated.ending is QuestionEnding.ANNULLED:
            return "0.5"
        pays = _first_payout(outcome_of(simulated), option)
        if simulated.ending is not QuestionEnding.REVISED:
            return pays
        return "0" if pays == "1" else "1"

    def move_price(self, simulated: SimulatedQuestion, day: float) -> None:
        price = self.world.crowd_price(simulated, day)
        for option, market in self.markets.get(simulated.key, {}).items():
            wanted = _round_to_cents(price[option] if isinstance(price, Mapping) else price)
            last = market.history[-1][1] if market.history else None
            if market.trades_now and wanted != last:
                self.venue.world.move_price(market, wanted, size=_SIZE)

    def _open_markets(self, simulated: SimulatedQuestion) -> Mapping[str, FakePolymarketMarket]:
        world, price = self.venue.world, self.world.crowd_price(simulated, simulated.opens)
        end = round(self.world.calendar.moment_of(simulated.closes).timestamp())
        if not isinstance(price, Mapping):
            event = world.add_event(simulated.title, end=end, tags=simulated.tags, description=question_text(simulated))
            market = world.add_market(simulated.title, event=event, description=question_text(simulated))
            world.move_price(market, _round_to_cents(price), size=_SIZE)
            return {"": market}
        event = world.add_event(
            simulated.title, neg_risk=True, end=end, tags=simulated.tags, description=question_text(simulated)
        )
        markets = {
            option: world.add_market(
                f"{capitalize_first(option)}: {simulated.title}",
                event=event,
                item=capitalize_first(option),
                description=question_text(simulated),
            )
            for option in price
        }
        for option, market in markets.items():
            world.move_price(market, _round_to_cents(price[option]), size=_SIZE)
        return markets


def _first_payout(outcome: SimulatedOutcome, option: str) -> str:
    """Return the payout of the first outcome of a market."""
    return "1" if (outcome == option if isinstance(outcome, str) else bool(outcome)) else "0"


def _round_to_cents(price: float) -> Decimal:
    return Decimal(str(round(bound_price(price, 0.03), 2))).quantize(_CENT)
