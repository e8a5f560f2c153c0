import asyncio
import threading
import time
from datetime import timedelta
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from bot.testing.clock import START
from bot.testing.event_loop import EventTrace, VirtualClock, VirtualEventLoop, run_in_virtual_time


def test_a_year_of_sleep_passes_at_once() -> None:
    async def main(clock: VirtualClock) -> tuple[float, timedelta]:
        await clock.sleep(365 * 86_400)
        return clock.monotonic(), clock.now() - START

    # Within the time that one test may take: it would not end otherwise.
    assert run_in_virtual_time(main) == (365 * 86_400, timedelta(days=365))


def test_timeouts_of_asyncio_are_virtual_too() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return clock.monotonic()

    assert run_in_virtual_time(main) == pytest.approx(3600)


def test_time_stands_still_while_a_thread_of_the_executor_works() -> None:
    async def main(clock: VirtualClock) -> float:
        beat = asyncio.create_task(clock.sleep(0.001))
        await asyncio.to_thread(time.sleep, 0.05)
        elapsed = clock.monotonic()
        await beat
        return elapsed

    assert run_in_virtual_time(main) == 0.0


def test_time_stands_still_while_another_thread_says_it_is_busy() -> None:
    working = threading.Event()

    async def main(clock: VirtualClock) -> float:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            time.sleep(0.05)
            working.clear()
            loop.call_soon_threadsafe(done.set)

        working.set()
        thread = threading.Thread(target=work)
        thread.start()
        async with asyncio.timeout(3600):
            await done.wait()
        thread.join()
        return clock.monotonic()

    assert run_in_virtual_time(main, busy=working.is_set) == 0.0


def test_a_loop_in_which_nothing_can_happen_any_more_is_a_deadlock() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_in_virtual_time(main, make=lambda: VirtualEventLoop(patience_s=0.01))


def test_a_blocked_loop_delays_what_was_due_meanwhile() -> None:
    async def main(clock: VirtualClock) -> float:
        clock.loop.call_later(1.0, clock.loop.pass_time_blocking, 30.0)
        await clock.sleep(2.0)
        return clock.monotonic()

    assert run_in_virtual_time(main) == 31.0


def test_a_trace_depends_on_every_event_and_on_their_order() -> None:
    first, same, other = EventTrace(), EventTrace(), EventTrace()
    for trace, words in ((first, "ab"), (same, "ab"), (other, "ba")):
        for word in words:
            trace.add(word, 1)
    assert first.digest() == same.digest() != other.digest()
    assert first.length == 2


class Worker(Thread):
    """Says words to the loop, each once it may, and lets the next one speak."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__(daemon=True)
        self.asked = self.answered = 0
        self._heard = heard
        self._wanted: SimpleQueue[tuple[VirtualEventLoop, str, Event, Event]] = SimpleQueue()

    def ask(self, loop: VirtualEventLoop, word: str, *, after: Event, then: Event) -> None:
        self.asked += 1
        self._wanted.put((loop, word, after, then))

    def run(self) -> None:
        for loop, word, after, then in iter(self._wanted.get, None):
            after.wait()
            loop.call_soon_threadsafe(self._heard.append, word)
            self.answered += 1
            then.set()


def test_in_step_the_order_in_which_threads_are_heard_is_not_that_of_their_speed() -> None:
    heard: list[str] = []
    first, second = Worker(heard), Worker(heard)
    free, turn = Event(), Event()
    free.set()

    async def main(clock: VirtualClock) -> None:
        for worker in (first, second):
            worker.start()
            worker.ask(clock.loop, "begin", after=free, then=Event())
            await clock.sleep(1.0)
        first.ask(clock.loop, "slow", after=turn, then=Event())
        second.ask(clock.loop, "fast", after=free, then=turn)
        clock.loop.call_soon_threadsafe(heard.append, "own")
        await clock.sleep(1.0)

    def busy() -> bool:
        return any(worker.asked > worker.answered for worker in (first, second))

    run_in_virtual_time(main, make=lambda: VirtualEventLoop(busy, in_step=True))
    assert heard == ["begin", "begin", "own", "slow", "fast"]


def test_in_step_a_thread_that_never_ends_is_a_deadlock() -> None:
    async def main(clock: VirtualClock) -> None:
        await clock.sleep(1.0)

    # For all of the loop's patience; then it lets the loop be closed.
    busy = iter([True] * 50)
    with pytest.raises(RuntimeError, match="a thread does not finish"):
        run_in_virtual_time(
            main, make=lambda: VirtualEventLoop(lambda: next(busy, False), in_step=True, patience_s=0.01)
        )
