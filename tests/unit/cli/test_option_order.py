"""Options in the order of their question in all that is told of it, and orders that are whole."""

from datetime import timedelta

import pytest

from bot.cli.output.formatting import describe_changes, describe_prediction, describe_prediction_short, order_options
from bot.core.orders import ContractSide, Fill, Order, OrderSide
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState
from bot.store.intents import IntentRow
from bot.store.serialization import PREDICTIONS
from bot.store.submission_queries import OrderRow
from tests.unit.store.conftest import NOON

SHAPE = ChoiceShape(options=("red", "green", "blue", "amber"))
SAID = {"red": 0.1, "green": 0.2, "blue": 0.3, "amber": 0.4}


def as_stored(probabilities: dict[str, float]) -> ChoicePrediction:
    """Return a choice as it comes from the ledger."""
    found = PREDICTIONS.decode(PREDICTIONS.encode({"outcome": ChoicePrediction(probabilities)}))["outcome"]
    assert isinstance(found, ChoicePrediction)
    return found


def test_the_ledger_keeps_options_by_the_alphabet() -> None:
    assert list(as_stored(SAID).probabilities) == ["amber", "blue", "green", "red"]


def test_words_have_the_order_of_the_question() -> None:
    said = as_stored(SAID)
    assert describe_prediction(said, SHAPE) == "red 10.0%, green 20.0%, blue 30.0%, amber 40.0%"
    # The likeliest, in the order of the question.
    assert describe_prediction_short(said, SHAPE) == "green 20.0%, blue 30.0%, amber 40.0%, …"
    few = ChoiceShape(options=("red", "amber"))
    assert describe_prediction_short(as_stored({"red": 0.4, "amber": 0.6}), few) == "red 40.0%, amber 60.0%"
    assert describe_changes(None, {"outcome": said}, SHAPE) == [describe_prediction(said, SHAPE)]


def test_options_that_the_question_does_not_have_any_more_come_last() -> None:
    gone = as_stored({"gone": 0.5, "red": 0.2, "blue": 0.3})
    assert describe_prediction(gone, SHAPE) == "red 20.0%, blue 30.0%, gone 50.0%"


def test_json_has_that_order_however_deep_a_choice_stands() -> None:
    plain = {"trials": [{"belief": {"predictions": PREDICTIONS.plain({"outcome": as_stored(SAID)})}}], "other": 1}
    told = order_options(plain, SHAPE)
    assert told == plain
    choice = told["trials"][0]["belief"]["predictions"]["outcome"]
    assert list(choice["probabilities"]) == list(SHAPE.options)
    assert order_options(PREDICTIONS.plain({"outcome": BinaryPrediction(0.3)}), BinaryShape()) == {
        "outcome": {"kind": "binary", "probability": 0.3}
    }


def order_row(
    filled: float, paid: float, *, side: OrderSide = OrderSide.BUY, fee: float = 0.0, amount: float | None
) -> OrderRow:
    """Return an order for 20 shares at 0.5, of which so many were traded."""
    order = Order(
        contract="m1",
        leg=ContractSide.YES,
        side=side,
        shares=20.0,
        limit=0.5,
        cost=10.0,
        expected=0.5,
        currency="MANA",
        terms={} if amount is None else {"amount": amount},
    )
    intent = Intent(
        id="i1",
        account="default",
        ref=QuestionRef("lantern", "rain"),
        forecast="f1",
        action=IntentAction.ORDER,
        batch="i1",
        predictions={"outcome": BinaryPrediction(0.7)},
        order=order,
    )
    row = IntentRow(
        intent=intent, state=IntentState.ACKED, mode=ExecutionMode.PAPER, detail="", planned_at=NOON, changed_at=NOON
    )
    fill = Fill(reference="a", at=NOON + timedelta(seconds=1), shares=filled, price=0.4, cash=-paid, fee=fee)
    return OrderRow(row=row, title="Rain?", decision_reason="", attempts=(), fills=(fill,))


@pytest.mark.parametrize(
    ("row", "whole"),
    [
        # For a stake: what was spent of it counts, not the shares, of which better prices bring more.
        (order_row(21.0, 8.4, amount=10.0), False),
        (order_row(25.0, 10.0, amount=10.0), True),
        (order_row(24.0, 10.0, fee=0.4, amount=10.0), False),
        # For shares: either.
        (order_row(20.0, 8.0, amount=None), True),
        (order_row(19.0, 10.0, amount=None), True),
        (order_row(19.0, 7.6, amount=None), False),
        # A sale has no stake.
        (order_row(20.0, -8.0, side=OrderSide.SELL, amount=10.0), True),
        (order_row(19.0, -7.6, side=OrderSide.SELL, amount=10.0), False),
    ],
)
def test_an_order_is_whole_once_its_stake_or_its_shares_are_used_up(row: OrderRow, *, whole: bool) -> None:
    assert row.is_filled is whole
