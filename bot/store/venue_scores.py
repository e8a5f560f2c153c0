"""What venues themselves say of forecasts: their scores by question, and how the account stands in their contests.

Beside them: which resolved questions have no score of ours, and why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlite_utils import Database

from bot.domain.prediction import Prediction, Shape
from bot.domain.question import QuestionRef
from bot.domain.resolution import Outcome, Resolution
from bot.domain.score import ContestStanding
from bot.store.codec import OUTCOME, QUESTION, Form, clean, listed, moment, stamp, unpack_prediction
from bot.store.runs import Runs
from bot.store.scores import BY_SPOT, WENT, ScoreFilter, bounds_of

_STANDING: Form[ContestStanding] = Form("standing in a contest", ContestStanding)

_KNOWN = (
    "select ref, target, rule, value from venue_score where account = ? and ref in (select value from json_each(?))"
)
_FORGET = "delete from venue_score where ref = ? and target = ? and account = ?"
_ADD = "insert into venue_score (ref, target, account, rule, value, at) values (?, ?, ?, ?, ?, ?)"
_NO_STANDINGS = "delete from contest_standing where venue = ? and account = ?"
_STAND = "insert into contest_standing (venue, account, contest, body, at) values (?, ?, ?, ?, ?)"
_STANDINGS = """
select venue, account, body, at from contest_standing where (:venue is null or venue = :venue)
order by venue, account, contest
"""
# Of each question that resolved, at a venue that tells scores: the forecast that stood there when it was scored or
# closed. Of one that is on paper, or went nowhere, nothing is told.
_SCORED = f"""
with told as (
  select distinct q.venue, s.account from venue_score s join question q on q.ref = s.ref
  union select venue, account from contest_standing),
went as (
  select i.ref, i.account, i.forecast,
         row_number() over (partition by i.ref, i.account order by not ({BY_SPOT}), i.seq desc) as age
  from intent i
  join forecast f on f.id = i.forecast
  join question q on q.ref = i.ref
  join current_resolution r on r.ref = i.ref
  where i.action = 'forecast' and i.mode <> 'paper' and i.state = 'acked' and f.cutoff <= r.resolved_at
    and (:forecaster is null or f.forecaster = :forecaster) and (:since is null or f.cutoff >= :since))
select q.venue, went.account, q.ref, r.target, q.title, f.forecaster, r.body, r.resolved_at, p.probability, p.body,
       v.body, s.rule, s.value
from went
join told on told.account = went.account
join question q on q.ref = went.ref and q.venue = told.venue
join forecast f on f.id = went.forecast
join question_version v on v.version = f.version
join current_resolution r on r.ref = went.ref
join prediction p on p.forecast = f.id and p.target = r.target
left join venue_score s on s.ref = q.ref and s.target = r.target and s.account = went.account
where went.age = 1 and (:venue is null or q.venue = :venue)
order by q.venue, went.account, r.resolved_at desc, q.ref, r.target, s.rule
"""  # noqa: S608 - made of constants
# The first forecast decides: where it came too late, so did all that followed.
_UNSCORED = f"""
with first as (
  select f.forecaster, f.ref, p.target, r.kind, r.body, r.resolved_at, q.closes_at, q.title, min(f.cutoff) as begun,
         (select json_extract(v.body, '$.facts.spot_at') from question_version v
          where v.version = q.version) as spot_at,
         max(exists (select 1 from score s
           where s.forecast = p.forecast and s.target = p.target and s.resolution = r.id)) as has_score,
         min(coalesce(p.scored_against, 0) = r.id) as is_done
  from current_resolution r
  join prediction p on p.ref = r.ref and p.target = r.target
  join forecast f on f.id = p.forecast
  join question q on q.ref = f.ref
  where f.state = 'done'
    and (:venue is null or q.venue = :venue) and (:forecaster is null or f.forecaster = :forecaster)
    and (:since is null or f.cutoff >= :since) and {WENT}
  group by f.forecaster, f.ref, p.target, r.id)
select forecaster, ref, target, title, kind, body, resolved_at, closes_at, spot_at, begun, is_done from first
where kind = 'void' or begun > resolved_at or begun > coalesce(closes_at, begun)
  or julianday(begun) > julianday(coalesce(spot_at, begun)) or not has_score
order by resolved_at desc, ref, target, forecaster
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueScored:
    """A resolved question of which a forecast stood at its venue, with what the venue says of it by rule.

    ``prediction`` is the one that left, for the question as its ``shape`` was then; ``weight`` is the question's in
    its contest.
    """

    venue: str
    account: str
    ref: QuestionRef
    target: str
    title: str
    forecaster: str
    outcome: Outcome
    resolved_at: datetime
    prediction: Prediction
    shape: Shape
    weight: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """A resolved question without a score of ours for a forecaster, and why."""

    forecaster: str
    ref: QuestionRef
    target: str
    title: str
    resolved_at: datetime
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldStanding:
    """How an account stood in a contest when its venue told it last."""

    venue: str
    account: str
    standing: ContestStanding
    at: datetime


