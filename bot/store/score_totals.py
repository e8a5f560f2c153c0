"""Sums of scores by forecaster, group and unit of resampling, kept up by the writer: reports read no rows.

Counted is, of each forecaster, question and target, the last forecast before the close and before the outcome was
known, under the outcome against which it was scored. A unit is a cluster of predictions that move together. The first
``SCORE_UNITS`` outcomes have units of their own, later ones share them in turn: random groups of clusters (K. Wolter,
Introduction to Variance Estimation, 2007, chapter 2), which know the width of an interval to 1 / sqrt(2 x 1,024), two
per cent. Resolved predictions that are not counted are listed with the reason.
"""

# ruff: noqa: S608 - statements made of the constants below

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BRIER, CROWD_RULE_PREFIX, SCORING_RULES
from bot.core.questions import NO_ROUND, QuestionRef
from bot.store.serialization import to_json_list

SCORE_UNITS = 1_024
# Kept for predictions that are in no group of that kind.
NO_HORIZON = -1
# Ten bins of one width; a probability on an edge is in the lower one, as in ``bot.stats.calibration``.
BIN_EDGES = tuple(number * 0.1 for number in range(1, 10))
# Some venues score the forecast at one moment, which the question gives as its fact "spot_at".
WAS_BEFORE_SPOT_TIME = """not exists (
      select 1 from question_version v where v.version = q.version
        and julianday(json_extract(v.body, '$.facts.spot_at')) < julianday(f.cutoff))"""
SCORE_TOTAL_TABLES = (
    """create table score_total (
  forecaster text not null,
  rule text not null,
  venue text not null,
  source text not null,
  family text not null,
  horizon_days integer not null,
  unit integer not null,
  n integer not null,
  outcome real not null,
  value real not null,
  crowd_n integer not null,
  value_with_crowd real not null,
  crowd real not null,
  primary key (forecaster, rule, venue, source, family, horizon_days, unit)
) strict, without rowid
""",
    """create table score_bin (
  forecaster text not null,
  venue text not null,
  source text not null,
  family text not null,
  bin integer not null,
  n integer not null,
  probability real not null,
  outcome real not null,
  primary key (forecaster, venue, source, family, bin)
) strict, without rowid
""",
    # The first outcome of each cluster of several predictions; other clusters are single questions.
    """create table score_cluster (
  name text primary key,
  outcome integer not null
) strict, without rowid
""",
    """create table unscored (
  ref text not null,
  target text not null,
  forecaster text not null,
  resolved_at text not null,
  why text not null,
  primary key (ref, target, forecaster)
) strict, without rowid
""",
)
SCORE_ROUND_TABLE = """create table score_round (
  forecaster text not null,
  rule text not null,
  venue text not null,
  source text not null,
  family text not null,
  round text not null,
  n integer not null,
  outcome real not null,
  value real not null,
  outcome_with_crowd real not null,
  primary key (forecaster, rule, venue, source, family, round)
) strict, without rowid
"""


def _submitted_table(table: str) -> str:
    """Return the same table for forecasts submitted on paper or for real."""
    named = table.replace("create table score_", "create table submitted_")
    with_mode = named.replace("(\n", "(\n  paper integer not null check (paper in (0, 1)),\n", 1)
    return with_mode.replace("primary key (", "primary key (paper, ")


SUBMITTED_TABLES = tuple(map(_submitted_table, (*SCORE_TOTAL_TABLES[:2], SCORE_ROUND_TABLE)))
# Submitted on paper or for real; a forecast that was not submitted is neither.
_STANDS = "state not in ('refused', 'superseded')"
WAS_SUBMITTED = f"""(:paper is null or exists (
      select 1 from intent i where i.ref = f.ref and i.forecast = f.id and (i.mode = 'paper') = :paper
        and i.{_STANDS}))"""
