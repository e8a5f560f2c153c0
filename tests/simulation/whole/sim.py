"""One simulation: the real daemon, doubles of real venues with faults, days of virtual time, and what came of it.

Everything follows from the seed: the loop's time is virtual, connections are inside it, and nothing reads a clock or
draws chance of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from unittest.mock import patch

from bot.app import LEDGER_FILE
from bot.clock import SeededRandom
from bot.testing.loop import VirtualClock, scheduler_time, simulate
from bot.testing.network import NetworkLoop
from tests.ledgers import rows_of
from tests.simulation.whole.gauge import Gauge
from tests.simulation.whole.life import KILLED, Lives
from tests.simulation.whole.observer import Observer
from tests.simulation.whole.people import People
from tests.simulation.whole.pit import pit_of
from tests.simulation.whole.plan import DAY_S, DRIFTER_FILE, OLD_AGE, RECONCILE_S, Plan, Temper, config_of, temper_of
from tests.simulation.whole.profits import unaccounted
from tests.simulation.whole.signing import signer_of
from tests.simulation.whole.stalls import Stalls, open_stalls
from tests.simulation.whole.verdict import Verdict
from tests.simulation.whole.weather import Weather

START = datetime(2026, 3, 1, tzinfo=UTC)
# After calm, so long may it take until all is done that is due: two periods of the slowest job that settles something.
CALM_S = 2.0 * RECONCILE_S + 600.0
BETWEEN_LIVES_S = 600.0
# Tables whose rows are what happened, in order.
_TOLD = ("intent", "attempt", "fill", "decision", "audit", "resolution")


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a simulation; ``trace`` is the digest of all that venues heard and the ledger says."""

    plan: Plan
    lives: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    turns: int = 0
    days: float = 0.0
    trace: str = ""
    modes: dict[str, str] = field(default_factory=dict)
    worldly: bool = False
    memory_mb: dict[int, float] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What a simulation is made of."""

    plan: Plan
    temper: Temper
    clock: VirtualClock
    machine: VirtualClock
    loop: NetworkLoop
    stalls: Stalls
    observer: Observer
    lives: Lives
    people: People
    weather: Weather
    gauge: Gauge


def run(plan: Plan, root: Path, *, tell: bool = False, judged: Callable[[Path], object] = lambda _: None) -> Report:
    """Run one simulation in an empty folder; ``tell`` keeps every line of the trace in ``told``.

    ``judged`` is called with the ledger in the end.
    """
    report = Report(plan=plan)
    shutil.copy(DRIFTER_FILE, root)

    async def main(clock: VirtualClock) -> None:
        temper, chance = temper_of(plan), SeededRandom(plan.seed)
        async with open_stalls(clock, chance, temper, start=START, folder=root) as stalls:
            stage = _staged(plan, temper, root, stalls, clock)
            stage.observer.told = report.told if tell else None
            with scheduler_time(stage.machine):
                await _play(stage)
                await _judge(stage, report)
            _note(stage, report)
            judged(_ledger(stage.lives))

    with patch("httpx.create_ssl_context", _context), patch("hashlib.scrypt", _scrypt):
        simulate(main, start=START, make=NetworkLoop)
    return report


@cache
def _context(**_: object) -> ssl.SSLContext:
    """Make one for all lives: nothing here is encrypted, and each takes as long as an hour of a simulated day."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


# A key is derived from the same secrets in each life, which is meant to take long.
_scrypt = cache(hashlib.scrypt)


