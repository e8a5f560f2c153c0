"""What the pages of the server read: the health snapshot and the metrics, each kept for some seconds.

Many watchers then cost as much as one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar

from bot.alerts.conditions import BrokenCondition, find_conditions
from bot.alerts.health_snapshot import HealthSnapshot, read_own_health
from bot.config.schema import Config
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.forecasting.failures import failure_pattern, failure_reason
from bot.jobs.live_readiness import ClockSkewReader
from bot.store.alerts import ChannelStatus
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.ledger import LEDGER_FILE, Ledger
from bot.store.metrics_queries import LedgerMetrics, read_ledger_metrics
from bot.store.schedule import ScheduleCounts

KEPT_S = 5.0
METRICS_PERIOD = timedelta(days=1)
# More different reasons than these are counted together: each is a time series for good.
MAX_REASONS = 20
OTHER_REASONS = "other"
ValueT = TypeVar("ValueT")


@dataclass(slots=True)
class TimedCache(Generic[ValueT]):
    """Keeps a value for ``kept_s`` seconds; callers that ask meanwhile wait for the same reading."""

    clock: Clock
    read: Callable[[], Awaitable[ValueT]]
    kept_s: float = KEPT_S
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _kept: tuple[float, ValueT] | None = None

    async def get(self) -> ValueT:
        """Return the value, read again if it is too old."""
        async with self._lock:
            now_s = self.clock.monotonic()
            if self._kept is None or now_s - self._kept[0] > self.kept_s:
                self._kept = (now_s, await self.read())
            return self._kept[1]

    def forget(self) -> None:
        """Read the value anew for the next caller."""
        self._kept = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonMetrics:
    """Everything that is exported as metrics, at one moment."""

    snapshot: HealthSnapshot
    conditions: Sequence[BrokenCondition]
    counts: LedgerMetrics
    schedule: ScheduleCounts
    trials: RecentFailures
    rates_free_at: Mapping[str, datetime]
    channels: Mapping[str, ChannelStatus]
    ledger_bytes: int

    @property
    def trial_failures(self) -> Mapping[str, int]:
        """Failed trials of the last day by cause."""
        return limit_reasons(Counter(failure_pattern(failure_reason(trial)) for trial in self.trials.trials))

    @property
    def holds(self) -> Mapping[str, int]:
        """Held forecasts by reason."""
        found: Counter[str] = Counter()
        for why, count in self.counts.holds.items():
            found[failure_pattern(why)] += count
        return limit_reasons(found)


def limit_reasons(found: Counter[str]) -> dict[str, int]:
    """Return the most frequent reasons, and the number of all others together."""
    frequent = dict(found.most_common(MAX_REASONS))
    if others := found.total() - sum(frequent.values()):
        frequent[OTHER_REASONS] = frequent.get(OTHER_REASONS, 0) + others
    return frequent


@dataclass(slots=True, kw_only=True)
class WatchedState:
    """Reads health and metrics of the daemon in whose process it is."""

    config: Config
    folder: Path
    ledger: Ledger
    clock: Clock
    clock_skew: ClockSkewReader
    health: TimedCache[HealthSnapshot] = field(init=False)
    metrics: TimedCache[DaemonMetrics] = field(init=False)

    def __post_init__(self) -> None:
        """Make the caches."""
        self.health = TimedCache(self.clock, self._read_health)
        self.metrics = TimedCache(self.clock, self._read_metrics)

    async def _read_health(self) -> HealthSnapshot:
        skew_s, now = self.clock_skew(), self.clock.now()
        return await read_own_health(self.config, self.ledger, now, clock_skew_s=skew_s, watches_itself=False)

    async def _read_metrics(self) -> DaemonMetrics:
        snapshot, readers = await self._read_health(), self.ledger.events.readers
        now, since = snapshot.now, snapshot.now - METRICS_PERIOD
        return DaemonMetrics(
            snapshot=snapshot,
            conditions=find_conditions(snapshot),
            counts=await readers.run(lambda database: read_ledger_metrics(database, since=since, now=now)),
            schedule=await self.ledger.schedule.counts(now),
            trials=await read_recent_failures(readers, since),
            rates_free_at=await self.ledger.rates.free_at(),
            channels=await self.ledger.alerts.channels(),
            ledger_bytes=await asyncio.to_thread(_total_size, self.folder),
        )


def _total_size(folder: Path) -> int:
    files = [folder / LEDGER_FILE, folder / f"{LEDGER_FILE}-wal"]
    return sum(file.stat().st_size for file in files if file.exists())
