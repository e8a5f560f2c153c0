"""The tables of the ledger, as numbered migrations: applied ones are never edited, new ones are added below them.

Everything is text, numbers and JSON, readable with plain ``sqlite3``: questions are named ``venue:key``, moments are
UTC text whose order is the order of time, and binary predictions are numbers (other shapes are JSON in ``body``). The
views answer the questions people ask: ``latest_forecast``, ``current_resolution``, ``scored``, ``cost``.
"""

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from bot.store import (
    schema_lanes,
    schema_models,
    schema_profit,
    schema_scores,
    schema_setups,
    schema_trading,
    schema_views,
)

MIGRATIONS = Migrations("foxcast")

_DOCUMENTS = """
create table document (
  digest text primary key check (length(digest) = 64),
  media_type text not null,
  size integer not null check (size >= 0),
  packed blob not null
) strict
"""

_QUESTIONS = (
    """
create table question (
  ref text primary key,
  venue text not null,
  key text not null,
  version text not null,
  title text not null,
  source text not null,
  family text not null,
  batch text,
  url text,
  opens_at text,
  closes_at text,
  as_of text,
  first_seen_at text not null,
  changed_at text not null,
  check (ref = venue || ':' || key)
) strict
""",
    "create index question_by_batch on question (venue, batch)",
    "create index question_by_close on question (closes_at)",
    """
create table passage (
  digest text primary key,
  body text not null
) strict
""",
    """
create table question_version (
  version text primary key,
  ref text not null references question (ref),
  seen_at text not null,
  body text not null,
  background text references passage (digest),
  criteria text references passage (digest)
) strict
""",
    """
create table target (
  version text not null references question_version (version),
  target text not null,
  ref text not null references question (ref),
  resolves_at text,
  horizon_days integer,
  primary key (version, target)
) strict, without rowid
""",
    "create index target_by_question on target (ref, target)",
    """
create table price (
  id integer primary key,
  ref text not null references question (ref),
  at text not null,
  seen_at text not null,
  probability real check (probability between 0 and 1),
  body text,
  explanation text not null,
  check ((probability is null) <> (body is null))
) strict
""",
    "create index price_by_question on price (ref, id)",
)

_SCHEDULE = (
    """
create table schedule (
  ref text not null references question (ref),
  forecaster text not null,
  due_at text,
  why text not null,
  closes_at text,
  not_before text,
  attempt integer not null default 0 check (attempt >= 0),
  owner text,
  leased_until text,
  answered_at text,
  window text not null default 'open' check (window in ('open', 'met', 'missed', 'past')),
  primary key (ref, forecaster),
  check ((owner is null) = (leased_until is null))
) strict
""",
    "create index schedule_by_close on schedule (closes_at, due_at) where owner is null and due_at is not null",
    "create index schedule_by_due on schedule (due_at) where owner is null and due_at is not null",
    "create index schedule_leased on schedule (leased_until) where owner is not null",
    "create index schedule_window on schedule (closes_at) where window = 'open'",
    """
create table lock (
  ref text not null references question (ref),
  forecaster text not null,
  reason text not null,
  locked_at text not null,
  until text,
  primary key (ref, forecaster)
) strict
""",
)

_FORECASTS = (
    """
create table forecast (
  id text primary key check (length(id) = 24),
  ref text not null references question (ref),
  version text not null references question_version (version),
  price integer references price (id),
  forecaster text not null,
  revision integer not null check (revision >= 1),
  cutoff text not null,
  why text not null,
  state text not null check (state in ('running', 'done', 'failed', 'abandoned')),
  started_at text not null,
  made_at text,
  ended_at text,
  detail text not null default '',
  fitted text references document (digest),
  calibration text references document (digest),
  decided_at text,
  unique (ref, forecaster, revision),
  check ((state = 'done') = (made_at is not null)),
  check ((state = 'running') = (ended_at is null))
) strict
""",
    "create unique index forecast_running on forecast (ref, forecaster) where state = 'running'",
    "create index forecast_undecided on forecast (decided_at, made_at, id) where state = 'done'",
    "create index forecast_recent on forecast (made_at, id) where state = 'done'",
    """
create table prediction (
  forecast text not null references forecast (id),
  target text not null,
  ref text not null references question (ref),
  probability real check (probability between 0 and 1),
  body text,
  raw_probability real check (raw_probability between 0 and 1),
  raw_body text,
  scored_against integer references resolution (id),
  primary key (forecast, target),
  check ((probability is null) <> (body is null)),
  check ((raw_probability is null) <> (raw_body is null))
) strict, without rowid
""",
    "create index prediction_by_target on prediction (ref, target)",
    "create index prediction_unscored on prediction (ref, target) where scored_against is null",
    """
create table trial (
  forecast text not null references forecast (id),
  number integer not null check (number >= 1),
  ended_at text,
  ending text,
  body text,
  primary key (forecast, number),
  check ((ended_at is null) = (body is null))
) strict, without rowid
""",
    """
create table step (
  forecast text not null,
  trial integer not null,
  number integer not null check (number >= 1),
  at text not null,
  action text not null,
  cost_usd real not null check (cost_usd >= 0),
  body text not null,
  primary key (forecast, trial, number),
  foreign key (forecast, trial) references trial (forecast, number)
) strict
""",
)

