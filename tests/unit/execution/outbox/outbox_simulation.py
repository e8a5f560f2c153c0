"""A small simulation for property tests of the outbox.

A ledger in memory that can die at any commit, and an exchange that goes on.
"""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from sqlite_utils import Database

from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import (
    ExecutionMode,
    GateDecision,
    HoldDecision,
    Intent,
    IntentAction,
    IntentState,
    SendDecision,
    SubmissionBatch,
    WriteReceipt,
)
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.store.connections import StatementValues
from bot.store.event_log import EventLog
from bot.store.forecasts import ForecastStore
from bot.store.ledger import Ledger, open_ledger
from bot.store.permissions import PermissionStore
from bot.store.questions import QuestionStore
from bot.store.schedule import ScheduleStore
from bot.store.submissions import BatchRow, SubmissionStore
from bot.testing.clock import START, FakeClock
from bot.testing.exchange import FakeExchange
from tests.recorded_forecasts import record_forecast

VENUE, ACCOUNT = "lantern", "me"
KEYS = ("rain", "snow", "hail")
REVISIONS = 6
CAP = 100.0
T = TypeVar("T")

AT_STAKE = "select coalesce(sum(cost), 0) from intent where state not in ('refused', 'superseded')"


class ProcessKilled(BaseException):
    """The process is gone."""


