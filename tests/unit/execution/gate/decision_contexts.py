"""Cases for the tests of the gate, each as it would leave but for what a test changes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.config.venue_schema import CapsSection, TradingSection
from bot.core.forecasts import Forecast
from bot.core.interfaces import FeeSchedule
from bot.core.orders import ContractSide, Order, OrderPlan, OrderSide
from bot.core.permissions import ArmRecord
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.gate.execution_policy import ExecutionPolicy

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = QuestionRef("lantern", "1")
DIGEST = "the configuration"


def make_policy(
    mode: ExecutionMode = ExecutionMode.PAPER,
    *,
    caps: Mapping[str, Any] | None = None,
    fees: FeeSchedule | None = None,
    **trading: Any,
) -> ExecutionPolicy:
    return ExecutionPolicy(
        venue="lantern",
        mode=mode,
        primary_forecaster="first",
        account="me",
        caps=CapsSection(**(caps or {})),
        trading=TradingSection(**trading),
        config_digest=DIGEST,
        fees=None if fees is None else lambda _question, _order: fees,
    )


def arm(**changes: Any) -> ArmRecord:
    given: dict[str, Any] = {
        "id": "arm 1",
        "venue": "lantern",
        "account": "me",
        "config": DIGEST,
        "by": "ann",
        "armed_at": NOW - timedelta(hours=1),
        "until": NOW + timedelta(hours=1),
        "per_order": 50.0,
        "per_day": 100.0,
        "total": 200.0,
    }
    return ArmRecord(**(given | changes))


def order(**changes: Any) -> Order:
    given: dict[str, Any] = {
        "contract": "rain",
        "leg": ContractSide.YES,
        "side": OrderSide.BUY,
        "limit": 0.52,
        "cost": 10.0,
        "expected": 0.5,
        "currency": "M$",
        "edge": 0.1,
    } | changes
    # As many shares as its cost pays for; 20 where it names no cost, as a sale.
    return Order(**{"shares": (given["cost"] or 10.0) / given["expected"]} | given)


def forecast(prediction: Prediction | None = None) -> Forecast:
    predictions = {"outcome": prediction or BinaryPrediction(0.6)}
    return Forecast(
        id="f1",
        ref=REF,
        version="v1",
        forecaster="first",
        revision=1,
        cutoff=NOW,
        made_at=NOW,
        why="new question",
        raw=predictions,
        predictions=predictions,
    )


def question(**changes: Any) -> Question:
    given: dict[str, Any] = {"ref": REF, "title": "Will it rain?", "shape": BinaryShape(), "targets": (Target(),)}
    return Question(**(given | changes))


def crowd(probability: float) -> CrowdForecast:
    return CrowdForecast(prediction=BinaryPrediction(probability), at=NOW)


def case(mode: ExecutionMode = ExecutionMode.PAPER, **changes: Any) -> DecisionContext:
    given: dict[str, Any] = {
        "policy": make_policy(mode),
        "forecast": forecast(),
        "question": question(),
        "current_intent": None,
        "lock_reason": None,
        "now": NOW,
        "arm": arm() if mode in {ExecutionMode.APPROVE, ExecutionMode.LIVE} else None,
    }
    return DecisionContext(**(given | changes))


def trade(mode: ExecutionMode = ExecutionMode.PAPER, *, bought: Order | None = None, **changes: Any) -> DecisionContext:
    """Return the case of an order."""
    given: dict[str, Any] = {
        "takes_orders": True,
        "plan": OrderPlan(why="a good price", order=bought or order(), market_state='{"p":0.5}'),
    }
    return replace(case(mode), **(given | changes))
