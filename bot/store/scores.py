"""Scores of forecasts: each prediction is scored once against each current outcome.

Resolved predictions can be read as columns, for reports and calibration.
"""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Outcome, Score
from bot.core.predictions import BinaryShape, Prediction, QuestionShape
from bot.core.questions import QuestionRef
from bot.store.connections import TransactionRunner
from bot.store.score_totals import (
    SELECT_BINS,
    SELECT_PAIRS,
    SELECT_ROUNDS,
    SELECT_SUMS,
    WAS_BEFORE_SPOT_TIME,
    WAS_SUBMITTED,
    CalibrationBin,
    RoundSums,
    ScoreSums,
    counted_query,
    kept_score_totals,
)
from bot.store.serialization import OUTCOME, QUESTION, format_timestamp, parse_timestamp, unpack_prediction
from bot.store.trials import clairvoyant_setups_json

# Starts from the unscored predictions: their index stays small.
_SELECT_UNSCORED = """
select p.forecast, p.ref, p.target, r.id, t.horizon_days, q.family, q.source, p.probability, p.body,
       c.probability, c.body, r.body, f.made_at, f.cutoff,
       case when p.probability is null then (select v.body from question_version v where v.version = f.version) end
from prediction p
cross join current_resolution r on r.ref = p.ref and r.target = p.target
join forecast f on f.id = p.forecast
join question q on q.ref = p.ref
join target t on t.version = f.version and t.target = p.target
left join price c on c.id = f.price
where p.scored_against is null
order by p.ref, p.target limit ?
"""
_UPSERT_SCORE = """
insert into score (forecast, target, rule, resolution, value, at) values (?, ?, ?, ?, ?, ?)
on conflict do update set value = excluded.value, at = excluded.at
"""
# A prediction whose outcome was corrected meanwhile stays unscored.
_SET_SCORED = """
update prediction set scored_against = :resolution
where forecast = :forecast and target = :target and not exists (
  select 1 from resolution r where r.ref = prediction.ref and r.target = prediction.target and r.id > :resolution)
"""
# For each forecaster, question and target, the last forecast before the close and before the outcome was known. The
# cutoff counts, not the time of the computation.
_SELECT_BINARY_COLUMNS = f"""
with eligible as (
  select f.id, f.forecaster, f.ref, p.target, q.batch, q.source, q.family, q.series, t.horizon_days,
         p.probability, c.probability as crowd, r.value as outcome, f.cutoff,
         row_number() over (partition by f.forecaster, f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  join target t on t.version = f.version and t.target = p.target
  left join price c on c.id = f.price
  where r.kind = 'happened' and p.probability is not null
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {WAS_BEFORE_SPOT_TIME}
    and (:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:source is null or q.source = :source) and (:family is null or q.family = :family)
    and (:batch is null or q.batch = :batch) and (:since is null or f.cutoff >= :since)
    and (:until is null or f.cutoff < :until)
    and {WAS_SUBMITTED})
select id, forecaster, ref, target, batch, source, family, series, horizon_days, probability, crowd, outcome, cutoff
from eligible where age = 1 order by cutoff, ref, target, forecaster
"""  # noqa: S608 - made of constants
_FILTERS = f"""(:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:source is null or q.source = :source) and (:family is null or q.family = :family)
    and (:batch is null or q.batch = :batch) and (:since is null or f.cutoff >= :since)
    and (:until is null or f.cutoff < :until)
    and {WAS_SUBMITTED}"""
_COUNTED = counted_query(filters=_FILTERS)
# No forecast is made before its cutoff.
_COUNTED_SINCE = counted_query(
    "from forecast recent indexed by forecast_recent cross join prediction p on p.forecast = recent.id",
    f"recent.state = 'done' and recent.made_at >= :since and {_FILTERS}",
)
_KEPT = """ {table}
where n > 0 and (:venue is null or venue = :venue) and (:forecaster is null or forecaster = :forecaster)
  and (:source is null or source = :source) and (:family is null or family = :family)
"""


