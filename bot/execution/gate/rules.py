"""All rules on submissions, each once, in the order in which they are checked; the first objection decides.

``RULES`` is the only list. The gate checks the rules of the phase DECIDE, the check before a write those of the phase
SEND, both on a ``DecisionContext``. A rule is a pure check of that context and returns a hold or nothing. A check that
cannot be made counts as an objection: the builder of the context ensures that.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.core.light_dataclass import dataclass
from bot.core.orders import OrderSide
from bot.core.permissions import ApprovalState, ArmRecord
from bot.core.predictions import is_same_prediction, prediction_mismatch
from bot.core.questions import describe_changes
from bot.core.submissions import ExecutionMode, HoldDecision
from bot.execution.gate.approval import forecast_edge, missing_approval_reason, order_belief
from bot.execution.gate.caps import CAP_TOLERANCE, loss_limit_breach, max_order_cost, tightest_headroom
from bot.execution.gate.decision_context import REPLAN_AFTER, DecisionContext, SubmissionKind, SubmissionPhase
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.order_fees import FEE_TOLERANCE, venue_fees

RuleCheck = Callable[[DecisionContext], HoldDecision | None]

# An order is planned on a market as it was read; an older plan is made again.
MAX_PLAN_AGE = timedelta(minutes=2)

# Venues round money to a cent; limits and beliefs carry the rounding of sums.
COST_TOLERANCE, PRICE_TOLERANCE = 0.01, 1e-6

_BOTH = SubmissionPhase.DECIDE | SubmissionPhase.SEND
_DECIDE, _SEND = SubmissionPhase.DECIDE, SubmissionPhase.SEND
_FORECAST, _CLOSING = SubmissionKind.FORECAST, SubmissionKind.CLOSING
# Submissions about a question, which must be the one that was forecast.
_STATEMENTS = SubmissionKind.FORECAST | SubmissionKind.COMMENT
_ALL_BUT_WITHDRAWALS = _STATEMENTS | SubmissionKind.CLOSING
_EVERYTHING = _ALL_BUT_WITHDRAWALS | SubmissionKind.WITHDRAWAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRule:
    """One rule: its check, its phases, and its kinds of submission.

    A rule of one phase explains in ``why_one_phase`` why the other does not need it. ``needs_plan``: the check uses the
    planned order or the cap usage, which are known late.
    """

    check: RuleCheck
    phases: SubmissionPhase
    kinds: SubmissionKind = _EVERYTHING
    needs_plan: bool = False
    why_one_phase: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a rule that is missing in a phase without a reason."""
        if not self.phases or (self.phases == _BOTH) == bool(self.why_one_phase):
            message = f"{self.name} must have both phases, or one and the reason why not the other"
            raise ValueError(message)

    @property
    def name(self) -> str:
        """The name of its check."""
        return self.check.__name__

    def objection(self, context: DecisionContext) -> HoldDecision | None:
        """Return the objection of the rule, or None; also None if it does not apply to the kind or phase."""
        if context.phase not in self.phases or context.kind not in self.kinds:
            return None
        return self.check(context)


def find_objection(context: DecisionContext, *, before_plan: bool = False) -> HoldDecision | None:
    """Return the first objection to a submission; ``before_plan``: only of rules that need no plan."""
    return next(
        (hold for rule in RULES if not (before_plan and rule.needs_plan) and (hold := rule.objection(context))), None
    )


def find_objection_but_approval(context: DecisionContext) -> HoldDecision | None:
    """Return the first objection that a person's approval would not lift."""
    return next(
        (hold for rule in RULES if rule.check is not check_approval and (hold := rule.objection(context))), None
    )


def check_mode(context: DecisionContext) -> HoldDecision | None:
    """Hold everything of a venue that is off; for a while where it only cannot be opened."""
    if context.is_unopened:
        return context.hold_until_retry(f"{context.policy.venue} cannot be opened now")
    return HoldDecision(why=f"{context.policy.venue} is off") if context.policy.mode is ExecutionMode.OFF else None


