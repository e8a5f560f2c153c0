"""One simulation: the real daemon, fake venues with faults, days of virtual time, and its report.

Everything follows from the seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bot.core.clock import SeededRandom
from bot.daemon.runner import JobOutcome
from bot.execution.paper.paper_book import paper_book_path
from bot.jobs.foreign_writes import FOREIGN_WRITES
from bot.simulator.environment import BUCKET_FOLDER, ROUNDS_FOLDER, TRADING, to_toml
from bot.simulator.network import NetworkEventLoop
from bot.store.ledger import LEDGER_FILE
from bot.testing.event_loop import VirtualClock, run_in_virtual_time, simulated_scheduler_time
from tests.ledger_checks import nothing_is_written, read_rows
from tests.simulation.full_system.alert_checks import AlertChecks
from tests.simulation.full_system.attribution_checks import AttributionChecks
from tests.simulation.full_system.continuity_checks import ContinuityChecks
from tests.simulation.full_system.daemon_lives import KILLED, DaemonLives, life_end
from tests.simulation.full_system.decision_checks import DecisionChecks
from tests.simulation.full_system.drawn_config import draw_change, draw_config
from tests.simulation.full_system.effect_rules import (
    REFUNDED,
    ROUND_ROWS,
    ROUND_TARGETS,
    ROWS,
    EffectReferee,
    incomplete_sets,
    missing_outcomes,
    read_forecast_files,
    round_outcomes,
    untold_outcomes,
)
from tests.simulation.full_system.event_coverage import (
    ORDER_OF_PERSON,
    STOPPED_FOR_FOREIGN,
    count_events,
    kind_events,
)
from tests.simulation.full_system.fake_venues import SimulationVenues, open_venues
from tests.simulation.full_system.final_checks import FinalChecks
from tests.simulation.full_system.foreign_writes import ForeignWriter
from tests.simulation.full_system.observer import VenueObserver
from tests.simulation.full_system.omission_checks import JobPass, OmissionChecks
from tests.simulation.full_system.operators import CLOCK_MOVED, SimulatedOperators
from tests.simulation.full_system.outcome_checks import FORECAST, OutcomeChecks
from tests.simulation.full_system.paper_checks import EXPIRED, PAID, PaperChecks, read_marks
from tests.simulation.full_system.plan import (
    DAY_S,
    DRIFTER_FILE,
    END_OF_TIME,
    RECONCILE_S,
    SimulationPlan,
    SimulationTraits,
    draw_traits,
    limits_of,
    simulation_tables,
)
from tests.simulation.full_system.polymarket_events import polymarket_events
from tests.simulation.full_system.profit_checks import unreserved_stakes, wrong_profits
from tests.simulation.full_system.record_checks import READINGS, RecordChecks
from tests.simulation.full_system.referee import LEDGER_TABLES, WorldReferee
from tests.simulation.full_system.renewal_checks import RenewalChecks
from tests.simulation.full_system.resource_usage import ResourceMonitor
from tests.simulation.full_system.resting_orders import ReservationWatch, run_partial_fills
from tests.simulation.full_system.schedule_checks import ScheduleChecks
from tests.simulation.full_system.shortfall_checks import ShortfallChecks
from tests.simulation.full_system.signer_program import signer_program
from tests.simulation.full_system.sizing_checks import SizingChecks
from tests.simulation.full_system.venue_events import VenueEvents
from tests.simulation.full_system.world_record import MESSAGES, PAID_CALLS, WorldRecord

START = datetime(2026, 3, 1, tzinfo=UTC)
# After calm, so long may it take until all is done that is due: two periods of the slowest job that settles something.
CALM_S = 2.0 * RECONCILE_S + 600.0
BETWEEN_LIVES_S = 600.0
_STOPPED_FOR_FOREIGN = "select count(*) as count from halt where why like ?"
# Tables whose rows are what happened, in order.
_TOLD = ("intent", "attempt", "fill", "decision", "audit", "resolution")


@dataclass(slots=True, kw_only=True)
class SimulationReport:
    """The result of a simulation; ``trace`` is the digest of all that venues heard and the ledger says."""

    plan: SimulationPlan
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
    events: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class SimulatedConfig:
    """The tables of the configuration, and those before they were changed in mid-run."""

    seed: int
    traits: SimulationTraits
    tables: Mapping[str, Any]
    before: Mapping[str, Any] | None = None

    @property
    def all(self) -> list[Mapping[str, Any]]:
        """All tables, from the first to the last."""
        return [*([] if self.before is None else [self.before]), self.tables]

    def limits_now(self, venue: str) -> Mapping[str, float]:
        """Return what orders at a venue may cost now."""
        return limits_of(self.tables, self.traits, venue)

    def limits_ever(self, venue: str) -> Mapping[str, float]:
        """Return what orders at a venue could cost at most."""
        found = [limits_of(one, self.traits, venue) for one in self.all]
        return {name: max(one[name] for one in found) for name in found[0]}

    def change(self, lives: DaemonLives, people: SimulatedOperators) -> None:
        """Change one key for the lives to come."""
        change = draw_change(self.seed, self.tables, lives.registry(), live=self.traits.live)
        if change is None or self.before is not None:
            return
        self.before, self.tables = self.tables, change.tables
        lives.change_config(to_toml(change.tables))
        venues = [venue for venue in self.traits.live if not change.venues or venue in change.venues]
        people.config_changed(venues, f"{change.key} = {change.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SimulationParts:
    """What a simulation is made of."""

    plan: SimulationPlan
    traits: SimulationTraits
    clock: VirtualClock
    machine: VirtualClock
    loop: NetworkEventLoop
    bridges: SimulationVenues
    config: SimulatedConfig
    observer: VenueObserver
    lives: DaemonLives
    people: SimulatedOperators
    weather: VenueEvents
    gauge: ResourceMonitor
    watch: ReservationWatch
    record: WorldRecord


def run_simulation(
    plan: SimulationPlan, root: Path, *, tell: bool = False, judged: Callable[[Path], object] = lambda _: None
) -> SimulationReport:
    """Run one simulation in an empty folder; ``tell`` keeps every line of the trace in ``told``.

    ``judged`` is called with the ledger in the end.
    """
    report = SimulationReport(plan=plan)
    shutil.copy(DRIFTER_FILE, root)

    async def main(clock: VirtualClock) -> None:
        traits, chance = draw_traits(plan), SeededRandom(plan.seed)
        async with open_venues(clock, chance, traits, start=START, folder=root) as bridges:
            parts = _assemble_parts(plan, traits, root, bridges, clock)
            parts.observer.told = report.told if tell else None
            with simulated_scheduler_time(parts.machine):
                await _run_days(parts)
                await _judge_simulation(parts, report)
            _note_report(parts, report)
            judged(_ledger_path(parts.lives))

    with patch("hashlib.scrypt", repeat_scrypt), count_events() as seen:
        run_in_virtual_time(main, start=START, make=NetworkEventLoop)
    report.events.update(seen)
    return report


# A key is derived from the same secrets in each life, which is meant to take long.
repeat_scrypt = cache(hashlib.scrypt)


def _assemble_parts(
    plan: SimulationPlan, traits: SimulationTraits, root: Path, bridges: SimulationVenues, clock: VirtualClock
) -> _SimulationParts:
    loop, chance = clock.loop, SeededRandom(plan.seed)
    assert isinstance(loop, NetworkEventLoop)
    machine = VirtualClock(loop, START)
    tables = simulation_tables(traits, bridges.environment.config)
    config = SimulatedConfig(seed=plan.seed, traits=traits, tables=tables)
    record = WorldRecord(bridges=bridges, now=machine.now, at_s=loop.time)
    observer = VenueObserver(
        bridges=bridges,
        modes=traits.modes,
        limits=config.limits_now,
        signed_a_day=traits.signed_a_day,
        record=record,
    )
    gauge, watch = ResourceMonitor(), ReservationWatch(loop=loop, orders=record.orders)
    lives = DaemonLives(
        clock=machine,
        loop=loop,
        root=root,
        config=to_toml(tables),
        writes=lambda: observer.writes,
        noticed=_notice_turns(observer, gauge, loop, watch),
        beats=lambda: gauge.alive(int(loop.time() // DAY_S)),
        calls=lambda: len(PAID_CALLS),
    )
    if traits.drawn:
        config.tables = draw_config(plan.seed, tables, lives.registry()).tables
        lives.change_config(to_toml(config.tables))
    people = SimulatedOperators(
        lives=lives,
        clock=clock,
        machine=machine,
        stream=chance.stream("people"),
        live=traits.live,
        armed_days=traits.armed_days,
        arm_amounts=traits.arm_amounts,
        record=record,
    )
    observer.lives, observer.people, record.lives = lives, people, lives
    watch.ledger = lambda: _ledger_path(lives)
    weather = _make_weather(traits, bridges, clock, chance)
    loop.programs.append(signer_program(machine))
    return _SimulationParts(
        plan=plan,
        traits=traits,
        clock=clock,
        machine=machine,
        loop=loop,
        bridges=bridges,
        config=config,
        observer=observer,
        lives=lives,
        people=people,
        weather=weather,
        gauge=gauge,
        watch=watch,
        record=record,
    )


def _notice_turns(
    observer: VenueObserver, gauge: ResourceMonitor, loop: NetworkEventLoop, watch: ReservationWatch
) -> Callable[[], None]:
    """Return what is called at each turn of the loop: a life in which something begins again and again is stopped."""

    def notice() -> None:
        observer.look()
        watch.look()
        app = None if observer.lives is None else observer.lives.app
        if gauge.is_running_in_circles(loop.turns, loop.time()) and app is not None:
            app.stopping.set()

    return notice


def _make_weather(
    traits: SimulationTraits, bridges: SimulationVenues, clock: VirtualClock, chance: SeededRandom
) -> VenueEvents:
    weather = VenueEvents(
        bridges=bridges,
        traits=traits,
        clock=clock,
        stream=chance.stream("weather"),
        bursts=chance.stream("bursts"),
        ambiguous=chance.stream("ambiguous"),
        money=chance.stream("money"),
        benchmark=chance.stream("benchmark"),
        entries=chance.stream("entries of outcomes"),
    )
    weather.pit = polymarket_events(bridges, traits, clock=clock, stream=chance.stream("pit"))
    return weather


async def _run_days(parts: _SimulationParts) -> None:
    """Let lives come and go until the days are over, then one more in calm weather."""
    parts.people.outbid = parts.weather.outbid
    parts.weather.begin()
    parts.people.make_good()
    going = [*_start_events(parts), *_start_people(parts)]
    pauses = SeededRandom(parts.plan.seed).stream("pauses")
    end_s, fates = parts.plan.days * DAY_S, iter(parts.traits.endings)
    while parts.clock.monotonic() < end_s:
        await parts.lives.live(until_s=end_s, life_ending=(fate := next(fates, END_OF_TIME)))
        _judge_life(parts)
        if parts.plan.people and parts.lives.ends[-1] == KILLED and not parts.traits.is_quiet:
            parts.people.saw_kill()
        was_cut = parts.lives.ends[-1] == KILLED
        await parts.clock.sleep(float(pauses.exponential(BETWEEN_LIVES_S)) + was_cut * fate.pause_s)
        if parts.plan.people and parts.clock.monotonic() >= parts.traits.changes_at_s:
            parts.config.change(parts.lives, parts.people)
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    parts.bridges.stop_faults()
    if parts.weather.pit is not None:
        parts.weather.pit.stop_faults()
    # What is owed when all is calm is neither paid back nor a gain.
    parts.weather.lend()
    parts.people.make_good(at_once=True)
    # What rests for long, or was sent late, is over before that, too.
    calm_s = CALM_S * parts.traits.pace + parts.traits.lifetime_s
    await parts.lives.live(until_s=parts.clock.monotonic() + calm_s, life_ending=END_OF_TIME)


def _start_events(parts: _SimulationParts) -> list[asyncio.Future[None]]:
    """Let things happen at the venues."""
    weather, chance = parts.weather, SeededRandom(parts.plan.seed)
    events = [
        weather.run_events(),
        weather.run_lost_replies(),
        weather.run_ambiguous_replies(),
        weather.run_transfers(),
        weather.run_outages(chance.stream("outages at venues")),
        weather.run_busy_times(chance.stream("busy times")),
        weather.run_early_outcomes(chance.stream("outcomes before the close")),
        weather.run_moved_closes(chance.stream("moved closes")),
        run_partial_fills(parts.bridges.manifold, parts.traits, clock=parts.clock, stream=chance.stream("partial")),
    ]
    if parts.traits.has_world:
        events.append(weather.run_world(parts.bridges.environment.world_runner))
    if weather.pit is not None:
        events.append(weather.pit.run_events())
    return [asyncio.ensure_future(one) for one in events]


def _judge_life(parts: _SimulationParts) -> None:
    """Judge what a life left."""
    ledger = _ledger_path(parts.lives)
    parts.observer.leave(parts.lives.home)
    parts.observer.violations += wrong_profits(ledger, parts.bridges, parts.traits.modes, parts.weather.undone)
    parts.record.look()
    parts.record.marks += read_marks(ledger)
    parts.record.readings += read_rows(ledger, READINGS)
    parts.observer.violations += unreserved_stakes(ledger, parts.record.orders.values())
    parts.gauge.over(parts.lives.number)


def _start_people(parts: _SimulationParts) -> list[asyncio.Future[None]]:
    """Let people do what they do in this plan."""
    is_busy = not parts.traits.is_quiet
    acts = [parts.people.act()] if parts.plan.people and is_busy else []
    if parts.plan.people and parts.traits.drawn and is_busy:
        acts.append(parts.people.lock_questions(SeededRandom(parts.plan.seed).stream("locks")))
    if parts.traits.drawn:
        acts.append(parts.people.answer_approvals(SeededRandom(parts.plan.seed).stream("approvals")))
    if {*parts.traits.modes} & {*TRADING}:
        acts.append(parts.people.look_at_positions())
    if parts.plan.people and parts.traits.drawn and is_busy:
        acts += parts.people.further_acts(parts.traits, SeededRandom(parts.plan.seed))
    stranger = ForeignWriter(
        bridges=parts.bridges,
        people=parts.people,
        clock=parts.clock,
        stream=SeededRandom(parts.plan.seed).stream("foreign writes"),
        begins_s=parts.traits.foreign_from_s,
    )
    acts.append(stranger.run())
    if parts.plan.closing and is_busy:
        stream = SeededRandom(parts.plan.seed).stream("closing")
        acts.append(parts.people.close(parts.bridges.positions, stream))
    return [asyncio.ensure_future(act) for act in acts]


async def _judge_simulation(parts: _SimulationParts, report: SimulationReport) -> None:
    observer, lives = parts.observer, parts.lives
    observer.look()
    observer.leave(lives.home)
    facts = parts.record.facts(parts.weather.undone)
    once, twice = await lives.look_back()
    if once != twice:
        report.violations.append(f"I11: reading back again changed {sorted(set(once) ^ set(twice))[:4]}")
    with nothing_is_written():
        _judge_ledger(parts, report, facts)
    if not any(venue.requests for venue in parts.bridges.all.values()):
        report.violations.append("I9: no venue was asked for anything: the plugins were not used")
    for name, venue in parts.bridges.servers.items():
        report.violations += [f"I5: {name}: {one}" for one in venue.rate_limit_checker.violations]
        report.violations += [f"{name} itself: {one!r}" for one in venue.crashes]
    report.violations += [f"somebody asked for {host}:{port}" for host, port in parts.loop.refused_connections]
    report.violations += [f"somebody started {line[:200]}" for line in parts.loop.unknown_programs]


def _judge_ledger(parts: _SimulationParts, report: SimulationReport, facts: Mapping[str, Any]) -> None:
    """Judge the last ledger, which nobody writes to any more."""
    observer, lives = parts.observer, parts.lives
    verdict = FinalChecks(
        ledger=_ledger_path(lives),
        bridges=parts.bridges,
        modes=parts.traits.modes,
        now=parts.machine.now(),
        period=timedelta(seconds=RECONCILE_S * parts.traits.pace),
        undone=parts.weather.undone,
        limits=parts.config.limits_ever,
        # The last one only looks back.
        calm_since=lives.began[-2],
    )
    seen = [*observer.violations, *lives.faults, *parts.gauge.violations, *parts.watch.violations]
    report.violations += [*seen, *verdict.violations()]
    report.violations += _referee_violations(facts, _ledger_path(lives), parts.bridges.rounds / BUCKET_FOLDER)
    asked = read_forecast_files(parts.bridges.rounds / ROUNDS_FOLDER / "question_sets")
    report.violations += incomplete_sets(read_forecast_files(parts.bridges.rounds / BUCKET_FOLDER), asked)
    report.violations += untold_outcomes(parts.weather.told_of_rounds, read_rows(_ledger_path(lives), ROUND_ROWS))
    if _is_read_since(parts, "resolve forecastbench", parts.weather.rounds_changed):
        files = read_forecast_files(parts.bridges.rounds / ROUNDS_FOLDER / "resolution_sets")
        recorded = read_rows(_ledger_path(lives), ROUND_ROWS)
        report.violations += round_outcomes(files, recorded)
        last = max(one.started_at for one in lives.passes if one.job == "resolve forecastbench")
        said = read_rows(_ledger_path(lives), ROUND_TARGETS, {"since": (last - timedelta(hours=1)).isoformat()})
        report.violations += missing_outcomes(files, recorded, said)
    decisions = DecisionChecks(
        ledger=_ledger_path(lives),
        bridges=parts.bridges,
        configs=parts.config.all,
        clock_moves=[act["clock"] for act in facts["acts"] if act["kind"] == CLOCK_MOVED],
        scored=lives.scored,
    )
    report.violations += decisions.violations()
    report.violations += _order_violations(parts, facts, decisions.clock_moves)
    schedule = ScheduleChecks(
        ledger=_ledger_path(lives),
        configs=parts.config.all,
        clock_moves=decisions.clock_moves,
        calls=facts["calls"],
        locked={str(act["ref"]) for act in facts["acts"] if act["kind"] == "lock"},
        now=parts.machine.now(),
        pace=parts.traits.pace,
        runs=[*lives.passes, *lives.cut_off],
        lives=lives.began,
    )
    report.violations += schedule.violations()
    report.violations += _omission_violations(parts, facts, schedule)


def _order_violations(parts: _SimulationParts, facts: Mapping[str, Any], clock_moves: Sequence[datetime]) -> list[str]:
    """Return which orders are not what their forecast, their account and the prices of the doubles permit."""
    ledger, configs, books = _ledger_path(parts.lives), parts.config.all, facts["books"]
    sizing = SizingChecks(
        ledger=ledger, configs=configs, books=books, clock_moves=clock_moves, contracts=facts["contracts"]
    )
    paper = PaperChecks(
        ledger=ledger,
        configs=configs,
        books=books,
        endings=facts["endings"],
        trades=facts["trades"],
        contracts=facts["contracts"],
        marks=facts["marks"],
        clock_moves=clock_moves,
        expired=[row["intent"] for book in _paper_books(ledger) for row in read_rows(book, EXPIRED)],
        payouts=[row for book in _paper_books(ledger) for row in read_rows(book, PAID)],
    )
    return [*sizing.violations(), *paper.violations()]


def _omission_violations(parts: _SimulationParts, facts: Mapping[str, Any], schedule: ScheduleChecks) -> list[str]:
    """Return what was to be done and was not, in part or in whole, and what is not on record as it was."""
    passes = [
        JobPass(job=one.job, started_at=one.started_at, ended_at=one.started_at + timedelta(seconds=one.took_s))
        for one in parts.lives.passes
        if one.outcome is JobOutcome.DONE
    ]
    known: dict[str, Any] = {
        "ledger": schedule.ledger,
        "configs": schedule.configs,
        "clock_moves": schedule.clock_moves,
    }
    world: dict[str, Any] = {"locked": schedule.locked, "acts": facts["acts"], "closed": facts["closed"]}
    world["spoilt"] = facts["spoilt"]
    omissions = OmissionChecks(
        **known,
        passes=passes,
        **world,
        accounts=facts["accounts"],
        outcomes=_known_outcomes(parts, schedule.ledger),
        lives=schedule.lives,
    )
    continuity = ContinuityChecks(
        **known,
        passes=passes,
        **world,
        lives=schedule.lives,
        readings=parts.record.readings,
        positions=parts.record.positions,
        standing=facts["standing"],
    )
    renewals = RenewalChecks(**known, passes=passes, **world, prices=facts["prices"], unnoted=facts["unnoted"])
    sizing = SizingChecks(**known, books=facts["books"], contracts=facts["contracts"])
    shortfalls = ShortfallChecks(sizing=sizing, acts=facts["acts"], passes=passes)
    records = RecordChecks(
        ledger=schedule.ledger,
        configs=schedule.configs,
        endings=facts["endings"],
        readings=parts.record.readings,
        spots=facts["spots"],
    )
    lives = [*zip(parts.lives.began, parts.lives.ends, strict=True)]
    alerts = AlertChecks(**known, passes=passes, messages=MESSAGES, runs=parts.lives.passes, lives=lives)
    found = [*omissions.violations(), *continuity.violations(), *renewals.violations(), *shortfalls.violations()]
    people = AttributionChecks(ledger=schedule.ledger, acts=facts["acts"], clock_moves=schedule.clock_moves)
    return [*found, *records.violations(), *alerts.violations(), *people.violations()]


def _known_outcomes(parts: _SimulationParts, ledger: Path) -> dict[str, datetime]:
    """Return since when what was forecast has an outcome at its venue."""
    now, slower = parts.machine.now(), parts.traits.pace
    outcomes = OutcomeChecks(bridges=parts.bridges, undone=parts.weather.undone, now=now, slower=slower)
    return outcomes.since([row["ref"] for row in read_rows(ledger, FORECAST)])


def _is_read_since(parts: _SimulationParts, job: str, changed: datetime | None) -> bool:
    """Say whether a job ended well that began an hour after something had changed, by whatever clock."""
    since = None if changed is None else changed + timedelta(hours=1)
    return since is not None and any(
        one.job == job and one.outcome is JobOutcome.DONE and one.started_at > since for one in parts.lives.passes
    )


def _referee_violations(facts: Mapping[str, Any], ledger: Path, bucket: Path) -> list[str]:
    """Return where the ledger, or what left, is not what the world says it had to be."""
    rows = {name: read_rows(ledger, sql) for name, sql in LEDGER_TABLES.items()}
    return [*WorldReferee(facts, rows).violations(), *_effect_violations(facts, ledger, bucket)]


def _effect_violations(facts: Mapping[str, Any], ledger: Path, bucket: Path) -> list[str]:
    """Return what was sold, filed, withdrawn or paid as it must not be."""
    rows = {name: read_rows(ledger, sql) for name, sql in ROWS.items()}
    rows["refunds"] = [row for book in _paper_books(ledger) for row in read_rows(book, REFUNDED)]
    return [*EffectReferee(facts, rows, read_forecast_files(bucket)).violations()]


def _paper_books(ledger: Path) -> list[Path]:
    books = [paper_book_path(ledger.parent, venue) for venue in ("manifold", "polymarket")]
    return [book for book in books if book.exists()]


def _note_report(parts: _SimulationParts, report: SimulationReport) -> None:
    note = parts.observer.note
    for server in parts.bridges.servers.values():
        report.faults.update({str(fault): count for fault, count in server.faults.injected.items()})
        report.requests += len(server.requests)
    for name, venue in parts.bridges.all.items():
        report.effects.update(f"{name} {effect.kind}" for effect in venue.ledger.effects())
        for effect in venue.ledger.effects():
            note(name, effect.request, effect.kind, effect.subject)
    for table in _TOLD:
        for row in read_rows(_ledger_path(parts.lives), f"select * from {table} order by 1, 2"):  # noqa: S608 - constants
            note(table, *row.values())
    note("turns", parts.loop.turns)
    report.events.update({f"fault {name}": count for name, count in report.faults.items()})
    report.events.update({f"people {name}": count for name, count in (parts.people.did + parts.people.answers).items()})
    report.events.update(f"end {life_end(one)}" for one in parts.lives.ends)
    report.events.update({f"killed with {name} intents": count for name, count in parts.lives.killed_with.items()})
    [stopped] = read_rows(_ledger_path(parts.lives), _STOPPED_FOR_FOREIGN, [f"{FOREIGN_WRITES}%"])
    report.events[STOPPED_FOR_FOREIGN] += stopped["count"]
    report.events.update(kind_events(_ledger_path(parts.lives)))
    report.events[ORDER_OF_PERSON] += len(parts.bridges.foreign_orders)
    report.faults.update(parts.people.did)
    report.lives, report.turns, report.trace = parts.lives.ends, parts.loop.turns, parts.observer.trace.digest()
    report.days = parts.clock.monotonic() / DAY_S
    report.modes, report.worldly = dict(parts.traits.modes), parts.traits.has_world
    report.memory_mb, report.peak = parts.gauge.memory_mb, parts.gauge.peak


def _ledger_path(lives: DaemonLives) -> Path:
    return lives.folder / LEDGER_FILE