def _sources(rows: str, table: str) -> tuple[str, str, str]:
    """Return where sums come from: the rows themselves, the totals, and those of what was submitted."""
    submitted = f"{_KEPT.format(table=f'submitted_{table}')} and paper = :paper"
    return f"({rows})", _KEPT.format(table=f"score_{table}"), submitted


_SUM_COLUMNS = tuple(field.name for field in fields(ScoreSums))
_SELECT_SUMS = tuple(
    f"select {', '.join(_SUM_COLUMNS)} from {source}"  # noqa: S608 - made of constants
    for source in _sources(SELECT_SUMS, "total")
)
_SELECT_BINS = tuple(
    f"""select forecaster, bin, sum(n), total(probability), total(outcome) from {source} group by forecaster, bin"""  # noqa: S608 - made of constants
    for source in _sources(SELECT_BINS, "bin")
)
_SELECT_ROUNDS = tuple(
    f"""select forecaster, rule, round, family, sum(n), total(outcome), total(value), total(outcome_with_crowd)
    from {source} group by forecaster, rule, round, family order by round"""  # noqa: S608 - made of constants
    for source in _sources(SELECT_ROUNDS, "round")
)
# Data for calibration: the same choice of rows, raw, resolved before the given time. Questions that must not be used
# for training (their fact "training") are left out, and so are forecasts that saw the future.
_SELECT_CALIBRATION_COLUMNS = f"""
with eligible as (
  select f.ref, p.target, p.raw_probability as raw, r.value as outcome, q.source, f.cutoff, r.resolved_at,
         row_number() over (partition by f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  where r.kind = 'happened' and r.resolved_at < :before and p.raw_probability is not null
    and f.forecaster = :forecaster and q.family = :family
    and coalesce(f.setup, '') not in (select value from json_each(:clairvoyant))
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {WAS_BEFORE_SPOT_TIME}
    and not exists (
      select 1 from question_version v where v.version = f.version and json_extract(v.body, '$.facts.training') = 'no'))
select raw, outcome, source, cutoff, resolved_at from eligible where age = 1 order by cutoff, ref, target
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorablePrediction:
    """A prediction with the current outcome of its target; ``crowd`` is the crowd's prediction at its start.

    ``shape`` is the shape of the question at that time. ``resolution`` is the row id of the outcome, so that a later
    correction does not count as scored.
    """

    forecast: str
    ref: QuestionRef
    target: str
    resolution: int
    horizon_days: int | None
    family: str
    source: str
    shape: QuestionShape
    prediction: Prediction
    crowd: Prediction | None
    outcome: Outcome
    made_at: datetime
    cutoff: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFilter:
    """Which scored predictions to read; None means any. ``since`` and ``until`` bound the cutoff (without ``until``).

    ``paper`` chooses those that were submitted on paper or, if False, to a venue.
    """

    venue: str | None = None
    forecaster: str | None = None
    source: str | None = None
    family: str | None = None
    batch: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    paper: bool | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether totals do not say it: they have no times and batches."""
        return any(value is not None for value in (self.batch, self.since, self.until))


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names of forecasters and of sources of questions that a ledger has."""

    forecasters: frozenset[str]
    sources: frozenset[str]


def _read_known_names(database: Database, *, scored: bool) -> KnownNames:
    tables = ("score_total", "score_total") if scored else ("forecast", "question")
    forecasters, sources = (
        database.execute(f"select distinct {column} from {table} where {column} <> ''").fetchall()  # noqa: S608
        for column, table in zip(("forecaster", "source"), tables, strict=True)
    )
    return KnownNames(frozenset(name for (name,) in forecasters), frozenset(name for (name,) in sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedBinaryColumns:
    """Binary predictions with their outcomes, as columns of equal length, by cutoff.

    ``series`` is empty for a question without a series; ``crowd`` is None without a crowd; ``outcome`` is 1 for yes, 0
    for no, or a share between them.
    """

    forecast: tuple[str, ...]
    forecaster: tuple[str, ...]
    ref: tuple[QuestionRef, ...]
    target: tuple[str, ...]
    batch: tuple[str | None, ...]
    source: tuple[str, ...]
    family: tuple[str, ...]
    series: tuple[str, ...]
    horizon_days: tuple[int | None, ...]
    probability: tuple[float, ...]
    crowd: tuple[float | None, ...]
    outcome: tuple[float, ...]
    cutoff: tuple[datetime, ...]

    def __len__(self) -> int:
        return len(self.forecast)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationColumns:
    """Binary forecasts before calibration with their outcomes, as columns, by cutoff."""

    raw: tuple[float, ...]
    outcome: tuple[float, ...]
    source: tuple[str, ...]
    cutoff: tuple[datetime, ...]
    resolved_at: tuple[datetime, ...]

    def __len__(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, slots=True)
class ScoreStore:
    """Scores, and resolved predictions as columns."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def known_names(self, *, scored: bool = False) -> KnownNames:
        """Return the names of forecasters and sources on record, or quickly only of those that have scores."""
        return await self.readers.run(lambda database: _read_known_names(database, scored=scored))

    async def to_score(self, limit: int) -> list[ScorablePrediction]:
        """Return the predictions not yet scored against their current outcome, void ones included."""
        return await self.readers.run(lambda database: _list_unscored(database, limit))

    async def record(self, scored: Sequence[ScorablePrediction], scores: Sequence[Score], *, at: datetime) -> None:
        """Store the scores of these predictions and mark all of them as scored, also those without a score.

        Raises MalformedDataError for a score of another prediction.
        """
        await self.writer.run(lambda database: _record_scores(database, scored, scores, format_timestamp(at)))

    async def read_sums(self, chosen: ScoreFilter) -> ScoreSums:
        """Return the sums of scores, from the totals where these say it."""
        sql = _choose_statement(_SELECT_SUMS, chosen)
        rows = await self.readers.run(lambda database: _fetch(database, sql, chosen))
        columns = list(zip(*rows, strict=True)) or [()] * len(_SUM_COLUMNS)
        return ScoreSums(**dict(zip(_SUM_COLUMNS, columns, strict=True)))

    async def read_bins(self, chosen: ScoreFilter) -> list[CalibrationBin]:
        """Return the calibration of the same predictions, by forecaster and bin."""
        sql = _choose_statement(_SELECT_BINS, chosen)
        rows = await self.readers.run(lambda database: _fetch(database, sql, chosen))
        names = [field.name for field in fields(CalibrationBin)]
        return [CalibrationBin(**dict(zip(names, row, strict=True))) for row in rows]

    async def read_rounds(self, chosen: ScoreFilter) -> list[RoundSums]:
        """Return the sums of the same predictions by round and family, rounds in order."""
        sql = _choose_statement(_SELECT_ROUNDS, chosen)
        rows = await self.readers.run(lambda database: _fetch(database, sql, chosen))
        names = [field.name for field in fields(RoundSums)]
        return [RoundSums(**dict(zip(names, row, strict=True))) for row in rows]

    async def read_pairs(self, chosen: ScoreFilter, *, other: str) -> list[tuple[str, int, int, float, float]]:
        """Return Brier scores of each forecaster next to those of another one, on the predictions that both have.

        A row is the forecaster, the unit of resampling, the number of predictions, and the two sums of scores.
        """
        sql, values = _rows_statement(SELECT_PAIRS, chosen), {**score_filter_values(chosen), "other": other}
        return await self.readers.run(lambda database: database.execute(sql, values).fetchall())

    async def read_binary_columns(self, chosen: ScoreFilter) -> ResolvedBinaryColumns:
        """Return resolved binary predictions: the newest before close and outcome of each forecaster and target."""
        return await self.readers.run(lambda database: _read_binary_columns(database, chosen))

    async def read_calibration_columns(self, forecaster: str, family: str, *, before: datetime) -> CalibrationColumns:
        """Return forecasts of a family of questions resolved before that time, chosen like ``read_binary_columns``."""
        values = {"forecaster": forecaster, "family": family, "before": format_timestamp(before)}
        return await self.readers.run(lambda database: _read_calibration_columns(database, values))


