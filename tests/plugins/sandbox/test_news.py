"""The search engine of the sandbox: the kit of all engines, and the real service behind it."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from bot.api import PluginContext, PluginSettings, SearchEngine
from bot.core.clock import SeededRandom
from bot.net.client import RetryingHttpClient
from bot.simulator.fake_service import serve_service
from bot.simulator.world.news import ArticleKind
from bot.simulator.world.news_server import NewsServer
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.clock import FakeClock
from bot.testing.http import RecordedRequest
from bot.testing.search_contract import ODD_RESPONSES, SearchEngineContract
from plugins.sandbox import foxcast_search_engines
from plugins.sandbox.news import SandboxNews
from plugins.sandbox.settings import SandboxSettings
from tests.plugins.search.shared_values import LEAP_DAY, MIDNIGHT, NOON, as_json

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=60)


def result(number: int, published: str) -> dict[str, object]:
    return {
        "url": f"http://127.0.0.1:8750/news/f001-{number:02d}",
        "title": "Notes on a launch",
        "outlet": "The Bralt Post",
        "snippet": "Few subjects ...",
        "text": "Few subjects are discussed as much. A launch is all but certain.",
        "published": published,
    }


class TestSandboxNews(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SandboxSettings()
    reply = as_json(
        {
            "simulation": True,
            "query": "x",
            "results": [result(1, "2026-03-04T08:12:00+00:00"), result(2, "2026-03-01T00:00:00+02:00")],
        }
    )
    empty = as_json({"simulation": True, "query": "x", "results": []})
    odd_responses = (
        *ODD_RESPONSES,
        as_json({"results": []}),
        as_json({"simulation": False, "results": []}),
        as_json({"simulation": True, "results": [result(1, "2026-03-04T08:12:00")]}),
    )
    expected_date_bounds: ClassVar = {moment: moment for moment in (MIDNIGHT, NOON, LEAP_DAY)}

    def date_bound_of(self, asked: RecordedRequest) -> object:
        found = parse_qs(urlsplit(asked.url).query).get("before")
        return None if found is None else datetime.fromisoformat(found[0])


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1", "http://news.example", "http://127.0.0.1.example", "http://127.0.0.1:80/x", ""]
)
def test_it_reads_nothing_but_this_machine(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        SandboxSettings(base_url=url)


def test_it_says_that_it_is_a_simulation() -> None:
    assert all("imulation" in spec.summary for spec in foxcast_search_engines())


@asynccontextmanager
async def engine_on(press: NewsServer, folder: Path) -> AsyncIterator[SearchEngine]:
    http = RetryingHttpClient(clock=press.clock, random=SeededRandom(1))
    async with serve_service(press) as served, aclosing(http):
        yield SandboxNews(
            SandboxSettings(base_url=served.url), PluginContext(clock=press.clock, http=http, folder=folder)
        )


async def test_the_title_of_a_question_finds_what_is_written_about_it(tmp_path: Path) -> None:
    press = NewsServer(FakeClock(NOW), SimulatedWorld(seed=3, start=START, size=60))
    async with engine_on(press, tmp_path) as engine:
        for ask in press.world.open(60.0):
            hits = await engine.search(ask.title, before=None, limit=3)
            own = {one.id for one in press.news.articles(ask.key)}
            assert hits[0].url.rpartition("/")[2] in own
            assert all("simulation" in hit.title for hit in hits)
            assert all(hit.published_at is not None and hit.published_at <= NOW for hit in hits)


async def test_a_bound_is_kept_and_an_article_that_was_rewritten_slips_through_it(tmp_path: Path) -> None:
    press = NewsServer(FakeClock(START + timedelta(days=365)), SimulatedWorld(seed=3, start=START, size=60))
    pages = (
        one for ask in press.world.questions for one in press.news.articles(ask.key) if one.kind is ArticleKind.EDITED
    )
    article = next(one for one in pages if one.versions[1].day < 360.0)
    before = press.world.calendar.moment_of(article.published + 0.5)
    async with engine_on(press, tmp_path) as engine:
        hits = await engine.search(press.world.by_key[article.about].title, before=before, limit=20)
    assert all(hit.published_at is not None and hit.published_at < before for hit in hits)
    (found,) = (hit for hit in hits if hit.url.endswith(article.id))
    assert found.text == article.versions[1].text != article.versions[0].text
