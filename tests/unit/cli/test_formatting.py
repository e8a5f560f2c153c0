"""Numbers and moments as people read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.output.formatting import (
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
)
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, VoidOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction


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
