"""Arm records: a person's leave to submit. Works within the caller's transaction or snapshot."""

from datetime import datetime

from sqlite_utils import Database

from bot.domain.permission import Arm
from bot.store.codec import clean, moment, stamp

_COLUMNS = "id, venue, account, config, by, armed_at, until, per_order, per_day, total, disarmed_at"
_ADD = f"""
insert into arm ({_COLUMNS})
values (:id, :venue, :account, :config, :by, :armed_at, :until, :per_order, :per_day, :total, :disarmed_at)
on conflict (id) do nothing
"""  # noqa: S608 - made of constants
_NEWEST = f"""
select {_COLUMNS} from arm where venue = ? and account = ? order by rowid desc limit 1
"""  # noqa: S608 - as above
# Also those whose time seems to be over: the clock may be ahead.
_DISARM = "update arm set disarmed_at = :at where disarmed_at is null and venue = :venue"


def add(database: Database, arm: Arm) -> None:
    """Keep a record; those before it of the same venue end with it. The same record again changes nothing."""
    if (known := newest(database, arm.venue, arm.account)) is not None and known.id == arm.id:
        return
    disarm(database, arm.venue, at=arm.armed_at)
    values = {
        "id": arm.id,
        "venue": arm.venue,
        "account": clean(arm.account),
        "config": arm.config,
        "by": clean(arm.by),
        "armed_at": stamp(arm.armed_at),
        "until": stamp(arm.until),
        "per_order": arm.per_order,
        "per_day": arm.per_day,
        "total": arm.total,
        "disarmed_at": stamp(arm.disarmed_at),
    }
    database.execute(_ADD, values)


def is_known(database: Database, arm_id: str) -> bool:
    """Say whether there ever was a record of that id."""
    return database.execute("select 1 from arm where id = ?", [arm_id]).fetchone() is not None


def newest(database: Database, venue: str, account: str) -> Arm | None:
    """Read the newest record of an account, whether or not it holds still."""
    row = database.execute(_NEWEST, [venue, account]).fetchone()
    if row is None:
        return None
    plain = dict(zip(_COLUMNS.split(", "), row, strict=True))
    times = {name: moment(plain.pop(name)) for name in ("armed_at", "until", "disarmed_at")}
    return Arm(**plain, **times)


def disarm(database: Database, venue: str, *, at: datetime) -> int:
    """End all records of a venue that nobody ended; return how many that were, also such whose time is over."""
    return database.execute(_DISARM, {"venue": venue, "at": stamp(at)}).rowcount
