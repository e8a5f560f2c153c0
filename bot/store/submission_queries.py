"""Read-only queries about submissions.

Orders with status and fills, submitted forecasts that are stale or lack a comment, orders at a venue that are our own,
and counts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.orders import Fill, OpenOrder, OrderSide
from bot.core.outcomes import Resolution
from bot.core.questions import QuestionRef
from bot.core.submissions import IntentState
from bot.store import intents, submission_attempts
from bot.store.connections import TransactionRunner
from bot.store.database import text_condition, text_pattern
from bot.store.intents import SELECT_INTENT, SELECT_STANDING, IntentRow, read_intent_rows
from bot.store.serialization import OUTCOME, format_timestamp, parse_timestamp, to_json_list
from bot.store.submission_attempts import AttemptRow

_IS_CHOSEN = """
(:venue is null or i.venue = :venue) and (:prefix = '' or substr(i.id, 1, length(:prefix)) = :prefix)
and (:paper is null or (i.mode = 'paper') = :paper)
"""
_SELECT_ORDERS = f"{SELECT_INTENT} where {_IS_CHOSEN} and ({{fits}}) order by i.seq desc limit coalesce(:limit, -1)"
_COUNT_ORDERS = f"select count(*) from intent i where {_IS_CHOSEN}"  # noqa: S608 - made of constants
_COUNT_ALL_ORDERS = """
select coalesce(sum(count), 0) from intent_tally
where (:venue is null or venue = :venue) and (:paper is null or paper = :paper)
"""
# What a search reads of all orders, and of all questions: a second for a million of each.
_SEARCHED = ("i.id", "i.ref", "i.account", "i.forecast", "i.detail")
_FITS = "{own} or i.ref in (select q.ref from question q where {title})"
# Open: it may still be sent, may have been sent, or may still be filled. Few attempts have a fence in the future, and
# most intents of all times are acknowledged.
_SELECT_OPEN_ORDERS = f"""
{SELECT_INTENT} where {_IS_CHOSEN} and ({{fits}}) and i.seq in (
  select seq from intent where state in ('planned', 'ready', 'sending', 'unknown', 'absent', 'in doubt')
  union all
  select f.seq from attempt a indexed by attempt_by_fence cross join intent f on f.id = a.intent
  where a.fence_at > :now and f.state = 'acked' and f.action = 'order'
    and a.number = (select max(number) from attempt where intent = f.id))
order by i.seq desc
"""  # noqa: S608 - made of constants
_SELECT_QUESTION_ORDERS = f"{SELECT_INTENT} where i.ref = ?1 order by i.seq desc limit ?2"
_COUNT_INTENTS = "select state, sum(count) from intent_tally group by state having sum(count) > 0 order by state"
_SELECT_TITLE = "select title from question where ref = ?"
_DECISION_REASON = "select why from decision where intent = ? order by id desc limit 1"
# Those of open markets: a new outcome opens its market again, for longer than any book takes to settle it.
_PAPER_OUTCOMES = """
select r.ref, r.target, r.body, r.resolved_at
from (select distinct ref from open_market where venue = ? and paper = 1) m
cross join current_resolution r on r.ref = m.ref
order by r.ref, r.target
"""
_SELECT_HEADINGS = """
select q.ref, q.title, coalesce((select max(event) from intent i where i.ref = q.ref), '') from question q
where q.ref in (select value from json_each(?))
"""
# The question of each contract, by its newest order; the market of what is held is open.
_SELECT_TRADED = """
select json_extract(i.order_body, '$.contract'), i.ref, json_extract(i.order_body, '$.option')
from open_market m cross join intent i indexed by intent_by_question on i.ref = m.ref and i.account = m.account
where m.venue = ? and m.account = ? and i.venue = m.venue and i.order_body is not null
  and json_extract(i.order_body, '$.contract') in (select value from json_each(?))
order by i.seq
"""
# A forecast of an open question has no score yet.
_COUNT_STANDING = """
select count(*)
from (select distinct ref from prediction indexed by prediction_unscored
      where scored_against is null and ref >= ?1 || ':' and ref < ?1 || ';') p
where exists (
    select 1 from intent i indexed by intent_by_question
    where i.ref = p.ref and i.account = ?2 and i.venue = ?1 and i.action = 'forecast' and i.state = 'acked')
  and exists (
    select 1 from question q join target t on t.version = q.version
    where q.ref = p.ref and not exists (
      select 1 from current_resolution r where r.ref = q.ref and r.target = t.target))
