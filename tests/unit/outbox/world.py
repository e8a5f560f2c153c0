"""A small world for property tests: a ledger in memory that can die at any commit, beside an exchange that goes on."""

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

from bot.domain.forecast import Forecast
from bot.domain.order import Leg, Order, Side
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.submission import Batch, Decision, Hold, Intent, IntentAction, IntentState, Mode, Receipt, Send
from bot.gate.brake import Brake
from bot.ids import derive_id
from bot.outbox.outbox import Outbox
from bot.store.forecasts import Forecasts
from bot.store.journal import Journal
from bot.store.leave import Leave
from bot.store.ledger import Ledger, open_ledger
from bot.store.questions import Questions
from bot.store.schedule import Schedule
from bot.store.submissions import BatchRow, Submissions
from bot.testing.clock import START, FakeClock
from bot.testing.exchange import MemoryExchange
from bot.testing.records import forecast_on_record

VENUE, ACCOUNT = "lantern", "me"
KEYS = ("rain", "snow", "hail")
REVISIONS = 6
CAP = 100.0
T = TypeVar("T")

AT_STAKE = "select coalesce(sum(cost), 0) from intent where state not in ('refused', 'superseded')"


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """Counts down the moments at which the process may end; at none of them while ``left`` is None."""

    def __init__(self) -> None:
        self.left: int | None = None

    def moment(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            raise Killed
        self.left -= 1


class Direct:
    """Runs closures on one connection in memory, each in a transaction that may be the last."""

    def __init__(self, database: Database, dying: Dying) -> None:
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

    run_halted = run


class Exchange(MemoryExchange):
    """Watches that nothing is written while the brake is on, and may see its caller die before and after a write."""

    def __init__(self, clock: FakeClock, dying: Dying, brake: Brake) -> None:
        super().__init__(clock)
        self._dying = dying
        self._brake = brake

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        assert self._brake.holds() is None
        self._dying.moment()
        receipts = await super().submit(batch)
        self._dying.moment()
        return receipts

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        self._dying.moment()
        return await super().standing(batch)


class World:
    """One run of the program after another over the same ledger, exchange and clock."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="foxcast-world-"))
        self.clock = FakeClock()
        self.dying = Dying()
        self.database = _copy()
        # Dying while reading is dying before the next write.
        runs, reads = Direct(self.database, self.dying), Direct(self.database, Dying())
        self.submissions = Submissions(runs, reads)
        self.brake = Brake(stop_file=self.folder / "STOP", ledger=self.folder / "ledger.sqlite")
        self.exchange = Exchange(self.clock, self.dying, self.brake)
        self.ledger = cast(
            "Ledger",
            SimpleNamespace(
                submissions=self.submissions,
                questions=Questions(runs, runs),
                forecasts=Forecasts(runs, reads),
                schedule=Schedule(runs, reads),
                journal=Journal(runs, runs),
                leave=Leave(runs, reads),
            ),
        )
        self.forecasts = Forecasts(runs, reads)
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
            brake=self.brake,
            ready=ready,
            modes={VENUE: Mode.LIVE},
        )

    def survive(self, work: Callable[[], Any], after: int | None) -> bool:
        """Do the work, or die at that moment of it, if any, and start again; returns whether it died."""
        self.dying.left = after
        try:
            self.run(work())
        except Killed:
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

        def rule(database: Database) -> Decision:
            (used,) = database.execute(AT_STAKE).fetchone()
            if used + cost > CAP:
                return Hold(why="the cap", until=self.clock.now())
            return Send(intent=_intent(forecast, cost), mode=Mode.LIVE, why="armed")

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
            leg=Leg.YES,
            side=Side.BUY,
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
                await forecast_on_record(ledger, question, {"outcome": Binary(0.7)}, now)
