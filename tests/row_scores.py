"""Scores of choices and curves row by row, which the sums that the ledger keeps are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlite_utils import Database

from bot.core.outcomes import CROWD_RULE_PREFIX
from bot.core.questions import NO_ROUND, QuestionRef
from bot.evaluation.score_rows import RuleScoreRow
from bot.store.ledger import Ledger
from bot.store.score_totals import WAS_BEFORE_SPOT_TIME, WAS_SUBMITTED
from bot.store.scores import ScoreFilter, score_filter_values
from bot.store.serialization import parse_timestamp

_SHAPE_KINDS = {"chosen": "choice", "landed": "curve"}
# For each forecaster, question and target, the last forecast before the close and before the outcome was known, with
# its scores by rule; predictions without a score are left out.
_SELECT_NON_BINARY_SCORES = f"""
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
    and {WAS_BEFORE_SPOT_TIME}
    and (:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:source is null or q.source = :source) and (:family is null or q.family = :family)
    and (:batch is null or q.batch = :batch) and (:since is null or f.cutoff >= :since)
    and (:until is null or f.cutoff < :until)
    and {WAS_SUBMITTED})
select id, forecaster, ref, eligible.target, kind, batch, source, family, series, horizon_days, cutoff,
       s.rule, s.value
from eligible join score s on s.forecast = id and s.target = eligible.target and s.resolution = eligible.resolution
where age = 1 order by cutoff, ref, eligible.target, forecaster, s.rule
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class NonBinaryScores:
    """The scores of one prediction that is not binary, by rule; rules of the crowd begin with ``crowd``.

    ``kind`` is the kind of the shape of the question: choice or curve.
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


async def read_row_scores(ledger: Ledger, chosen: ScoreFilter) -> tuple[NonBinaryScores, ...]:
    """Return the scores of choices and curves."""
    return await ledger.scores.readers.run(lambda database: _read_row_scores(database, chosen))


def _read_row_scores(database: Database, chosen: ScoreFilter) -> tuple[NonBinaryScores, ...]:
    rows = database.execute(_SELECT_NON_BINARY_SCORES, score_filter_values(chosen)).fetchall()
    # One row for each rule; only its last two columns, rule and value, differ.
    grouped = groupby(rows, key=lambda row: row[:-2])
    return tuple(
        _non_binary_scores_from_row(columns, {rule: value for *_, rule, value in group}) for columns, group in grouped
    )


def _non_binary_scores_from_row(columns: tuple[Any, ...], values: Mapping[str, float]) -> NonBinaryScores:
    forecast, forecaster, ref, target, kind, batch, source, family, series, horizon, cutoff = columns
    return NonBinaryScores(
        forecast=forecast,
        forecaster=forecaster,
        ref=QuestionRef.parse(ref),
        target=target,
        kind=_SHAPE_KINDS[kind],
        batch=batch,
        source=source,
        family=family,
        series=series,
        horizon_days=horizon,
        cutoff=parse_timestamp(cutoff),
        values=values,
    )


def rule_scores_by_forecaster(non_binary: Sequence[NonBinaryScores]) -> dict[str, list[RuleScoreRow]]:
    """Return the scored choices and curves of each forecaster, by name."""
    found: dict[str, list[RuleScoreRow]] = {}
    for item in non_binary:
        row = RuleScoreRow(
            round=item.batch or NO_ROUND,
            kind=item.kind,
            family=item.family,
            source=item.source,
            series=f"{item.ref.venue}:{item.source}/{item.series or item.ref.key}",
            horizon_days=item.horizon_days,
            scores={rule: value for rule, value in item.values.items() if not rule.startswith(CROWD_RULE_PREFIX)},
            crowd_scores={
                rule.removeprefix(CROWD_RULE_PREFIX): value
                for rule, value in item.values.items()
                if rule.startswith(CROWD_RULE_PREFIX)
            },
        )
        if row.scores:
            found.setdefault(item.forecaster, []).append(row)
    return dict(sorted(found.items()))
