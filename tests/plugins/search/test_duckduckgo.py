"""Results in the form of ddgs.results.TextResult, given by a stub that stands in for the library's class."""

import inspect
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import (
    ConfigError,
    MalformedDataError,
    PluginContext,
    PluginSettings,
    RequestRejectedError,
    SearchEngine,
    SearchResult,
    ServiceUnavailableError,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FixedResponseClient, RecordedRequest
from bot.testing.search_contract import SearchEngineContract
from plugins.search.duckduckgo import (
    NO_RESULTS_MESSAGE,
    DuckDuckGoSearch,
    DuckDuckGoSettings,
    foxcast_search_engines,
    open_duckduckgo,
)
from tests.plugins.search.shared_values import as_json

ddgs = pytest.importorskip("ddgs")
exceptions = pytest.importorskip("ddgs.exceptions")

SETTINGS = DuckDuckGoSettings()
RESULTS = [
    {"title": "Lanterns lit", "href": "https://harbour.example/lanterns", "body": "All seven lanterns are lit."},
    {"title": "Lamps", "href": "https://lamp.example/", "body": ""},
]


class FakeDdgsClient:
    """Stands in for ddgs.DDGS: gives or raises what it is made with, and notes how it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.made: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **options: Any) -> "FakeDdgsClient":
        self.made.append(options)
        return self

    def text(self, query: str, **options: Any) -> list[dict[str, Any]]:
        self.asked.append({"query": query, **options})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]  # odd answers too


def engine(stub: FakeDdgsClient, settings: DuckDuckGoSettings = SETTINGS) -> DuckDuckGoSearch:
    return DuckDuckGoSearch(settings, connect=stub, fault=exceptions.DDGSException)


class FakeHttpSearch:
    """Feeds what the kit answers over Http to the plugin as the answer of the library."""

    def __init__(self, http: FixedResponseClient) -> None:
        self.http = http

    def __call__(self, **options: Any) -> "FakeHttpSearch":
        return self

    def text(self, query: str, **options: Any) -> Any:
        self.http.requests.append(RecordedRequest("ddgs", {}, query))
        if isinstance(self.http.answer, Exception):
            raise self.http.answer
        try:
            return json.loads(self.http.answer)
        except (ValueError, RecursionError):
            return self.http.answer


class TestDuckDuckGo(SearchEngineContract):
    spec = foxcast_search_engines()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    reply = as_json(RESULTS)
    empty = b"[]"
    odd_responses = (b"", b"\xff", b"{}", b'"text"', b"[1]", b'[{"title": "no address"}]', b'[{"href": null}]', b"null")

    def open_engine(self, context: PluginContext) -> AbstractAsyncContextManager[SearchEngine]:
        assert isinstance(context.http, FixedResponseClient)
        return _yielding(
            DuckDuckGoSearch(SETTINGS, connect=FakeHttpSearch(context.http), fault=exceptions.DDGSException)
        )


@asynccontextmanager
async def _yielding(opened: SearchEngine) -> AsyncIterator[SearchEngine]:
    yield opened


async def test_the_library_is_asked_with_options_that_it_has() -> None:
    stub = FakeDdgsClient(RESULTS)
    settings = DuckDuckGoSettings(region="de-de", safesearch="off", freshness="w", timeout_s=7)
    await engine(stub, settings).search("lanterns", before=None, limit=5)
    (made,), (asked,) = stub.made, stub.asked
    assert made == {"timeout": 7}
    assert asked == {
        "query": "lanterns",
        "region": "de-de",
        "safesearch": "off",
        "timelimit": "w",
        "max_results": 5,
        "backend": "duckduckgo",
    }
    inspect.signature(ddgs.DDGS).bind(**made)
    inspect.signature(ddgs.DDGS.text).bind(None, **asked)
    assert set(asked) <= set(inspect.signature(ddgs.DDGS._search_sync).parameters)  # noqa: SLF001 - text hands all on
    assert "duckduckgo" in _engines()["text"]


async def test_results_become_undated_hits() -> None:
    hits = await engine(FakeDdgsClient(RESULTS)).search("lanterns", before=None, limit=5)
    assert list(hits) == [
        SearchResult(
            url="https://harbour.example/lanterns",
            title="Lanterns lit",
            snippet="All seven lanterns are lit.",
            published_at=None,
        ),
        SearchResult(url="https://lamp.example/", title="Lamps", snippet="", published_at=None),
    ]


async def test_a_page_without_results_is_no_fault() -> None:
    assert NO_RESULTS_MESSAGE in inspect.getsource(ddgs.DDGS._search_sync)  # noqa: SLF001 - the words are all it says
    assert (
        list(
            await engine(FakeDdgsClient(exceptions.DDGSException(NO_RESULTS_MESSAGE))).search("q", before=None, limit=5)
        )
        == []
    )


@pytest.mark.parametrize("name", ["DDGSException", "RatelimitException", "TimeoutException"])
async def test_a_fault_of_the_library_is_unavailable_and_keeps_the_query_to_itself(name: str) -> None:
    fault = getattr(exceptions, name)("https://html.duckduckgo.com/html?q=my+secret+plan")
    with pytest.raises(ServiceUnavailableError, match=f"^duckduckgo: {name}$"):
        await engine(FakeDdgsClient(fault)).search("my secret plan", before=None, limit=5)


async def test_a_search_that_takes_too_long_is_unavailable() -> None:
    with pytest.raises(ServiceUnavailableError, match="no answer within 20 s"):
        await engine(FakeDdgsClient(TimeoutError())).search("q", before=None, limit=5)


async def test_an_empty_query_is_rejected_before_it_is_sent() -> None:
    stub = FakeDdgsClient(RESULTS)
    with pytest.raises(RequestRejectedError, match="empty"):
        await engine(stub).search(" \n", before=None, limit=5)
    assert stub.asked == []


async def test_a_fault_names_the_field() -> None:
    with pytest.raises(MalformedDataError, match=r"^duckduckgo: 0\.body: "):
        await engine(FakeDdgsClient([{"href": "https://a.example", "body": 1}])).search("q", before=None, limit=5)


async def test_the_real_library_fits(tmp_path: Path) -> None:
    context = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with open_duckduckgo(SETTINGS, context) as opened:
        assert isinstance(opened, DuckDuckGoSearch)


async def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # What an installation without the extra looks like to an import.
    monkeypatch.setitem(sys.modules, "ddgs", None)
    context = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    with pytest.raises(ConfigError, match=r"pip install 'foxcast\[duckduckgo\]'"):
        async with open_duckduckgo(SETTINGS, context):
            pass


def _engines() -> dict[str, dict[str, Any]]:
    from ddgs.engines import ENGINES

    return ENGINES
