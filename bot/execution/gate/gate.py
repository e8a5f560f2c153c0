"""Decides whether a recorded forecast may be submitted, and checks again directly before the write.

The rules are checked in order, and the first objection decides. Every decision is stored with its reason, also a hold.
On paper nothing is armed or approved; everything else is the same. Directly before the write the rules are checked
again, since things may have changed since the decision.
"""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from datetime import datetime

from bot.core.errors import NotFoundError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.orders import OrderPlan
from bot.core.permissions import CapUsage, SubmissionApproval
from bot.core.submissions import GateDecision, HoldDecision, Intent, SendDecision
from bot.execution.gate import approval
from bot.execution.gate.decision_context import (
    RETRY_HOLD_AFTER,
    DecisionContext,
    SubmissionKind,
    SubmissionPhase,
    build_intent,
)
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.gate.rules import closed_window_reason, find_objection, find_objection_but_approval
from bot.store.decisions import SnapshotRequest
from bot.store.ledger import Ledger

__all__ = ["RETRY_HOLD_AFTER", "DecisionContext", "ExecutionPolicy", "Gate", "build_intent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Decides on contexts; the kill switch holds everything while it is engaged."""

    kill_switch: KillSwitch

    def decide(self, context: DecisionContext) -> GateDecision:
        """Return SendDecision with the intent, or HoldDecision with the reason and, if time can lift it, until when."""
        if hold := find_objection(self._to_decide(context)):
            return hold
        return _send(context, _send_reason(context))

    def check_before_plan(self, context: DecisionContext) -> HoldDecision | None:
        """Return the first objection of the rules that need neither a market nor cap usage, or None."""
        return find_objection(self._to_decide(context), before_plan=True)

    def decide_closing(self, context: DecisionContext) -> GateDecision:
        """Decide on the sale of a position regardless of the forecast; ``closing`` of its order is the reason.

        The sale needs an armed and ready venue, free rates and no halt. The rules about the forecast (its forecaster,
        the text of its question) do not apply, and a sale uses no cap.
        """
        if hold := find_objection(self._to_decide(context, SubmissionKind.CLOSING)):
            return hold
        return _send(context, f"closing: {'' if context.order is None else context.order.closing}")

    def needed_approval(self, context: DecisionContext) -> SubmissionApproval | None:
        """Return the approval request if a missing approval is the only objection to the forecast."""
        why = approval.missing_approval_reason(context)
        if why is None or find_objection_but_approval(self._to_decide(context)):
            return None
        return approval.build_approval_request(context, why)

    def _to_decide(self, context: DecisionContext, kind: SubmissionKind = SubmissionKind.FORECAST) -> DecisionContext:
        return replace(
            context, phase=SubmissionPhase.DECIDE, kind=kind, kill_switch_reason=self.kill_switch.halt_reason()
        )


def _send(context: DecisionContext, why: str) -> SendDecision:
    state = "" if context.plan is None else context.plan.market_state
    return SendDecision(intent=build_intent(context), mode=context.policy.mode, why=why, market_state=state)


def _send_reason(context: DecisionContext) -> str:
    parts = [] if context.plan is None else [context.plan.why]
    if context.policy.is_live:
        approved = approval.approval_reason(context) is not None and context.approval is not None
        return "; ".join([f"approved by {context.approval.by}" if approved and context.approval else "armed", *parts])
    if why := closed_window_reason(context):
        parts.append(f"after {why.removeprefix('the ')}: live would hold it")
    if why := approval.divergence_objection(context):
        parts.append(f"{why}: live would ask a person")
    return "; ".join(["paper", *parts])


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
        lost_today, drawdown = status.losses[policy.venue]
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
            plan=OrderPlan(why="", order=intent.order),
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
