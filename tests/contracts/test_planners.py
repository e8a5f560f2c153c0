"""The kit of planners on both venues that trade, on a correct small one, and on that with the usual mistakes."""

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
        return [PlanningCase(proposal=self.proposal(belief), contract="m1", leg=leg) for belief, leg in BELIEFS]

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


BELIEFS = ((0.8, YES), (0.2, NO))


class TestPolymarketPlanner(OrderPlannerContract):
    spec = SPECS["polymarket"]

    @pytest.fixture
    def planner(self) -> OrderPlanner:
        return PolymarketPlanner(PolymarketSettings(), polymarket.FakePolymarketReader.of(polymarket.a_book()))

    @pytest.fixture
    def cases(self) -> Sequence[PlanningCase]:
        return [PlanningCase(proposal=self.proposal(belief), contract=condition(1), leg=leg) for belief, leg in BELIEFS]

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
    """Sells as many shares as wanted of each option at its price, for 2 cents a share; a class for others to break."""

    prices: ClassVar[dict[str, float]] = {"": 0.5, "Ann": 0.5, "Bob": 0.3, "Cat": 0.2}
    changes: ClassVar[dict[str, Any]] = {}
    ignores_edge: ClassVar[bool] = False
    ignores_cash: ClassVar[bool] = False
    ignores_cap: ClassVar[bool] = False

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        option, leg, belief = max(self.offers(proposal.predictions["outcome"]), key=self.gain)
        price, edge = self.price(option, leg), self.gain((option, leg, belief))
        money = 100.0 if self.ignores_cash else proposal.account.cash / 10
        cost = money if self.ignores_cap else min(money, proposal.sizing.max_cost)
        if cost <= 0 or (edge < proposal.sizing.min_edge and not self.ignores_edge):
            return OrderPlan(why="nothing to gain")
        shares = cost / (price + 0.02)
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


SIDE = "it_buys_the_side_that_the_belief_favours"
BOUNDS = "prices_stay_within_limit_and_band"
PLANNER_MISTAKES: list[tuple[str, Callable[[], FerryPlanner], str]] = [
    (SIDE, BuysWrongLeg, "the belief is on the side of"),
    (SIDE, BuysWrongOption, "match options by name"),
    (SIDE, BuysWrongContract, "the order is on contract"),
    (SIDE, SaleForPurchase, "it sells, but the account holds nothing"),
    (SIDE, OtherCurrency, "the order is in DOLLAR"),
    ("fees_are_those_of_the_venue", FeeForgotten, "is the fee forgotten"),
    ("the_fees_of_the_spec_are_those_of_its_orders", FeeBelowSpec, "the gate holds an order that counts less"),
    ("the_cost_includes_price_and_fees", CostWithoutFees, "add the fees"),
    ("the_edge_is_belief_less_price_and_fees", EdgeClaimed, "Order.edge is 0.5"),
    (BOUNDS, LimitTooLow, "cannot be filled"),
    (BOUNDS, LimitOutsideBand, "price_band"),
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
    PlanningCase(proposal=ferry_proposal(BinaryPrediction(0.8)), contract="ferry/", leg=YES),
    PlanningCase(proposal=ferry_proposal(BinaryPrediction(0.2)), contract="ferry/", leg=NO),
    PlanningCase(
        proposal=ferry_proposal(ChoicePrediction({"Ann": 0.3, "Bob": 0.6, "Cat": 0.1})),
        contract="ferry/Bob",
        leg=YES,
        option="Bob",
    ),
]


class FerryKit(OrderPlannerContract):
    spec = replace(ferry_spec(), fees=lambda _question, _order: ShareFees(formula=lambda _price: Decimal("0.02")))

    def fee_of(self, order: Order) -> float:
        return 0.02 * order.shares


@pytest.mark.parametrize("check", checks_of(OrderPlannerContract))
async def test_a_correct_planner_passes(check: str) -> None:
    fair = ferry_proposal(BinaryPrediction(0.5))
    await run_check(FerryKit(), check, planner=FerryPlanner(), cases=CASES, fair_proposal=fair)


@pytest.mark.parametrize(
    ("check", "fault", "words"), PLANNER_MISTAKES, ids=[str(fault.__name__) for _, fault, _ in PLANNER_MISTAKES]
)
async def test_a_mistake_in_a_planner_is_named(check: str, fault: Callable[[], FerryPlanner], words: str) -> None:
    fair = ferry_proposal(BinaryPrediction(0.5))
    with pytest.raises(AssertionError, match=words):
        await run_check(FerryKit(), check, planner=fault(), cases=CASES, fair_proposal=fair)
