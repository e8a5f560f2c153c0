"""The tables of the ledger and the list of its migrations.

All values are text, numbers and JSON, readable with plain ``sqlite3``: questions are named ``venue:key``, times are
UTC text whose order is the order of time, and binary predictions are numbers (other shapes are JSON in ``body``). The
views ``latest_forecast``, ``current_resolution``, ``scored`` and ``cost`` answer common questions. ``document`` holds
small documents that decide something, such as setups, fitted parameters and sealed requests; exchanges, prompts and
steps are in ``bot.store.evidence``.

Migrations begin with the first release: never edit a released one, add a new one below it.
"""

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from bot.store.cost_totals import COST_TOTAL_TABLES
from bot.store.market_totals import MARKET_TABLES, MARKET_TRIGGERS, fill_open_markets
from bot.store.schema_questions import QUESTION_TABLES
from bot.store.schema_views import IS_RESOLVED, REPLACED_TRIGGERS, RESOLVED_TRIGGERS, TRIGGERS, VIEWS
from bot.store.score_totals import (
    SCORE_ROUND_TABLE,
    SCORE_TOTAL_TABLES,
    SUBMITTED_TABLES,
    fill_score_rounds,
    fill_score_totals,
    fill_submitted_totals,
)

MIGRATIONS = Migrations("foxcast")
_DOCUMENTS = (
    """create table document (
  digest text primary key check (length(digest) = 64),
  media_type text not null,
  size integer not null check (size >= 0),
  packed blob not null
) strict
""",
)
_FORECASTS = (
    """create table forecast (
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
  setup text references document (digest),
  evidence_removed_at text,
  forecast_only integer not null default 0 check (forecast_only in (0, 1)),
  unique (ref, forecaster, revision),
  check ((state = 'done') = (made_at is not null)),
  check ((state = 'running') = (ended_at is null))
) strict
""",
    "create unique index forecast_running on forecast (ref, forecaster) where state = 'running'",
    "create index forecast_undecided on forecast (decided_at, made_at, id) where state = 'done'",
    "create index forecast_recent on forecast (made_at, id) where state = 'done'",
    """create index forecast_with_evidence on forecast (ended_at)
  where state <> 'running' and evidence_removed_at is null
""",
    "create index forecast_failed on forecast (ended_at, ref) where state = 'failed'",
    """create table prediction (
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
    """create table trial (
  forecast text not null references forecast (id),
  number integer not null check (number >= 1),
  steps integer not null default 0 check (steps >= 0),
  ended_at text,
  ending text,
  body text,
  primary key (forecast, number),
  check ((ended_at is null) = (body is null))
) strict, without rowid
""",
    "create index trial_ended on trial (ended_at, ending) where ended_at is not null",
)
_INTENTS = (
    """create table intent (
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
  changed_at text not null,
  order_body text,
  text text not null default '',
  currency text not null default '',
  cost real not null default 0 check (cost >= 0),
  event text not null default '',
  creator text not null default '',
  category text not null default '',
  question_resolved integer not null default 0 check (question_resolved in (0, 1))
) strict
""",
    "create index intent_by_batch on intent (venue, account, batch)",
    "create index intent_by_question on intent (ref, account)",
    "create index intent_by_state on intent (state)",
    "create index intent_by_account on intent (venue, account, planned_at)",
    # One open intent for each question and account; a comment does not block the order or forecast it comments on.
    """create unique index intent_open on intent (ref, account, action = 'comment')
  where state in ('planned', 'ready', 'sending', 'unknown', 'absent', 'in doubt')
""",
    # Covering: adding up what is at stake never touches the rows with the texts of orders.
    """create index intent_at_stake
  on intent (venue, account, action, question_resolved, ref, mode, state, cost, event, creator, category)
  where action = 'order' and question_resolved = 0
""",
    """create index intent_waiting on intent (venue, account, state, mode, cost)
  where state in ('planned', 'ready', 'sending', 'unknown', 'absent')
""",
    """create index intent_with_fee on intent (venue, account, action, ref, mode, state, cost, event, creator, category)
  where action = 'comment' and cost > 0
""",
    """create table decision (
  id integer primary key,
  forecast text not null references forecast (id),
  at text not null,
  verdict text not null check (verdict in ('send', 'hold')),
  why text not null,
  until text,
  mode text,
  intent text references intent (id),
  market text references document (digest),
  check ((verdict = 'send') = (intent is not null)),
  check ((verdict = 'send') = (mode is not null))
) strict
""",
    "create index decision_by_forecast on decision (forecast, id)",
    "create index decision_by_until on decision (until) where until is not null",
    "create index decision_by_intent on decision (intent)",
    """create table attempt (
  id text primary key,
  intent text not null references intent (id),
  number integer not null check (number >= 1),
  started_at text not null,
  settled_at text,
  state text not null check (state in ('sending', 'acked', 'refused', 'unknown', 'absent', 'in doubt')),
  reference text not null default '',
  detail text not null default '',
  tag text not null default '',
  request text references document (digest),
  fence_at text,
  version text references question_version (version),
  unique (intent, number)
) strict
""",
    "create index attempt_by_tag on attempt (tag) where tag <> ''",
    "create index attempt_by_reference on attempt (reference) where reference <> ''",
    "create index attempt_by_start on attempt (started_at)",
    "create index attempt_by_fence on attempt (fence_at) where fence_at is not null",
    """create table fill (
  intent text not null references intent (id),
  reference text not null,
  at text not null,
  shares real not null check (shares > 0),
  price real not null check (price between 0 and 1),
  fee real not null check (fee >= 0),
  cash real not null,
  primary key (intent, reference)
) strict, without rowid
""",
    "create index fill_sold on fill (intent) where cash > 0",
)
# Kept up by triggers, because counting a large table takes seconds.
_TALLIES = (
    """create table tally (
  name text primary key check (name in ('questions', 'forecasts')),
  count integer not null check (count >= 0)
) strict, without rowid
""",
    """create table intent_tally (
  venue text not null,
  paper integer not null check (paper in (0, 1)),
  state text not null,
  count integer not null check (count >= 0),
  primary key (venue, paper, state)
) strict, without rowid
""",
)
_PERMISSIONS = (
    """create table arm (
  id text primary key,
  venue text not null,
  account text not null,
  config text not null,
  by text not null,
  armed_at text not null,
  until text not null,
  per_order real check (per_order >= 0),
  per_day real check (per_day >= 0),
  total real check (total >= 0),
  disarmed_at text,
  folder text not null default ''
) strict
""",
    "create index arm_by_venue on arm (venue, account, until)",
    """create table approval (
  id text primary key,
  forecast text not null unique references forecast (id),
  venue text not null,
  cost real not null check (cost >= 0),
  state text not null check (state in ('asked', 'approved', 'rejected', 'expired', 'used')),
  asked_at text not null,
  expires_at text not null,
  answered_at text,
  by text not null default '',
  shown text not null
) strict
""",
    "create index approval_by_state on approval (state, expires_at)",
    # A venue that is halted until a person or a condition ends the halt; '' means every venue.
    """create table halt (
  id integer primary key,
  venue text not null,
  at text not null,
  why text not null,
  by text not null,
  resumed_at text,
  resumed_by text,
  end_condition text not null default 'person' check (end_condition in ('person', 'settled', 'renewed')),
  credentials text not null default ''
) strict
""",
    "create index halt_active on halt (venue) where resumed_at is null",
    """create table principal (
  name text primary key,
  role text not null check (role in ('viewer', 'operator', 'approver')),
  salt text not null,
  hash text not null,
  made_at text not null,
  revoked_at text
) strict
""",
)
_ACCOUNTS = (
    """create table account_reading (
  id integer primary key,
  venue text not null,
  account text not null,
  at text not null,
  currency text not null,
  cash real not null,
  equity real not null,
  body text not null,
  paper integer not null default 1 check (paper in (0, 1)),
  reserved real not null default 0,
  loan real not null default 0,
  owed real not null default 0,
  elsewhere real not null default 0,
  until text not null default '',
  transfers real not null default 0,
  unconfirmed real not null default 0
) strict
""",
    """create index account_reading_by_account
  on account_reading (venue, account, paper, at, equity, transfers, unconfirmed)
""",
    """create table payout (
  venue text not null,
  account text not null,
  paper integer not null check (paper in (0, 1)),
  contract text not null,
  leg text not null check (leg in ('yes', 'no')),
  price real check (price between 0 and 1),
  at text not null,
  resolution integer not null references resolution (id),
  primary key (venue, account, paper, contract, leg)
) strict, without rowid
""",
    """create table venue_gain (
  venue text not null,
  account text not null,
  contract text not null,
  gain real not null,
  closed integer not null check (closed in (0, 1)),
  before_fees integer not null check (before_fees in (0, 1)),
  at text not null,
  primary key (venue, account, contract)
) strict, without rowid
""",
    """create table rate_usage (
  name text primary key,
  free_at text not null,
  body text not null
) strict
""",
)
_SCORES = (
    """create table score (
  forecast text not null,
  target text not null,
  rule text not null,
  resolution integer not null references resolution (id),
  value real not null,
  at text not null,
  primary key (forecast, target, rule, resolution),
  foreign key (forecast, target) references prediction (forecast, target)
) strict, without rowid
""",
    """create table fitted_parameters (
  digest text primary key references document (digest),
  forecaster text not null,
  before text not null,
  examples integer not null check (examples >= 0),
  provenance text not null,
  at text not null
) strict
""",
    "create index fitted_parameters_by_forecaster on fitted_parameters (forecaster, before)",
    """create table venue_score (
  ref text not null references question (ref),
  target text not null,
  account text not null,
  rule text not null,
  value real not null,
  at text not null,
  primary key (ref, target, account, rule)
) strict, without rowid
""",
    """create table contest_standing (
  venue text not null,
  account text not null,
  contest text not null,
  body text not null,
  at text not null,
  primary key (venue, account, contest)
) strict, without rowid
""",
)
_CALLS = (
    """create table model_call (
  id text primary key,
  at text not null,
  scope text not null,
  ref text not null,
  venue text not null,
  forecaster text not null,
  trial integer not null check (trial >= 0),
  role text not null,
  provider text not null,
  model text not null,
  request text not null,
  state text not null check (state in ('reserved', 'done', 'failed', 'lost')),
  worst_usd real not null check (worst_usd >= 0),
  cost_usd real check (cost_usd >= 0),
  attempts integer not null default 0 check (attempts >= 0),
  calls integer not null default 0 check (calls >= 0),
  tokens_in integer not null default 0 check (tokens_in >= 0),
  tokens_cached integer not null default 0 check (tokens_cached between 0 and tokens_in),
  tokens_out integer not null default 0 check (tokens_out >= 0),
  latency_s real check (latency_s >= 0),
  finish text not null default '',
  detail text not null default '',
  answer text,
  lost_at text,
  check ((state in ('done', 'failed')) = (cost_usd is not null)),
  check ((state in ('done', 'failed')) = (latency_s is not null)),
  check ((state = 'done') = (answer is not null)),
  check ((state = 'lost') = (lost_at is not null))
) strict
""",
    "create index model_call_answered on model_call (request, at) where state = 'done'",
    "create index model_call_reserved on model_call (id) where state = 'reserved'",
    "create index model_call_by_scope on model_call (scope, forecaster)",
    "create index model_call_by_time on model_call (at)",
    "create index model_call_unanswered on model_call (at) where state in ('lost', 'failed')",
    "create index model_call_by_forecaster on model_call (forecaster, at)",
    "create index model_call_by_question on model_call (ref, at)",
    """create table model_performance (
  id integer primary key,
  scope text not null,
  trial integer not null check (trial >= 0),
  role text not null,
  model text not null,
  at text not null,
  asked integer not null check (asked >= 0),
  unparsed integer not null check (unparsed >= 0),
  submitted integer check (submitted in (0, 1)),
  ended_at_half integer not null check (ended_at_half in (0, 1)),
  submission_gap real not null check (submission_gap between 0 and 1),
  beliefs integer not null default 0 check (beliefs >= 0),
  unread_beliefs integer not null default 0 check (unread_beliefs >= 0),
  errors integer not null default 0 check (errors >= 0),
  unique (scope, trial, role, model)
) strict
""",
    "create index model_performance_by_model on model_performance (model, at, id)",
    """create table demotion (
  id integer primary key,
  model text not null,
  role text not null default '',
  at text not null,
  until text not null,
  why text not null
) strict
""",
    "create index demotion_by_end on demotion (until)",
    """create table model_concurrency (
  model text primary key,
  at text not null,
  concurrency real not null check (concurrency >= 1),
  ceiling integer not null check (ceiling >= 1),
  reason text not null
) strict
""",
)
_JOURNAL = (
    """create table event (
  id integer primary key,
  at text not null,
  kind text not null,
  text text not null
) strict
""",
    "create index event_by_kind on event (kind, id)",
    """create table job_run (
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
_ALERTS = (
    """create table alert (
  id integer primary key,
  key text not null,
  level text not null check (level in ('info', 'warning', 'critical')),
  text text not null,
  opened_at text not null,
  closed_at text
) strict
""",
    "create index alert_by_key on alert (key, id)",
    "create unique index alert_open on alert (key) where closed_at is null",
    """create table notification (
  id text not null,
  channel text not null,
  level text not null check (level in ('info', 'warning', 'critical')),
  subject text not null,
  text text not null,
  at text not null,
  due_at text not null,
  attempts integer not null default 0 check (attempts >= 0),
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'dropped')),
  ended_at text,
  detail text not null default '',
  primary key (channel, id),
  check ((state = 'waiting') = (ended_at is null))
) strict, without rowid
""",
    "create index notification_waiting on notification (channel, at) where state = 'waiting'",
)
_AUDIT = (
    """create table audit (
  seq integer primary key check (seq >= 1),
  at text not null,
  kind text not null,
  venue text not null,
  actor text not null,
  body text not null,
  previous text not null check (length(previous) = 64),
  hash text not null unique check (length(hash) = 64)
) strict
""",
)


@MIGRATIONS(name="0001_ledger")
def create_ledger(database: Database) -> None:
    """Create the tables with their indexes, the views and the triggers."""
    statements = (
        *(*_DOCUMENTS, *QUESTION_TABLES, *_FORECASTS, *_INTENTS, *_TALLIES, *_PERMISSIONS),
        *(*_ACCOUNTS, *_SCORES, *_CALLS, *_JOURNAL, *_ALERTS, *_AUDIT, *VIEWS, *TRIGGERS),
    )
    for statement in statements:
        database.execute(statement)


@MIGRATIONS(name="0002_score_totals")
def add_score_totals(database: Database) -> None:
    """Add sums of scores, and fill them from the rows of a ledger that has some."""
    for statement in SCORE_TOTAL_TABLES:
        database.execute(statement)
    fill_score_totals(database)


@MIGRATIONS(name="0003_cost_totals")
def add_cost_totals(database: Database) -> None:
    """Add costs of model calls by day, which a job sums, and drop indexes that nothing reads."""
    for statement in COST_TOTAL_TABLES:
        database.execute(statement)
    for index in ("model_call_by_question", "model_call_unanswered"):
        database.execute(f"drop index {index}")


@MIGRATIONS(name="0004_score_rounds")
def add_score_rounds(database: Database) -> None:
    """Add sums of scores by round, and fill them from the rows of a ledger that has some."""
    database.execute(SCORE_ROUND_TABLE)
    fill_score_rounds(database)


@MIGRATIONS(name="0005_market_totals")
def add_market_totals(database: Database) -> None:
    """Add open and closed markets of accounts, which a job closes, and an index of void outcomes."""
    database.execute("create index resolution_void on resolution (ref) where kind = 'void'")
    for statement in (*MARKET_TABLES, *MARKET_TRIGGERS):
        database.execute(statement)
    fill_open_markets(database)


@MIGRATIONS(name="0006_submitted_totals")
def add_submitted_totals(database: Database) -> None:
    """Add sums of the scores of submitted forecasts, and fill them from the rows of a ledger that has some."""
    for statement in SUBMITTED_TABLES:
        database.execute(statement)
    fill_submitted_totals(database)


@MIGRATIONS(name="0007_resolved_questions")
def add_resolved_questions(database: Database) -> None:
    """Add to each question whether it is resolved, which its orders now take from there, and an index of the others."""
    database.execute("alter table question add column resolved integer not null default 0 check (resolved in (0, 1))")
    database.execute(f"update question set resolved = 1 where {IS_RESOLVED.format(ref='question.ref')}")  # noqa: S608 - constants
    database.execute("create index question_unresolved on question (closes_at, ref) where resolved = 0")
    for name in REPLACED_TRIGGERS:
        database.execute(f"drop trigger {name}")
    for statement in RESOLVED_TRIGGERS:
        database.execute(statement)
