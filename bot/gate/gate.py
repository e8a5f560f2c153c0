"""The checks between a recorded forecast and an intent, in order; the first that objects decides.

mode -> primary forecaster -> form -> brake -> lock -> window -> arming -> duplicates -> send. Every answer, also "no",
becomes a stored decision with its reason. A check that cannot be made counts as an objection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.forecast import Forecast
from bot.domain.prediction import mismatch
from bot.domain.question import Question
from bot.domain.submission import Decision, Hold, Intent, IntentAction, Mode, Send
from bot.gate.brake import Brake
from bot.ids import derive_id

# How long a hold that time or a person may lift stands before the question is put again.
ASK_AGAIN = timedelta(minutes=10)
ACTION = IntentAction.FORECAST


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One venue's way out: its mode, whose forecasts leave, and under which account."""

    venue: str
    mode: Mode
    primary: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One forecast before the gate, with what already stands for its question in this lane."""

    lane: Lane
    forecast: Forecast
    question: Question
    standing: Intent | None
    locked: str | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Decides over cases; the brake halts everything while it holds."""

    brake: Brake
    armed: Callable[[Lane, datetime], bool]

    def decide(self, case: Case) -> Decision:
        """Return Send with the intent, or Hold with the reason and, where time alone can change it, until when."""
        checks = (_off, _not_primary, _unfit, self._halted, _locked, _closed, self._unarmed, _repeats)
        for check in checks:
            if hold := check(case):
                return hold
        return Send(intent=intent_of(case), mode=case.lane.mode, why=_why(case))

    def _halted(self, case: Case) -> Hold | None:
        why = self.brake.holds()
        return None if why is None else Hold(why=why, until=case.now + ASK_AGAIN)

    def _unarmed(self, case: Case) -> Hold | None:
        if case.lane.mode is Mode.PAPER or self.armed(case.lane, case.now):
            return None
        return Hold(why=f"{case.lane.venue} is not armed for {case.lane.mode} submissions", until=case.now + ASK_AGAIN)


def intent_of(case: Case) -> Intent:
    """Return the intent of the case; the same case always has the same intent id."""
    lane, forecast = case.lane, case.forecast
    intent_id = derive_id("intent", lane.venue, lane.account, str(forecast.ref), forecast.id, ACTION)
    return Intent(
        id=intent_id,
        account=lane.account,
        ref=forecast.ref,
        forecast=forecast.id,
        action=ACTION,
        predictions=forecast.predictions,
        batch=case.question.batch or intent_id,
    )


def _off(case: Case) -> Hold | None:
    return Hold(why=f"{case.lane.venue} is off") if case.lane.mode is Mode.OFF else None


def _not_primary(case: Case) -> Hold | None:
    lane, forecaster = case.lane, case.forecast.forecaster
    if forecaster == lane.primary:
        return None
    return Hold(why=f"recorded only: {lane.primary} forecasts for {lane.venue}, {forecaster} runs beside it")


def _unfit(case: Case) -> Hold | None:
    for key, prediction in case.forecast.predictions.items():
        if why := mismatch(prediction, case.question.shape):
            return Hold(why=f"target {key}: {why}")
    return None


def _locked(case: Case) -> Hold | None:
    return None if case.locked is None else Hold(why=f"locked: {case.locked}", until=case.now + ASK_AGAIN)


def _closed(case: Case) -> Hold | None:
    closes_at = case.question.closes_at
    if case.lane.mode is Mode.PAPER or closes_at is None or case.now <= closes_at:
        return None
    return Hold(why=f"the window closed at {closes_at.isoformat()}")


def _repeats(case: Case) -> Hold | None:
    if case.standing is None or dict(case.standing.predictions) != dict(case.forecast.predictions):
        return None
    return Hold(why=f"the same forecast already stands (intent {case.standing.id})")


def _why(case: Case) -> str:
    closes_at = case.question.closes_at
    if case.lane.mode is not Mode.PAPER:
        return "armed"
    if closes_at is not None and case.now > closes_at:
        return f"paper, after the window closed at {closes_at.isoformat()}: live would hold it"
    return "paper"
