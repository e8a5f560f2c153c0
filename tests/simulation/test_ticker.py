"""Every trap of APScheduler 3.11 of docs/facts/reliability.md#scheduler, in virtual time.

Each shows what the stock scheduler does with its defaults, or what ours does instead. The stock half also tells when a
new release has mended a trap.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from apscheduler.events import EVENT_ALL
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from structlog.testing import capture_logs

import bot
from bot.daemon.scheduler import RETRY_S, SLOT_EPOCH, JobScheduler, SlotTrigger
from bot.testing.clock import START
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

Add = Callable[[AsyncIOScheduler, float, Callable[[], Awaitable[None]]], None]


class RecordedRuns:
    """The times, in seconds from the start, at which a job began; it takes as long as given."""

    def __init__(self, clock: VirtualClock, takes_s: float = 0.0) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.began: list[float] = []
        self.ended: list[float] = []
        self.cancelled = 0

    async def run(self) -> None:
        self.began.append(self.clock.monotonic())
        try:
            await self.clock.sleep(self.takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended.append(self.clock.monotonic())


class FailingTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """A trigger that names its first slot, then raises that many times, and works from then on."""

    def __init__(self, times: int) -> None:
        self.failures = [ValueError("no next time")] * times

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        if previous_fire_time is not None and self.failures:
            raise self.failures.pop()
        return now + timedelta(seconds=1)


def stock(scheduler: AsyncIOScheduler, every_s: float, run: Callable[[], Awaitable[None]]) -> None:
    scheduler.add_job(run, IntervalTrigger(seconds=every_s, timezone=UTC))


def ours(scheduler: AsyncIOScheduler, every_s: float, run: Callable[[], Awaitable[None]]) -> None:
    scheduler.add_job(run, SlotTrigger(every=timedelta(seconds=every_s)))


def new_stock() -> AsyncIOScheduler:
    return AsyncIOScheduler(timezone=UTC)


def new_ours() -> AsyncIOScheduler:
    return JobScheduler(seed=0)


async def watch(clock: VirtualClock, scheduler: AsyncIOScheduler, seconds: float) -> None:
    """Run the scheduler that long, then shut it down."""
    scheduler.start()
    await clock.sleep(seconds)
    scheduler.shutdown(wait=False)
    await clock.sleep(0)


@pytest.mark.parametrize(("new", "add", "began"), [(new_stock, stock, []), (new_ours, ours, [5.4])])
def test_a_loop_blocked_across_the_only_slot_loses_it_by_default_and_not_with_us(
    new: Callable[[], AsyncIOScheduler], add: Add, began: list[float]
) -> None:
    async def main(clock: VirtualClock) -> list[float]:
        scheduler, runs = new(), RecordedRuns(clock)
        add(scheduler, 3, runs.run)
        clock.loop.call_later(2.9, clock.loop.pass_time_blocking, 2.5)
        await watch(clock, scheduler, 5.9)
        return runs.began

    assert run_in_virtual_time(main) == pytest.approx(began)


def test_slots_missed_while_blocked_are_one_run_and_the_grid_stays() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        scheduler, runs = JobScheduler(seed=0), RecordedRuns(clock)
        ours(scheduler, 1, runs.run)
        clock.loop.call_later(1.5, clock.loop.pass_time_blocking, 100.25)
        await watch(clock, scheduler, 103.5)
        return runs.began

    assert run_in_virtual_time(main) == pytest.approx([1, 101.75, 102, 103], abs=1e-3)


def test_without_coalescing_missed_slots_would_run_one_after_another_in_one_task() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        runs = RecordedRuns(clock, takes_s=0.1)
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": False, "misfire_grace_time": None})
        stock(scheduler, 1, runs.run)
        clock.loop.call_later(1.5, clock.loop.pass_time_blocking, 2.6)
        await watch(clock, scheduler, 4.9)
        return runs.began

    assert run_in_virtual_time(main) == pytest.approx([1, 4.1, 4.2, 4.3], abs=1e-3)


def test_a_job_longer_than_its_period_never_runs_twice_at_once_and_skips_slots() -> None:
    async def main(clock: VirtualClock) -> RecordedRuns:
        scheduler, runs = JobScheduler(seed=0), RecordedRuns(clock, takes_s=12)
        ours(scheduler, 5, runs.run)
        await watch(clock, scheduler, 60)
        return runs

    runs = run_in_virtual_time(main)
    assert runs.began == pytest.approx([5, 20, 35, 50], abs=1e-3)
    assert all(end <= start for end, start in zip(runs.ended, runs.began[1:], strict=False))


def test_a_trigger_that_raises_kills_the_stock_scheduler_silently_until_somebody_wakes_it() -> None:
    async def main(clock: VirtualClock) -> tuple[object, ...]:
        scheduler, runs = new_stock(), RecordedRuns(clock)
        clock.loop.set_exception_handler(lambda _loop, _context: None)
        scheduler.add_job(RecordedRuns(clock).run, FailingTrigger(1))
        scheduler.add_job(runs.run, IntervalTrigger(seconds=3, timezone=UTC))
        scheduler.start()
        await clock.sleep(3600)
        dead = (scheduler.running, len(runs.began))
        scheduler.wakeup()
        await clock.sleep(60)
        scheduler.shutdown(wait=False)
        return *dead, len(runs.began) > 15

    assert run_in_virtual_time(main) == (True, 0, True)


def test_a_trigger_that_raises_costs_ours_a_retry_each_time_and_two_lines_of_log() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        scheduler, runs = JobScheduler(seed=0), RecordedRuns(clock)
        scheduler.add_job(RecordedRuns(clock).run, FailingTrigger(2))
        ours(scheduler, 3, runs.run)
        await watch(clock, scheduler, 10)
        return runs.began

    assert RETRY_S < 3
    with capture_logs() as logs:
        began = run_in_virtual_time(main)
    assert [entry["event"] for entry in logs] == ["scheduler fails", "scheduler works again"]
    assert began == pytest.approx([3, 6, 9], abs=1e-3)


@pytest.mark.parametrize(("new", "add", "count"), [(new_stock, stock, 0), (new_ours, ours, 20)])
def test_a_six_hour_job_on_a_host_that_restarts_every_five_hours_runs_only_with_fixed_slots(
    new: Callable[[], AsyncIOScheduler], add: Add, count: int
) -> None:
    async def main(clock: VirtualClock) -> int:
        runs = RecordedRuns(clock)
        for _ in range(24):
            scheduler = new()
            add(scheduler, 6 * 3600, runs.run)
            await watch(clock, scheduler, 5 * 3600)
        return len(runs.began)

    # 24 lives of 5 hours hold 20 slots of 6 hours; half an hour keeps them away from the moments of restart.
    assert run_in_virtual_time(main, start=START + timedelta(minutes=30)) == count


def test_a_wall_clock_set_back_silences_the_stock_scheduler_for_as_long() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        scheduler, runs = new_stock(), RecordedRuns(clock)
        stock(scheduler, 5, runs.run)
        clock.loop.call_later(11, clock.set_wall_clock, -60)
        await watch(clock, scheduler, 80)
        return runs.began

    assert run_in_virtual_time(main) == pytest.approx([5, 10, 75, 80], abs=1e-3)


@pytest.mark.parametrize("step_s", [-60, -86_400, 3600, 86_400 * 365 * 56])
def test_after_any_step_of_the_wall_clock_a_realigned_ticker_goes_on_within_one_period(step_s: float) -> None:
    async def main(clock: VirtualClock) -> list[float]:
        scheduler, runs = JobScheduler(seed=0), RecordedRuns(clock)
        ours(scheduler, 5, runs.run)

        def step() -> None:
            clock.set_wall_clock(step_s)
            scheduler.realign(clock.now())

        clock.loop.call_later(11, step)
        await watch(clock, scheduler, 30.5)
        return runs.began

    began = run_in_virtual_time(main, start=datetime(1971, 1, 1, tzinfo=UTC))
    assert max(later - earlier for earlier, later in pairwise(began)) <= 5 + 1e-3
    # A step forward is one catch-up run, not one run per missed slot.
    assert len(began) == (7 if step_s > 0 else 6)


def test_a_job_or_a_listener_that_raises_does_not_stop_the_scheduler() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        scheduler, runs, heard = JobScheduler(seed=0), RecordedRuns(clock), []

        async def broken() -> None:
            await runs.run()
            message = "a bug"
            raise RuntimeError(message)

        def listener(event: object) -> None:
            heard.append(event)
            message = "another bug"
            raise RuntimeError(message)

        scheduler.add_listener(listener, EVENT_ALL)
        ours(scheduler, 1, broken)
        await watch(clock, scheduler, 10.5)
        return len(runs.began), len(heard)

    ran, heard = run_in_virtual_time(main)
    assert ran == 10
    assert heard > 20


def test_the_shutdown_of_the_library_cancels_running_jobs_even_when_told_to_wait() -> None:
    async def main(clock: VirtualClock) -> RecordedRuns:
        scheduler, runs = new_stock(), RecordedRuns(clock, takes_s=10)
        stock(scheduler, 1, runs.run)
        scheduler.start()
        await clock.sleep(2)
        scheduler.shutdown(wait=True)
        await clock.sleep(20)
        return runs

    runs = run_in_virtual_time(main)
    assert (len(runs.began), runs.ended, runs.cancelled) == (1, [], 1)


def test_the_jitter_of_the_library_lets_slots_wander_off_their_anchor_and_ours_stay() -> None:
    period, now = timedelta(minutes=1), START
    wandering, fixed = (
        IntervalTrigger(minutes=1, start_date=SLOT_EPOCH, jitter=6, timezone=UTC),
        SlotTrigger(every=period),
    )
    late, slot = now, now
    for _ in range(100):
        late = wandering.get_next_fire_time(late, late)
        slot = fixed.get_next_fire_time(slot, slot)
    assert slot == now + 100 * period
    # 100 draws of up to 6 s each add up to about 300 s, which is five slots.
    assert late - slot > timedelta(minutes=2)


def test_phases_spread_jobs_over_a_tenth_of_their_period_and_stay_the_same_for_a_seed() -> None:
    def phases(seed: int) -> list[float]:
        ticker = JobScheduler(seed=seed)
        for number in range(20):
            ticker.schedule_every(timedelta(seconds=100), f"job {number}", partial(asyncio.Event().wait))
        return [(job.trigger.origin - SLOT_EPOCH).total_seconds() for job in ticker.get_jobs()]

    async def main(_: VirtualClock) -> tuple[list[float], list[float], list[float]]:
        return phases(1), phases(1), phases(2)

    first, again, other = run_in_virtual_time(main)
    assert first == again != other
    assert len({*first}) == 20
    assert all(0 <= phase < 10 for phase in first)


@pytest.mark.parametrize(
    ("zone", "repeated"),
    [("America/New_York", datetime(2026, 11, 1)), ("Europe/Berlin", datetime(2026, 10, 25))],  # noqa: DTZ001 - local dates
)
def test_a_local_cron_runs_twice_in_the_repeated_hour_which_slots_in_utc_do_not_have(
    zone: str, repeated: datetime
) -> None:
    local = ZoneInfo(zone)
    hour = 1 if zone == "America/New_York" else 2
    trigger = CronTrigger(hour=hour, minute=30, timezone=local)
    moment, runs = repeated.replace(tzinfo=local) - timedelta(seconds=1), []
    while moment.date() <= repeated.date():
        moment = trigger.get_next_fire_time(moment, moment)
        runs.append(moment)
    assert len([run for run in runs if run.date() == repeated.date()]) == 2


def test_zero_means_monday_to_the_crontab_reader_of_the_library_so_we_offer_no_cron() -> None:
    saturday = datetime(2026, 1, 3, tzinfo=UTC)
    fires = CronTrigger.from_crontab("0 0 * * 0", timezone=UTC).get_next_fire_time(None, saturday)
    assert fires == datetime(2026, 1, 5, tzinfo=UTC)
    sources = [path.read_text() for path in Path(bot.__file__).parent.rglob("*.py")]
    assert not [source for source in sources if "CronTrigger" in source or "from_crontab" in source]
