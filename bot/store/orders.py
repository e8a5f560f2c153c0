"""What was to be traded, and what came of it, as a person asks for it. Reads alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlite_utils import Database

from bot.domain.order import Fill, Side
from bot.domain.question import QuestionRef
from bot.domain.resolution import Resolution
from bot.domain.submission import IntentState
from bot.store import intents, writes
from bot.store.codec import OUTCOME, moment, stamp
from bot.store.codec import listed as listed_text
from bot.store.intents import INTENT, IntentRow
from bot.store.writes import AttemptRow

# Open: it may still leave, may have left, or may still be filled.
_WANTED = """
where (?1 is null or i.venue = ?1) and (?2 = '' or substr(i.id, 1, length(?2)) = ?2)
  and (not ?3 or i.state not in ('acked', 'refused', 'superseded')
       or (i.state = 'acked' and i.action = 'order' and exists (
         select 1 from attempt a where a.intent = i.id and a.fence_at > ?4
           and a.number = (select max(number) from attempt where intent = i.id))))
  and (?6 is null or (i.mode = 'paper') = ?6)
"""
_LISTED = f"{INTENT} {_WANTED} order by i.seq desc limit coalesce(?5, -1)"
_COUNT = f"select count(*) from intent i {_WANTED}"  # noqa: S608 - made of constants
_TITLE = "select title from question where ref = ?"
_DECISION = "select why from decision where intent = ? order by id desc limit 1"
_OUTCOMES = """
select r.ref, r.target, r.body, r.resolved_at from current_resolution r
where r.ref in (select ref from intent where venue = ? and mode = 'paper' and order_body is not null)
order by r.ref, r.target
"""


_SUBJECTS = """
select q.ref, q.title, coalesce((select max(event) from intent i where i.ref = q.ref), '') from question q
where q.ref in (select value from json_each(?))
"""
# What an order was about, by its contract; the newest order on it tells.
_TRADED = """
select json_extract(order_body, '$.contract'), ref, json_extract(order_body, '$.option') from intent
where venue = ? and account = ? and order_body is not null
  and json_extract(order_body, '$.contract') in (select value from json_each(?))
order by seq
"""
_STANDING = """
select count(distinct i.ref) from intent i
where i.venue = ? and i.account = ? and i.action = 'forecast' and i.state = 'acked' and exists (
  select 1 from question q join target t on t.version = q.version
  where q.ref = i.ref and not exists (
    select 1 from current_resolution r where r.ref = q.ref and r.target = t.target))
