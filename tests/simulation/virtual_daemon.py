"""A daemon in virtual time, for the simulations in this folder."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from bot.core.errors import StoreError
from bot.daemon.runner import DaemonExit, DaemonLimits, HealthEvent, JobRun
from bot.daemon.service import run_daemon
from bot.jobs.job import DaemonJob
from bot.testing.event_loop import VirtualClock

# The lag of a virtual loop is nothing to measure ten times a second.
CALM = DaemonLimits(lag_every_s=60.0)
WEEK = DaemonLimits(heartbeat_s=60.0, check_every_s=60.0, wake_after_s=180.0, abort_after_s=600.0, lag_every_s=3600.0)
MINUTE = timedelta(minutes=1)


class VirtualDaemon:
    """A daemon in the making: its jobs, what it reported, and faults to come."""

    def __init__(self, clock: VirtualClock, watch: DaemonLimits = CALM) -> None:
        self.clock = clock
        self.watch = watch
        self.stop = asyncio.Event()
        self.health_events: list[HealthEvent] = []
        self.full = False
        self.jobs: list[DaemonJob] = []

    def job(self, name: str, *, every: timedelta = MINUTE, run: Callable[[], Awaitable[object]]) -> None:
        async def reported() -> str:
            return str(await run())

        self.jobs.append(DaemonJob(name=name, summary="", interval=every, run=reported))

    def sleeper(self, name: str, seconds: float, *, every: timedelta = MINUTE) -> None:
        self.job(name, every=every, run=lambda: self.clock.sleep(seconds))

    def at(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        self.clock.loop.call_later(seconds, action, *arguments)

    async def serve(self, *, until_s: float) -> DaemonExit:
        self.at(until_s, self.stop.set)
        return await run_daemon(self.jobs, clock=self.clock, limits=self.watch, record=self.record, stop=self.stop)

    async def record(self, event: HealthEvent, /) -> None:
        if self.full:
            message = "the disk is full; free some space, then start again"
            raise StoreError(message)
        self.health_events.append(event)

    def fill_disk(self) -> None:
        self.full = True

    def of(self, kind: type[HealthEvent]) -> list[HealthEvent]:
        return [event for event in self.health_events if isinstance(event, kind)]

    def starts(self, name: str) -> list[float]:
        zero = self.clock.now() - timedelta(seconds=self.clock.monotonic())
        return [
            (event.started_at - zero).total_seconds()
            for event in self.health_events
            if isinstance(event, JobRun) and event.job == name
        ]
