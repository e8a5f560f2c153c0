"""Lives of a small Foxcast, each in a process of its own that is forked here and may kill itself: read from stdin.

A life opens the ledger as it lies, takes up what the one before left, decides over forecasts, sends and reconciles
until all is settled. It ends itself with SIGKILL at the n-th moment before or after a commit, inside a transaction, or
before or after a request to the venue.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import structlog
from pydantic import SecretStr
from sqlite_utils import Database

from bot.clock import SeededRandom, SystemClock
from bot.domain.forecast import Forecast
from bot.domain.order import Leg, Order, Side
from bot.domain.submission import Decision, Hold, Intent, IntentAction, Mode, Send
from bot.domain.wire import Reply, Request
from bot.gate.brake import Brake
from bot.http import HttpLimits, HttpReader
from bot.ids import derive_id
from bot.outbox.outbox import Outbox
from bot.ports import Sealer, Wire
from bot.rates import Rates
from bot.specs import WriterPlace
from bot.store.ledger import Ledger, open_ledger
from bot.store.runs import Runs
from bot.store.submissions import BatchRow
from bot.testing.book import MemoryBook
from bot.wire import HttpWire
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.writer import MetaculusWriter
from tests.crash.bazaar import BazaarWriter

T = TypeVar("T")
TOKEN = "5f1d0b7e" * 5
ACCOUNT, CAP, COST = "default", 60.0, 10.0
PASSES = 400
UNSETTLED = """
select (select count(*) from intent where state not in ('acked', 'refused', 'superseded', 'in doubt'))
     + (select count(*) from forecast where decided_at is null)
     + (select count(*) from intent i join attempt a on a.intent = i.id
        where i.action = 'order' and i.state = 'acked' and a.state = 'acked' and a.settled_at < a.fence_at)
"""
NEWEST_HELD = """
select count(*) from decision d where d.until is not null and d.id = (
  select max(id) from decision where forecast = d.forecast)
"""
USED = "select coalesce(sum(cost), 0) from intent where state not in ('refused', 'superseded')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a life is told. ``kill_at`` is the moment at which it ends, None for one that may finish.

    ``began`` and ``factor`` make its clock: real seconds since then, that many times faster, from the epoch ``start``.
    """

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


class FastClock:
    """Wall time that runs faster than it does, the same in all processes that begin from the same moment."""

    def __init__(self, *, began: float, factor: float, start: float) -> None:
        self._began, self._factor, self._start = began, factor, start

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._start + self.monotonic(), tz=UTC)

    def monotonic(self) -> float:
        return (time.time() - self._began) * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)


class Fuse:
    """Ends this process at the n-th moment, after a note of where that was."""

    def __init__(self, kill_at: int | None, notes: str) -> None:
        self._left = kill_at
        self._notes = notes

    def moment(self, where: str) -> None:
        if self._left is None:
            return
        if self._left == 0:
            with Path(self._notes).open("a", encoding="ascii") as file:
                file.write(where + "\n")
                file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class MortalRuns:
    """The writer of a ledger, with three moments to die at around each commit."""

    def __init__(self, runs: Runs, fuse: Fuse) -> None:
        self._runs, self._fuse = runs, fuse

    async def run(self, work: Callable[[Database], T]) -> T:
        def mortal(database: Database) -> T:
            value = work(database)
            self._fuse.moment("inside a transaction")
            return value

        self._fuse.moment("before a commit")
        value = await self._runs.run(mortal)
        self._fuse.moment("after a commit")
        return value


class MortalWire:
    """A wire with a moment to die at before and after each request."""

    def __init__(self, wire: Wire, fuse: Fuse) -> None:
        self._wire, self._fuse = wire, fuse

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        self._fuse.moment("before the wire")
        # Now and then while the request is under way, so that only the venue knows how far it came.
        task = asyncio.ensure_future(self._wire.send(request, max_bytes=max_bytes, deadline_s=deadline_s))
        await asyncio.wait({task}, timeout=0.004)
        self._fuse.moment("on the wire")
        reply = await task
        self._fuse.moment("after the wire")
        return reply


