"""Contract kit for planners that turn beliefs into purchases: which side, how much, at which price, with which fees."""

# ruff: noqa: S101 - pytest is made of assert
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from bot.core.interfaces import OrderPlanner
from bot.core.orders import ContractSide, Order, OrderSide, TradeProposal
from bot.core.plugin_specs import VenueSpec
from bot.core.submissions import ExecutionMode
from bot.execution.gate.approval import forecast_edge
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.order_fees import FEE_TOLERANCE, venue_fees

CENT = 0.01
EDGE_TOLERANCE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningCase:
    """A proposal whose belief is far from the market, and what must be bought under it."""

    proposal: TradeProposal
    contract: str
    leg: ContractSide
    option: str = ""


class OrderPlannerContract:
    """What every planner must do.

    The subclass gives the fixtures ``planner``, ``cases`` (at least one for each side, on an account without positions)
    and ``fair_proposal`` (the belief is the price of the market), and says in ``fee_of`` what the venue takes for an
    order, in its currency, by the venue's own documentation.
    """

    spec: ClassVar[VenueSpec[Any]]

    @pytest.fixture
    def planner(self) -> OrderPlanner:
        raise NotImplementedError

    @pytest.fixture
    def cases(self) -> Sequence[PlanningCase]:
        raise NotImplementedError

    @pytest.fixture
    def fair_proposal(self) -> TradeProposal:
        raise NotImplementedError

    def fee_of(self, order: Order) -> float:
        """Return the fee of the whole order."""
        return 0.0

    async def test_it_buys_the_side_that_the_belief_favours(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        assert {case.leg for case in cases} == set(ContractSide), "give at least one case for YES and one for NO"
        for case in cases:
            order, name = await _plan(planner, case.proposal), case.proposal.question.ref
            assert order.side is OrderSide.BUY, f"{name}: it sells, but the account holds nothing"
            assert order.leg is case.leg, (
                f"{name}: it buys {order.leg}, but the belief is on the side of {case.leg}: compare the belief with "
                "the price of YES, and 1 - belief with that of NO"
            )
            assert order.option == case.option, (
                f"{name}: it buys option {order.option!r}, but the belief favours {case.option!r}: match options by "
                "name, not by place"
            )
            assert order.contract == case.contract, (
                f"{name}: the order is on contract {order.contract!r}, expected {case.contract!r}"
            )
            assert order.currency == case.proposal.account.currency, (
                f"{name}: the order is in {order.currency}, but the account in {case.proposal.account.currency}"
            )

    async def test_fees_are_those_of_the_venue(self, planner: OrderPlanner, cases: Sequence[PlanningCase]) -> None:
        for case in cases:
            order = await _plan(planner, case.proposal)
            wanted = self.fee_of(order)
            assert math.isclose(order.fees, wanted, abs_tol=CENT), (
                f"{case.proposal.question.ref}: Order.fees is {order.fees:g} for the whole order, but the venue takes "
                f"{wanted:g}: is the fee forgotten, or that of a share?"
            )

    async def test_the_fees_of_the_spec_are_those_of_its_orders(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        policy = ExecutionPolicy(
            venue=self.spec.name, mode=ExecutionMode.PAPER, primary_forecaster="", account="", fees=self.spec.fees
        )
        for case in cases:
            order, question = await _plan(planner, case.proposal), case.proposal.question
            charged = venue_fees(policy, question=question, order=order)
            assert not isinstance(charged, str), (
                f"{question.ref}: VenueSpec.fees failed, so no order is ever sent: {charged}"
            )
            assert charged.least - FEE_TOLERANCE <= order.fees <= charged.usual + CENT, (
                f"{question.ref}: Order.fees is {order.fees:g}, but VenueSpec.fees gives {charged.usual:g}: the gate "
                "holds an order that counts less"
            )

    async def test_the_cost_includes_price_and_fees(self, planner: OrderPlanner, cases: Sequence[PlanningCase]) -> None:
        for case in cases:
            order = await _plan(planner, case.proposal)
            least = order.shares * order.expected + order.fees
            assert order.cost >= least - CENT, (
                f"{case.proposal.question.ref}: Order.cost is {order.cost:g}, but {order.shares:g} shares at "
                f"{order.expected:g} and fees of {order.fees:g} cost {least:g}: caps count the cost, so add the fees"
            )

    async def test_the_edge_is_belief_less_price_and_fees(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            order = await _plan(planner, case.proposal)
            wanted = forecast_edge(order, case.proposal.predictions)
            assert wanted is None or math.isclose(order.edge, wanted, abs_tol=EDGE_TOLERANCE), (
                f"{case.proposal.question.ref}: Order.edge is {order.edge:g}, but the belief less price and fees of a "
                f"share is {wanted:g}: the gate computes it too, and holds the order"
            )

    async def test_prices_stay_within_limit_and_band(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            order, (low, high) = await _plan(planner, case.proposal), case.proposal.sizing.price_band
            assert order.expected <= order.limit + EDGE_TOLERANCE, (
                f"{case.proposal.question.ref}: the limit {order.limit:g} is below the expected price "
                f"{order.expected:g}, so the order cannot be filled: round the limit of a purchase up"
            )
            assert low <= order.limit <= high, (
                f"{case.proposal.question.ref}: the limit {order.limit:g} is outside SizingPolicy.price_band"
            )

    async def test_no_order_costs_more_than_it_may(self, planner: OrderPlanner, cases: Sequence[PlanningCase]) -> None:
        for case in cases:
            whole = await _plan(planner, case.proposal)
            most = whole.cost / 2
            small = replace(case.proposal, sizing=replace(case.proposal.sizing, max_cost=most))
            order = (await planner.plan_order(small)).order
            assert order is None or order.cost <= most + CENT, (
                f"{case.proposal.question.ref}: the order costs {order.cost:g}, but SizingPolicy.max_cost is {most:g}"
            )

    async def test_it_buys_nothing_without_cash(self, planner: OrderPlanner, cases: Sequence[PlanningCase]) -> None:
        for case in cases:
            poor = replace(case.proposal, account=replace(case.proposal.account, cash=0.0))
            order = (await planner.plan_order(poor)).order
            assert order is None, f"{case.proposal.question.ref}: it buys for {order.cost:g}, but Account.cash is 0"

    async def test_it_buys_nothing_at_a_fair_price(self, planner: OrderPlanner, fair_proposal: TradeProposal) -> None:
        plan = await planner.plan_order(fair_proposal)
        assert plan.order is None, (
            f"it buys at {plan.order.expected:g}, though the belief is the price: require SizingPolicy.min_edge after "
            "fees, and nothing to gain is no order"
        )
        assert plan.why.strip(), "OrderPlan.why is empty: say why there is no order"


async def _plan(planner: OrderPlanner, proposal: TradeProposal) -> Order:
    plan = await planner.plan_order(proposal)
    assert plan.order is not None, (
        f"{proposal.question.ref}: no order, though the belief is far from the market: {plan.why}"
    )
    return plan.order
