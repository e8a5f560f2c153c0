import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    is_same_prediction,
    prediction_mismatch,
)


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
def test_a_probability_outside_the_unit_interval_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        BinaryPrediction(value)


@given(st.floats(0.0, 1.0))
def test_every_probability_in_the_unit_interval_is_kept_as_given(value: float) -> None:
    assert BinaryPrediction(value).probability == value


@pytest.mark.parametrize("options", [{"a": 0.5, "b": 0.4}, {"a": 1.2, "b": -0.2}, {}])
def test_a_choice_that_is_no_distribution_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="probabilit"):
        ChoicePrediction(options)


def test_a_choice_cannot_be_changed_after_it_was_checked() -> None:
    given_options = {"a": 0.5, "b": 0.5}
    choice = ChoicePrediction(given_options)
    given_options["a"] = 0.9
    assert dict(choice.probabilities) == {"a": 0.5, "b": 0.5}
    with pytest.raises(TypeError):
        choice.probabilities["a"] = 0.9  # type: ignore[index]


def test_a_falling_cdf_is_refused() -> None:
    with pytest.raises(ValueError, match="never decreases"):
        CurvePrediction((0.0, 0.6, 0.5, 1.0))


@pytest.mark.parametrize("grid", [(1.0,), (1.0, 1.0), (2.0, 1.0), (0.0, math.nan), (0.0, math.inf)])
def test_a_grid_that_does_not_increase_is_refused(grid: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="increasing"):
        CurveShape(grid=grid)


def test_a_prediction_answers_its_own_shape_alone() -> None:
    binary, choice, curve = BinaryPrediction(0.5), ChoicePrediction({"a": 0.5, "b": 0.5}), CurvePrediction((0.0, 1.0))
    shapes = BinaryShape(), ChoiceShape(options=("a", "b")), CurveShape(grid=(0.0, 1.0))
    answered = [
        [prediction_mismatch(prediction, shape) is None for shape in shapes] for prediction in (binary, choice, curve)
    ]
    assert answered == [[True, False, False], [False, True, False], [False, False, True]]


def test_a_choice_over_other_options_does_not_answer() -> None:
    why = prediction_mismatch(ChoicePrediction({"a": 0.5, "c": 0.5}), ChoiceShape(options=("a", "b")))
    assert why == "options ['a', 'c'] are not ['a', 'b']"


@pytest.mark.parametrize(
    ("cdf", "shape", "why"),
    [
        ((0.1, 1.0), CurveShape(grid=(0.0, 1.0)), "lower bound is closed"),
        ((0.0, 0.9), CurveShape(grid=(0.0, 1.0)), "upper bound is closed"),
        ((0.0, 0.5, 1.0), CurveShape(grid=(0.0, 1.0)), "3 points, the grid 2"),
    ],
)
def test_a_curve_must_fit_grid_and_bounds(cdf: tuple[float, ...], shape: CurveShape, why: str) -> None:
    assert why in str(prediction_mismatch(CurvePrediction(cdf), shape))


def test_an_open_bound_may_keep_probability_beyond_the_grid() -> None:
    shape = CurveShape(grid=(0.0, 1.0), open_lower=True, open_upper=True)
    assert prediction_mismatch(CurvePrediction((0.1, 0.9)), shape) is None


@pytest.mark.parametrize("options", [(), ("a",), ("a", "b", "a")])
def test_a_choice_needs_two_options_and_no_option_twice(options: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="two or more different options"):
        ChoiceShape(options=options)


YES, OAK, CURVE = BinaryPrediction(0.6), ChoicePrediction({"oak": 0.6, "elm": 0.4}), CurvePrediction((0.2, 0.8))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (YES, BinaryPrediction(0.6 + 1e-12), True),
        (YES, BinaryPrediction(0.601), False),
        (OAK, ChoicePrediction({"elm": 0.4 - 1e-12, "oak": 0.6 + 1e-12}), True),
        (OAK, ChoicePrediction({"oak": 0.4, "elm": 0.6}), False),
        (OAK, ChoicePrediction({"oak": 0.6, "ash": 0.4}), False),
        (CURVE, CurvePrediction((0.2, 0.8 - 1e-12)), True),
        (CURVE, CurvePrediction((0.2, 0.9)), False),
        (CURVE, CurvePrediction((0.2, 0.8, 0.8)), False),
        (YES, CURVE, False),
    ],
)
def test_predictions_are_the_same_but_for_rounding(one: Prediction, other: Prediction, *, is_same: bool) -> None:
    assert is_same_prediction(one, other) is is_same
