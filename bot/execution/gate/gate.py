"""Decides whether a recorded forecast may be submitted: checks the rules in order; the first objection decides.

Every decision is stored with its reason, also "hold". On paper nothing is armed or approved; everything else is the
same.
"""

from dataclasses import dataclass, replace

from bot.core.permissions import SubmissionApproval
from bot.core.submissions import GateDecision, HoldDecision, SendDecision
from bot.execution.gate import approval
from bot.execution.gate.decision_context import (
    RETRY_HOLD_AFTER,
    DecisionContext,
    SubmissionKind,
    SubmissionPhase,
    build_intent,
)
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.rules import closed_window_reason, find_objection, find_objection_but_approval

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
