"""Builds the decision context of a forecast and plans its order; submitting and the preflight share it.

It writes nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from math import inf

import structlog

from bot.core.errors import (
    FoxcastError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
    describe_error_with_type,
)
from bot.core.forecasts import Forecast
from bot.core.interfaces import OrderPlanner
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, Order, OrderPlan, OrderSide, SizingPolicy, TradeProposal
from bot.core.permissions import ArmRecord, CapUsage, SubmissionApproval
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, GateDecision, HoldDecision
from bot.execution.gate.caps import ProposedStake, list_headrooms, max_order_cost, size_stakes_jointly
from bot.execution.gate.decision_context import REPLAN_AFTER, DecisionContext, exposure_groups
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.readiness import LiveReadiness
from bot.store import permissions
from bot.store.cap_usage import CapUsageScope, read_cap_usage
from bot.store.decisions import DecisionRule, DecisionSnapshot, SnapshotRequest
from bot.store.ledger import Ledger
from bot.store.permissions import PermissionStatus

log = structlog.get_logger(__name__)

# A plan that was made together with others is used for this long; after that the market is read again.
MAX_PLAN_AGE = timedelta(seconds=30)
# Shares carry the rounding of a sum of fills; no sale is larger than what is held by more.
SHARE_TOLERANCE = 1e-6
READINESS_UNKNOWN = ("whether it is ready was never checked",)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContextBuilder:
    """What all forecasts of one pass share: policies, planners, readiness and permissions.

    ``unopened_venues`` cannot be opened now; to ``read_only_venues`` nothing can be submitted.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    readiness: LiveReadiness | None = None
    permissions: PermissionStatus = field(default_factory=PermissionStatus)
    unopened_venues: Collection[str] = ()
    read_only_venues: Collection[str] = ()

    def execution_policy(self, venue: str) -> ExecutionPolicy:
        """Return the policy of a venue; it is off if config no longer uses the venue or its plugin is broken."""
        return self.execution_policies.get(venue) or ExecutionPolicy(
            venue=venue, mode=ExecutionMode.OFF, primary_forecaster="", account=""
        )

    async def build_context(self, forecast: Forecast, snapshot: DecisionSnapshot, now: datetime) -> DecisionContext:
        """Return the decision context of a forecast, without plan and usage."""
        policy = self.execution_policy(forecast.ref.venue)
        return DecisionContext(
            policy=policy,
            forecast=forecast,
            question=snapshot.question,
            current_intent=snapshot.standing_intent,
            lock_reason=snapshot.locked,
            now=now,
            question_at_forecast=snapshot.forecast_on,
            halts=self.permissions.halts,
            arm=self.permissions.arms.get(policy.venue),
            missing_requirements=self._missing_requirements(policy),
            approval=await self._read_approval(policy, forecast.id),
            clairvoyant=snapshot.clairvoyant,
            recorded_only=snapshot.forecast_only,
            is_unopened=policy.venue in self.unopened_venues,
            is_read_only=policy.venue in self.read_only_venues,
            takes_orders=policy.venue in self.planners,
            closed_at=snapshot.closed_at,
        )

    def _missing_requirements(self, policy: ExecutionPolicy) -> Sequence[str]:
        if not policy.is_live:
            return ()
        return READINESS_UNKNOWN if self.readiness is None else self.readiness.missing_requirements(policy.venue)

    async def _read_approval(self, policy: ExecutionPolicy, forecast_id: str) -> SubmissionApproval | None:
        return await self.ledger.permissions.approval(forecast_id) if policy.is_live else None


async def load_snapshots(
    builder: DecisionContextBuilder, forecasts: Sequence[Forecast], now: datetime
) -> list[tuple[Forecast, DecisionSnapshot]]:
    """Return each forecast with the snapshot of its question, all read at one moment."""
    asked = [
        SnapshotRequest(
            ref=forecast.ref,
            forecaster=forecast.forecaster,
            revision=forecast.revision,
            account=builder.execution_policy(forecast.ref.venue).account,
            paper=not builder.execution_policy(forecast.ref.venue).is_live,
        )
        for forecast in forecasts
    ]
    return list(zip(forecasts, await builder.ledger.decision_snapshots.read_snapshots(asked, now=now), strict=True))


