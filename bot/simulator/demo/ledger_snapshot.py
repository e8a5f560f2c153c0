"""Reads the ledger of the demo at a moment, with plain SQL, while the daemon writes it."""

from __future__ import annotations

import json
import re
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import field
from typing import TYPE_CHECKING, Any

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import open_reader_with
from bot.store.evidence import EvidenceReader, evidence_path
from bot.store.score_totals import WAS_BEFORE_SPOT_TIME

if TYPE_CHECKING:
    from pathlib import Path

# Each question with the number of its forecasts, and whether it is over.
_VENUES = """
select q.venue, count(*),
  sum(exists (select 1 from current_resolution r where r.ref = q.ref and r.kind <> 'void')),
  sum(exists (select 1 from current_resolution r where r.ref = q.ref and r.kind = 'void'))
from question q group by q.venue"""
_FORECASTS = """
select q.venue, f.forecaster, count(*) from forecast f join question q on q.ref = f.ref
where f.state = 'done' group by 1, 2"""
_INTENTS = "select venue, mode, state, count(*) from intent group by 1, 2, 3"
_HELD = "select why, count(*) from decision where verdict = 'hold' group by why"
# For each question the forecast that counts, chosen as ``foxcast score`` does, once anything was scored at all.
_SCORES = f"""
with eligible as (
  select f.forecaster, p.probability, c.probability as crowd, r.value as outcome,
    row_number() over (partition by f.forecaster, f.ref, p.target order by f.revision desc) as age
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  left join price c on c.id = f.price
  where r.kind = 'happened' and p.probability is not null and f.cutoff <= r.resolved_at
    and (q.closes_at is null or f.cutoff <= q.closes_at) and {WAS_BEFORE_SPOT_TIME} and exists (select 1 from score))
select forecaster, count(*), avg((probability - outcome) * (probability - outcome)), count(crowd),
  avg(case when crowd is not null then (probability - outcome) * (probability - outcome) end),
  avg((crowd - outcome) * (crowd - outcome))
from eligible where age = 1 group by forecaster"""  # noqa: S608 - made of constants
# The newest forecasts of each venue by the forecaster with steps, those with most steps first.
_NEWEST = """
select id, ref, title, venue, version, price, state, cutoff from (
  select f.id, f.ref, q.title, q.venue, f.version, f.price, f.state, f.cutoff,
    row_number() over (
      partition by q.venue
      order by substr(f.started_at, 1, 10) desc, (select total(steps) from trial t where t.forecast = f.id) desc, f.id
    ) as place
  from forecast f join question q on q.ref = f.ref where f.forecaster = ?
) where place <= ? order by place, venue"""
_STEPS = "select action, body from step where forecast = ? and trial = 1 order by number"
_OTHER_FORECAST = """
select p.probability, p.body from forecast f join prediction p on p.forecast = f.id
where f.ref = ? and f.forecaster = ? and f.cutoff <= ? order by f.cutoff desc, p.target limit 1"""
_OUTCOMES = """
select r.id, r.ref, q.title, q.venue, r.kind, r.body, substr(r.resolved_at, 1, 10)
from current_resolution r join question q on q.ref = r.ref where r.id > ? order by r.id"""
_LAST_FORECASTS = """
select p.probability, p.body, c.probability from forecast f join prediction p on p.forecast = f.id
left join price c on c.id = f.price
where f.ref = ? and f.forecaster = ? and f.state = 'done' order by f.revision desc limit 1"""
_EXAMPLE = """
select f.ref from forecast f where f.forecaster = ? and f.state = 'done'
order by exists (select 1 from current_resolution r where r.ref = f.ref and r.kind = 'happened') desc,
  (select total(steps) from trial t where t.forecast = f.id) desc, f.id
limit 1"""

