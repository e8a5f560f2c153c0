"""Addresses that lead to a blocked host through another one, and the near spellings of a blocked page."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.research import SearchResult
from bot.forecasting.leak_guard.blocked_addresses import REDACTED, BlockedAddresses
from bot.forecasting.web_addresses import ADDRESS_CHARS, REMEMBERED_CHARS, REMEMBERED_TEXTS, parse_address
from tests.unit.forecasting.research_fixture import ResearchFixture, hit, market

ANSWER = "https://news.example/answer/1"
HOSTS = BlockedAddresses(frozenset({"lantern.example", "xn--bcher-kva.example"}))
ANSWER_ADDRESS = parse_address(ANSWER)
assert ANSWER_ADDRESS is not None
PAGE = BlockedAddresses(pages=(ANSWER_ADDRESS,))


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "url",
    [
        "https://www.lantern.example.mirror.example/q/1",
        "https://lantern.example.translated.example/x",
        "https://www-lantern-example.translated.example/q",
        "https://eu.www-lantern-example.translated.example/q",
        "https://lantern.example@good.example/",
        "https://cache.example/search?q=cache:AbC123dEf:www.lantern.example/q/1/+x",
        "https://proxy.example/fetch;url=lantern.example/x",
        "https://proxy.example/fetch,lantern.example/x",
        "https://proxy.example/(lantern.example)/x",
        "https://proxy.example/?q=site+lantern.example",
        "https://proxy.example/?q=a%20LANTERN%252Eexample",
        "https://proxy.example/?x={%22url%22:%22lantern.example%22}",
        "https://proxy.example/?u=lantern\uff0eexample",
        "https://proxy.example/?u=lan\u00adtern.example",
        "https://proxy.example/?u=b\u00fccher.example",
        "https://proxy.example/" + "a/" * 60 + "lantern.example/q",
        "https://proxy.example/r?u=" + coded("https://lantern.example/q/1"),
        "https://proxy.example/r?u=a1" + coded("https://www.lantern.example/q?a=1"),
        "https://proxy.example/r/" + base64.b64encode(b"lantern.example/?x~~").decode(),
        "https://proxy.example/r?u=" + coded("https%3A%2F%2Flantern%2Eexample"),
    ],
)
def test_a_host_that_is_named_anywhere_in_an_address_is_refused(url: str) -> None:
    assert HOSTS.refusal(url) is not None


@given(
    front=st.sampled_from(["/", ",", ";", "(", ":", "=", "?a=", "#", "+", "%20", "%2520", "|", "/www.", "%22", "_"]),
    back=st.sampled_from(["", "/", ")", ",", ";x", ".mirror.example", "%22", ":443", "?a", "_"]),
)
def test_whatever_stands_around_a_blocked_host_it_is_found(front: str, back: str) -> None:
    assert HOSTS.refusal(f"https://proxy.example/go{front}lantern.example{back}") is not None


@given(text=st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789/?=&-%_,;"), max_size=200))
def test_an_address_without_the_labels_of_a_host_is_not_refused_for_it(text: str) -> None:
    # Without a dot there is no host in it; escapes of dots are not among the letters.
    if "%2e" not in text and "%25" not in text:
        assert BlockedAddresses(frozenset({"never-named.example"})).refusal(f"https://good.example/{text}") is None


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example/" + "a" * ADDRESS_CHARS,
        "https://good.example/?u=%25252525252541",
        "https://good.example/" + "a.b/" * 60,
        "https://good.example/" + ".".join("a" * 60),
    ],
)
def test_what_is_beyond_the_bounds_is_refused(url: str) -> None:
    assert HOSTS.refusal(url) is not None
    assert HOSTS.refusal(url[:30]) is None


def test_an_address_that_comes_again_is_judged_as_before() -> None:
    blocks = BlockedAddresses(frozenset({"lantern.example"}))
    bad, good = "https://lantern.example/q", "https://good.example/q"
    for _ in range(2):
        assert (blocks.refusal(bad) is None, blocks.refusal(good) is None) == (False, True)
        assert blocks.redact(f"See {bad} and {good} there.") == f"See {REDACTED} and {good} there."


def test_hostile_addresses_do_not_fill_the_memory() -> None:
    blocks = BlockedAddresses(frozenset({"lantern.example"}))
    for number in range(REMEMBERED_TEXTS + 10):
        assert blocks.refusal(f"https://good.example/{number}") is None
    assert blocks.refusal("https://good.example/" + "a" * REMEMBERED_CHARS) is None
    assert blocks.refusal("https://lantern.example/" + "a" * REMEMBERED_CHARS) is not None
    remembered = blocks._verdicts  # noqa: SLF001 - nothing else shows how much is kept
    assert len(remembered) == REMEMBERED_TEXTS
    assert max(map(len, remembered)) < REMEMBERED_CHARS


def test_words_with_dots_stay_in_a_text_and_addresses_that_lead_elsewhere_go() -> None:
    text = "The lantern.example.org of old, see https://go.example/x,lantern.example and https://good.example/a."
    assert HOSTS.redact(text) == f"The lantern.example.org of old, see {REDACTED} and https://good.example/a."


@pytest.mark.parametrize(
    "url",
    [
        "https://m.news.example/answer/1",
        "https://amp.news.example/answer/1",
        "https://www.m.news.example/answer/1",
        "https://news.example/amp/answer/1",
        "https://news.example/answer/1/amp/",
        "https://news.example/answer/1.amp",
        "https://news.example/answer/1.amp.html",
        "https://news.example/answer/1;jsessionid=2",
        "https://NEWS.example/Answer/1?utm=2",
        "https://news.example/./answer/1",
        "https://news.example/x/../answer/1",
        "https://news.example/answer/1/comments",
        "https://archive.example/web/2026/https://m.news.example/Answer/1",
        "https://cache.example/?q=cache:AbC:news.example/answer/1",
        "https://cache.example/x,news.example/answer/1",
    ],
)
def test_near_spellings_of_a_blocked_page_are_refused(url: str) -> None:
    assert PAGE.refusal(url) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://news.example/",
        "https://news.example/answer/12",
        "https://news.example/answer",
        "https://news.example/stamp/answer/1",
        "https://other.example/answer/1",
        "https://m.example/answer/1",
    ],
)
def test_other_pages_of_the_host_are_read(url: str) -> None:
    assert PAGE.refusal(url) is None


async def test_a_result_is_judged_by_the_address_behind_its_own_too(research: ResearchFixture) -> None:
    behind: SearchResult = hit("two", source_url="https://lantern.example/q")
    research.engine.hits = [hit("one", source_url="https://paper.example/"), behind]
    context = await research.open_trial(market())
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert "About one" in text
    assert "About two" not in text
    assert context.caught.blocked == 1
