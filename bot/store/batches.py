"""Intents by the batch they travel in: one write to a venue, or one comment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from sqlite_utils import Database

from bot.domain.submission import IntentState, Mode
from bot.store.codec import listed, moment
from bot.store.intents import INTENT, STANDING, IntentRow, rows_of

_IN_BATCH = f"""
{STANDING} and i.venue = ?1 and i.account = ?2 and i.batch = ?3 and (?4 is null or (i.mode = 'paper') = ?4)
order by i.ref
"""
_COMMENTS = f"""
{INTENT} where i.action = 'comment' and i.state not in ('refused', 'superseded')
  and i.venue = ? and i.account = ? and i.batch = ? order by i.seq
"""
_BATCHES = """
select i.venue, i.account, i.batch, i.mode, i.action = 'comment', i.state, count(*),
       (select min(q.closes_at) from question q where q.ref in (
          select ref from question where venue = i.venue and batch = i.batch
          union all select ref from intent where venue = i.venue and account = i.account and batch = i.batch))
from intent i
where (i.venue, i.account, i.batch, i.action = 'comment') in (
  select venue, account, batch, action = 'comment' from intent where state in (select value from json_each(?)))
group by i.venue, i.account, i.batch, i.mode, i.action = 'comment', i.state
order by 5, 8 is null, 8, i.venue, i.batch, i.account, i.mode
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch of one account and mode; ``counts`` holds its intents by state, ``closes_at`` the first close in it.

    ``comments`` are a row of their own: each goes alone, after what it belongs to.
    """

    venue: str
    account: str
    batch: str
    mode: Mode
    closes_at: datetime | None
    counts: Mapping[IntentState, int]
    comments: bool = False

    @property
    def planned(self) -> int:
        """How many intents wait to be sent."""
        return self.counts.get(IntentState.PLANNED, 0)

    @property
    def acked(self) -> int:
        """How many intents the venue has acknowledged."""
        return self.counts.get(IntentState.ACKED, 0)


def batches(database: Database, states: Sequence[IntentState]) -> list[BatchRow]:
    """Read the batches with an intent in one of the states, soonest close first, comments last."""
    counts: dict[tuple[str, str, str, str, int], dict[IntentState, int]] = {}
    closes: dict[tuple[str, str, str, str, int], datetime | None] = {}
    for venue, account, batch, mode, comments, state, count, closes_at in database.execute(_BATCHES, [listed(states)]):
        key = (venue, account, batch, mode, comments)
        counts.setdefault(key, {})[IntentState(state)] = count
        closes[key] = moment(closes_at)
    return [
        BatchRow(
            venue=venue,
            account=account,
            batch=batch,
            mode=Mode(mode),
            closes_at=closes[venue, account, batch, mode, comments],
            counts=MappingProxyType(by_state),
            comments=bool(comments),
        )
        for (venue, account, batch, mode, comments), by_state in counts.items()
    ]


def intents(database: Database, venue: str, account: str, batch: str, *, paper: bool | None = None) -> list[IntentRow]:
    """Read, by question, the newest intent that is neither refused nor superseded, comments aside.

    ``paper`` says on which side: on paper, or at the venue; None: on either.
    """
    return rows_of(database, _IN_BATCH, venue, account, batch, paper)


def comments(database: Database, venue: str, account: str, batch: str) -> list[IntentRow]:
    """Read the comments that are neither refused nor superseded, oldest first."""
    return rows_of(database, _COMMENTS, venue, account, batch)
