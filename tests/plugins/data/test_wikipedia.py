"""Replies in the form of the API's action=query&prop=revisions (formatversion 2)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError, NotFoundError, Passage, PluginContext, PluginSettings, ServiceUnavailableError
from bot.testing.data_contract import ReferencePagesContract
from plugins.data.wikipedia import foxcast_data_sources, open_wikipedia
from plugins.data.wikipedia.revisions import MAX_CACHED_REVISIONS, PageTitle, WikipediaSettings, parse_title
from tests.plugins.data.shared_values import answered, as_json, asked_in, real_questions, web

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
SETTINGS = WikipediaSettings(contact="ada@lantern.example")
SOURCE = """'''FIDE rankings''' are published by [[FIDE|the federation]].
== Top players ==
=== Open ===
{| class="wikitable"
! Rank !! Player !! Rating
|-
| 1 || {{flagathlete|[[Magnus Carlsen]]|NOR}} || 2839
|}
=== Women ===
Hou Yifan leads.
"""


def url(title: str, moment: str = "2026-03-04T23:59:59Z", language: str = "en") -> str:
    asked = {
        "action": "query",
        "prop": "revisions",
        "titles": title,
        "rvlimit": "1",
        "rvdir": "older",
        "rvstart": moment,
        "rvprop": "ids|timestamp|content",
        "rvslots": "main",
        "format": "json",
        "formatversion": "2",
    }
    return f"https://{language}.wikipedia.org/w/api.php?{urlencode(asked)}"


def revision(text: str | None, at: str = "2026-03-02T10:15:00Z", **slot: Any) -> dict[str, Any]:
    main = {"contentmodel": "wikitext", "contentformat": "text/x-wiki", **slot}
    return {
        "revid": 1280,
        "parentid": 1279,
        "timestamp": at,
        "slots": {"main": main | ({"content": text} if text else {})},
    }


def reply(*revisions: dict[str, Any], title: str = "FIDE rankings", **page: Any) -> bytes:
    found = {"pageid": 42, "ns": 0, "title": title, **({"revisions": list(revisions)} if revisions else {}), **page}
    return as_json({"batchcomplete": True, "query": {"pages": [found]}})


def missing(title: str) -> bytes:
    return as_json({"batchcomplete": True, "query": {"pages": [{"ns": 0, "title": title, "missing": True}]}})


class TestWikipedia(ReferencePagesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = {url("FIDE rankings"): reply(revision(SOURCE)), url("No such page"): missing("No such page")}
    now = NOW
    page = "https://en.wikipedia.org/wiki/FIDE_rankings"
    before = BEFORE
    missing = "No such page"


async def section(context: PluginContext, page: str, heading: str = "", *, before: datetime = BEFORE) -> Passage:
    async with open_wikipedia(SETTINGS, context) as source:
        return await source.section(page, heading, before=before)


async def test_a_section_is_the_text_of_the_revision_with_what_is_below_it(tmp_path: Path) -> None:
    context, http = web(TestWikipedia.pages, tmp_path, now=NOW)
    found = await section(context, "FIDE_rankings", "top_players")
    assert found == Passage(
        url="https://en.wikipedia.org/w/index.php?oldid=1280",
        page="FIDE rankings",
        heading="top_players",
        text="=== Open ===\n| Rank | Player | Rating |\n| 1 | Magnus Carlsen NOR | 2839 |\n"
        "=== Women ===\nHou Yifan leads.",
        revised_at=datetime(2026, 3, 2, 10, 15, tzinfo=UTC),
    )
    assert http.requests[0].headers == {"User-Agent": "foxcast (ada@lantern.example)"}


async def test_the_lead_is_what_stands_before_the_first_heading(tmp_path: Path) -> None:
    context, _ = web(TestWikipedia.pages, tmp_path, now=NOW)
    assert (await section(context, "FIDE rankings")).text == "FIDE rankings are published by the federation."


@pytest.mark.parametrize(
    ("before", "start"),
    [
        (datetime(2026, 3, 5, tzinfo=UTC), "2026-03-04T23:59:59Z"),
        (datetime(2026, 3, 5, 0, 0, 0, 1, tzinfo=UTC), "2026-03-05T00:00:00Z"),
        (datetime.fromisoformat("2026-03-05T14:00:00+14:00"), "2026-03-04T23:59:59Z"),
        (datetime.fromisoformat("2026-03-04T12:30:00-11:30"), "2026-03-04T23:59:59Z"),
        (datetime(2024, 3, 1, tzinfo=UTC), "2024-02-29T23:59:59Z"),
    ],
    ids=str,
)
async def test_the_listing_begins_with_the_last_second_before_the_moment(
    before: datetime, start: str, tmp_path: Path
) -> None:
    context, http = answered(reply(revision(SOURCE, "2020-01-01T00:00:00Z")), tmp_path, now=NOW)
    await section(context, "FIDE rankings", before=before)
    assert asked_in(http.requests[0].url)["rvstart"] == start


@pytest.mark.parametrize("at", ["2026-03-05T00:00:00Z", "2026-03-05T00:00:01Z", "2026-03-01T00:00:00"])
async def test_a_revision_that_is_not_from_before_the_moment_is_a_contract_error(at: str, tmp_path: Path) -> None:
    context, _ = answered(reply(revision(SOURCE, at)), tmp_path, now=NOW)
    with pytest.raises(MalformedDataError, match="before 2026-03-05"):
        await section(context, "FIDE rankings")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        # The same for all three: that there is a page today would tell that it happened.
        (missing("X"), "there was no page X before"),
        (reply(title="X"), "there was no page X before"),
        (reply(title="X", invalid=True, invalidreason="bad"), "there was no page X before"),
        (reply(revision(None, texthidden=True)), "was withdrawn"),
    ],
    ids=["missing", "younger", "invalid", "hidden"],
)
async def test_a_page_that_was_not_there_is_not_found(body: bytes, why: str, tmp_path: Path) -> None:
    context, _ = answered(body, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match=why):
        await section(context, "X")


async def test_an_unknown_heading_says_which_there_are(tmp_path: Path) -> None:
    context, _ = web(TestWikipedia.pages, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="it has Top players, Open, Women"):
        await section(context, "FIDE rankings", "Juniors")


async def test_what_redirected_then_is_followed_as_of_then(tmp_path: Path) -> None:
    pages = {
        url("Chess rankings"): reply(revision("#REDIRECT [[FIDE rankings#Open]]\n{{R from move}}")),
        url("FIDE rankings"): reply(revision(SOURCE)),
        url("Loop"): reply(revision("#redirect:[[Loop]]")),
    }
    context, http = web(pages, tmp_path, now=NOW)
    assert (await section(context, "Chess rankings")).page == "FIDE rankings"
    assert http.requested_urls == [url("Chess rankings"), url("FIDE rankings")]
    with pytest.raises(NotFoundError, match="redirects more than 2 times"):
        await section(context, "Loop")


async def test_the_title_of_today_is_not_shown(tmp_path: Path) -> None:
    body = reply(revision("Calm."), title="2026 coup in Ruritania")
    context, http = answered(body, tmp_path, now=NOW)
    found = await section(context, "2026 unrest in Ruritania")
    assert (found.page, found.text) == ("2026 unrest in Ruritania", "Calm.")
    assert "redirects" not in asked_in(http.requests[0].url)
    with pytest.raises(NotFoundError, match="2026 unrest in Ruritania has no heading"):
        await section(context, "2026 unrest in Ruritania", "No such")


async def test_a_redirect_to_what_is_no_title_is_not_found(tmp_path: Path) -> None:
    context, http = answered(reply(revision("#REDIRECT [[_]]")), tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="not the title"):
        await section(context, "X")
    assert len(http.requests) == 1


@pytest.mark.parametrize("text", [f"#a{' ' * 300_000}x", f"#{' ' * 300_000}", f"#a [[{'b' * 300_000}"])
async def test_what_only_begins_like_a_redirect_is_read_in_its_length(text: str, tmp_path: Path) -> None:
    context, _ = answered(reply(revision(text)), tmp_path, now=NOW)
    assert (await section(context, "X")).text.startswith("#")


@pytest.mark.parametrize("piece", ["*", "* ", "*[", "*[[|"])
async def test_a_list_of_pages_that_names_none_is_read_in_its_length(piece: str, tmp_path: Path) -> None:
    context, _ = answered(reply(revision(f"{{{{dab}}}}\n{piece * 100_000}")), tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="several pages"):
        await section(context, "X")


async def test_a_long_page_leaves_the_loop_to_the_others(tmp_path: Path) -> None:
    rows = '|-\n| a || b || "c" [[d|e]] {{nowrap|f}}\n' * 5_000
    context, _ = answered(reply(revision(f"{{|\n{rows}|}}")), tmp_path, now=NOW)
    loop, turns = asyncio.get_running_loop(), 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    turn()
    assert (await section(context, "X")).text.startswith('| a | b | "c" e f |')
    # Read in the loop, the page would be there after the first few.
    assert turns > 20


async def test_a_name_of_several_pages_offers_them(tmp_path: Path) -> None:
    text = "It may mean:\n* [[Mercury (planet)]], a planet\n* the [[Mercury (element)|metal]]\n{{disambiguation}}"
    context, _ = answered(reply(revision(text), title="Mercury"), tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match=r"ask for one of them: Mercury \(planet\); Mercury \(element\)"):
        await section(context, "Mercury")


@pytest.mark.parametrize(
    ("code", "kind"),
    [("maxlag", ServiceUnavailableError), ("ratelimited", ServiceUnavailableError), ("badvalue", MalformedDataError)],
)
async def test_an_error_of_the_service_says_who_must_act(code: str, kind: type[Exception], tmp_path: Path) -> None:
    context, _ = answered(as_json({"error": {"code": code, "info": "so it is"}}), tmp_path, now=NOW)
    with pytest.raises(kind, match=code):
        await section(context, "FIDE rankings")


async def test_a_page_is_read_once_for_each_moment(tmp_path: Path) -> None:
    context, http = answered(reply(revision(SOURCE, "2020-01-01T00:00:00Z")), tmp_path, now=NOW)
    async with open_wikipedia(SETTINGS, context) as source:
        for _ in range(3):
            await source.page_headings("FIDE rankings", before=BEFORE)
            await source.section("FIDE_rankings", "Open", before=BEFORE)
        assert len(http.requests) == 1
        await source.page_headings("FIDE rankings", before=datetime(2025, 1, 1, tzinfo=UTC))
        assert len(http.requests) == 2
        for number in range(MAX_CACHED_REVISIONS):
            await source.page_headings(f"Page {number}", before=BEFORE)
        await source.page_headings("FIDE rankings", before=BEFORE)
        assert len(http.requests) == 3 + MAX_CACHED_REVISIONS


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("FIDE rankings", PageTitle("en", "FIDE rankings")),
        (" FIDE_rankings ", PageTitle("en", "FIDE rankings")),
        ("https://en.wikipedia.org/wiki/FIDE_rankings#Top_players", PageTitle("en", "FIDE rankings")),
        ("http://de.m.wikipedia.org/wiki/Z%C3%BCrich?action=raw", PageTitle("de", "Zürich")),
        ("https://simple.wikipedia.org/w/index.php?title=Chess_ratings&oldid=7", PageTitle("simple", "Chess ratings")),
        ("https://zh-yue.wikipedia.org/wiki/A/B_testing", PageTitle("zh-yue", "A/B testing")),
        ("https://www.wikipedia.org/wiki/C%2B%2B", PageTitle("en", "C++")),
    ],
)
def test_a_page_is_named_by_title_or_address(page: str, title: PageTitle) -> None:
    assert parse_title(page, "en") == title


@pytest.mark.parametrize(
    "page",
    [
        "",
        "#Top",
        "A|B",
        "A\x07B",
        "https://en.wikipedia.org.evil.example/wiki/A",
        "https://wikipedia.org/wiki/A",
        "https://en.wikipedia.evil.example/wiki/A",
        "https://evil@en.wikipedia.example/wiki/A",
        "https://en.wikipedia.org/wiki/",
        "https://en.wikipedia.org/wiki/A%7CB",
        "https://[broken/wiki/A",
    ],
)
async def test_what_names_no_page_is_not_found_without_asking(page: str, tmp_path: Path) -> None:
    context, http = answered(reply(revision(SOURCE)), tmp_path, now=NOW)
    with pytest.raises(NotFoundError):
        await section(context, page)
    assert http.requests == []


def test_every_real_question_has_the_address_of_a_page(shared: Path) -> None:
    titles = Counter(parse_title(question.url or "", "en") for question in real_questions(shared, "wikipedia"))
    assert titles == {
        PageTitle("en", "List of infectious diseases"): 175,
        PageTitle("en", "FIDE rankings"): 98,
        PageTitle("en", "List of world records in swimming"): 33,
    }


@given(st.text(max_size=60))
def test_any_text_is_a_title_or_is_not_found(text: str) -> None:
    try:
        title = parse_title(text, "en")
    except NotFoundError:
        return
    assert title.text == " ".join(title.text.split())
    assert not {"|", "#", "_"} & set(title.text)
