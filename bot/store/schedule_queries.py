"""The queries of the schedule: what is free, due and in which order."""

CROWDED = 2_000

# A row that was put off stays put off: a new reason brings it no further forward than ``not_before``. A wish that does
# not know the newest forecast is void.
PLAN = """
insert into schedule (ref, forecaster, due_at, why, closes_at, apart)
values (:ref, :forecaster, :due_at, :why, :closes_at, :apart)
on conflict (ref, forecaster) do update set
  due_at = max(excluded.due_at, coalesce(not_before, excluded.due_at)), why = excluded.why, apart = excluded.apart
where owner is null
  and (select made_at from latest_forecast f where f.ref = schedule.ref and f.forecaster = schedule.forecaster)
      is :answered_at
  and (due_at is null or max(excluded.due_at, coalesce(not_before, excluded.due_at)) < due_at)
"""
MOVE_CLOSE = """
update schedule set closes_at = :closes_at, window = 'open'
where ref = :ref and forecaster = :forecaster and closes_at is not :closes_at
"""
RETURN_EXPIRED = (
    "update schedule set owner = null, leased_until = null where leased_until <= :now and owner is not null"
)
_UNLOCKED = """not exists (select 1 from lock k where k.ref = s.ref and k.forecaster in ('', s.forecaster)
  and (k.until is null or k.until > :now))"""
_FREE = f"s.owner is null and s.due_at is not null and s.due_at <= :now and {_UNLOCKED}"
# A bound list of forecasters that are left alone.
_WANTED = "s.forecaster not in (select value from json_each(:leave))"
# Nor one whose forecaster builds on another that is due, or at work, on the same question; :behind lists such pairs.
_NOT_BEHIND = """not exists (select 1 from json_each(:behind) pair
  join schedule b on b.ref = s.ref and b.forecaster = json_extract(pair.value, '$[1]')
  where json_extract(pair.value, '$[0]') = s.forecaster and (b.owner is not null or b.due_at <= :now)
    and b.forecaster not in (select value from json_each(:leave))
    and not exists (select 1 from lock k where k.ref = b.ref and k.forecaster in ('', b.forecaster)
      and (k.until is null or k.until > :now)))"""
_TURN = f"{_FREE} and {_WANTED} and {_NOT_BEHIND}"
DUE_BY_FORECASTER = f"select s.forecaster, count(*) from schedule s where {_FREE} group by s.forecaster"  # noqa: S608 - constants
COUNT_DUE = """
select count(*) from (
  select 1 from schedule where owner is null and due_at is not null and due_at <= :now limit :crowded)
"""
# Few are due: find them by due time and sort. Many are due: walk them in the order of closing and stop early.
BY_DUE = "schedule s indexed by schedule_by_due"
BY_CLOSE = "schedule s indexed by schedule_by_close"
_WINDOWS = (
    "s.closes_at > :now order by s.closes_at, s.due_at",
    "s.closes_at is null order by s.due_at",
    "s.closes_at <= :now order by s.closes_at, s.due_at",
)
CLAIMABLE = tuple(
    {
        rows: f"select s.ref, s.forecaster from {rows} where {_TURN} and {window} limit :limit"  # noqa: S608 - constants
        for rows in (BY_DUE, BY_CLOSE)
    }
    for window in _WINDOWS
)
LEASE = """
update schedule set owner = :owner, leased_until = :until, attempt = attempt + 1
where ref = :ref and forecaster = :forecaster
returning why, closes_at, attempt, apart
"""
POSTPONE = """
update schedule set due_at = :until, not_before = :until, why = :why, owner = null, leased_until = null, apart = 0
where ref = :ref and forecaster = :forecaster and leased_until = :leased_until
"""
ANSWER = """
update schedule set due_at = :due_at, not_before = null, why = :why, attempt = 0, owner = null, leased_until = null,
                    answered_at = coalesce(answered_at, :made_at), apart = 0
where ref = :ref and forecaster = :forecaster
"""
ANSWER_APART = """
update schedule set due_at = :due_at, not_before = null, why = :why, attempt = 0, owner = null, leased_until = null,
                    apart = 0
where ref = :ref and forecaster = :forecaster and apart = 1
"""
# What was put off, asked for or changed is not the policy's to move.
SCHEDULED = """
select s.ref, s.forecaster, s.due_at, f.made_at, q.closes_at, q.as_of
from schedule s join question q on q.ref = s.ref
join latest_forecast f on f.ref = s.ref and f.forecaster = s.forecaster
where s.owner is null and s.not_before is null and s.apart = 0
  and (s.due_at > :now and (s.why like :first or s.why like :second)
       or s.due_at is null and (q.closes_at is null or q.closes_at > :now))
"""
MOVE_DUE = """
update schedule set due_at = :due_at, why = :why
where ref = :ref and forecaster = :forecaster and owner is null and due_at is :before
"""
FREE_LEASES = """
update schedule set owner = null, leased_until = null
where owner is not null and (:owner is null or owner <> :owner or leased_until <= :now)
"""
LEASES = "select leased_until, ref, forecaster from schedule where owner is not null"
MOVE_LEASE = "update schedule set leased_until = ? where ref = ? and forecaster = ?"
LOCK = """
insert into lock (ref, forecaster, reason, locked_at, until)
values (:ref, :forecaster, :reason, :now, :until)
on conflict (ref, forecaster) do update set reason = excluded.reason, locked_at = excluded.locked_at,
                                            until = excluded.until
"""
UNLOCK = "delete from lock where ref = :ref and forecaster = :forecaster"
LOCKS = "select ref, forecaster, reason, until from lock where until is null or until > ? order by ref, forecaster"
LOCK_REASON = """
select reason from lock
where ref = :ref and forecaster in ('', :forecaster) and (until is null or until > :now) order by forecaster limit 1
"""
JUDGE_WINDOWS = """
update schedule set window = case
  when answered_at <= closes_at then 'met'
  when exists (select 1 from question q where q.ref = schedule.ref and q.first_seen_at < schedule.closes_at)
    then 'missed'
  else 'past' end
where window = 'open' and closes_at <= :now
returning ref, forecaster, closes_at, window
"""
COUNTS = f"""
select coalesce(sum(owner is not null), 0),
       coalesce(sum(owner is null and due_at <= :now and {_UNLOCKED}), 0),
       coalesce(sum(owner is null and due_at <= :now and not ({_UNLOCKED})), 0),
       coalesce(sum(owner is null and due_at > :now), 0)
from schedule s
"""  # noqa: S608 - made of constants
# A forecast counts once the gate has decided over it: before that there is no intent that could travel.
LOAD = """
with wanted as (
  select q.ref, coalesce((select value from json_each(:others) o where o.key = q.ref), :forecaster) as forecaster
  from question q where q.venue = :venue and q.batch = :batch)
select count(*), coalesce(sum(busy), 0), coalesce(sum(unforecast), 0), coalesce(sum(unforecast and due), 0) from (
  select s.owner is not null as busy,
         s.owner is null and s.due_at <= :now or exists (
           select 1 from forecast f where f.ref = w.ref and f.forecaster = w.forecaster and f.state = 'done'
                                       and f.apart = 0) as due,
         not exists (select 1 from forecast f where f.ref = w.ref and f.forecaster = w.forecaster
                                                and f.decided_at is not null and f.apart = 0)
         and not exists (select 1 from lock k where k.ref = w.ref and k.forecaster in ('', w.forecaster)
                                                and (k.until is null or k.until > :now)) as unforecast
  from wanted w left join schedule s on s.ref = w.ref and s.forecaster = w.forecaster)
"""
