import asyncio

import pytest
from structlog.testing import capture_logs

from bot.core.errors import ServiceUnavailableError
from bot.llm.background_tasks import BackgroundTasks, DailyAlerts
from bot.testing.clock import FakeClock
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


async def test_an_errand_goes_on_when_its_caller_is_gone() -> None:
    errands, go, done = BackgroundTasks(), asyncio.Event(), list[str]()

    async def work() -> None:
        await go.wait()
        done.append("done")

    async def caller() -> None:
        await asyncio.shield(errands.start_task(work()))

    calling = asyncio.create_task(caller())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    go.set()
    await errands.wait_for_all()
    assert done == ["done"]


async def test_a_notifier_that_fails_is_logged_and_hurts_nobody() -> None:
    async def alert(subject: str, text: str) -> None:
        raise ServiceUnavailableError(subject)

    errands = BackgroundTasks()
    with capture_logs() as logs:
        DailyAlerts(alert, tasks=errands, clock=FakeClock()).alert_once("key", "Budget reached", "All of it.")
        await errands.wait_for_all()
    assert [entry["error"] for entry in logs] == ["ServiceUnavailableError: Budget reached"]


def test_a_notifier_that_hangs_does_not_hold_up_the_end() -> None:
    async def alert(subject: str, text: str) -> None:
        await asyncio.Event().wait()

    async def main(clock: VirtualClock) -> float:
        errands = BackgroundTasks()
        DailyAlerts(alert, tasks=errands, clock=clock).alert_once("key", "Budget reached", "All of it.")
        await errands.wait_for_all()
        return clock.monotonic()

    assert run_in_virtual_time(main) == 10.0


async def test_the_same_is_told_once_a_day() -> None:
    told: list[str] = []

    async def alert(subject: str, text: str) -> None:
        told.append(subject)

    errands, clock = BackgroundTasks(), FakeClock()
    alarm = DailyAlerts(alert, tasks=errands, clock=clock)
    for key in ["a", "a", "b", "a"]:
        alarm.alert_once(key, key, "")
    clock.set_wall_clock(86_400)
    alarm.alert_once("a", "a again", "")
    await errands.wait_for_all()
    assert told == ["a", "b", "a again"]


def test_the_keyboard_is_no_failure_of_the_errand_that_it_hit() -> None:
    errands = BackgroundTasks()

    async def hit() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        errands.start_task(hit())
        await asyncio.Event().wait()

    with capture_logs() as logs, pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert logs == []
