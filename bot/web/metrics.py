"""Metrics in the text format of Prometheus. Names and labels are documented in docs/operations.md.

What grows for ever would be read in full each time, so calls, tokens and costs are those of the last day: gauges.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from bot.alerts.conditions import DISCOVERY_PREFIX
from bot.core.redaction import redact_foreign_message
from bot.web.watched_state import DaemonMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
MAX_LABEL_CHARS = 120
Samples = Iterable[tuple[tuple[str, ...], float]]


class _MetricsCollector:
    """Implements the collector of the library for one reading."""

    def __init__(self, found: DaemonMetrics) -> None:
        self._found = found

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all families."""
        yield from _daemon_families(self._found)
        yield from _work_families(self._found)
        yield from _model_families(self._found)
        yield from _job_families(self._found)


def render_metrics(found: DaemonMetrics) -> bytes:
    """Return the metrics as text."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(found))
    return generate_latest(registry)


def _gauge(name: str, text: str, samples: Samples, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"foxcast_{name}", text, labels=labels)
    for values, number in samples:
        family.add_metric([redact_foreign_message(value)[:MAX_LABEL_CHARS] for value in values], number)
    return family


def _single(name: str, text: str, number: float | None) -> GaugeMetricFamily:
    return _gauge(name, text, () if number is None else [((), number)])


def _counted(name: str, text: str, label: str, counts: Mapping[str, float]) -> GaugeMetricFamily:
    return _gauge(name, text, (((key,), number) for key, number in counts.items()), (label,))


def _age_s(now: datetime, moment: datetime | None) -> float | None:
    return None if moment is None else (now - moment).total_seconds()


def _daemon_families(found: DaemonMetrics) -> Iterator[GaugeMetricFamily]:
    snapshot = found.snapshot
    now, heartbeat = snapshot.now, snapshot.daemon.heartbeat
    degraded = [one for one in found.conditions if one.rule.degrades]
    yield _single("healthy", "1 if nothing is broken that degrades the bot", float(not degraded))
    # Two halts of a venue are one series: the same labels twice would spoil the whole answer.
    broken = {(one.rule.name, one.finding.subject, one.rule.level.value): 1.0 for one in found.conditions}
    labels = ("condition", "subject", "level")
    yield _gauge("condition", "Conditions that are broken, and recent events", broken.items(), labels)
    yield _single("uptime_seconds", "Time since the daemon started", _age_s(now, snapshot.running_since))
    beat_at = None if heartbeat is None else heartbeat.at
    yield _single("heartbeat_age_seconds", "Age of the last heartbeat", _age_s(now, beat_at))
    if heartbeat is not None:
        lags = {"p99": heartbeat.lag_p99_s, "max": heartbeat.lag_max_s}
        yield _counted("event_loop_lag_seconds", "Lag of the event loop in the last minute", "statistic", lags)
    yield _single("ledger_bytes", "Size of the ledger and its write-ahead log", found.ledger_bytes)
    yield _single("disk_free_bytes", "Free space on the disk of the state folder", snapshot.free_bytes)
    yield _single("backup_age_seconds", "Age of the newest backup", _age_s(now, snapshot.last_backup))
    waiting = {name: float(status.waiting) for name, status in found.channels.items()}
    yield _counted("notifications_waiting", "Messages that wait for a notifier", "notifier", waiting)


def _work_families(found: DaemonMetrics) -> Iterator[GaugeMetricFamily]:
    counts, schedule, now = found.counts, found.schedule, found.snapshot.now
    yield _counted("forecasts", "Forecasts by state", "state", counts.forecasts)
    queue = {"due": schedule.due, "running": schedule.leased, "locked": schedule.locked, "waiting": schedule.waiting}
    yield _counted("queue", "Questions by their place in the schedule", "state", queue)
    ends = [
        ((forecaster, end.value), float(count))
        for forecaster, by_end in found.trials.ends.items()
        for end, count in by_end.items()
    ]
    yield _gauge("trials_day", "Trials of the last day", ends, ("forecaster", "end"))
    yield _counted("trial_failures_day", "Failed trials of the last day by cause", "cause", found.trial_failures)
    yield _counted("holds", "Forecasts that are held back now, by reason", "reason", found.holds)
    yield _counted("submissions", "Submissions by state", "state", counts.intents)
    waits = {name: max(0.0, (free_at - now).total_seconds()) for name, free_at in found.rates_free_at.items()}
    yield _counted("rate_wait_seconds", "Time until a rate limit allows the next request", "rate", waits)


def _model_families(found: DaemonMetrics) -> Iterator[GaugeMetricFamily]:
    calls = found.counts.calls
    labels = ("provider", "model", "state")
    keys = [((one.provider, one.model, one.state), one) for one in calls]
    yield _gauge("model_calls_day", "Model calls of the last day", [(k, one.calls) for k, one in keys], labels)
    cost_text = "US dollars of model calls of the last day, lost calls at their maximum"
    yield _gauge("model_cost_usd_day", cost_text, [(k, one.cost_usd) for k, one in keys], labels)
    means = [(k, one.latency_s / one.timed) for k, one in keys if one.timed]
    yield _gauge("model_latency_seconds_day", "Mean latency of model calls of the last day", means, labels)
    tokens = [
        ((one.provider, one.model, kind), float(number))
        for one in calls
        for kind, number in (("in", one.tokens_in), ("cached", one.tokens_cached), ("out", one.tokens_out))
    ]
    summed: dict[tuple[str, ...], float] = {}
    for key, number in tokens:
        summed[key] = summed.get(key, 0.0) + number
    token_labels = ("provider", "model", "kind")
    yield _gauge("model_tokens_day", "Tokens of model calls of the last day", summed.items(), token_labels)
    budgets = found.snapshot.ledger.budgets
    yield _counted("budget_usd", "Budget of a day (UTC)", "budget", {one.name: one.limit_usd for one in budgets})
    spent = {one.name: one.spent_usd for one in budgets}
    yield _counted("budget_spent_usd", "Spent or reserved of the budget of today", "budget", spent)


def _job_families(found: DaemonMetrics) -> Iterator[GaugeMetricFamily]:
    jobs, now = found.snapshot.ledger.jobs, found.snapshot.now
    successes = {name: job.last_success for name, job in jobs.items() if job.last_success is not None}
    ages = {name: (now - at).total_seconds() for name, at in successes.items()}
    yield _counted("job_success_age_seconds", "Time since a job last succeeded", "job", ages)
    failures = {name: float(job.failures) for name, job in jobs.items()}
    yield _counted("job_failures", "Failures of a job since it last succeeded", "job", failures)
    took = {name: (job.last.ended_at - job.last.started_at).total_seconds() for name, job in jobs.items()}
    yield _counted("job_seconds", "Duration of the last run of a job", "job", took)
    reads = {
        name.removeprefix(DISCOVERY_PREFIX): age for name, age in ages.items() if name.startswith(DISCOVERY_PREFIX)
    }
    yield _counted("venue_read_age_seconds", "Time since a venue was last read", "venue", reads)
