"""Colours against the samples of CSS Color Module Level 4, and against a table of names that is not ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import CSS4_COLORS

from bot.net.html.css_values import is_unknown_colour, parse_colour, parse_colours, parse_legacy_colour


@pytest.mark.parametrize("name", sorted(CSS4_COLORS))
def test_each_name_of_the_standard_is_known(name: str) -> None:
    assert parse_colour(name) == (tuple(bytes.fromhex(str(CSS4_COLORS[name])[1:])), 1.0)


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        # Samples of the standard, sections 9 and 10, which all name one colour.
        ("lab(29.2345% 39.3825 20.0664)", "7d2329"),
        ("lch(29.2345% 44.2 27)", "7d2329"),
        ("oklab(40.101% 0.1147 0.0453)", "7d2329"),
        ("oklch(40.101% 0.12332 21.555)", "7d2329"),
        ("hwb(150 20% 10%)", "33e68c"),
        ("hsl(120deg 100% 25%)", "008000"),
        ("rgb(none 50% calc(10 * 2))", "008014"),
        ("color(srgb 0 0.5 1)", "0080ff"),
        ("color-mix(in srgb, red, blue)", "800080"),
        ("color-mix(in srgb, white 25%, black)", "404040"),
    ],
)
def test_a_function_names_the_colour_that_the_standard_says(value: str, digits: str) -> None:
    found = parse_colour(value)
    assert found is not None
    assert max(abs(a - b) for a, b in zip(found[0], bytes.fromhex(digits), strict=True)) <= 4


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        ("FFFFFF", "#ffffff"),
        ("chucknorris", "#c00000"),
        ("crap", "#c0a000"),
        ("#abc", "#abc"),
        ("6db6ec49efd2", "#6decef"),
    ],
)
def test_an_old_attribute_names_a_colour_by_any_text(value: str, digits: str) -> None:
    assert parse_legacy_colour(value) == digits


@given(st.text(max_size=300))
def test_any_text_of_an_old_attribute_is_read(value: str) -> None:
    assert isinstance(parse_legacy_colour(value), str)


@given(st.text(max_size=60) | st.text("rgbacolor-mix(),.% 0159/#", max_size=60))
def test_no_value_is_beyond_reading(value: str) -> None:
    found, _ = parse_colours([value])
    assert all(0 <= part <= 255 for colour in found for part in colour)


def test_a_function_that_is_not_known_is_a_riddle_and_a_word_is_not() -> None:
    assert is_unknown_colour("contrast-color(black)")
    assert not is_unknown_colour("rgb(1 2 3)")
    assert not is_unknown_colour("inherit")
