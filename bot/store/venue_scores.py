"""Scores and contest standings that venues report, and resolved questions without our own score, with the reason."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import ContestStanding, Outcome, Resolution
from bot.core.predictions import Prediction, QuestionShape
from bot.core.questions import QuestionRef
from bot.store.connections import TransactionRunner
from bot.store.score_totals import WAS_BEFORE_SPOT_TIME, WAS_SUBMITTED
from bot.store.scores import ScoreFilter, score_filter_values
from bot.store.serialization import (
    OUTCOME,
    QUESTION,
    JsonSerializer,
    format_timestamp,
    parse_timestamp,
    sanitize_text,
    to_json_list,
    unpack_prediction,
)

_STANDING_SERIALIZER: JsonSerializer[ContestStanding] = JsonSerializer("standing in a contest", ContestStanding)
_KNOWN_SCORES = (
    "select ref, target, rule, value from venue_score where account = ? and ref in (select value from json_each(?))"
)
_DELETE_SCORES = "delete from venue_score where ref = ? and target = ? and account = ?"
_INSERT_SCORE = "insert into venue_score (ref, target, account, rule, value, at) values (?, ?, ?, ?, ?, ?)"
_DELETE_STANDINGS = "delete from contest_standing where venue = ? and account = ?"
_INSERT_STANDING = "insert into contest_standing (venue, account, contest, body, at) values (?, ?, ?, ?, ?)"
_SELECT_STANDINGS = """
select venue, account, body, at from contest_standing where (:venue is null or venue = :venue)
order by venue, account, contest
"""
# For each resolved question of a venue that reports scores: the real forecast there when it was scored or closed.
_SELECT_SCORED = f"""
with reporting as (
  select distinct q.venue, s.account from venue_score s join question q on q.ref = s.ref
  union select venue, account from contest_standing),
submitted as (
  select i.ref, i.account, i.forecast,
         row_number() over (partition by i.ref, i.account order by not ({WAS_BEFORE_SPOT_TIME}), i.seq desc) as age
  from reporting
  cross join intent i on i.venue = reporting.venue and i.account = reporting.account
  join forecast f on f.id = i.forecast
  join question q on q.ref = i.ref
  join current_resolution r on r.ref = i.ref
  where i.action = 'forecast' and i.mode <> 'paper' and i.state = 'acked' and f.cutoff <= r.resolved_at
    and (:venue is null or i.venue = :venue)
    and (:forecaster is null or f.forecaster = :forecaster) and (:since is null or f.cutoff >= :since))
select q.venue, submitted.account, q.ref, r.target, q.title, f.forecaster, r.body, r.resolved_at, p.probability, p.body,
       v.body, s.rule, s.value
from submitted
cross join question q on q.ref = submitted.ref
join forecast f on f.id = submitted.forecast
join question_version v on v.version = f.version
join current_resolution r on r.ref = submitted.ref
join prediction p on p.forecast = f.id and p.target = r.target
left join venue_score s on s.ref = q.ref and s.target = r.target and s.account = submitted.account
where submitted.age = 1
order by q.venue, submitted.account, r.resolved_at desc, q.ref, r.target, s.rule
"""  # noqa: S608 - made of constants
# The first rows of each reason, with the count of all that have it.
_SELECT_UNSCORED = f"""
with counted as (
  select u.forecaster, u.ref, u.target, u.why, u.resolved_at, count(*) over (partition by u.forecaster, u.why) as count,
         row_number() over (partition by u.forecaster, u.why order by u.resolved_at desc, u.ref, u.target) as place
  from unscored u
  where (:venue is null or substr(u.ref, 1, length(:venue) + 1) = :venue || ':')
    and (:forecaster is null or u.forecaster = :forecaster)
    and ((:since is null and :paper is null) or exists (
      select 1 from forecast f where f.ref = u.ref and f.forecaster = u.forecaster
        and (:since is null or f.cutoff >= :since) and {WAS_SUBMITTED})))
