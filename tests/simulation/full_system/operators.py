"""What people do to a running Foxcast: arm, disarm, halt, resume, close positions, stop it, and set the clock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.core.operator_requests import (
    AnswerApproval,
    ArmVenue,
    ClosePositions,
    DisarmVenue,
    ForecastQuestion,
    HaltSubmissions,
    LockQuestion,
    OperatorRequest,
    PositionToClose,
    ResumeSubmissions,
    UnlockQuestion,
    WithdrawForecast,
)
from bot.core.questions import QuestionRef
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch, release_kill_switch
from bot.simulator.environment import TRADING
from bot.store import requests
from bot.store.ledger import LEDGER_FILE
from bot.store.requests import send_request
from bot.store.serialization import format_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.foreign_writes import FOREIGN_WRITE
from tests.simulation.full_system.plan import HOUR_S, PACES
from tests.simulation.full_system.world_record import read_positions

if TYPE_CHECKING:
    import numpy as np

    from bot.core.clock import SeededRandom
    from bot.core.interfaces import Clock
    from bot.testing.event_loop import VirtualClock
    from tests.simulation.full_system.daemon_lives import DaemonLives
    from tests.simulation.full_system.plan import SimulationTraits
    from tests.simulation.full_system.world_record import WorldRecord

# A question, and the forecaster that alone is locked, None for all.
LockedQuestion = tuple[QuestionRef, str | None]
ADA, CLOCK_MOVED = "ada", "clock moved"
ACTS = (
    "clock set",
    "stop file",
    "stop file at a write",
    "halt",
    "halt at a write",
    "halt of one venue",
    "disarmed",
    "disarmed at a write",
    "question locked",
    "forecast by hand",
)
WITHDRAWN, HALTED_TWICE = "forecast withdrawn", "halted twice"
OTHER_ACTS = (
    "position closed",
    "approved",
    "rejected",
    "configuration changed",
    "halt after a kill",
    WITHDRAWN,
    HALTED_TWICE,
    FOREIGN_WRITE,
)
STEPS_S = (60.0, -60.0, 3_600.0, -3_600.0)
# How often the first thing that somebody does is to wait for a write; for so long, looking so often.
WATCHFUL, PATIENCE_S, LOOK_S = 1 / 2, 12.0 * HOUR_S, 600.0
# A real daemon looks for requests so often; this one is notified of them, and looks by itself far less often.
HEARD_WITHIN_S = 5.0
# So many questions are locked for hours at a time, at most, and how long it takes until some are, and are not any more.
LOCKED, LOCKS_EVERY_S, HELD_H = 5, 5.0 * HOUR_S, 6.0
# How many locks are of the forecaster alone whose forecast waits.
FOR_ONE = 1 / 2
# How often positions are closed: in half of the seeds so seldom that most are sold for a belief or by policy.
CLOSING_EVERY_S = (2.0 * HOUR_S, 16.0 * HOUR_S)
# How often a kill makes somebody halt or disarm.
WARY = 1 / 3
# How often people look at what waits for their approval, and how often they approve and reject it; the rest they leave.
APPROVALS_EVERY_S, APPROVED, REJECTED = 1_800.0, 0.7, 0.1
# How often they look at what accounts hold.
POSITIONS_EVERY_S = 1.5 * HOUR_S
# How often others take the price of what was approved before it is decided again, by how many cents.
OUTBID, OUTBID_CENTS = 1 / 2, (1.5, 6.0)
# An arm record of so many days is renewed at some occasions; that a shorter one ended is noticed after so long.
LONG_DAYS, RENEWED, NOTICED_AFTER_S = 7.0, 0.3, 3.0 * HOUR_S
# After the configuration was changed, so long until somebody arms the venues again.
CHECKS_CONFIG_S = 4.0 * HOUR_S
# How often somebody takes a forecast back, how often while its venue is halted, and for how long it is.
WITHDRAWS_EVERY_S, WHILE_HALTED, HALTED_S = 8.0 * HOUR_S, 2 / 3, (0.3 * HOUR_S, 4.0 * HOUR_S)
# How often a venue is halted twice in a row: first until nothing has rested there for long, then once an order rests.
HALTS_TWICE_EVERY_S, FIRST_HALT_S = 6.0 * HOUR_S, 2.5 * HOUR_S
_ARMED = "select id from arm where venue = ? and until = ?"
_ASKED = "select id, venue, shown from approval where state = 'asked' order by asked_at, id"
# Questions with a forecast that waits to be submitted: what a lock keeps back.
_HELD_QUESTIONS = """
select distinct f.ref, f.forecaster from decision d join forecast f on f.id = d.forecast
where d.until is not null and d.at > ? and d.id = (select max(id) from decision where forecast = f.id) order by f.ref
"""
_PUBLISHED = """
select i.ref from intent i join question q on q.ref = i.ref
where i.venue = 'metaculus' and i.action = 'forecast' and i.state = 'acked' and i.mode <> 'paper' and q.closes_at > ?
  and i.seq = (select max(o.seq) from intent o where o.ref = i.ref and o.action in ('forecast', 'withdraw'))
