"""What the newest forecast of a question rests on: whether another is due is judged against it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef
from bot.store.codec import moment, unpack_prediction
from bot.store.schema_lanes import IS_TAKEN_BACK
from bot.store.versions import stated

_BASES = f"""
select f.ref, f.version, f.made_at, c.probability, c.body, f.version is not q.version,
       (select count(*) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster and g.state = 'done'
          and g.apart = 0 and julianday(g.made_at) > julianday(f.made_at) - 1.0 / 24),
       exists (select 1 from current_resolution r where r.ref = f.ref and r.seen_at > f.made_at and {IS_TAKEN_BACK})
from latest_forecast f join question q on q.ref = f.ref left join price c on c.id = f.price
where f.forecaster = ? and f.ref in (select value from json_each(?))
"""  # noqa: S608 - made of constants
# So many forecasts in an hour are enough of a question whose text goes to and fro, as between two caches.
_OFTEN = 4
_CALM = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a forecast was made on: the version of the question, the moment, and the crowd's view then, if any.

    ``question`` is the question as it was then, where the ledger has another version of it now. ``of_late`` counts the
    forecasts of the hour that ended with this one. ``is_reopened``: an outcome was taken back since.
    """

    version: str
    made_at: datetime
    crowd: Prediction | None
    question: Question | None = None
    of_late: int = 1
    is_reopened: bool = False

    def changed_due(self, now: datetime) -> datetime:
        """Return when a question that changed is due: at once, unless it changes to and fro and was forecast often."""
        return now if self.of_late < _OFTEN else max(now, self.made_at + _CALM)


def read_bases(database: Database, forecaster: str, refs: str) -> Mapping[QuestionRef, Basis]:
    """Read what the newest completed forecasts of these questions, a JSON list, rest on."""
    return {
        QuestionRef.parse(ref): Basis(
            version=version,
            made_at=moment(made_at),
            crowd=None if probability is None and body is None else unpack_prediction(probability, body),
            question=stated(database, version, price=None) if is_restated else None,
            of_late=of_late,
            is_reopened=bool(is_reopened),
        )
        for ref, version, made_at, probability, body, is_restated, of_late, is_reopened in database.execute(
            _BASES, [forecaster, refs]
        ).fetchall()
    }
