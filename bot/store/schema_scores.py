"""The tables of outcomes and scores, and how choices and curves came to be scored by rules of their own.

Until 0004 a choice had its Brier score under the name of the other one for yes or no, and a curve had none; both are
scored anew.
"""

TABLES: tuple[str, ...] = (
    """
create table resolution (
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
    """
create table score (
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
    """
create table fitted (
  digest text primary key references document (digest),
  forecaster text not null,
  before text not null,
  examples integer not null check (examples >= 0),
  provenance text not null,
  at text not null
) strict
""",
    "create index fitted_by_forecaster on fitted (forecaster, before)",
)

# What venues themselves tell of the forecasts of an account, and of its place in their contests; as it was told last.
TOLD: tuple[str, ...] = (
    """
create table venue_score (
  ref text not null references question (ref),
  target text not null,
  account text not null,
  rule text not null,
  value real not null,
  at text not null,
  primary key (ref, target, account, rule)
) strict, without rowid
""",
    """
create table contest_standing (
  venue text not null,
  account text not null,
  contest text not null,
  body text not null,
  at text not null,
  primary key (venue, account, contest)
) strict, without rowid
""",
)

STATEMENTS: tuple[str, ...] = (
    """
delete from score where exists (
  select 1 from prediction p
  where p.forecast = score.forecast and p.target = score.target and p.probability is null)
""",
    "update prediction set scored_against = null where probability is null and scored_against is not null",
)
