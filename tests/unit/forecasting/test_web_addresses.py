"""Addresses: whatever a browser takes for the same host is the same here."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.forecasting.leak_guard.blocked_addresses import REDACTED, BlockedAddresses, find_blocked_addresses
from bot.forecasting.web_addresses import _IN_TEXT as ADDRESS_IN_TEXT
from bot.forecasting.web_addresses import find_addresses, find_links, mentions_host, parse_address
from tests.unit.forecasting.research_fixture import CUTOFF, data_question, market

HOSTS = BlockedAddresses(frozenset({"lantern.example"}))
IDN = BlockedAddresses(frozenset({"xn--bcher-kva.example"}))

SPELLINGS = [
    "https://lantern.example",
    "http://lantern.example/q/1?x=1#y",
    "HTTPS://LANTERN.EXAMPLE/",
    "lantern.example/q",
    "//lantern.example/q",
    "https:lantern.example",
    "https:///lantern.example",
    "https:\\\\lantern.example\\q",
    "https://www.lantern.example",
    "https://api.eu.lantern.example/v2",
    "https://lantern.example./q",
    "https://lantern.example:8443/q",
    "lantern.example:443/q",
    "https://me@lantern.example/",
    "https://good.example:pass@lantern.example/",
    "https://good.example%40lantern.example/",
    "https://l%61ntern.example/",
    "https://lantern%2Eexample/",
    "https://l%2561ntern.example/",
    "https://\uff4cantern.example/",
    "https://lantern\u3002example/",
    "https://lan\ttern.exa\nmple/",
    " https://lantern.example ",
    "https://archive.example/web/2026/https://lantern.example/q",
    "https://archive.example/web/2026/lantern.example/q",
    "https://go.example/?to=https%3A%2F%2Flantern.example%2Fq",
    "https://go.example/?to=https%253A%252F%252Flantern.example",
    "https://go.example/?to=lantern.example",
    "https://go.example/#lantern.example/q",
    "https://lantern-example.translator.example/q",
]


@pytest.mark.parametrize("url", SPELLINGS)
def test_every_spelling_of_a_blocked_host_is_refused(url: str) -> None:
    assert HOSTS.refusal(url) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://b\u00fccher.example/",
        "https://B\u00dcCHER.example/",
        "https://xn--bcher-kva.example/",
        "https://XN--BCHER-KVA.example./",
    ],
)
def test_punycode_and_letters_are_the_same_host(url: str) -> None:
    assert IDN.refusal(url) is not None
    assert BlockedAddresses(frozenset({"xn--other.example"})).refusal(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://notlantern.example/",
        "https://good.example/lantern",
        "https://good.example/?q=lantern+example",
        "https://good.example/about-lantern.example-in-the-press",
    ],
)
def test_other_hosts_are_not_refused(url: str) -> None:
    assert HOSTS.refusal(url) is None


@pytest.mark.parametrize(
    "url", ["", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://", "\x00"]
)
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    assert HOSTS.refusal(url) == "this is not an address of the web"


@given(text=st.text(max_size=300) | st.from_regex(r"https?://[\w%@:./\\?#\[\]-]{0,80}", fullmatch=True))
def test_any_text_is_read_or_refused_without_an_error_and_the_key_reads_back_to_itself(text: str) -> None:
    HOSTS.refusal(text)
    HOSTS.redact(text)
    assert (parse_address(text) is None) == (HOSTS.refusal(text) == "this is not an address of the web")


NAMED = [
    "https://lantern.example/q/lamp",
    "https://lantern.example/q/lamp/comments?x=1",
    "https://harbour.example/lamp/status",
    "keeper.example/rota/",
    "https://title.example/x",
]


def test_of_an_earlier_day_the_page_of_a_market_and_those_that_it_names_are_blocked_with_all_below_them() -> None:
    question = market(title="Lit, as https://title.example/x says?")
    blocks = find_blocked_addresses(question, (), backdated=True)
    assert [url for url in NAMED if blocks.refusal(url) is None] == []
    assert blocks.refusal("https://lantern.example/q/lamp-2") is None
    assert blocks.refusal("https://keeper.example/") is None


def test_live_the_pages_that_a_question_names_are_read() -> None:
    blocks = find_blocked_addresses(market(title="Lit, as https://title.example/x says?"), (), backdated=False)
    assert [url for url in NAMED if blocks.refusal(url) is not None] == []


ORIGINAL = "https://other.example/questions/12"
MIRROR = {
    "criteria": f"As {ORIGINAL} resolves; see https://archive.example/web/https://third.example/m/1 for its past.",
    "background": "The crowd of https://fourth.example/m/7 disagrees.",
}
VENUES = ("lantern.example", "other.example", "third.example", "fourth.example")


@pytest.mark.parametrize(
    "url",
    [
        ORIGINAL,
        "http://WWW.other.example/questions/12/",
        f"{ORIGINAL}/will-it-be-lit",
        "https://archive.example/web/https://third.example/m/1",
        "https://third.example/m/1",
    ],
)
def test_live_the_page_that_the_criteria_name_is_read_on_the_host_of_a_venue_too(url: str) -> None:
    assert find_blocked_addresses(market(**MIRROR), VENUES, backdated=False).refusal(url) is None
    assert find_blocked_addresses(market(**MIRROR), VENUES, backdated=True).refusal(url) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://lantern.example/q/lamp",
        "https://other.example/questions/13",
        "https://other.example/",
        f"{ORIGINAL}?next=https://lantern.example/q/lamp",
        f"{ORIGINAL}/../13",
        "https://archive.example/web/https://other.example/questions/13",
        "https://third.example/m/2",
        "https://fourth.example/m/7",
    ],
)
def test_live_all_else_on_the_hosts_of_venues_stays_blocked(url: str) -> None:
    assert find_blocked_addresses(market(**MIRROR), VENUES, backdated=False).refusal(url) is not None


def test_live_the_own_page_and_listings_stay_blocked_though_the_criteria_name_them() -> None:
    criteria = "See https://lantern.example/q/lamp and https://other.example/questions/."
    blocks = find_blocked_addresses(market(criteria=criteria), VENUES, backdated=False)
    assert blocks.refusal("https://lantern.example/q/lamp") is not None
    assert blocks.refusal("https://other.example/questions/12") is not None
    assert blocks.refusal("https://other.example/questions") is None


def test_a_host_that_the_operator_blocked_is_never_read() -> None:
    blocks = find_blocked_addresses(market(**MIRROR), VENUES, backdated=False, never=("other.example",))
    assert blocks.refusal(ORIGINAL) is not None
    assert blocks.refusal("https://third.example/m/1") is None


def test_a_named_page_on_the_host_of_a_venue_stays_in_a_text_and_its_neighbours_go() -> None:
    blocks = find_blocked_addresses(market(**MIRROR), VENUES, backdated=False)
    text = f"See {ORIGINAL} and https://other.example/questions/13."
    assert blocks.redact(text) == f"See {ORIGINAL} and {REDACTED}."


def test_the_data_page_of_a_question_about_data_is_blocked_only_when_the_world_has_gone_on() -> None:
    page = "https://tides.example/series/LEVEL"
    assert find_blocked_addresses(data_question(as_of=None), (), backdated=False).refusal(page) is None
    assert find_blocked_addresses(data_question(as_of=CUTOFF), (), backdated=True).refusal(page) is not None


def test_an_address_that_is_told_apart_by_its_query_blocks_that_query_alone() -> None:
    blocks = find_blocked_addresses(
        market(url="https://forum.example/item?id=1", criteria="", background=""), (), backdated=True
    )
    assert blocks.refusal("https://forum.example/item?lang=en&id=1") is not None
    assert blocks.refusal("https://forum.example/item?id=2") is None


def test_blocked_addresses_are_left_out_of_a_text_and_others_stay() -> None:
    text = "See (https://lantern.example/q), api.lantern.example/v2. Or https://good.example/a, e.g. at 3.5 km."
    expected = f"See ({REDACTED}), {REDACTED}. Or https://good.example/a, e.g. at 3.5 km."
    assert HOSTS.redact(text) == expected


def test_links_are_found_in_order_without_the_punctuation_behind_them() -> None:
    text = "At https://a.example/x_(y), http://b.example/. Also <https://a.example/x_(y)> and c.example/z!"
    assert find_links(text) == ["https://a.example/x_(y)", "http://b.example/"]


@pytest.mark.parametrize("before", ["", "(", '"', "see "])
@pytest.mark.parametrize("after", ["", ".", '."', "?)", ".)", "... ", "; no."])
@pytest.mark.parametrize("address", ["lantern.example", "www.a", "https:/x", "WWW.x.example/q.html", "http://10.0.0.1"])
def test_an_address_is_found_in_a_sentence_whatever_ends_it(before: str, address: str, after: str) -> None:
    found = [match.group() for match in find_addresses(f"It was dark. {before}{address}{after} So it ends.")]
    assert [one[: len(address)] for one in found] == [address]


WORD_PARTS = st.sampled_from(["a", "www", ".", ",", ":/", ")", '"', "b.cd"])


@example(words=["www.,"], blank=" ")
@example(words=["WWW.,"], blank=" ")
@example(words=["b...,,,;;;!!!.cd"], blank=" ")
@given(words=st.lists(st.lists(WORD_PARTS, max_size=4).map("".join), max_size=30), blank=st.sampled_from(" \n\u3000"))
def test_no_word_is_skipped_that_holds_an_address(words: list[str], blank: str) -> None:
    text = blank.join(words)
    each = [match.group() for word in text.split() for match in ADDRESS_IN_TEXT.finditer(word)]
    assert [match.group() for match in find_addresses(text)] == each


HOST_PARTS = st.sampled_from(
    ["lantern.example", "LANTERN", "lantern", "example", "xn--bcher-kva", "b\u00fccher", "\uff4cantern", "x", "a1"]
)
HOST_MARKS = st.sampled_from([".", "-", "/", "%2e", "\uff0e", "\u00ad", "?u=", "bGFudGVybi5leGFtcGxlL3E"])


@example(parts=["b\u00fccher", ".", "example"])
@given(parts=st.lists(HOST_PARTS | HOST_MARKS, max_size=8))
def test_no_address_is_passed_over_that_names_a_host(parts: list[str]) -> None:
    hosts = frozenset({"lantern.example", "xn--bcher-kva.example"})
    # Every address has the letters of a host without letters, which none names.
    assert mentions_host("".join(parts), hosts) == mentions_host("".join(parts), hosts | {""})
