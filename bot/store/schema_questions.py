"""The tables of questions, their prices, pairs, due times and outcomes."""

_QUESTIONS = (
    """create table question (
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
  series text not null default '',
  labels text not null default '{}',
  read_at text,
  check (ref = venue || ':' || key)
) strict
""",
    "create index question_by_batch on question (venue, batch)",
    "create index question_by_close on question (closes_at, ref)",
    """create table question_text (
  digest text primary key,
  body text not null
) strict
""",
    """create table question_version (
  version text primary key,
  ref text not null references question (ref),
  seen_at text not null,
  body text not null,
  background text references question_text (digest),
  criteria text references question_text (digest)
) strict
""",
    """create table target (
  version text not null references question_version (version),
  target text not null,
  ref text not null references question (ref),
  resolves_at text,
  horizon_days integer,
  primary key (version, target)
) strict, without rowid
""",
    "create index target_by_question on target (ref, target)",
    """create table price (
  id integer primary key,
  ref text not null references question (ref),
  at text not null,
  seen_at text not null,
  probability real check (probability between 0 and 1),
  body text,
  explanation text not null,
  spread real,
  liquidity real,
  check ((probability is null) <> (body is null))
) strict
""",
    "create index price_by_question on price (ref, id)",
)
# Two questions of different places that may ask the same: what code, a model or a person says of it, and since when.
_PAIRS = (
    """create table question_pair (
  id text primary key,
  first text not null references question (ref),
  second text not null references question (ref),
  texts text not null,
  similarity real not null check (similarity between 0 and 1),
  exact integer not null check (exact in (0, 1)),
  state text not null check (state in ('proposed', 'same', 'different', 'confirmed', 'refused')),
  found_at text not null,
  changed_at text not null,
  judged_at text,
  by text not null default '',
  reason text not null default '',
  differences text not null default '',
  answer text not null default '',
  unique (first, second),
  check (first < second)
) strict
""",
    "create index question_pair_by_second on question_pair (second)",
    "create index question_pair_by_state on question_pair (state, judged_at, similarity)",
)
_SCHEDULE = (
    """create table schedule (
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
  forecast_only integer not null default 0 check (forecast_only in (0, 1)),
  primary key (ref, forecaster),
  check ((owner is null) = (leased_until is null))
) strict
""",
    "create index schedule_by_close on schedule (closes_at, due_at) where owner is null and due_at is not null",
    "create index schedule_by_due on schedule (due_at) where owner is null and due_at is not null",
    "create index schedule_leased on schedule (leased_until) where owner is not null",
    "create index schedule_window on schedule (closes_at) where window = 'open'",
    """create table lock (
  ref text not null references question (ref),
  forecaster text not null,
  reason text not null,
  locked_at text not null,
  until text,
  primary key (ref, forecaster)
) strict
""",
)
_OUTCOMES = (
    """create table resolution (
  id integer primary key,
  ref text not null references question (ref),
  target text not null,
  kind text not null check (kind in ('happened', 'chosen', 'landed', 'void')),
  value real,
  body text not null,
  resolved_at text not null,
  seen_at text not null
) strict
""",
    "create index resolution_by_target on resolution (ref, target, id)",
)
QUESTION_TABLES = (*_QUESTIONS, *_PAIRS, *_SCHEDULE, *_OUTCOMES)
