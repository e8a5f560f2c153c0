"""The fake Polymarket on a real port, an account on it, and the writer; the signer runs in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from bot.api import ContractSide, Json, Order, OrderSide, PluginContext, Question, VenueWriterContext, WriteClient
from bot.core.clock import SeededRandom
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.request_log import LoggedRequest
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule, FakePolymarketMarket
from bot.testing.clock import FakeClock
from plugins.polymarket import signer
from plugins.polymarket.fees import TakerFees as Charges
from plugins.polymarket.market_parser import question_contracts
from plugins.polymarket.order_terms import CURRENCY, PolymarketOrderTerms, PolymarketOrderType
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_client import SignerClient, signer_opening
from plugins.polymarket.writer import PolymarketWriter

KEY = "0x" + "5a" * 32
BOOK: Mapping[str, Any] = {"bids": (("0.49", "100"), ("0.40", "50")), "asks": (("0.50", "40"), ("0.60", "500"))}
FEES = FakeFeeSchedule(rate=Decimal("0.04"))
KINDS = {"eoa": 0, "proxy": 1, "safe": 2, "deposit": 3}


class InProcessSigner:
    """Implements ``SignerConnection`` with the signer itself, in this process."""

    def __init__(self) -> None:
        self.vault = signer.KeyVault()
        self.asked: list[Mapping[str, Json]] = []

    async def ask(self, request: Mapping[str, Json], *, within_s: float) -> str:
        self.asked.append(request)
        return self.vault.answer_request(json.dumps(request))

    async def aclose(self) -> None:
        self.vault = signer.KeyVault()


class WriterFixture:
    """``user`` is the account: 1000 dollars in a deposit wallet, with an API key."""

    def __init__(self, venue: FakePolymarket, served: ServedService, folder: Path, **settings: Any) -> None:
        self.venue, self.world, self.folder = venue, venue.world, folder
        kind = settings.get("wallet_type", "deposit")
        self.user = venue.world.add_user(KEY, kind=KINDS[kind])
        venue.world.give_key(self.user)
        self.settings = PolymarketSettings(
            **venue.addresses(served),  # type: ignore[arg-type]
            test_host=served.url.removeprefix("http://"),
            key_file=key_file(folder),
            wallet=self.user.wallet,
            attested=True,
            signer_per_order=500,
            signer_per_day=5_000,
            ends_within_d=3_650,
            **settings,
        )
        rates = RateLimiter((), clock=venue.clock, random=SeededRandom(1))
        limits = HttpLimits(attempts=1, deadline_s=5.0)
        self.http = RetryingHttpClient(clock=venue.clock, random=SeededRandom(1), limits=limits, rates=rates)
        self._http_wire = HttpWriteClient(rates=rates)
        self.wire: WriteClient = self._http_wire
        self.lines: list[InProcessSigner] = []

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.venue.clock, FakeClock)
        return self.venue.clock

    @property
    def place(self) -> PluginContext:
        return PluginContext(clock=self.venue.clock, http=self.http, folder=self.folder)

    def changed(self, **changes: Any) -> PolymarketSettings:
        given = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return PolymarketSettings(**{**given, **changes})

    def signer(self, **changes: Any) -> SignerClient:
        self.lines.append(InProcessSigner())
        return SignerClient(signer_opening(self.changed(**changes), self.folder), self.lines[-1])

    def writer(self, **changes: Any) -> PolymarketWriter:
        place = VenueWriterContext(clock=self.venue.clock, http=self.http, folder=self.folder, wire=self.wire)
        return PolymarketWriter(self.changed(**changes), place, self.signer(**changes))

    async def question(self, market: FakePolymarketMarket) -> Question:
        return await self.named(market.condition)

    async def named(self, name: str) -> Question:
        return await PolymarketReader(self.settings, self.place).find_question(name)

    async def aclose(self) -> None:
        await self.http.aclose()
        await self._http_wire.aclose()

    def asked(self, path: str, method: str = "POST") -> list[LoggedRequest]:
        """Return the requests to that path."""
        return [one for one in self.venue.requests if one.method == method and one.path == path]

    def effects(self) -> list[str]:
        return [effect.subject for effect in self.venue.ledger.effects("order")]


@asynccontextmanager
async def open_writer_fixture(folder: Path, **settings: Any) -> AsyncIterator[WriterFixture]:
    venue = FakePolymarket(FakeClock())
    async with serve_service(venue) as served:
        polymarket = WriterFixture(venue, served, folder, **settings)
        try:
            yield polymarket
        finally:
            await polymarket.aclose()
            assert venue.crashes == []


def key_file(folder: Path, text: str = KEY, mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "key"
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


def order_of(question: Question, *, price: str = "0.50", size: str = "20", **more: Any) -> Order:
    """Return an order as the planner writes it: by default a purchase of YES that is matched at once."""
    option, leg, side = more.pop("option", ""), more.pop("leg", ContractSide.YES), more.pop("side", OrderSide.BUY)
    kind = more.pop("type", PolymarketOrderType.FAK)
    terms = PolymarketOrderTerms(
        contract=more.pop("contract", question_contracts(question)[option]),
        leg=leg,
        side=side,
        type=kind,
        price=Decimal(price),
        size=Decimal(size),
        tick=Decimal("0.01"),
        mid=Decimal("0.5"),
        lifetime=timedelta(seconds=more.pop("lifetime_s", 600 if kind.is_resting else 0)),
        book={},
        cancel=tuple(more.pop("cancel", ())),
    )
    worst = Charges.from_schedule(terms.contract.fees).max_cost_per_share(Decimal(price)) * Decimal(size)
    fields = {
        "contract": terms.contract.market,
        "leg": leg,
        "side": side,
        "shares": float(size),
        "limit": float(price),
        "cost": float(worst) if side is OrderSide.BUY else 0.0,
        "expected": float(price),
        "currency": CURRENCY,
        "option": option,
        "terms": terms.to_map(),
        "cancels": terms.cancel,
    }
    return Order(**{**fields, **more})