# Reasons of decisions, without the parts that differ from one to the other.
_REASONS: Sequence[tuple[str, str]] = (
    (r"^recorded only", "recorded only: another forecaster's forecast is submitted"),
    (r"a gain of less than", "no order: too small a gain after fees"),
    (r"is within [\d.]+ of the market", "no order: too near to the market's price"),
    (r"caps\.(\w+) =", "no order: the cap {0} is used up"),
    (r"what is held is enough", "no order: enough is held already"),
    (r"outside the band", "no order: the price is outside the band"),
    (r"the book is stale|there is no book", "no order: no fresh order book"),
    (r"less than the least", "no order: too small for the venue"),
    (r"window closed|has closed|is closed", "the question closed before submission"),
    (r"not armed|no arm record|is not armed", "not permitted: not armed"),
)
VOID = "void"
# The id of the intent that a reason refers to.
_INTENT = re.compile(r" \(intent [^()]+\)")
_DIGITS = re.compile(r"-?\d[\d.,]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueCounts:
    """One venue: how many questions were found, are over or void, and the results of the forecasts."""

    questions: int = 0
    over: int = 0
    void: int = 0
    forecasts: Mapping[str, int] = field(default_factory=dict)
    taken: int = 0
    waiting: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefHistory:
    """One forecast as its belief moved: a probability after each step, of ``what`` where the question is not yes or no.

    A number or a date has its medians, within ``bounds``. ``other_forecast`` is the other forecaster's value, ``crowd``
    the price that was shown.
    """

    venue: str
    title: str
    what: str
    path: tuple[float, ...]
    bounds: tuple[float, float] = (0.0, 1.0)
    is_share: bool = True
    is_date: bool = False
    other_forecast: float | None = None
    crowd: float | None = None
    last_action: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedQuestion:
    """A question that is over: its outcome, and the last forecasts, as probabilities of that or of yes."""

    number: int
    venue: str
    title: str
    outcome: str
    day: str
    forecast: float | None
    other_forecast: float | None
    crowd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrierTally:
    """The Brier score of a forecaster so far, and the same with the crowd where there was one."""

    n: int
    brier: float
    with_crowd: int
    brier_with_crowd: float | None
    crowd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSnapshot:
    """Everything of the ledger that is shown."""

    venues: Mapping[str, VenueCounts] = field(default_factory=dict)
    beliefs: tuple[BeliefHistory, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[EndedQuestion, ...] = ()
    tallies: Mapping[str, BrierTally] = field(default_factory=dict)


class DemoLedgerReader:
    """Reads a ledger for the two forecasters that are compared: the one with steps, and the other.

    Outcomes are returned once each. Before there is a ledger, the result is empty.
    """

    def __init__(self, path: Path, forecasters: tuple[str, str]) -> None:
        self._path = path
        self._who, self._other = forecasters
        self._last = 0

    def read_snapshot(self, courses: int = 2) -> DemoSnapshot:
        """Return the present contents, with so many forecasts of each venue."""
        if not self._path.exists():
            return DemoSnapshot()
        try:
            with closing(open_reader_with(self._path, evidence_path(self._path))) as database:
                return self._take_snapshot(database.conn, courses)
        except (sqlite3.OperationalError, StoreError):
            # It is being made.
            return DemoSnapshot()

    def best_example(self) -> str:
        """Return the question whose forecast is most interesting: it took most steps, and is over if one is."""
        if not self._path.exists():
            return ""
        with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute(_EXAMPLE, (self._who,)).fetchone()
        return "" if row is None else str(row[0])

    def _take_snapshot(self, database: sqlite3.Connection, courses: int) -> DemoSnapshot:
        rows = database.execute(_OUTCOMES, (self._last,)).fetchall()
        ended = tuple(self._ended_question(database, row) for row in rows)
        self._last = max((one.number for one in ended), default=self._last)
        newest = database.execute(_NEWEST, (self._who, courses)).fetchall()
        return DemoSnapshot(
            venues=_count_venues(database),
            beliefs=tuple(one for row in newest if (one := self._belief_history(database, row)) is not None),
            held=_count_held(database),
            ended=ended,
            tallies={
                name: BrierTally(n=n, brier=brier, with_crowd=beside, brier_with_crowd=there, crowd=crowd)
                for name, n, brier, beside, there, crowd in database.execute(_SCORES)
            },
        )

    def _belief_history(self, database: sqlite3.Connection, row: Sequence[Any]) -> BeliefHistory | None:
        number, ref, title, venue, version, price, state, cutoff = row
        steps, evidence = database.execute(_STEPS, (number,)).fetchall(), EvidenceReader(database, number)
        predictions_by_step = [json.loads(evidence.text(body))["belief"]["predictions"] for _, body in steps]
        # Of several targets the first one.
        beliefs = [next(iter(one.values())) for one in predictions_by_step if one]
        if not beliefs:
            return None
        shape = json.loads(
            database.execute("select body from question_version where version = ?", (version,)).fetchone()[0]
        )
        look = _PredictionView.of(beliefs[-1], shape.get("shape", {}))
        crowd = database.execute("select probability, body from price where id = ?", (price,)).fetchone()
        beside = database.execute(_OTHER_FORECAST, (ref, self._other, cutoff)).fetchone()
        return BeliefHistory(
            venue=venue,
            title=title,
            what=look.what,
            path=tuple(look.at(one) for one in beliefs),
            bounds=look.bounds,
            is_share=not look.grid,
            is_date=look.is_date,
            other_forecast=look.of_row(beside),
            crowd=look.of_row(crowd),
            last_action=steps[-1][0],
            done=state == "done",
        )

    def _ended_question(self, database: sqlite3.Connection, row: Sequence[Any]) -> EndedQuestion:
        number, ref, title, venue, kind, body, day = row
        forecast_row = database.execute(_LAST_FORECASTS, (ref, self._who)).fetchone()
        other = database.execute(_LAST_FORECASTS, (ref, self._other)).fetchone()
        outcome, what = _outcome_text(kind, json.loads(body))
        look = _PredictionView(what=what)
        return EndedQuestion(
            number=number,
            venue=venue,
            title=title,
            outcome=outcome,
            day=day,
            forecast=look.of_row(forecast_row),
            other_forecast=look.of_row(other),
            crowd=None if forecast_row is None else forecast_row[2],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PredictionView:
    """The one number of a prediction that is shown: yes, an option, or the median on a grid."""

    what: str = ""
    grid: tuple[float, ...] = ()
    is_date: bool = False

    @classmethod
    def of(cls, last: Mapping[str, Any], shape: Mapping[str, Any]) -> _PredictionView:
        """Return the selector for the course of a belief with this last value."""
        if "probabilities" in last:
            options: Mapping[str, float] = last["probabilities"]
            return cls(what=max(options, key=lambda name: options[name]))
        if "cdf" in last:
            return cls(grid=tuple(shape["grid"]), is_date=shape.get("unit") == "date")
        return cls()

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the number."""
        return (self.grid[0], self.grid[-1]) if self.grid else (0.0, 1.0)

    def at(self, prediction: Mapping[str, Any]) -> float:
        """Return the number."""
        if "probabilities" in prediction:
            return float(prediction["probabilities"].get(self.what, 0.0))
        if "cdf" in prediction:
            place = bisect_left(prediction["cdf"], 0.5)
            return self.grid[min(place, len(self.grid) - 1)]
        return float(prediction["probability"])

    def of_row(self, row: Sequence[Any] | None) -> float | None:
        """Return the number of a row that begins with a probability, or else a body; None for another kind."""
        if row is None or row[:2] == (None, None):
            return None
        prediction = {"probability": row[0]} if row[1] is None else json.loads(row[1])
        kind = "cdf" if self.grid else "probabilities" if self.what else "probability"
        return self.at(prediction) if kind in prediction else None


def _outcome_text(kind: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return an outcome in a word, and its option."""
    match kind:
        case "happened":
            return ("yes" if body["value"] == 1.0 else "no" if body["value"] == 0.0 else f"{body['value']:.2f}"), ""
        case "chosen":
            return body["option"], body["option"]
        case "landed":
            return f"{body['value']:.6g}", ""
        case _:
            return VOID, ""


def _count_venues(database: sqlite3.Connection) -> Mapping[str, VenueCounts]:
    forecasts: dict[str, dict[str, int]] = {}
    for venue, forecaster, count in database.execute(_FORECASTS):
        forecasts.setdefault(venue, {})[forecaster] = count
    states: dict[str, Counter[str]] = {}
    for venue, _, state, count in database.execute(_INTENTS):
        states.setdefault(venue, Counter())[state] += count
    found = {}
    for venue, questions, over, void in database.execute(_VENUES):
        of = states.get(venue, Counter())
        taken = of["acked"] + of["superseded"]
        found[venue] = VenueCounts(
            questions=questions,
            over=over,
            void=void,
            forecasts=forecasts.get(venue, {}),
            taken=taken,
            refused=of["refused"],
            waiting=of.total() - taken - of["refused"] - of["absent"],
        )
    return found


def _count_held(database: sqlite3.Connection) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for why, count in database.execute(_HELD):
        counts[general_reason(why)] += count
    return dict(counts.most_common())


def general_reason(why: str) -> str:
    """Return the reason of a decision without the details of one question: names, prices and sums."""
    for pattern, reason in _REASONS:
        if found := re.search(pattern, why):
            return reason.format(*found.groups())
    return _DIGITS.sub("#", _INTENT.sub("", why))
