"""What stands at a venue and is not commented yet, or went stale there. Reads alone."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.store.codec import stamp
from bot.store.intents import INTENT, STANDING, IntentRow, rows_of

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


# The newest of its question and acknowledged; its question still open, and neither forecast anew since nor just being.
_STALE = f"""
{STANDING} and i.venue = :venue and i.account = :account and i.action = 'forecast' and i.state = 'acked'
  and (i.mode = 'paper') = :paper
  and exists (
    select 1 from forecast f join question q on q.ref = f.ref
    where f.id = i.forecast and f.made_at < :made_before and q.closes_at > :now
      and not exists (
        select 1 from forecast later where later.ref = f.ref and later.forecaster = f.forecaster
          and later.revision > f.revision and later.state in ('running', 'done')))
  and not exists (select 1 from current_resolution r where r.ref = i.ref)
order by i.seq limit :limit
"""  # noqa: S608 - made of constants


def stale(
    database: Database, venue: str, account: str, *, made_before: datetime, now: datetime, paper: bool, limit: int
) -> list[IntentRow]:
    """Read the forecasts that stand, were made before a moment and were not renewed, of questions that are open."""
    values = {
        "venue": venue,
        "account": account,
        "made_before": stamp(made_before),
        "now": stamp(now),
        "paper": paper,
        "limit": limit,
    }
    return rows_of(database, _STALE, **values)


def uncommented(database: Database, venue: str, account: str, *, since: datetime, limit: int) -> Sequence[IntentRow]:
    """Read the forecasts and orders that were acknowledged since a moment, of questions that got no comment since then.

    The oldest first.
    """
    return rows_of(database, _UNCOMMENTED, venue, account, stamp(since), limit)
