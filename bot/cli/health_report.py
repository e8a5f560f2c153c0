"""What `status` and `doctor` say about conditions: the table that alerts and the health addresses use too."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from bot.alerts.conditions import MAX_UNREAD, BrokenCondition, find_conditions
from bot.alerts.health_snapshot import HealthSnapshot, read_health
from bot.cli.command_exit import ExitCode
from bot.config.schema import Config
from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_foreign_message
from bot.store.heartbeat import DaemonCondition
from bot.store.serialization import format_timestamp

NOT_RUNNING = frozenset({DaemonCondition.NEVER, DaemonCondition.STOPPED, DaemonCondition.FAILED, DaemonCondition.DIED})
# Status shows these in lines of their own, and doctor checks them itself.
_SHOWN_ELSEWHERE = frozenset({"halt", "halt_by_person", "disk_halt", "disk", "in_doubt", "budget_100"})
_CHECKED_ELSEWHERE = frozenset({*_SHOWN_ELSEWHERE, "disk_low", "clock", "model"})


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one check found, and what to do about a fault."""

    verdict: CheckVerdict
    check: str
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """Whether the bot runs and works as it should; ``problems`` are the reasons against it."""

    snapshot: HealthSnapshot
    problems: Sequence[BrokenCondition]

    @property
    def is_running(self) -> bool:
        """Whether the daemon, or a single pass, is running."""
        return self.snapshot.daemon.condition not in NOT_RUNNING

    @property
    def state(self) -> str:
        """The state in one or two words."""
        if not self.is_running:
            return "not running"
        return "degraded" if self.problems else "healthy"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of ``status --check``: 0 healthy, 1 degraded, 3 not running."""
        if not self.is_running:
            return ExitCode.UNAVAILABLE
        return ExitCode.FAILED if self.problems else ExitCode.DONE


def load_health_report(config: Config, now: datetime) -> HealthReport:
    """Return the report; raises StoreError for a ledger that cannot be read."""
    snapshot = asyncio.run(read_health(config, now))
    return HealthReport(snapshot=snapshot, problems=[one for one in find_conditions(snapshot) if one.rule.degrades])


def check_lines(report: HealthReport) -> list[str]:
    """Return the lines of ``status --check``: the state, then each reason."""
    return [report.state, *(f"{one.rule.level}: {redact_foreign_message(one.text)}" for one in report.problems)]


def problem_lines(report: HealthReport) -> list[str]:
    """Return a line for each problem that status does not show otherwise."""
    return [
        f"problem: {redact_foreign_message(one.text)}"
        for one in report.problems
        if one.rule.name not in _SHOWN_ELSEWHERE
    ]


def report_to_json(report: HealthReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "state": report.state,
        "daemon": str(report.snapshot.daemon.condition),
        "problems": [
            {
                "condition": one.rule.name,
                "subject": one.finding.subject or None,
                "level": one.rule.level.value,
                "since": format_timestamp(one.finding.since),
                "text": redact_foreign_message(one.text),
            }
            for one in report.problems
        ],
    }


def check_conditions(config: Config, now: datetime) -> Iterator[CheckFinding]:
    """Yield the conditions that doctor does not check otherwise.

    A daemon that died, a venue that was not read for hours, and trials that all fail are failures.
    """
    try:
        report = load_health_report(config, now)
    except StoreError:
        return  # reported by the integrity check
    for one in report.problems:
        if one.rule.name not in _CHECKED_ELSEWHERE:
            verdict = CheckVerdict.FAIL if _is_failure(report.snapshot, one) else CheckVerdict.WARN
            found, remedy = redact_foreign_message(one.finding.text), one.finding.remedy
            # Single failed trials have a check of their own.
            check = "all trials" if one.rule.name == "trials" else one.rule.name
            yield CheckFinding(verdict, check, found, remedy or "see the log of the daemon")


def _is_failure(snapshot: HealthSnapshot, condition: BrokenCondition) -> bool:
    if condition.rule.name == "daemon":
        return snapshot.daemon.holder is None
    if condition.rule.name != "venue":
        return condition.rule.name == "trials"
    job = snapshot.ledger.jobs.get(f"discover {condition.finding.subject}")
    # Also of a venue that was never read.
    return job is None or job.last_success is None or snapshot.now - job.last_success > MAX_UNREAD