_SUBMISSIONS = (
    """
create table intent (
  seq integer primary key,
  id text not null unique,
  forecast text not null references forecast (id),
  ref text not null references question (ref),
  venue text not null,
  account text not null,
  batch text not null,
  action text not null,
  mode text not null,
  predictions text not null,
  state text not null check (state in ('planned', 'ready', 'sending', 'acked', 'refused', 'unknown', 'absent',
                                       'in doubt', 'superseded')),
  detail text not null default '',
  planned_at text not null,
  changed_at text not null
) strict
""",
    "create index intent_by_batch on intent (venue, account, batch)",
    "create index intent_by_question on intent (ref, account)",
    "create index intent_by_state on intent (state)",
    # At most one intent of a question may still change what stands at the venue.
    """
create unique index intent_open on intent (ref, account)
  where state in ('planned', 'ready', 'sending', 'unknown', 'absent', 'in doubt')
""",
    """
create table decision (
  id integer primary key,
  forecast text not null references forecast (id),
  at text not null,
  verdict text not null check (verdict in ('send', 'hold')),
  why text not null,
  until text,
  mode text,
  intent text references intent (id),
  check ((verdict = 'send') = (intent is not null)),
  check ((verdict = 'send') = (mode is not null))
) strict
""",
    "create index decision_by_forecast on decision (forecast, id)",
    "create index decision_by_until on decision (until) where until is not null",
    "create index decision_by_intent on decision (intent)",
    """
create table attempt (
  id text primary key,
  intent text not null references intent (id),
  number integer not null check (number >= 1),
  started_at text not null,
  settled_at text,
  state text not null check (state in ('sending', 'acked', 'refused', 'unknown', 'absent', 'in doubt')),
  reference text not null default '',
  detail text not null default '',
  unique (intent, number)
) strict
""",
)

_JOURNAL = (
    """
create table event (
  id integer primary key,
  at text not null,
  kind text not null,
  text text not null
) strict
""",
    "create index event_by_kind on event (kind, id)",
    """
create table job_run (
  id integer primary key,
  job text not null,
  started_at text not null,
  ended_at text not null,
  outcome text not null check (outcome in ('ok', 'failed')),
  detail text not null
) strict
""",
    "create index job_run_by_job on job_run (job, id)",
)


@MIGRATIONS(name="0001_tables")
def tables(database: Database) -> None:
    """Create the first tables."""
    first = (_DOCUMENTS, *_QUESTIONS, *_SCHEDULE, *_FORECASTS, *_SUBMISSIONS, *schema_scores.TABLES, *_JOURNAL)
    for statement in (*first, *schema_views.STATEMENTS):
        database.execute(statement)


@MIGRATIONS(name="0002_series")
def series(database: Database) -> None:
    """Name the series of each question, within which forecasts of many days are not independent."""
    database.execute("alter table question add column series text not null default ''")
    database.execute("""
update question set series = coalesce(
  (select json_extract(v.body, '$.series') from question_version v where v.version = question.version), '')
""")


@MIGRATIONS(name="0003_models")
def models(database: Database) -> None:
    """Create the tables of exchanges, of calls to models and of how models did."""
    for statement in schema_models.STATEMENTS:
        database.execute(statement)


@MIGRATIONS(name="0004_scores_by_kind")
def scores_by_kind(database: Database) -> None:
    """Have choices and curves scored by the rules for their kind in the next pass."""
    for statement in schema_scores.STATEMENTS:
        database.execute(statement)


@MIGRATIONS(name="0005_setup")
def setup(database: Database) -> None:
    """Have each forecast say how its forecaster was configured."""
    for statement in schema_setups.STATEMENTS:
        database.execute(statement)


@MIGRATIONS(name="0006_trading")
def trading(database: Database) -> None:
    """Create the tables of orders, leave, readings of accounts, rates and the audit."""
    for statement in schema_trading.STATEMENTS:
        database.execute(statement)


@MIGRATIONS(name="0007_lanes")
def lanes(database: Database) -> None:
    """Tell paper from live in readings of accounts, and count what is at stake from indexes."""
    for statement in schema_lanes.STATEMENTS:
        database.execute(statement)


@MIGRATIONS(name="0008_labels")
def labels(database: Database) -> None:
    """Keep what questions are filed under: it moves, so it is no part of their versions."""
    database.execute("alter table question add column labels text not null default '{}'")


@MIGRATIONS(name="0009_beliefs")
def beliefs(database: Database) -> None:
    """Keep how many updates of beliefs of a model could not be read, and how many requests to it failed."""
    for statement in schema_models.BELIEFS:
        database.execute(statement)


@MIGRATIONS(name="0010_ends_of_trials")
def ends_of_trials(database: Database) -> None:
    """Find the trials and forecasts that failed of late without reading all of them."""
    database.execute("create index trial_ended on trial (ended_at, ending) where ended_at is not null")
    database.execute("create index forecast_failed on forecast (ended_at, ref) where state = 'failed'")


@MIGRATIONS(name="0011_scores_of_venues")
def scores_of_venues(database: Database) -> None:
    """Create the tables of the scores and standings that venues themselves tell."""
    for statement in schema_scores.TOLD:
        database.execute(statement)


@MIGRATIONS(name="0012_questions_at_writing")
def questions_at_writing(database: Database) -> None:
    """Keep which version of its question a writer read for a request, and when it read a newer one than was known."""
    database.execute("alter table attempt add column version text references question_version (version)")
    database.execute("alter table question add column read_at text")


@MIGRATIONS(name="0013_ends_of_stops")
def ends_of_stops(database: Database) -> None:
    """Have each stop say what ends it; those from before wait for a person."""
    for statement in schema_trading.ENDS_OF_STOPS:
        database.execute(statement)


@MIGRATIONS(name="0014_apart")
def apart(database: Database) -> None:
    """Keep forecasts that a person only wants to see apart from those that are scheduled and may leave."""
    for statement in schema_views.APART:
        database.execute(statement)


@MIGRATIONS(name="0015_profit")
def profit(database: Database) -> None:
    """Keep what profit is worked out from beside fills: loans, payouts, and what venues say themselves."""
    for statement in schema_profit.STATEMENTS:
        database.execute(statement)
