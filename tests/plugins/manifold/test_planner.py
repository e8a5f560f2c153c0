"""From a belief to one order: which answer, which leg, how much, to which limit, and why not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bot.api import (
    Account,
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    ContractSide,
    CurvePrediction,
    CurveShape,
    OpenOrder,
    Order,
    OrderPlan,
    OrderSide,
    Position,
    Prediction,
    Question,
    QuestionRef,
    QuestionShape,
    RequestRejectedError,
    ServiceUnavailableError,
    SizingPolicy,
    Target,
    TradeProposal,
)
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.planner import ManifoldPlanner
from tests.plugins.manifold.api_replies import NOW, FakeMarketReader, answer, at, binary, choice, limit_bet, numeric

EAGER = SizingPolicy(kelly_fraction=1.0, market_shrinkage=0.0, min_edge=0.0, price_band=(0.01, 0.99), max_cost=1e9)


def sizing(**changes: Any) -> SizingPolicy:
    return replace(EAGER, **changes)


def account(cash: float = 500.0, positions: Sequence[Position] = (), orders: Sequence[OpenOrder] = ()) -> Account:
    return Account(at=NOW, currency="MANA", cash=cash, positions=tuple(positions), orders=tuple(orders))


def question(shape: QuestionShape | None = None, market: str = "", **facts: str) -> Question:
    return Question(
        ref=QuestionRef("manifold", "q"),
        title="?",
        shape=shape or BinaryShape(),
        targets=(Target(),),
        market=market,
        facts=facts,
    )


async def plan(
    venue: FakeMarketReader,
    prediction: Prediction,
    *,
    shape: QuestionShape | None = None,
    facts: dict[str, str] | None = None,
    **wishes: Any,
) -> OrderPlan:
    asked = question(shape, **(facts if facts is not None else {"market": str(venue.full_market["id"])}))
    proposal = TradeProposal(
        question=asked,
        predictions={"outcome": prediction},
        account=wishes.get("account", account()),
        sizing=wishes.get("appetite", EAGER),
        now=NOW,
    )
    return await ManifoldPlanner(venue).plan_order(proposal)


def order_of(found: OrderPlan) -> Order:
    assert found.order is not None, found.why
    return found.order


def resting(leg: ContractSide, contract: str = "m1") -> OpenOrder:
    return OpenOrder(id=f"own-{leg}", contract=contract, leg=leg, side=OrderSide.BUY, limit=0.5, shares=9, reserves=4.0)


async def test_the_documents_first_case_becomes_its_order() -> None:
    # v090: pool 100/100, belief 0.7, cash 500: 42.04 mana; and 0.67 is the limit of docs/facts/manifold.md#vectors.
    venue = FakeMarketReader(binary(pool={"YES": 100, "NO": 100}))
    found = await plan(venue, BinaryPrediction(0.7))
    order = order_of(found)
    assert order.terms == {
        "market": "m1",
        "answer": "",
        "limit_prob": "0.67",
        "type": "BINARY",
    }
    assert (order.stake, order.cancels) == (42.04, ())
    assert (order.contract, order.leg, order.side, order.currency) == ("m1", ContractSide.YES, OrderSide.BUY, "MANA")
    assert (order.cost, order.limit, order.fees) == (42.04, 0.67, 0.0)
    assert order.shares == pytest.approx(71.6447, abs=0.01)
    assert order.expected == pytest.approx(42.04 / 71.6447, abs=1e-4)
    assert order.edge == pytest.approx(0.7 - order.expected)
    assert found.why == "42.04 on yes at 0.587, P(YES) to 0.67, edge 0.113 per share"


async def test_the_state_on_which_it_was_planned_is_kept() -> None:
    found = await plan(FakeMarketReader(binary(), [limit_bet("o", "NO", 0.6)]), BinaryPrediction(0.7))
    assert ManifoldMarketState.from_json(found.market_state).orders[0].id == "o"


async def test_a_no_order_speaks_of_its_own_leg_and_of_p_yes_to_the_venue() -> None:
    order = order_of(await plan(FakeMarketReader(binary()), BinaryPrediction(0.3), account=account(1e9)))
    assert order.leg is ContractSide.NO
    assert order.terms["limit_prob"] == "0.30"
    assert order.limit == 0.7
    assert 0.5 < order.expected < 0.7
    assert order.edge == pytest.approx(0.7 - order.expected)


@pytest.mark.parametrize("belief", [0.57, 0.5699, 0.621, 0.43, 0.4301])
async def test_no_fill_is_beyond_the_belief(belief: float) -> None:
    venue = FakeMarketReader(
        binary(), [limit_bet("a", "NO", 0.56), limit_bet("b", "YES", 0.44)], {"owner-a": 99, "owner-b": 99}
    )
    found = await plan(venue, BinaryPrediction(belief), account=account(1e6))
    order = order_of(found)
    board = ManifoldMarketState.from_json(found.market_state).simulated_market()
    amount, limit = float(order.stake or 0), float(str(order.terms["limit_prob"]))
    trade = board.simulate_trade("", PoolTakerOrder(leg=order.leg, stake=amount, limit=limit))
    assert limit <= belief if order.leg is ContractSide.YES else limit >= belief
    assert trade.stake == pytest.approx(amount)
    assert trade.shares == pytest.approx(order.shares)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"appetite": sizing(min_edge=0.2)}, "within 0.2"),
        ({"appetite": sizing(price_band=(0.51, 0.97))}, "outside the band"),
        ({"appetite": sizing(max_cost=0.5)}, "less than the minimum bet"),
        ({"account": account(0.99)}, "0.99 may be spent, less than the minimum bet"),
        ({"account": account(-5.0)}, "0.00 may be spent, less than the minimum bet"),
        ({"account": account(2.0)}, "less than the minimum bet"),
        ({"account": account(orders=[resting(ContractSide.YES)])}, "already rests: own-yes"),
    ],
)
async def test_a_normal_no_says_why(wishes: dict[str, Any], why: str) -> None:
    found = await plan(FakeMarketReader(binary()), BinaryPrediction(0.6), **wishes)
    assert found.order is None
    assert why in found.why
    assert found.market_state


@pytest.mark.parametrize("market", [binary(isResolved=True), binary(closeTime=at(NOW) - 1)])
async def test_nothing_is_ordered_on_a_market_that_is_over(market: dict[str, Any]) -> None:
    found = await plan(FakeMarketReader(market), BinaryPrediction(0.9))
    assert found.order is None
    assert found.why in {"the market is resolved", "the market is closed"}


async def test_a_pool_that_the_bet_would_drain_is_left_alone() -> None:
    # With a weight of 0.1 the price is 0.97 only when nearly all YES is gone.
    thin = binary(pool={"YES": 5, "NO": 1}, p=0.1)
    found = await plan(FakeMarketReader(thin), BinaryPrediction(0.97), account=account(1e6))
    assert found.order is None
    assert found.why == "the pool is too small"


async def test_a_belief_without_a_whole_percent_of_room_is_left_alone() -> None:
    found = await plan(FakeMarketReader(binary()), BinaryPrediction(0.509))
    assert found.order is None
    assert "no limit fits" in found.why
    fine = numeric(pool={"YES": 1000, "NO": 1000})
    shape = CurveShape(grid=(0.0, 50.9, 100.0))
    # All mass at 50.9 would be a step; half on each side of it has that mean: 0.5 * 25.45 + 0.5 * 75.45 = 50.45.
    order = order_of(
        await plan(FakeMarketReader(fine), CurvePrediction((0.0, 0.5, 1.0)), shape=shape, account=account(1e6))
    )
    assert order.terms["limit_prob"] == "0.504"


async def test_what_is_held_is_enough_when_planned_again() -> None:
    policy = sizing(kelly_fraction=0.25, min_edge=0.01)
    deep = FakeMarketReader(binary(pool={"YES": 1e7, "NO": 1e7}))
    first = order_of(await plan(deep, BinaryPrediction(0.7), appetite=policy))
    held = Position(contract="m1", leg=ContractSide.YES, shares=first.shares, paid=first.cost)
    found = await plan(deep, BinaryPrediction(0.7), appetite=policy, account=account(500.0 - first.cost, [held]))
    assert found.order is None
    assert "enough" in found.why or "minimum bet" in found.why


async def test_a_position_is_never_reduced_against_the_belief() -> None:
    # v097: by Kelly alone 30.4 NO; but each of those would lose by the belief.
    held = Position(contract="m1", leg=ContractSide.YES, shares=400, paid=200)
    venue = FakeMarketReader(binary(pool={"YES": 100, "NO": 100}))
    found = await plan(venue, BinaryPrediction(0.6), account=account(200, [held]))
    assert found.order is None
    assert "the held shares are enough" in found.why


async def test_own_orders_are_not_met_and_opposite_ones_are_named_to_be_cancelled() -> None:
    mine = OpenOrder(
        id="mine", contract="m1", leg=ContractSide.NO, side=OrderSide.BUY, limit=0.49, shares=200, reserves=90
    )
    venue = FakeMarketReader(binary(), [limit_bet("mine", "NO", 0.51)], {"owner-mine": 1e6})
    elsewhere = replace(mine, id="elsewhere", contract="m9")
    found = await plan(venue, BinaryPrediction(0.7), account=account(500, orders=[mine, elsewhere]))
    assert order_of(found).cancels == ("mine",)
    assert ManifoldMarketState.from_json(found.market_state).orders == ()


async def test_caps_and_cash_bound_the_stake() -> None:
    assert (
        order_of(await plan(FakeMarketReader(binary()), BinaryPrediction(0.9), appetite=sizing(max_cost=17.123))).cost
        == 17.12
    )
    assert order_of(await plan(FakeMarketReader(binary()), BinaryPrediction(0.95), account=account(20.0))).cost <= 20.0


async def test_the_least_bet_and_the_ends_of_the_band_are_allowed() -> None:
    """A bet is at least one mana (docs/facts/manifold.md#writing), and the market stands at one half."""
    venue = FakeMarketReader(binary())
    found = await plan(venue, BinaryPrediction(0.9), appetite=sizing(max_cost=1.0))
    order = order_of(found)
    assert (order.stake, order.cost, found.min_cost) == (1.0, 1.0, 1.0)
    for band in ((0.1, 0.5), (0.5, 0.9)):
        for belief in (0.4, 0.6):
            order_of(await plan(venue, BinaryPrediction(belief), appetite=sizing(price_band=band)))
    for band in ((0.1, 0.499), (0.501, 0.9)):
        assert (await plan(venue, BinaryPrediction(0.6), appetite=sizing(price_band=band))).order is None


async def test_a_stake_is_cut_to_where_a_share_still_gains_the_least_edge() -> None:
    order = order_of(
        await plan(
            FakeMarketReader(binary()), BinaryPrediction(0.6), appetite=sizing(min_edge=0.08), account=account(1e6)
        )
    )
    assert order.edge == pytest.approx(0.08, abs=1e-4)
    assert order.edge >= 0.08


async def test_a_shrunk_belief_is_the_bound() -> None:
    order = order_of(
        await plan(
            FakeMarketReader(binary()),
            BinaryPrediction(0.8),
            appetite=sizing(market_shrinkage=0.5),
            account=account(1e6),
        )
    )
    assert order.terms["limit_prob"] == "0.66"  # odds 4 and 1: log-odds in the middle are odds of 2


THREE = ChoiceShape(options=("Option a", "Option b", "Option c"))


async def test_a_choice_is_bet_on_the_answer_with_the_best_edge() -> None:
    venue = FakeMarketReader(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    belief = ChoicePrediction({"Option a": 0.45, "Option b": 0.2, "Option c": 0.35})
    order = order_of(await plan(venue, belief, shape=THREE, account=account(600)))
    assert (order.contract, order.option, order.leg) == ("m2/c", "Option c", ContractSide.YES)
    assert (order.terms["market"], order.terms["answer"]) == ("m2", "c")
    assert order.expected < 0.35


async def test_the_next_answer_is_taken_where_the_best_may_not_be_traded() -> None:
    venue = FakeMarketReader(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    belief = ChoicePrediction({"Option a": 0.45, "Option b": 0.2, "Option c": 0.35})
    order = order_of(await plan(venue, belief, shape=THREE, appetite=sizing(price_band=(0.25, 0.75))))
    assert (order.contract, order.leg) == ("m2/b", ContractSide.NO)
    # One that should be sold and may not, because an own order says so already, takes the turn of no other.
    held = Position(contract="m2/b", leg=ContractSide.YES, shares=50, paid=10)
    has = account(orders=[resting(ContractSide.NO, "m2/b")], positions=[held])
    order = order_of(
        await plan(venue, belief, shape=THREE, account=has, appetite=sizing(price_band=(0.25, 0.75), min_edge=0.01))
    )
    assert (order.contract, order.leg) == ("m2/a", ContractSide.NO)


async def test_answers_that_changed_since_are_not_bet_on() -> None:
    venue = FakeMarketReader(choice(answer("a", 0.5), answer("b", 0.3), answer("d", 0.2)))
    found = await plan(venue, ChoicePrediction({"Option a": 0.4, "Option b": 0.2, "Option c": 0.4}), shape=THREE)
    assert found.why == "the answers have changed since the forecast"


async def test_an_independent_answer_is_bet_on_alone() -> None:
    venue = FakeMarketReader(choice(answer("a", 0.6), answer("b", 0.6), linked=False))
    facts = {"market": "m2", "answer": "b"}
    found = await plan(venue, BinaryPrediction(0.8), facts=facts)
    order = order_of(found)
    assert (order.contract, order.option, order.terms["answer"]) == ("m2/b", "", "b")
    board = ManifoldMarketState.from_json(found.market_state).simulated_market()
    after = board.after_trade(board.simulate_trade("b", PoolTakerOrder(leg=ContractSide.YES, stake=order.cost)))
    assert after.probability("a") == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([answer("a", 0.6), answer("b", 0.6, resolution="NO")], "the answer is resolved"),
        ([answer("a", 0.6)], "the market no longer has this answer"),
    ],
)
async def test_an_answer_that_is_over_is_left_alone(answers: list[dict[str, Any]], why: str) -> None:
    venue = FakeMarketReader(choice(*answers, linked=False))
    assert (await plan(venue, BinaryPrediction(0.9), facts={"market": "m2", "answer": "b"})).why == why


async def test_a_number_is_bet_by_its_mean() -> None:
    shape = CurveShape(grid=(0.0, 60.0, 80.0, 100.0))
    # All mass evenly between 60 and 80: the mean is 70, the price that says so 0.7.
    found = await plan(
        FakeMarketReader(numeric()), CurvePrediction((0.0, 0.0, 1.0, 1.0)), shape=shape, account=account(1e9)
    )
    assert order_of(found).leg is ContractSide.YES
    assert order_of(found).terms["limit_prob"] == "0.700"


@pytest.mark.parametrize(
    ("market", "prediction", "facts"),
    [
        (binary(), BinaryPrediction(0.7), {}),
        (binary(), BinaryPrediction(0.7), {"market": "another"}),
        (binary(outcomeType="STONK"), BinaryPrediction(0.7), {"market": "m1"}),
        (binary(outcomeType="WHO_KNOWS"), BinaryPrediction(0.7), {"market": "m1"}),
        (binary(pool=None), BinaryPrediction(0.7), {"market": "m1"}),
        (numeric(min=None), CurvePrediction((0.0, 1.0)), {"market": "m1"}),
        (binary(), CurvePrediction((0.0, 1.0)), {"market": "m1"}),
    ],
)
async def test_what_is_not_traded_is_rejected(
    market: dict[str, Any], prediction: Prediction, facts: dict[str, str]
) -> None:
    shape = CurveShape(grid=(0.0, 1.0)) if isinstance(prediction, CurvePrediction) else BinaryShape()
    with pytest.raises(RequestRejectedError):
        await plan(FakeMarketReader(market), prediction, shape=shape, facts=facts)


async def test_a_market_that_cannot_be_read_is_unavailable() -> None:
    class Silent(FakeMarketReader):
        async def orders(self, market_id: str) -> Sequence[dict[str, Any]]:
            message = "no answer"
            raise ServiceUnavailableError(message)

    with pytest.raises(ServiceUnavailableError):
        await plan(Silent(binary()), BinaryPrediction(0.7))