def check_account(context: DecisionContext) -> HoldDecision | None:
    """Hold an intent that was decided for an account that is not in use now."""
    policy, account = context.policy, context.decided_account
    if account == policy.account:
        return None
    return HoldDecision(why=f"it was decided for the account {account}, and {policy.venue} uses {policy.account} now")


def check_recorded_only(context: DecisionContext) -> HoldDecision | None:
    """Hold for good a forecast that a person only wanted to see, and all of a venue that can only be read."""
    if context.is_read_only:
        missing = "no writer" if context.policy.is_live else "no paper book"
        return HoldDecision(why=f"recorded only: {context.policy.venue} can only be read, it has {missing}")
    if not context.recorded_only:
        return None
    return HoldDecision(why="recorded only: it was made by hand, without --submit")


def check_clairvoyance(context: DecisionContext) -> HoldDecision | None:
    """Hold for good a forecast that may know the future, even if its forecaster is no longer clairvoyant in config."""
    if not context.clairvoyant:
        return None
    return HoldDecision(why=f"recorded only: {context.forecast.forecaster} was clairvoyant when it made this forecast")


def check_forecaster(context: DecisionContext) -> HoldDecision | None:
    """Hold the forecasts of all but one forecaster; which one that is may depend on the topics of the question."""
    policy, forecaster = context.policy, context.forecast.forecaster
    submitting = policy.submitting_forecaster(context.question)
    if forecaster == submitting:
        return None
    if context.phase is SubmissionPhase.SEND:
        return context.hold_until_retry(f"{submitting} forecasts {context.forecast.ref} now, not {forecaster}")
    why = f"recorded only: {submitting} forecasts for {policy.venue}, {forecaster} is only scored"
    closes_at = context.question.closes_at
    is_open = closes_at is None or closes_at > context.now
    # The submitting forecaster may change with the topics of the question.
    may_submit = is_open and forecaster in policy.eligible_forecasters
    return context.hold_until_retry(why) if may_submit else HoldDecision(why=why)