def _list_unscored(database: Database, limit: int) -> list[ScorablePrediction]:
    return [_scorable_from_row(*row) for row in database.execute(_SELECT_UNSCORED, [limit])]


def _scorable_from_row(*columns: Any) -> ScorablePrediction:  # noqa: ANN401 - a database row
    forecast, ref, target, resolution, horizon, family, source, *rest = columns
    probability, body, crowd, crowd_body, outcome, made_at, cutoff, asked = rest
    return ScorablePrediction(
        forecast=forecast,
        ref=QuestionRef.parse(ref),
        target=target,
        resolution=resolution,
        horizon_days=horizon,
        family=family,
        source=source,
        shape=BinaryShape() if asked is None else QUESTION.decode(asked).shape,
        prediction=unpack_prediction(probability, body),
        crowd=None if crowd is None and crowd_body is None else unpack_prediction(crowd, crowd_body),
        outcome=OUTCOME.decode(outcome),
        made_at=parse_timestamp(made_at),
        cutoff=parse_timestamp(cutoff),
    )


def _record_scores(database: Database, scored: Sequence[ScorablePrediction], scores: Sequence[Score], at: str) -> None:
    resolutions = {(item.forecast, item.target): item.resolution for item in scored}
    rows = []
    for score in scores:
        resolution = resolutions.get((score.forecast, score.target))
        if resolution is None:
            message = (
                f"a score of target {score.target} of forecast {score.forecast}, which is not among those to score"
            )
            raise MalformedDataError(message)
        rows.append((score.forecast, score.target, score.rule, resolution, float(score.value), at))
    marks = [{"forecast": item.forecast, "target": item.target, "resolution": item.resolution} for item in scored]
    with kept_score_totals(database, {item.ref for item in scored}):
        database.conn.executemany(_UPSERT_SCORE, rows)
        database.conn.executemany(_SET_SCORED, marks)


