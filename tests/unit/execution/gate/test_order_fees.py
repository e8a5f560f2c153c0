"""The fees of the venue's own schedule, against published fills, and orders that count less."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from bot.core.errors import RequestRejectedError
from bot.core.orders import Order, OrderSide
from bot.core.questions import Question
from bot.core.submissions import HoldDecision, SendDecision
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.order_fees import VenueFees, venue_fees
from bot.execution.order_book import ShareFees
from tests.unit.execution.gate.decision_contexts import make_policy, order, question, trade

GATE = Gate(kill_switch=KillSwitch(stop_file=Path("nowhere/STOP"), ledger_file=Path("nowhere/ledger.sqlite")))
# docs/facts/kalshi.md#fees
QUADRATIC = ShareFees(formula=lambda price: Decimal("0.07") * price * (1 - price), step=Decimal("0.0001"))
SELL = OrderSide.SELL


def fees_of(bought: Order, fees: ShareFees = QUADRATIC) -> VenueFees:
    found = venue_fees(make_policy(fees=fees), question=question(), order=bought)
    assert isinstance(found, VenueFees)
    return found


@pytest.mark.parametrize(
    ("shares", "value", "limit", "published"),
    [
        # A walk of the levels .57, .58, .60 and .99, each with the fee on it: docs/facts/kalshi.md#books.
        (12.0, 6.84, 0.57, 0.2059),
        (20.0, 11.48, 0.58, 0.3424),
        (100.0, 59.04, 0.60, 1.6919),
        (200.0, 141.66, 0.99, 2.4377),
    ],
)
def test_the_fees_of_published_walks_are_within_what_the_gate_computes(
    shares: float, value: float, limit: float, published: float
) -> None:
    least, usual = fees_of(order(shares=shares, expected=value / shares, limit=limit, cost=value))
    assert least <= published <= usual + 0.0003  # three levels, each rounded up


def test_the_bounds_are_one_where_the_fee_is_a_share_of_the_price_or_the_same_for_all() -> None:
    for formula in (lambda price: price / 50, lambda _price: Decimal("0.01")):
        for side in OrderSide:
            least, usual = fees_of(order(side=side, shares=20.0, limit=0.5), ShareFees(formula=formula))
            assert least == pytest.approx(usual) == pytest.approx(0.2)


def test_a_sale_has_the_fees_of_prices_at_and_above_its_limit() -> None:
    least, usual = fees_of(order(side=SELL, shares=100.0, expected=0.5, limit=0.4, cost=0.0))
    assert usual == pytest.approx(1.75)
    assert least == pytest.approx(100 * 0.07 * 0.4 * 0.6 * 5 / 6)


@pytest.mark.parametrize("side", OrderSide)
def test_an_order_that_counts_lower_fees_than_the_venue_takes_is_held(side: OrderSide) -> None:
    policy = make_policy(fees=QUADRATIC)
    cost = 10.0 if side is OrderSide.BUY else 0.0
    decision = GATE.decide(trade(policy=policy, bought=order(side=side, shares=20.0, cost=cost, fees=0.0)))
    assert isinstance(decision, HoldDecision)
    assert decision.why.startswith("the planner counts 0.0000 of fees, and lantern takes at least 0.")
    cost = 10.35 if side is OrderSide.BUY else 0.0
    assert isinstance(
        GATE.decide(trade(policy=policy, bought=order(side=side, shares=20.0, cost=cost, fees=0.35))), SendDecision
    )


def test_the_edge_is_what_the_fees_of_the_venue_leave_of_it() -> None:
    # 0.60 - 0.55 - 0.0173 is 0.0327; a claim of 0.0155 a share is allowed for a walk that begins far below the limit.
    policy = make_policy(fees=QUADRATIC, edge=0.034)
    decision = GATE.decide(trade(policy=policy, bought=order(expected=0.55, limit=0.6, fees=0.29, cost=10.3)))
    assert isinstance(decision, HoldDecision)
    assert "the edge is 0.0327 by the forecast (0.1000 by the planner)" in decision.why


def test_an_order_whose_fees_cannot_be_computed_is_held_and_says_why() -> None:
    def unknown(asked: Question, _order: Order) -> ShareFees:
        message = f"{asked.ref}: its fees were unknown"
        raise RequestRejectedError(message)

    decision = GATE.decide(trade(policy=replace(make_policy(), fees=unknown)))
    assert isinstance(decision, HoldDecision)
    assert (
        decision.why == "the fees of lantern cannot be computed: RequestRejectedError: lantern:1: its fees were unknown"
    )


def test_only_the_engine_says_that_an_order_closes_a_position() -> None:
    decision = GATE.decide(trade(bought=order(side=SELL, cost=0.0, closing="no rules for me")))
    assert isinstance(decision, HoldDecision)
    assert "the planner says that its order closes a position" in decision.why
