"""What a reader does not see is taken out of a text, and nothing else."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from bot.core.plain_text import strip_invisible

SHAPELESS = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})
# DerivedCoreProperties.txt of Unicode 15: Default_Ignorable_Code_Point; and the empty Braille cell.
IGNORABLE = (
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010),
    *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000), 0x2800,
)  # fmt: skip


def test_nothing_that_unicode_says_may_be_ignored_is_left() -> None:
    assert [hex(code) for code in IGNORABLE if strip_invisible(f"a{chr(code)}b") != "ab"] == []


def test_a_character_stays_where_it_has_a_shape() -> None:
    others = map(chr, sorted({*range(0x20000)} - {*IGNORABLE}))
    shaped = [each for each in others if unicodedata.category(each) not in {*SHAPELESS, "Zl", "Zp"}]
    assert len(shaped) > 60_000
    assert [each for each in shaped if strip_invisible(each) != each] == []


@given(st.text())
def test_a_text_without_what_is_unseen_stays_so(text: str) -> None:
    once = strip_invisible(text)
    assert strip_invisible(once) == once
    assert [each for each in once if unicodedata.category(each) in SHAPELESS and each not in "\n\t"] == []


def test_each_kind_of_line_break_is_a_newline() -> None:
    assert strip_invisible("a\r\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch") == "a\nb\nc\nd\ne\nf\ng\nh"
