"""All conditions that a person should know of, in one table: what breaks, how urgent that is, and when it has healed.

``status``, ``doctor``, the health addresses and alerts use the same table, so that they cannot disagree. Events (a
crash, a request for approval) do not heal. Facts are those of ``bot.alerts.health_snapshot``.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from bot.alerts.health_snapshot import HealthSnapshot
from bot.core.alerts import AlertLevel
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ExecutionMode
from bot.forecasting.failures import describe_failures, failure_reason
from bot.store.health_queries import EVENT_PERIOD, JobHistory
from bot.store.heartbeat import DaemonCondition

DISCOVERY_PREFIX, BACKUP_JOB = "discover ", "backup"
NOTIFIER_RULE = "notifier"
# A venue that was not read for so long, or for three of its intervals, is down, whatever its runs say.
MAX_UNREAD = timedelta(hours=2)
MAX_BACKUP_AGE = timedelta(days=1)
LOW_DISK_FACTOR = 4
MIN_FAILED_TRIALS = 3
BUDGET_WARNING_SHARE = 0.8
_MAX_LISTED = 3
# Events about what is a condition as well: halts and their ends, submissions in doubt, models that are replaced.
_WORDS_OF_CONDITIONS = (" was stopped", " resumes: ", " is in doubt ", " does badly: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFinding:
    """One thing that a rule found: ``subject`` tells it from others of the rule, ``since`` is when it began.

    ``occasion`` tells it from others of the same subject.
    """

    subject: str
    text: str
    since: datetime
    remedy: str = ""
    occasion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRule:
    """A condition: how to find it, and how it is reported; ``{}`` in ``healed`` is the subject.

    It is reported to people once it has lasted for ``delay``; ``degrades``: while it lasts, the bot does not work as it
    should. An event has an empty ``healed``.
    """

    name: str
    level: AlertLevel
    find: Callable[[HealthSnapshot], Iterator[ConditionFinding]]
    healed: str
    delay: timedelta = timedelta()
    degrades: bool = True

    @property
    def is_event(self) -> bool:
        """Whether it happens once and does not heal."""
        return not self.healed


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCondition:
    """A condition that a snapshot shows to be broken, or an event that happened."""

    rule: ConditionRule
    finding: ConditionFinding

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.rule.name}:{', '.join(filter(None, (self.finding.subject, self.finding.occasion)))}"

    @property
    def text(self) -> str:
        """What is wrong, and what to do about it."""
        return "; ".join(filter(None, (self.finding.text, self.finding.remedy)))


def find_conditions(snapshot: HealthSnapshot) -> list[BrokenCondition]:
    """Return everything that is broken, and recent events, in the order of the table."""
    return [BrokenCondition(rule=rule, finding=finding) for rule in RULES for finding in rule.find(snapshot)]


def find_degradations(snapshot: HealthSnapshot) -> list[BrokenCondition]:
    """Return what keeps the bot from working as it should."""
    return [one for one in find_conditions(snapshot) if one.rule.degrades]


def healed_text(key: str) -> str:
    """Return the text for an alert whose condition has healed, by its key."""
    name, _, subject = key.partition(":")
    text = next((rule.healed for rule in RULES if rule.name == name), "")
    return text.format(subject) if text else f"no longer: {subject or name}"


def _daemon_problems(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    daemon = snapshot.daemon
    if snapshot.watches_itself or daemon.heartbeat is None:
        return
    beat = daemon.heartbeat
    last = f"its last heartbeat was at {beat.at:%Y-%m-%d %H:%M:%S} UTC"
    restart = "start it again: foxcast run"
    match daemon.condition:
        case DaemonCondition.DIED:
            yield ConditionFinding(subject="", text=f"the daemon died; {last}", since=beat.at, remedy=restart)
        case DaemonCondition.FAILED:
            text = f"the daemon gave up: {beat.ended}; {last}"
            yield ConditionFinding(subject="", text=text, since=beat.at, remedy=restart)
        case DaemonCondition.SILENT if daemon.holder is not None:
            text = f"the daemon (process {daemon.holder.pid}) hangs or was paused; {last}"
            yield ConditionFinding(subject="", text=text, since=beat.at, remedy="check its log")


def _disk_halts(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    if (halt := snapshot.ledger.disk_halt) is not None:
        yield ConditionFinding(subject="", text=halt.text, since=halt.at, remedy="the next start ends the halt")


def _halts(snapshot: HealthSnapshot, *, by_person: bool) -> Iterator[ConditionFinding]:
    if snapshot.stop_file is not None and by_person:
        text = f"everything is halted: {snapshot.stop_file}"
        yield ConditionFinding(subject="all venues", text=text, since=snapshot.now, remedy="resume: foxcast resume")
    for halt in snapshot.ledger.halts:
        if bool(halt.by) is by_person:
            # Each halt is one of its own: who resumed a venue must hear that it was halted again, and why.
            occasion = f"halted at {halt.at:%Y-%m-%d %H:%M:%S} UTC"
            yield ConditionFinding(
                subject=halt.venue or "all venues",
                text=str(halt),
                since=halt.at,
                remedy=halt.remedy,
                occasion=occasion,
            )


def _own_halts(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    return _halts(snapshot, by_person=False)


def _halts_by_people(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    return _halts(snapshot, by_person=True)


def _venues_down(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for name, job in snapshot.ledger.jobs.items():
        venue = name.removeprefix(DISCOVERY_PREFIX)
        if venue == name or snapshot.config.mode_of(venue) is ExecutionMode.OFF:
            continue
        if job.failing_since is not None:
            text = f"{venue} could not be read{_last_success(job)}: {job.last.detail}"
            yield ConditionFinding(subject=venue, text=text, since=job.failing_since)
        elif (unread := _unread_since(snapshot, venue, job)) is not None:
            text = f"{venue} was not read since {unread:%Y-%m-%d %H:%M} UTC, although the daemon runs"
            yield ConditionFinding(subject=venue, text=text, since=unread, remedy="see the log of the daemon")


def _unread_since(snapshot: HealthSnapshot, venue: str, job: JobHistory) -> datetime | None:
    """Return since when a running daemon has not read a venue, if that is too long ago."""
    if snapshot.running_since is None or job.last_success is None:
        return None
    config = snapshot.config
    interval_s = config.venues[venue].discover_every_s or config.daemon.discover_every_s
    last = max(job.last_success, snapshot.running_since)
    return last if snapshot.now - last > max(MAX_UNREAD, timedelta(seconds=3 * interval_s)) else None


def _last_success(job: JobHistory) -> str:
    return "" if job.last_success is None else f" since {job.last_success:%Y-%m-%d %H:%M} UTC"


def _failing_jobs(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for name, job in snapshot.ledger.jobs.items():
        if job.failing_since is None or name.startswith(DISCOVERY_PREFIX) or name == BACKUP_JOB:
            continue
        # A job that does not run any more, such as that of a venue that is not used now, fails no more.
        if snapshot.now - job.last.ended_at <= EVENT_PERIOD:
            text = f"the job {name} fails{_last_success(job)}: {job.last.detail}"
            yield ConditionFinding(subject=name, text=text, since=job.failing_since)


def _failed_backups(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    job = snapshot.ledger.jobs.get(BACKUP_JOB)
    if job is not None and job.failing_since is not None:
        text = f"the backup failed{_last_success(job)}: {job.last.detail}"
        yield ConditionFinding(subject="", text=text, since=job.failing_since)
        return
    longest = max(MAX_BACKUP_AGE, timedelta(seconds=3 * snapshot.config.daemon.backup_every_s))
    since = max(filter(None, (snapshot.last_backup, snapshot.running_since)), default=snapshot.now)
    if snapshot.running_since is not None and snapshot.now - since > longest:
        when = "never" if snapshot.last_backup is None else f"at {snapshot.last_backup:%Y-%m-%d %H:%M} UTC"
        text = f"the last backup was made {when}"
        yield ConditionFinding(subject="", text=text, since=since, remedy="make one: foxcast db backup")


def _failing_trials(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for found in snapshot.ledger.trials:
        if found.ended >= MIN_FAILED_TRIALS and len(found.failed) == found.ended:
            why = describe_failures(map(failure_reason, found.failed))
            text = f"none of the last {found.ended} trials of {found.forecaster} gave an answer: {why}"
            yield ConditionFinding(subject=found.forecaster, text=text, since=found.last_ended_at)


def _demoted_models(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.demotions:
        role = f" as {one.role}" if one.role else ""
        text = f"{one.model} is replaced{role} until {one.until:%Y-%m-%d %H:%M} UTC: {one.why}"
        remedy = "wait, or name another model in [llm.roles]"
        yield ConditionFinding(subject=f"{one.model}{role}", text=text, since=one.at, remedy=remedy)


def _spent_budgets(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.budgets:
        if one.spent_usd >= one.limit_usd:
            text = f"the budget of today is spent ({one.name}: {one.spent_usd:.2f} of {one.limit_usd:.2f} USD)"
            remedy = "forecasts that need models wait until tomorrow, or raise it in [llm]"
            yield ConditionFinding(subject=one.name, text=text, since=snapshot.now, remedy=remedy)


def _nearly_spent_budgets(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.budgets:
        # Also of a budget that is spent: otherwise this one would seem to heal when it gets worse.
        if one.spent_usd >= BUDGET_WARNING_SHARE * one.limit_usd:
            share = min(1.0, one.spent_usd / one.limit_usd)
            text = f"{share:.0%} of the budget of today is used ({one.name}: {one.limit_usd:.2f} USD)"
            yield ConditionFinding(subject=one.name, text=text, since=snapshot.now)


def _missed_windows(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    by_hour: dict[str, list[str]] = {}
    for event in snapshot.ledger.missed_windows:
        by_hour.setdefault(f"{event.at:%Y-%m-%d %H}", []).append(event.text)
    for hour, texts in by_hour.items():
        count = "1 question" if len(texts) == 1 else f"{len(texts)} questions"
        text = f"{count} closed without a forecast: {_shorten_list(texts)}"
        yield ConditionFinding(subject=hour, text=text, since=snapshot.now)


def _shorten_list(texts: Sequence[str]) -> str:
    more = f"; {len(texts) - _MAX_LISTED} more" if len(texts) > _MAX_LISTED else ""
    return "; ".join(texts[:_MAX_LISTED]) + more


def _doubtful_orders(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for venue, count in snapshot.ledger.in_doubt.items():
        one = count == 1
        text = (
            f"{count} {'submission' if one else 'submissions'} at {venue} {'has' if one else 'have'} no known outcome"
        )
        remedy = "check the venue, then run: foxcast orders adopt (foxcast orders --open lists them)"
        yield ConditionFinding(subject=venue, text=text, since=snapshot.now, remedy=remedy)


def _big_losses(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    share = snapshot.config.alerts.loss_share
    for one in snapshot.ledger.losses:
        if one.lost > 0 and one.lost >= share * one.worth_before:
            text = f"the account at {one.venue} lost {one.lost:.2f} of {one.worth_before:.2f} {one.currency} today"
            yield ConditionFinding(subject=one.venue, text=text, since=snapshot.now, remedy="see: foxcast portfolio")


MAX_SHOWN_CHARS = 200


def _wanted_approvals(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.approvals:
        if one.expires_at > snapshot.now:
            # A curve has hundreds of numbers, and a message has room for the command too.
            shown = "; ".join(f"{name}: {text[:MAX_SHOWN_CHARS]}" for name, text in one.shown.items())
            text = f"{one.venue} waits for approval until {one.expires_at:%Y-%m-%d %H:%M} UTC: {shown}"
            remedy = f"foxcast approve {one.id} or foxcast reject {one.id}"
            yield ConditionFinding(subject=one.id, text=text, since=one.asked_at, remedy=remedy)


def _full_disk(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    if snapshot.free_bytes < _min_free_bytes(snapshot):
        yield _free_space_finding(snapshot)


def _min_free_bytes(snapshot: HealthSnapshot) -> float:
    return snapshot.config.daemon.min_free_mb * 1e6


def _low_disk(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    if snapshot.free_bytes < LOW_DISK_FACTOR * _min_free_bytes(snapshot):
        yield _free_space_finding(snapshot)


def _free_space_finding(snapshot: HealthSnapshot) -> ConditionFinding:
    text = f"{snapshot.free_bytes / 1e6:,.0f} MB are free on the disk of {snapshot.config.state}"
    remedy = f"free some space; below {snapshot.config.daemon.min_free_mb:,.0f} MB no new work begins"
    return ConditionFinding(subject="", text=text, since=snapshot.now, remedy=remedy)


def _wrong_clock(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    if snapshot.clock_fault:
        text = f"the clock {snapshot.clock_fault}"
        yield ConditionFinding(subject="", text=text, since=snapshot.now)


def _crashes(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for event in snapshot.ledger.crashes:
        text = f"the daemon was restarted: {event.text}"
        yield ConditionFinding(subject=event.at.isoformat(), text=text, since=event.at)


def _failing_notifiers(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for name, status in snapshot.ledger.channels.items():
        if name in snapshot.config.notifiers and status.failing_since is not None:
            text = f"the notifier {name} takes no message ({status.waiting} wait): {status.detail}"
            remedy = f"try it with: foxcast notify test {name}"
            yield ConditionFinding(subject=name, text=text, since=status.failing_since, remedy=remedy)


def _events(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for event in snapshot.ledger.alert_events:
        if not any(words in event.text for words in _WORDS_OF_CONDITIONS):
            subject = derive_id("event", event.at.isoformat(), event.text)
            yield ConditionFinding(subject=subject, text=event.text, since=event.at)


def _annulled_questions(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.annulled:
        text = f"{one.ref} was annulled, and orders on it were filled: {one.reason or 'no reason given'}"
        remedy = "compare what the venue paid: foxcast portfolio"
        yield ConditionFinding(subject=str(one.ref), text=text, since=one.seen_at, remedy=remedy)


def _ended_seasons(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.ledger.closed_venues:
        job = snapshot.ledger.jobs.get(f"{DISCOVERY_PREFIX}{one.venue}")
        if job is not None and job.last.ok:
            text = f"no question is open at {one.venue}; the last one closed at {one.closed_at:%Y-%m-%d %H:%M} UTC"
            remedy = f"if a season ended, name its successor in [venues.{one.venue}.settings]"
            yield ConditionFinding(subject=one.venue, text=text, since=one.closed_at, remedy=remedy)


def _changed_answers(snapshot: HealthSnapshot) -> Iterator[ConditionFinding]:
    for one in snapshot.shape_changes:
        if one.venue in snapshot.config.venues:
            changes = [
                f"{len(names)} {what}: {', '.join(names[:_MAX_LISTED])}"
                for what, names in (("fields vanished", one.vanished), ("fields are new", one.new))
                if names
            ]
            text = f"answers of {one.venue} at {one.address or '/'} have changed ({'; '.join(changes)})"
            remedy = "look whether questions are still read: foxcast status; and for a newer Foxcast"
            yield ConditionFinding(subject=f"{one.venue} {one.address}", text=text, since=snapshot.now, remedy=remedy)


_INFO, _WARNING, _CRITICAL = AlertLevel.INFO, AlertLevel.WARNING, AlertLevel.CRITICAL
_MINUTE = timedelta(minutes=1)
RULES: tuple[ConditionRule, ...] = (
    ConditionRule(name="daemon", level=_CRITICAL, find=_daemon_problems, healed="the daemon runs again"),
    ConditionRule(name="crash", level=_WARNING, find=_crashes, healed="", degrades=False),
    ConditionRule(name="disk_halt", level=_CRITICAL, find=_disk_halts, healed="work is recorded again"),
    ConditionRule(name="halt", level=_CRITICAL, find=_own_halts, healed="a halt has ended: {}"),
    ConditionRule(name="halt_by_person", level=_WARNING, find=_halts_by_people, healed="submissions were resumed: {}"),
    ConditionRule(name="venue", level=_WARNING, find=_venues_down, healed="{} can be read again", delay=15 * _MINUTE),
    ConditionRule(name="job", level=_WARNING, find=_failing_jobs, healed="the job {} works again", delay=30 * _MINUTE),
    ConditionRule(name="trials", level=_CRITICAL, find=_failing_trials, healed="trials of {} no longer all fail"),
    ConditionRule(name="model", level=_WARNING, find=_demoted_models, healed="{} is no longer replaced"),
    ConditionRule(
        name="budget_80", level=_INFO, find=_nearly_spent_budgets, healed="a new day's budget: {}", degrades=False
    ),
    ConditionRule(name="budget_100", level=_WARNING, find=_spent_budgets, healed="there is budget again: {}"),
    ConditionRule(name="missed_window", level=_WARNING, find=_missed_windows, healed="", degrades=False),
    ConditionRule(
        name="in_doubt", level=_CRITICAL, find=_doubtful_orders, healed="all submissions at {} have a known outcome"
    ),
    ConditionRule(
        name="loss", level=_CRITICAL, find=_big_losses, healed="no longer a big loss today at {}", degrades=False
    ),
    ConditionRule(name="event", level=_WARNING, find=_events, healed="", degrades=False),
    ConditionRule(name="annulled", level=_WARNING, find=_annulled_questions, healed="", degrades=False),
    ConditionRule(name="approval", level=_WARNING, find=_wanted_approvals, healed="", degrades=False),
    ConditionRule(name="disk", level=_CRITICAL, find=_full_disk, healed="the disk has room again"),
    ConditionRule(name="disk_low", level=_WARNING, find=_low_disk, healed="the disk has enough room again"),
    ConditionRule(name="clock", level=_WARNING, find=_wrong_clock, healed="the clock is right again"),
    ConditionRule(name="backup", level=_WARNING, find=_failed_backups, healed="backups are made again"),
    ConditionRule(
        name=NOTIFIER_RULE,
        level=_WARNING,
        find=_failing_notifiers,
        healed="the notifier {} takes messages again",
        delay=30 * _MINUTE,
    ),
    ConditionRule(
        name="season", level=_INFO, find=_ended_seasons, healed="there are open questions at {} again", degrades=False
    ),
    ConditionRule(
        name="drift", level=_INFO, find=_changed_answers, healed="answers of {} are as before", degrades=False
    ),
)
