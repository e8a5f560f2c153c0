import math
from pathlib import Path

import pytest

from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import CrowdForecast
from bot.core.submissions import ExecutionMode, HoldDecision, SendDecision
from bot.execution.gate.approval import market_divergence, missing_approval_reason, order_belief
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import KillSwitch
from tests.unit.execution.gate.decision_contexts import NOW, case, crowd, forecast, make_policy, order, question, trade

GATE = Gate(kill_switch=KillSwitch(stop_file=Path("nowhere/STOP"), ledger_file=Path("nowhere/ledger.sqlite")))


def test_too_small_an_edge_is_held() -> None:
    decision = GATE.decide(trade(bought=order(edge=0.0299)))
    assert isinstance(decision, HoldDecision)
    assert "below trading.edge = 0.03" in decision.why
    assert isinstance(GATE.decide(trade(bought=order(edge=0.03))), SendDecision)


@pytest.mark.parametrize(
    ("predicted", "bought", "edge"),
    [
        # The forecast is 60 %, and the planner bought the other side, or forgot the fees, at a claimed edge of 0.5.
        (BinaryPrediction(0.6), {"leg": ContractSide.NO}, "-0.1000"),
        (BinaryPrediction(0.6), {"fees": 1.6}, "0.0200"),
        (ChoicePrediction({"a": 0.51, "b": 0.49}), {"option": "b"}, "-0.0100"),
    ],
)
def test_the_gate_computes_the_edge_from_the_forecast_whatever_the_planner_claims(
    predicted: Prediction, bought: dict[str, object], edge: str
) -> None:
    shape = ChoiceShape(options=("a", "b")) if isinstance(predicted, ChoicePrediction) else BinaryShape()
    decision = GATE.decide(
        trade(forecast=forecast(predicted), question=question(shape=shape), bought=order(edge=0.5, **bought))
    )
    assert isinstance(decision, HoldDecision)
    assert f"the edge is {edge} by the forecast (0.5000 by the planner) a share after fees" in decision.why


def test_an_order_on_an_option_that_was_not_forecast_is_held() -> None:
    choice = forecast(ChoicePrediction({"a": 0.9, "b": 0.1}))
    asked = question(shape=ChoiceShape(options=("a", "b")))
    decision = GATE.decide(trade(forecast=choice, question=asked, bought=order(option="c", edge=0.5)))
    assert isinstance(decision, HoldDecision)
    assert "the order is on 'c', which was not forecast" in decision.why


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        (order(leg=ContractSide.NO, edge=0.5), "the edge is -0.1000 by the forecast"),
        (order(expected=0.59, limit=0.6, edge=0.5), "the edge is 0.0100 by the forecast"),
        (order(expected=0.3, limit=0.9, edge=0.3), "the limit 0.900 is above the belief 0.600"),
        (order(leg=ContractSide.NO, expected=0.3, limit=0.41), "the limit 0.410 is above the belief 0.400"),
        (order(cost=1.0, shares=2000.0), "it costs 1.00, and its shares with fees come to 1000.00"),
        (order(fees=0.5, shares=20.0), "it costs 10.00, and its shares with fees come to 10.50"),
    ],
)
def test_what_a_planner_claims_of_its_order_is_not_believed(claimed: Order, why: str) -> None:
    decision = GATE.decide(trade(bought=claimed, policy=make_policy(caps={"per_order": 50.0})))
    assert isinstance(decision, HoldDecision)
    assert why in decision.why


def test_a_cost_that_is_a_cent_off_is_rounding() -> None:
    assert isinstance(GATE.decide(trade(bought=order(cost=9.99, shares=20.0))), SendDecision)


@pytest.mark.parametrize(("expected", "limit"), [(0.02, 0.05), (0.96, 0.98), (0.98, 0.985)])
def test_prices_outside_the_band_are_left_alone(expected: float, limit: float) -> None:
    sure = forecast(BinaryPrediction(1.0))
    decision = GATE.decide(
        trade(policy=make_policy(edge=0.01), forecast=sure, bought=order(expected=expected, limit=limit))
    )
    assert isinstance(decision, HoldDecision)
    assert "outside trading.band = [0.03, 0.97]" in decision.why


def test_what_is_sold_may_have_any_price_and_no_edge() -> None:
    sale = order(side=OrderSide.SELL, cost=0.0, edge=-0.2, expected=0.01, limit=0.005)
    assert isinstance(GATE.decide(trade(bought=sale)), SendDecision)


