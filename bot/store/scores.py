"""How good the forecasts were: each prediction is scored against each outcome in force, once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlite_utils import Database

from bot.domain.prediction import BinaryShape, Prediction, Shape
from bot.domain.question import QuestionRef
from bot.domain.resolution import Outcome
from bot.domain.score import Score
from bot.errors import ContractError
from bot.store.codec import OUTCOME, QUESTION, moment, stamp, unpack_prediction
from bot.store.runs import Runs
from bot.store.setups import foreseeing_of

# From the side of what is not scored yet: it stays short, however long the past has grown.
_TO_SCORE = """
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
_ADD = """
insert into score (forecast, target, rule, resolution, value, at) values (?, ?, ?, ?, ?, ?)
on conflict do update set value = excluded.value, at = excluded.at
"""
# An outcome corrected since it was read leaves the prediction to be scored anew.
_SCORED = """
update prediction set scored_against = :resolution
where forecast = :forecast and target = :target and not exists (
  select 1 from resolution r where r.ref = prediction.ref and r.target = prediction.target and r.id > :resolution)
"""
# Some venues score what stood at one moment, which the question then names in its fact "spot_at".
BY_SPOT = """not exists (
      select 1 from question_version v where v.version = q.version
        and julianday(json_extract(v.body, '$.facts.spot_at')) < julianday(f.cutoff))"""
# What went on paper, or for real; a forecast that went nowhere is of neither kind.
WENT = """(:paper is null or exists (
      select 1 from intent i where i.forecast = f.id and (i.mode = 'paper') = :paper
        and i.state not in ('refused', 'superseded')))"""
# Of each forecaster, question and target, the last word before the window closed and before the outcome was known. It
# is the cutoff that counts, not the day of the computation: a forecast of the past is as good as its cutoff.
_TABLE = f"""
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
    and {BY_SPOT}
    and (:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:source is null or q.source = :source) and (:family is null or q.family = :family)
    and (:batch is null or q.batch = :batch) and (:since is null or f.cutoff >= :since)
    and (:until is null or f.cutoff < :until)
    and {WENT})
select id, forecaster, ref, target, batch, source, family, series, horizon_days, probability, crowd, outcome, cutoff
from eligible where age = 1 order by cutoff, ref, target, forecaster
"""  # noqa: S608 - made of constants
# The same choice of rows for choices and curves, with the values of their rules as they were scored; those that no rule
# could judge have none and are left out.
_MARKED = f"""
with eligible as (
  select f.id, f.forecaster, f.ref, p.target, r.kind, q.batch, q.source, q.family, q.series, t.horizon_days, f.cutoff,
         r.id as resolution,
         row_number() over (partition by f.forecaster, f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  join target t on t.version = f.version and t.target = p.target
  where r.kind in ('chosen', 'landed')
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {BY_SPOT}
    and (:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:source is null or q.source = :source) and (:family is null or q.family = :family)
    and (:batch is null or q.batch = :batch) and (:since is null or f.cutoff >= :since)
    and (:until is null or f.cutoff < :until)
    and {WENT})
select id, forecaster, ref, eligible.target, kind, batch, source, family, series, horizon_days, cutoff,
       s.rule, s.value
from eligible join score s on s.forecast = id and s.target = eligible.target and s.resolution = eligible.resolution
where age = 1 order by cutoff, ref, eligible.target, forecaster, s.rule
"""  # noqa: S608 - made of constants
_KINDS = {"chosen": "choice", "landed": "curve"}
# What calibration may learn from: the same choice of rows, raw, and only what resolved before the moment. Questions
# that say that nothing may be fitted on them (their fact "training") are left out, and so is what was said by one who
# saw the future.
_ANSWERED = f"""
with eligible as (
  select f.ref, p.target, p.raw_probability as raw, r.value as outcome, q.source, f.cutoff, r.resolved_at,
         row_number() over (partition by f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  where r.kind = 'happened' and r.resolved_at < :before and p.raw_probability is not null
    and f.forecaster = :forecaster and q.family = :family
    and coalesce(f.setup, '') not in (select value from json_each(:foreseeing))
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {BY_SPOT}
    and not exists (
      select 1 from question_version v where v.version = f.version and json_extract(v.body, '$.facts.training') = 'no'))
select raw, outcome, source, cutoff, resolved_at from eligible where age = 1 order by cutoff, ref, target
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorable:
    """A prediction with the outcome in force of its target; ``crowd`` is what others said when it was made.

    ``shape`` is that of the question as it was asked then. ``resolution`` is the row id of the outcome, so that a
    correction in the meantime is not taken for scored.
    """

    forecast: str
    ref: QuestionRef
    target: str
    resolution: int
    horizon_days: int | None
    family: str
    source: str
    shape: Shape
    prediction: Prediction
    crowd: Prediction | None
    outcome: Outcome
    made_at: datetime
    cutoff: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFilter:
    """Which scored predictions to read; None means any. ``since`` and ``until`` bound the cutoff (until is open).

    ``paper`` chooses those that went to a paper book, or, if False, to a venue.
    """

    venue: str | None = None
    forecaster: str | None = None
    source: str | None = None
    family: str | None = None
    batch: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    paper: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """Binary predictions with their outcomes, column by column, all of one length, in the order of cutoffs.

    ``series`` is empty for a question on its own; ``crowd`` is None where there was none; ``outcome`` is 1 for yes, 0
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
class Marked:
    """The scores of one prediction that is no yes-or-no: values by rule, those of the crowd under ``crowd`` rules.

    ``kind`` is the kind of the question's shape, choice or curve.
    """

    forecast: str
    forecaster: str
    ref: QuestionRef
    target: str
    kind: str
    batch: str | None
    source: str
    family: str
    series: str
    horizon_days: int | None
    cutoff: datetime
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Binary forecasts as they were before calibration, with their outcomes, column by column, by cutoff."""

    raw: tuple[float, ...]
    outcome: tuple[float, ...]
    source: tuple[str, ...]
    cutoff: tuple[datetime, ...]
    resolved_at: tuple[datetime, ...]

    def __len__(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores, and the columns they are made from."""

    writer: Runs
    readers: Runs

    async def to_score(self, limit: int) -> list[Scorable]:
        """Return predictions that were not yet scored against the outcome in force, void ones included."""
        return await self.readers.run(lambda database: _to_score(database, limit))

    async def record(self, scored: Sequence[Scorable], scores: Sequence[Score], *, at: datetime) -> None:
        """Store the scores of these predictions and mark each of them as done, also those that have no score.

        Raises ContractError for a score of something that is not among them.
        """
        await self.writer.run(lambda database: _record(database, scored, scores, stamp(at)))

    async def table(self, chosen: ScoreFilter) -> ScoredRows:
        """Return resolved binary predictions: of each forecaster and target the newest before close and outcome."""
        return await self.readers.run(lambda database: _table(database, chosen))

    async def marked(self, chosen: ScoreFilter) -> tuple[Marked, ...]:
        """Return the scores of choices and curves: the same choice of predictions as ``table`` for yes or no."""
        return await self.readers.run(lambda database: _marked(database, chosen))

    async def answered(self, forecaster: str, family: str, *, before: datetime) -> Answered:
        """Return what was said of a family of questions, chosen as ``table`` does, resolved before the moment."""
        values = {"forecaster": forecaster, "family": family, "before": stamp(before)}
        return await self.readers.run(lambda database: _answered(database, values))


