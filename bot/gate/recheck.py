"""The last look before a write: what was decided a while ago may not hold any more. Implements what the outbox asks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.domain.submission import Intent, IntentAction, Mode
from bot.errors import NotFound
from bot.gate import window
from bot.gate.armed import unarmed
from bot.gate.brake import Brake
from bot.gate.caps import breach
from bot.gate.case import Lane, on_paper
from bot.gate.readiness import Readiness
from bot.ports import Clock
from bot.store.dockets import Asked
from bot.store.ledger import Ledger

# An order rests on a market as it was read; an older one is planned anew.
PLAN_LIMIT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Says why an intent must not be written now, or nothing; ``trading`` names the venues that take orders."""

    ledger: Ledger
    lanes: Mapping[str, Lane]
    brake: Brake
    clock: Clock
    readiness: Readiness = field(default_factory=Readiness)
    trading: Collection[str] = ()

    async def __call__(self, intent: Intent) -> str | None:
        """Ask brake, stops, losses, arm record, readiness, who leads, the question as it is now, and the plan's age."""
        lane, now = self.lanes.get(intent.ref.venue), self.clock.now()
        if lane is None or lane.mode is Mode.OFF:
            return f"{intent.ref.venue} is off"
        if lane.account != intent.account:
            return f"it was decided for the account {intent.account}, and {lane.venue} uses {lane.account} now"
        return (
            self.brake.holds()
            or await self._forbidden(lane, intent, now)
            or await self._changed(lane, intent, now)
            or await self._stale(intent, now)
        )

    async def _forbidden(self, lane: Lane, intent: Intent, now: datetime) -> str | None:
        standing = await self.ledger.leave.standing(
            {lane.venue: lane.account}, now=now, paper=on_paper({lane.venue: lane})
        )
        if stop := next((stop for stop in standing.stops if stop.holds(lane.venue)), None):
            return str(stop)
        if why := breach(lane.caps, *standing.losses.get(lane.venue, (0.0, 0.0))):
            return why
        if not lane.live:
            return None
        arm = standing.arms.get(lane.venue)
        if why := unarmed(lane, arm, now):
            return why
        # What takes something back is the same under whichever record.
        again = intent.action is not IntentAction.WITHDRAW
        if again and arm is not None and await self._planned_at(intent, now) < arm.armed_at:
            return "it was planned under an earlier arm record; it is planned anew, under this one"
        return "; ".join(self.readiness.lacking(lane.venue)) or None

    async def _planned_at(self, intent: Intent, now: datetime) -> datetime:
        """Return when an intent was planned; one that is about to be is planned now."""
        try:
            return (await self.ledger.submissions.get(intent.id)).planned_at
        except NotFound:
            return now

    async def _changed(self, lane: Lane, intent: Intent, now: datetime) -> str | None:
        """Hold the question, as it is now, against the forecast. What takes something back needs no open window."""
        if intent.action is IntentAction.WITHDRAW:
            return None
        if intent.order is not None and intent.order.closing:
            question = await self.ledger.questions.get(intent.ref)
            return window.closed(lane, question, now, binding=True)
        forecast = await self.ledger.forecasts.get(intent.forecast)
        asked = Asked(
            ref=intent.ref,
            forecaster=forecast.forecaster,
            revision=forecast.revision,
            account=intent.account,
            paper=not lane.live,
        )
        (docket,) = await self.ledger.dockets.of([asked], now=now)
        if docket.clairvoyant:
            return f"{forecast.forecaster} was clairvoyant when it made this forecast"
        if docket.locked is not None:
            return f"locked: {docket.locked}"
        # What the question is filed under may have moved since.
        if (leader := lane.leader(docket.question)) != forecast.forecaster:
            return f"{leader} forecasts {intent.ref} now, not {forecast.forecaster}"
        binding = lane.live or lane.venue in self.trading
        why = window.closed(lane, docket.question, now, binding=binding)
        return why or window.changed(docket.forecast_on, docket.question)

    async def _stale(self, intent: Intent, now: datetime) -> str | None:
        if intent.order is None:
            return None
        planned_at = (await self.ledger.submissions.get(intent.id)).planned_at
        # A clock that was set back makes no plan fresh.
        if timedelta() <= now - planned_at <= PLAN_LIMIT:
            return None
        return f"its plan is older than {PLAN_LIMIT.total_seconds():g} s; the market is read again"