def cap_usage_scope(context: DecisionContext) -> CapUsageScope:
    """Return the scope that is counted for the caps of a submission."""
    return CapUsageScope(
        ref=context.forecast.ref,
        account=context.policy.account,
        paper=not context.policy.is_live,
        exposure=exposure_groups(context.question),
        since=context.arm.armed_at if context.policy.is_live and context.arm is not None else None,
    )


def needs_cap_usage(context: DecisionContext) -> bool:
    """Return whether the submission needs its cap usage; counting it for thousands of others would take long."""
    return context.takes_orders or context.policy.caps.orders_per_hour is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedOrder:
    """The order as it would be without the others of the pass, or why there is none.

    ``joint_limit`` is the maximum cost. All proposals of the pass are made on the same ``account``, so that their order
    makes no difference.
    """

    planned: DecisionContext | HoldDecision
    account: Account
    joint_limit: float = inf


@dataclass(slots=True, kw_only=True)
class VenueOrderPlanner:
    """Plans the orders of one venue in one pass, one after the other, on the account as read at its start.

    ``reserved`` is what intents may take from the account that it does not show yet. A venue that does not answer is
    not asked again in this pass. ``bought_in_pass`` is what the orders of the pass may cost so far, ``proposed`` are
    those by forecast that are sized together.
    """

    planner: OrderPlanner
    account: Account
    outage: str = ""
    bought_in_pass: float = 0.0
    proposed: dict[str, ProposedOrder] = field(default_factory=dict)
    account_value: float = field(init=False)

    def __post_init__(self) -> None:
        """Keep the value of the account as it was read: purchases do not lower it."""
        self.account_value = self.account.equity

    def deduct(self, cost: float) -> None:
        """Count what was sent: the account as it was read does not show it."""
        self.account = replace(self.account, cash=max(0.0, self.account.cash - cost))

    async def propose_orders(self, contexts: Sequence[DecisionContext], *, reserved: float) -> None:
        """Plan each order as if it were the only one, then size them jointly; a single one needs no sizing."""
        if len(contexts) < 2:
            return
        account = self._available_account(reserved)
        found = {
            context.forecast.id: await self._run_planner(self._with_totals(context), account) for context in contexts
        }
        stakes = [
            _proposed_stake(item) for item in found.values() if isinstance(item, DecisionContext) and _is_purchase(item)
        ]
        share = contexts[0].policy.bankroll
        sized = size_stakes_jointly(stakes, cash=account.cash, correlation=share.correlation, min_stake=share.min_stake)
        self.proposed |= {
            name: ProposedOrder(planned=item, account=account, joint_limit=sized.get(name, inf))
            for name, item in found.items()
        }

    async def plan_order(self, context: DecisionContext, *, reserved: float) -> DecisionContext | HoldDecision:
        """Return the context with its plan, or why there can be none."""
        proposal = self.proposed.pop(context.forecast.id, None)
        if proposal is None:
            return await self._run_planner(self._with_totals(context), self._available_account(reserved))
        if isinstance(proposal.planned, HoldDecision):
            return proposal.planned
        context, order = replace(self._with_totals(context), joint_limit=proposal.joint_limit), proposal.planned.order
        if order is None or proposal.joint_limit <= 0.0:
            plan = proposal.planned.plan
            return replace(context, plan=None if plan is None else replace(plan, order=None))
        fresh = context.now - proposal.planned.now <= MAX_PLAN_AGE
        if fresh and order.cost <= min(max_order_cost(context), proposal.joint_limit):
            return replace(context, plan=proposal.planned.plan)
        return await self._run_planner(context, proposal.account)

    def _available_account(self, reserved: float) -> Account:
        return replace(self.account, cash=max(0.0, self.account.cash - reserved))

    def _with_totals(self, context: DecisionContext) -> DecisionContext:
        return replace(context, account_value=self.account_value, bought_in_pass=self.bought_in_pass)

    async def _run_planner(self, context: DecisionContext, account: Account) -> DecisionContext | HoldDecision:
        if self.outage:
            return context.hold_until_retry(self.outage)
        try:
            plan = await self.planner.plan_order(trade_proposal(context, account))
        except ServiceUnavailableError as error:
            self.outage = f"the market cannot be read: {error}"
            return context.hold_until_retry(self.outage)
        except RequestRejectedError as error:
            return HoldDecision(why=f"not traded: {error}")
        except StoreError:
            raise
        except FoxcastError as error:
            return context.hold_until_retry(f"no plan: {describe_error_with_type(error)}", REPLAN_AFTER)
        except Exception as error:
            log.exception("planner failed", question=str(context.forecast.ref))
            return context.hold_until_retry(f"the planner failed: {type(error).__name__}", REPLAN_AFTER)
        return replace(context, plan=drop_impossible_order(plan, context.forecast.ref, account))


