"""What happens at the venues during a simulation.

People trade, questions open, are edited, close, resolve, and resolve again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.forecastbench_bridge import ForecastBenchBridge
from bot.simulator.venues.manifold_bridge import with_long_shots
from bot.simulator.venues.metaculus_world import question_scaling
from bot.simulator.world.question_generation import BENCHMARK
from tests.simulation.full_system.plan import DAY_S, HOUR_S, draw_days_open
from tests.simulation.full_system.polymarket_events import PolymarketEvents

if TYPE_CHECKING:
    import numpy as np

    from bot.core.interfaces import Clock
    from bot.simulator.fake_service import FakeService
    from bot.simulator.venues.manifold_state import FakeManifoldMarket
    from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion
    from bot.simulator.venues.world_bridge import VenueBridge
    from bot.simulator.venues.world_bridge import WorldRunner as Worlds
    from tests.simulation.full_system.fake_venues import SimulationVenues
    from tests.simulation.full_system.plan import SimulationTraits

# Questions on the first day, and the most that are open at once, at each venue: a simulated year is as fast at its end
# as at its beginning.
FIRST, MOST_OPEN = 6, 8
# Next to a world with questions of its own.
FIRST_BESIDE, MOST_BESIDE = 2, 3
# What a shallow market maker begins with; others have 100 shares of each side at a price of one half.
SHALLOW_POOL = (8.0, 30.0)
# Between two loans or deposits.
GIFTS_S = 6.0 * HOUR_S
# Between two looks at what the simulated world did.
TURN_S = 6.0 * HOUR_S
FORECASTS, BETS = "/api/questions/forecast/", "/v0/bet"
# How often, at each such look, one outcome of the benchmark is withdrawn, or the one that was is there again.
WITHHELD = 1 / 3
TREES = ("Ash", "Elm", "Oak")
ENDS = ("YES", "NO", "NO", "CANCEL")
# One of these is a share at times.
SHARE_PLACE, SHARE = 2, 0.25
# One market in so many is a list of answers, of which these and the red one have a chance.
A_LIST = 4
# And of the bridges of Metaculus one in so many opens later, one in so many is scored at one moment, before its close,
# and one in so many is a group of two questions.
OPENS_LATER, AT_ONE_MOMENT, A_GROUP, SIDES = 5, 3, 6, ("on its north side", "on its south side")
LAMPS = ("the blue one", "the green one", "the white one")
# Which ends of the range of a number are open, one question after the other.
OPEN_ENDS = ((False, True), (True, True), (True, False), (True, True), (False, False))
# The topics of markets, one after the other; some have none.
TOPICS: Sequence[tuple[str, ...]] = (("lamps", "streets"), ("lamps",), ())
# Answers are lost in bursts, more than may be in doubt at a time: with the first writes of one seed in three, and then
# every so often.
BURST_AT_FIRST, BURST_EVERY_S, BURST = 1 / 3, 8.0 * HOUR_S, (4, 7)
# How long Metaculus is not too busy.
BUSY_EVERY_S = 4.0 * HOUR_S
# How often a market has an outcome so long before its close.
EARLY_EVERY_S, EARLY_BY = 6.0 * HOUR_S, timedelta(hours=3)
# How often a close is moved, of a market that is open for so long at least, and by how much.
MOVED_EVERY_S, MOVED_BEFORE, MOVED_BY_S = 6.0 * HOUR_S, timedelta(hours=1), (2.0 * HOUR_S, 12.0 * HOUR_S)
# How long there is no outage, and how long one lasts.
OUTAGE_EVERY_S, OUTAGE_S = 10.0 * HOUR_S, (0.4 * HOUR_S, 2.5 * HOUR_S)
# Between those, one answer to a write is ambiguous so often: it took effect, and the answer does not say so.
AMBIGUOUS_EVERY_S = 2.5 * HOUR_S
# A server in front of the venue says that it is not there, which is no answer of the venue.
UNAVAILABLE = FaultDetails(fault=RequestFault.PAGE_AFTER, page_status=503)
AMBIGUOUS = (
    RequestFault.ERROR_AFTER,
    UNAVAILABLE,
    RequestFault.DROPPED_AFTER,
    UNAVAILABLE,
    RequestFault.HANGING_AFTER,
)


@dataclass(slots=True, kw_only=True)
class VenueEvents:
    """The events at the venues, drawn from one stream; ``undone`` is what had an outcome that was taken back, and when.

    Those at the exchange whose orders are signed are in ``pit``, where Foxcast has an account.
    """

    bridges: SimulationVenues
    traits: SimulationTraits
    clock: Clock
    stream: np.random.Generator
    bursts: np.random.Generator
    ambiguous: np.random.Generator
    money: np.random.Generator
    benchmark: np.random.Generator
    entries: np.random.Generator
    undone: dict[str, datetime] = field(default_factory=dict)
    pit: PolymarketEvents | None = None
    # What came from elsewhere and was not taken out again.
    given: float = 0.0
    # When outcomes of the benchmark were last seen to have changed.
    rounds_changed: datetime | None = None
    # Questions and dates of which the benchmark ever told an outcome.
    told_of_rounds: set[tuple[str, str]] = field(default_factory=set)
    _outcomes_of_rounds: set[tuple[str, str]] = field(default_factory=set)
    _markets: list[FakeManifoldMarket] = field(default_factory=list)
    _questions: list[FakeMetaculusQuestion] = field(default_factory=list)
    # When the outcome of what is closed will be known.
    _known: dict[str, datetime] = field(default_factory=dict)

    def begin(self) -> None:
        """Open what is there on the first day."""
        first = FIRST_BESIDE if self.traits.has_world else FIRST
        for _ in range(first):
            self._open_market()
            self._ask()
        if self.pit is not None:
            self.pit.begin(first)

    def outbid(self, venue: str, order: str, cents: float) -> None:
        """Let others move the price of a contract so far that an order such as "buy yes CONTRACT" gets a worse one."""
        side, leg, contract = order.split(" ", 2)
        move = cents / 100.0 * (1.0 if (side == "buy") is (leg == "yes") else -1.0)
        if venue == "polymarket" and self.pit is not None:
            self.pit.move_price(contract, move)
        name, _, answer = contract.partition("/")
        market = None if self.bridges.manifold is None else self.bridges.manifold.state.markets.get(name)
        if self.bridges.manifold is not None and market is not None and market in self._open():
            one = market.answer(answer) if answer else None
            price = (market.pool if one is None else one.pool).prob + move
            self.bridges.manifold.world.move_price(market, min(0.97, max(0.03, price)), answer=one)

    async def run_events(self) -> None:
        """Let things happen, for ever."""
        events: tuple[tuple[float, Callable[[], object]], ...] = (
            (0.50, self._trade),
            (0.67, self._resolve),
            (0.69, self._resolve_again),
            (0.77, self._edit),
            (0.81, self._be_slow),
            (0.91, self._open_market),
            (1.01, self._ask),
        )
        while True:
            await self.clock.sleep(float(self.stream.exponential(HOUR_S / 2.0)))
            draw = self.stream.random()
            next(act for share, act in events if draw < share)()

    async def run_lost_replies(self) -> None:
        """Lose answers in bursts, for ever."""
        if self.traits.roughness == 0.0:
            return
        if self.bursts.random() < BURST_AT_FIRST:
            self._burst()
        while True:
            await self.clock.sleep(float(self.bursts.exponential(BURST_EVERY_S)))
            self._burst()

    def _burst(self) -> None:
        if places := self._write_paths():
            venue, path = places[int(self.bursts.integers(len(places)))]
            count, arrives = int(self.bursts.integers(*BURST)), bool(self.bursts.random() < 3 / 4)
            # A burst that still waits for writes is enough: else there would be no other answer than a lost one.
            if venue.faults.pending < count and arrives and count % 2:
                venue.faults.schedule(UNAVAILABLE, method="POST", path=path, times=count - venue.faults.pending)
            elif venue.faults.pending < count:
                venue.faults.schedule_lost_replies(count - venue.faults.pending, path, arrives=arrives)

    def _write_paths(self) -> list[tuple[FakeService, str]]:
        places = ((self.bridges.metaculus, FORECASTS), (self.bridges.manifold, BETS))
        return [(venue, path) for venue, path in places if venue is not None]

    async def run_outages(self, stream: np.random.Generator) -> None:
        """Let one of the venues refuse all connections for some time, now and then, for ever."""
        while self.traits.has_outages:
            await self.clock.sleep(float(stream.exponential(OUTAGE_EVERY_S)))
            names = sorted(self.bridges.all)
            faults = self.bridges.all[names[int(stream.integers(len(names)))]].faults
            faults.refuses_connections = True
            await self.clock.sleep(float(stream.uniform(*OUTAGE_S)))
            faults.refuses_connections = False

    async def run_busy_times(self, stream: np.random.Generator) -> None:
        """Let Metaculus be too busy for a forecast or two, now and then, for ever."""
        venue = self.bridges.metaculus
        while self.traits.is_busy and venue is not None:
            await self.clock.sleep(float(stream.exponential(BUSY_EVERY_S)))
            if not venue.faults.pending:
                venue.faults.schedule(RequestFault.TOO_MANY, method="POST", path=FORECASTS, times=2)

    async def run_early_outcomes(self, stream: np.random.Generator) -> None:
        """Resolve one of the markets that are open for hours, now and then, for ever."""
        while self.traits.ends_early:
            await self.clock.sleep(float(stream.exponential(EARLY_EVERY_S)))
            later = round((self.clock.now() + EARLY_BY).timestamp() * 1000)
            markets = [one for one in self._open() if one.type == "BINARY" and (one.closes or 0) > later]
            if self.bridges.manifold is not None and markets:
                market = markets[int(stream.integers(len(markets)))]
                self.bridges.manifold.world.resolve(market, ENDS[int(stream.integers(2))])

    async def run_moved_closes(self, stream: np.random.Generator) -> None:
        """Let the creator of a market that is open for a while close it hours later, now and then, for ever."""
        while self.traits.moves_closes:
            await self.clock.sleep(float(stream.exponential(MOVED_EVERY_S)))
            soon = round((self.clock.now() + MOVED_BEFORE).timestamp() * 1000)
            markets = [one for one in self._open() if (one.closes or 0) > soon]
            if self.bridges.manifold is not None and markets:
                market, later_s = markets[int(stream.integers(len(markets)))], float(stream.uniform(*MOVED_BY_S))
                self.bridges.manifold.world.edit(market, closes=(market.closes or 0) + round(1_000.0 * later_s))

    async def run_ambiguous_replies(self) -> None:
        """Let the answer to one write of each venue not say that it took effect, for ever."""
        while self.traits.roughness > 0.0:
            for venue, path in self._write_paths():
                fault = AMBIGUOUS[int(self.ambiguous.integers(len(AMBIGUOUS)))]
                # One is enough: what is scheduled waits for a write.
                if not venue.faults.pending:
                    venue.faults.schedule(fault, method="POST", path=path)
            await self.clock.sleep(float(self.ambiguous.exponential(AMBIGUOUS_EVERY_S)))

    async def run_transfers(self) -> None:
        """Let the trader get loans and deposits, or lose some mana, for ever: none of it is a gain."""
        # In calm weather cash is what orders make it: a real account is compared with one on paper there.
        venue = self.bridges.manifold if self.traits.roughness > 0.0 else None
        while venue is not None:
            await self.clock.sleep(float(self.money.exponential(GIFTS_S)))
            if self.money.random() >= 1 / 2 or not self.lend():
                amount, user = float(self.money.uniform(1.0, 30.0)), venue.state.users[self.bridges.trader]
                # What had come is taken out again; where nothing had, a little goes.
                out = min(amount, self.given, max(user.balance, 0.0)) if self.given > 0.0 else amount / 10.0
                moved = amount if self.money.random() < 2 / 3 else -out
                self.given = max(0.0, self.given + moved)
                venue.world.deposit(user, moved)

    def lend(self) -> bool:
        """Lend the trader mana on something that it holds; return False where it holds nothing."""
        venue = self.bridges.manifold
        if venue is None or self.traits.roughness == 0.0:
            return False
        user = venue.state.users[self.bridges.trader]
        held = [
            (venue.state.markets[market], answer)
            for (who, market, answer), one in venue.state.holdings.items()
            if who == user.id and max(one.yes, one.no) > 1.0 and not venue.state.markets[market].resolved
        ]
        if held:
            market, answer = held[int(self.money.integers(len(held)))]
            margin, amount = bool(self.money.random() < 1 / 2), float(self.money.uniform(1.0, 30.0))
            venue.world.lend(user, market, amount, answer=answer, margin=margin)
        return bool(held)

    async def run_world(self, world: Worlds) -> None:
        """Let the simulated world run, for ever."""
        while True:
            before = self._resolved()
            world.advance()
            self.undone.update(dict.fromkeys(before - self._resolved(), self.clock.now()))
            self._withhold(world.bridges.get(BENCHMARK))
            await self.clock.sleep(TURN_S)

    def _withhold(self, rounds: VenueBridge | None) -> None:
        """Let the benchmark take one of the outcomes of its rounds out of its files at times, or show all again."""
        if not isinstance(rounds, ForecastBenchBridge):
            return
        files = sorted((rounds.folder / "resolution_sets").glob("*.json"))
        rows = [row for path in files for row in json.loads(path.read_text(encoding="utf-8"))["resolutions"]]
        known = {(row["id"], row["resolution_date"]) for row in rows if row["resolved"]}
        self.told_of_rounds |= known
        if known != self._outcomes_of_rounds:
            self._outcomes_of_rounds, self.rounds_changed = known, self.clock.now()
        if known and self.benchmark.random() < WITHHELD:
            one = sorted(known)[int(self.benchmark.integers(len(known)))]
            rounds.withhold([] if rounds.withheld else [one])

    def _resolved(self) -> set[str]:
        manifold, metaculus = self.bridges.manifold, self.bridges.metaculus
        markets = [] if manifold is None else manifold.state.markets.values()
        questions = [] if metaculus is None else metaculus.state.questions.values()
        found = {f"manifold:{one.id}" for one in markets if one.resolved}
        return found | {f"metaculus:{one.id}" for one in questions if one.resolution is not None}

    @property
    def _most(self) -> int:
        return MOST_BESIDE if self.traits.has_world else MOST_OPEN

    def _close(self) -> datetime:
        """Draw when a question closes."""
        return self.clock.now() + timedelta(days=draw_days_open(self.stream))

    def _open(self) -> list[FakeManifoldMarket]:
        now = round(self.clock.now().timestamp() * 1000)
        return [one for one in self._markets if one.is_open(now)]

    def _open_market(self) -> None:
        closes, price = self._close(), float(self.stream.uniform(0.1, 0.9))
        if self.bridges.manifold is not None and len(self._open()) < self._most:
            number, world = len(self._markets), self.bridges.manifold.world
            terms: dict[str, Any] = {"closes": round(closes.timestamp() * 1000), "groups": TOPICS[number % len(TOPICS)]}
            if self.traits.is_shallow:
                terms["liquidity"] = float(self.stream.uniform(*SHALLOW_POOL))
            if number % A_LIST == 1:
                title = f"Which lamp of row {number} is lit first?"
                lamps = {"the red one": price, **dict.fromkeys(LAMPS, (1.0 - price) / len(LAMPS))}
                answers = with_long_shots(lamps, self.traits.answers)
                terms |= {"type": "MULTIPLE_CHOICE", "sums_to_one": True, "answers": [*answers.items()]}
            else:
                title, terms = f"Will lamp {number} be lit in time?", {**terms, "prob": price}
            self._markets.append(world.add_market(title, **terms))

    def _ask(self) -> None:
        closes, kind, number = self._close(), int(self.stream.integers(4)), len(self._questions)
        now, terms = self.clock.now(), {"scheduled_close": closes, "scheduled_resolve": closes + timedelta(days=1)}
        if self.bridges.metaculus is None or len([one for one in self._questions if one.close > now]) >= self._most:
            return
        ask = self.bridges.metaculus.world.add_question
        match kind:
            case 0:
                open_lower, open_upper = OPEN_ENDS[number % len(OPEN_ENDS)]
                scale = question_scaling(0.0, 100.0, open_lower=open_lower, open_upper=open_upper)
                title = f"How many boats come to harbour {number}?"
                self._questions.append(ask(title, type="numeric", scaling=scale, **terms))
            case 1:
                title = f"Who wins cup {number}?"
                self._questions.append(ask(title, type="multiple_choice", options=[*TREES], **terms))
            case _ if number % A_GROUP == 1:
                group = self.bridges.metaculus.world.add_group(f"Will lock {number} open?", SIDES, **terms)
                self._questions += group.questions
            case _:
                # Some are published before they are open, and take forecasts all the same.
                opens = now + (closes - now) / 3.0 if number % OPENS_LATER == 0 else now
                spot: dict[str, Any] = {}
                if number % AT_ONE_MOMENT == 0:
                    spot = {"spot": now + (closes - now) / 2.0, "score_type": "spot_peer"}
                self._questions.append(ask(f"Will bridge {number} open?", open=opens, **terms, **spot))

    def _trade(self) -> None:
        if self.bridges.manifold is not None and (markets := self._open()):
            market = markets[int(self.stream.integers(len(markets)))]
            answer = market.answers[int(self.stream.integers(1 + len(LAMPS)))] if market.answers else None
            price = market.pool.prob if answer is None else answer.pool.prob
            odds = math.log(price / (1.0 - price)) + float(self.stream.normal(0.0, 0.4))
            price = min(0.97, max(0.03, 1.0 / (1.0 + math.exp(-odds))))
            self.bridges.manifold.world.move_price(market, price, answer=answer)

    def _be_slow(self) -> None:
        """Let the next order have no answer, and take effect when it is nearly too old for it."""
        if self.bridges.manifold is not None and self.traits.roughness > 0.0:
            wait_s = float(self.stream.uniform(0.1, 0.95)) * self.traits.lifetime_s
            late = FaultDetails(fault=RequestFault.LATE, wait_s=wait_s)
            self.bridges.manifold.faults.schedule(late, method="POST", path="/v0/bet")

    def _edit(self) -> None:
        now = self.clock.now()
        if self.bridges.manifold is not None and (markets := self._open()):
            market = markets[int(self.stream.integers(len(markets)))]
            self.bridges.manifold.world.edit(market, description=f"As of {now:%Y-%m-%d}, by clock only.")
        asked = [one for one in self._questions if one.resolution is None and one.close > now]
        if self.bridges.metaculus is not None and asked:
            question = asked[int(self.stream.integers(len(asked)))]
            if question.options == [*TREES]:
                # Much of what is asked resolves before this grace period is over.
                self.bridges.metaculus.world.change_options(question, [*TREES[:-1], "rowan", TREES[-1]], grace_s=DAY_S)
                return
            self.bridges.metaculus.world.edit(question, fine_print=f"As of {now:%Y-%m-%d}, by the clock of the tower.")

    def _resolve(self) -> None:
        """Let one of each that is closed, and whose outcome is known, find its end."""
        now = self.clock.now()
        if self.bridges.manifold is not None:
            over = [one for one in self._markets if not one.resolved and one.closes is not None]
            over = [one for one in over if self._is_known(one.id, (one.closes or 0) / 1000.0, now)]
            if over:
                place = int(self.stream.integers(len(ENDS)))
                end = ENDS[place] if not over[0].answers or ENDS[place] == "CANCEL" else over[0].answers[place].id
                # Some creators say how likely it is, which is what shares pay, and let two answers win.
                is_share = place == SHARE_PLACE and bool(over[0].answers or over[0].created % 2)
                if is_share and over[0].answers:
                    weights = {over[0].answers[0].id: 1.0 - SHARE, over[0].answers[1].id: SHARE}
                    self.bridges.manifold.world.resolve(over[0], "CHOOSE_MULTIPLE", weights=weights)
                elif is_share:
                    self.bridges.manifold.world.resolve(over[0], "MKT", prob=SHARE)
                else:
                    self.bridges.manifold.world.resolve(over[0], end)
        if self.bridges.metaculus is not None:
            asked = [one for one in self._questions if one.resolution is None]
            due = [one for one in asked if self._is_known(str(one.id), one.close.timestamp(), now)]
            if due:
                known = {"binary": ("yes", "no", "annulled"), "multiple_choice": TREES}
                outcomes = known.get(due[0].type) or _landings(due[0])
                end, part = outcomes[int(self.stream.integers(len(outcomes)))], float(self.entries.uniform(0.0, 2.0))
                # Many outcomes are entered later than they were true, which was after the close.
                true_at = max(due[0].close, now - part * (now - due[0].close)) if now > due[0].close else None
                self.bridges.metaculus.world.resolve(due[0], end, known=true_at)

    def _is_known(self, name: str, closed_s: float, now: datetime) -> bool:
        """Say whether the outcome is known: up to six hours before the close, or up to a day and a half after it."""
        if name not in self._known:
            wait_s = float(self.stream.uniform(-0.25, 1.5)) * DAY_S
            self._known[name] = now + timedelta(seconds=closed_s + wait_s - now.timestamp())
        return self._known[name] <= now

    def _resolve_again(self) -> None:
        """Undo an outcome of each; the next one may be another."""
        if self.bridges.manifold is not None and (ended := [one for one in self._markets if one.resolved]):
            market = ended[int(self.stream.integers(len(ended)))]
            self.bridges.manifold.world.unresolve(market)
            self.undone[f"manifold:{market.id}"] = self.clock.now()
        if self.bridges.metaculus is not None and (known := [one for one in self._questions if one.resolution]):
            question = known[int(self.stream.integers(len(known)))]
            self.bridges.metaculus.world.unresolve(question)
            self.undone[f"metaculus:{question.id}"] = self.clock.now()


def _landings(question: FakeMetaculusQuestion) -> tuple[str, ...]:
    """Return where the number that is asked for may land: within its range, or beyond an open end."""
    scale = question.scaling
    beyond = [(scale is not None and scale.open_upper, "above_upper_bound")]
    beyond += [(scale is not None and scale.open_lower, "below_lower_bound")]
    return ("17.5", *(name for is_open, name in beyond if is_open))
