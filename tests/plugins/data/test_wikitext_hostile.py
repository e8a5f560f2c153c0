"""Pages that were written against the reader: markup without end, tables that grow, and text that nobody sees.

The test runner ends a test after half a minute. Each text here is so long that a reader whose work grows with the
square of its length would need hours, so that a test which ends at all shows that it does not.
"""

import pytest

from plugins.data.wikipedia import tables
from plugins.data.wikipedia.hidden_markup import MAX_CHARS, visible_wikitext
from plugins.data.wikipedia.sections import parse_article
from plugins.data.wikipedia.wikitext import wikitext_to_text

LENGTH = 300_000


@pytest.mark.parametrize(
    "piece",
    [
        *("<ref>", "<!--", "{{", "[[", "{|\n", "{|\n|}\n", "== a ==\n", "<gallery>", "{{a|", "'''''", "{{{", "{{{a"),
        *("| rowspan=9999 |x\n", "<ref", "<ref ", "</ref>", "<span>", "<span hidden>", "<span hidden>a\n\n", "</span>"),
        *("<nowiki>", "<nowiki></nowiki>", "<includeonly", "[//a", "[//", "__A", "&#1", "<a", "{{!}}", "{{dab ", "]]"),
        *("= a\n", "=== a ===\n", "{| a=a\n", "{|\n|-\n", "<ref></ref ", "<i style='left:-99px'>", "<a b=/*", "\\a "),
        *("<div>", "<div hidden>", "<div></span>", "{|\n{|\n|}\n", "{{a|b=}}", "{{a|b=c|d=e|f=g}}"),
    ],
)
def test_a_page_full_of_open_markup_is_read_in_its_length(piece: str) -> None:
    found = parse_article(piece * (LENGTH // len(piece)))
    assert found.section_text("") is not None


@pytest.mark.parametrize(
    ("begins", "piece", "ends"),
    [
        ("{|\n| ", "a=a", "\n|}"),
        ("{|\n| ", "nowrap ", "\n|}"),
        ("{|\n| ", "nowrap a=b ", "x\n|}"),
        ("{|\n| ", "a='", "\n|}"),
        ("{|\n| ", 'a="b"', "\n|}"),
        ("{|\n| ", "a = ", "\n|}"),
        ("{|\n| ", "a-", "\n|}"),
        ("{|\n| rowspan=", " ", "x | a\n|}"),
        ("{|\n| rowspan", " ", "x | a\n|}"),
        ("{|\n| a\n", "b\n", "|}"),
        ("{|\n| a\n", "!!", "\n|}"),
        ("{|\n! a\n!", "!", "\n|}"),
        ("== ", " ", "x\n"),
        ("==", "=", "\n"),
        ("== a", " =", "x\n"),
        ("==", "a =", "\n"),
        ("[//", "a", "\n"),
        ("[//a", " ", "\n"),
        ("{{{", "a", "\n"),
        ("{{{|", "a", "\n"),
        ("{{a|", " ", "}}"),
        ("{{a|", "b ", "}}"),
        ("{{a|b", " ", "}}"),
        ("{{use ", "a", "}}"),
        ("{{", " ", ""),
        ("{{disambig", "x", ""),
        ("<ref>a</ref", " ", "x"),
        ("<span style='color", " ", ":transparent'>"),
        ("<span style='opacity:", "0", "x'>"),
        ("<span style='", ":", "'>"),
        ("<span a='", "\\", "'>"),
        ("<span ", "'", ">"),
        ("&#", "1", ";"),
        ("&#x", "f", ";"),
        ("<span a='&#", "9", ";'>x"),
    ],
)
def test_a_piece_that_goes_on_and_on_is_read_in_its_length(begins: str, piece: str, ends: str) -> None:
    found = parse_article(begins + piece * (LENGTH // len(piece)) + ends)
    assert found.section_text("") is not None


def test_a_heading_that_many_stand_below_is_not_repeated_in_full() -> None:
    text = f"== {'a' * 100_000} ==\n" + "=== b ===\n" * 5_000
    headings = parse_article(text).headings
    assert len(headings) == len(set(headings)) == 5_001
    assert max(map(len, headings)) < 1_000


@pytest.mark.parametrize(("wide", "rows"), [(50, 400), (500, 4_000), (1, 1)])
def test_what_spans_write_has_a_bound(wide: int, rows: int) -> None:
    row = "|" + "||".join(["rowspan=200 colspan=200|" + "x" * 50] * wide)
    text = wikitext_to_text("a\n{|\n" + row + "\n" + "|-\n|y\n" * rows + "|}\nb\n{|\n| rowspan=200 | c\n|}\nd")
    assert len(text) < 2 * tables.MAX_CHARS
    assert text.count("|") < 2 * tables.MAX_CELLS
    assert text.startswith("a\n| xxx")
    is_cut = wide > 1
    assert text.count(tables.CUT_NOTICE) == is_cut
    # What is no table stays, and a table that comes after the bound does not.
    assert ("| c |" in text) is not is_cut
    assert text.endswith("\nd")


def test_a_long_table_without_spans_is_whole() -> None:
    text = wikitext_to_text("{|\n" + "| a\n| b || c\n|-\n" * 10_000 + "|}")
    assert text == "\n".join(["| a | b | c |"] * 10_000)


@pytest.mark.parametrize("line", ["| a\n", "| a || b || c\n", "! a !! b\n", "|-\n| a\n"])
def test_a_table_of_more_cells_than_the_bound_is_cut_with_a_remark(line: str) -> None:
    text = wikitext_to_text("{|\n" + line * (tables.MAX_CELLS + 1) + "|}\nafter")
    shown, rest, after = text.rpartition(f"{tables.CUT_NOTICE}\n")
    assert (shown.count("a") + shown.count("b") + shown.count("c"), after) == (tables.MAX_CELLS, "after")
    assert rest


def test_long_cells_that_span_have_a_bound_of_characters() -> None:
    text = wikitext_to_text("{|\n| rowspan=200 | " + "x" * 50_000 + "\n" + "|-\n| y\n" * 200 + "|}")
    assert text.endswith(tables.CUT_NOTICE)
    assert tables.MAX_CHARS - 60_000 < len(text) < tables.MAX_CHARS + 60_000


def test_tables_within_tables_share_the_bound() -> None:
    depth = 3_000
    text = wikitext_to_text("{|\n| a\n" * depth + "x" * 2_000 + "\n" + "|}\n" * depth)
    assert len(text) < 2 * tables.MAX_CHARS
    assert tables.CUT_NOTICE in text


def test_a_page_longer_than_any_is_cut() -> None:
    assert len(visible_wikitext("a" * (2 * MAX_CHARS))) == MAX_CHARS


@pytest.mark.parametrize(
    "source",
    [
        'seen<span style="display:none">ORDER</span>',
        'seen<span style="color:red; DISPLAY : None !important">ORDER</span>',
        "seen<span style=display:none>ORDER</span>",
        'seen<span style="display&#58;none">ORDER</span>',
        'seen<span style="display:/* */none">ORDER</span>',
        r'seen<span style="display:\6e one">ORDER</span>',
        'seen<span style="display:{{nowrap|none}}">ORDER</span>',
        'seen<div style="visibility:hidden">ORDER</div>',
        'seen<p style="font-size:0">ORDER</p>',
        'seen<p style="font-size:0.0px; color:red">ORDER</p>',
        "seen<p style=opacity:0 class=x>ORDER</p>",
        'seen<p style="text-indent:-9999px">ORDER</p>',
        'seen<p style="position:absolute; left: -1000em">ORDER</p>',
        'seen<p style="color: transparent">ORDER</p>',
        "seen<div hidden>ORDER</div>",
        'seen<div class="a" HIDDEN="">ORDER</div>',
        "seen<div hidden>a<div>b</div>ORDER</div>",
        "seen<div hidden><nowiki></div></nowiki>ORDER</div>",
        "seen<div hidden>\n\n== a ==\nORDER",
        "seen<span hidden>ORDER",
        "seen{{void|ORDER}}",
        "seen{{VOID|a=ORDER}}",
        "seen{{span|style=display:none|ORDER}}",
        "seen<includeonly>ORDER</includeonly>",
        "seen<includeonly>ORDER",
        "seen<!-- ORDER",
        "seen<!-- <!-- --><!-- ORDER -->",
        "seen<!-- <ref> --><!-- ORDER </ref> -->",
        "seen<ref>ORDER</ref >",
        "seen<ref><ref>ORDER</ref>",
        "seen<ref name=a>ORDER</references></ref>",
        "seen<ref name='a>b'>ORDER</ref>",
        "seen{{DISPLAYTITLE:ORDER}}",
        '{|\n| seen || style="display:none" | ORDER\n|}',
        '{|\n| seen\n|- style="display:none"\n| ORDER\n|}',
        '{|\n| seen\n|- style="display:none"\n|\nORDER\n|}',
        '{|\n| seen\n|- style="display:none"\n{{row|a=ORDER|b=ORDER|c=ORDER}}\n|}',
        'seen\n{| style="display:none"\n| ORDER\n|}',
    ],
)
def test_what_no_reader_sees_is_not_read(source: str) -> None:
    shown = parse_article(source).section_text("") or ""
    assert "ORDER" not in shown
    assert "seen" in shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<nowiki><!-- a [[b]] {{c}} --></nowiki> d", "<!-- a [[b]] {{c}} --> d"),
        ("<nowiki>__TOC__</nowiki>", "__TOC__"),
        ("<noinclude>a</noinclude><onlyinclude>b</onlyinclude>", "ab"),
        ('<span title="a hidden gem">a</span>', "a"),
        ('<span aria-hidden="true" style="opacity:0.5; font-size:10px">a</span>', "a"),
        ('<span style="opacity:.5">a</span>', "a"),
        ('<span style="max-width:0.5em">a</span>', "a"),
        ("<span hidden>a</span>b<span>c</span>", "bc"),
        ("<br hidden>a", "/ a"),
        ("<span hidden>a\n\nb", "b"),
        ("<span hidden />a", "a"),
        ("a<ref name=x/>b</ref>", "ab"),
        ("{|\n| <span hidden>a\n| b\n|}", "| | b |"),
        ("{{0|00}}7", "7"),
        ("5 &lt; 6 &#99999999999; &#65;", "5 < 6 A"),
    ],
)
def test_what_a_reader_sees_is_read(source: str, shown: str) -> None:
    assert wikitext_to_text(source) == shown


def test_attributes_of_a_cell_end_with_its_single_bar() -> None:
    source = "{|\n| a=b c | d || e=\"f g\" nowrap| h || i = 'j'| k || l m | n || a=a=a | o\n|}"
    assert wikitext_to_text(source) == "| a=b c | d | h | k | l m | n | o |"