def check_question_unchanged(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast of a question that has changed since; None if there is nothing to compare with."""
    before = context.question_at_forecast
    changes = () if before is None else describe_changes(before, context.question)
    if not changes:
        return None
    why = f"the question changed after this forecast: {'; '.join(changes)}; it is forecast again"
    return context.hold_until_retry(why)


def check_prediction_shape(context: DecisionContext) -> HoldDecision | None:
    """Hold for good a prediction that does not answer the question."""
    for key, prediction in context.forecast.predictions.items():
        if why := prediction_mismatch(prediction, context.question.shape):
            return HoldDecision(why=f"target {key}: {why}")
    return None


def check_exclusions(context: DecisionContext) -> HoldDecision | None:
    """Hold submissions for questions that config excludes; positions in them may still be sold."""
    why = context.policy.exclusion_reason(context.question, context.order)
    return None if why is None else context.hold_until_retry(why)


def check_kill_switch(context: DecisionContext) -> HoldDecision | None:
    """Hold everything while the kill switch is engaged."""
    return None if context.kill_switch_reason is None else context.hold_until_retry(context.kill_switch_reason)


def check_halts(context: DecisionContext) -> HoldDecision | None:
    """Hold everything of a venue that is halted."""
    halt = next((halt for halt in context.halts if halt.applies_to(context.policy.venue)), None)
    return None if halt is None else context.hold_until_retry(f"{halt}; {halt.remedy}")


def check_lock(context: DecisionContext) -> HoldDecision | None:
    """Hold submissions for a question that a person locked."""
    return None if context.lock_reason is None else context.hold_until_retry(f"locked: {context.lock_reason}")


def check_window_opened(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast until the window opens."""
    opens_at = context.question.opens_at
    if opens_at is None or context.now >= opens_at:
        return None
    return HoldDecision(why=f"the window opens at {_format_moment(opens_at)}", until=opens_at)


def check_window_closed(context: DecisionContext) -> HoldDecision | None:
    """Hold for good a submission that is too late; paper without orders ignores the window."""
    why = closed_window_reason(context) if context.window_binds else None
    return None if why is None else HoldDecision(why=why)


def closed_window_reason(context: DecisionContext) -> str | None:
    """Return that the window has closed or closes too soon, or None."""
    closes_at, margin = context.question.closes_at, context.policy.close_margin
    if closes_at is None or context.now <= closes_at - margin:
        return None
    if context.now > closes_at:
        return f"the window closed at {_format_moment(closes_at)}"
    seconds = margin.total_seconds()
    return f"the window closes at {_format_moment(closes_at)}, and nothing is sent in its last {seconds:g} s"


def _format_moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def check_arm_record(context: DecisionContext) -> HoldDecision | None:
    """Hold everything of a live venue that is not armed."""
    if not context.policy.is_live:
        return None
    why = arm_objection(context.policy, context.arm, context.now)
    return None if why is None else context.hold_until_retry(why)


def arm_objection(policy: ExecutionPolicy, arm: ArmRecord | None, now: datetime) -> str | None:
    """Return why nothing may be submitted under a live policy; None if it is armed."""
    again = f"arm it with: foxcast arm {policy.venue} --for 24h"
    if arm is None:
        return f"{policy.venue} is not armed for {policy.mode} submissions; {again}"
    if arm.disarmed_at is not None:
        return f"{policy.venue} was disarmed at {arm.disarmed_at:%Y-%m-%d %H:%M} UTC; {again}"
    if now >= arm.until:
        return f"the arm record of {policy.venue} ended at {arm.until:%Y-%m-%d %H:%M} UTC; {again}"
    if now < arm.armed_at:
        return f"the arm record of {policy.venue} begins at {arm.armed_at:%Y-%m-%d %H:%M} UTC: the clock was set back"
    if arm.is_of_another_folder:
        changed = f"the arm record of {policy.venue} was given for another state folder or on another machine"
    elif arm.config != policy.config_digest:
        changed = (
            f"the configuration of {policy.venue} was changed after it was armed (the environment and the keys count, "
            "too)"
        )
    else:
        return None
    return f"{changed}; check it, then {again}"


def check_arm_amounts(context: DecisionContext) -> HoldDecision | None:
    """Hold an order under an arm record that does not bound what orders may cost."""
    policy, arm = context.policy, context.arm
    if not policy.is_live or not context.takes_orders or arm is None:
        return None
    if None not in {arm.per_order, arm.per_day, arm.total}:
        return None
    options = "--per-order, --per-day and --total"
    return context.hold_until_retry(
        f"the arm record of {policy.venue} has no amounts, and its forecasts become orders; arm it with {options}"
    )


def check_same_arm_record(context: DecisionContext) -> HoldDecision | None:
    """Hold an intent that was planned before the venue was armed again; withdrawals are the same under both records."""
    if not context.policy.is_live or context.arm is None or context.planned_at is None:
        return None
    if context.planned_at >= context.arm.armed_at:
        return None
    return HoldDecision(why="it was planned under an earlier arm record; it is planned again under this one")


def check_readiness(context: DecisionContext) -> HoldDecision | None:
    """Hold everything of a live venue that is not ready."""
    if not context.policy.is_live or not context.missing_requirements:
        return None
    return context.hold_until_retry(f"{context.policy.venue} is not ready: {'; '.join(context.missing_requirements)}")


def check_open_approval(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast whose approval request is open or was rejected.

    A request without an answer in time is made again, as long as the forecast would be sent.
    """
    approval = context.approval
    if approval is None or not context.policy.is_live:
        return None
    match approval.state:
        case ApprovalState.ASKED if context.now < approval.expires_at:
            return context.hold_until_retry(f"waits for approval {approval.id}: foxcast approve {approval.id}")
        case ApprovalState.REJECTED:
            return HoldDecision(why=f"rejected by {approval.by or 'a person'}, approval {approval.id}")
    return None


def check_not_sent(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast whose order was sent: the next forecast uses the remaining edge."""
    current = context.current_intent
    if not context.takes_orders or current is None or current.forecast != context.forecast.id:
        return None
    return HoldDecision(why=f"its order was sent already (intent {current.id})")


def check_order_planned(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast without an order where the venue takes orders."""
    if not context.takes_orders or context.order is not None:
        return None
    if max_order_cost(context) <= 0.0:
        return context.hold_until_retry(f"nothing may be bought: {tightest_headroom(context)}")
    why = "no order was planned" if context.plan is None else f"no order: {context.plan.why}"
    return context.hold_until_retry(why, REPLAN_AFTER)


def check_reentry_pause(context: DecisionContext) -> HoldDecision | None:
    """Hold a purchase on a question in which a position was closed not long ago."""
    order, closed_at, pause_h = context.order, context.closed_at, context.policy.trading.cooldown_h
    if order is None or order.side is OrderSide.SELL or closed_at is None:
        return None
    until = closed_at + timedelta(hours=pause_h)
    if context.now >= until:
        return None
    why = (
        f"a position in it was closed at {closed_at:%Y-%m-%d %H:%M} UTC; it is not bought before {until:%Y-%m-%d %H:%M}"
    )
    return HoldDecision(why=f"{why} (trading.cooldown_h = {pause_h:g})", until=until)


def check_caps(context: DecisionContext) -> HoldDecision | None:
    """Hold an order that costs more than the caps allow; they may have been used while it was planned."""
    order, tightest = context.order, tightest_headroom(context)
    if order is None or tightest is None or order.cost <= tightest.remaining + CAP_TOLERANCE:
        return None
    return context.hold_until_retry(f"the order would cost {order.cost:.2f} {order.currency}, and {tightest}")


def check_least_stake(context: DecisionContext) -> HoldDecision | None:
    """Hold a purchase that is smaller than the least stake; a later pass may want more."""
    order, least = context.order, context.policy.bankroll.min_stake
    if order is None or order.side is OrderSide.SELL or order.cost >= least - COST_TOLERANCE:
        return None
    why = f"the order would cost {order.cost:.2f} {order.currency}, less than bankroll.min_stake = {least:g}"
    return context.hold_until_retry(why, REPLAN_AFTER)


def check_hourly_rate(context: DecisionContext) -> HoldDecision | None:
    """Hold an order that would exceed the hourly limit."""
    limit, used = context.policy.caps.orders_per_hour, context.cap_usage.hour
    if limit is None or used < limit:
        return None
    return context.hold_until_retry(f"caps.orders_per_hour = {limit}: {used} in the last hour")


def check_losses(context: DecisionContext) -> HoldDecision | None:
    """Hold everything of a venue that lost too much."""
    why = loss_limit_breach(context.policy.caps, context.cap_usage.lost_today, context.cap_usage.drawdown)
    return None if why is None else context.hold_until_retry(f"{why}; a person must resume {context.policy.venue}")


def check_edge(context: DecisionContext) -> HoldDecision | None:
    """Hold a purchase that gains too little after fees, by the forecast itself. Sales take no new risk.

    The fees are those of the venue or of the planner, whichever are higher. The planner's own figure of the edge counts
    where it is lower, and for a curve, whose value only the planner knows.
    """
    order, minimum = context.order, context.policy.trading.edge
    if order is None or order.side is OrderSide.SELL:
        return None
    charged = venue_fees(context.policy, question=context.question, order=order)
    fees = order.fees if isinstance(charged, str) else max(order.fees, charged.usual)
    edge = forecast_edge(replace(order, fees=fees), context.forecast.predictions)
    if edge is None:
        return context.hold_until_retry(f"the order is on {order.option!r}, which was not forecast", REPLAN_AFTER)
    if min(edge, order.edge) >= minimum - CAP_TOLERANCE:
        return None
    found = (
        f"{order.edge:.4f}" if order.edge <= edge else f"{edge:.4f} by the forecast ({order.edge:.4f} by the planner)"
    )
    return context.hold_until_retry(
        f"the edge is {found} a share after fees, below trading.edge = {minimum:g}", REPLAN_AFTER
    )


def check_order_fees(context: DecisionContext) -> HoldDecision | None:
    """Hold an order that counts lower fees than the venue takes: its cost, its edge and the account depend on them."""
    order = context.order
    if order is None:
        return None
    charged = venue_fees(context.policy, question=context.question, order=order)
    if isinstance(charged, str):
        return context.hold_until_retry(charged, REPLAN_AFTER)
    if order.fees >= charged.least - FEE_TOLERANCE:
        return None
    least = f"{context.policy.venue} takes at least {charged.least:.4f}"
    return context.hold_until_retry(f"the planner counts {order.fees:.4f} of fees, and {least}", REPLAN_AFTER)


def check_order_terms(context: DecisionContext) -> HoldDecision | None:
    """Hold an order that its planner calls a closing one, and a purchase whose own figures do not agree.

    Caps count its cost, and its limit is what it may pay. A closing order skips the rules about the forecast.
    """
    order = context.order
    if order is not None and order.closing:
        why = "the planner says that its order closes a position, which only a person or an exit policy can ask for"
        return context.hold_until_retry(why, REPLAN_AFTER)
    if order is None or order.side is OrderSide.SELL:
        return None
    least = order.shares * order.expected + order.fees
    if order.cost < least - COST_TOLERANCE:
        why = f"the order says that it costs {order.cost:.2f}, and its shares with fees come to {least:.2f}"
        return context.hold_until_retry(why, REPLAN_AFTER)
    belief = order_belief(order, context.forecast.predictions)
    if belief is None or order.limit <= belief + PRICE_TOLERANCE:
        return None
    why = f"the limit {order.limit:.3f} is above the belief {belief:.3f}, so the order could be filled at a loss"
    return context.hold_until_retry(why, REPLAN_AFTER)


def check_price_band(context: DecisionContext) -> HoldDecision | None:
    """Hold a purchase at a price outside the band."""
    order, (low, high) = context.order, context.policy.trading.band
    if order is None or order.side is OrderSide.SELL:
        return None
    if all(low <= price <= high for price in (order.expected, order.limit)):
        return None
    why = f"the price {order.expected:.3f} (limit {order.limit:.3f}) is outside trading.band = [{low:g}, {high:g}]"
    return context.hold_until_retry(why, REPLAN_AFTER)


def check_approval(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast that needs a person's approval."""
    why = missing_approval_reason(context)
    return None if why is None else context.hold_until_retry(f"needs a person's approval: {why}")


def check_not_repeated(context: DecisionContext) -> HoldDecision | None:
    """Hold a forecast that repeats the current one, unless that lapses at the venue: then an equal one renews it."""
    current = context.current_intent
    made = context.forecast.predictions
    if context.takes_orders or current is None or current.predictions.keys() != made.keys():
        return None
    if not all(is_same_prediction(given, made[key]) for key, given in current.predictions.items()):
        return None
    if context.policy.forecast_lifetime is not None and current.forecast != context.forecast.id:
        return None
    return HoldDecision(why=f"the same forecast is already submitted (intent {current.id})")


def check_plan_age(context: DecisionContext) -> HoldDecision | None:
    """Hold an order with an outdated plan."""
    if context.order is None:
        return None
    # A clock that was set back must not make a plan fresh.
    if context.planned_at is not None and timedelta() <= context.now - context.planned_at <= MAX_PLAN_AGE:
        return None
    return HoldDecision(why=f"its plan is older than {MAX_PLAN_AGE.total_seconds():g} s; the market is read again")


_RESERVED = "cap usage is counted, and the order reserved, in the transaction that stores the intent"
_PLAN_IS_FRESH = "an order is written within two minutes of its plan, or planned again"

RULES: tuple[SubmissionRule, ...] = (
    SubmissionRule(check=check_mode, phases=_BOTH),
    SubmissionRule(check=check_account, phases=_SEND, why_one_phase="a decision is made for the account in use"),
    SubmissionRule(
        check=check_recorded_only, phases=_DECIDE, kinds=_FORECAST, why_one_phase="it is fixed with the forecast"
    ),
    SubmissionRule(check=check_clairvoyance, phases=_BOTH, kinds=_STATEMENTS),
    SubmissionRule(check=check_forecaster, phases=_BOTH, kinds=_STATEMENTS),
    SubmissionRule(check=check_question_unchanged, phases=_BOTH, kinds=_STATEMENTS),
    SubmissionRule(
        check=check_prediction_shape,
        phases=_DECIDE,
        kinds=_FORECAST,
        why_one_phase="another shape is a changed question",
    ),
    SubmissionRule(check=check_exclusions, phases=_BOTH, kinds=_STATEMENTS),
    SubmissionRule(check=check_kill_switch, phases=_BOTH),
    SubmissionRule(check=check_halts, phases=_BOTH),
    SubmissionRule(check=check_lock, phases=_BOTH, kinds=_STATEMENTS),
    SubmissionRule(
        check=check_window_opened, phases=_DECIDE, kinds=_FORECAST, why_one_phase="an open window does not reopen"
    ),
    SubmissionRule(check=check_window_closed, phases=_BOTH, kinds=_ALL_BUT_WITHDRAWALS),
    SubmissionRule(check=check_arm_record, phases=_BOTH),
    SubmissionRule(
        check=check_arm_amounts,
        phases=_DECIDE,
        kinds=_FORECAST | _CLOSING,
        why_one_phase="amounts belong to an arm record, and what another record covers is planned again",
    ),
    SubmissionRule(
        check=check_same_arm_record,
        phases=_SEND,
        kinds=_ALL_BUT_WITHDRAWALS,
        why_one_phase="a decision is made under the newest arm record",
    ),
    SubmissionRule(check=check_readiness, phases=_BOTH),
    SubmissionRule(
        check=check_open_approval, phases=_DECIDE, kinds=_FORECAST, why_one_phase="an intent exists after the answer"
    ),
    SubmissionRule(
        check=check_not_sent, phases=_DECIDE, kinds=_FORECAST, why_one_phase="the intent itself would be found"
    ),
    SubmissionRule(
        check=check_order_planned,
        phases=_DECIDE,
        kinds=_FORECAST | _CLOSING,
        needs_plan=True,
        why_one_phase="an intent at a venue that takes orders has its order",
    ),
    SubmissionRule(
        check=check_reentry_pause, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH
    ),
    SubmissionRule(check=check_caps, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_RESERVED),
    SubmissionRule(
        check=check_least_stake, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH
    ),
    SubmissionRule(
        check=check_hourly_rate, phases=_DECIDE, kinds=_FORECAST | _CLOSING, needs_plan=True, why_one_phase=_RESERVED
    ),
    SubmissionRule(check=check_losses, phases=_BOTH, needs_plan=True),
    SubmissionRule(
        check=check_order_fees, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH
    ),
    SubmissionRule(check=check_edge, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH),
    SubmissionRule(
        check=check_price_band, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH
    ),
    SubmissionRule(
        check=check_order_terms, phases=_DECIDE, kinds=_FORECAST, needs_plan=True, why_one_phase=_PLAN_IS_FRESH
    ),
    SubmissionRule(
        check=check_approval,
        phases=_DECIDE,
        kinds=_FORECAST,
        needs_plan=True,
        why_one_phase="an intent exists after the answer, and its order is what was approved",
    ),
    SubmissionRule(
        check=check_not_repeated,
        phases=_DECIDE,
        kinds=_FORECAST,
        needs_plan=True,
        why_one_phase="the intent itself would be found",
    ),
    SubmissionRule(
        check=check_plan_age, phases=_SEND, needs_plan=True, why_one_phase="a plan is made just before it is decided on"
    ),
)
