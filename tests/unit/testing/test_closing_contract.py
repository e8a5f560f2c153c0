"""The kit for planners that sell positions is mutated before it is trusted: each break fails its named check."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from bot.core.interfaces import ClosingPlanner
from bot.core.orders import Account, ClosingProposal, ContractSide, Order, OrderPlan, OrderSide, Position, TradeProposal
from bot.testing.venue_contracts import ClosingPlannerContract
from tests.unit.testing.correct_venue import Failure, checks_of, question, run_check

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WISH = ClosingProposal(
    question=question(0),
    position=Position(contract="lamp", leg=ContractSide.NO, shares=40.0, paid=28.0),
    account=Account(at=NOON, cash=100.0, currency="MANA"),
    now=NOON,
)


class PlannerWithoutSales:
    """A planner that buys and cannot sell on demand."""

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        return OrderPlan(why=f"nothing to gain on {proposal.question.ref}")


class SellingPlanner(PlannerWithoutSales):
    """Sound: sells the whole position at what the market takes; a class for others to break."""

    changes: ClassVar[Mapping[str, object]] = {}

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        held = proposal.position
        order = Order(
            contract=held.contract,
            leg=held.leg,
            side=OrderSide.SELL,
            shares=held.shares,
            limit=0.6,
            expected=0.65,
            cost=0.0,
            currency=proposal.account.currency,
        )
        return OrderPlan(why="sold on demand", order=replace(order, **self.changes))  # type: ignore[arg-type]  # its fields


class PlanningNothing(SellingPlanner):
    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        return OrderPlan(why=f"no buyer for {proposal.position.contract}")


class SellingOtherContract(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"contract": "other"}


class SellingOtherLeg(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"leg": ContractSide.YES}


class BuyingInstead(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"side": OrderSide.BUY}


class SellingTooMuch(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"shares": 41.0}


class SellingOneLot(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"shares": 40.0}


class PayingToSell(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"cost": 1.0}


class AskingTooMuch(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"limit": 0.7}


class SellingForOtherMoney(SellingPlanner):
    changes: ClassVar[Mapping[str, object]] = {"currency": "USD"}


class SellingByCash(SellingPlanner):
    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        plan = await super().plan_closing(proposal)
        return plan if proposal.account.cash else OrderPlan(why="no cash")


class SellingLessWhenPoor(SellingPlanner):
    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        plan = await super().plan_closing(proposal)
        assert plan.order is not None
        return plan if proposal.account.cash else replace(plan, order=replace(plan.order, shares=plan.order.shares / 2))


class SellingWholesOnly(SellingPlanner):
    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        plan = await super().plan_closing(proposal)
        return plan if proposal.position.shares >= WISH.position.shares else OrderPlan(why="too small")


CLOSING_MUTANTS: Sequence[tuple[str, type[PlannerWithoutSales]]] = [
    ("it_says_that_it_can", PlannerWithoutSales),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", PlanningNothing),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", SellingOtherContract),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", SellingOtherLeg),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", BuyingInstead),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", SellingTooMuch),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", PayingToSell),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", AskingTooMuch),
    ("no_more_than_the_position_is_sold_and_nothing_is_paid", SellingForOtherMoney),
    ("it_needs_no_cash", SellingByCash),
    ("it_needs_no_cash", SellingLessWhenPoor),
    ("half_of_it_can_be_sold", SellingWholesOnly),
    ("half_of_it_can_be_sold", SellingOneLot),
]


async def run_closing(name: str, planner: object) -> None:
    await run_check(ClosingPlannerContract(), name, planner=planner, proposal=WISH)


@pytest.mark.parametrize("name", checks_of(ClosingPlannerContract))
async def test_a_sound_planner_passes(name: str) -> None:
    planner: ClosingPlanner = SellingPlanner()
    await run_closing(name, planner)


@pytest.mark.parametrize(("name", "mutant"), CLOSING_MUTANTS)
async def test_a_broken_planner_is_found(name: str, mutant: type[PlannerWithoutSales]) -> None:
    with pytest.raises(Failure):
        await run_closing(name, mutant())