select forecaster, ref, target, why, count from counted
where place <= coalesce(:examples, place) order by resolved_at desc, ref, target, forecaster
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueScoredQuestion:
    """A resolved question with a forecast at its venue, and the scores that the venue reports, by rule.

    ``prediction`` is the submitted one, for the question with its ``shape`` at that time; ``weight`` is the weight of
    the question in its contest.
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
    shape: QuestionShape
    weight: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredQuestion:
    """A resolved question without our own score for a forecaster, and the reason; ``count`` have the same reason."""

    forecaster: str
    ref: QuestionRef
    target: str
    why: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStanding:
    """The last reported standing of an account in a contest."""

    venue: str
    account: str
    standing: ContestStanding
    at: datetime


@dataclass(frozen=True, slots=True)
class VenueScoreStore:
    """The scores and standings that venues report."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def record(self, resolutions: Sequence[Resolution], *, account: str, at: datetime) -> None:
        """Store the scores of these resolutions, replacing earlier ones."""
        if resolutions:
            await self.writer.run(
                lambda database: _record_venue_scores(
                    database, resolutions, sanitize_text(account), format_timestamp(at)
                )
            )

    async def keep_standings(
        self, venue: str, account: str, standings: Sequence[ContestStanding], *, at: datetime
    ) -> None:
        """Replace the standings of an account."""
        await self.writer.run(
            lambda database: _replace_standings(
                database, (venue, sanitize_text(account)), standings, format_timestamp(at)
            )
        )

    async def standings(self, venue: str | None = None) -> list[ReportedStanding]:
        """Return the standings of accounts."""
        return await self.readers.run(
            lambda database: [_standing_from_row(*row) for row in database.execute(_SELECT_STANDINGS, {"venue": venue})]
        )

    async def scored(self, chosen: ScoreFilter) -> list[VenueScoredQuestion]:
        """Return the resolved questions of venues that report scores, newest first; none for paper."""
        if chosen.paper:
            return []
        return await self.readers.run(lambda database: _list_scored(database, chosen))

    async def unscored(self, chosen: ScoreFilter, *, examples: int | None = None) -> list[UnscoredQuestion]:
        """Return the resolved questions without our own score, newest first; at most so many of each reason."""
        values = {**score_filter_values(chosen), "examples": examples}
        return await self.readers.run(
            lambda database: [_unscored_from_row(*row) for row in database.execute(_SELECT_UNSCORED, values)]
        )


def _record_venue_scores(database: Database, resolutions: Sequence[Resolution], account: str, at: str) -> None:
    refs = to_json_list({resolution.ref for resolution in resolutions})
    known: dict[tuple[str, str], dict[str, float]] = {}
    for ref, target, rule, value in database.execute(_KNOWN_SCORES, [account, refs]):
        known.setdefault((ref, target), {})[rule] = value
    for resolution in resolutions:
        place = (str(resolution.ref), resolution.target)
        if known.get(place, {}) != resolution.scores:
            database.execute(_DELETE_SCORES, [*place, account])
            rows = [(*place, account, rule, float(value), at) for rule, value in resolution.scores.items()]
            database.conn.executemany(_INSERT_SCORE, rows)


def _replace_standings(database: Database, key: tuple[str, str], standings: Sequence[ContestStanding], at: str) -> None:
    database.execute(_DELETE_STANDINGS, key)
    rows = [(*key, sanitize_text(one.contest), _STANDING_SERIALIZER.encode(one), at) for one in standings]
    database.conn.executemany(_INSERT_STANDING, rows)


def _standing_from_row(venue: str, account: str, body: str, at: str) -> ReportedStanding:
    return ReportedStanding(
        venue=venue, account=account, standing=_STANDING_SERIALIZER.decode(body), at=parse_timestamp(at)
    )


def _list_scored(database: Database, chosen: ScoreFilter) -> list[VenueScoredQuestion]:
    rows = database.execute(_SELECT_SCORED, score_filter_values(chosen)).fetchall()
    # One row for each rule; only its last two columns, rule and value, differ.
    grouped = groupby(rows, key=lambda row: row[:-2])
    return [_scored_from_row(columns, {rule: value for *_, rule, value in group if rule}) for columns, group in grouped]


def _scored_from_row(columns: tuple[Any, ...], values: Mapping[str, float]) -> VenueScoredQuestion:
    venue, account, ref, target, title, forecaster, outcome, resolved_at, probability, body, asked = columns
    question = QUESTION.decode(asked)
    return VenueScoredQuestion(
        venue=venue,
        account=account,
        ref=QuestionRef.parse(ref),
        target=target,
        title=title,
        forecaster=forecaster,
        outcome=OUTCOME.decode(outcome),
        resolved_at=parse_timestamp(resolved_at),
        prediction=unpack_prediction(probability, body),
        shape=question.shape,
        weight=1.0 if question.weight is None else question.weight,
        values=values,
    )


def _unscored_from_row(forecaster: str, ref: str, target: str, why: str, count: int) -> UnscoredQuestion:
    return UnscoredQuestion(forecaster=forecaster, ref=QuestionRef.parse(ref), target=target, why=why, count=count)