_EVERY_PREDICTION = "from prediction p"
_PREDICTIONS_OF_REFS = "from json_each(:refs) chosen cross join prediction p on p.ref = chosen.value"
# Several intents of one forecast count once: the newest of equal rows is chosen below.
_EVERY_SUBMITTED = "from intent i cross join prediction p on p.forecast = i.forecast"
_SUBMITTED_OF_REFS = """from json_each(:refs) chosen cross join intent i on i.ref = chosen.value
  cross join prediction p on p.forecast = i.forecast"""
_IS_SUBMITTED = f"(i.mode = 'paper') = :paper and i.{_STANDS}"
_MODES_OF_REFS = f"""
select distinct i.mode = 'paper' {_SUBMITTED_OF_REFS}
where i.{_STANDS} and p.scored_against is not null
"""
_EVERY_OUTCOME = "from current_resolution r"
_OUTCOMES_OF_REFS = "from json_each(:refs) chosen cross join current_resolution r on r.ref = chosen.value"
# The columns of a row of ``max`` are those of the newest revision.
_COUNTED = """
with counted as (
  select f.forecaster, p.ref, p.target, p.forecast, p.probability, r.id as resolution,
         iif(r.kind = 'happened', r.value, 0.0) as outcome, q.venue, q.source, q.family,
         coalesce(t.horizon_days, {no_horizon}) as horizon_days, max(f.revision),
         case when t.horizon_days is not null and coalesce(q.batch, '') not in ('', '-')
              then q.batch || '/' || t.horizon_days || ' days/' || q.source
              when q.series <> '' then q.venue || ':' || q.source || '/' || q.series end as cluster
  {predictions}
  cross join resolution r on r.id = p.scored_against
  cross join forecast f on f.id = p.forecast
  cross join question q on q.ref = p.ref
  cross join target t on t.version = f.version and t.target = p.target
  where r.kind <> 'void' and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {conditions}
  group by f.forecaster, p.ref, p.target)
"""
_ADD_CLUSTERS = """
insert into score_cluster (name, outcome)
{counted} select cluster, min(resolution) from counted where cluster is not null group by cluster
on conflict do nothing
"""
_RULES = ", ".join(f"'{rule}'" for rule in SCORING_RULES)
_UNIT = f"coalesce(c.outcome, (select min(id) from resolution where ref = s.ref)) % {SCORE_UNITS} as unit"
_SCORES_OF_COUNTED = f"""\
cross join score own on own.forecast = s.forecast and own.target = s.target and own.resolution = s.resolution
  and own.rule in ({_RULES}) and abs(own.value) < 1e300
left join score crowd on crowd.forecast = s.forecast and crowd.target = s.target and crowd.resolution = s.resolution
  and crowd.rule = '{CROWD_RULE_PREFIX}' || own.rule and abs(crowd.value) < 1e300"""
