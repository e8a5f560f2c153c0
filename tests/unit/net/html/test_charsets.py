"""Bytes to text, with labels as the WHATWG Encoding standard has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.html.text import decode_page

TEXT = "Gr\u00f6\u00dfe"


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (TEXT.encode(), "text/html"),
        (TEXT.encode(), "text/html; charset=UTF-8"),
        (TEXT.encode("latin-1"), "text/html; charset=iso-8859-1"),
        (TEXT.encode("latin-1"), 'text/html; charset="Latin1"'),
        (TEXT.encode("utf-8-sig"), "text/html; charset=iso-8859-1"),
        (b"\xff\xfe" + TEXT.encode("utf-16-le"), "text/html; charset=utf-8"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "text/html"),
    ],
)
def test_a_mark_beats_the_header_which_beats_the_page(content: bytes, media_type: str) -> None:
    assert decode_page(content, media_type) == TEXT


def test_a_page_names_its_own_encoding_where_the_header_does_not() -> None:
    page = f'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">{chr(0x43F)}'.encode("cp1251")
    assert decode_page(page, "text/html").endswith("\u043f")
    assert decode_page(page, "text/html; charset=koi8-r").endswith("\u041e")


def test_the_standard_reads_latin_1_as_windows_1252() -> None:
    assert decode_page(b"\x93\x94", "text/plain; charset=iso-8859-1") == "\u201c\u201d"


@pytest.mark.parametrize(
    "label", ["zlib_codec", "utf-7", "unicode_escape", "idna", "rot13", "hex", "x-user", "undefined"]
)
def test_a_label_that_the_web_does_not_know_is_passed_over(label: str) -> None:
    assert decode_page(b"+ADw-\\u0041", f"text/html; charset={label}") == "+ADw-\\u0041"


@given(st.binary(), st.text())
def test_no_bytes_and_no_label_are_beyond_decoding(content: bytes, label: str) -> None:
    assert isinstance(decode_page(content, f"text/html; charset={label}"), str)