"""
_FEES = """
select total(f.fee) from fill f join intent i on i.id = f.intent
where i.venue = ? and i.account = ? and i.mode <> 'paper'
"""
# Of shares or money: so little is left by sums of floats alone.
_NEARLY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a question is called, and its event ("" where it has none)."""

    title: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Traded:
    """The question that a contract was traded for, and which of its options that was ("" where it has none)."""

    ref: QuestionRef
    option: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which orders: of a venue, open alone, whose name begins so, on paper or for real (None: both); newest first.

    ``limit`` None is all of them.
    """

    now: datetime
    venue: str | None = None
    prefix: str = ""
    open: bool = False
    limit: int | None = 50
    paper: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """One intent with its question, why it was let go, all attempts (newest first) and all fills (oldest first)."""

    row: IntentRow
    title: str
    decided: str
    attempts: tuple[AttemptRow, ...]
    fills: tuple[Fill, ...]

    @property
    def filled(self) -> float:
        """Shares that were traded."""
        return sum(one.shares for one in self.fills)

    @property
    def fees(self) -> float:
        """Fees that were paid."""
        return sum(one.fee for one in self.fills)

    @property
    def cash(self) -> float:
        """What the fills moved on the account: below 0 was paid."""
        return sum(one.cash for one in self.fills)

    @property
    def whole(self) -> bool:
        """Whether nothing of an order is left: by its shares, or by what it might cost.

        A purchase for a stake, an ``amount`` in its terms, is whole once that is spent: at better prices it buys more
        shares than were reckoned with.
        """
        order = self.row.intent.order
        if order is None or not self.fills:
            return False
        stake = order.terms.get("amount") if order.side is Side.BUY else None
        if isinstance(stake, int | float):
            return -self.cash - self.fees >= stake - _NEARLY
        spent = order.side is Side.BUY and -self.cash >= order.cost - _NEARLY
        return spent or self.filled >= order.shares - _NEARLY

    @property
    def why(self) -> str:
        """What was said last of it.

        Of an order that is filled there is nothing to explain, and what its first answer said is over once more of it
        was filled; the attempts keep each text.
        """
        if self.whole:
            return ""
        order = self.row.intent.order
        if order is not None and any(one.at > self.row.changed_at for one in self.fills):
            return f"{self.filled:.2f} of {order.shares:.2f} shares filled"
        return self.row.detail or next((one.detail for one in self.attempts if one.detail), "")

    def rests(self, now: datetime) -> bool:
        """Say whether it was taken and may still be filled."""
        order, sealed = self.row.intent.order, self.attempts[0].sealed if self.attempts else None
        if self.row.state is not IntentState.ACKED or order is None or sealed is None or sealed.fence is None:
            return False
        return sealed.fence > now and not self.whole


def listed(database: Database, asked: Asked) -> Sequence[OrderRow]:
    """Read what was to leave."""
    return listed_of(database, asked)[0]


def listed_of(database: Database, asked: Asked) -> tuple[Sequence[OrderRow], int]:
    """Read what was to leave, and how many there are without the limit."""
    if asked.open:
        # Whether one may still be filled is told by its fills; there are few of them.
        rows = intents.rows_of(database, _LISTED, *_values(replace(asked, limit=None)))
        all_ = [_order_row(database, row) for row in rows]
        found = [one for one in all_ if one.row.state is not IntentState.ACKED or one.rests(asked.now)]
        return found[: asked.limit], len(found)
    found = [_order_row(database, row) for row in intents.rows_of(database, _LISTED, *_values(asked))]
    (count,) = database.execute(_COUNT, _values(asked)).fetchone()
    return found, int(count)


def _values(asked: Asked) -> tuple[object, ...]:
    return (asked.venue, asked.prefix, asked.open, stamp(asked.now), asked.limit, asked.paper)


def outcomes(database: Database, venue: str) -> Sequence[Resolution]:
    """Read the outcomes in force of all questions that were traded on paper at a venue."""
    return [
        Resolution(
            ref=QuestionRef.parse(ref), target=target, outcome=OUTCOME.decode(body), resolved_at=moment(resolved_at)
        )
        for ref, target, body, resolved_at in database.execute(_OUTCOMES, [venue])
    ]


def subjects(database: Database, refs: Collection[QuestionRef]) -> Mapping[QuestionRef, Subject]:
    """Read what questions are called, and the events they belong to."""
    rows = database.execute(_SUBJECTS, [listed_text(refs)]).fetchall()
    return {QuestionRef.parse(ref): Subject(title=title, event=event) for ref, title, event in rows}


def traded(database: Database, venue: str, account: str, contracts: Collection[str]) -> Mapping[str, Traded]:
    """Read what contracts of an account were traded for; those that no order was about are left out."""
    rows = database.execute(_TRADED, [venue, account, listed_text(contracts)]).fetchall()
    return {name: Traded(ref=QuestionRef.parse(ref), option=option or "") for name, ref, option in rows}


def standing_forecasts(database: Database, venue: str, account: str) -> int:
    """Count the open questions of which a forecast stands at a venue, or in its paper book."""
    (count,) = database.execute(_STANDING, [venue, account]).fetchone()
    return int(count)


def fees(database: Database, venue: str, account: str) -> float:
    """Read what all orders of a live account were charged."""
    (paid,) = database.execute(_FEES, [venue, account]).fetchone()
    return float(paid)


def _order_row(database: Database, row: IntentRow) -> OrderRow:
    name = row.intent.id
    title = database.execute(_TITLE, [str(row.intent.ref)]).fetchone()
    decided = database.execute(_DECISION, [name]).fetchone()
    return OrderRow(
        row=row,
        title=title[0] if title else "",
        decided=decided[0] if decided else "",
        attempts=tuple(writes.attempts_of(database, [name])),
        fills=tuple(writes.fills_of(database, name)),
    )