"""
# In shares or money: sums of floats differ by this much.
_ROUNDING_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionHeading:
    """The title of a question, and its event ("" without one)."""

    title: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TradedContract:
    """The question that a contract was traded for, and its option ("" without options)."""

    ref: QuestionRef
    option: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilter:
    """Which orders to list, newest first: of a venue, with an id prefix, only open ones, paper or real (None: both).

    ``limit`` None means all. ``text``: which the title, the reason or a name contains in any case.
    """

    now: datetime
    venue: str | None = None
    prefix: str = ""
    open: bool = False
    limit: int | None = 50
    paper: bool | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """One intent with its question, the reason to send it, its attempts (newest first) and its fills (oldest first)."""

    row: IntentRow
    title: str
    decision_reason: str
    attempts: tuple[AttemptRow, ...]
    fills: tuple[Fill, ...]

    @property
    def filled(self) -> float:
        """The number of filled shares."""
        return sum(one.shares for one in self.fills)

    @property
    def fees(self) -> float:
        """The fees paid."""
        return sum(one.fee for one in self.fills)

    @property
    def cash(self) -> float:
        """The cash of the fills: negative if paid."""
        return sum(one.cash for one in self.fills)

    @property
    def is_filled(self) -> bool:
        """Whether an order is completely filled, by its shares or by its cost.

        A purchase for a stake is filled once the stake is spent: at better prices it buys more shares than planned.
        """
        order = self.row.intent.order
        if order is None or not self.fills:
            return False
        if order.stake is not None and order.side is OrderSide.BUY:
            return -self.cash - self.fees >= order.stake - _ROUNDING_TOLERANCE
        spent = order.side is OrderSide.BUY and -self.cash >= order.cost - _ROUNDING_TOLERANCE
        return spent or self.filled >= order.shares - _ROUNDING_TOLERANCE

    @property
    def why(self) -> str:
        """The latest explanation of the state of the order.

        A filled order needs none, and new fills replace the text of the first answer; the attempts keep each text.
        """
        if self.is_filled:
            return ""
        order = self.row.intent.order
        if order is not None and any(one.at > self.row.changed_at for one in self.fills):
            return f"{self.filled:.2f} of {order.shares:.2f} shares filled"
        return self.row.detail or next((one.detail for one in self.attempts if one.detail), "")

    def is_resting(self, now: datetime) -> bool:
        """Return whether it was acknowledged and may still be filled."""
        order, sealed = self.row.intent.order, self.attempts[0].sealed if self.attempts else None
        if self.row.state is not IntentState.ACKED or order is None or sealed is None or sealed.fence is None:
            return False
        return sealed.fence > now and not self.is_filled


def list_orders(database: Database, wanted: OrderFilter) -> Sequence[OrderRow]:
    """Return the orders of the filter."""
    return list_and_count_orders(database, wanted)[0]


def list_and_count_orders(database: Database, wanted: OrderFilter) -> tuple[Sequence[OrderRow], int]:
    """Return the orders of the filter, and how many there are without its limit: of a search, one more at most."""
    values: dict[str, str | int | None] = {"venue": wanted.venue, "prefix": wanted.prefix, "paper": wanted.paper}
    fits = "true"
    if wanted.text is not None:
        own, title = (text_condition(database, columns, wanted.text) for columns in (_SEARCHED, ("q.title",)))
        fits, values["text"] = _FITS.format(own=own, title=title), text_pattern(wanted.text)
    if wanted.open:
        # Only its fills show whether an order may still be filled; few orders are open.
        values["now"] = format_timestamp(wanted.now)
        rows = intents.read_intent_rows(database, _SELECT_OPEN_ORDERS.format(fits=fits), **values)
        all_ = [_order_row(database, row) for row in rows]
        found = [one for one in all_ if one.row.state is not IntentState.ACKED or one.is_resting(wanted.now)]
        return found[: wanted.limit], len(found)
    if wanted.text is not None:
        limit = None if wanted.limit is None else wanted.limit + 1
        rows = intents.read_intent_rows(database, _SELECT_ORDERS.format(fits=fits), **values, limit=limit)
        return [_order_row(database, row) for row in rows[: wanted.limit]], len(rows)
    count = int(database.execute(_COUNT_ORDERS if wanted.prefix else _COUNT_ALL_ORDERS, values).fetchone()[0])
    # No further than to the last one that fits: where none does, nothing is read.
    limit = count if wanted.limit is None else min(wanted.limit, count)
    rows = intents.read_intent_rows(database, _SELECT_ORDERS.format(fits=fits), **values, limit=limit)
    return [_order_row(database, row) for row in rows], count


def list_question_orders(database: Database, ref: QuestionRef, limit: int) -> Sequence[OrderRow]:
    """Return the newest intents of a question, of all kinds and accounts, newest first."""
    rows = intents.read_intent_rows(database, _SELECT_QUESTION_ORDERS, str(ref), limit)
    return [_order_row(database, row) for row in rows]


def count_intents_by_state(database: Database) -> dict[str, int]:
    """Return how many intents there are in each state that has one."""
    return dict(database.execute(_COUNT_INTENTS).fetchall())


def read_paper_outcomes(database: Database, venue: str) -> Sequence[Resolution]:
    """Return the current outcomes of the questions that are traded on paper at a venue, or were some days ago."""
    return [
        Resolution(
            ref=QuestionRef.parse(ref),
            target=target,
            outcome=OUTCOME.decode(body),
            resolved_at=parse_timestamp(resolved_at),
        )
        for ref, target, body, resolved_at in database.execute(_PAPER_OUTCOMES, [venue])
    ]


def read_question_headings(database: Database, refs: Collection[QuestionRef]) -> Mapping[QuestionRef, QuestionHeading]:
    """Return the titles and events of questions."""
    rows = database.execute(_SELECT_HEADINGS, [to_json_list(refs)]).fetchall()
    return {QuestionRef.parse(ref): QuestionHeading(title=title, event=event) for ref, title, event in rows}


def read_traded_contracts(
    database: Database, venue: str, account: str, contracts: Collection[str]
) -> Mapping[str, TradedContract]:
    """Return the questions of contracts whose markets are open; contracts without an order are left out."""
    rows = database.execute(_SELECT_TRADED, [venue, account, to_json_list(contracts)]).fetchall()
    return {name: TradedContract(ref=QuestionRef.parse(ref), option=option or "") for name, ref, option in rows}


def count_standing_forecasts(database: Database, venue: str, account: str) -> int:
    """Count the open questions with a submitted forecast at a venue, or in its paper book."""
    (count,) = database.execute(_COUNT_STANDING, [venue, account]).fetchone()
    return int(count)


def _order_row(database: Database, row: IntentRow) -> OrderRow:
    name = row.intent.id
    title = database.execute(_SELECT_TITLE, [str(row.intent.ref)]).fetchone()
    decided = database.execute(_DECISION_REASON, [name]).fetchone()
    return OrderRow(
        row=row,
        title=title[0] if title else "",
        decision_reason=decided[0] if decided else "",
        attempts=tuple(submission_attempts.read_attempts(database, [name])),
        fills=tuple(submission_attempts.read_fills(database, name)),
    )


# The newest real intent of its question, without a comment that is newer, open or in doubt.
_SELECT_UNCOMMENTED = f"""
{SELECT_INTENT}
where i.venue = ?1 and i.account = ?2 and i.action in ('forecast', 'order') and i.state = 'acked'
  and i.mode in ('approve', 'live') and i.changed_at >= ?3
  and not exists (
    select 1 from intent later where later.ref = i.ref and later.account = i.account and later.seq > i.seq
      and later.action <> 'comment' and later.state not in ('refused', 'superseded'))
  and not exists (
    select 1 from intent c where c.ref = i.ref and c.account = i.account and c.action = 'comment'
      and (c.state not in ('acked', 'refused', 'superseded')
           or c.state <> 'superseded' and (c.forecast = i.forecast or c.planned_at >= ?3)))
  and (not ?5 or i.event = '' or not exists (
    select 1 from intent c where c.venue = i.venue and c.account = i.account and c.action = 'comment'
      and c.event = i.event and c.state not in ('refused', 'superseded')))
