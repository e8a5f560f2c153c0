"""Whatever the market looks like, an order keeps every bound, and nothing else happens than an order or a reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import (
    Account,
    ChoicePrediction,
    ChoiceShape,
    ContractSide,
    OpenOrder,
    OrderSide,
    Position,
    Question,
    QuestionRef,
    SizingPolicy,
    Target,
    TradeProposal,
)
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.planner import plan_on_state
from tests.plugins.manifold.api_replies import NOW, choice, limit_bet

LEGS = st.sampled_from(list(ContractSide))
SIDES = st.one_of(st.floats(0.02, 10.0), st.floats(10.0, 1e5))
NAMES = "abcd"


@st.composite
def markets(draw: st.DrawFn) -> ManifoldMarketState:
    """Any pools, and any orders, also such as could not rest there."""
    names = NAMES[: draw(st.integers(2, 4))]
    linked = draw(st.booleans())
    weights = [draw(st.floats(0.02, 1.0)) for _ in names]
    answers = []
    for n, name in enumerate(names):
        odds = sum(weights) / weights[n] - 1.0
        depth = draw(SIDES)
        pool = {"YES": depth * odds**0.5, "NO": depth * odds**-0.5} if linked else {"YES": depth, "NO": draw(SIDES)}
        answers.append({"id": name, "index": n, "text": name, "pool": pool})
    bets = [
        limit_bet(
            str(n),
            draw(st.sampled_from(["YES", "NO"])),
            draw(st.integers(1, 99)) / 100,
            answerId=draw(st.sampled_from(names)),
            orderAmount=draw(st.floats(0.0, 1e4)),
            userId=draw(st.sampled_from(["u", "v"])),
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    state = ManifoldMarketState.from_api(choice(*answers, linked=linked), bets, read_at=NOW)
    return state.with_balances({"u": draw(st.floats(-10.0, 1e4))})


APPETITES = st.builds(
    SizingPolicy,
    kelly_fraction=st.floats(0.0, 1.0),
    market_shrinkage=st.floats(0.0, 1.0),
    min_edge=st.floats(0.0, 0.3),
    price_band=st.just((0.03, 0.97)),
    max_cost=st.one_of(st.just(float("inf")), st.floats(0.0, 100.0)),
)


@st.composite
def wishes(draw: st.DrawFn, names: tuple[str, ...]) -> TradeProposal:
    weights = [draw(st.floats(0.0, 1.0)) + 1e-9 for _ in names]
    total = sum(weights)
    held = [
        Position(contract=f"m2/{draw(st.sampled_from(names))}", leg=draw(LEGS), shares=draw(st.floats(0, 500)), paid=1)
        for _ in range(draw(st.integers(0, 2)))
    ]
    mine = [
        OpenOrder(id="mine", contract="m2/a", leg=draw(LEGS), side=OrderSide.BUY, limit=0.5, shares=2, reserves=1)
        for _ in range(draw(st.integers(0, 1)))
    ]
    return TradeProposal(
        question=Question(
            ref=QuestionRef("manifold", "m2"),
            title="?",
            shape=ChoiceShape(options=names),
            targets=(Target(),),
            market="m2",
        ),
        predictions={"outcome": ChoicePrediction({n: w / total for n, w in zip(names, weights, strict=True)})},
        account=Account(
            at=NOW, currency="MANA", cash=draw(st.floats(0.0, 1e4)), positions=tuple(held), orders=tuple(mine)
        ),
        sizing=draw(APPETITES),
        now=NOW,
    )


@given(data=st.data(), state=markets())
def test_an_order_keeps_every_bound(data: st.DataObject, state: ManifoldMarketState) -> None:
    proposal: TradeProposal = data.draw(wishes(tuple(state.answers_by_option)))
    plan = plan_on_state(proposal, state)
    assert plan.why
    assert ManifoldMarketState.from_json(plan.market_state) == state
    if plan.order is None:
        return
    order, sizing = plan.order, proposal.sizing
    assert 1.0 <= order.cost <= min(sizing.max_cost, proposal.account.cash) * (1.0 + 1e-12)
    # Edge and expected price are of the average share, which the limit is no better than.
    assert order.edge >= sizing.min_edge - 1e-6
    assert order.expected <= order.limit + 1e-6
    terms: dict[str, Any] = dict(order.terms)
    percent = float(terms["limit_prob"]) * 100
    assert percent == pytest.approx(round(percent), abs=1e-9)
    board = state.simulated_market(now=NOW)
    trade = board.simulate_trade(
        terms["answer"], PoolTakerOrder(leg=order.leg, stake=order.stake or 0.0, limit=float(terms["limit_prob"]))
    )
    assert trade.shares == pytest.approx(order.shares)
    assert not trade.drains_pool
    assert "mine" not in {o.id for o in state.orders}
