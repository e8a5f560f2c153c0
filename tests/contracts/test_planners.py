"""The kit of planners on both venues that trade, on a correct small one, and on that with the usual mistakes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from bot.api import (
    Account,
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    ContractSide,
    Order,
    OrderPlan,
    OrderPlanner,
    OrderSide,
    Prediction,
    Question,
    QuestionRef,
    ShareFees,
    SizingPolicy,
    Target,
    TradeProposal,
    shrink_to_market,
)
from bot.testing.planner_contract import OrderPlannerContract, PlanningCase
from plugins.manifold.planner import ManifoldPlanner
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import PolymarketSettings
from tests.contracts.ferry_venue import ferry_spec
from tests.contracts.test_all_venues import built_in
from tests.plugins.manifold import test_planner as manifold
from tests.plugins.manifold.api_replies import NOW as MANIFOLD_NOW
from tests.plugins.manifold.api_replies import FakeMarketReader, binary
from tests.plugins.polymarket import trading_inputs as polymarket
from tests.plugins.polymarket.records import condition
from tests.unit.testing.correct_venue import checks_of, run_check

SPECS = {spec.name: spec for spec in built_in()}
YES, NO = ContractSide.YES, ContractSide.NO
SIZING = SizingPolicy(kelly_fraction=0.5, market_shrinkage=0.0, min_edge=0.02, price_band=(0.05, 0.95), max_cost=1000.0)


class TestManifoldPlanner(OrderPlannerContract):
    spec = SPECS["manifold"]

    @pytest.fixture
    def planner(self) -> OrderPlanner:
        return ManifoldPlanner(FakeMarketReader(binary(pool={"YES": 100, "NO": 100})))

    @pytest.fixture
    def cases(self) -> Sequence[PlanningCase]:
        return [
            PlanningCase(proposal=self.proposal(belief), contract="m1", leg=leg, price=0.5) for belief, leg in BELIEFS
        ]

    @pytest.fixture
    def fair_proposal(self) -> TradeProposal:
        return self.proposal(0.5)

    def proposal(self, belief: float) -> TradeProposal:
        return TradeProposal(
            question=manifold.question(market="m1"),
            predictions={"outcome": BinaryPrediction(belief)},
            account=manifold.account(),
            sizing=SIZING,
            now=MANIFOLD_NOW,
        )


# The fewest shares that the correct planner's venue takes.
MIN_SHARES = 3.0
BELIEFS = ((0.8, YES), (0.2, NO))


class TestPolymarketPlanner(OrderPlannerContract):
    spec = SPECS["polymarket"]

    @pytest.fixture
    def planner(self) -> OrderPlanner:
        return PolymarketPlanner(PolymarketSettings(), polymarket.FakePolymarketReader.of(polymarket.a_book()))

    @pytest.fixture
    def cases(self) -> Sequence[PlanningCase]:
        # Asked is 0.57, and bid 0.55.
        prices = {YES: 0.57, NO: 0.45}
        return [
            PlanningCase(proposal=self.proposal(belief), contract=condition(1), leg=leg, price=prices[leg])
            for belief, leg in BELIEFS
        ]

    @pytest.fixture
    def fair_proposal(self) -> TradeProposal:
        return self.proposal(0.56)

    def proposal(self, belief: float) -> TradeProposal:
        return TradeProposal(
            question=polymarket.question(),
            predictions={"outcome": BinaryPrediction(belief)},
            account=polymarket.account(),
            # At most the best price of either side is taken, so that the fee is that of one price.
            sizing=replace(SIZING, max_cost=6.0),
            now=polymarket.NOW,
        )

    def fee_of(self, order: Order) -> float:
        """Rate times shares times price times (1 - price): docs/facts/polymarket.md#fees."""
        return 0.04 * order.shares * order.expected * (1 - order.expected)


# A small correct planner, and the mistakes


