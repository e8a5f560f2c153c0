"""How the daemon ends, in virtual time: asked, full disk, jobs that do not finish."""

import asyncio
from datetime import timedelta

import pytest

from bot.daemon.runner import DaemonExit, ExitReason, HeartbeatRecord
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.simulation.virtual_daemon import VirtualDaemon


def test_a_full_disk_ends_the_daemon_with_the_remedy() -> None:
    async def main(clock: VirtualClock) -> tuple[DaemonExit, float, bool]:
        daemon = VirtualDaemon(clock)
        daemon.sleeper("job", 1)
        daemon.at(300, daemon.fill_disk)
        end = await daemon.serve(until_s=3600)
        return end, clock.monotonic(), daemon.stop.is_set()

    end, ended_s, stopped = run_in_virtual_time(main)
    assert end.reason is ExitReason.STORE
    assert "free some space" in end.detail
    assert 300 <= ended_s <= 312
    assert stopped


def test_a_stop_lets_a_running_job_finish_and_starts_no_other() -> None:
    async def main(clock: VirtualClock) -> tuple[DaemonExit, float, VirtualDaemon]:
        daemon = VirtualDaemon(clock)
        daemon.sleeper("quick", 0.5, every=timedelta(seconds=2))
        daemon.sleeper("long", 40, every=timedelta(hours=6))
        end = await daemon.serve(until_s=20)
        return end, clock.monotonic(), daemon

    end, ended_s, daemon = run_in_virtual_time(main)
    assert end == DaemonExit(reason=ExitReason.ASKED)
    assert ended_s == pytest.approx(40.5, abs=0.1)
    assert max(daemon.starts("quick")) <= 20
    assert len(daemon.starts("long")) == 1


def test_a_job_that_does_not_finish_is_cut_off_after_thirty_seconds_and_not_before() -> None:
    async def main(clock: VirtualClock) -> tuple[DaemonExit, list[float], VirtualDaemon]:
        daemon, cut = VirtualDaemon(clock), []

        async def endless() -> None:
            try:
                await clock.sleep(86_400)
            finally:
                cut.append(clock.monotonic())

        daemon.job("endless", run=endless)
        return await daemon.serve(until_s=20), cut, daemon

    end, cut, daemon = run_in_virtual_time(main)
    assert end == DaemonExit(reason=ExitReason.CUT, detail="endless")
    assert cut == pytest.approx([50])
    # The supervisor still hears from a daemon that winds down.
    assert [beat for beat in daemon.of(HeartbeatRecord) if isinstance(beat, HeartbeatRecord) and beat.monotonic_s > 40]


def test_a_job_that_will_not_be_cut_does_not_hold_up_the_end_of_scheduled_work() -> None:
    async def main(clock: VirtualClock) -> tuple[DaemonExit, float]:
        daemon = VirtualDaemon(clock)
        first = True

        async def stubborn() -> None:
            nonlocal first
            if first:
                first = False
                return
            for _ in range(10):
                try:
                    await clock.sleep(100)
                except asyncio.CancelledError:
                    continue

        daemon.job("stubborn", run=stubborn)
        return await daemon.serve(until_s=90), clock.monotonic()

    end, ended_s = run_in_virtual_time(main)
    assert end.reason is ExitReason.CUT
    assert ended_s < 90 + 30 + 3
