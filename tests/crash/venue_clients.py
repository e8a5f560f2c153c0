"""What a killed process has at each venue: its writer, its paper book, and the orders that it plans."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.core.clock import SeededRandom, SystemClock
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.plugin_specs import PaperBookContext, VenueWriterContext
from bot.core.values import Json
from bot.execution.paper.paper_book import PaperBook
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.store.intents import ORDER_SERIALIZER
from bot.testing.venue import FakeSubmitter
from plugins.manifold.paper_market import open_paper as open_manifold_paper
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.writer import ManifoldWriter
from plugins.metaculus.paper_record import MetaculusPaperRecord
from plugins.metaculus.paper_record import open_paper as open_metaculus_paper
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.writer import MetaculusWriter
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_client import SignerClient, signer_opening
from plugins.polymarket.writer import PolymarketWriter
from tests.crash.kill_points import FastClock, KillableRuns, KillableWriteClient, KillCountdown
from tests.crash.unprotected_exchange import UnprotectedExchangeWriter
from tests.plugins.polymarket.writer_fixture import InProcessSigner

if TYPE_CHECKING:
    from bot.core.interfaces import HttpClient, VenueSubmitter

# Canaries: in no file that a story leaves.
TOKEN, KEY = "5f1d0b7e" * 5, "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21"
USERNAME = "samplebot"
COST, LIMIT = 10.0, 0.55
# What the story of a venue that is paid in dollars notes for its lives: settings, and orders by question.
DOLLARS, DOLLAR_COST = "polymarket.json", 10.2
CASH, DELAY_S = 1_000.0, 5.0
_SETTINGS_LIMITS = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """What the clients of a venue are opened with."""

    clock: FastClock
    fuse: KillCountdown
    folder: Path
    url: str
    number: int


Opener = Callable[[ClientContext], "AbstractAsyncContextManager[VenueSubmitter]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueClients:
    """``cost`` is what an order may cost, 0 where nothing is traded; all of them together may cost ``cap``.

    ``order`` gets the folder of the scenario, and the key of the question.
    """

    writer: Opener
    paper: Opener
    order: Callable[[Path, str], Order] = lambda _, key: _mana(key)
    cost: float = 0.0
    cap: float = 0.0


@asynccontextmanager
async def _open_http() -> AsyncIterator[RetryingHttpClient]:
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=_SETTINGS_LIMITS) as http:
        yield http


@asynccontextmanager
async def _open_context(tools: ClientContext) -> AsyncIterator[VenueWriterContext]:
    rates = RateLimiter((), clock=SystemClock(), random=SeededRandom(1))
    async with _open_http() as http, HttpWriteClient(rates=rates) as wire:
        mortal = KillableWriteClient(wire, tools.fuse, tools.number)
        yield VenueWriterContext(clock=tools.clock, http=http, folder=tools.folder, wire=mortal)


def _paper_place(tools: ClientContext, http: HttpClient) -> PaperBookContext:
    return PaperBookContext(clock=tools.clock, http=http, folder=tools.folder, cash=CASH, delay_s=DELAY_S)


@asynccontextmanager
async def _exchange_writer(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    async with _open_context(tools) as place:
        yield UnprotectedExchangeWriter(url=tools.url, clock=place.clock, http=place.http, wire=place.wire)


@asynccontextmanager
async def _memory(_: ClientContext) -> AsyncIterator[VenueSubmitter]:
    yield FakeSubmitter()


@asynccontextmanager
async def _manifold(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    async with _open_context(tools) as place:
        yield ManifoldWriter(manifold_settings(tools.url), place)


@asynccontextmanager
async def _manifold_paper(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    async with (
        _open_http() as http,
        open_manifold_paper(manifold_settings(tools.url), _paper_place(tools, http)) as book,
    ):
        if not isinstance(book, PaperBook):
            message = f"a {type(book).__name__} is no paper book"
            raise TypeError(message)
        file = replace(book.database, writer=KillableRuns(book.database.writer, tools.fuse, " of the book"))
        yield replace(book, database=file)


@asynccontextmanager
async def _metaculus(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    async with _open_context(tools) as place:
        yield MetaculusWriter(metaculus_settings(tools.url), place)


@asynccontextmanager
async def _metaculus_paper(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    place = _open_http()
    async with place as http, open_metaculus_paper(metaculus_settings(tools.url), _paper_place(tools, http)) as record:
        if not isinstance(record, MetaculusPaperRecord):
            message = f"a {type(record).__name__} is no paper record"
            raise TypeError(message)
        book = record.book
        file = replace(book.database, writer=KillableRuns(book.database.writer, tools.fuse, " of the book"))
        yield MetaculusPaperRecord(replace(book, database=file))


@asynccontextmanager
async def _polymarket(tools: ClientContext) -> AsyncIterator[VenueSubmitter]:
    settings = PolymarketSettings(**_noted(tools.folder)["settings"])
    async with _open_context(tools) as place:
        yield PolymarketWriter(settings, place, SignerClient(signer_opening(settings, tools.folder), InProcessSigner()))


def _noted(folder: Path) -> Mapping[str, Any]:
    noted: Mapping[str, Any] = json.loads((folder / DOLLARS).read_text(encoding="utf-8"))
    return noted


def manifold_settings(url: str) -> ManifoldSettings:
    return ManifoldSettings(key=SecretStr(KEY), username=USERNAME, base_url=url)


def metaculus_settings(url: str) -> MetaculusSettings:
    return MetaculusSettings(token=SecretStr(TOKEN), base_url=url, tournaments=("sample-aib",))


def _mana(key: str) -> Order:
    terms: dict[str, Json] = {
        "market": key,
        "answer": "",
        "limit_prob": f"{LIMIT}",
        "type": "BINARY",
    }
    return Order(
        contract=key,
        leg=ContractSide.YES,
        side=OrderSide.BUY,
        shares=COST / 0.525,
        limit=LIMIT,
        cost=COST,
        expected=0.525,
        currency="MANA",
        terms=terms,
        stake=COST,
    )


VENUE_CLIENTS: dict[str, VenueClients] = {
    "bazaar": VenueClients(writer=_exchange_writer, paper=_memory, cost=COST, cap=3 * COST),
    "metaculus": VenueClients(writer=_metaculus, paper=_metaculus_paper),
    "polymarket": VenueClients(
        writer=_polymarket,
        paper=_memory,
        order=lambda folder, key: ORDER_SERIALIZER.decode(_noted(folder)["orders"][key]),
        cost=DOLLAR_COST,
        cap=4.4 * DOLLAR_COST,
    ),
    "manifold": VenueClients(writer=_manifold, paper=_manifold_paper, cost=COST, cap=4 * COST),
}
