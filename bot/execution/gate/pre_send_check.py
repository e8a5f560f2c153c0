"""The check directly before a write: things may have changed since the gate decided, so the rules are checked again."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.core.errors import NotFoundError
from bot.core.interfaces import Clock
from bot.core.orders import OrderPlan
from bot.core.permissions import CapUsage
from bot.core.submissions import Intent
from bot.execution.gate.decision_context import DecisionContext, SubmissionKind, SubmissionPhase
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.gate.rules import find_objection
from bot.store.decisions import SnapshotRequest
from bot.store.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class PreSendCheck:
    """Returns why an intent must not be written now, or None; ``trading_venues`` names the venues that take orders."""

    ledger: Ledger
    policies: Mapping[str, ExecutionPolicy]
    kill_switch: KillSwitch
    clock: Clock
    readiness: LiveReadiness = field(default_factory=LiveReadiness)
    trading_venues: Collection[str] = ()

    async def __call__(self, intent: Intent) -> str | None:
        """Check the rules of the phase SEND, on the ledger and the kill switch as they are now."""
        policy = self.policies.get(intent.ref.venue)
        if policy is None:
            return f"{intent.ref.venue} is off"
        hold = find_objection(await self._load_context(intent, policy))
        return None if hold is None else hold.why

    async def _load_context(self, intent: Intent, policy: ExecutionPolicy) -> DecisionContext:
        now = self.clock.now()
        planned_at = await self._planned_at(intent)
        status = await self.ledger.permissions.read_status(
            {policy.venue: policy.account}, now=now, paper=paper_venues({policy.venue: policy})
        )
        lost_today, drawdown = status.losses.get(policy.venue, (0.0, 0.0))
        forecast = await self.ledger.forecasts.get(intent.forecast)
        asked = SnapshotRequest(
            ref=intent.ref,
            forecaster=forecast.forecaster,
            revision=forecast.revision,
            account=intent.account,
            paper=not policy.is_live,
        )
        (snapshot,) = await self.ledger.decision_snapshots.read_snapshots([asked], now=now)
        return DecisionContext(
            policy=policy,
            forecast=forecast,
            question=snapshot.question,
            current_intent=snapshot.standing_intent,
            lock_reason=snapshot.locked,
            now=now,
            question_at_forecast=snapshot.forecast_on,
            halts=status.halts,
            arm=status.arms.get(policy.venue),
            missing_requirements=self.readiness.missing_requirements(policy.venue),
            clairvoyant=snapshot.clairvoyant,
            takes_orders=policy.venue in self.trading_venues,
            plan=None if intent.order is None else OrderPlan(why="", order=intent.order),
            cap_usage=CapUsage(lost_today=lost_today, drawdown=drawdown),
            phase=SubmissionPhase.SEND,
            kind=SubmissionKind.of_intent(intent),
            # Last of all: a kill switch that is engaged meanwhile counts.
            kill_switch_reason=self.kill_switch.halt_reason(),
            planned_at=planned_at,
            decided_account=intent.account,
        )

    async def _planned_at(self, intent: Intent) -> datetime | None:
        """Return when an intent was planned, None for one that is about to be."""
        try:
            return (await self.ledger.submissions.get(intent.id)).planned_at
        except NotFoundError:
            return None
