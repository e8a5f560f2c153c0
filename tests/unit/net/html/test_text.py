"""Text as a person would see it, whatever the characters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.html.text import clean_text

UNSEEN = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})


@given(st.text(), st.integers(0, 200))
def test_nothing_unseen_is_left_and_nothing_is_too_long(text: str, longest: int) -> None:
    shown = clean_text(text, max_chars=longest)
    assert len(shown) <= longest
    assert [each for each in shown if each != "\n" and unicodedata.category(each) in UNSEEN] == []
    assert shown == shown.strip()
    assert "  " not in shown
    assert "\n\n\n" not in shown


@given(st.text(st.characters(categories=["Ll", "Lu", "Nd"], max_codepoint=0x24F), min_size=1))
def test_plain_words_are_only_composed(text: str) -> None:
    assert clean_text(text, max_chars=10_000) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\uff32\uff45\uff41\uff44", "Read"),
        ("e\u0301", "\u00e9"),
        ("a\u00a0 \t b\r\n \n\n\n c", "a b\n\nc"),
        ("in\u00advi\u200bsi\u2060ble", "invisible"),
        ("\u202eabc\u202c", "abc"),
        ("x\U000e0041\U000e0042\ufe0f\U000e0100y", "xy"),
        ("one\u2028two", "one\ntwo"),
    ],
)
def test_odd_characters_come_out_plain(text: str, shown: str) -> None:
    assert clean_text(text, max_chars=100) == shown