SELECT_SUMS = f"""
{{counted}}
select s.forecaster, own.rule, s.venue, s.source, s.family, s.horizon_days,
       {_UNIT},
       :sign * count(*) as n, :sign * total(s.outcome) as outcome, :sign * total(own.value) as value,
       :sign * count(crowd.value) as crowd_n,
       :sign * total(iif(crowd.value is null, 0.0, own.value)) as value_with_crowd,
       :sign * total(crowd.value) as crowd
from counted s
{_SCORES_OF_COUNTED}
left join score_cluster c on c.name = s.cluster
group by 1, 2, 3, 4, 5, 6, 7
"""
_ADD_SUMS = """
insert into score_total {selected}
on conflict do update set n = n + excluded.n, outcome = outcome + excluded.outcome, value = value + excluded.value,
  crowd_n = crowd_n + excluded.crowd_n, value_with_crowd = value_with_crowd + excluded.value_with_crowd,
  crowd = crowd + excluded.crowd
"""
_BIN = " + ".join(f"(s.probability > {edge!r})" for edge in BIN_EDGES)
SELECT_BINS = f"""
{{counted}}
select s.forecaster, s.venue, s.source, s.family, {_BIN} as bin,
       :sign * count(*) as n, :sign * total(s.probability) as probability, :sign * total(s.outcome) as outcome
from counted s
cross join score own on own.forecast = s.forecast and own.target = s.target and own.resolution = s.resolution
  and own.rule = '{BRIER}'
where s.probability is not null
group by 1, 2, 3, 4, 5
"""
SELECT_ROUNDS = f"""
{{counted}}
select s.forecaster, own.rule, s.venue, s.source, s.family, coalesce(nullif(q.batch, ''), '{NO_ROUND}') as round,
       :sign * count(*) as n, :sign * total(s.outcome) as outcome, :sign * total(own.value) as value,
       :sign * total(iif(crowd.value is null, 0.0, s.outcome)) as outcome_with_crowd
from counted s
{_SCORES_OF_COUNTED}
cross join question q on q.ref = s.ref
group by 1, 2, 3, 4, 5, 6
"""
# Brier scores of each forecaster and of another one on the predictions that both have.
SELECT_PAIRS = f"""
{{counted}}
select s.forecaster, {_UNIT}, count(*), total(own.value), total(theirs.value)
from counted s
join counted o on o.forecaster = :other and o.ref = s.ref and o.target = s.target
cross join score own on own.forecast = s.forecast and own.target = s.target and own.resolution = s.resolution
  and own.rule = '{BRIER}'
cross join score theirs on theirs.forecast = o.forecast and theirs.target = o.target
  and theirs.resolution = o.resolution and theirs.rule = '{BRIER}'
left join score_cluster c on c.name = s.cluster
where s.forecaster <> :other
group by 1, 2
"""
_ADD_BINS = """
insert into score_bin {selected}
on conflict do update set n = n + excluded.n, probability = probability + excluded.probability,
  outcome = outcome + excluded.outcome
"""
_ADD_ROUNDS = """
insert into score_round {selected}
on conflict do update set n = n + excluded.n, outcome = outcome + excluded.outcome, value = value + excluded.value,
  outcome_with_crowd = outcome_with_crowd + excluded.outcome_with_crowd
"""
# Only the first forecast counts: if it was late, all later ones were.
_UNSCORED = """
with first as (
  select f.forecaster, f.ref, p.target, r.kind, r.body, r.resolved_at, q.closes_at, min(f.cutoff) as begun,
         (select json_extract(v.body, '$.facts.spot_at') from question_version v
          where v.version = q.version) as spot_at,
         max(exists (select 1 from score s
           where s.forecast = p.forecast and s.target = p.target and s.resolution = r.id)) as has_score,
         min(coalesce(p.scored_against, 0) = r.id) as is_done
  {outcomes}
  cross join prediction p on p.ref = r.ref and p.target = r.target
  cross join forecast f on f.id = p.forecast
  cross join question q on q.ref = f.ref
  where f.state = 'done'
  group by f.forecaster, f.ref, p.target, r.id),
explained as (
  select *, case
    when kind = 'void' then 'void: ' || coalesce(json_extract(body, '$.reason'), '')
    when julianday(begun) > julianday(spot_at) then 'forecast after the time at which its venue scores'
    when begun > closes_at then 'forecast after it had closed'
    when begun > resolved_at then 'forecast after its outcome was known'
    when has_score then null
    when is_done then 'its outcome does not fit the question that was forecast'
    else 'not scored yet' end as why
  from first)
select ref, target, forecaster, resolved_at, why from explained where why is not null
"""


def counted_query(predictions: str = _EVERY_PREDICTION, filters: str = "") -> str:
    """Return the expression ``counted``, with these conditions on the tables f, p, q, r and t after "and"."""
    before_spot_time = f"{WAS_BEFORE_SPOT_TIME} and {filters}" if filters else WAS_BEFORE_SPOT_TIME
    return _COUNTED.format(predictions=predictions, conditions=before_spot_time, no_horizon=NO_HORIZON)


def _fill_statements(predictions: str, outcomes: str) -> tuple[str, ...]:
    """Return the statements that add clusters, sums, bins and unscored predictions."""
    counted = counted_query(predictions)
    return (
        _ADD_CLUSTERS.format(counted=counted),
        _ADD_SUMS.format(selected=SELECT_SUMS.format(counted=counted)),
        _ADD_BINS.format(selected=SELECT_BINS.format(counted=counted)),
        f"insert into unscored {_UNSCORED.format(outcomes=outcomes)}",
    )


