"""Computed lengths, by the rules of CSS Values and Units Module Level 4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.html.css_values import angles_deg, evaluate_maths, font_size_px, lengths_px, split_outside_brackets


@pytest.mark.parametrize(
    ("value", "px"),
    [
        ("calc(1px + 2px * 3)", 7.0),
        ("calc((1px + 2px) * 3)", 9.0),
        ("calc(1in / 2)", 48.0),
        ("min(0px, 1em)", 0.0),
        ("max(1px, 2rem)", 32.0),
        ("clamp(1px, 5px, 3px)", 3.0),
        ("clamp(4px, 5px, 3px)", 4.0),
        ("calc(-100vw - 20px)", -1300.0),
        ("calc(min(1px, 2px) - -3px)", 4.0),
        ("-webkit-calc(1e1px)", 10.0),
    ],
)
def test_a_computation_comes_out_in_pixels(value: str, px: float) -> None:
    assert lengths_px(evaluate_maths(value)) == [pytest.approx(px)]


def test_shares_of_the_size_of_type_are_taken_of_what_is_inherited() -> None:
    assert font_size_px("calc(50% + 1em)", 10.0) == pytest.approx(15.0)
    assert font_size_px("2em", 10.0) == pytest.approx(20.0)
    assert font_size_px("2rem", 10.0) == pytest.approx(32.0)


def test_what_cannot_be_computed_stays() -> None:
    assert evaluate_maths("calc(1px + odd) rgb(1 2 3) calc(1 / 0)") == "calc(1px + odd) rgb(1 2 3) calc(1 / 0)"


def test_angles_come_in_degrees() -> None:
    assert angles_deg("0.25turn 100grad 90deg") == [pytest.approx(90.0)] * 3


def test_marks_within_brackets_part_nothing() -> None:
    assert split_outside_brackets("a(b,c),d[e,f],g", ",") == ["a(b,c)", "d[e,f]", "g"]


@given(st.text(max_size=80) | st.text("calcminmax()+-*/ 019.e%px", max_size=80))
def test_no_value_is_beyond_measuring(value: str) -> None:
    assert all(isinstance(px, float) for px in lengths_px(evaluate_maths(value)))