def _read_calibration_columns(database: Database, values: dict[str, str]) -> CalibrationColumns:
    values = {**values, "clairvoyant": clairvoyant_setups_json(database, [values["forecaster"]])}
    rows = database.execute(_SELECT_CALIBRATION_COLUMNS, values).fetchall()
    raw, outcome, source, cutoff, resolved_at = list(zip(*rows, strict=True)) or [()] * 5
    return CalibrationColumns(
        raw=raw,
        outcome=outcome,
        source=source,
        cutoff=tuple(map(datetime.fromisoformat, cutoff)),
        resolved_at=tuple(map(datetime.fromisoformat, resolved_at)),
    )


def _choose_statement(statements: tuple[str, ...], chosen: ScoreFilter) -> str:
    from_rows, from_totals, from_submitted = statements
    if chosen.needs_rows:
        return _rows_statement(from_rows, chosen)
    return from_totals if chosen.paper is None else from_submitted


def _rows_statement(statement: str, chosen: ScoreFilter) -> str:
    return statement.format(counted=_COUNTED if chosen.since is None else _COUNTED_SINCE)


def _fetch(database: Database, sql: str, chosen: ScoreFilter) -> list[tuple[Any, ...]]:
    return database.execute(sql, {**score_filter_values(chosen), "sign": 1}).fetchall()


def score_filter_values(chosen: ScoreFilter) -> dict[str, str | bool | None]:
    """Return the values of a filter for queries."""
    return {
        "venue": chosen.venue,
        "forecaster": chosen.forecaster,
        "source": chosen.source,
        "family": chosen.family,
        "batch": chosen.batch,
        "since": format_timestamp(chosen.since),
        "until": format_timestamp(chosen.until),
        "paper": chosen.paper,
    }


def _read_binary_columns(database: Database, chosen: ScoreFilter) -> ResolvedBinaryColumns:
    rows = database.execute(_SELECT_BINARY_COLUMNS, score_filter_values(chosen)).fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 13
    forecast, forecaster, ref, target, batch, source, family, series, horizon, *rest = columns
    probability, crowd, outcome, cutoff = rest
    return ResolvedBinaryColumns(
        forecast=forecast,
        forecaster=forecaster,
        ref=tuple(map(QuestionRef.parse, ref)),
        target=target,
        batch=batch,
        source=source,
        family=family,
        series=series,
        horizon_days=horizon,
        probability=probability,
        crowd=crowd,
        outcome=outcome,
        cutoff=tuple(map(datetime.fromisoformat, cutoff)),
    )