_ADD_CLUSTERS_OF_REFS, _ADD_SUMS_OF_REFS, _ADD_BINS_OF_REFS, _ADD_UNSCORED_OF_REFS = _fill_statements(
    _PREDICTIONS_OF_REFS, _OUTCOMES_OF_REFS
)
_ADD_ROUNDS_OF_REFS = _ADD_ROUNDS.format(selected=SELECT_ROUNDS.format(counted=counted_query(_PREDICTIONS_OF_REFS)))
_DELETE_UNSCORED_OF_REFS = "delete from unscored where ref in (select value from json_each(:refs))"
# Part of a migration, and so of its checksum: a change of them needs a new migration that fills the tables anew.
_FILL_TABLES = _fill_statements(_EVERY_PREDICTION, _EVERY_OUTCOME)
_ALL_COUNTED = counted_query()
# The same for the rounds, which a later migration added.
_FILL_ROUNDS = _ADD_ROUNDS.format(selected=SELECT_ROUNDS.format(counted=_ALL_COUNTED))


def _submitted_statements(predictions: str) -> tuple[str, ...]:
    """Return the statements that add clusters, sums, bins and rounds of what was submitted on paper or for real."""
    counted, added = counted_query(predictions, _IS_SUBMITTED), []
    for add, select in ((_ADD_SUMS, SELECT_SUMS), (_ADD_BINS, SELECT_BINS), (_ADD_ROUNDS, SELECT_ROUNDS)):
        selected = f"select :paper, * from ({select.format(counted=counted)}) where true"
        added.append(add.replace("into score_", "into submitted_").format(selected=selected))
    return _ADD_CLUSTERS.format(counted=counted), *added


_FILL_SUBMITTED, _ADD_SUBMITTED_OF_REFS = map(_submitted_statements, (_EVERY_SUBMITTED, _SUBMITTED_OF_REFS))


def _wrong_totals(table: str, counted: str, paper: int | None = None) -> str:
    """Return the query for rows of the tables with that prefix that the scores do not give."""
    kept, column = ("true", "") if paper is None else (f"paper = {paper}", f"{paper}, ")
    computed = f"union all select {column}* from "
    return f"""
select forecaster, rule, venue, source, family, horizon_days, unit, n, value from (
  select forecaster, rule, venue, source, family, horizon_days, unit, sum(n) as n, sum(outcome) as outcome,
         sum(value) as value, sum(crowd_n) as crowd_n, sum(value_with_crowd) as value_with_crowd, sum(crowd) as crowd
  from (select * from {table}_total where {kept} {computed} ({SELECT_SUMS.format(counted=counted)}))
  group by 1, 2, 3, 4, 5, 6, 7)
where n <> 0 or crowd_n <> 0 or abs(outcome) + abs(value) + abs(value_with_crowd) + abs(crowd) > 1e-6
union all
select forecaster, 'bin ' || bin, venue, source, family, null, null, n, probability from (
  select forecaster, venue, source, family, bin, sum(n) as n, sum(probability) as probability, sum(outcome) as outcome
  from (select * from {table}_bin where {kept} {computed} ({SELECT_BINS.format(counted=counted)}))
  group by 1, 2, 3, 4, 5)
where n <> 0 or abs(probability) + abs(outcome) > 1e-6
union all
select forecaster, rule || ' ' || round, venue, source, family, null, null, n, value from (
  select forecaster, rule, venue, source, family, round, sum(n) as n, sum(outcome) as outcome, sum(value) as value,
         sum(outcome_with_crowd) as outcome_with_crowd
  from (select * from {table}_round where {kept} {computed} ({SELECT_ROUNDS.format(counted=counted)}))
  group by 1, 2, 3, 4, 5, 6)
where n <> 0 or abs(outcome) + abs(value) + abs(outcome_with_crowd) > 1e-6
""".replace(":sign", "-1").replace(":paper", str(paper))


