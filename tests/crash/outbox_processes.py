"""Processes of a small Foxcast, forked here, that may kill themselves at any commit or write.

Their plans arrive on stdin.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import structlog
from sqlite_utils import Database

from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.interfaces import PaperTradingSubmitter, VenueSubmitter
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, GateDecision, HoldDecision, Intent, IntentAction, SendDecision
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.store import permissions
from bot.store.cap_usage import CapUsageScope, read_cap_usage
from bot.store.ledger import Ledger, open_ledger
from bot.store.submissions import BatchRow
from tests.crash.kill_points import FastClock, KillableRuns, KillCountdown
from tests.crash.mutants import MUTANTS
from tests.crash.scenario_forecasts import ACCOUNT, record
from tests.crash.venue_clients import VENUE_CLIENTS, ClientContext, VenueClients

# What a life imports where it is needed takes seconds; it is there already when one begins.
SLOW = (
    "aiohttp",
    "anyio._backends._asyncio",
    "backports.zstd",
    "httpcore",
    "httpx",
    "eth_account.messages",
    "polymarket._internal.actions.orders.context",
    "polymarket._internal.actions.orders.orders",
    "polymarket._internal.actions.orders.typed_data",
    "polymarket._internal.l1_auth",
    "polymarket._internal.wallet",
)
PASSES = 200
EVERY_S = 15.0
# How a life ends that does not come to an end, and one in which reading back twice changed something.
ENDLESS, UNSTABLE = 3, 4
NOT_FINAL = """
select (select count(*) from intent where state not in ('acked', 'refused', 'superseded', 'in doubt'))
     + (select count(*) from forecast where decided_at is null)
     + (select count(*) from intent i join attempt a on a.intent = i.id
        where i.action = 'order' and i.state = 'acked' and a.state = 'acked' and a.settled_at < a.fence_at)
"""
HELD = """
select d.why, count(*) from decision d join forecast f on f.id = d.forecast
where d.until is not null and d.id = (select max(id) from decision where forecast = f.id)
  and f.revision = (select max(revision) from forecast where ref = f.ref and state = 'done')
