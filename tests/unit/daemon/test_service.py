import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.core.errors import AuthenticationError, ServiceUnavailableError, StoreError
from bot.daemon.runner import DaemonLimits, ExitReason, HealthEvent, JobOutcome, JobRun, JobRunner
from bot.daemon.service import run_daemon, run_jobs_once
from bot.jobs.job import DaemonJob
from bot.testing.clock import START, FakeClock
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

HOUR = timedelta(hours=1)


class FakeVitalsRecorder:
    """Keeps reports until its disk is full."""

    def __init__(self) -> None:
        self.vitals: list[HealthEvent] = []
        self.full = False

    async def __call__(self, vital: HealthEvent, /) -> None:
        if self.full:
            message = "the disk is full; free some space, then start again"
            raise StoreError(message)
        self.vitals.append(vital)

    @property
    def runs(self) -> list[JobRun]:
        return [vital for vital in self.vitals if isinstance(vital, JobRun)]


@pytest.fixture
def ledger() -> FakeVitalsRecorder:
    return FakeVitalsRecorder()


def job(name: str, run: Callable[[], Awaitable[str]]) -> DaemonJob:
    return DaemonJob(name=name, summary="", interval=timedelta(minutes=1), run=run)


def script(name: str, *results: str | Exception) -> DaemonJob:
    remaining = iter(results)

    async def run() -> str:
        result = next(remaining)
        if isinstance(result, Exception):
            raise result
        return result

    return job(name, run)


async def test_every_job_runs_once_in_the_given_order(ledger: FakeVitalsRecorder) -> None:
    jobs = [script("discover", "3 questions"), script("forecast", "2 forecasts")]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert end.reason is ExitReason.DONE
    assert [(run.job, run.outcome, run.detail) for run in ledger.runs] == [
        ("discover", JobOutcome.DONE, "3 questions"),
        ("forecast", JobOutcome.DONE, "2 forecasts"),
    ]


async def test_a_run_is_recorded_with_its_start_and_duration(ledger: FakeVitalsRecorder) -> None:
    clock = FakeClock()

    async def run() -> str:
        clock.advance_without_waking(2.5)
        return "done"

    await run_jobs_once([job("slow", run)], clock=clock, record=ledger, stop=asyncio.Event())
    assert ledger.runs == [JobRun(job="slow", started_at=START, took_s=2.5, outcome=JobOutcome.DONE, detail="done")]


async def test_a_failing_job_stops_no_other_and_shows_in_the_exit(ledger: FakeVitalsRecorder) -> None:
    jobs = [script("a", KeyError("title")), script("b", ServiceUnavailableError("503")), script("c", "fine")]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert (end.reason, end.detail, end.is_clean) == (ExitReason.FAILED, "a, b", False)
    assert [(run.outcome, run.detail) for run in ledger.runs] == [
        (JobOutcome.FAILED, "KeyError: 'title'"),
        (JobOutcome.UNAVAILABLE, "503"),
        (JobOutcome.DONE, "fine"),
    ]


async def test_where_all_that_failed_must_only_wait_the_exit_says_so(ledger: FakeVitalsRecorder) -> None:
    jobs = [script("a", ServiceUnavailableError("503")), script("b", "fine")]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert (end.reason, end.detail, end.is_clean) == (ExitReason.UNAVAILABLE, "a", False)


async def test_a_job_that_cannot_be_recorded_ends_the_pass(ledger: FakeVitalsRecorder) -> None:
    ledger.full = True
    stop = asyncio.Event()
    end = await run_jobs_once([script("a", "fine"), script("b", "fine")], clock=FakeClock(), record=ledger, stop=stop)
    assert end.reason is ExitReason.STORE
    assert "free some space" in end.detail
    assert stop.is_set()


async def test_a_store_error_of_one_job_alone_is_a_failed_run(ledger: FakeVitalsRecorder) -> None:
    jobs = [script("backup", StoreError("the copy is damaged")), script("score", "fine")]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert end.reason is ExitReason.FAILED
    assert [run.outcome for run in ledger.runs] == [JobOutcome.FAILED, JobOutcome.DONE]


async def test_a_stop_between_two_jobs_is_obeyed(ledger: FakeVitalsRecorder) -> None:
    stop = asyncio.Event()

    async def run() -> str:
        stop.set()
        return "asked to stop while at it"

    end = await run_jobs_once([job("a", run), script("b", "never")], clock=FakeClock(), record=ledger, stop=stop)
    assert end.reason is ExitReason.ASKED
    assert [run.job for run in ledger.runs] == ["a"]


