"""Reading a page by its address: which addresses are read live and of an earlier day, and what is shown of a page."""

import re

import pytest

from bot.config.schema import ResearchSection
from bot.core.errors import AuthenticationError, MalformedDataError, NotFoundError
from bot.core.redaction import register_secrets, temporary_secrets
from bot.testing.research import ScriptedModelGateway, drop_results
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture, data_question, hit, market, names


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/?know=0.3",
        "https://news.example/one?know=0.3",
        "https://news.example/one/0.3",
        "https://user:0.3@other.example/",
        "https://know.news.example/one",
    ],
)
async def test_of_an_earlier_day_an_address_that_the_model_makes_up_is_never_asked(
    research: ResearchFixture, url: str
) -> None:
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    research.engine.hits = [hit("one")]
    context = await research.open_trial(market(as_of=CUTOFF))
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": url})
    assert result.failed
    assert "neither from a search result nor from a page read before" in result.observation.text
    assert "reads addresses from search results and from pages read before, and no others" in result.observation.text
    assert research.fetcher.requests == []


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("https://agency.example/figures", "https://agency.example/figures"),
        ("agency.example/figures", "https://agency.example/figures"),
        (" https://agency.example/figures?year=2026#top ", "https://agency.example/figures?year=2026"),
        ("https://harbour.example/lamp/status", "https://harbour.example/lamp/status"),
        ("https://93.184.215.14/", "https://93.184.215.14/"),
        (f"https://agency.example/?q={'a' * 498}", f"https://agency.example/?q={'a' * 498}"),
    ],
)
async def test_live_any_public_address_is_read_from_the_first_step_on(
    research: ResearchFixture, asked: str, read: str
) -> None:
    research.fetcher.web = {read: "Figures\n12 lamps"}
    context = await research.open_trial(market(title="Lit?", background="", criteria="", url=""))
    assert "lookup_url" in names(context)
    result = await context.use_tool("lookup_url", {"url": asked})
    assert "12 lamps" in result.observation.text
    assert research.fetcher.requests == [read]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://me:0.3@agency.example/", "user name"),
        ("ftp://agency.example/", "not an address of the web"),
        ("http://10.0.0.1/", "private network"),
        ("http://169.254.169.254/latest/meta-data/", "the metadata service of a cloud"),
        ("http://[::1]/", "this machine"),
        ("http://localhost/", "name of a private network"),
        ("http://printer.local/", "name of a private network"),
        ("http://2130706433/", "unusual notation"),
        ("https://agency.example:8080/", "ports 80 and 443"),
        ("https://lantern.example/q/lamp", "not read for this question"),
        ("https://agency.example/?u=https://lantern.example/q/lamp", "not read for this question"),
        (f"https://agency.example/{'a' * 2_000}", "more than 2000 characters"),
        (f"https://agency.example/?q={'a' * 499}", "more than 500 characters after the question mark"),
        ("https://agency.example/?api_key=0123456789abcdef", "looks like a key"),
        ("https://agency.example/take/canary-7f31d2c9a4", "looks like a key"),
        ("https://agency.example/take/Y2FuYXJ5LTdmMzFkMmM5YTQ", "looks like a key"),
    ],
)
async def test_live_what_is_no_plain_public_address_is_refused_and_the_refusal_says_what_is_read(
    research: ResearchFixture, url: str, why: str
) -> None:
    context = await research.open_trial()
    with temporary_secrets():
        register_secrets("canary-7f31d2c9a4")
        result = await context.use_tool("lookup_url", {"url": url})
    assert result.failed
    assert why in result.observation.text
    assert "lookup_url reads public http and https addresses of at most 2000 characters" in result.observation.text
    assert research.fetcher.requests == []