class KillCountdown:
    """Counts down the moments at which the process may end; at none of them while ``left`` is None."""

    def __init__(self) -> None:
        self.left: int | None = None

    def moment(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            raise ProcessKilled
        self.left -= 1


class InMemoryRuns:
    """Runs closures on one connection in memory, each in a transaction that may be the last."""

    def __init__(self, database: Database, dying: KillCountdown) -> None:
        self._database = database
        self._dying = dying

    async def run(self, work: Callable[[Database], T]) -> T:
        execute = self._database.conn.execute
        self._dying.moment()
        execute("begin immediate")
        try:
            value = work(self._database)
            self._dying.moment()
        except BaseException:
            execute("rollback")
            raise
        execute("commit")
        self._dying.moment()
        return value

    run_halted = lookup = run

    async def lookup_rows(self, statement: str, values: StatementValues = ()) -> list[Any]:
        return await self.run(lambda database: database.conn.execute(statement, values).fetchall())


class CheckedExchange(FakeExchange):
    """Watches that nothing is written while the brake is on, and may see its caller die before and after a write."""

    def __init__(self, clock: FakeClock, dying: KillCountdown, kill_switch: KillSwitch) -> None:
        super().__init__(clock)
        self._dying = dying
        self._brake = kill_switch

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        assert self._brake.halt_reason() is None
        self._dying.moment()
        receipts = await super().submit(batch)
        self._dying.moment()
        return receipts

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self._dying.moment()
        return await super().read_submissions(batch)


class OutboxSimulation:
    """One run of the program after another over the same ledger, exchange and clock."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="foxcast-world-"))
        self.clock = FakeClock()
        self.dying = KillCountdown()
        self.database = _copy()
        # Dying while reading is dying before the next write.
        runs, reads = InMemoryRuns(self.database, self.dying), InMemoryRuns(self.database, KillCountdown())
        self.submissions = SubmissionStore(runs, reads)
        self.kill_switch = KillSwitch(stop_file=self.folder / "STOP", ledger_file=self.folder / "ledger.sqlite")
        self.exchange = CheckedExchange(self.clock, self.dying, self.kill_switch)
        self.ledger = cast(
            "Ledger",
            SimpleNamespace(
                submissions=self.submissions,
                questions=QuestionStore(runs, runs),
                forecasts=ForecastStore(runs, reads),
                schedule=ScheduleStore(runs, reads),
                journal=EventLog(runs, runs),
                permissions=PermissionStore(runs, reads),
            ),
        )
        self.forecasts = ForecastStore(runs, reads)
        self.revision = dict.fromkeys(KEYS, 1)
        self._runner = asyncio.Runner()
        self.outbox = self.started()

    def close(self) -> None:
        self._runner.close()
        self.database.close()
        shutil.rmtree(self.folder)

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def started(self) -> Outbox:
        """A new process: nothing is known but what is on disk."""

        async def ready(_: BatchRow, __: datetime) -> bool:
            return True

        return Outbox(
            ledger=self.ledger,
            submitters={VENUE: self.exchange},
            clock=self.clock,
            kill_switch=self.kill_switch,
            is_batch_ready=ready,
            modes={VENUE: ExecutionMode.LIVE},
        )

    def survive(self, work: Callable[[], Any], after: int | None) -> bool:
        """Do the work, or die at that moment of it, if any, and start again; returns whether it died."""
        self.dying.left = after
        try:
            self.run(work())
        except ProcessKilled:
            self.dying.left = None
            self.outbox = self.started()
            self.run(self.outbox.recover())
            return True
        finally:
            self.dying.left = None
        return False

    async def decide(self, key: str, cost: float) -> None:
        """As the gate does: over a new forecast, or one whose hold has run out, and never beyond the cap."""
        forecast = await self.forecasts.get(_forecast_id(key, self.revision[key]))
        undecided = await self.forecasts.undecided(100)
        held = await self.forecasts.held(100, now=self.clock.now())
        if forecast not in [*undecided, *held]:
            return

        def rule(database: Database) -> GateDecision:
            (used,) = database.execute(AT_STAKE).fetchone()
            if used + cost > CAP:
                return HoldDecision(why="the cap", until=self.clock.now())
            return SendDecision(intent=_intent(forecast, cost), mode=ExecutionMode.LIVE, why="armed")

        await self.submissions.decide_by(rule, forecast_id=forecast.id, at=self.clock.now())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self.database.conn.execute(sql).fetchall())

    def states(self) -> dict[str, IntentState]:
        return {name: IntentState(state) for name, state in self.rows("select id, state from intent")}

    def snapshot(self) -> list[tuple[Any, ...]]:
        tables = ("intent", "attempt", "fill", "decision", "event", "audit")
        return [row for table in tables for row in self.rows(f"select * from {table} order by 1, 2")]  # noqa: S608 - constants


def _intent(forecast: Forecast, cost: float) -> Intent:
    name = derive_id("intent", forecast.id)
    return Intent(
        id=name,
        account=ACCOUNT,
        ref=forecast.ref,
        forecast=forecast.id,
        action=IntentAction.ORDER,
        predictions=forecast.predictions,
        batch=name,
        order=Order(
            contract=forecast.ref.key,
            leg=ContractSide.YES,
            side=OrderSide.BUY,
            shares=2 * cost,
            limit=0.5,
            cost=cost,
            expected=0.5,
            currency="COIN",
        ),
    )


def _forecast_id(key: str, revision: int) -> str:
    return derive_id("forecast", f"{VENUE}:{key}", "plain", str(revision))


def _copy() -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with closing(sqlite3.connect(_blank())) as source:
        source.backup(connection)
    connection.execute("pragma foreign_keys = on")
    return Database(connection, recursive_triggers=False, execute_plugins=False)


@cache
def _blank() -> Path:
    """A ledger with some forecasts of some questions, made once."""
    folder = Path(tempfile.mkdtemp(prefix="foxcast-blank-"))
    asyncio.run(_make(folder / "ledger.sqlite"))
    return folder / "ledger.sqlite"


async def _make(path: Path) -> None:
    now = START
    async with open_ledger(path, now=now) as ledger:
        for key in KEYS:
            question = Question(
                ref=QuestionRef(VENUE, key), title=f"{key}?", shape=BinaryShape(), targets=(Target(),), as_of=None
            )
            await ledger.questions.record([question], seen_at=now)
            for _ in range(REVISIONS):
                await record_forecast(ledger, question, {"outcome": BinaryPrediction(0.7)}, now)
