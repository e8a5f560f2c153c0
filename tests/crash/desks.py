"""What a life has at each venue: its writer, its paper book, and the orders that it gives.

A venue that joins the campaign has a desk here, and a ground in ``grounds``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.clock import SeededRandom, SystemClock
from bot.domain.order import Leg, Order, Side
from bot.domain.step import Json
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.paper.book import PaperBook
from bot.specs import PaperPlace, WriterPlace
from bot.store.intents import ORDER
from bot.testing.book import MemoryBook
from plugins.manifold.paper import open_paper as open_manifold_paper
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.writer import ManifoldWriter
from plugins.metaculus.paper import PaperRecord
from plugins.metaculus.paper import open_paper as open_metaculus_paper
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.writer import MetaculusWriter
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_process import Signer, opening_of
from plugins.polymarket.writer import PolymarketWriter
from tests.crash.bazaar import BazaarWriter
from tests.crash.mortal import FastClock, Fuse, MortalRuns, MortalWire
from tests.plugins.polymarket.writer_stand import Inside

if TYPE_CHECKING:
    from bot.ports import Http, Submitter

# Canaries: in no file that a story leaves.
TOKEN, KEY = "5f1d0b7e" * 5, "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21"
USERNAME = "samplebot"
COST, LIMIT = 10.0, 0.55
# What the story of a venue that is paid in dollars notes for its lives: settings, and orders by question.
DOLLARS, DOLLAR_COST = "polymarket.json", 10.2
CASH, DELAY_S = 1_000.0, 5.0
_SETTINGS_LIMITS = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a desk is opened with."""

    clock: FastClock
    fuse: Fuse
    folder: Path
    url: str
    number: int


Opener = Callable[[Tools], "AbstractAsyncContextManager[Submitter]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """``cost`` is what an order may cost, 0 where nothing is traded; all of them together may cost ``cap``.

    ``order`` is told the folder of the story, and the key of the question.
    """

    writer: Opener
    paper: Opener
    order: Callable[[Path, str], Order] = lambda _, key: _mana(key)
    cost: float = 0.0
    cap: float = 0.0


@asynccontextmanager
async def _reading() -> AsyncIterator[RetryingHttpClient]:
    async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=_SETTINGS_LIMITS) as http:
        yield http


@asynccontextmanager
async def _place(tools: Tools) -> AsyncIterator[WriterPlace]:
    rates = RateLimiter((), clock=SystemClock(), random=SeededRandom(1))
    async with _reading() as http, HttpWriteClient(rates=rates) as wire:
        mortal = MortalWire(wire, tools.fuse, tools.number)
        yield WriterPlace(clock=tools.clock, http=http, folder=tools.folder, wire=mortal)


def _paper_place(tools: Tools, http: Http) -> PaperPlace:
    return PaperPlace(clock=tools.clock, http=http, folder=tools.folder, cash=CASH, delay_s=DELAY_S)


@asynccontextmanager
async def _bazaar(tools: Tools) -> AsyncIterator[Submitter]:
    async with _place(tools) as place:
        yield BazaarWriter(url=tools.url, clock=place.clock, http=place.http, wire=place.wire)


@asynccontextmanager
async def _memory(_: Tools) -> AsyncIterator[Submitter]:
    yield MemoryBook()


@asynccontextmanager
async def _manifold(tools: Tools) -> AsyncIterator[Submitter]:
    async with _place(tools) as place:
        yield ManifoldWriter(manifold_settings(tools.url), place)


@asynccontextmanager
async def _manifold_paper(tools: Tools) -> AsyncIterator[Submitter]:
    async with _reading() as http, open_manifold_paper(manifold_settings(tools.url), _paper_place(tools, http)) as book:
        if not isinstance(book, PaperBook):
            message = f"a {type(book).__name__} is no paper book"
            raise TypeError(message)
        file = replace(book.file, writer=MortalRuns(book.file.writer, tools.fuse, " of the book"))
        yield replace(book, file=file)


@asynccontextmanager
async def _metaculus(tools: Tools) -> AsyncIterator[Submitter]:
    async with _place(tools) as place:
        yield MetaculusWriter(metaculus_settings(tools.url), place)


@asynccontextmanager
async def _metaculus_paper(tools: Tools) -> AsyncIterator[Submitter]:
    place = _reading()
    async with place as http, open_metaculus_paper(metaculus_settings(tools.url), _paper_place(tools, http)) as record:
        if not isinstance(record, PaperRecord):
            message = f"a {type(record).__name__} is no paper record"
            raise TypeError(message)
        book = record.book
        file = replace(book.file, writer=MortalRuns(book.file.writer, tools.fuse, " of the book"))
        yield PaperRecord(replace(book, file=file))


@asynccontextmanager
async def _polymarket(tools: Tools) -> AsyncIterator[Submitter]:
    settings = PolymarketSettings(**_noted(tools.folder)["settings"])
    async with _place(tools) as place:
        yield PolymarketWriter(settings, place, Signer(opening_of(settings, tools.folder), Inside()))


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
        "amount": COST,
        "limit_prob": f"{LIMIT}",
        "type": "BINARY",
        "cancel": [],
    }
    return Order(
        contract=key,
        leg=Leg.YES,
        side=Side.BUY,
        shares=COST / 0.525,
        limit=LIMIT,
        cost=COST,
        expected=0.525,
        currency="MANA",
        terms=terms,
    )


DESKS: dict[str, Desk] = {
    "bazaar": Desk(writer=_bazaar, paper=_memory, cost=COST, cap=3 * COST),
    "metaculus": Desk(writer=_metaculus, paper=_metaculus_paper),
    "polymarket": Desk(
        writer=_polymarket,
        paper=_memory,
        order=lambda folder, key: ORDER.decode(_noted(folder)["orders"][key]),
        cost=DOLLAR_COST,
        cap=4.4 * DOLLAR_COST,
    ),
    "manifold": Desk(writer=_manifold, paper=_manifold_paper, cost=COST, cap=4 * COST),
}
