import asyncio

import pytest
from structlog.testing import capture_logs

from bot.errors import Unavailable
from bot.llm.errands import Alarm, Errands
from bot.testing.clock import FakeClock
from bot.testing.loop import VirtualClock, simulate


async def test_an_errand_goes_on_when_its_caller_is_gone() -> None:
    errands, go, done = Errands(), asyncio.Event(), list[str]()

    async def work() -> None:
        await go.wait()
        done.append("done")

    async def caller() -> None:
        await asyncio.shield(errands.begin(work()))

    calling = asyncio.create_task(caller())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    go.set()
    await errands.finish()
    assert done == ["done"]


async def test_a_notifier_that_fails_is_logged_and_hurts_nobody() -> None:
    async def alert(subject: str, text: str) -> None:
        raise Unavailable(subject)

    errands = Errands()
    with capture_logs() as logs:
        Alarm(alert, errands=errands, clock=FakeClock()).tell("key", "Budget reached", "All of it.")
        await errands.finish()
    assert [entry["error"] for entry in logs] == ["Unavailable: Budget reached"]


def test_a_notifier_that_hangs_does_not_hold_up_the_end() -> None:
    async def alert(subject: str, text: str) -> None:
        await asyncio.Event().wait()

    async def main(clock: VirtualClock) -> float:
        errands = Errands()
        Alarm(alert, errands=errands, clock=clock).tell("key", "Budget reached", "All of it.")
        await errands.finish()
        return clock.monotonic()

    assert simulate(main) == 10.0


async def test_the_same_is_told_once_a_day() -> None:
    told: list[str] = []

    async def alert(subject: str, text: str) -> None:
        told.append(subject)

    errands, clock = Errands(), FakeClock()
    alarm = Alarm(alert, errands=errands, clock=clock)
    for key in ["a", "a", "b", "a"]:
        alarm.tell(key, key, "")
    clock.step(86_400)
    alarm.tell("a", "a again", "")
    await errands.finish()
    assert told == ["a", "b", "a again"]


def test_the_keyboard_is_no_failure_of_the_errand_that_it_hit() -> None:
    errands = Errands()

    async def hit() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        errands.begin(hit())
        await asyncio.Event().wait()

    with capture_logs() as logs, pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert logs == []