order by i.seq limit ?4
"""  # noqa: S608 - made of constants
# A venue knows an order by its own id, a paper book by the intent.
_SELECT_OWN_ORDERS = """
select a.reference from attempt a join intent i on i.id = a.intent
where i.venue = ?1 and i.action = 'order' and a.reference in (select value from json_each(?2))
union select id from intent where venue = ?1 and id in (select value from json_each(?2))
"""
# Orders that may rest at the venue under an unknown id.
_SELECT_UNKNOWN = """
select json_extract(order_body, '$.contract'), json_extract(order_body, '$.leg') from intent
where venue = ? and action = 'order' and state in ('sending', 'unknown', 'in doubt')
"""
# The newest intent of its question, acknowledged; its question is open, and has no forecast, made or running, that is
# newer than the given time. What a person only wanted to see renews nothing, nor what was broken off long ago. What the
# venue refused to withdraw is not asked for again.
_SELECT_STALE = f"""
{SELECT_STANDING} and i.venue = :venue and i.account = :account and i.action = 'forecast' and i.state = 'acked'
  and (i.mode = 'paper') = :paper
  and exists (
    select 1 from forecast f join question q on q.ref = f.ref
    where f.id = i.forecast and f.made_at < :made_before and q.closes_at > :now
      and not exists (
        select 1 from forecast later where later.ref = f.ref and later.forecaster = f.forecaster
          and later.revision > f.revision and later.forecast_only = 0
          and (later.state = 'done' and later.made_at >= :made_before
               or later.state = 'running' and later.started_at >= :made_before)))
  and not exists (select 1 from current_resolution r where r.ref = i.ref)
  and not exists (select 1 from intent w where w.ref = i.ref and w.account = i.account and w.forecast = i.forecast
                    and w.action = 'withdraw' and w.state = 'refused' and (w.mode = 'paper') = :paper)
