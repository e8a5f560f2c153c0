"""Messages: a budget, no repeats, seeds that stay at the beginning."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.team.members import TeamDialogue, TeamMessage, normalize_words


def talk(budget: int = 5, likeness: float = 0.85) -> TeamDialogue:
    return TeamDialogue(budget=budget, likeness=likeness, seeds=(TeamMessage("Ada", "Hello there", seed=True),))


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("The ship has left port.", "The ship has left port."),
        ("The ship has left port.", "the ship has LEFT port"),
        ("The ship has left port.", "The ship, has left: port!!"),
        ("The ship has left port yesterday", "The ship had left port yesterday"),
        ("Hello", "Hello there"),
    ],
)
def test_the_same_in_other_signs_or_nearly_the_same_words_repeats(first: str, again: str) -> None:
    spoken = talk()
    spoken.send("Ada", first)
    assert spoken.repeats(again)
    with pytest.raises(ValueError, match="may not be sent"):
        spoken.send("Boris", again)


def test_another_message_does_not_repeat() -> None:
    spoken = talk()
    spoken.send("Ada", "The ship has left port.")
    assert not spoken.repeats("The storm reaches the strait on Friday, says search_2_result_1.")


def test_likeness_is_a_setting() -> None:
    first, second = "The ship has left port yesterday", "The ship had left port yesterday"
    assert [_sent(first, likeness).repeats(second) for likeness in (0.5, 0.9, 1.0)] == [True, True, False]


def _sent(text: str, likeness: float) -> TeamDialogue:
    spoken = talk(likeness=likeness)
    spoken.send("Ada", text)
    return spoken


def test_the_budget_counts_what_was_sent_and_not_the_seeds() -> None:
    spoken = talk(budget=2)
    spoken.send("Ada", "The ship has left port.")
    assert spoken.left == 1
    spoken.send("Boris", "A storm comes on Friday")
    assert spoken.left == 0
    with pytest.raises(ValueError, match="may not be sent"):
        spoken.send("Ada", "I need help with the dates")


def test_the_last_dialogues_follow_the_seeds_and_all_messages_of_a_joint_step_are_one() -> None:
    spoken = talk()
    for step, text in (
        (2, "The ship has left port."),
        (3, "A storm comes on Friday"),
        (3, "I need help with the dates"),
        (6, "Nobody knows who decides"),
    ):
        spoken.send("Ada", text, joint_step=step)
    assert [said.text for said in spoken.last(2)] == [
        "Hello there",
        "A storm comes on Friday",
        "I need help with the dates",
        "Nobody knows who decides",
    ]


@settings(max_examples=50)
@given(st.lists(st.text("ab c.!", max_size=12), max_size=12))
def test_whatever_is_sent_no_two_messages_say_the_same(texts: list[str]) -> None:
    spoken = talk(budget=6)
    for text in texts:
        if spoken.left and not spoken.repeats(text):
            spoken.send("Ada", text)
    told = [normalize_words(said.text) for said in spoken.sent]
    assert len(set(told)) == len(told) <= 6
