"""Virtual time: an event loop that jumps to its next timer when idle, so that weeks pass in seconds.

Asyncio and APScheduler run on it unchanged.
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

# How long, in real seconds, an idle loop without timers waits for a thread before it counts as deadlocked.
DEADLOCK_LIMIT_S = 5.0
_THREAD_POLL_S = 2e-4
CLOCK_MODULES = ("apscheduler.schedulers.base", "apscheduler.executors.base", "apscheduler.triggers.interval")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the loop's time to it."""

    def __init__(self, *, in_step: bool, patience_s: float, grace_s: float) -> None:
        super().__init__()
        self.elapsed_s = 0.0
        self._patience_s = patience_s
        self._grace_s = grace_s
        self.threads_busy: Callable[[], bool] = lambda: False
        # Calls that threads made in step, by thread, until the loop's next turn; set with each of them.
        self.thread_callbacks: list[tuple[Thread, Callable[[], object]]] = []
        self.thread_news = Event()
        self.in_step = in_step
        # Each has a unique number: one that was used is not given again.
        self._threads: WeakKeyDictionary[Thread, int] = WeakKeyDictionary()
        self._numbers = count()
        # Turns of the loop in which something happens, and the listeners for them.
        self.turns = 0
        self.on_turn: Callable[[int], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.in_step:
            self.wait_for_threads()
        ready = super().select(0)
        if self._hear_threads() or ready or (timeout is not None and timeout <= 0):
            self.turns += 1
            self.on_turn(self.turns)
            return ready
        if timeout is None or self.threads_busy():
            return self._wait_for_threads()
        if self._grace_s:
            self.thread_news.wait(self._grace_s)
            if late := super().select(0):
                return late
        self.elapsed_s += timeout
        return []

    def wait_for_threads(self) -> None:
        """Wait for the work of all threads, so that their speed does not decide what the loop sees first."""
        for _ in range(round(self._patience_s / _THREAD_POLL_S)):
            if not self.threads_busy():
                return
            self.thread_news.wait(_THREAD_POLL_S)
            self.thread_news.clear()
        message = "deadlock: a thread does not finish its work"
        raise RuntimeError(message)

    def _hear_threads(self) -> bool:
        """Run the calls of threads in the order in which the threads were first seen: their speed has no effect."""
        if not self.thread_callbacks:
            return False
        callbacks, self.thread_callbacks = self.thread_callbacks, []
        for thread, _ in callbacks:
            if thread not in self._threads:
                self._threads[thread] = next(self._numbers)
        for _, do in sorted(callbacks, key=lambda one: self._threads[one[0]]):
            do()
        return True

    def _wait_for_threads(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(self._patience_s)
        if not ready:
            message = "deadlock: the loop is idle, has no timer it may jump to, and no thread responds"
            raise RuntimeError(message)
        return ready


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose time is virtual.

    Time stands still while work runs in an executor. ``busy`` returns the same for other threads, a database writer for
    instance; a thread that the loop does not know would make the trace depend on its real speed. With ``in_step`` the
    loop takes no turn while they are busy. ``patience_s`` is how long, in real seconds, it waits for them. Connections
    to outside this process, or this loop, may deliver a moment later: the loop waits ``grace_s`` for them before each
    jump.
    """

    def __init__(
        self,
        busy: Callable[[], bool] = lambda: False,
        *,
        in_step: bool = False,
        patience_s: float = DEADLOCK_LIMIT_S,
        grace_s: float = 0.0,
    ) -> None:
        self._jumping = _JumpingSelector(in_step=in_step, patience_s=patience_s, grace_s=grace_s)
        super().__init__(self._jumping)
        # A timer counts as due this early. In simulated years two neighbouring floats differ by more than the real
        # clock's nanosecond, and the loop would wait for a timer that is never quite due in zero steps for ever.
        self._clock_resolution = 1e-6
        self._in_executor = 0
        self._owner = current_thread()
        self._jumping.threads_busy = lambda: self._in_executor > 0 or busy()

    def time(self) -> float:
        return self._jumping.elapsed_s

    @property
    def turns(self) -> int:
        """In how many turns something happened: between any two of them a process may be killed."""
        return self._jumping.turns

    def on_turn(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with the number of each such turn, before what happens in it."""
        self._jumping.on_turn = listener

    def pass_time_blocking(self, seconds: float) -> None:
        """Advance the time without yielding, as a computation on the loop does."""
        self._jumping.elapsed_s += seconds

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call it in the loop's next turn; calls that other threads make in step wait until all of them are done."""
        jumping = self._jumping
        if not jumping.in_step or current_thread() is self._owner:
            return super().call_soon_threadsafe(callback, *args, context=context)
        jumping.thread_callbacks.append((current_thread(), lambda: self.call_soon(callback, *args, context=context)))
        jumping.thread_news.set()
        return asyncio.Handle(callback, args, self, context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._in_executor += 1
        future.add_done_callback(self._left_executor)
        return future

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executor -= 1


class VirtualClock:
    """Implements Clock on a virtual loop; ``set_wall_clock`` sets the wall clock apart from the monotonic one.

    ``steps`` counts how often it was set.
    """

    def __init__(self, loop: VirtualEventLoop, start: datetime = START) -> None:
        self.loop = loop
        self.wall_clock_changes = 0
        self._zero = start

    def now(self) -> datetime:
        return self._zero + timedelta(seconds=self.loop.time())

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = self.loop.create_future()
        self.loop.call_later(seconds, _wake_sleeper, woken)
        await woken

    def set_wall_clock(self, seconds: float) -> None:
        """Set the wall clock forward, or back where negative; monotonic time is not changed."""
        self._zero += timedelta(seconds=seconds)
        self.wall_clock_changes += seconds != 0.0


class EventTrace:
    """The events, in order; two runs with the same seed have the same digest."""

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


def run_in_virtual_time(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]],
    *,
    start: datetime = START,
    busy: Callable[[], bool] = lambda: False,
    make: Callable[[], VirtualEventLoop] | None = None,
) -> T:
    """Run ``main`` in virtual time from ``start`` and return its result; raises RuntimeError when it deadlocks.

    ``make`` makes the loop, where another kind of loop is needed.
    """
    clock: VirtualClock

    def loop() -> VirtualEventLoop:
        nonlocal clock
        made = VirtualEventLoop(busy) if make is None else make()
        clock = VirtualClock(made, start)
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.get_loop()
        with simulated_scheduler_time(clock):
            return runner.run(main(clock))


@contextmanager
def simulated_scheduler_time(clock: VirtualClock) -> Iterator[None]:
    """While entered, let APScheduler take the time from this clock."""

    class Simulated(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            moment = clock.now().astimezone(tz)
            return cls.combine(moment.date(), moment.timetz())

    with ExitStack() as seams:
        for module in CLOCK_MODULES:
            seams.enter_context(patch(f"{module}.datetime", Simulated))
        yield


def _wake_sleeper(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