class FerryPlanner:
    """Buys any number of shares of each option at its price, for 2 cents a share; a class for others to break."""

    prices: ClassVar[dict[str, float]] = {"": 0.5, "Ann": 0.5, "Bob": 0.3, "Cat": 0.2}
    changes: ClassVar[dict[str, Any]] = {}
    ignores_edge: ClassVar[bool] = False
    ignores_cash: ClassVar[bool] = False
    ignores_cap: ClassVar[bool] = False
    ignores_band: ClassVar[bool] = False
    ignores_shrinkage: ClassVar[bool] = False
    min_edge: ClassVar[float | None] = None

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        sizing, offers = proposal.sizing, self.offers(proposal.predictions["outcome"])
        option, leg, belief = max(offers, key=self.gain)
        price, (low, high) = self.price(option, leg), sizing.price_band
        if not self.ignores_shrinkage:
            belief = shrink_to_market(belief, price, sizing.market_shrinkage)
        edge = self.gain((option, leg, belief))
        money = 100.0 if self.ignores_cash else self.stake(proposal, leg, belief, price + 0.02)
        most = money if self.ignores_cap else min(money, sizing.max_cost)
        least = sizing.min_edge if self.min_edge is None else self.min_edge
        is_outside = not low <= price <= high and not self.ignores_band
        if (edge < least and not self.ignores_edge) or is_outside:
            return OrderPlan(why="nothing to gain")
        shares = self.round_shares(most / (price + 0.02))
        if shares <= 0 or self.is_closed(proposal):
            return OrderPlan(why="nothing may be spent")
        cost = shares * (price + 0.02)
        order = Order(
            contract=f"ferry/{option}",
            leg=leg,
            side=OrderSide.BUY,
            shares=shares,
            limit=price,
            cost=cost,
            expected=price,
            currency="SHELL",
            option=option,
            fees=0.02 * shares,
            edge=edge,
        )
        return OrderPlan(why="cheap", order=replace(order, **self.changes_of(order)))

    def is_closed(self, proposal: TradeProposal) -> bool:
        return proposal.question.title == CLOSED

    def stake(self, proposal: TradeProposal, leg: ContractSide, belief: float, cost: float) -> float:
        account = proposal.account
        wealth = account.cash + sum(one.paid for one in account.positions)
        wanted = proposal.sizing.kelly_fraction * (belief - cost) / (1 - cost) * wealth
        return min(account.cash, wanted - sum(one.paid for one in account.positions if one.leg is leg))

    def round_shares(self, shares: float) -> float:
        whole = float(math.floor(shares))
        return whole if whole >= MIN_SHARES else 0.0

    def changes_of(self, order: Order) -> dict[str, Any]:
        return self.changes

    def offers(self, prediction: Prediction) -> list[tuple[str, ContractSide, float]]:
        if isinstance(prediction, ChoicePrediction):
            return [(option, YES, belief) for option, belief in prediction.probabilities.items()]
        assert isinstance(prediction, BinaryPrediction)
        return [("", YES, prediction.probability), ("", NO, 1 - prediction.probability)]

    def price(self, option: str, leg: ContractSide) -> float:
        return self.prices[option] if leg is YES else 1 - self.prices[option]

    def gain(self, offer: tuple[str, ContractSide, float]) -> float:
        option, leg, belief = offer
        return belief - self.price(option, leg) - 0.02


class BuysWrongLeg(FerryPlanner):
    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"leg": YES if order.leg is NO else NO}


class BuysWrongOption(FerryPlanner):
    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"option": "Cat"} if order.option else {}


class BuysWrongContract(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"contract": "ferry/other"}


class SaleForPurchase(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"side": OrderSide.SELL}


class OtherCurrency(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"currency": "DOLLAR"}


class FeeForgotten(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"fees": 0.0}


class FeeBelowSpec(FeeForgotten):
    pass


class CostWithoutFees(FerryPlanner):
    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"cost": order.shares * order.expected}


class EdgeClaimed(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"edge": 0.5}


class LimitTooLow(FerryPlanner):
    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"limit": order.expected - 0.05}


class LimitOutsideBand(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"limit": 0.99}


class CapIgnored(FerryPlanner):
    ignores_cap = True


class CashIgnored(FerryPlanner):
    ignores_cash = True


class EdgeIgnored(FerryPlanner):
    ignores_edge = True

    def stake(self, proposal: TradeProposal, leg: ContractSide, belief: float, cost: float) -> float:
        return proposal.account.cash / 10


class KellyIgnored(FerryPlanner):
    def stake(self, proposal: TradeProposal, leg: ContractSide, belief: float, cost: float) -> float:
        return proposal.account.cash / 10


class HoldingsIgnored(FerryPlanner):
    def stake(self, proposal: TradeProposal, leg: ContractSide, belief: float, cost: float) -> float:
        return super().stake(replace(proposal, account=replace(proposal.account, positions=())), leg, belief, cost)


class ShrinkageIgnored(FerryPlanner):
    ignores_shrinkage = True


class BandIgnored(FerryPlanner):
    ignores_band = True


class EdgeOfItsOwn(FerryPlanner):
    min_edge = 0.01


class FractionsOrdered(FerryPlanner):
    def round_shares(self, shares: float) -> float:
        return shares


class TickIgnored(FerryPlanner):
    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"limit": order.limit + 0.0037}


class SmallOrders(FerryPlanner):
    def round_shares(self, shares: float) -> float:
        return max(1.0, float(math.floor(shares)))


class PriceOfOtherBook(FerryPlanner):
    """Expects to buy at the bid."""

    def changes_of(self, order: Order) -> dict[str, Any]:
        return {"expected": order.expected - 0.04}


class ClosedTraded(FerryPlanner):
    def is_closed(self, proposal: TradeProposal) -> bool:
        return False


class LimitAboveBelief(FerryPlanner):
    changes: ClassVar[dict[str, Any]] = {"limit": 0.95}


