"""Virtual time: an event loop that jumps to its next timer when idle, so that weeks pass in seconds.

Everything above it is real: asyncio, timeouts, and APScheduler itself. APScheduler 3.11 takes no clock; it asks
``datetime.now`` under that name in three of its modules. The name is the seam: while ``simulate`` runs, it answers with
the simulated wall clock, and no line of the scheduler is replaced.
"""

import asyncio
import hashlib
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from contextvars import Context
from datetime import datetime, timedelta, tzinfo
from itertools import count
from threading import Event, Thread, current_thread
from typing import Any, Self, TypeVar, TypeVarTuple
from unittest.mock import patch
from weakref import WeakKeyDictionary

from bot.testing.clock import START

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# How long, in real seconds, an idle loop without timers waits for a thread before it is called deadlocked.
PATIENCE_S = 5.0
_LOOK_S = 2e-4
ASKING = ("apscheduler.schedulers.base", "apscheduler.executors.base", "apscheduler.triggers.interval")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the loop's time to it."""

    def __init__(self, *, in_step: bool, patience_s: float, grace_s: float) -> None:
        super().__init__()
        self.elapsed_s = 0.0
        self._patience_s = patience_s
        self._grace_s = grace_s
        self.threads_busy: Callable[[], bool] = lambda: False
        # What threads told the loop in step, by thread, until its next turn; set with each of them.
        self.told: list[tuple[Thread, Callable[[], object]]] = []
        self.news = Event()
        self.in_step = in_step
        # Each has a number of its own: that of one that is gone is not given again.
        self._threads: WeakKeyDictionary[Thread, int] = WeakKeyDictionary()
        self._numbers = count()
        # Turns of the loop in which something happens, and who wants to know.
        self.turns = 0
        self.on_turn: Callable[[int], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.in_step:
            self.let_threads_end()
        ready = super().select(0)
        if self._hear_threads() or ready or (timeout is not None and timeout <= 0):
            self.turns += 1
            self.on_turn(self.turns)
            return ready
        if timeout is None or self.threads_busy():
            return self._wait_for_threads()
        if self._grace_s:
            self.news.wait(self._grace_s)
            if late := super().select(0):
                return late
        self.elapsed_s += timeout
        return []

    def let_threads_end(self) -> None:
        """Wait for all that threads have to do, so that it does not depend on their speed what the loop sees first."""
        for _ in range(round(self._patience_s / _LOOK_S)):
            if not self.threads_busy():
                return
            self.news.wait(_LOOK_S)
            self.news.clear()
        message = "deadlock: a thread does not end what it was asked for"
        raise RuntimeError(message)

    def _hear_threads(self) -> bool:
        """Do what threads told the loop, those first that were heard first ever: their speed does not show."""
        if not self.told:
            return False
        told, self.told = self.told, []
        for thread, _ in told:
            if thread not in self._threads:
                self._threads[thread] = next(self._numbers)
        for _, do in sorted(told, key=lambda one: self._threads[one[0]]):
            do()
        return True

    def _wait_for_threads(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(self._patience_s)
        if not ready:
            message = "deadlock: the loop is idle, has no timer it may jump to, and no thread answers"
            raise RuntimeError(message)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose time is virtual.

    Time stands still while work runs in an executor. ``busy`` says the same of other threads, a database writer for
    instance; a thread that the loop does not know of would make the trace depend on its real speed. ``in_step``, the
    loop takes no turn while they are busy. ``patience_s`` is how long, in real seconds, it waits for them. Connections
    that leave this process, or this loop, may deliver a moment later: ``grace_s`` is waited for them before each jump.
    """

    def __init__(
        self,
        busy: Callable[[], bool] = lambda: False,
        *,
        in_step: bool = False,
        patience_s: float = PATIENCE_S,
        grace_s: float = 0.0,
    ) -> None:
        self._jumping = _JumpingSelector(in_step=in_step, patience_s=patience_s, grace_s=grace_s)
        super().__init__(self._jumping)
        # A timer counts as due this early. In simulated years two neighbouring floats differ by more than the real
        # clock's nanosecond, and a timer that is never quite due would be waited for in zero steps for ever.
        self._clock_resolution = 1e-6
        self._in_executor = 0
        self._owner = current_thread()
        self._jumping.threads_busy = lambda: self._in_executor > 0 or busy()

    def time(self) -> float:
        return self._jumping.elapsed_s

    @property
    def turns(self) -> int:
        """How many turns something happened in: between any two of them a process may be killed."""
        return self._jumping.turns

    def on_turn(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with the number of each such turn, before what happens in it."""
        self._jumping.on_turn = listener

    def block(self, seconds: float) -> None:
        """Pass the time without giving way, as a computation on the loop does."""
        self._jumping.elapsed_s += seconds

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call it in the loop's next turn; what another thread asks for in step waits until all of them are done."""
        jumping = self._jumping
        if not jumping.in_step or current_thread() is self._owner:
            return super().call_soon_threadsafe(callback, *args, context=context)
        jumping.told.append((current_thread(), lambda: self.call_soon(callback, *args, context=context)))
        jumping.news.set()
        return asyncio.Handle(callback, args, self, context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._in_executor += 1
        future.add_done_callback(self._left_executor)
        return future

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executor -= 1


class VirtualClock:
    """Implements the port Clock on a virtual loop; ``step`` sets the wall clock apart from the monotonic one.

    ``steps`` counts how often it was set.
    """

    def __init__(self, loop: VirtualLoop, start: datetime = START) -> None:
        self.loop = loop
        self.steps = 0
        self._zero = start

    def now(self) -> datetime:
        return self._zero + timedelta(seconds=self.loop.time())

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = self.loop.create_future()
        self.loop.call_later(seconds, _wake, woken)
        await woken

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back where negative; monotonic time does not notice."""
        self._zero += timedelta(seconds=seconds)
        self.steps += seconds != 0.0


class Trace:
    """What happened, in order; two runs with the same seed have the same digest."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.length = 0

    def add(self, *words: object) -> None:
        """Note one event."""
        self._digest.update("\x1f".join(map(str, words)).encode() + b"\n")
        self.length += 1

    def digest(self) -> str:
        """Return the SHA-256 of all events so far, in hex."""
        return self._digest.hexdigest()


def simulate(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]],
    *,
    start: datetime = START,
    busy: Callable[[], bool] = lambda: False,
    make: Callable[[], VirtualLoop] | None = None,
) -> T:
    """Run ``main`` in virtual time from ``start`` and return its result; raises RuntimeError when it deadlocks.

    ``make`` makes the loop, where it is to be of another kind.
    """
    clock: VirtualClock

    def loop() -> VirtualLoop:
        nonlocal clock
        made = VirtualLoop(busy) if make is None else make()
        clock = VirtualClock(made, start)
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.get_loop()
        with scheduler_time(clock):
            return runner.run(main(clock))


@contextmanager
def scheduler_time(clock: VirtualClock) -> Iterator[None]:
    """While entered, let APScheduler take the time from this clock."""

    class Simulated(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            moment = clock.now().astimezone(tz)
            return cls.combine(moment.date(), moment.timetz())

    with ExitStack() as seams:
        for module in ASKING:
            seams.enter_context(patch(f"{module}.datetime", Simulated))
        yield


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
