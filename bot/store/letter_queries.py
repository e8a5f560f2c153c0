"""Queries for the weekly letter: what was forecast, scored, spent and gained since a time."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.store.evidence import EvidenceReader
from bot.store.serialization import STEP, format_timestamp

_FORECASTS = """
select q.venue, count(*), count(distinct f.ref) from forecast f join question q on q.ref = f.ref
where f.state = 'done' and f.made_at >= ? group by q.venue order by q.venue
"""
_FAILED = "select count(*) from forecast where state = 'failed' and ended_at >= ?"
_HAS_FORECAST = "select 1 from forecast where state = 'done' and made_at < ? limit 1"
# Of each question the last forecast of each forecaster.
_SCORED = """
select f.id, f.forecaster, q.title, p.probability, c.probability, r.value, s.value
from score s
join current_resolution r on r.id = s.resolution
join latest_forecast f on f.id = s.forecast
join prediction p on p.forecast = s.forecast and p.target = s.target
join question q on q.ref = f.ref
left join price c on c.id = f.price
where s.rule = 'brier' and s.at >= ? and p.probability is not null and r.value is not null
order by s.value, f.id
"""
_LAST_STEPS = "select body from step where forecast = ? order by trial, number desc limit 1"
_SPENT = "select count(*), coalesce(sum(coalesce(cost_usd, worst_usd)), 0) from model_call where at >= ?"
# What an account is worth, and by how much more than at its first reading since then: what was moved is no gain.
_EQUITY = """
select a.venue, a.paper, a.currency, l.equity,
       l.equity - l.transfers - l.unconfirmed - (e.equity - e.transfers - e.unconfirmed)
from (select venue, account, paper, currency, min(id) as first from account_reading where at >= :since
      group by venue, account, paper) a
join account_reading e on e.id = a.first
join account_reading l on l.id = (
  select max(id) from account_reading n where n.venue = a.venue and n.account = a.account and n.paper = a.paper)
order by a.venue
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueForecasts:
    """How many forecasts were made at a venue, of how many questions."""

    venue: str
    forecasts: int
    questions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAnswer:
    """A binary forecast that was scored: its probability and the crowd's, what happened (0 to 1), its Brier score."""

    forecast: str
    forecaster: str
    title: str
    probability: float
    crowd: float | None
    outcome: float
    brier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountGain:
    """The change of an account's value, in its currency, with deposits and withdrawals."""

    venue: str
    paper: bool
    currency: str
    worth: float
    gained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekRecord:
    """Everything that the letter reports; ``scored`` begins with the best answer."""

    forecasts: Sequence[VenueForecasts]
    failed: int
    scored: Sequence[ScoredAnswer]
    calls: int
    spent_usd: float
    gains: Sequence[AccountGain]
    reasons: dict[str, str]


def has_forecast_before(database: Database, moment: datetime) -> bool:
    """Return whether a forecast was made before a moment."""
    return database.execute(_HAS_FORECAST, [format_timestamp(moment)]).fetchone() is not None


def read_week(database: Database, since: datetime, *, explained: int) -> WeekRecord:
    """Return the record since a time, with the reasons of so many of the best and of the worst answers."""
    begin = format_timestamp(since)
    scored = [
        ScoredAnswer(
            forecast=id_,
            forecaster=forecaster,
            title=title,
            probability=probability,
            crowd=crowd,
            outcome=outcome,
            brier=brier,
        )
        for id_, forecaster, title, probability, crowd, outcome, brier in database.execute(_SCORED, [begin])
    ]
    calls, spent_usd = database.execute(_SPENT, [begin]).fetchone()
    (failed,) = database.execute(_FAILED, [begin]).fetchone()
    return WeekRecord(
        forecasts=[
            VenueForecasts(venue=venue, forecasts=forecasts, questions=questions)
            for venue, forecasts, questions in database.execute(_FORECASTS, [begin])
        ],
        failed=failed,
        scored=scored,
        calls=calls,
        spent_usd=spent_usd,
        gains=[
            AccountGain(venue=venue, paper=bool(paper), currency=currency, worth=worth, gained=gained)
            for venue, paper, currency, worth, gained in database.execute(_EQUITY, {"since": begin})
        ],
        reasons={one.forecast: _reason(database, one.forecast) for one in (*scored[:explained], *scored[-explained:])},
    )


def _reason(database: Database, forecast: str) -> str:
    """Return why the first trial of a forecast ended with its belief: in its own words, else its strongest evidence."""
    row = database.execute(_LAST_STEPS, [forecast]).fetchone()
    if row is None:
        return ""
    try:
        belief = STEP.decode(EvidenceReader(database, forecast).text(row[0])).belief
    except MalformedDataError:
        return ""
    evidence = max(
        (*belief.evidence_for, *belief.evidence_against), key=lambda one: abs(one.log_odds or 0.0), default=None
    )
    return belief.reason or ("" if evidence is None else evidence.text) or belief.anchor