@dataclass(frozen=True, slots=True)
class VenueScores:
    """The scores and standings that venues tell."""

    writer: Runs
    readers: Runs

    async def record(self, resolutions: Sequence[Resolution], *, account: str, at: datetime) -> None:
        """Keep the scores that came with these outcomes; what was told before and is not any more goes."""
        if resolutions:
            await self.writer.run(lambda database: _record(database, resolutions, clean(account), stamp(at)))

    async def keep_standings(
        self, venue: str, account: str, standings: Sequence[ContestStanding], *, at: datetime
    ) -> None:
        """Keep how the account stands now, in place of what was told before."""
        await self.writer.run(lambda database: _stand(database, (venue, clean(account)), standings, stamp(at)))

    async def standings(self, venue: str | None = None) -> list[ToldStanding]:
        """Return how accounts stand."""
        return await self.readers.run(
            lambda database: [_stood(*row) for row in database.execute(_STANDINGS, {"venue": venue})]
        )

    async def scored(self, chosen: ScoreFilter) -> list[VenueScored]:
        """Return the resolved questions of venues that tell scores, the newest first; nothing of paper."""
        if chosen.paper:
            return []
        return await self.readers.run(lambda database: _scored(database, chosen))

    async def unscored(self, chosen: ScoreFilter) -> list[Unscored]:
        """Return the resolved questions that have no score of ours, the newest first."""
        return await self.readers.run(
            lambda database: [_unscored(*row) for row in database.execute(_UNSCORED, bounds_of(chosen))]
        )


def _record(database: Database, resolutions: Sequence[Resolution], account: str, at: str) -> None:
    refs = listed({resolution.ref for resolution in resolutions})
    known: dict[tuple[str, str], dict[str, float]] = {}
    for ref, target, rule, value in database.execute(_KNOWN, [account, refs]):
        known.setdefault((ref, target), {})[rule] = value
    for resolution in resolutions:
        place = (str(resolution.ref), resolution.target)
        if known.get(place, {}) != resolution.scores:
            database.execute(_FORGET, [*place, account])
            rows = [(*place, account, rule, float(value), at) for rule, value in resolution.scores.items()]
            database.conn.executemany(_ADD, rows)


def _stand(database: Database, whose: tuple[str, str], standings: Sequence[ContestStanding], at: str) -> None:
    database.execute(_NO_STANDINGS, whose)
    rows = [(*whose, clean(one.contest), _STANDING.encode(one), at) for one in standings]
    database.conn.executemany(_STAND, rows)


def _stood(venue: str, account: str, body: str, at: str) -> ToldStanding:
    return ToldStanding(venue=venue, account=account, standing=_STANDING.decode(body), at=moment(at))


def _scored(database: Database, chosen: ScoreFilter) -> list[VenueScored]:
    rows = database.execute(_SCORED, bounds_of(chosen)).fetchall()
    # A row for each rule; all but its name and value are the same.
    grouped = groupby(rows, key=lambda row: row[:-2])
    return [_one(columns, {rule: value for *_, rule, value in group if rule}) for columns, group in grouped]


def _one(columns: tuple[Any, ...], values: Mapping[str, float]) -> VenueScored:
    venue, account, ref, target, title, forecaster, outcome, resolved_at, probability, body, asked = columns
    question = QUESTION.decode(asked)
    return VenueScored(
        venue=venue,
        account=account,
        ref=QuestionRef.parse(ref),
        target=target,
        title=title,
        forecaster=forecaster,
        outcome=OUTCOME.decode(outcome),
        resolved_at=moment(resolved_at),
        prediction=unpack_prediction(probability, body),
        shape=question.shape,
        weight=_weight(question.facts.get("weight", "")),
        values=values,
    )


def _weight(text: str) -> float:
    try:
        return float(text or 1.0)
    except ValueError:
        return 1.0


def _unscored(*columns: Any) -> Unscored:  # noqa: ANN401 - a row of _UNSCORED
    forecaster, ref, target, title, kind, body, resolved_at, closes_at, spot_at, begun, is_done = columns
    return Unscored(
        forecaster=forecaster,
        ref=QuestionRef.parse(ref),
        target=target,
        title=title,
        resolved_at=moment(resolved_at),
        why=_why((kind, body), (resolved_at, closes_at, spot_at), begun, is_done=bool(is_done)),
    )


def _why(outcome: tuple[str, str], times: tuple[str, str | None, str | None], begun: str, *, is_done: bool) -> str:
    kind, body = outcome
    resolved_at, closes_at, spot_at = (datetime.fromisoformat(time) if time else None for time in times)
    first = moment(begun)
    if kind == "void":
        return f"void: {getattr(OUTCOME.decode(body), 'reason', '')}"
    if spot_at is not None and first > spot_at:
        return "forecast after the moment at which its venue scores"
    if closes_at is not None and first > closes_at:
        return "forecast after it had closed"
    if resolved_at is not None and first > resolved_at:
        return "forecast after its outcome was known"
    return "its outcome does not fit the question that was forecast" if is_done else "not scored yet"
