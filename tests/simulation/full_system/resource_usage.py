"""Memory, file descriptors, threads and tasks that a simulation uses, run after run."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

_SELF = Path("/proc/self")
# What may be held more after a life than after the first one: garbage that the collector has not met yet.
MORE_FILES, MORE_THREADS, MORE_TASKS = 24, 2, 12
# What a server does for one request: one that hangs there is the venue's own, also when who asked is gone.
SERVES = "RequestResponseCycle.run_asgi"
# The most while one lives: its ledger and books, connections at both of their ends, and work under way.
MOST_FILES, MOST_THREADS, MOST_TASKS = 400, 40, 400
# Beyond what the process held at first, of the daemon and the doubles, whose caches have bounds: a year takes 200.
MORE_MB = 450.0
# So many turns of the loop take longer than this by any clock: an hour of a simulated day has some five hundred.
MANY_TURNS, TAKE_S = 20_000, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReading:
    """What is held at one moment; memory in megabytes. Files and memory are 0 where the system does not tell."""

    files: int
    threads: int
    tasks: int
    memory_mb: float


@dataclass(slots=True, kw_only=True)
class ResourceMonitor:
    """``memory_mb`` are readings of each day's first heartbeat, by day."""

    memory_mb: dict[int, float] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=lambda: {"files": 0, "threads": 0, "tasks": 0})
    violations: list[str] = field(default_factory=list)
    _after_first: ResourceReading | None = None
    _turns: tuple[int, float] = (0, 0.0)

    def alive(self, day: int) -> None:
        """Look while a life runs."""
        held = _held(with_cancelled=True)
        if day not in self.memory_mb:
            self.memory_mb[day] = held.memory_mb
            at_first = next(iter(self.memory_mb.values()))
            if held.memory_mb > at_first + MORE_MB:
                self.violations.append(f"I10: {held.memory_mb:.0f} MB are in use on day {day}, {at_first:.0f} at first")
        most = {"files": MOST_FILES, "threads": MOST_THREADS, "tasks": MOST_TASKS}
        for name, bound in most.items():
            count = getattr(held, name)
            if count > bound >= self.peak[name]:
                self.violations.append(f"I10: {count} {name} are in use on day {day}")
            self.peak[name] = max(self.peak[name], count)

    def is_running_in_circles(self, turns: int, at_s: float) -> bool:
        """Say whether a loop made so many turns lately that something begins again and again; called at each turn."""
        since, since_s = self._turns
        if turns - since < MANY_TURNS:
            return False
        self._turns = (turns, at_s)
        if at_s - since_s >= TAKE_S:
            return False
        what = f"I9: {turns - since} turns of the loop in {at_s - since_s:.0f} s"
        self.violations.append(f"{what}, until {at_s:.0f} s: something begins again and again")
        return True

    def over(self, life: int) -> None:
        """Look after a life: it may leave nothing behind."""
        held = _held()
        first = self._after_first = self._after_first or held
        more = {"files": MORE_FILES, "threads": MORE_THREADS, "tasks": MORE_TASKS}
        if any(getattr(held, name) > getattr(first, name) + bound for name, bound in more.items()):
            gc.collect()
            held = _held()
        for name, bound in more.items():
            now, then = getattr(held, name), getattr(first, name)
            if now > then + bound:
                self.violations.append(f"I10: {now} {name} are held after life {life}, and {then} after the first")


def _held(*, with_cancelled: bool = False) -> ResourceReading:
    there = _SELF.exists()
    pages = int((_SELF / "statm").read_text(encoding="ascii").split()[1]) if there else 0
    return ResourceReading(
        files=len(os.listdir(_SELF / "fd")) if there else 0,  # noqa: PTH208 - names alone, often
        threads=threading.active_count(),
        tasks=sum(
            getattr(task.get_coro(), "__qualname__", "") != SERVES
            # What was cancelled with its life ends within the next turns.
            and (with_cancelled or not task.cancelling())
            for task in asyncio.all_tasks()
        ),
        memory_mb=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    )
