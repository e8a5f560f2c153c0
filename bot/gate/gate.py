"""The checks between a recorded forecast and an intent, in order; the first that objects decides.

mode -> made to leave -> made without foreknowledge -> primary forecaster -> same question -> form -> brake and stops
-> lock -> window -> arm -> answers of people -> plan -> caps -> losses -> edge and band -> approval -> duplicates
-> send. Every answer, also "no", becomes a stored decision with its reason. A check that cannot be made counts as an
objection. On paper nobody arms or approves; all else is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.domain.order import Side
from bot.domain.permission import Approval
from bot.domain.prediction import mismatch
from bot.domain.submission import Decision, Hold, Mode, Send
from bot.gate import asking, window
from bot.gate.armed import unarmed, without_amounts
from bot.gate.brake import Brake
from bot.gate.caps import losing, most, over_cap, room, too_often
from bot.gate.case import ASK_AGAIN, PLAN_AGAIN, Case, Lane, intent_of
from bot.gate.market import out_of_band, thin

__all__ = ["ASK_AGAIN", "Case", "Gate", "Lane", "intent_of"]

Check = Callable[[Case], Hold | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Decides over cases; the brake halts everything while it holds."""

    brake: Brake

    def decide(self, case: Case) -> Decision:
        """Return Send with the intent, or Hold with the reason and, where time alone can change it, until when."""
        if hold := self.before(case) or _first(_WITH_PLAN, case) or _unapproved(case) or _repeats(case):
            return hold
        state = "" if case.plan is None else case.plan.state
        return Send(intent=intent_of(case), mode=case.lane.mode, why=_why(case), state=state)

    def before(self, case: Case) -> Hold | None:
        """Return the objection of the checks that need neither a market nor what is at stake, if one objects."""
        first = (_off, _apart, _foreseen, _not_primary, _changed, _unfit, self._halted, _locked, _early, _closed)
        return _first((*first, _unarmed, _unready, asking.unanswered, _sent), case)

    def decide_closing(self, case: Case) -> Decision:
        """Decide over the sale of a position whatever the belief, which ``closing`` of its order gives the reason for.

        Nothing leaves that is not armed, ready and within the rates, or while anything is halted; what concerns the
        forecast (who made it, which text it answers, whether it leads) does not matter, and a sale uses up no cap.
        """
        checks = (_off, self._halted, _closed, _unarmed, _unready, _unplanned, too_often, losing)
        if hold := _first(checks, case):
            return hold
        state, why = ("", "") if case.plan is None or case.order is None else (case.plan.state, case.order.closing)
        return Send(intent=intent_of(case), mode=case.lane.mode, why=f"closing: {why}", state=state)

    def question(self, case: Case) -> Approval | None:
        """Return what a person must be asked, where that is all that keeps the case from leaving."""
        if self.before(case) or _first(_WITH_PLAN, case) or _repeats(case):
            return None
        why = asking.misses(case)
        return None if why is None else asking.question(case, why)

    def _halted(self, case: Case) -> Hold | None:
        if (why := self.brake.holds()) is not None:
            return case.later(why)
        stop = next((stop for stop in case.stops if stop.holds(case.lane.venue)), None)
        return None if stop is None else case.later(f"{stop}; {stop.remedy}")


def _first(checks: Sequence[Check], case: Case) -> Hold | None:
    return next((hold for check in checks if (hold := check(case))), None)


def _off(case: Case) -> Hold | None:
    return Hold(why=f"{case.lane.venue} is off") if case.lane.mode is Mode.OFF else None


def _apart(case: Case) -> Hold | None:
    if not case.apart:
        return None
    return Hold(why="recorded only: it was made by hand, without --submit")


def _foreseen(case: Case) -> Hold | None:
    """Hold for good what may rest on the future: what config says of its forecaster by now changes nothing about it."""
    if not case.clairvoyant:
        return None
    return Hold(why=f"recorded only: {case.forecast.forecaster} was clairvoyant when it made this forecast")


