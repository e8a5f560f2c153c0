"""The tables of models, searches and pages: what was asked and told, what it cost, and how models did.

Scopes are plain text without a foreign key: a backtest asks too, and has no forecast in the ledger. The view ``cost``
answers what each forecast cost.
"""

_EXCHANGES = (
    """
create table exchange (
  scope text not null,
  trial integer not null check (trial >= 0),
  kind text not null,
  key text not null,
  nth integer not null check (nth >= 0),
  at text not null,
  answer text not null references document (digest),
  primary key (scope, trial, kind, key, nth)
) strict, without rowid
""",
)

_CALLS = (
    """
create table model_call (
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
  answer text references document (digest),
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
    "create index model_call_by_forecaster on model_call (forecaster, at)",
    "create index model_call_by_question on model_call (ref, at)",
    # A call that is under way, or was lost, counts at its worst case.
    """
create view cost as
select scope, ref, venue, forecaster, min(at) as first_at, count(*) as calls,
       sum(state in ('failed', 'lost')) as unanswered, sum(attempts) as attempts, sum(tokens_in) as tokens_in,
       sum(tokens_cached) as tokens_cached, sum(tokens_out) as tokens_out,
       sum(coalesce(cost_usd, worst_usd)) as cost_usd
from model_call
group by scope, ref, venue, forecaster
""",
)

_CONDUCTS = (
    """
create table conduct (
  id integer primary key,
  scope text not null,
  trial integer not null check (trial >= 0),
  role text not null,
  model text not null,
  at text not null,
  asked integer not null check (asked >= 0),
  unparsed integer not null check (unparsed >= 0),
  submitted integer check (submitted in (0, 1)),
  half integer not null check (half in (0, 1)),
  gap real not null check (gap between 0 and 1),
  unique (scope, trial, role, model)
) strict
""",
    "create index conduct_by_model on conduct (model, at, id)",
    """
create table demotion (
  id integer primary key,
  model text not null,
  at text not null,
  until text not null,
  why text not null
) strict
""",
    "create index demotion_by_end on demotion (until)",
)

STATEMENTS: tuple[str, ...] = (*_EXCHANGES, *_CALLS, *_CONDUCTS)

# Of trials from before this nothing is known, and nothing is held against them.
BELIEFS: tuple[str, ...] = tuple(
    f"alter table conduct add column {name} integer not null default 0 check ({name} >= 0)"
    for name in ("beliefs", "unread_beliefs", "errors")
)
