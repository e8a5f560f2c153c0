"""The three interfaces of the venue on one real socket, as far as reading goes, and the plugin in front of them."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bot.api import PluginContext, Question, QuestionRef, Resolution
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.testing.clock import FakeClock
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.questions import question_ref
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings


@dataclass(slots=True)
class FakePolymarketData:
    """What the venue holds; ``seen`` are the requests, ``override`` answers in place of the rules."""

    markets: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    books: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    long: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    clamp: int = 100
    ignores_cursor: bool = False
    seen: list[ReceivedRequest] = field(default_factory=list)
    override: Callable[[ReceivedRequest], ScriptedResponse | None] = lambda _: None

    def queries(self, path: str) -> list[dict[str, list[str]]]:
        """The parameters of all requests to a path."""
        split = [urlsplit(request.path) for request in self.seen]
        return [parse_qs(url.query) for url in split if url.path == path]

    def paths(self) -> set[str]:
        return {urlsplit(request.path).path for request in self.seen}

    def add(self, *records: dict[str, Any], books: dict[str, dict[str, Any]] | None = None) -> None:
        for record in records:
            (self.events if "markets" in record else self.markets).append(record)
        self.books |= books or {}

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        self.seen.append(request)
        if (sent := self.override(request)) is not None:
            return sent
        url = urlsplit(request.path)
        asked = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        answer = self._answer(request, parts, asked)
        return ScriptedResponse(status=404, body=b'{"error":"not found"}') if answer is None else _json(answer)

    def _answer(self, request: ReceivedRequest, parts: list[str], asked: dict[str, list[str]]) -> Any:
        match parts:
            case ["gamma", *rest]:
                return self._described(rest, asked)
            case ["clob", "books"] if request.method == "POST":
                return self._books([item["token_id"] for item in json.loads(request.body)])
            case ["clob", "book"]:
                return self.books.get(asked["token_id"][0])
            case ["clob", "markets", condition]:
                return self.long.get(condition)
            case ["data", "v2", path]:
                return {"data": self._data(path, asked), "pagination": {"limit": 100, "has_more": False}}
        return None

    def _described(self, parts: list[str], asked: dict[str, list[str]]) -> Any:
        match parts:
            case [kind, "keyset"]:
                return self._page(kind, asked)
            case ["tags", "slug", slug]:
                return {"id": self.tags[slug], "slug": slug} if slug in self.tags else None
            case [kind, "slug", slug]:
                return next((one for one in self._records(kind) if one["slug"] == slug), None)
            case ["events", number]:
                return next((one for one in self.events if one["id"] == number), None)
        return None

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return self.events if kind == "events" else self.markets

    def _data(self, path: str, asked: dict[str, list[str]]) -> list[dict[str, Any]]:
        if path == "resolutions":
            names = asked["condition_id"][0].split(",")
            assert len(names) <= 20
            return [self.rows[name] for name in names if name in self.rows]
        return [point for point in self.history if point["timestamp"] <= int(asked["as_of"][0])][-1:]

    def _books(self, names: list[str]) -> list[dict[str, Any]]:
        """In another order than was asked for, without those that do not exist."""
        assert len(names) <= 500
        return [self.books[name] for name in reversed(names) if name in self.books]

    def _page(self, kind: str, asked: dict[str, list[str]]) -> dict[str, Any]:
        assert asked["closed"][0] in {"true", "false"}
        found = [record for record in self._records(kind) if str(record["closed"]).lower() == asked["closed"][0]]
        found = [record for record in found if record.get("version", "v1") in asked.get("version", ["v1"])]
        if "condition_ids" in asked:
            found = [record for record in found if record["conditionId"] in asked["condition_ids"]]
        start = 0 if self.ignores_cursor else int(asked.get("after_cursor", ["0"])[0])
        size = min(int(asked["limit"][0]), self.clamp)
        page = {kind: found[start : start + size]}
        # One that ignores cursors hands out new ones all the same.
        cursor = f"new-{len(self.seen)}" if self.ignores_cursor else str(start + size)
        return page | ({"next_cursor": cursor} if start + size < len(found) else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketFixture:
    """The venue and the plugin, on one clock that stands still."""

    world: FakePolymarketData
    server: LoopbackServer
    clock: FakeClock
    place: PluginContext
    settings: PolymarketSettings
    reader: PolymarketReader
    client: PolymarketClient

    def set(self, **changes: Any) -> "PolymarketFixture":
        """The same with other settings."""
        settings = PolymarketSettings.model_validate({**self.settings.model_dump(), **changes})
        return PolymarketFixture(
            world=self.world,
            server=self.server,
            clock=self.clock,
            place=self.place,
            settings=settings,
            reader=PolymarketReader(settings, self.place),
            client=PolymarketClient(settings, self.place.http),
        )

    async def questions(self) -> list[Question]:
        return [question async for question in self.reader.questions()]

    async def resolutions(self, *keys: str) -> dict[str, Resolution]:
        pending: list[QuestionRef] = [question_ref(key) for key in keys]
        return {found.ref.key: found async for found in self.reader.resolutions(pending)}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[PolymarketFixture]:
    world, clock = FakePolymarketData(), FakeClock()
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with (
        LoopbackServer(world.answer) as server,
        RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=limits) as http,
    ):
        settings = PolymarketSettings(
            gamma_url=f"{server.address}/gamma",
            clob_url=f"{server.address}/clob",
            data_url=f"{server.address}/data",
            site_url=f"{server.address}/site",
            socket_url=server.address.replace("http", "ws"),
            test_host=server.address.removeprefix("http://"),
        )
        place = PluginContext(clock=clock, http=http, folder=tmp_path / "polymarket")
        yield PolymarketFixture(
            world=world,
            server=server,
            clock=clock,
            place=place,
            settings=settings,
            reader=PolymarketReader(settings, place),
            client=PolymarketClient(settings, http),
        )


def _json(answer: Any) -> ScriptedResponse:
    return ScriptedResponse(body=json.dumps(answer).encode())