async def test_the_description_says_which_addresses_are_read(research: ResearchFixture) -> None:
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    live, earlier = (
        await research.open_trial(),
        await research.open_trial(market(as_of=CUTOFF), charge=research.charge("f2")),
    )
    told = [{tool.name: tool.description for tool in context.all_tools}["lookup_url"] for context in (live, earlier)]
    assert "a page that the question names in its title, background or criteria" in told[0]
    assert "Only addresses from search results or from pages read before" in told[1]


async def test_a_long_page_is_read_part_by_part_and_no_word_is_torn(research: ResearchFixture) -> None:
    words = [f"word{number:04d}" for number in range(300)]
    url = "https://agency.example/long"
    research.fetcher.web = {url: f"Long\n{' '.join(words)} https://lantern.example/q/lamp"}
    research.section = ResearchSection(page_chars=1_000)
    context = await research.open_trial()
    results = [await context.use_tool("lookup_url", {"url": url, "part": part}) for part in (1, 2.0, 3)]
    texts = [result.observation.text for result in results]
    assert [result.data for result in results] == [{"part": number, "parts": 3} for number in (1, 2, 3)]
    assert [text.partition("\n")[0] for text in texts] == [
        "This is part 1 of 3 of the page. For the next, use lookup_url with part = 2.",
        "This is part 2 of 3 of the page. For the next, use lookup_url with part = 3.",
        "This is part 3 of 3 of the page.",
    ]
    assert re.findall(r"word\d{4}", " ".join(texts)) == words
    assert "[address left out]" in texts[2]
    beyond = await context.use_tool("lookup_url", {"url": url, "part": 4})
    assert beyond.failed
    assert "The page has 3 parts, so there is no part 4." in beyond.observation.text


async def test_where_a_page_cannot_be_read_all_that_the_search_brought_of_it_is_shown(
    research: ResearchFixture,
) -> None:
    story = f"{'The keeper counts. ' * 100}It was dark."
    research.engine.hits = [hit("one", text=story), hit("two")]
    research.fetcher.web = {
        hit("one").url: AuthenticationError("paywall"),
        hit("two").url: AuthenticationError("paywall"),
    }
    context = await research.open_trial()
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": hit("one").url})
    assert not result.failed
    assert "The page itself was not read: there is no access." in result.observation.text
    assert "It was dark." in result.observation.text
    # Of this one the search has shown all there is.
    assert (await context.use_tool("lookup_url", {"url": hit("two").url})).failed


async def test_an_address_is_asked_as_it_was_found_however_the_model_writes_it(research: ResearchFixture) -> None:
    research.fetcher.web = {
        "https://news.example/one": "One\nMore at https://more.example/two.",
        "https://more.example/two": "Two",
    }
    research.engine.hits = [hit("one")]
    context = await research.open_trial()
    await context.use_tool("web_search", {"query": "lamp"})
    for url in ("http://me:secret@WWW.news.example:80/one/#secret", "https://more.example/two"):
        assert not (await context.use_tool("lookup_url", {"url": url})).failed
    assert research.fetcher.requests == ["https://news.example/one", "https://more.example/two"]


async def test_a_question_about_data_may_be_worked_on_with_its_own_page_today(research: ResearchFixture) -> None:
    research.fetcher.web = {"https://tides.example/series/LEVEL": "Level\n12 cm"}
    context = await research.open_trial(data_question(as_of=None))
    assert (
        "12 cm"
        in (await context.use_tool("lookup_url", {"url": "https://tides.example/series/LEVEL"})).observation.text
    )


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (NotFoundError("404"), "no such thing"),
        (MalformedDataError("x"), "could not be read"),
        (OSError("bug"), "could not be read"),
    ],
)
async def test_a_page_that_cannot_be_read_is_a_failure_in_neutral_words(
    research: ResearchFixture, page: Exception, why: str
) -> None:
    research.engine.hits = [hit("one")]
    research.fetcher.web = {"https://news.example/one": page}
    context = await research.open_trial()
    await context.use_tool("web_search", {"query": "lamp"})
    result = await context.use_tool("lookup_url", {"url": "https://news.example/one"})
    assert result.failed
    assert why in result.observation.text
