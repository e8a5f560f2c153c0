"""Cases for the tests of the gate, each as it would leave but for what a test changes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.config.venue_schema import CapsSection, TradingSection
from bot.domain.forecast import Forecast
from bot.domain.order import Leg, Order, Plan, Side
from bot.domain.permission import Arm
from bot.domain.prediction import Binary, BinaryShape, Prediction
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.submission import Mode
from bot.gate.case import Case, Lane

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = QuestionRef("lantern", "1")
DIGEST = "the configuration"


def lane(mode: Mode = Mode.PAPER, *, caps: Mapping[str, Any] | None = None, **trading: Any) -> Lane:
    return Lane(
        venue="lantern",
        mode=mode,
        primary="first",
        account="me",
        caps=CapsSection(**(caps or {})),
        trading=TradingSection(**trading),
        digest=DIGEST,
    )


def arm(**changes: Any) -> Arm:
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
    return Arm(**(given | changes))


def order(**changes: Any) -> Order:
    given: dict[str, Any] = {
        "contract": "rain",
        "leg": Leg.YES,
        "side": Side.BUY,
        "shares": 20.0,
        "limit": 0.52,
        "cost": 10.0,
        "expected": 0.5,
        "currency": "M$",
        "edge": 0.1,
    }
    return Order(**(given | changes))


def forecast(prediction: Prediction | None = None) -> Forecast:
    predictions = {"outcome": prediction or Binary(0.6)}
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


def crowd(probability: float) -> Crowd:
    return Crowd(prediction=Binary(probability), at=NOW)


def case(mode: Mode = Mode.PAPER, **changes: Any) -> Case:
    given: dict[str, Any] = {
        "lane": lane(mode),
        "forecast": forecast(),
        "question": question(),
        "standing": None,
        "locked": None,
        "now": NOW,
        "arm": arm() if mode in {Mode.APPROVE, Mode.LIVE} else None,
    }
    return Case(**(given | changes))


def trade(mode: Mode = Mode.PAPER, *, bought: Order | None = None, **changes: Any) -> Case:
    """Return the case of an order."""
    given: dict[str, Any] = {
        "trades": True,
        "plan": Plan(why="a good price", order=bought or order(), state='{"p":0.5}'),
    }
    return replace(case(mode), **(given | changes))
