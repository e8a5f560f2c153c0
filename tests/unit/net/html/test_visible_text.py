"""What a person would not see is taken out, by our own rules alone: no extractor of text stands behind these tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from bot.net.html.text import page_text
from bot.net.html.visible_text import read_sheet, read_style, strip_hidden
from bot.simulator.hidden_text_pages import (
    HIDING_WAYS,
    UNREAD_HIDING_WAYS,
    VISIBLE_TEXT,
    page_with_hidden_text,
    plain_page,
)


def seen(html: str) -> str:
    tree = LexborHTMLParser(html)
    strip_hidden(tree)
    return " ".join(page_text(tree).split())


@pytest.mark.parametrize("way", HIDING_WAYS)
def test_an_order_is_not_seen_in_any_way_of_hiding_it(way: str) -> None:
    shown = seen(page_with_hidden_text(way, "canary"))
    assert "canary" not in shown
    assert VISIBLE_TEXT in shown


@pytest.mark.parametrize(
    ("way", "reason"), [(way, reason) for reason, ways in UNREAD_HIDING_WAYS.items() for way in ways]
)
def test_what_the_rules_do_not_read_stays_text_like_any_other(way: str, reason: str) -> None:
    """Once a rule reads such a way, it belongs among the others, and its reason holds no longer."""
    shown = seen(page_with_hidden_text(way, "canary"))
    assert "canary" in shown, f"no longer so: {reason}"
    assert VISIBLE_TEXT in shown


@pytest.mark.parametrize(
    ("sheet", "markup"),
    [
        ("", "<p>{}</p>"),
        ("", '<p style="color:#333;font-size:11px;opacity:.8">{}</p>'),
        ("", '<p style="margin:-1px auto;text-indent:2em;line-height:1.2;overflow:hidden">{}</p>'),
        ("", '<p style="position:relative;left:-5px;transform:translate(-50%,-10px) scale(.9)">{}</p>'),
        ("", '<p style="width:100%;height:auto;max-height:40em;overflow:hidden;z-index:3">{}</p>'),
        ("", '<div style="background:black"><p style="color:white">{}</p></div>'),
        ("", '<div style="background:url(night.jpg)"><p style="color:white">{}</p></div>'),
        ("", '<div style="visibility:hidden"><p style="visibility:visible">{}</p></div>'),
        ("", '<div style="font-size:0"><p style="font-size:16px">{}</p></div>'),
        ("@media print{.x{display:none}}", '<p class="x">{}</p>'),
        ("@media (max-width:600px){.x{display:none}}", '<p class="x">{}</p>'),
        ("@media (prefers-color-scheme:dark){body{color:#fff}}", "<p>{}</p>"),
        (".x:hover{display:none}", '<p class="x">{}</p>'),
        (".x::before{display:none}", '<p class="x">{}</p>'),
        ("@font-face{font-family:x;display:none}", '<p class="x">{}</p>'),
        ("@keyframes x{from{opacity:0}}", '<p class="x">{}</p>'),
        (".y{display:none}", '<p class="x">{}</p>'),
        ("p[{display:none}", '<p class="x">{}</p>'),
        ("", "<details><summary>more</summary>{}</details>"),
        ("", "<table><tr><td>{}</td></tr></table>"),
        ("", '<p aria-hidden="false">{}</p>'),
        (".x:focus-visible, .x:hover::after{display:none}", '<p class="x">{}</p>'),
        (".y:not(:hover){display:none}", '<p class="x">{}</p>'),
        ("p:lang(de), :lang(fr) p{display:none}", '<p lang="en">{}</p>'),
        ("p:has(> b.y){display:none}", '<p><b class="x">{}</b></p>'),
        (".x:is(:hover, :focus){display:none}", '<p class="x">{}</p>'),
        ('@import url("sheet.css"); .y{display:none}', '<p class="x">{}</p>'),
        ("", '<p style="color:color-mix(in srgb, currentcolor 70%, transparent)">{}</p>'),
        ("", '<p style="color:rgb(var(--of-another-sheet))">{}</p>'),
        ("", '<p style="color:oklch(40.101% 0.12332 21.555)">{}</p>'),
        ("", '<p style="color:#fff;background:linear-gradient(#000, #222)">{}</p>'),
        ("", '<p style="mask-image:linear-gradient(black, transparent)">{}</p>'),
        ("", '<p style="transform:matrix(1, 0, 0, 1, 0, 8);rotate:90deg">{}</p>'),
        ("", '<p style="clip-path:polygon(0 0, 100% 0, 100% 90%, 0 100%)">{}</p>'),
        ("", '<p style="font-size:clamp(1rem, 0.5rem + 2vw, 3rem);opacity:calc(1 - 0.2)">{}</p>'),
        ("", '<p style="position:relative;left:-20px;width:110%">{}</p>'),
        ("", "<font color=darkred>{}</font>"),
        (".page .dark{background:#000}.x{color:#fff}", '<div class="page"><p class="dark x">{}</p></div>'),
        (".y{background:#fff;color:#333}", '<div style="color:#fff;background:#000"><p class="y">{}</p></div>'),
        (".y:not(.a, .x, .b){display:none}", '<p class="x">{}</p>'),
        (".y{.x{display:none}}", '<p class="x">{}</p>'),
        ("@media (width < 40em){.x{display:none}}", '<p class="x">{}</p>'),
        ("", '<p style="left:calc(50% - 400px);font-size:calc(1rem * 1.2)">{}</p>'),
        ("", '<my-card color="white">{}</my-card>'),
        ("", '<p style="background:#000 url(a;b.png);color:#111">{}</p>'),
        (":root{--a:0;--b:var(--a)}", '<p style="opacity:var(--c, 1);order:var(--b)">{}</p>'),
    ],
)
def test_what_a_person_sees_stays(sheet: str, markup: str) -> None:
    assert "canary" in seen(plain_page(markup.format("canary"), stylesheet=sheet))


@pytest.mark.parametrize("hiding_body", ["opacity:0", "visibility:hidden", "display:none"])
def test_a_page_that_hides_itself_whole_until_its_script_runs_is_read(hiding_body: str) -> None:
    shown = seen(plain_page("<p hidden>canary</p>", stylesheet=f"body{{{hiding_body}}}"))
    assert VISIBLE_TEXT in shown
    assert "canary" not in shown


def test_a_page_that_hides_all_but_its_bait_shows_the_bait_alone() -> None:
    shown = seen("<style>body{visibility:hidden}.x{visibility:visible}</style><p>canary</p><p class=x>bait</p>")
    assert shown == "bait"


def test_each_block_is_a_line_and_each_cell_is_set_off() -> None:
    tree = LexborHTMLParser("<p>one <b>two</b></p>three<ul><li>four</ul><table><tr><td>5<td>6</table>")
    lines = [line.strip() for line in page_text(tree).splitlines() if line.strip()]
    assert lines == ["one two", "three", "four", "| 5 | 6"]


STYLE_PIECES = (
    "p",
    ".x",
    "{",
    "}",
    ";",
    ":",
    "display",
    "none",
    "color",
    "#ff",
    "background",
    "url(",
    "rgb(",
    ",",
    "0",
)
STYLE_SIGNS = (
    "/*",
    "*/",
    "<!--",
    "'",
    '"',
    "\\",
    "\\d800",
    "@media ",
    "width",
    "-",
    "99",
    "px",
    "%",
    "(",
    ")",
    "\n",
    "é",
)


@given(st.lists(st.sampled_from(STYLE_PIECES + STYLE_SIGNS)).map("".join) | st.text())
def test_no_style_is_beyond_reading(css: str) -> None:
    assert all(selector and declared for selector, declared in read_sheet(css))
    assert all(value == value.strip() for value in read_style(css).values())
