"""Selectors for a page at rest: what a finder is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from bot.net.html.stylesheets import resting_selectors, split_selectors

PAGE = LexborHTMLParser("<html><body class=a><p class='x y' lang=de-AT>1<b>2</b></p><p class=z>3</p></body></html>")


def found(selector: str) -> list[str]:
    return [node.text() for one in split_selectors(resting_selectors(selector)) for node in PAGE.css(one)]


@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        (".x", ["12"]),
        (".z:hover", []),
        (".x:hover, .z", ["3"]),
        (".z:not(:focus)", ["3"]),
        (".z:not(:focus):not(.z)", []),
        (".x::before", []),
        ("p:first-line", []),
        ("body:hover .z", ["3"]),
        (":hover > .z", ["3"]),
        (".x:hover + .z", ["3"]),
        ("p:is(:focus, .z)", ["3"]),
        ("p:is(:focus)", []),
        ("p:where(.x) b", ["2"]),
        ("p:-webkit-any(.z)", ["3"]),
        ("p:has(> b)", ["12"]),
        ("p:has(b:hover)", []),
        ("p:lang(de)", ["12"]),
        ("p:lang('de', fr) b", ["2"]),
        ("p:lang(d)", []),
        ("p:defined.z", ["3"]),
        ("p:nth-child(2)", ["3"]),
        ('[class="z"]:not([title="a,:hover"])', ["3"]),
    ],
)
def test_a_list_selects_what_each_of_it_selects_at_rest(selector: str, texts: list[str]) -> None:
    assert found(selector) == texts


@given(st.text(max_size=40) | st.text(".:xnot(hover),[]>+~ '\"\\", max_size=40))
def test_no_selector_is_beyond_judging(selector: str) -> None:
    for one in split_selectors(resting_selectors(selector)):
        try:
            PAGE.css(one)
        except SelectolaxError:
            continue
