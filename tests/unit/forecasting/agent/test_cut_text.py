"""A text that is too long is cut behind a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.forecasting.agent.parsing import CUT_MARK, cut_text, read_text


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("the ship left port", 18, "the ship left port"),
        ("the ship left port", 17, "the ship left ..."),
        ("the ship left port", 13, "the ship ..."),
        ("the ship left port", 12, "the ship ..."),
        ("https://news.example/a/very/long/address", 20, "https://news.exa ..."),
        ("short and then aVeryLongWordWithoutAnySpace", 24, "short and then ..."),
    ],
)
def test_a_long_text_is_cut_behind_a_word(text: str, limit: int, kept: str) -> None:
    assert cut_text(text, limit) == kept
    assert read_text(text, limit) == kept


@given(st.text(max_size=60), st.integers(0, 60))
def test_a_cut_text_is_never_too_long_and_begins_as_the_whole(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert len(cut) <= limit or cut == text
    if len(text) > limit >= len(CUT_MARK):
        assert cut.endswith(CUT_MARK)
        assert text.startswith(cut.removesuffix(CUT_MARK))
