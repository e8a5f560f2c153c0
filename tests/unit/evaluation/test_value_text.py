"""Numbers, times and predictions as text, and options in the order of their question."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.orders import ContractSide, Fill, Order, OrderSide
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, VoidOutcome
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape, CurvePrediction
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState
from bot.evaluation.value_text import (
    describe_changes,
    describe_prediction,
    describe_prediction_short,
    format_age,
    format_bytes,
    format_day,
    format_minute,
    format_outcome,
    format_percent,
    format_prediction,
    format_predictions,
    format_predictions_short,
    format_usd,
    order_options,
)
from bot.store.intents import IntentRow
from bot.store.serialization import PREDICTIONS
from bot.store.submission_queries import OrderRow
from tests.unit.store.conftest import NOON


@pytest.mark.parametrize(
    ("probability", "shown"),
    [(0.5, "50.0%"), (0.0, "0.00%"), (0.0004, "0.04%"), (0.9996, "99.96%"), (1.0, "100.00%"), (None, "-")],
)
def test_a_probability_keeps_the_digits_that_matter_near_the_ends(probability: float | None, shown: str) -> None:
    assert format_percent(probability) == shown


@given(st.floats(0.0, 1.0))
def test_a_shown_probability_is_the_probability(probability: float) -> None:
    assert float(format_percent(probability).rstrip("%")) / 100 == pytest.approx(probability, abs=0.0005 + 1e-12)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3_600, "1 h ago"),
        (86_400 * 3, "3 d ago"),
        (-5, "in the future"),
    ],
)
def test_a_span_is_told_by_its_largest_unit(seconds: int, shown: str) -> None:
    assert format_age(timedelta(seconds=seconds)) == shown


def test_a_moment_is_told_in_utc() -> None:
    evening = datetime(2026, 4, 26, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert (format_minute(evening), format_day(evening)) == ("2026-04-27 04:30", "2026-04-27")
    assert (format_minute(None), format_day(None)) == ("-", "-")
    assert format_minute(datetime(2026, 4, 26, tzinfo=UTC)) == "2026-04-26 00:00"


@pytest.mark.parametrize(
    ("happened", "shown"),
    [
        (BinaryOutcome(1.0), "yes"),
        (BinaryOutcome(0.0), "no"),
        (BinaryOutcome(0.25), "25.0%"),
        (ChoiceOutcome("Ada"), "Ada"),
        (NumericOutcome(12.5), "12.5"),
        (VoidOutcome("withdrawn"), "void (withdrawn)"),
        (None, "-"),
    ],
)
def test_an_outcome_is_told_in_a_few_words(happened: Outcome | None, shown: str) -> None:
    assert format_outcome(happened) == shown


def test_a_choice_begins_with_the_likeliest_and_a_curve_tells_its_size() -> None:
    assert format_prediction(ChoicePrediction({"a": 0.25, "b": 0.75})) == "b 75.0%, a 25.0%"
    assert (
        format_prediction(ChoicePrediction({"a": 0.1, "b": 0.4, "c": 0.3, "d": 0.2})) == "b 40.0%, c 30.0%, d 20.0%, …"
    )
    assert format_prediction(CurvePrediction((0.0, 0.5, 1.0))) == "CDF of 3 points"
    assert format_prediction(None) == "-"


def test_the_targets_of_a_question_are_told_each_or_together() -> None:
    rising = {"may": BinaryPrediction(0.4), "june": BinaryPrediction(0.6)}
    assert format_predictions(rising) == "may 40.0%, june 60.0%"
    assert format_predictions_short(rising) == "40.0% to 60.0% (2 targets)"
    assert format_predictions_short(dict.fromkeys(rising, BinaryPrediction(0.4))) == "40.0% (2 targets)"
    assert format_predictions_short({"outcome": BinaryPrediction(0.4)}) == "40.0%"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0.0, "0.00"), (20.0, "20.00"), (1234.5, "1,234.50"), (0.1, "0.10"), (0.05, "0.0500"), (3.6e-5, "3.6e-05")],
)
def test_money_has_cents_and_where_it_is_little_more_digits(amount: float, shown: str) -> None:
    assert format_usd(amount) == shown


def test_bytes_are_told_in_a_unit_that_fits() -> None:
    assert (format_bytes(1_500_000), format_bytes(2_500_000_000)) == ("1.5 MB", "2.5 GB")


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
        stake=amount,
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
