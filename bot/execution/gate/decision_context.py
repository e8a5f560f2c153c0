"""All that the rules know about one submission, when the gate decides and again directly before the write.

The forecast, the execution policy of its venue, and the state of both.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import Flag, auto
from math import inf

from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.orders import Order, OrderPlan
from bot.core.permissions import ArmRecord, CapUsage, ExposureGroups, SubmissionApproval
from bot.core.questions import Question
from bot.core.submissions import HoldDecision, Intent, IntentAction
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.store.permissions import SubmissionHalt
from bot.store.serialization import format_timestamp

# How long a hold that time or a person may lift lasts before the gate decides again.
RETRY_HOLD_AFTER = timedelta(minutes=10)


# A market without a good price is read again after this time; one that moves far is forecast again before.
REPLAN_AFTER = timedelta(hours=1)


class SubmissionPhase(Flag):
    """When a rule is checked: as the gate decides, and directly before the write."""

    DECIDE = auto()
    SEND = auto()


class SubmissionKind(Flag):
    """What would be submitted: a forecast or the order it becomes, the sale of a position, a comment, a withdrawal."""

    FORECAST = auto()
    CLOSING = auto()
    COMMENT = auto()
    WITHDRAWAL = auto()

    @classmethod
    def of_intent(cls, intent: Intent) -> "SubmissionKind":
        """Return what an intent submits."""
        if intent.action is IntentAction.WITHDRAW:
            return cls.WITHDRAWAL
        if intent.action is IntentAction.COMMENT:
            return cls.COMMENT
        return cls.CLOSING if intent.order is not None and intent.order.closing else cls.FORECAST


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """One submission to check, with the current submission for its question under this policy.

    ``question_at_forecast`` is the question as it was when it was forecast (None if it is not compared), ``halts`` are
    all active halts, ``arm`` is the newest record of the policy, ``missing_requirements`` names what a live policy
    still lacks, ``approval`` is the last approval request for the forecast. ``clairvoyant``: the forecast was made as
    one that may see the future; ``recorded_only``: a person only wanted to see it. ``is_unopened``: the venue cannot be
    opened now; ``is_read_only``: nothing can be submitted to it in this mode. ``takes_orders``: it takes orders;
    ``plan`` is then what to do, and ``cap_usage`` what is at stake.

    ``account_value`` is what the account is worth, None if unknown; ``bought_in_pass`` is what was bought in this pass
    before, and ``joint_limit`` the most that this order may cost together with the others of the pass. ``closed_at`` is
    when a position in the question was last closed regardless of the forecast.

    ``kill_switch_reason`` says why nothing may be submitted. Before a write ``planned_at`` is when the intent
    was planned (None if it is not yet), ``decided_account`` is the account it was decided for, and ``cap_usage`` has
    only the losses.
    """

    policy: ExecutionPolicy
    forecast: Forecast
    question: Question
    current_intent: Intent | None
    lock_reason: str | None
    now: datetime
    question_at_forecast: Question | None = None
    halts: Sequence[SubmissionHalt] = ()
    arm: ArmRecord | None = None
    missing_requirements: Sequence[str] = ()
    approval: SubmissionApproval | None = None
    clairvoyant: bool = False
    recorded_only: bool = False
    is_unopened: bool = False
    is_read_only: bool = False
    takes_orders: bool = False
    plan: OrderPlan | None = None
    cap_usage: CapUsage = field(default_factory=CapUsage)
    account_value: float | None = None
    bought_in_pass: float = 0.0
    joint_limit: float = inf
    closed_at: datetime | None = None
    phase: SubmissionPhase = SubmissionPhase.DECIDE
    kind: SubmissionKind = SubmissionKind.FORECAST
    kill_switch_reason: str | None = None
    planned_at: datetime | None = None
    decided_account: str = ""

    @property
    def order(self) -> Order | None:
        """The order that would be submitted, if any."""
        return None if self.plan is None else self.plan.order

    @property
    def window_binds(self) -> bool:
        """Whether the window binds as it does live: orders, also those that close positions, need an open market."""
        return self.policy.is_live or self.takes_orders or self.kind is SubmissionKind.CLOSING

    def hold_until_retry(self, why: str, after: timedelta = RETRY_HOLD_AFTER) -> HoldDecision:
        """Return a hold that is decided again later."""
        return HoldDecision(why=why, until=self.now + after)


def exposure_groups(question: Question) -> ExposureGroups:
    """Return the groups of orders that share risk with the question, as its venue reports them."""
    return ExposureGroups(event=question.event, creator=question.creator, category=question.category)


def build_intent(context: DecisionContext) -> Intent:
    """Return the intent of a submission; the same submission always has the same intent id."""
    policy, forecast, order = context.policy, context.forecast, context.order
    action = IntentAction.FORECAST if order is None else IntentAction.ORDER
    # A position may be closed in parts, each by an order of its own.
    closing = [order.contract, order.leg, format_timestamp(context.now)] if order is not None and order.closing else []
    intent_id = derive_id("intent", policy.venue, policy.account, str(forecast.ref), forecast.id, action, *closing)
    return Intent(
        id=intent_id,
        account=policy.account,
        ref=forecast.ref,
        forecast=forecast.id,
        action=action,
        predictions=forecast.predictions,
        batch=intent_id if order is not None else context.question.batch or intent_id,
        order=order,
        exposure=exposure_groups(context.question),
    )