SIDE = "it_buys_the_side_that_the_belief_favours"
STEPS = "prices_and_shares_are_those_that_the_venue_takes"
BOUNDS = "prices_stay_within_limit_and_band"
PLANNER_MISTAKES: list[tuple[str, Callable[[], FerryPlanner], str]] = [
    (SIDE, BuysWrongLeg, "the belief is on the side of"),
    (SIDE, BuysWrongOption, "match options by name"),
    (SIDE, BuysWrongContract, "the order is on contract"),
    (SIDE, SaleForPurchase, "it sells, but the account holds nothing"),
    (SIDE, OtherCurrency, "the order is in DOLLAR"),
    ("fees_are_those_of_the_venue", FeeForgotten, "the fee is forgotten"),
    ("the_fees_of_the_spec_are_those_of_its_orders", FeeBelowSpec, "the gate holds an order that counts less"),
    ("the_cost_includes_price_and_fees", CostWithoutFees, "add the fees"),
    ("the_edge_is_belief_less_price_and_fees", EdgeClaimed, "Order.edge is 0.5"),
    (BOUNDS, LimitTooLow, "cannot be filled"),
    (BOUNDS, LimitOutsideBand, "price_band"),
    ("the_expected_price_is_one_that_others_ask", PriceOfOtherBook, "a buyer of YES pays what others ask"),
    ("the_limit_leaves_a_gain", LimitAboveBelief, "filled at its limit, the order loses"),
    ("nothing_outside_the_band_is_bought", BandIgnored, "nothing is traded outside the band"),
    (STEPS, FractionsOrdered, "Order.shares is .* not a multiple of 1"),
    (STEPS, TickIgnored, "Order.limit is .* not a multiple of 0.01"),
    (STEPS, SmallOrders, "the venue takes at least 3 shares"),
    ("it_stakes_no_more_than_its_share_of_kelly", KellyIgnored, "SizingPolicy.kelly_fraction"),
    ("it_buys_no_more_of_what_it_holds_enough_of", HoldingsIgnored, "count Account.positions"),
    ("it_believes_the_market_as_far_as_the_policy_says", ShrinkageIgnored, "market_shrinkage is 1"),
    ("it_buys_nothing_for_less_than_the_least_edge", EdgeOfItsOwn, "SizingPolicy.min_edge is"),
    ("what_cannot_be_traded_is_not_ordered", ClosedTraded, "look at the state of the market"),
    ("no_order_costs_more_than_it_may", CapIgnored, "max_cost"),
    ("it_buys_nothing_without_cash", CashIgnored, "Account.cash is 0"),
    ("it_buys_nothing_at_a_fair_price", EdgeIgnored, "the belief is the price"),
]
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def ferry_proposal(prediction: Prediction) -> TradeProposal:
    is_choice = isinstance(prediction, ChoicePrediction)
    return TradeProposal(
        question=Question(
            ref=QuestionRef("ferry", "race"),
            title="?",
            shape=ChoiceShape(options=("Ann", "Bob", "Cat")) if is_choice else BinaryShape(),
            targets=(Target(),),
        ),
        predictions={"outcome": prediction},
        account=Account(at=MOMENT, currency="SHELL", cash=500.0),
        sizing=SIZING,
        now=MOMENT,
    )


CASES = [
    PlanningCase(proposal=ferry_proposal(BinaryPrediction(0.8)), contract="ferry/", leg=YES, price=0.5),
    PlanningCase(proposal=ferry_proposal(BinaryPrediction(0.2)), contract="ferry/", leg=NO, price=0.5),
    PlanningCase(
        proposal=ferry_proposal(ChoicePrediction({"Ann": 0.3, "Bob": 0.6, "Cat": 0.1})),
        contract="ferry/Bob",
        leg=YES,
        price=0.3,
        option="Bob",
    ),
]


CLOSED = "It has sailed."
OPEN = ferry_proposal(BinaryPrediction(0.8))
REFUSED = [replace(OPEN, question=replace(OPEN.question, title=CLOSED))]


class FerryKit(OrderPlannerContract):
    spec = replace(ferry_spec(), fees=lambda _question, _order: ShareFees(formula=lambda _price: Decimal("0.02")))
    tick, lot, min_shares = 0.01, 1.0, MIN_SHARES

    def fee_of(self, order: Order) -> float:
        return 0.02 * order.shares


@pytest.mark.parametrize("check", checks_of(OrderPlannerContract))
async def test_a_correct_planner_passes(check: str) -> None:
    fair = ferry_proposal(BinaryPrediction(0.5))
    await run_check(
        FerryKit(), check, planner=FerryPlanner(), cases=CASES, fair_proposal=fair, refused_proposals=REFUSED
    )


@pytest.mark.parametrize(
    ("check", "fault", "words"), PLANNER_MISTAKES, ids=[str(fault.__name__) for _, fault, _ in PLANNER_MISTAKES]
)
async def test_a_mistake_in_a_planner_is_named(check: str, fault: Callable[[], FerryPlanner], words: str) -> None:
    fair = ferry_proposal(BinaryPrediction(0.5))
    with pytest.raises(AssertionError, match=words):
        await run_check(FerryKit(), check, planner=fault(), cases=CASES, fair_proposal=fair, refused_proposals=REFUSED)
