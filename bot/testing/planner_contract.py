"""Contract kit for planners that turn beliefs into purchases: which side, how much, at which price, with which fees."""

# ruff: noqa: S101 - pytest is made of assert
import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from bot.core.errors import NotFoundError, RequestRejectedError
from bot.core.interfaces import OrderPlanner
from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Order, OrderSide, Position, TradeProposal
from bot.core.plugin_specs import VenueSpec
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.submissions import ExecutionMode
from bot.execution.gate.approval import forecast_edge
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.order_fees import FEE_TOLERANCE, venue_fees
from bot.testing.mistake_hints import explain_number

CENT = 0.01
EDGE_TOLERANCE = 0.001
STEP_TOLERANCE = 1e-6
BAND_MARGIN = 0.01
UNLIMITED = 1e9
KELLY_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningCase:
    """A proposal whose belief is far from the market, and what must be bought under it.

    ``price`` is the best price of that leg for a buyer: what others ask for it, and for NO on a book of YES, 1 less
    what they bid for YES.
    """

    proposal: TradeProposal
    contract: str
    leg: ContractSide
    price: float
    option: str = ""


class OrderPlannerContract:
    """What every planner must do.

    The subclass gives the fixtures ``planner``, ``cases`` (at least one for each side, on an account without positions)
    and ``fair_proposal`` (the belief is the price of the market), and ``refused_proposals``, on which there is no order
    whatever the belief: a market that is closed, or whose spread is too wide. ``fee_of`` returns what the venue takes
    for an order, in its currency, by the venue's own documentation. ``tick`` is the step of prices, ``lot`` that of
    shares, ``min_shares`` and ``min_cost`` are the least that an order may be; 0 where the venue has none.
    """

    spec: ClassVar[VenueSpec[Any]]
    tick: ClassVar[float] = 0.0
    lot: ClassVar[float] = 0.0
    min_shares: ClassVar[float] = 0.0
    min_cost: ClassVar[float] = 0.0

    @pytest.fixture
    def planner(self) -> OrderPlanner:
        raise NotImplementedError

    @pytest.fixture
    def cases(self) -> Sequence[PlanningCase]:
        raise NotImplementedError

    @pytest.fixture
    def fair_proposal(self) -> TradeProposal:
        raise NotImplementedError

    @pytest.fixture
    def refused_proposals(self) -> Sequence[TradeProposal]:
        return []

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
            causes = {
                "the fee is forgotten": 0.0,
                "that is the fee of one share": wanted / order.shares,
                "it is counted twice": 2 * wanted,
                "it is in cents": wanted * 100,
                "look at its unit: is it a percent, or a share of 1?": wanted / 100,
            }
            what, hint = (
                f"{_name(case)}: Order.fees",
                "look at its rate, and at what it is a share of; it is of all shares",
            )
            assert math.isclose(order.fees, wanted, abs_tol=CENT), explain_number(
                what, order.fees, wanted, causes, hint
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

    async def test_the_expected_price_is_one_that_others_ask(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            order = await _plan(planner, case.proposal)
            assert order.expected >= case.price - EDGE_TOLERANCE, (
                f"{_name(case)}: it expects to buy {order.leg} at {order.expected:g}, but nobody asks less than "
                f"{case.price:g}: a buyer of YES pays what others ask, a buyer of NO 1 less what they bid for YES"
            )

    async def test_the_limit_leaves_a_gain(self, planner: OrderPlanner, cases: Sequence[PlanningCase]) -> None:
        for case in cases:
            order, belief = await _plan(planner, case.proposal), _belief_of(case)
            assert order.limit < belief, (
                f"{_name(case)}: the limit {order.limit:g} is not below {belief:g}, which a share of {order.leg} is "
                "worth by the belief: filled at its limit, the order loses"
            )

    async def test_nothing_outside_the_band_is_bought(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            high = case.price - 2 * BAND_MARGIN
            order = await _plan_with(planner, case, price_band=(min(BAND_MARGIN, high / 2), high))
            assert order is None or order.limit <= high + EDGE_TOLERANCE, (
                f"{_name(case)}: it buys with a limit of {order.limit:g}, though SizingPolicy.price_band ends at "
                f"{high:g}: nothing is traded outside the band"
            )

    async def test_prices_and_shares_are_those_that_the_venue_takes(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            whole = (await _plan(planner, case.proposal)).cost
            for most in (whole, whole / 3, whole / 7, whole / 50, CENT):
                order = await _plan_with(planner, case, max_cost=most)
                if order is None:
                    continue
                name = f"{_name(case)}, for at most {most:g}"
                for what, value, step in (("limit", order.limit, self.tick), ("shares", order.shares, self.lot)):
                    assert _is_multiple(value, step), (
                        f"{name}: Order.{what} is {value:g}, not a multiple of {step:g}: the venue refuses it"
                    )
                is_too_small = order.shares < self.min_shares - CENT or order.cost < self.min_cost - CENT
                assert not is_too_small, (
                    f"{name}: it orders {order.shares:g} shares for {order.cost:g}, but the venue takes at least "
                    f"{self.min_shares:g} shares and {self.min_cost:g}: plan no order, and say why"
                )

    async def test_it_stakes_no_more_than_its_share_of_kelly(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            for fraction in (case.proposal.sizing.kelly_fraction, case.proposal.sizing.kelly_fraction / 10):
                order = await _plan_with(planner, case, max_cost=UNLIMITED, kelly_fraction=fraction)
                most = math.inf if order is None else _kelly_stake(case, order, fraction)
                assert order is None or order.cost <= most * (1 + KELLY_TOLERANCE) + CENT, (
                    f"{_name(case)}: it stakes {order.cost:g}, but SizingPolicy.kelly_fraction {fraction:g} of "
                    f"{case.proposal.account.cash:g} is at most {most:g}: the full stake is (belief - cost) / "
                    "(1 - cost) of the account, where cost is price and fee of a share"
                )

    async def test_it_buys_no_more_of_what_it_holds_enough_of(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            asked = await _plan(planner, case.proposal)
            cost = asked.expected + asked.fees / asked.shares
            shares = 2 * _kelly_stake(case, asked, 1.0) / cost
            held = Position(
                contract=case.contract,
                leg=case.leg,
                shares=shares,
                paid=shares * cost,
                ref=case.proposal.question.ref,
                option=case.option,
                mark=asked.expected,
            )
            account = replace(case.proposal.account, positions=(held,))
            order = (await planner.plan_order(replace(case.proposal, account=account))).order
            assert order is None or order.side is OrderSide.SELL, (
                f"{_name(case)}: it buys {order.shares:g} shares of {order.leg}, though {shares:g} are held, twice "
                "what full Kelly wants: count Account.positions, else every round buys the same again"
            )

    async def test_it_believes_the_market_as_far_as_the_policy_says(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            order = await _plan_with(planner, case, market_shrinkage=1.0)
            assert order is None, (
                f"{_name(case)}: SizingPolicy.market_shrinkage is 1, so the belief is the price and nothing is gained, "
                f"but it buys for {order.cost:g}: use shrink_to_market of bot.api"
            )

    async def test_it_buys_nothing_for_less_than_the_least_edge(
        self, planner: OrderPlanner, cases: Sequence[PlanningCase]
    ) -> None:
        for case in cases:
            least = _belief_of(case) - case.price + EDGE_TOLERANCE
            order = await _plan_with(planner, case, min_edge=least)
            assert order is None, (
                f"{_name(case)}: it buys with an edge of {order.edge:g}, but SizingPolicy.min_edge is {least:g}"
            )

    async def test_what_cannot_be_traded_is_not_ordered(
        self, planner: OrderPlanner, refused_proposals: Sequence[TradeProposal]
    ) -> None:
        for proposal in refused_proposals:
            order = None
            with contextlib.suppress(RequestRejectedError, NotFoundError):
                order = (await planner.plan_order(proposal)).order
            assert order is None, (
                f"{proposal.question.ref}: it is among `refused_proposals`, but the planner buys {order.leg} at "
                f"{order.expected:g}: look at the state of the market (ContractMarket.objection), and the spread"
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


def _name(case: PlanningCase) -> str:
    return str(case.proposal.question.ref)


def _belief_of(case: PlanningCase) -> float:
    """Return what a share is worth that must be bought."""
    match case.proposal.predictions[case.proposal.question.targets[0].key]:
        case BinaryPrediction(probability=belief):
            pass
        case ChoicePrediction(probabilities=beliefs):
            belief = beliefs[case.option]
        case _:
            pytest.fail(f"{_name(case)}: give cases of yes or no, or of a choice")
    return belief if case.leg is ContractSide.YES else 1.0 - belief


def _kelly_stake(case: PlanningCase, order: Order, fraction: float) -> float:
    """Return the stake by Kelly (1956) at the expected price, which is no more than at the prices of a whole book."""
    cost = order.expected + order.fees / order.shares
    return fraction * max(0.0, _belief_of(case) - cost) / (1.0 - cost) * case.proposal.account.cash


def _is_multiple(value: float, step: float) -> bool:
    return not step or math.isclose(value, round(value / step) * step, abs_tol=STEP_TOLERANCE)


async def _plan_with(planner: OrderPlanner, case: PlanningCase, **changes: Any) -> Order | None:  # noqa: ANN401 - fields of SizingPolicy
    sizing = replace(case.proposal.sizing, **changes)
    return (await planner.plan_order(replace(case.proposal, sizing=sizing))).order


async def _plan(planner: OrderPlanner, proposal: TradeProposal) -> Order:
    plan = await planner.plan_order(proposal)
    assert plan.order is not None, (
        f"{proposal.question.ref}: no order, though the belief is far from the market: {plan.why}. Look at the "
        "prices of the book (unit, side, bids and asks), its steps and sizes, and the fees"
    )
    return plan.order