order by i.seq limit :limit
"""  # noqa: S608 - made of constants


def find_stale_forecasts(
    database: Database, venue: str, account: str, *, made_before: datetime, now: datetime, paper: bool, limit: int
) -> list[IntentRow]:
    """Return submitted forecasts of open questions that were made before a time and not renewed."""
    values = {
        "venue": venue,
        "account": account,
        "made_before": format_timestamp(made_before),
        "now": format_timestamp(now),
        "paper": paper,
        "limit": limit,
    }
    return read_intent_rows(database, _SELECT_STALE, **values)


def find_uncommented(
    database: Database, venue: str, account: str, *, since: datetime, limit: int, by_event: bool = False
) -> Sequence[IntentRow]:
    """Return forecasts and orders acknowledged since a time whose questions got no comment since then, oldest first.

    ``by_event``: only for events without any comment.
    """
    return read_intent_rows(database, _SELECT_UNCOMMENTED, venue, account, format_timestamp(since), limit, by_event)


def find_own_orders(database: Database, venue: str, resting: Collection[OpenOrder]) -> list[str]:
    """Return the ids of the orders at the venue that this program sent, or may have sent."""
    ids = to_json_list([order.id for order in resting])
    known = {str(name) for (name,) in database.execute(_SELECT_OWN_ORDERS, [venue, ids])}
    unknown = {(str(contract), str(leg)) for contract, leg in database.execute(_SELECT_UNKNOWN, [venue])}
    return [order.id for order in resting if order.id in known or (order.contract, order.leg.value) in unknown]


_COUNT_UNANSWERED = """
select venue, count(*) from intent
where mode <> 'paper' and state in ('sending', 'unknown', 'in doubt') group by venue
"""
_COUNT_REFUSED = """
select venue, count(*), max(detail) from intent
where mode <> 'paper' and state = 'refused' and changed_at >= ? group by venue
"""
_COUNT_WAITING = "select count(*) from intent where state in ('planned', 'ready', 'sending', 'absent')"
_COUNT_ATTEMPTED = "select count(*) from attempt where started_at >= ? and state <> 'sending'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionCounts:
    """Submissions since a time: how many were ``tried``, and how many wait, including paper.

    By venue, only live ones: how many are ``unanswered`` now, and how many were ``refused``, with the last reason.
    """

    tried: int = 0
    waiting: int = 0
    unanswered: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)


async def count_submissions(readers: TransactionRunner, since: datetime) -> SubmissionCounts:
    """Return the counts of submissions since then."""
    return await readers.run(lambda database: _count_submissions(database, format_timestamp(since)))


def _count_submissions(database: Database, since: str) -> SubmissionCounts:
    ((tried,),) = database.execute(_COUNT_ATTEMPTED, [since]).fetchall()
    ((waiting,),) = database.execute(_COUNT_WAITING).fetchall()
    return SubmissionCounts(
        tried=tried,
        waiting=waiting,
        unanswered=dict(database.execute(_COUNT_UNANSWERED).fetchall()),
        refused={venue: (count, why) for venue, count, why in database.execute(_COUNT_REFUSED, [since])},
    )