async def live(life: Life) -> None:
    """Work until nothing is left to do."""
    clock = FastClock(began=life.began, factor=life.factor, start=life.start)
    fuse = Fuse(life.kill_at, life.notes)
    mode = Mode(life.mode)
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(open_ledger(Path(life.ledger), now=clock.now()))
        mortal = replace(ledger.submissions, writer=MortalRuns(ledger.submissions.writer, fuse))
        ledger = replace(ledger, submissions=mortal)
        writer = await _writer(life, clock, fuse, stack)
        brake = Brake(stop_file=Path(life.ledger).with_name("STOP"), ledger=Path(life.ledger))

        async def unarmed(_: Intent) -> str | None:
            return None if life.armed else "not armed"

        outbox = Outbox(
            ledger=ledger,
            submitters={life.venue: writer},
            clock=clock,
            brake=brake,
            ready=_at_once,
            recheck=unarmed,
            modes={life.venue: mode},
        )
        await outbox.recover()
        for _ in range(PASSES):
            if brake.holds() is None and await _decide(ledger, clock, life):
                return
            await outbox.flush()
            await outbox.reconcile()
            if not life.armed or brake.holds() is not None:
                return
            await clock.sleep(15.0)
    sys.exit(3)


async def _at_once(_: BatchRow, __: datetime) -> bool:
    return True


async def _writer(life: Life, clock: FastClock, fuse: Fuse, stack: AsyncExitStack) -> Sealer | MemoryBook:
    if Mode(life.mode) is Mode.PAPER:
        return MemoryBook()
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    http = await stack.enter_async_context(HttpReader(clock=SystemClock(), random=SeededRandom(1), limits=limits))
    rates = Rates((), clock=SystemClock(), random=SeededRandom(1))
    wire = MortalWire(await stack.enter_async_context(HttpWire(rates=rates)), fuse)
    if life.venue == "bazaar":
        return BazaarWriter(url=life.url, clock=clock, http=http, wire=wire)
    settings = MetaculusSettings(token=SecretStr(TOKEN), base_url=life.url, tournaments=("sample-aib",))
    return MetaculusWriter(settings, WriterPlace(clock=clock, http=http, folder=Path(life.ledger).parent, wire=wire))


async def _decide(ledger: Ledger, clock: FastClock, life: Life) -> bool:
    """As the gate does: within the cap, armed, once a forecast; returns whether nothing is left to do."""
    now = clock.now()
    for forecast in [*await ledger.forecasts.undecided(100), *await ledger.forecasts.held(100, now=now)]:
        await ledger.submissions.decide_by(_rule(forecast, life, now), forecast_id=forecast.id, at=now)

    def left(database: Database) -> int:
        (unsettled,), (held,) = database.execute(UNSETTLED).fetchone(), database.execute(NEWEST_HELD).fetchone()
        return int(unsettled) + int(held)

    return await ledger.submissions.readers.run(left) == 0


def _rule(forecast: Forecast, life: Life, now: datetime) -> Callable[[Database], Decision]:
    def rule(database: Database) -> Decision:
        (used,) = database.execute(USED).fetchone()
        if not life.armed:
            return Hold(why="not armed", until=now)
        if life.venue == "bazaar" and used + COST > CAP:
            return Hold(why="the cap", until=now + timedelta(seconds=30))
        return Send(intent=_intent(forecast, life), mode=Mode(life.mode), why="armed")

    return rule


def _intent(forecast: Forecast, life: Life) -> Intent:
    action = IntentAction.ORDER if life.venue == "bazaar" else IntentAction.FORECAST
    name = derive_id("intent", life.venue, ACCOUNT, str(forecast.ref), forecast.id, action)
    order = Order(
        contract=forecast.ref.key,
        leg=Leg.YES,
        side=Side.BUY,
        shares=2 * COST,
        limit=0.5,
        cost=COST,
        expected=0.5,
        currency="COIN",
    )
    return Intent(
        id=name,
        account=ACCOUNT,
        ref=forecast.ref,
        forecast=forecast.id,
        action=action,
        predictions=forecast.predictions,
        batch=name,
        order=order if action is IntentAction.ORDER else None,
    )


def serve() -> None:
    """Fork one life after the other as told, a line of JSON each; answer how each ended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if child == 0:
            _end(Life(**told))
        _, status = os.waitpid(child, 0)
        ended = "killed" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
        sys.stdout.write(ended + "\n")
        sys.stdout.flush()


def _end(life: Life) -> None:
    code = 1
    try:
        asyncio.run(live(life))
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException as error:  # noqa: BLE001 - the campaign reads of everything that goes wrong
        with Path(life.notes).open("a", encoding="utf-8") as file:
            file.write(f"error: {error!r}\n")
    finally:
        os._exit(code)


def told(life: Life) -> str:
    """Return the line that makes this life."""
    plain: dict[str, Any] = asdict(life)
    return json.dumps(plain)


if __name__ == "__main__":
    serve()