def _not_primary(case: Case) -> Hold | None:
    lane, forecaster = case.lane, case.forecast.forecaster
    leader = lane.leader(case.question)
    if forecaster == leader:
        return None
    why = f"recorded only: {leader} forecasts for {lane.venue}, {forecaster} runs beside it"
    closes_at = case.question.closes_at
    is_open = closes_at is None or closes_at > case.now
    # Who leads may change with what the question is filed under.
    return case.later(why) if is_open and forecaster in lane.may_lead else Hold(why=why)


def _unfit(case: Case) -> Hold | None:
    for key, prediction in case.forecast.predictions.items():
        if why := mismatch(prediction, case.question.shape):
            return Hold(why=f"target {key}: {why}")
    return None


def _locked(case: Case) -> Hold | None:
    return None if case.locked is None else case.later(f"locked: {case.locked}")


def _early(case: Case) -> Hold | None:
    why = window.early(case.question, case.now)
    return None if why is None else Hold(why=why, until=case.question.opens_at)


def _closed(case: Case) -> Hold | None:
    why = window.closed(case.lane, case.question, case.now, binding=case.binding)
    return None if why is None else Hold(why=why)


def _changed(case: Case) -> Hold | None:
    why = window.changed(case.forecast_on, case.question)
    return None if why is None else case.later(f"{why}; it is forecast again")


def _unarmed(case: Case) -> Hold | None:
    if not case.lane.live:
        return None
    why = unarmed(case.lane, case.arm, case.now)
    if why is None and case.trades and case.arm is not None:
        why = without_amounts(case.lane, case.arm)
    return None if why is None else case.later(why)


def _unready(case: Case) -> Hold | None:
    if not case.lane.live or not case.lacking:
        return None
    return case.later(f"{case.lane.venue} is not ready: {'; '.join(case.lacking)}")


def _sent(case: Case) -> Hold | None:
    """Hold a forecast whose order stands: what is left of its edge is for the next forecast to see."""
    if not case.trades or case.standing is None or case.standing.forecast != case.forecast.id:
        return None
    return Hold(why=f"its order was sent already (intent {case.standing.id})")


def _unplanned(case: Case) -> Hold | None:
    if not case.trades or case.order is not None:
        return None
    if most(case) <= 0.0:
        return case.later(f"nothing may be bought: {room(case)}")
    why = "no order was planned" if case.plan is None else f"no order: {case.plan.why}"
    return case.later(why, PLAN_AGAIN)


def _stays_out(case: Case) -> Hold | None:
    """Hold a purchase of what was closed not long ago whatever the belief."""
    order, closed_at = case.order, case.closed_at
    if order is None or order.side is Side.SELL or closed_at is None:
        return None
    until = closed_at + timedelta(hours=case.lane.trading.stay_out_h)
    if case.now >= until:
        return None
    why = (
        f"a position in it was closed at {closed_at:%Y-%m-%d %H:%M} UTC; it is not bought before {until:%Y-%m-%d %H:%M}"
    )
    return Hold(why=f"{why} (trading.stay_out_h = {case.lane.trading.stay_out_h:g})", until=until)


def _unapproved(case: Case) -> Hold | None:
    why = asking.misses(case)
    return None if why is None else case.later(f"needs a person's approval: {why}")


def _repeats(case: Case) -> Hold | None:
    if case.trades or case.standing is None or dict(case.standing.predictions) != dict(case.forecast.predictions):
        return None
    return Hold(why=f"the same forecast already stands (intent {case.standing.id})")


def _why(case: Case) -> str:
    said = [] if case.plan is None else [case.plan.why]
    if case.lane.live:
        approved = asking.needs(case) is not None and case.approval is not None
        return "; ".join([f"approved by {case.approval.by}" if approved and case.approval else "armed", *said])
    if why := window.closed(case.lane, case.question, case.now, binding=True):
        said.append(f"after {why.removeprefix('the ')}: live would hold it")
    if why := asking.diverges(case):
        said.append(f"{why}: live would ask a person")
    return "; ".join(["paper", *said])


_WITH_PLAN: tuple[Check, ...] = (_unplanned, _stays_out, over_cap, too_often, losing, thin, out_of_band)