# No row in a correct ledger; floating-point sums that grow and shrink again are equal to rounding.
WRONG_SCORE_TOTALS = "union all".join(
    (
        _wrong_totals("score", _ALL_COUNTED),
        *(_wrong_totals("submitted", counted_query(_EVERY_SUBMITTED, _IS_SUBMITTED), paper) for paper in (0, 1)),
    )
)


def fill_score_totals(database: Database) -> None:
    """Fill the empty tables of a ledger from its rows."""
    for statement in _FILL_TABLES:
        database.execute(statement, {"sign": 1})


def fill_score_rounds(database: Database) -> None:
    """Fill the empty table of rounds of a ledger from its rows."""
    database.execute(_FILL_ROUNDS, {"sign": 1})


def fill_submitted_totals(database: Database) -> None:
    """Fill the empty tables of submitted forecasts of a ledger from its rows."""
    for paper in (0, 1):
        for statement in _FILL_SUBMITTED:
            database.execute(statement, {"sign": 1, "paper": paper})


@contextmanager
def kept_submitted_totals(database: Database, refs: Collection[QuestionRef | str]) -> Iterator[None]:
    """Keep the totals of submitted forecasts right while intents of these questions change, in one transaction."""
    if not refs:
        yield
        return
    changed = to_json_list(refs)
    _add_submitted(database, changed, sign=-1)
    yield
    _add_submitted(database, changed, sign=1)


def _add_submitted(database: Database, refs: str, *, sign: int) -> None:
    for (paper,) in database.execute(_MODES_OF_REFS, {"refs": refs}).fetchall():
        for statement in _ADD_SUBMITTED_OF_REFS:
            database.execute(statement, {"refs": refs, "sign": sign, "paper": paper})


@contextmanager
def kept_score_totals(database: Database, refs: Collection[QuestionRef | str]) -> Iterator[None]:
    """Keep the totals right while outcomes, scores or the columns of these questions change, in one transaction."""
    if not refs:
        yield
        return
    changed = to_json_list(refs)
    for statement in (_ADD_SUMS_OF_REFS, _ADD_BINS_OF_REFS, _ADD_ROUNDS_OF_REFS):
        database.execute(statement, {"refs": changed, "sign": -1})
    with kept_submitted_totals(database, refs):
        yield
    database.execute(_ADD_CLUSTERS_OF_REFS, {"refs": changed})
    for statement in (_ADD_SUMS_OF_REFS, _ADD_BINS_OF_REFS, _ADD_ROUNDS_OF_REFS):
        database.execute(statement, {"refs": changed, "sign": 1})
    for statement in (_DELETE_UNSCORED_OF_REFS, _ADD_UNSCORED_OF_REFS):
        database.execute(statement, {"refs": changed})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSums:
    """Sums of scores as columns of equal length, one row for each forecaster, rule, group and unit of resampling.

    ``horizon_days`` is ``NO_HORIZON`` without one. ``n`` counts predictions, ``crowd_n`` those with a crowd;
    ``outcome``, ``value`` and ``crowd`` are sums over them, ``value_with_crowd`` is one over those with a crowd.
    """

    forecaster: tuple[str, ...]
    rule: tuple[str, ...]
    venue: tuple[str, ...]
    source: tuple[str, ...]
    family: tuple[str, ...]
    horizon_days: tuple[int, ...]
    unit: tuple[int, ...]
    n: tuple[int, ...]
    outcome: tuple[float, ...]
    value: tuple[float, ...]
    crowd_n: tuple[int, ...]
    value_with_crowd: tuple[float, ...]
    crowd: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """The yes-or-no predictions of a forecaster in one of ten bins of [0, 1]: how many, and two sums over them."""

    forecaster: str
    bin: int
    n: int
    probability: float
    outcome: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSums:
    """The sums of a forecaster under a rule in one round and family: ``n`` predictions, outcomes and scores.

    ``outcome_with_crowd`` is a sum over those that had a crowd.
    """

    forecaster: str
    rule: str
    round: str
    family: str
    n: int
    outcome: float
    value: float
    outcome_with_crowd: float
