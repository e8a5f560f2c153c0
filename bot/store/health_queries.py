"""Queries about how the daemon fares: runs of its jobs, trials that all fail, venues without an open question."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.core.forecasts import Trial, TrialEnd
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import VoidOutcome
from bot.core.permissions import SubmissionApproval
from bot.core.questions import QuestionRef
from bot.store import permissions
from bot.store.alerts import ChannelStatus, read_channel_statuses
from bot.store.cap_usage import read_account_losses
from bot.store.event_log import (
    ALERT_EVENT,
    CRASH_EVENT,
    JobRunRow,
    LedgerEvent,
    last_job_runs,
    recent_events,
    unresolved_halt,
)
from bot.store.model_calls import ModelDemotion
from bot.store.permissions import SubmissionHalt
from bot.store.schedule import MISSED_WINDOW_EVENT
from bot.store.schema_views import IS_WITHDRAWN
from bot.store.serialization import OUTCOME, TRIAL, format_timestamp, parse_timestamp

# The newest trials of a forecaster that are looked at, and how old they may be.
TRIALS_READ, TRIAL_PERIOD = 10, timedelta(days=1)
EVENT_PERIOD = timedelta(days=1)
_MAX_EVENTS_READ, _MAX_APPROVALS_READ = 200, 100
_MAX_TRIALS_READ = 300
# Outcomes are looked at from the newest on, since they are many and have no index by time.
_MAX_OUTCOMES_READ, _MAX_ANNULLED_READ = 5_000, 100
_ANNULLED = f"""
with newest as materialized (
  select id from resolution r
  where id > (select coalesce(max(id), 0) from resolution) - {_MAX_OUTCOMES_READ}
    and seen_at >= ? and kind = 'void' and not {IS_WITHDRAWN})
select r.ref, min(r.seen_at), min(r.body) from newest cross join current_resolution r on r.id = newest.id
where exists (select 1 from intent i join fill f on f.intent = i.id where i.ref = r.ref)
group by r.ref order by 2, 1 limit {_MAX_ANNULLED_READ}
"""  # noqa: S608 - made of constants
_LAST_SUCCESS = "select id, ended_at from job_run where job = ? and outcome = 'ok' order by id desc limit 1"
_FAILURES_SINCE = "select min(started_at), count(*) from job_run where job = ? and id > ?"
_NEWEST_TRIALS = """
select f.forecaster, t.ended_at, t.ending, t.body from trial t join forecast f on f.id = t.forecast
where t.ended_at >= ? order by t.ended_at desc limit ?
"""
_NEWEST_EQUITY = """
select equity, currency from account_reading
where venue = ? and account = ? and paper = ? order by id desc limit 1
"""
_IN_DOUBT = "select venue, count(*) from intent where state = 'in doubt' group by venue order by venue"
_HAS_QUESTION = "select 1 from question where venue = ? limit 1"
_HAS_OPEN_QUESTION = """
select 1 where exists (select 1 from question where closes_at > :now and +venue = :venue)
  or exists (select 1 from question where closes_at is null and +venue = :venue)
"""
_LAST_CLOSE = (
    "select closes_at from question where closes_at <= :now and +venue = :venue order by closes_at desc limit 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """The newest run of a job, when it last succeeded, and since when it fails (None if the newest run succeeded)."""

    last: JobRunRow
    last_success: datetime | None
    failing_since: datetime | None
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTrials:
    """The newest trials of a forecaster: how many ended, the newest end, and those that gave no answer."""

    forecaster: str
    ended: int
    last_ended_at: datetime
    failed: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedVenue:
    """A venue of which questions are known and none is open; ``closed_at`` is when the last one closed."""

    venue: str
    closed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnulledQuestion:
    """A question that was traded and has no outcome that can be scored, since when that is known, and why."""

    ref: QuestionRef
    seen_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class VenueAccount:
    """The name of an account, and whether it is on paper."""

    name: str
    paper: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBudget:
    """A budget of today in US dollars, and what was spent or reserved of it."""

    name: str
    limit_usd: float
    spent_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLoss:
    """What an account lost today, in its currency, and what it was worth before."""

    venue: str
    lost: float
    worth_before: float
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the ledger says about how the daemon fares; all defaults are those of an empty ledger."""

    halts: Sequence[SubmissionHalt] = ()
    disk_halt: LedgerEvent | None = None
    jobs: Mapping[str, JobHistory] = field(default_factory=dict)
    trials: Sequence[RecentTrials] = ()
    demotions: Sequence[ModelDemotion] = ()
    budgets: Sequence[DayBudget] = ()
    missed_windows: Sequence[LedgerEvent] = ()
    crashes: Sequence[LedgerEvent] = ()
    alert_events: Sequence[LedgerEvent] = ()
    in_doubt: Mapping[str, int] = field(default_factory=dict)
    losses: Sequence[AccountLoss] = ()
    approvals: Sequence[SubmissionApproval] = ()
    closed_venues: Sequence[ClosedVenue] = ()
    annulled: Sequence[AnnulledQuestion] = ()
    channels: Mapping[str, ChannelStatus] = field(default_factory=dict)