def decision_rule(context: DecisionContext, decide: Callable[[DecisionContext], GateDecision]) -> DecisionRule:
    """Return the rule that decides in the transaction that stores the decision, on arm record and usage as of then."""
    return lambda database: decide(
        _refresh_context(
            context,
            arm=lambda: permissions.newest_arm_record(database, context.policy.venue, context.policy.account),
            cap_usage=lambda stake: read_cap_usage(database, stake, context.now),
        )
    )


def _refresh_context(
    context: DecisionContext, *, arm: Callable[[], ArmRecord | None], cap_usage: Callable[[CapUsageScope], CapUsage]
) -> DecisionContext:
    now = replace(context, arm=arm()) if context.policy.is_live else context
    return replace(now, cap_usage=cap_usage(cap_usage_scope(now))) if needs_cap_usage(now) else now


def _is_purchase(context: DecisionContext) -> bool:
    return context.order is not None and context.order.side is OrderSide.BUY


def _proposed_stake(context: DecisionContext) -> ProposedStake:
    order, plan = context.order, context.plan
    return ProposedStake(
        name=context.forecast.id,
        stake=0.0 if order is None else order.cost,
        edge=0.0 if order is None else order.edge,
        event=exposure_groups(context.question).event,
        headrooms=tuple(list_headrooms(context)),
        min_cost=0.0 if plan is None else plan.min_cost,
    )


def trade_proposal(context: DecisionContext, account: Account) -> TradeProposal:
    """Return the proposal for the planner, within what the caps allow."""
    trading = context.policy.trading
    sizing = SizingPolicy(
        kelly_fraction=trading.kelly,
        market_shrinkage=trading.shrink,
        min_edge=trading.edge,
        price_band=trading.band,
        max_cost=min(max_order_cost(context), account.cash),
    )
    return TradeProposal(
        question=context.question,
        predictions=context.forecast.predictions,
        account=account,
        sizing=sizing,
        now=context.now,
    )


def drop_impossible_order(plan: OrderPlan, ref: QuestionRef, account: Account) -> OrderPlan:
    """Return the plan, without its order where the account could not pay for it, or does not hold what it sells."""
    if plan.order is None or (why := _account_objection(plan.order, account)) is None:
        return plan
    log.error("a planner made an impossible order", question=str(ref), why=why)
    return replace(plan, order=None, why=why)


def _account_objection(order: Order, account: Account) -> str | None:
    """Return why an account cannot make an order, or None.

    A sale has no edge, price band or cap, so selling what is not held would be a bet without any limit.
    """
    if order.currency != account.currency:
        return f"the order is in {order.currency}, and the account in {account.currency}"
    if order.side is OrderSide.BUY:
        affordable = order.cost <= account.cash + 1e-9
        return None if affordable else f"it would cost {order.cost:.2f}, and {account.cash:.2f} is free"
    held = sum(one.shares for one in account.positions if (one.contract, one.leg) == (order.contract, order.leg))
    if order.shares <= held + SHARE_TOLERANCE * max(1.0, held):
        return None
    return f"it would sell {order.shares:g} {order.leg} of {order.contract}, and {held:g} are held"
