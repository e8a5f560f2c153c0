"""The press and the statistical office of a simulated world, asked over HTTP as a program asks them."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from bot.net.html.extraction import extract_page
from bot.simulator.faults import RequestFault
from bot.simulator.world.news import ArticleKind, HostileTrick, NewsArticle
from bot.simulator.world.news_language import find_claims
from bot.simulator.world.news_server import MAX_RESULTS, REQUESTS_PER_SECOND, NewsServer
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.clock import FakeClock

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START + timedelta(days=60))


@pytest.fixture
def press(clock: FakeClock) -> NewsServer:
    return NewsServer(clock, SimulatedWorld(seed=11, start=START, size=60))


@pytest.fixture
async def web(press: NewsServer) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=press)
    async with httpx.AsyncClient(transport=transport, base_url="http://press.example") as client:
        yield client


async def found(web: httpx.AsyncClient, **asked: Any) -> list[dict[str, Any]]:
    reply = await web.get("/search", params=asked)
    assert reply.status_code == 200, reply.text
    content = reply.json()
    assert content["simulation"] is True
    results: list[dict[str, Any]] = content["results"]
    return results


def all_articles(press: NewsServer, kind: ArticleKind) -> list[NewsArticle]:
    keys = [ask.key for ask in press.world.questions]
    return [article for key in keys for article in press.news.articles(key) if article.kind is kind]


async def test_nothing_of_the_future_is_found(press: NewsServer, web: httpx.AsyncClient, clock: FakeClock) -> None:
    for ask in press.world.questions[::7]:
        for result in await found(web, q=ask.title, n=MAX_RESULTS):
            assert datetime.fromisoformat(result["published"]) <= clock.now()
        await clock.advance(1.0)


async def test_the_bound_is_kept_to_the_second(press: NewsServer, web: httpx.AsyncClient) -> None:
    ask = press.world.open(60.0)[0]
    newest = max(await found(web, q=ask.title), key=lambda result: str(result["published"]))
    before = await found(web, q=ask.title, before=newest["published"], n=MAX_RESULTS)
    assert newest["url"] not in {result["url"] for result in before}
    assert all(result["published"] < newest["published"] for result in before)


async def test_rare_words_count_for_more(press: NewsServer, web: httpx.AsyncClient) -> None:
    article = next(one for one in all_articles(press, ArticleKind.RELEVANT) if one.published < 60.0)
    results = await found(web, q=f"the weather of {press.world.by_key[article.about].background}", n=3)
    assert {result["url"].rpartition("/")[2].rpartition("-")[0] for result in results} == {article.about}


async def test_words_that_nobody_wrote_find_nothing(web: httpx.AsyncClient) -> None:
    assert await found(web, q="qqqq zzzz") == []


@pytest.mark.parametrize(
    "query", ["q=", "q=x&n=0", "q=x&n=21", "q=x&n=many", "q=x&before=soon", "q=x&before=2026-03-01T00:00:00", "n=3"]
)
async def test_odd_requests_are_refused_with_the_remedy(web: httpx.AsyncClient, query: str) -> None:
    reply = await web.get(f"/search?{query}")
    assert reply.status_code == 400
    assert reply.json()["error"]


async def test_what_is_not_there_is_not_found(press: NewsServer, web: httpx.AsyncClient) -> None:
    late = next(one for one in all_articles(press, ArticleKind.RELEVANT) if one.published > 61.0)
    for path in ("/news/nothing", "/news/f000-99", f"/news/{late.id}", "/series/SIM-NONE-X000", "/elsewhere"):
        assert (await web.get(path)).status_code == 404


async def test_too_many_requests_are_turned_away(web: httpx.AsyncClient, clock: FakeClock) -> None:
    codes = [(await web.get("/search?q=x")).status_code for _ in range(REQUESTS_PER_SECOND + 1)]
    assert codes == [200] * REQUESTS_PER_SECOND + [429]
    await clock.advance(2.0)
    assert (await web.get("/search?q=x")).status_code == 200


async def test_a_page_has_its_date_where_machines_look_and_says_what_it_is(
    press: NewsServer, web: httpx.AsyncClient
) -> None:
    article = next(one for one in all_articles(press, ArticleKind.RELEVANT) if one.published < 60.0)
    reply = await web.get(f"/news/{article.id}")
    published = press.world.calendar.moment_of(article.published).isoformat(timespec="seconds")
    assert f'article:published_time" content="{published}"' in reply.text
    assert "simulation" in reply.text
    assert reply.headers["X-Simulation"] == "yes"
    assert find_claims(reply.text) == [] or [claim.strength for claim in find_claims(reply.text)] == [
        claim.strength for claim in find_claims(article.versions[0].text)
    ]


async def test_a_page_that_was_rewritten_keeps_its_date(
    press: NewsServer, web: httpx.AsyncClient, clock: FakeClock
) -> None:
    article = next(
        one for one in all_articles(press, ArticleKind.EDITED) if one.published < 60.0 < one.versions[1].day < 400
    )
    first = await web.get(f"/news/{article.id}")
    await clock.advance((article.versions[1].day - 59.0) * 86_400.0)
    again = await web.get(f"/news/{article.id}")
    assert first.text != again.text
    dates = [page.text.partition('published_time" content="')[2][:25] for page in (first, again)]
    assert dates == [press.world.calendar.moment_of(article.published).isoformat(timespec="seconds")] * 2


async def test_hidden_text_is_in_the_page_and_not_in_what_people_read(
    press: NewsServer, web: httpx.AsyncClient, clock: FakeClock
) -> None:
    await clock.advance(400 * 86_400.0)
    traps = [one for one in all_articles(press, ArticleKind.HOSTILE) if one.trick is HostileTrick.HIDDEN]
    assert len(traps) > 5
    for article in traps:
        page = await web.get(f"/news/{article.id}")
        await clock.advance(1.0)
        words = article.versions[0].hidden.split()[-4:]
        assert " ".join(words) in page.text.replace("&#x27;", "'")
        shown = extract_page(page.content, "text/html", max_chars=20_000)
        assert " ".join(words) not in shown.text


async def test_a_series_is_as_it_was_at_any_moment(press: NewsServer, web: httpx.AsyncClient) -> None:
    name, strip = next(iter(press.world.series_by_name.items()))
    as_of = START + timedelta(days=20, hours=12)
    content = (await web.get(f"/series/{name}", params={"as_of": as_of.isoformat()})).json()
    assert content["simulation"] is True
    assert (content["name"], content["unit"]) == (name, strip.unit)
    assert [day for day, _ in content["points"]] == [f"{START + timedelta(days=day):%Y-%m-%d}" for day in range(20)]
    # The value of a day is the one at its end.
    assert [value for _, value in content["points"]] == [strip.value(day + 1.0) for day in range(20)]
    whole = (await web.get(f"/series/{name}")).json()["points"]
    assert (len(whole), whole[:20]) == (60, content["points"])


async def test_faults_are_on_the_menu(press: NewsServer, web: httpx.AsyncClient) -> None:
    press.faults.schedule(RequestFault.ERROR_BEFORE, path="/search")
    press.faults.schedule(RequestFault.PAGE_BEFORE, path="/search")
    replies = [await web.get("/search?q=x") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [502, 200, 200]
    with pytest.raises(json.JSONDecodeError):
        replies[1].json()
    assert replies[2].json()["simulation"] is True
