"""A small world that is a script, so that the same world can be played in another form: see ``metamorphic``.

The real daemon lives in it for a day, over the fake venues without faults. Prices and beliefs change at hours of the
script; nothing else happens.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bot.core.clock import SeededRandom
from bot.simulator.environment import BALANCE, to_toml
from bot.simulator.network import NetworkEventLoop
from bot.store.ledger import LEDGER_FILE
from bot.testing.event_loop import VirtualClock, run_in_virtual_time, simulated_scheduler_time
from tests.ledger_checks import read_rows
from tests.simulation.full_system.daemon_lives import DaemonLives
from tests.simulation.full_system.fake_venues import SimulationVenues, open_venues
from tests.simulation.full_system.operators import SimulatedOperators
from tests.simulation.full_system.plan import END_OF_TIME, HOUR_S, LifeEnding, SimulationTraits
from tests.simulation.full_system.simulation import repeat_scrypt
from tests.simulation.full_system.world_record import PAID_CALLS, WorldRecord

if TYPE_CHECKING:
    from bot.simulator.venues.manifold_state import FakeManifoldMarket
    from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion
    from bot.simulator.venues.polymarket_state import FakePolymarketMarket

START = datetime(2026, 3, 1, tzinfo=UTC)
FORECASTER_FILE = Path(__file__).with_name("script_forecaster.py")
MODES: Mapping[str, str] = {"manifold": "live", "metaculus": "live", "polymarket": "paper"}
# The price of YES, or of each option.
Prices = float | Mapping[str, float]
# Hours from one change of prices and beliefs to the next, and how far they go.
EVERY_H, MOVE, EDGE = 6.0, 0.08, (0.1, 0.25)
HOURS, CHANGES = 20.0, 4
CAPS: Mapping[str, float] = {"per_order": 25.0, "per_day": 150.0}
JOBS = ("requests", "discover", "forecast", "submit", "reconcile", "resolve", "score", "backup")
_RESULTS = """
select i.ref, i.venue, i.action, i.predictions, i.order_body, total(f.shares) as shares, total(f.cash) as cash
from intent i left join fill f on f.intent = i.id
where i.state = 'acked' group by i.id order by i.seq
"""
_SCORES = """
select f.ref, f.revision, s.rule, s.value from score s join forecast f on f.id = s.forecast
where s.rule not like 'crowd%' order by 1, 2, 3
"""
_WORTH = "select venue, equity from account_reading where id in (select max(id) from account_reading group by venue)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedQuestion:
    """A question: from which hour on it costs what, and what is believed; ``outcome`` comes true after ``ends_h``."""

    venue: str
    title: str
    prices: Sequence[tuple[float, Prices]]
    beliefs: Sequence[tuple[float, Prices]]
    outcome: str
    ends_h: float

    @property
    def options(self) -> tuple[str, ...]:
        """Its options in order; none where it is yes or no."""
        first = self.prices[0][1]
        return () if isinstance(first, float) else tuple(first)

    @property
    def winner(self) -> str:
        """The option that comes true, "" where it is yes or no."""
        return "" if not self.options else "red" if self.outcome == "YES" else "green"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldScript:
    """Questions, and how the world is set up; ``unit`` is what one of its currencies is worth here.

    Each life ends when as many forecasts were begun as ``kills`` says, counted over all lives.
    """

    questions: Sequence[ScriptedQuestion]
    start: datetime = START
    unit: float = 1.0
    venues: Sequence[str] = tuple(MODES)
    caps: Mapping[str, float] = field(default_factory=lambda: CAPS)
    kills: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """What was acknowledged, by title and in order; scores; what each account is worth in the end."""

    acts: Mapping[str, Sequence[Mapping[str, Any]]]
    scores: Mapping[str, Sequence[tuple[Any, ...]]]
    worth: Mapping[str, float]


def draw_script(seed: int) -> WorldScript:
    """Draw two yes-or-no questions and one of three options for each venue."""
    stream = SeededRandom(seed).stream("script")
    questions = []
    for venue in MODES:
        for number in range(3):
            ends_h, changes = HOURS * (0.7 if number == 0 else 9.0), []
            level = float(stream.uniform(0.3, 0.7))
            for turn in range(CHANGES):
                level = min(0.8, max(0.2, level + float(stream.normal(0.0, MOVE))))
                away = float(stream.uniform(*EDGE)) * (1.0 if stream.random() < 1 / 2 else -1.0)
                believed = min(0.95, max(0.05, level + away))
                changes.append((turn * EVERY_H - 0.5 * (turn > 0), round(level, 2), round(believed, 4)))
            is_choice, outcome = number == 2, ("YES", "NO")[int(stream.integers(2))]
            questions.append(
                ScriptedQuestion(
                    venue=venue,
                    title=f"Which lamp of row {number} is lit?" if is_choice else f"Will lamp {number} be lit?",
                    prices=[(hour, _spread(price) if is_choice else price) for hour, price, _ in changes],
                    beliefs=[(hour, _spread(belief) if is_choice else belief) for hour, _, belief in changes],
                    outcome=outcome,
                    ends_h=ends_h,
                )
            )
    return WorldScript(questions=[replace(one, title=f"{one.title[:-1]} at {one.venue}?") for one in questions])


def _spread(price: float) -> dict[str, float]:
    rest = round((1.0 - price) * 0.6, 2)
    return {"red": price, "green": rest, "blue": 1.0 - price - rest}


def play_script(script: WorldScript, root: Path) -> WorldResult:
    """Let the daemon live in that world in an empty folder, and return what came of it."""
    root.mkdir()
    shutil.copy(FORECASTER_FILE, root)
    beliefs = {one.title: one.beliefs for one in script.questions}
    text = json.dumps({"start": script.start.isoformat(), "beliefs": beliefs})
    (root / "script.json").write_text(text, encoding="utf-8")
    found: list[WorldResult] = []

    async def main(clock: VirtualClock) -> None:
        traits = SimulationTraits(
            modes={venue: MODES[venue] for venue in script.venues},
            has_world=False,
            pace=1.0,
            watched=0,
            roughness=0.0,
            frequent_fault=None,
            lifetime_s=60.0,
            order_type="FAK",
            signed_a_day=0.0,
            endings=[],
        )
        async with open_venues(clock, SeededRandom(1), traits, start=script.start, folder=root) as bridges:
            with simulated_scheduler_time(clock):
                stage = _ScriptedStage(script=script, bridges=bridges, clock=clock, root=root)
                found.append(await stage.play())

    with patch("hashlib.scrypt", repeat_scrypt):
        run_in_virtual_time(main, start=script.start, make=NetworkEventLoop)
    return found[0]


@dataclass(slots=True, kw_only=True)
class _ScriptedStage:
    """Plays one script; ``refs`` are the titles by reference."""

    script: WorldScript
    bridges: SimulationVenues
    clock: VirtualClock
    root: Path
    refs: dict[str, str] = field(default_factory=dict)

    async def play(self) -> WorldResult:
        loop, live = self.clock.loop, [venue for venue in self.script.venues if MODES[venue] == "live"]
        assert isinstance(loop, NetworkEventLoop)
        record = WorldRecord(bridges=self.bridges, now=self.clock.now, at_s=loop.time)
        lives = DaemonLives(
            clock=self.clock,
            loop=loop,
            root=self.root,
            config=to_toml(self._tables()),
            writes=lambda: len(PAID_CALLS),
            noticed=lambda: None,
            beats=lambda: None,
        )
        people = SimulatedOperators(
            lives=lives,
            clock=self.clock,
            machine=self.clock,
            stream=SeededRandom(1).stream("people"),
            live=tuple(live),
            armed_days=31.0,
            arm_amounts=dict.fromkeys(("per_order", "per_day", "total"), 1000000.0),
            record=record,
        )
        record.lives = lives
        if "manifold" in self.script.venues:
            assert self.bridges.manifold is not None
            self.bridges.manifold.state.users[self.bridges.trader].balance *= self.script.unit
        events = [asyncio.ensure_future(self._follow(one, self._open(one))) for one in self.script.questions]
        people.make_good(at_once=True)
        for begun in self.script.kills:
            missing = begun - len(PAID_CALLS)
            await lives.live(until_s=HOURS * HOUR_S, life_ending=LifeEnding(manner="kill", writes=missing, turns=40))
        await lives.live(until_s=HOURS * HOUR_S, life_ending=END_OF_TIME)
        for event in events:
            event.cancel()
            with suppress(asyncio.CancelledError):
                await event
        assert not lives.faults, lives.faults
        return self._result(lives.folder / LEDGER_FILE)

    def _tables(self) -> dict[str, Any]:
        given, unit = self.bridges.environment.config, self.script.unit
        caps = {name: amount * unit for name, amount in self.script.caps.items()}
        money = {"caps": caps, "trading": {"kelly": 0.5}, "bankroll": {"min_stake": unit}}
        venues: dict[str, Any] = {}
        for venue in self.script.venues:
            settings = dict(given["venues"][venue]["settings"])
            settings |= {"min_volume": 0.0, "min_liquidity": 0.0} if venue == "polymarket" else {}
            table = {"mode": MODES[venue], "forecasters": ["scripted"], "settings": settings}
            venues[venue] = {**table, "discover_every_s": HOUR_S, **(money if venue != "metaculus" else {})}
        if "polymarket" in venues:
            venues["polymarket"]["paper"] = {"cash": BALANCE * unit}
        return {
            "plugins": [*self.script.venues, FORECASTER_FILE.stem],
            "plugin_files": [f"../{FORECASTER_FILE.name}"],
            "mode": "live",
            "state": "HOME/state",
            "log": {"level": "error"},
            "daemon": {**{f"{job}_every_s": HOUR_S for job in JOBS}, "watch_questions": 0},
            "policy": {"stale_after_h": EVERY_H, "min_gap_h": 0.5, "price_move": 0.02},
            "forecasters": {"scripted": {"trials": 1, "settings": {"script": str(self.root / "script.json")}}},
            "venues": venues,
        }

    # The world

    def _open(self, asked: ScriptedQuestion) -> Callable[[Prices | None], object]:
        """Open a question at its venue; return how its price is set, or how it ends where the price is an outcome."""
        opened = {"manifold": self._open_market, "metaculus": self._ask, "polymarket": self._open_books}
        return opened[asked.venue](asked)

    async def _follow(self, asked: ScriptedQuestion, move: Callable[[Prices | None], object]) -> None:
        for hour, price in asked.prices[1:]:
            await self._wait_until(min(hour, asked.ends_h))
            if hour < asked.ends_h:
                move(price)
        await self._wait_until(asked.ends_h + 0.25)
        move(None)

    async def _wait_until(self, hour: float) -> None:
        await self.clock.sleep(max(0.0, hour * HOUR_S - self.clock.monotonic()))

    def _ends(self, asked: ScriptedQuestion) -> datetime:
        return self.script.start + timedelta(hours=asked.ends_h)

    def _open_market(self, asked: ScriptedQuestion) -> Callable[[Prices | None], object]:
        assert self.bridges.manifold is not None
        world, first = self.bridges.manifold.world, asked.prices[0][1]
        terms: dict[str, Any] = {"liquidity": 100.0 * self.script.unit}
        terms |= {"closes": round(self._ends(asked).timestamp() * 1000)}
        if isinstance(first, float):
            terms["prob"] = first
        else:
            terms |= {"type": "MULTIPLE_CHOICE", "sums_to_one": True, "answers": [*first.items()]}
        market: FakeManifoldMarket = world.add_market(asked.title, **terms)
        self.refs[f"manifold:{market.id}"] = asked.title
        answers = {answer.text: answer for answer in market.answers}

        def move(price: Prices | None) -> None:
            if price is None:
                won = answers[asked.winner].id if answers else asked.outcome
                world.resolve(market, won)
            elif isinstance(price, float):
                world.move_price(market, price)
            else:
                world.move_price(market, price["red"], answer=answers["red"])

        return move

    def _ask(self, asked: ScriptedQuestion) -> Callable[[Prices | None], object]:
        assert self.bridges.metaculus is not None
        world, terms = self.bridges.metaculus.world, {"scheduled_close": self._ends(asked)}
        kind: dict[str, Any] = {"type": "multiple_choice", "options": [*asked.options]} if asked.options else {}
        later = {"scheduled_resolve": self._ends(asked) + timedelta(days=1)}
        question: FakeMetaculusQuestion = world.add_question(asked.title, **terms, **kind, **later)
        self.refs[f"metaculus:{question.post}:{question.id}"] = asked.title
        won = asked.winner if asked.options else asked.outcome.lower()
        return lambda price: world.resolve(question, won) if price is None else None

    def _open_books(self, asked: ScriptedQuestion) -> Callable[[Prices | None], object]:
        assert self.bridges.polymarket is not None
        world, end = self.bridges.polymarket.world, round(self._ends(asked).timestamp())
        markets: dict[str, FakePolymarketMarket] = {}
        if asked.options:
            event = world.add_event(asked.title, neg_risk=True, end=end)
            self.refs[f"polymarket:event:{event.id}"] = asked.title
            for name in asked.options:
                markets[name] = world.add_market(f"Is {name} it?", event=event, item=name, end=end)
        else:
            markets[""] = world.add_market(asked.title, end=end)
            self.refs[f"polymarket:{markets[''].condition}"] = asked.title

        def move(price: Prices | None) -> None:
            for name, market in markets.items():
                if price is None:
                    pays = name == asked.winner if name else asked.outcome == "YES"
                    world.resolve(market, "1" if pays else "0")
                else:
                    level = price if isinstance(price, float) else price[name]
                    cents = Decimal(str(round(level, 2)))
                    world.move_price(market, cents, size=str(round(60 * self.script.unit)))

        move(asked.prices[0][1])
        return move

    # What came of it

    def _result(self, ledger: Path) -> WorldResult:
        acts: dict[str, list[dict[str, Any]]] = {one.title: [] for one in self.script.questions}
        for row in read_rows(ledger, _RESULTS):
            order = json.loads(row["order_body"]) if row["order_body"] else {}
            act = {name: order.get(name, "") for name in ("side", "leg", "option", "limit")}
            said = next(iter(json.loads(row["predictions"]).values()))
            said = said.get("probabilities", said.get("probability"))
            acts[self.refs[row["ref"]]].append({**act, "said": said, "shares": row["shares"], "cash": row["cash"]})
        scores: dict[str, list[tuple[Any, ...]]] = {one.title: [] for one in self.script.questions}
        for row in read_rows(ledger, _SCORES):
            scores[self.refs[row["ref"]]].append((row["revision"], row["rule"], row["value"]))
        worth = {row["venue"]: row["equity"] for row in read_rows(ledger, _WORTH)}
        return WorldResult(acts=acts, scores=scores, worth=worth)
