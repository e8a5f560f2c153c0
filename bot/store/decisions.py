"""Decisions over forecasts: each is stored with its reason; one to send plans its intent in the same transaction."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlite_utils import Database

from bot.domain.submission import Decision, Hold, IntentState, Mode, Send
from bot.errors import NotFound
from bot.store import documents, intents
from bot.store.codec import clean, moment, stamp
from bot.store.intents import INTENT_COLUMNS

MARKET_TYPE = "application/json"

_DECIDE = """
insert into decision (forecast, at, verdict, why, until, mode, intent, market)
values (:forecast, :at, :verdict, :why, :until, :mode, :intent, :market)
"""
# Asking again and hearing the same is no new decision: the time until which it holds moves, and the figures in it.
_LAST = "select id, verdict, why from decision where forecast = ? order by id desc limit 1"
_REPEAT = "update decision set until = :until, why = :why where id = :id"
_FIGURES = re.compile(r"\d[\d.,:]*")
_DECIDED = "update forecast set decided_at = :at where id = :forecast"
_DECISIONS = f"""
select d.at, d.why, d.until, d.mode, d.market, {INTENT_COLUMNS}
from decision d left join intent i on i.id = d.intent where d.forecast = ? order by d.id
"""  # noqa: S608 - made of constants

_LEADER = """
select i.state from intent i join intent c on c.id = ?
where i.forecast = c.forecast and i.account = c.account and i.action in ('forecast', 'order')
order by i.state = 'acked' desc, i.seq desc limit 1
"""

# A decision that is taken where it is stored, so that what it rests on (what is at stake, say) cannot change between.
# It may run twice and must do nothing but read.
Rule = Callable[[Database], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision and when it was taken."""

    at: datetime
    decision: Decision


def decide(database: Database, forecast_id: str, decision: Decision, at: datetime) -> Decision:
    """Store a decision and plan what it sends; return it as stored."""
    if isinstance(decision, Send) and (doubt := intents.doubt(database, decision.intent)):
        decision = Hold(why=doubt, until=at)
    if isinstance(decision, Hold):
        hold(database, forecast_id, decision, at)
        return decision
    decision = replace(decision, intent=intents.plan(database, decision, stamp(at)))
    values = {
        "verdict": "send",
        "until": None,
        "mode": decision.mode.value,
        "intent": decision.intent.id,
        "market": _market(database, decision.state),
    }
    _store(database, {**values, "forecast": forecast_id, "at": stamp(at), "why": clean(decision.why)})
    return decision


def hold(database: Database, forecast_id: str, decision: Hold, at: datetime) -> None:
    """Store that a forecast is held back; the same reason again only moves its time."""
    values = {
        "forecast": forecast_id,
        "at": stamp(at),
        "why": clean(decision.why),
        "verdict": "hold",
        "until": stamp(decision.until),
        "mode": None,
        "intent": None,
        "market": None,
    }
    last = database.execute(_LAST, [forecast_id]).fetchone()
    if last is not None and last[1] == "hold" and _kind(last[2]) == _kind(decision.why):
        database.execute(_REPEAT, {"id": last[0], "until": values["until"], "why": values["why"]})
        database.execute(_DECIDED, {"forecast": forecast_id, "at": values["at"]})
    else:
        _store(database, values)


def _kind(why: str) -> str:
    """Return a reason without its figures."""
    return _FIGURES.sub("#", clean(why))


def abandon(database: Database, intent_id: str, why: str, at: datetime, *, until: datetime | None = None) -> None:
    """Take back an intent that waits, with a reason; its forecast, if it is that, comes before the gate again.

    It does so at once, or at the moment that is given.

    A comment goes without its forecast being asked about. Raises StoreError for an intent that does not wait.
    """
    row = intents.get(database, intent_id)
    intents.rest(database, intent_id, row.state, detail=why, at=stamp(at))
    if row.intent.action in {"forecast", "order"}:
        hold(database, row.intent.forecast, Hold(why=f"back to the gate: {why}", until=until or at), at)


def decisions(database: Database, forecast_id: str) -> list[DecisionRow]:
    """Read all decisions over a forecast, oldest first."""
    rows = database.execute(_DECISIONS, [forecast_id]).fetchall()
    return [
        DecisionRow(
            at=moment(at),
            decision=Hold(why=why, until=moment(until))
            if mode is None
            else Send(intent=intents.intent_of(*intent), mode=Mode(mode), why=why, state=_state(database, market)),
        )
        for at, why, until, mode, market, *intent in rows
    ]


def state_of_leader(database: Database, comment_id: str) -> IntentState | None:
    """Return where the newest intent stands that a comment belongs to, None where there is none."""
    row = database.execute(_LEADER, [comment_id]).fetchone()
    return None if row is None else IntentState(row[0])


def _store(database: Database, values: dict[str, str | None]) -> None:
    database.execute(_DECIDE, values)
    database.execute(_DECIDED, {"forecast": values["forecast"], "at": values["at"]})


def _market(database: Database, state: str) -> str | None:
    if not state:
        return None
    document = documents.pack(clean(state).encode(), MARKET_TYPE)
    documents.put(database, document)
    return document.digest


def _state(database: Database, market: str | None) -> str:
    try:
        return "" if market is None else documents.get(database, market).content.decode()
    except NotFound:
        return ""