def read_ledger_facts(database: Database, accounts: Mapping[str, VenueAccount], now: datetime) -> LedgerFacts:
    """Return the facts, but for budgets and demotions; ``accounts`` are those of the venues in use, by venue."""
    return LedgerFacts(
        halts=permissions.list_active_halts(database),
        disk_halt=unresolved_halt(database),
        jobs={history.last.name: history for history in read_job_histories(database)},
        trials=read_recent_trials(database, now),
        missed_windows=_events_since(database, MISSED_WINDOW_EVENT, now - EVENT_PERIOD),
        crashes=_events_since(database, CRASH_EVENT, now - EVENT_PERIOD),
        alert_events=_events_since(database, ALERT_EVENT, now - EVENT_PERIOD),
        in_doubt=count_in_doubt(database),
        losses=_account_losses(database, accounts, now),
        approvals=permissions.list_approvals(database, everything=False, limit=_MAX_APPROVALS_READ),
        closed_venues=find_closed_venues(database, accounts, now),
        annulled=find_annulled_questions(database, now - EVENT_PERIOD),
        channels=read_channel_statuses(database),
    )


def _events_since(database: Database, kind: str, since: datetime) -> list[LedgerEvent]:
    return [event for event in recent_events(database, _MAX_EVENTS_READ, kind) if event.at >= since]


def _account_losses(database: Database, accounts: Mapping[str, VenueAccount], now: datetime) -> list[AccountLoss]:
    found = []
    for venue, account in accounts.items():
        reading = database.execute(_NEWEST_EQUITY, [venue, account.name, account.paper]).fetchone()
        if reading is not None:
            lost, _ = read_account_losses(database, venue, account.name, now, paper=account.paper)
            found.append(AccountLoss(venue=venue, lost=lost, worth_before=reading[0] + lost, currency=reading[1]))
    return found


def read_job_histories(database: Database) -> list[JobHistory]:
    """Return the history of each job, by name."""
    return [_job_history(database, last) for last in last_job_runs(database)]


def _job_history(database: Database, last: JobRunRow) -> JobHistory:
    success = database.execute(_LAST_SUCCESS, [last.name]).fetchone()
    if last.ok:
        return JobHistory(last=last, last_success=last.ended_at, failing_since=None, failures=0)
    since, count = database.execute(_FAILURES_SINCE, [last.name, 0 if success is None else success[0]]).fetchone()
    return JobHistory(
        last=last,
        last_success=None if success is None else parse_timestamp(success[1]),
        failing_since=parse_timestamp(since),
        failures=count,
    )


def read_recent_trials(database: Database, now: datetime) -> list[RecentTrials]:
    """Return the newest trials of each forecaster that had one in the last day."""
    newest: dict[str, list[tuple[datetime, TrialEnd, str]]] = {}
    rows = database.execute(_NEWEST_TRIALS, [format_timestamp(now - TRIAL_PERIOD), _MAX_TRIALS_READ])
    for forecaster, ended_at, ending, body in rows:
        trials = newest.setdefault(forecaster, [])
        if len(trials) < TRIALS_READ:
            trials.append((parse_timestamp(ended_at), TrialEnd(ending), body))
    return [
        RecentTrials(
            forecaster=forecaster,
            ended=len(trials),
            last_ended_at=trials[0][0],
            failed=tuple(_failed_trials(trials)),
        )
        for forecaster, trials in sorted(newest.items())
    ]


def _failed_trials(trials: Sequence[tuple[datetime, TrialEnd, str]]) -> Iterable[Trial]:
    # A trial that met a limit may still have an answer: its decoded belief shows it.
    decoded = (TRIAL.decode(body) for _, end, body in trials if end is not TrialEnd.FINISHED)
    return (trial for trial in decoded if not trial.is_answer)


def count_in_doubt(database: Database) -> dict[str, int]:
    """Return how many submissions are in doubt at each venue that has some."""
    return dict(database.execute(_IN_DOUBT).fetchall())


def find_annulled_questions(database: Database, since: datetime) -> list[AnnulledQuestion]:
    """Return the questions with filled orders that were annulled since then; withdrawn outcomes come again."""
    found = []
    for ref, seen_at, body in database.execute(_ANNULLED, [format_timestamp(since)]):
        outcome = OUTCOME.decode(body)
        reason = outcome.reason if isinstance(outcome, VoidOutcome) else ""
        found.append(AnnulledQuestion(ref=QuestionRef.parse(ref), seen_at=parse_timestamp(seen_at), reason=reason))
    return found


def find_closed_venues(database: Database, venues: Iterable[str], now: datetime) -> list[ClosedVenue]:
    """Return the venues of which questions are known and none is open."""
    found = []
    for venue in venues:
        values = {"venue": venue, "now": format_timestamp(now)}
        if database.execute(_HAS_OPEN_QUESTION, values).fetchone():
            continue
        if not database.execute(_HAS_QUESTION, [venue]).fetchone():
            continue
        (closed_at,) = database.execute(_LAST_CLOSE, values).fetchone()
        found.append(ClosedVenue(venue=venue, closed_at=parse_timestamp(closed_at)))
    return found