def _staged(plan: Plan, temper: Temper, root: Path, stalls: Stalls, clock: VirtualClock) -> _Stage:
    loop, chance = clock.loop, SeededRandom(plan.seed)
    assert isinstance(loop, NetworkLoop)
    machine = VirtualClock(loop, START)
    observer = Observer(stalls=stalls, modes=temper.modes, signed_a_day=temper.signed_a_day)
    gauge = Gauge()
    lives = Lives(
        clock=machine,
        loop=loop,
        root=root,
        config=config_of(temper, stalls.stand.config),
        writes=lambda: observer.writes,
        noticed=observer.look,
        beats=lambda: gauge.alive(int(loop.time() // DAY_S)),
    )
    people = People(
        lives=lives,
        clock=clock,
        machine=machine,
        stream=chance.stream("people"),
        live=temper.live,
    )
    observer.lives, observer.people = lives, people
    weather = Weather(
        stalls=stalls,
        temper=temper,
        clock=clock,
        stream=chance.stream("weather"),
        bursts=chance.stream("bursts"),
        money=chance.stream("money"),
    )
    weather.pit = pit_of(stalls, temper, clock=clock, stream=chance.stream("pit"))
    loop.programs.append(signer_of(machine))
    return _Stage(
        plan=plan,
        temper=temper,
        clock=clock,
        machine=machine,
        loop=loop,
        stalls=stalls,
        observer=observer,
        lives=lives,
        people=people,
        weather=weather,
        gauge=gauge,
    )


async def _play(stage: _Stage) -> None:
    """Let lives come and go until the days are over, then one more in calm weather."""
    stage.weather.begin()
    stage.people.make_good()
    weather = stage.weather
    going: list[asyncio.Future[None]] = []
    going += [asyncio.ensure_future(one) for one in (weather.blow(), weather.swallow(), weather.give())]
    if stage.temper.worldly:
        going.append(asyncio.ensure_future(stage.weather.turn(stage.stalls.stand.stalls)))
    if stage.weather.pit is not None:
        going.append(asyncio.ensure_future(stage.weather.pit.blow()))
    going += _people(stage)
    pauses = SeededRandom(stage.plan.seed).stream("pauses")
    end_s, fates = stage.plan.days * DAY_S, iter(stage.temper.fates)
    while stage.clock.monotonic() < end_s:
        await stage.lives.live(until_s=end_s, fate=next(fates, OLD_AGE))
        stage.observer.leave(stage.lives.home)
        stage.observer.violations += unaccounted(
            _ledger(stage.lives), stage.stalls, stage.temper.modes, stage.weather.undone
        )
        stage.gauge.over(stage.lives.number)
        if stage.plan.people and stage.lives.ends[-1] == KILLED:
            stage.people.saw_kill()
        await stage.clock.sleep(float(pauses.exponential(BETWEEN_LIVES_S)))
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    stage.stalls.calm()
    if stage.weather.pit is not None:
        stage.weather.pit.calm()
    stage.people.make_good()
    await stage.lives.live(until_s=stage.clock.monotonic() + CALM_S * stage.temper.pace, fate=OLD_AGE)


def _people(stage: _Stage) -> list[asyncio.Future[None]]:
    """Let people do what they do in this plan."""
    acts = [stage.people.act()] if stage.plan.people else []
    if stage.plan.closing:
        stream = SeededRandom(stage.plan.seed).stream("closing")
        acts.append(stage.people.close(stage.stalls.positions, stream))
    return [asyncio.ensure_future(act) for act in acts]


async def _judge(stage: _Stage, report: Report) -> None:
    observer, lives = stage.observer, stage.lives
    observer.look()
    observer.leave(lives.home)
    once, twice = await lives.look_back()
    if once != twice:
        report.violations.append(f"I11: reading back again changed {sorted(set(once) ^ set(twice))[:4]}")
    verdict = Verdict(
        ledger=_ledger(lives),
        stalls=stage.stalls,
        modes=stage.temper.modes,
        now=stage.machine.now(),
        period=timedelta(seconds=RECONCILE_S * stage.temper.pace),
        undone=stage.weather.undone,
    )
    report.violations += [*observer.violations, *lives.faults, *stage.gauge.violations, *verdict.found()]
    for name, venue in stage.stalls.servers.items():
        report.violations += [f"I5: {name}: {one}" for one in venue.judge.violations]
        report.violations += [f"{name} itself: {one!r}" for one in venue.crashes]
    report.violations += [f"somebody asked for {host}:{port}" for host, port in stage.loop.refused]
    report.violations += [f"somebody started {line[:200]}" for line in stage.loop.unplayed]


def _note(stage: _Stage, report: Report) -> None:
    note = stage.observer.note
    for server in stage.stalls.servers.values():
        report.faults.update({str(fault): count for fault, count in server.faults.injected.items()})
        report.requests += len(server.requests)
    for name, venue in stage.stalls.all.items():
        report.effects.update(f"{name} {effect.kind}" for effect in venue.ledger.effects())
        for effect in venue.ledger.effects():
            note(name, effect.request, effect.kind, effect.subject)
    for table in _TOLD:
        for row in rows_of(_ledger(stage.lives), f"select * from {table} order by 1, 2"):  # noqa: S608 - constants
            note(table, *row.values())
    note("turns", stage.loop.turns)
    report.faults.update(stage.people.did)
    report.lives, report.turns, report.trace = stage.lives.ends, stage.loop.turns, stage.observer.trace.digest()
    report.days = stage.clock.monotonic() / DAY_S
    report.modes, report.worldly = dict(stage.temper.modes), stage.temper.worldly
    report.memory_mb, report.peak = stage.gauge.memory_mb, stage.gauge.peak


def _ledger(lives: Lives) -> Path:
    return lives.folder / LEDGER_FILE
