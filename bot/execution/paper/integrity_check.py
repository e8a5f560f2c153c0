"""Whether a paper book agrees with itself: every balance is the sum of what was booked, to the last millionth."""

from sqlite_utils import Database

# Each query finds what must not be, as one text a row.
_FAULT_QUERIES = (
    """
select 'the postings of movement ' || movement || ' sum to ' || sum(amount) from posting
group by movement having sum(amount) <> 0
""",
    """
select 'cash is ' || cash || ', its postings sum to ' || total from book, (
  select coalesce(sum(amount), 0) as total from posting where place = 'cash')
where cash <> total
""",
    """
select 'the position ' || p.contract || ' ' || p.leg || ' is ' || p.shares || ' for ' || p.paid || ', its postings '
  || coalesce(b.shares, 0) || ' for ' || coalesce(b.amount, 0)
from position p left join (
  select contract, leg, sum(shares) as shares, sum(amount) as amount from posting where place = 'stock'
  group by contract, leg) b on b.contract = p.contract and b.leg = p.leg
where p.shares <> coalesce(b.shares, 0) or p.paid <> coalesce(b.amount, 0)
""",
    """
select 'a movement has stock of ' || contract || ' ' || leg || ', of which there is no position' from posting s
where place = 'stock' and not exists (select 1 from position p where p.contract = s.contract and p.leg = s.leg)
""",
    """
select 'the fills of order ' || t.seq || ' moved ' || coalesce(f.cash, 0) || ', its movements '
  || coalesce(m.amount, 0)
from ticket t
left join (select ticket, sum(cash) as cash from fill group by ticket) f on f.ticket = t.seq
left join (
  select m.ticket, sum(p.amount) as amount from movement m join posting p on p.movement = m.id
  where m.kind = 'fill' and p.place = 'cash' group by m.ticket) m on m.ticket = t.seq
where coalesce(f.cash, 0) <> coalesce(m.amount, 0)
""",
    # A correction may take back cash that was spent since; nothing else makes cash negative.
    """
select 'open orders may cost ' || reserved || ', and there is ' || cash from book, (
  select coalesce(sum(reserved), 0) as reserved from ticket where state in ('sent', 'resting'))
where cash < reserved and not exists (select 1 from movement where kind = 'undo')
""",
    """
select 'open sales of ' || t.contract || ' hold ' || sum(t.held) || ' shares, and there are ' || p.shares
from ticket t join position p on p.contract = t.contract and p.leg = json_extract(t.body, '$.leg')
where t.state in ('sent', 'resting') and t.held > 0
group by t.contract, p.leg, p.shares having sum(t.held) > p.shares
""",
    """
select 'settlement ' || s.id || ' was undone, and its postings sum to ' || sum(p.amount) || ' of cash'
from settlement s join movement m on m.settlement = s.id join posting p on p.movement = m.id
where s.undone_at is not null and p.place = 'cash' group by s.id having sum(p.amount) <> 0
""",
)


def find_faults(database: Database) -> list[str]:
    """Return what does not agree, a line each; nothing for a sound book."""
    return [text for query in _FAULT_QUERIES for (text,) in database.execute(query).fetchall()]