group by d.why
"""
NEWEST = "select max(revision) from forecast where ref = (select ref from forecast where id = ?) and state = 'done'"
CAPPED = "the cap"
RECORDS = ("intent", "attempt", "fill", "decision")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """The plan of one process. ``kill_at`` is the moment at which it ends, None for one that may finish.

    ``number`` is put on every write, so that the venue can tell whose it is. ``began`` and ``factor`` make its clock:
    real seconds since then, that many times faster, from the epoch ``start``. ``revisions`` is up to which revision
    forecasts are made, ``resumes`` says that a person is there who lets a venue go on that stopped itself.
    """

    scenario: int
    number: int
    ledger: str
    venue: str
    url: str
    kill_at: int | None
    armed: bool
    mode: str
    began: float
    factor: float
    start: float
    notes: str
    revisions: int = 1
    resumes: bool = True
    mutant: str = ""

    @property
    def paper(self) -> bool:
        """Whether nothing of it may reach the venue."""
        return self.mode == ExecutionMode.PAPER


async def live(life: ProcessPlan) -> None:
    """Work until nothing is left to do."""
    clock = FastClock(began=life.began, factor=life.factor, start=life.start)
    async with AsyncExitStack() as stack:
        fuse = KillCountdown(life.kill_at, life.notes)
        ledger = _make_killable(await stack.enter_async_context(open_ledger(Path(life.ledger), now=clock.now())), fuse)
        tools = ClientContext(clock=clock, fuse=fuse, folder=Path(life.ledger).parent, url=life.url, number=life.number)
        clients = VENUE_CLIENTS[life.venue]
        submitter = await stack.enter_async_context((clients.paper if life.paper else clients.writer)(tools))
        await record(ledger, life.revisions, clock.now())
        worker = OutboxProcess(life=life, ledger=ledger, clock=clock, clients=clients, submitter=submitter)
        if await worker.work():
            return
    sys.exit(ENDLESS)


def _make_killable(ledger: Ledger, fuse: KillCountdown) -> Ledger:
    submissions = replace(ledger.submissions, writer=KillableRuns(ledger.submissions.writer, fuse))
    leave = replace(ledger.permissions, writer=KillableRuns(ledger.permissions.writer, fuse))
    return replace(ledger, submissions=submissions, permissions=leave)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxProcess:
    """The program of one life: a gate of few rules, the outbox, and a person who resumes."""

    life: ProcessPlan
    ledger: Ledger
    clock: FastClock
    clients: VenueClients
    submitter: VenueSubmitter

    async def work(self) -> bool:
        """Return whether an end was found."""
        life, kill_switch = (
            self.life,
            KillSwitch(stop_file=Path(self.life.ledger).with_name("STOP"), ledger_file=Path(self.life.ledger)),
        )
        outbox = Outbox(
            ledger=self.ledger,
            submitters={life.venue: self.submitter},
            clock=self.clock,
            kill_switch=kill_switch,
            is_batch_ready=_at_once,
            pre_send_check=self._recheck,
            modes={life.venue: ExecutionMode(life.mode)},
        )
        await self._resume()
        await outbox.recover()
        for _ in range(PASSES):
            free = kill_switch.halt_reason() is None
            if free and await self._decide_next():
                return life.kill_at is not None or await self._is_stable(outbox)
            await outbox.flush()
            if isinstance(self.submitter, PaperTradingSubmitter):
                await self.submitter.advance()
            await outbox.reconcile()
            if not (life.armed and free and await self._resume()):
                return True
            await self.clock.sleep(EVERY_S)
        return False

    async def _resume(self) -> bool:
        """Say whether the venue is not stopped, after somebody who is there resumed it."""
        if await self.ledger.permissions.read(permissions.list_active_halts) and self.life.resumes:
            await self.ledger.permissions.write(
                lambda database: permissions.resume_submissions(
                    database, self.life.venue, by="ada", at=self.clock.now()
                )
            )
        return not await self.ledger.permissions.read(permissions.list_active_halts)

    async def _recheck(self, _: Intent) -> str | None:
        if await self.ledger.permissions.read(permissions.list_active_halts):
            return "stopped"
        return None if self.life.armed else "not armed"

    async def _is_stable(self, outbox: Outbox) -> bool:
        """Reading back what is settled changes nothing, however often."""
        before = await self.ledger.permissions.read(_records)
        for _ in range(2):
            await outbox.reconcile()
        if await self.ledger.permissions.read(_records) != before:
            sys.exit(UNSTABLE)
        return True

    async def _decide_next(self) -> bool:
        """As the gate does: within the cap, armed, once a forecast; returns whether nothing is left to do."""
        now = self.clock.now()
        forecasts = [*await self.ledger.forecasts.undecided(100), *await self.ledger.forecasts.held(100, now=now)]
        for forecast in forecasts:
            await self.ledger.submissions.decide_by(self._gate_rule(forecast, now), forecast_id=forecast.id, at=now)
        return await self.ledger.permissions.read(self._count_unfinished) == 0

    def _count_unfinished(self, database: Database) -> int:
        """Count what is not at its end; what the cap keeps back for good is."""
        (left,) = database.execute(NOT_FINAL).fetchone()
        held = dict(database.execute(HELD).fetchall())
        capped = held.pop(CAPPED, 0)
        if capped and (left or self._cash_used(database) + self.clients.cost <= self.clients.cap):
            left += capped
        return int(left) + sum(held.values())

    def _cash_used(self, database: Database) -> float:
        counted = CapUsageScope(ref=QuestionRef(self.life.venue, "any"), account=ACCOUNT, paper=self.life.paper)
        return read_cap_usage(database, counted, self.clock.now()).total

    def _gate_rule(self, forecast: Forecast, now: datetime) -> Callable[[Database], GateDecision]:
        def rule(database: Database) -> GateDecision:
            if forecast.revision < database.execute(NEWEST, [forecast.id]).fetchone()[0]:
                return HoldDecision(why="superseded by a later revision")
            if not self.life.armed:
                return HoldDecision(why="not armed", until=now)
            if permissions.list_active_halts(database):
                return HoldDecision(why="stopped", until=now)
            if self.clients.cost and self._cash_used(database) + self.clients.cost > self.clients.cap:
                return HoldDecision(why=CAPPED, until=now + timedelta(seconds=30))
            return SendDecision(intent=self._make_intent(forecast), mode=ExecutionMode(self.life.mode), why="armed")

        return rule

    def _make_intent(self, forecast: Forecast) -> Intent:
        action = IntentAction.ORDER if self.clients.cost else IntentAction.FORECAST
        name = derive_id("intent", self.life.venue, ACCOUNT, str(forecast.ref), forecast.id, action)
        return Intent(
            id=name,
            account=ACCOUNT,
            ref=forecast.ref,
            forecast=forecast.id,
            action=action,
            predictions=forecast.predictions,
            batch=name,
            order=self.clients.order(Path(self.life.ledger).parent, forecast.ref.key) if self.clients.cost else None,
        )


async def _at_once(_: BatchRow, __: datetime) -> bool:
    return True


def _records(database: Database) -> list[Any]:
    return [row for table in RECORDS for row in database.execute(f"select * from {table} order by 1, 2")]  # noqa: S608


def serve() -> None:
    """Fork the requested processes, a line of JSON each, side by side; report the end of each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name in SLOW:
        import_module(name)
    # What is loaded stays as it is in all lives, so that they share its memory.
    gc.collect()
    gc.freeze()
    # Those who wait for lives are waited for by nobody.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        life = ProcessPlan(**json.loads(line))
        if os.fork() == 0:
            _run_life(life)


def _run_life(life: ProcessPlan) -> None:
    """Have a life lived, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        _end_process(life)
    _, status = os.waitpid(child, 0)
    ended = "killed" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
    # Less than a pipe takes in one piece, so that no two answers mix.
    os.write(sys.stdout.fileno(), f"{life.scenario} {ended}\n".encode())
    os._exit(0)


def _end_process(life: ProcessPlan) -> None:
    code = 1
    try:
        if life.mutant:
            MUTANTS[life.mutant].apply()
        asyncio.run(live(life))
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException as error:  # noqa: BLE001 - the campaign reads of everything that goes wrong
        with Path(life.notes).open("a", encoding="utf-8") as file:
            file.write(f"error: {error!r}\n")
    finally:
        os._exit(code)


def encode_life(life: ProcessPlan) -> str:
    """Return the line that makes this life."""
    plain: dict[str, Any] = asdict(life)
    return json.dumps(plain)


if __name__ == "__main__":
    serve()
