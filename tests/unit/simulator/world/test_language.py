"""The simulated language: what is said is heard as it was meant, and nothing else is heard."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.clock import SeededRandom
from bot.simulator.world.news_language import GRADES, STRENGTHS, find_claims, find_figures, word_figure, word_strength

STREAM = SeededRandom(1).stream("test")


@given(st.floats(-50, 50))
def test_what_is_said_is_heard_to_the_nearest_grade(strength: float) -> None:
    text = f"It rained. A win for Ada {word_strength(strength, STREAM)}. Dinner was late."
    (claim,) = find_claims(text)
    assert claim.sentence.startswith("A win for Ada")
    assert abs(claim.strength - strength) == min(abs(one - strength) for one in STRENGTHS)


def test_certainty_is_the_strongest_grade() -> None:
    assert word_strength(math.inf, STREAM) in GRADES[3.5]
    assert word_strength(-math.inf, STREAM) in GRADES[-3.5]
    with pytest.raises(ValueError, match="NaN"):
        word_strength(math.nan, STREAM)


def test_no_phrase_is_part_of_another() -> None:
    phrases = [phrase for grade in GRADES.values() for phrase in grade]
    assert not [(one, other) for one, other in permutations(phrases, 2) if one in other]


def test_the_grades_are_even_handed() -> None:
    assert [-strength for strength in STRENGTHS] == [*reversed(STRENGTHS)]
    assert len({len(phrases) for phrases in GRADES.values()}) == 1


def test_claims_are_heard_in_their_order_whatever_the_case() -> None:
    text = "A strike IS ALL BUT CERTAIN! A deal would take a small miracle, and peace keeps a thin advantage."
    assert [claim.strength for claim in find_claims(text)] == [3.5, -3.5, 0.4]


@given(st.floats(-1e6, 1e6), st.integers(0, 3))
def test_a_number_that_is_told_is_heard(value: float, digits: int) -> None:
    text = f"The index {word_figure(value, STREAM, digits=digits)} points on 3 May 2026, after 12.5 in spring."
    (figure,) = find_figures(text)
    assert figure.value == pytest.approx(round(value, digits), abs=1e-9)


def test_plain_text_says_nothing() -> None:
    assert find_claims("It is certain that nobody knows; the price was 12.") == []
    assert find_figures("It is certain that nobody knows; the price was 12.") == []