def _to_score(database: Database, limit: int) -> list[Scorable]:
    return [_scorable(*row) for row in database.execute(_TO_SCORE, [limit])]


def _scorable(*columns: Any) -> Scorable:  # noqa: ANN401 - a row of _TO_SCORE
    forecast, ref, target, resolution, horizon, family, source, *rest = columns
    probability, body, crowd, crowd_body, outcome, made_at, cutoff, asked = rest
    return Scorable(
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
        made_at=moment(made_at),
        cutoff=moment(cutoff),
    )


def _record(database: Database, scored: Sequence[Scorable], scores: Sequence[Score], at: str) -> None:
    resolutions = {(item.forecast, item.target): item.resolution for item in scored}
    rows = []
    for score in scores:
        resolution = resolutions.get((score.forecast, score.target))
        if resolution is None:
            message = f"a score of target {score.target} of forecast {score.forecast}, which was not to be scored"
            raise ContractError(message)
        rows.append((score.forecast, score.target, score.rule, resolution, float(score.value), at))
    database.conn.executemany(_ADD, rows)
    marks = [{"forecast": item.forecast, "target": item.target, "resolution": item.resolution} for item in scored]
    database.conn.executemany(_SCORED, marks)


def _answered(database: Database, values: dict[str, str]) -> Answered:
    probe = {**values, "foreseeing": foreseeing_of(database, [values["forecaster"]])}
    rows = database.execute(_ANSWERED, probe).fetchall()
    raw, outcome, source, cutoff, resolved_at = list(zip(*rows, strict=True)) or [()] * 5
    return Answered(
        raw=raw,
        outcome=outcome,
        source=source,
        cutoff=tuple(map(datetime.fromisoformat, cutoff)),
        resolved_at=tuple(map(datetime.fromisoformat, resolved_at)),
    )


def _marked(database: Database, chosen: ScoreFilter) -> tuple[Marked, ...]:
    rows = database.execute(_MARKED, bounds_of(chosen)).fetchall()
    # A row for each rule; all but its name and value are the same.
    grouped = groupby(rows, key=lambda row: row[:-2])
    return tuple(_mark(columns, {rule: value for *_, rule, value in group}) for columns, group in grouped)


def _mark(columns: tuple[Any, ...], values: Mapping[str, float]) -> Marked:
    forecast, forecaster, ref, target, kind, batch, source, family, series, horizon, cutoff = columns
    return Marked(
        forecast=forecast,
        forecaster=forecaster,
        ref=QuestionRef.parse(ref),
        target=target,
        kind=_KINDS[kind],
        batch=batch,
        source=source,
        family=family,
        series=series,
        horizon_days=horizon,
        cutoff=moment(cutoff),
        values=values,
    )


def bounds_of(chosen: ScoreFilter) -> dict[str, str | bool | None]:
    """Return the values that a filter binds in queries."""
    return {
        "venue": chosen.venue,
        "forecaster": chosen.forecaster,
        "source": chosen.source,
        "family": chosen.family,
        "batch": chosen.batch,
        "since": stamp(chosen.since),
        "until": stamp(chosen.until),
        "paper": chosen.paper,
    }


def _table(database: Database, chosen: ScoreFilter) -> ScoredRows:
    rows = database.execute(_TABLE, bounds_of(chosen)).fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 13
    forecast, forecaster, ref, target, batch, source, family, series, horizon, *rest = columns
    probability, crowd, outcome, cutoff = rest
    return ScoredRows(
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
