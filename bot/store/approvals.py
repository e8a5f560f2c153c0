"""Approvals: forecasts that wait for a person, and the answers. Works within the caller's transaction or snapshot."""

from collections.abc import Mapping
from datetime import datetime

from sqlite_utils import Database

from bot.domain.permission import Approval, ApprovalState
from bot.errors import NotFound, Rejected
from bot.store.codec import Form, clean, moment, stamp

_SHOWN: Form[Mapping[str, str]] = Form("list of what was shown", Mapping[str, str])

_COLUMNS = "id, forecast, venue, cost, state, asked_at, expires_at, by, shown"
# One row for each forecast: what is asked again replaces what was asked before.
_ASK = f"""
insert into approval ({_COLUMNS}) values (:id, :forecast, :venue, :cost, :state, :asked_at, :expires_at, '', :shown)
on conflict (forecast) do update set
  id = excluded.id, cost = excluded.cost, state = excluded.state, asked_at = excluded.asked_at,
  expires_at = excluded.expires_at, shown = excluded.shown, by = '', answered_at = null
"""  # noqa: S608 - made of constants
_OF_FORECAST = f"select {_COLUMNS} from approval where forecast = ?"  # noqa: S608 - as above
_BY_ID = f"select {_COLUMNS} from approval where id like ? || '%' order by id limit 3"  # noqa: S608 - as above
_RECENT = f"""
select {_COLUMNS} from approval where :all or state = 'asked' order by state <> 'asked', asked_at desc limit :limit
"""  # noqa: S608 - as above
_EXPIRE = "update approval set state = 'expired' where state in ('asked', 'approved') and expires_at <= ?"
_ANSWER = "update approval set state = :state, by = :by, answered_at = :at, expires_at = :until where id = :id"
_USE = "update approval set state = 'used' where forecast = ? and state = 'approved'"
# The forecast comes before the gate again at once.
_PUT_AGAIN = """
update decision set until = :at
where verdict = 'hold' and id = (select max(id) from decision where forecast = :forecast)
"""


def ask(database: Database, approval: Approval) -> None:
    """Ask a person about a forecast."""
    values = {
        "id": approval.id,
        "forecast": approval.forecast,
        "venue": approval.venue,
        "cost": approval.cost,
        "state": approval.state.value,
        "asked_at": stamp(approval.asked_at),
        "expires_at": stamp(approval.expires_at),
        "shown": _SHOWN.encode({name: clean(text) for name, text in approval.shown.items()}),
    }
    database.execute(_ASK, values)


def of_forecast(database: Database, forecast_id: str) -> Approval | None:
    """Read what was asked about a forecast last, and what was answered."""
    row = database.execute(_OF_FORECAST, [forecast_id]).fetchone()
    return None if row is None else _approval(*row)


def named(database: Database, name: str) -> Approval:
    """Read the approval of that id, or of the only id that begins so; raises NotFound."""
    escaped = "".join(character for character in name if character.isalnum())
    rows = database.execute(_BY_ID, [escaped]).fetchall() if escaped else []
    if len(rows) != 1:
        what = "more than one question for approval begins with" if rows else "there is no question for approval called"
        message = f"{what} {name}; list them with: foxcast approvals"
        raise NotFound(message)
    return _approval(*rows[0])


def listed(database: Database, *, everything: bool, limit: int) -> list[Approval]:
    """Read what waits for an answer, newest first; with ``everything`` also what was answered."""
    return [_approval(*row) for row in database.execute(_RECENT, {"all": everything, "limit": limit})]


def answer(database: Database, answered: Approval, *, at: datetime) -> None:
    """Keep a person's answer, and put the forecast before the gate again.

    Raises NotFound, and Rejected for one that was answered before or that nobody answered in time.
    """
    known = named(database, answered.id)
    if known.state is not ApprovalState.ASKED:
        message = f"{known.id} is {known.state} already" + (f" by {known.by}" if known.by else "")
        raise Rejected(message)
    if known.expires_at <= at:
        when = f"{known.expires_at:%Y-%m-%d %H:%M} UTC"
        message = f"{known.id} expired at {when}; it is asked again if the forecast would still leave"
        raise Rejected(message)
    values = {
        "id": known.id,
        "state": answered.state.value,
        "by": clean(answered.by),
        "at": stamp(at),
        "until": stamp(answered.expires_at),
    }
    database.execute(_ANSWER, values)
    database.execute(_PUT_AGAIN, {"at": stamp(at), "forecast": known.forecast})


def expire(database: Database, at: datetime) -> int:
    """End what nobody answered, and answers that were not used, in time; return how many."""
    return database.execute(_EXPIRE, [stamp(at)]).rowcount


def use(database: Database, forecast_id: str) -> None:
    """Use up the approval of a forecast that leaves."""
    database.execute(_USE, [forecast_id])


def _approval(*columns: object) -> Approval:
    plain = dict(zip(_COLUMNS.split(", "), columns, strict=True))
    return Approval(
        id=str(plain["id"]),
        forecast=str(plain["forecast"]),
        venue=str(plain["venue"]),
        cost=float(str(plain["cost"])),
        state=ApprovalState(str(plain["state"])),
        asked_at=moment(str(plain["asked_at"])),
        expires_at=moment(str(plain["expires_at"])),
        by=str(plain["by"]),
        shown=_SHOWN.decode(str(plain["shown"])),
    )
