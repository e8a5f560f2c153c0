"""What stands at a venue: what is not commented yet or went stale, and which orders there are ours. Reads alone."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.domain.order import OpenOrder
from bot.store.codec import listed, stamp
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
  and (not ?5 or i.event = '' or not exists (
    select 1 from intent c where c.venue = i.venue and c.account = i.account and c.action = 'comment'
      and c.event = i.event and c.state not in ('refused', 'superseded')))
order by i.seq limit ?4
"""  # noqa: S608 - made of constants
# A venue knows an order by the name that it gave, a paper book by its intent.
_OURS = """
select a.reference from attempt a join intent i on i.id = a.intent
where i.venue = ?1 and i.action = 'order' and a.reference in (select value from json_each(?2))
union select id from intent where venue = ?1 and id in (select value from json_each(?2))
"""
# What may rest under a name that nobody has heard yet.
_IN_DOUBT = """
select json_extract(order_body, '$.contract'), json_extract(order_body, '$.leg') from intent
where venue = ? and action = 'order' and state in ('sending', 'unknown', 'in doubt')
"""


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


def uncommented(
    database: Database, venue: str, account: str, *, since: datetime, limit: int, by_event: bool = False
) -> Sequence[IntentRow]:
    """Read the forecasts and orders that were acknowledged since a moment, of questions that got no comment since then.

    The oldest first; ``by_event``: only of events of which no question ever got one.
    """
    return rows_of(database, _UNCOMMENTED, venue, account, stamp(since), limit, by_event)


def ours(database: Database, venue: str, resting: Collection[OpenOrder]) -> list[str]:
    """Return the ids of those orders at the venue that were sent by this program, or may be one that is in doubt."""
    names = listed([order.id for order in resting])
    known = {str(name) for (name,) in database.execute(_OURS, [venue, names])}
    doubtful = {(str(contract), str(leg)) for contract, leg in database.execute(_IN_DOUBT, [venue])}
    return [order.id for order in resting if order.id in known or (order.contract, order.leg.value) in doubtful]