def test_the_distance_is_that_of_log_odds() -> None:
    # The log-odds of 0.6 are ln(1.5), those of one half are none.
    assert market_divergence(case(question=question(crowd=crowd(0.5)))) == pytest.approx(0.4054651081081644)
    assert market_divergence(case()) == 0.0


def test_the_price_of_an_order_is_a_market_too() -> None:
    # NO at 0.3 is YES at 0.7: as far from 0.6 as ln(0.4/0.6) is from ln(0.3/0.7).
    assert market_divergence(trade(bought=order(leg=ContractSide.NO, expected=0.3, limit=0.32))) == pytest.approx(
        0.4418327522790392
    )


def test_of_several_options_the_furthest_counts() -> None:
    shape = ChoiceShape(options=("a", "b", "c"))
    theirs = CrowdForecast(prediction=ChoicePrediction({"a": 0.2, "b": 0.5, "c": 0.3}), at=NOW)
    ours = forecast(ChoicePrediction({"a": 0.2, "b": 0.2, "c": 0.6}))
    # ln(0.5/0.5) - ln(0.2/0.8) = 1.3863 for b, 1.2528 for c.
    assert market_divergence(case(forecast=ours, question=question(shape=shape, crowd=theirs))) == pytest.approx(
        1.3862943611
    )


@pytest.mark.parametrize(
    ("theirs", "ours", "distance"),
    [
        # One quarter became one half; the log-odds of a quarter are -ln(3).
        ((0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 0.6, 0.8, 1.0), math.log(3.0)),
        # At 0.1875 of the only step the market has a quarter, and the forecast 0.575.
        ((0.1, 0.9), (0.5, 0.9), math.log(3.0) + math.log(0.575 / 0.425)),
        # The market has no point below 0.4.
        ((0.4, 0.9), (0.2, 0.9), math.log(0.4 / 0.6) - math.log(0.2 / 0.8)),
        # Only the tails differ.
        ((0.0, 0.001, 0.25, 0.5, 0.75, 0.98, 1.0), (0.0, 0.1, 0.25, 0.5, 0.75, 0.9999, 1.0), 0.0),
    ],
)
def test_a_curve_is_as_far_as_it_is_from_the_quartiles_of_the_market(
    theirs: tuple[float, ...], ours: tuple[float, ...], distance: float
) -> None:
    grid = tuple(float(number) for number in range(len(theirs)))
    shape = CurveShape(grid=grid, open_lower=True, open_upper=True)
    market = CrowdForecast(prediction=CurvePrediction(theirs), at=NOW)
    context = case(forecast=forecast(CurvePrediction(ours)), question=question(shape=shape, crowd=market))
    assert market_divergence(context) == pytest.approx(distance)


def test_a_curve_far_from_the_market_waits_for_a_person() -> None:
    shape = CurveShape(grid=(0.0, 1.0, 2.0), open_lower=False, open_upper=False)
    market = CrowdForecast(prediction=CurvePrediction((0.0, 0.5, 1.0)), at=NOW)
    far = forecast(CurvePrediction((0.0, 0.9, 1.0)))
    context = case(
        ExecutionMode.LIVE,
        policy=make_policy(ExecutionMode.LIVE, divergence=1.5),
        forecast=far,
        question=question(shape=shape, crowd=market),
    )
    assert "2.20 from the market in log-odds" in str(missing_approval_reason(context))


def test_a_certain_belief_is_far_but_not_infinitely() -> None:
    assert (
        6.0
        < market_divergence(case(forecast=forecast(BinaryPrediction(1.0)), question=question(crowd=crowd(0.5))))
        < 7.0
    )


def test_the_belief_in_an_order_is_that_in_its_leg_and_option() -> None:
    assert order_belief(order(leg=ContractSide.NO), {"outcome": BinaryPrediction(0.6)}) == pytest.approx(0.4)
    choice = {"outcome": ChoicePrediction({"a": 0.2, "b": 0.8})}
    assert order_belief(order(option="b"), choice) == 0.8
    assert order_belief(order(option="z"), choice) is None


def test_the_lane_has_the_bounds_that_config_gives() -> None:
    strict = make_policy(edge=0.2, band=(0.4, 0.6))
    assert isinstance(GATE.decide(trade(policy=strict, bought=order(edge=0.19))), HoldDecision)
    sure = forecast(BinaryPrediction(0.8))
    bought = order(edge=0.2, expected=0.59, limit=0.6)
    assert isinstance(GATE.decide(trade(policy=strict, forecast=sure, bought=bought)), SendDecision)