order by i.ref
"""
_OPEN_QUESTIONS = "select ref, forecaster from schedule where closes_at > ? order by ref, forecaster"


@dataclass(slots=True, kw_only=True)
class SimulatedOperators:
    """One thing after the other, with hours between; ``machine`` is the clock that they set, ``clock`` true time.

    ``steps_s`` are those by which they set it; ``stopped_s`` is when the STOP file was put where it is, None while it
    is not there. They arm venues for ``armed_days`` with ``arm_amounts``.

    ``outbid`` lets others take the price of an order. ``unarmed`` are the venues that nobody has armed since the
    configuration was changed, with what was changed.
    """

    lives: DaemonLives
    clock: Clock
    machine: VirtualClock
    stream: np.random.Generator
    live: tuple[str, ...]
    armed_days: float
    arm_amounts: Mapping[str, float]
    record: WorldRecord
    did: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    stopped_s: float | None = None
    outbid: Callable[[str, str, float], None] = lambda *_: None
    unarmed: dict[str, str] = field(default_factory=dict)
    _seen_approvals: set[str] = field(default_factory=set)
    _arms_from_s: float = 0.0
    _armed_until: dict[str, datetime] = field(default_factory=dict)
    _locked: list[LockedQuestion] = field(default_factory=list)
    _locked_for_hours: list[LockedQuestion] = field(default_factory=list)
    _ahead_s: float = 0.0
    _waiting: Callable[[], object] | None = None

    async def act(self) -> None:
        """Do one thing after the other, for ever, and make good each of them."""
        acts: tuple[Callable[[], object], ...] = (
            self._set_clock,
            self._stop,
            lambda: self._at_write(self._stop),
            self._halt,
            lambda: self._at_write(self._halt),
            self._halt_one,
            self._disarm,
            lambda: self._at_write(self._disarm),
            self._lock,
            self._forecast,
        )
        doing = [*zip(ACTS, acts, strict=True)]
        if self.stream.random() < WATCHFUL:
            watchful = [(name, do) for name, do in doing if name.endswith("at a write")]
            await self._do_and_undo(*watchful[int(self.stream.integers(len(watchful)))])
        while True:
            await self.clock.sleep(float(self.stream.exponential(3.0 * HOUR_S)))
            await self._do_and_undo(*doing[int(self.stream.integers(len(doing)))])

    async def _do_and_undo(self, name: str, act: Callable[[], object]) -> None:
        """Do something, and make it good about an hour later."""
        act()
        patience_s = PATIENCE_S
        while self._waiting is not None and patience_s > 0.0:
            await self.clock.sleep(LOOK_S)
            patience_s -= LOOK_S
        self.did[name] += 1
        await self.clock.sleep(float(self.stream.exponential(HOUR_S)))
        self.make_good()

    async def close(self, held: Callable[[], Sequence[PositionToClose]], stream: np.random.Generator) -> None:
        """Have one of the positions that are held closed, now and then, for ever."""
        pause_s = CLOSING_EVERY_S[int(stream.integers(len(CLOSING_EVERY_S)))]
        while True:
            await self.clock.sleep(float(stream.exponential(pause_s)))
            if positions := held():
                target = positions[int(stream.integers(len(positions)))]
                self.lives.folder.mkdir(parents=True, exist_ok=True)
                request = ClosePositions(by=ADA, asked_at=self.machine.now(), targets=(target,))
                requests.request_closing(self.lives.folder, request)
                self.record.saw_request_of_person(request)
                self.lives.loop.call_later(HEARD_WITHIN_S, self.lives.asked_to_close.set)
                self.did["position closed"] += 1

    async def lock_questions(self, stream: np.random.Generator) -> None:
        """Lock some questions for hours, now and then, for ever."""
        while True:
            await self.clock.sleep(float(stream.exponential(LOCKS_EVERY_S)))
            self._lock_some(stream, LOCKED, self._locked_for_hours)
            await self.clock.sleep(float(stream.exponential(LOCKS_EVERY_S)))
            self._unlock(self._locked_for_hours)

    def further_acts(self, traits: SimulationTraits, chance: SeededRandom) -> list[Coroutine[Any, Any, None]]:
        """Return what people do to forecasts that stand, and to orders that rest."""
        # An order rests from one pass to the next in some seeds, at Polymarket only one that waits at its own price.
        rests = traits.lifetime_s > PACES["submit"]
        venues = ["manifold"] * ("manifold" in self.live and rests)
        venues += ["polymarket"] * ("polymarket" in self.live and rests and traits.order_type == "GTD")
        acts = [self.halt_twice(venues, chance.stream("halts in a row"))]
        acts += [self.withdraw_forecasts(chance.stream("withdrawals"))] if "metaculus" in self.live else []
        return acts

    async def withdraw_forecasts(self, stream: np.random.Generator) -> None:
        """Take a forecast back now and then, for ever; at times while its venue is halted, so that this must wait."""
        while True:
            await self.clock.sleep(float(stream.exponential(WITHDRAWS_EVERY_S)))
            rows, waits = self._read_ledger(_PUBLISHED, self._now_text()), stream.random() < WHILE_HALTED
            pause_s = float(stream.uniform(*HALTED_S))
            if not rows:
                continue
            ref, now = QuestionRef.parse(rows[int(stream.integers(len(rows)))]["ref"]), self.machine.now()
            if waits:
                self._ask(HaltSubmissions(by=ADA, asked_at=now, reason="ada takes it back", venue=ref.venue))
            self._ask(WithdrawForecast(by=ADA, asked_at=now, ref=ref, reason="ada was wrong"))
            self.answers[WITHDRAWN] += 1
            if waits:
                await self.clock.sleep(pause_s)
                self._ask(ResumeSubmissions(by=ADA, asked_at=self.machine.now(), venue=ref.venue))

    async def halt_twice(self, venues: Sequence[str], stream: np.random.Generator) -> None:
        """Halt a venue until nothing rests there, and again once an order rests, now and then, for ever."""
        while venues:
            await self.clock.sleep(float(stream.exponential(HALTS_TWICE_EVERY_S)))
            venue, reason = venues[int(stream.integers(len(venues)))], "ada looks there twice"
            for patience_s in (0.0, PATIENCE_S):
                until_s = self.clock.monotonic() + patience_s
                while self.clock.monotonic() < until_s and not self._rests(venue):
                    await self.clock.sleep(LOOK_S)
                self._ask(HaltSubmissions(by=ADA, asked_at=self.machine.now(), reason=reason, venue=venue))
                self.answers[HALTED_TWICE] += self._rests(venue)
                await self.clock.sleep(FIRST_HALT_S)
                self._ask(ResumeSubmissions(by=ADA, asked_at=self.machine.now(), venue=venue))
                await self.clock.sleep(LOOK_S)

    def _rests(self, venue: str) -> bool:
        """Say whether an order of Foxcast rests at a venue."""
        return any(order["venue"] == venue and not order["is_over"] for order in self.record.orders.values())

    async def look_at_positions(self) -> None:
        """Look at what accounts hold, for ever."""
        while True:
            await self.clock.sleep(POSITIONS_EVERY_S)
            if (ledger := self.lives.folder / LEDGER_FILE).exists():
                self.lives.loop.wait_for_threads()
                self.record.positions += read_positions(ledger)

    async def answer_approvals(self, stream: np.random.Generator) -> None:
        """Answer what waits for approval, for ever."""
        while True:
            await self.clock.sleep(float(stream.exponential(APPROVALS_EVERY_S)))
            for row in self._read_ledger(_ASKED):
                if row["id"] in self._seen_approvals:
                    continue
                self._seen_approvals.add(row["id"])
                draw = float(stream.random())
                if draw >= APPROVED + REJECTED:
                    continue
                answer = AnswerApproval(
                    by=ADA, asked_at=self.machine.now(), approval=row["id"], approved=draw < APPROVED
                )
                self._ask(answer, shown=json.loads(row["shown"]))
                is_taken, cents = stream.random() < OUTBID, float(stream.uniform(*OUTBID_CENTS))
                if answer.approved and is_taken and "order" in json.loads(row["shown"]):
                    self.outbid(row["venue"], json.loads(row["shown"])["order"], cents)
                self.answers["approved" if draw < APPROVED else "rejected"] += 1

    def config_changed(self, venues: Sequence[str], what: str) -> None:
        """Look into a changed configuration before these venues are armed again."""
        self.did["configuration changed"] += 1
        self.unarmed.update(dict.fromkeys(venues, what))
        wait_s = float(self.stream.exponential(CHECKS_CONFIG_S))
        self._arms_from_s = self.clock.monotonic() + wait_s
        self.lives.loop.call_later(wait_s + 1.0, self._arm_all)

    def saw_write(self) -> None:
        """Do what somebody waits to do at a write, between two orders perhaps."""
        if self._waiting is not None:
            do, self._waiting = self._waiting, None
            do()

    def saw_foreign_write(self, venue: str, *, late_s: float) -> None:
        """Note that somebody else wrote to the account of a venue, whose list shows it so much later."""
        self.did[FOREIGN_WRITE] += 1
        old = self.record.old_answers(venue)
        self.record.saw_act(FOREIGN_WRITE, venue=venue, old_answers=old, listed_after_s=late_s)

    def saw_kill(self) -> None:
        """Halt or disarm at times before the next life, which finds what was about to leave."""
        doing = (self._halt, self._halt_one, self._disarm)
        if self.stream.random() < WARY:
            self.did["halt after a kill"] += 1
            doing[int(self.stream.integers(len(doing)))]()

    def make_good(self, *, at_once: bool = False) -> None:
        """Set the clock right, take the STOP file away, unlock and resume all, and arm what nobody looks into."""
        if self._ahead_s:
            self._move_clock(-self._ahead_s)
        self._ahead_s = 0.0
        release_kill_switch(self.lives.home / "state" / STOP_FILE)
        self.record.saw_act("stop file gone")
        self.stopped_s = self._waiting = None
        self._ask(ResumeSubmissions(by=ADA, asked_at=self.machine.now()))
        self._unlock(self._locked)
        if at_once:
            self._unlock(self._locked_for_hours)
        if at_once or self.clock.monotonic() >= self._arms_from_s:
            for venue in self.live if at_once else [venue for venue in self.live if self._is_missed(venue)]:
                self._arm(venue)

    def _arm_all(self) -> None:
        for venue in self.live:
            self._arm(venue)

    def _is_missed(self, venue: str) -> bool:
        """Say whether somebody arms a venue again: a short permission only once its end was noticed, or its undoing."""
        ended = self._armed_until.get(venue)
        # A request that was not heard of within a quarter of an hour was refused, which a look at the status shows.
        was_refused = ended is not None and not self._read_ledger(_ARMED, venue, format_timestamp(ended))
        return (
            ended is None
            or was_refused
            or (self.armed_days >= LONG_DAYS and self.stream.random() < RENEWED)
            or self.machine.now() > ended + timedelta(seconds=NOTICED_AFTER_S)
        )

    def _set_clock(self) -> None:
        self._ahead_s = STEPS_S[int(self.stream.integers(len(STEPS_S)))]
        self._move_clock(self._ahead_s)

    def _move_clock(self, by_s: float) -> None:
        self.machine.set_wall_clock(by_s)
        self.record.saw_act(CLOCK_MOVED)

    def _stop(self) -> None:
        engage_kill_switch(self.lives.home / "state" / STOP_FILE, "ada wants quiet")
        self.record.saw_act("stop file")
        self.stopped_s = self.clock.monotonic()

    def _at_write(self, do: Callable[[], object]) -> None:
        self._waiting = do

    def _halt(self) -> None:
        self._ask(HaltSubmissions(by=ADA, asked_at=self.machine.now(), reason="ada looks into it"))

    def _halt_one(self) -> None:
        self._ask(
            HaltSubmissions(by=ADA, asked_at=self.machine.now(), reason="ada looks there", venue=self._any_venue())
        )

    def _disarm(self) -> None:
        venue = self._any_venue()
        self._armed_until.pop(venue, None)
        self._ask(DisarmVenue(by=ADA, asked_at=self.machine.now(), venue=venue))

    def _lock(self) -> None:
        self._lock_some(self.stream, 1, self._locked)

    def _lock_some(self, stream: np.random.Generator, most: int, locked: list[LockedQuestion]) -> None:
        lately = format_timestamp(self.machine.now() - timedelta(hours=HELD_H))
        rows = self._read_ledger(_HELD_QUESTIONS, lately) if most > 1 else []
        rows = rows or self._read_ledger(_OPEN_QUESTIONS, self._now_text())
        for place in sorted({int(stream.integers(len(rows))) for _ in range(most)} if rows else ()):
            ref, forecaster = QuestionRef.parse(rows[place]["ref"]), rows[place]["forecaster"]
            locked.append((ref, forecaster if stream.random() < FOR_ONE else None))
            self._ask(LockQuestion(ref=ref, forecaster=locked[-1][1], reason="ada thinks about it"))

    def _unlock(self, locked: list[LockedQuestion]) -> None:
        while locked:
            ref, forecaster = locked.pop()
            self._ask(UnlockQuestion(ref=ref, forecaster=forecaster, by=ADA, asked_at=self.machine.now()))

    def _forecast(self) -> None:
        """Ask for a forecast of a question, which is only recorded in one of two cases."""
        rows = self._read_ledger(_OPEN_QUESTIONS, self._now_text())
        if rows:
            row, submits = rows[int(self.stream.integers(len(rows)))], bool(self.stream.random() < 1 / 2)
            ref = QuestionRef.parse(row["ref"])
            now = self.machine.now()
            self._ask(ForecastQuestion(ref=ref, forecaster=row["forecaster"], submit=submits, by=ADA, asked_at=now))

    def _now_text(self) -> str:
        return format_timestamp(self.machine.now())

    def _read_ledger(self, sql: str, *values: str) -> list[Row]:
        """Read as people do while the daemon runs; nothing before there is a ledger."""
        ledger = self.lives.folder / LEDGER_FILE
        if not ledger.exists():
            return []
        self.lives.loop.wait_for_threads()
        return read_rows(ledger, sql, values)

    def _arm(self, venue: str) -> None:
        policy = self.lives.policy_of(venue)
        money = self.arm_amounts if venue in TRADING else {}
        self.unarmed.pop(venue, None)
        self._armed_until[venue] = until = self.machine.now() + timedelta(days=self.armed_days)
        request = ArmVenue(
            by=ADA,
            asked_at=self.machine.now(),
            venue=policy.venue,
            account=policy.account,
            config=policy.config_digest,
            until=until,
            per_order=money.get("per_order"),
            per_day=money.get("per_day"),
            total=money.get("total"),
        )
        self._ask(request)

    def _any_venue(self) -> str:
        return self.live[int(self.stream.integers(len(self.live)))]

    def _ask(self, request: OperatorRequest, shown: Mapping[str, object] | None = None) -> None:
        folder = self.lives.folder
        folder.mkdir(parents=True, exist_ok=True)
        path = send_request(folder, request, at=self.machine.now())
        self.record.saw_request_of_person(request, shown, name=path.stem)
        self.lives.loop.call_later(float(self.stream.uniform(0.0, HEARD_WITHIN_S)), self.lives.asked.set)
