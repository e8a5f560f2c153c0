"""What forecasters said of targets whose outcome was known before a moment: the ground of lessons and of weights.

This module works within the snapshots of others; it opens none.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.domain.learning import NOTE_TO_SELF, Hindsight
from bot.domain.question import QuestionRef
from bot.domain.resolution import Resolution
from bot.store.codec import OUTCOME, STEP, TRIAL, listed, moment, stamp, unpack_prediction
from bot.store.scores import BY_SPOT
from bot.store.setups import foreseeing_of
from bot.store.versions import stated

# Who learns from more than these learns little from those before them.
MOST = 5_000

# The choice of rows is that of the scores: of each forecaster and target the last word before close and outcome. One
# that saw the future teaches nothing, nor does a question that says that nothing may be fitted on it ("training").
_PASTS = f"""
with eligible as (
  select f.id, f.forecaster, f.version, f.price, f.cutoff, f.ref, p.target, p.raw_probability, p.raw_body,
         r.body as outcome, r.resolved_at,
         row_number() over (partition by f.forecaster, f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  where r.kind <> 'void' and r.resolved_at < :before and f.cutoff < :before
    and f.forecaster in (select value from json_each(:forecasters))
    and coalesce(f.setup, '') not in (select value from json_each(:foreseeing))
    and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
    and {BY_SPOT}
    and not exists (
      select 1 from question_version v where v.version = f.version and json_extract(v.body, '$.facts.training') = 'no'))
select id, forecaster, version, price, cutoff, ref, target, raw_probability, raw_body, outcome, resolved_at
from eligible where age = 1 order by resolved_at desc, ref desc, target desc, forecaster desc limit :most
"""  # noqa: S608 - made of constants
_REASONS = "select body from trial where forecast = ? and body is not null order by number desc"
_NOTES = "select body from step where forecast = ? and action = ? order by trial, number"


def pasts(database: Database, forecasters: Collection[str], before: datetime) -> list[Hindsight]:
    """Return the newest pasts of these forecasters, in the order in which their outcomes became known."""
    probe = {
        "before": stamp(before),
        "forecasters": listed(forecasters),
        "foreseeing": foreseeing_of(database, forecasters),
        "most": MOST,
    }
    return [_past(database, row) for row in reversed(database.execute(_PASTS, probe).fetchall())]


def _past(database: Database, row: Sequence[Any]) -> Hindsight:
    forecast, forecaster, version, price, cutoff, ref, target, probability, body, outcome, resolved_at = row
    return Hindsight(
        forecast=forecast,
        forecaster=forecaster,
        question=stated(database, version, price=price),
        prediction=unpack_prediction(probability, body),
        resolution=Resolution(
            ref=QuestionRef.parse(ref),
            target=target,
            outcome=OUTCOME.decode(outcome),
            resolved_at=moment(resolved_at),
        ),
        cutoff=moment(cutoff),
        reason=_reason(database, forecast),
        notes=tuple(_notes(database, forecast)),
    )


def _reason(database: Database, forecast: str) -> str:
    trials = (TRIAL.decode(body) for (body,) in database.execute(_REASONS, [forecast]))
    return next((trial.belief.reason for trial in trials if trial.belief is not None), "")


def _notes(database: Database, forecast: str) -> Iterator[str]:
    for (body,) in database.execute(_NOTES, [forecast, NOTE_TO_SELF]):
        note = STEP.decode(body).action.arguments.get("text")
        if isinstance(note, str):
            yield note
