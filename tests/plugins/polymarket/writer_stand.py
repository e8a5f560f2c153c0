"""The fake venue on a real port, an account on it, and the writer in front; the signer answers in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from bot.api import Json, Leg, Order, Question, Side, Wire, Workplace, WriterPlace
from bot.clock import SeededRandom
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.testing.clock import FakeClock
from bot.testing.venues.kit import Served, serve
from bot.testing.venues.polymarket import FakePolymarket
from bot.testing.venues.polymarket_state import Fees, Market
from bot.testing.venues.record import Heard
from plugins.polymarket import signer
from plugins.polymarket.fees import Fees as Charges
from plugins.polymarket.parse import contracts_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_process import Signer, opening_of
from plugins.polymarket.terms import CURRENCY, OrderType, Terms
from plugins.polymarket.venue import PolymarketVenue
from plugins.polymarket.writer import PolymarketWriter

KEY = "0x" + "5a" * 32
BOOK: Mapping[str, Any] = {"bids": (("0.49", "100"), ("0.40", "50")), "asks": (("0.50", "40"), ("0.60", "500"))}
FEES = Fees(rate=Decimal("0.04"))
KINDS = {"eoa": 0, "proxy": 1, "safe": 2, "deposit": 3}


class Inside:
    """Implements Line with the signer itself, in this process."""

    def __init__(self) -> None:
        self.vault = signer.Vault()
        self.asked: list[Mapping[str, Json]] = []

    async def ask(self, request: Mapping[str, Json], *, within_s: float) -> str:
        self.asked.append(request)
        return self.vault.answer(json.dumps(request))

    async def aclose(self) -> None:
        self.vault = signer.Vault()


class Stand:
    """``user`` is the account: 1000 dollars in a deposit wallet, with an API key."""

    def __init__(self, venue: FakePolymarket, served: Served, folder: Path, **settings: Any) -> None:
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
        self.wire: Wire = self._http_wire
        self.lines: list[Inside] = []

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.venue.clock, FakeClock)
        return self.venue.clock

    @property
    def place(self) -> Workplace:
        return Workplace(clock=self.venue.clock, http=self.http, folder=self.folder)

    def changed(self, **changes: Any) -> PolymarketSettings:
        given = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return PolymarketSettings(**{**given, **changes})

    def signer(self, **changes: Any) -> Signer:
        self.lines.append(Inside())
        return Signer(opening_of(self.changed(**changes), self.folder), self.lines[-1])

    def writer(self, **changes: Any) -> PolymarketWriter:
        place = WriterPlace(clock=self.venue.clock, http=self.http, folder=self.folder, wire=self.wire)
        return PolymarketWriter(self.changed(**changes), place, self.signer(**changes))

    async def question(self, market: Market) -> Question:
        return await self.named(market.condition)

    async def named(self, name: str) -> Question:
        return await PolymarketVenue(self.settings, self.place).find(name)

    async def aclose(self) -> None:
        await self.http.aclose()
        await self._http_wire.aclose()

    def asked(self, path: str, method: str = "POST") -> list[Heard]:
        """Return the requests to that path."""
        return [one for one in self.venue.requests if one.method == method and one.path == path]

    def effects(self) -> list[str]:
        return [effect.subject for effect in self.venue.ledger.effects("order")]


@asynccontextmanager
async def standing(folder: Path, **settings: Any) -> AsyncIterator[Stand]:
    venue = FakePolymarket(FakeClock())
    async with serve(venue) as served:
        stand = Stand(venue, served, folder, **settings)
        try:
            yield stand
        finally:
            await stand.aclose()
            assert venue.crashes == []


def key_file(folder: Path, text: str = KEY, mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "key"
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


def order_of(question: Question, *, price: str = "0.50", size: str = "20", **more: Any) -> Order:
    """Return an order as the planner writes it: by default a purchase of YES that is matched at once."""
    option, leg, side = more.pop("option", ""), more.pop("leg", Leg.YES), more.pop("side", Side.BUY)
    kind = more.pop("type", OrderType.FAK)
    terms = Terms(
        contract=more.pop("contract", contracts_of(question)[option]),
        leg=leg,
        side=side,
        type=kind,
        price=Decimal(price),
        size=Decimal(size),
        tick=Decimal("0.01"),
        mid=Decimal("0.5"),
        lifetime=timedelta(seconds=more.pop("lifetime_s", 600 if kind.rests else 0)),
        book={},
        cancel=tuple(more.pop("cancel", ())),
    )
    worst = Charges.of(terms.contract.fees).worst(Decimal(price)) * Decimal(size)
    fields = {
        "contract": terms.contract.market,
        "leg": leg,
        "side": side,
        "shares": float(size),
        "limit": float(price),
        "cost": float(worst) if side is Side.BUY else 0.0,
        "expected": float(price),
        "currency": CURRENCY,
        "option": option,
        "terms": terms.to_map(),
    }
    return Order(**{**fields, **more})
