"""The extraction chain: exact text, then a letter, then what is most like it, and never a lot that is drawn."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.team import option_parsing
from plugins.team.option_parsing import find_chosen_option, option_letter

OPTIONS = (
    'send a message: "It has left port."',
    "read search_1_result_1, search_1_result_2 for sub-goal base_rate",
    "search the web for sub-goal status in your own words",
    "use market_history: The past prices of the market that the question is about",
    "submit the belief you have now and be done",
)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        # The text of an option, as it stands or nearly so.
        ("use market_history", 3),
        ("D. use market_history", 3),
        ("Use market_history.", 3),
        ("use market_history: the past prices of the market that the question is about", 3),
        ("submit", 4),
        ("search the web", 2),
        ("E. Submit the belief you have now", 4),
        ('send a message: "It has left port."', 0),
        # A letter, as it is usually written.
        ("B", 1),
        ("(C)", 2),
        ("C.", 2),
        ("D) seems best", 3),
        ("**E**", 4),
        ("The answer is B", 1),
        ("option C, because the status is open", 2),
        ("I choose (D).", 3),
        # A letter goes before what only resembles an option.
        ("B. search the net for the status", 1),
        # Of several letters the one said last, after the thinking.
        ("Option A would be nice, but I choose option C", 2),
        # What is most like it.
        ("search web for the sub-goal status with own words", 2),
        ("submit my belief now and be done", 4),
        ("reading search_1_result_1 and search_1_result_2 for the base_rate", 1),
        # Nothing of the kind.
        ("", None),
        ("Z", None),
        ("F.", None),
        ("A search would help", None),
        ("I cannot decide between them.", None),
        ("fly to the moon", None),
        ("X" * 5000, None),
    ],
)
def test_what_was_said_names_an_option_or_none(said: str, place: int | None) -> None:
    assert find_chosen_option(said, OPTIONS) == place


def test_of_two_options_the_text_of_the_longer_one_is_not_taken_for_the_shorter() -> None:
    options = ("read search_1_result_1", "read search_1_result_10")
    assert find_chosen_option("read search_1_result_10", options) == 1
    assert find_chosen_option("I read search_1_result_10 now", options) == 1


@settings(max_examples=60)
@given(st.text(max_size=60), st.lists(st.text("abc de", min_size=1, max_size=12), min_size=1, max_size=30, unique=True))
def test_a_choice_is_a_place_on_the_list_and_always_the_same(said: str, options: list[str]) -> None:
    place = find_chosen_option(said, options)
    assert place is None or 0 <= place < len(options)
    assert find_chosen_option(said, options) == place


@given(st.integers(0, 200))
@settings(max_examples=40)
def test_every_letter_names_its_own_place(place: int) -> None:
    options = [f"go to harbour number {number} of the north" for number in range(201)]
    assert find_chosen_option(option_letter(place), options) == place
    assert find_chosen_option(f"({option_letter(place)})", options) == place
    assert find_chosen_option(options[place], options) == place


def test_no_chance_is_at_hand_in_the_chain() -> None:
    source = inspect.getsource(option_parsing)
    assert "random" not in source.replace("random choice", "")
    assert "stream(" not in source