async def test_a_job_that_hangs_is_stopped_at_its_limit_and_told_as_failed(ledger: FakeVitalsRecorder) -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    hanging = DaemonJob(name="hang", summary="", interval=HOUR, run=hang, time_limit=timedelta(milliseconds=20))
    end = await run_jobs_once([hanging, script("b", "fine")], clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert (end.reason, end.detail) == (ExitReason.FAILED, "hang")
    assert [(run.job, run.outcome, run.detail) for run in ledger.runs] == [
        ("hang", JobOutcome.FAILED, "stopped after 0:00:00.020000"),
        ("b", JobOutcome.DONE, "fine"),
    ]


async def test_a_time_limit_of_the_jobs_own_is_not_taken_for_the_limit_of_the_run(ledger: FakeVitalsRecorder) -> None:
    await run_jobs_once([script("a", TimeoutError("no reply"))], clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert [run.detail for run in ledger.runs] == ["TimeoutError: no reply"]


async def test_a_job_is_logged_when_it_breaks_and_when_it_heals_and_not_between(ledger: FakeVitalsRecorder) -> None:
    runner = JobRunner(clock=FakeClock(), record=ledger, stop=asyncio.Event())
    flaky = script("flaky", "ok", ValueError("x"), ValueError("x"), ServiceUnavailableError("503"), "ok", "ok")
    with capture_logs() as logs:
        for _ in range(6):
            await runner.run(flaky)
    told = [entry["event"] for entry in logs if entry["event"] != "job done"]
    assert told == ["job failed", "job must wait", "job works again"]


@pytest.mark.parametrize("names", [("a", "a"), ("heartbeat",)])
async def test_two_jobs_of_one_name_are_refused(names: tuple[str, ...], ledger: FakeVitalsRecorder) -> None:
    with pytest.raises(ValueError, match="every job needs a unique name"):
        await run_daemon(
            [script(name) for name in names],
            clock=FakeClock(),
            limits=DaemonLimits(),
            record=ledger,
            stop=asyncio.Event(),
        )


async def test_what_runs_in_no_task_cannot_be_waited_for_and_is_refused(ledger: FakeVitalsRecorder) -> None:
    loop, refused = asyncio.get_running_loop(), asyncio.Event()
    runner = JobRunner(clock=FakeClock(), record=ledger, stop=asyncio.Event())

    def callback() -> None:
        with pytest.raises(RuntimeError, match="outside any task"), runner.track("heartbeat"):
            pass
        refused.set()

    loop.call_soon(callback)
    await refused.wait()


async def test_a_job_is_logged_when_it_did_something_else_than_last_time(ledger: FakeVitalsRecorder) -> None:
    runner = JobRunner(clock=FakeClock(), record=ledger, stop=asyncio.Event())
    steady = script("steady", "0 new", "0 new", "3 new", ServiceUnavailableError("gone"), "0 new")
    with capture_logs() as logs:
        for _ in range(5):
            await runner.run(steady)
    assert [entry["what"] for entry in logs if entry["event"] == "job done"] == ["0 new", "3 new", "0 new"]


async def test_what_a_stop_left_undone_is_named(ledger: FakeVitalsRecorder) -> None:
    stop = asyncio.Event()

    async def run() -> str:
        stop.set()
        return "asked to stop while at it"

    jobs = [job("a", run), script("b", "never"), script("c", "never")]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=stop)
    assert (end.reason, end.detail) == (ExitReason.ASKED, "not begun: b, c")


def test_a_job_that_does_not_finish_after_a_stop_is_cut_off_and_named(ledger: FakeVitalsRecorder) -> None:
    async def scene(clock: VirtualClock) -> None:
        stop = asyncio.Event()

        async def hang() -> str:
            asyncio.get_running_loop().call_later(3, stop.set)
            await asyncio.Event().wait()
            return "never"

        jobs, start = [job("a", hang), script("b", "never")], clock.monotonic()
        end = await run_jobs_once(jobs, clock=clock, record=ledger, stop=stop, drain_s=7)
        assert (end.reason, end.detail) == (ExitReason.CUT, "a; not begun: b")
        assert clock.monotonic() - start == pytest.approx(10)

    run_in_virtual_time(scene)
    assert ledger.runs == []


async def test_credentials_that_are_not_taken_show_in_the_exit(ledger: FakeVitalsRecorder) -> None:
    jobs = [script("a", ServiceUnavailableError("503")), script("b", AuthenticationError("set KEY"))]
    end = await run_jobs_once(jobs, clock=FakeClock(), record=ledger, stop=asyncio.Event())
    assert (end.reason, end.detail) == (ExitReason.UNAUTHORIZED, "a, b")


def test_a_job_that_is_wanted_runs_at_once(ledger: FakeVitalsRecorder) -> None:
    async def scene(clock: VirtualClock) -> None:
        stop, wanted = asyncio.Event(), asyncio.Event()
        ran: list[float] = []

        async def run() -> str:
            ran.append(clock.monotonic())
            return "forecast"

        async def person() -> None:
            await clock.sleep(100)
            wanted.set()
            await clock.sleep(1)
            stop.set()

        forecast = DaemonJob(name="forecast", summary="", interval=timedelta(days=9999), run=run, run_requested=wanted)
        start = clock.monotonic()
        asking = asyncio.create_task(person())
        await run_daemon([forecast], clock=clock, limits=DaemonLimits(), record=ledger, stop=stop)
        await asking
        assert [round(at - start) for at in ran] == [0, 100]

    run_in_virtual_time(scene)
