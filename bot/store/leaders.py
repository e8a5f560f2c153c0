"""What stands at a venue and is not commented yet. Reads alone."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.store.codec import stamp
from bot.store.intents import INTENT, IntentRow, rows_of

# The newest of its question, real, and neither it nor its question has a comment that is newer, under way or in doubt.
_UNCOMMENTED = f"""
{INTENT}
where i.venue = ?1 and i.account = ?2 and i.action in ('forecast', 'order') and i.state = 'acked'
  and i.mode in ('approve', 'live') and i.changed_at >= ?3
  and not exists (
    select 1 from intent later where later.ref = i.ref and later.account = i.account and later.seq > i.seq
      and later.action <> 'comment' and later.state not in ('refused', 'superseded'))
  and not exists (
    select 1 from intent c where c.ref = i.ref and c.account = i.account and c.action = 'comment'
      and (c.state not in ('acked', 'refused', 'superseded')
           or c.state <> 'superseded' and (c.forecast = i.forecast or c.planned_at >= ?3)))
order by i.seq limit ?4
"""  # noqa: S608 - made of constants


def uncommented(database: Database, venue: str, account: str, *, since: datetime, limit: int) -> Sequence[IntentRow]:
    """Read the forecasts and orders that were acknowledged since a moment, of questions that got no comment since then.

    The oldest first.
    """
    return rows_of(database, _UNCOMMENTED, venue, account, stamp(since), limit)
