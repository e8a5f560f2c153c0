"""The contract kits on the Polymarket reader, on records in the documented forms, and on its paper book."""

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import (
    ContractSide,
    Order,
    OrderSide,
    PluginSettings,
    Question,
    SubmissionBatch,
    TradingSubmitter,
    VenueSpec,
)
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.submitters import LossyTradingSubmitter
from bot.testing.trading_contract import TradingSubmitterContract
from bot.testing.venue_contracts import VenueContract
from plugins.polymarket import foxcast_venues
from plugins.polymarket.api_client import QueryParameters, build_url
from plugins.polymarket.market_parser import question_contracts
from plugins.polymarket.order_terms import PolymarketOrderType
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.paper_fixture import PaperFixture, intent_of, open_paper_fixture
from tests.plugins.polymarket.records import book, condition, event, market, member, resolved, token
from tests.plugins.polymarket.trading_inputs import order

SPEC: VenueSpec[Any] = foxcast_venues()[0]
SETTINGS = PolymarketSettings()
# As long as a process takes to come up again, at least.
RESTART_S = 1.0
GROUP = event(member(2, "Ann"), member(3, "Bob"))


def pages() -> Mapping[str, bytes]:
    """The open list, books, and the outcome of every second question."""
    asked: QueryParameters = {
        "closed": "false",
        "limit": 50,
        "order": "volume24hr",
        "ascending": "false",
        "end_date_min": "2026-01-01T02:00:00Z",
        "end_date_max": "2027-01-01T00:00:00Z",
        "volume_min": SETTINGS.min_volume,
        "liquidity_min": SETTINGS.min_liquidity,
        "version": ("v1", "v2"),
    }
    before = {"condition_id": ",".join(condition(number) for number in (1, 2, 3, 4))}
    after = {"condition_id": ",".join(condition(number) for number in (1, 4))}
    events = {"events": [event(market(1), number=1), GROUP, event(market(4), number=4)]}
    rows = {"data": [resolved(1), resolved(4, 500_000, 500_000)], "pagination": {"has_more": False}}
    found: dict[str, object] = {
        build_url(SETTINGS, SETTINGS.gamma_url, "events/keyset", asked): events,
        build_url(SETTINGS, SETTINGS.data_url, "v2/resolutions", before): {"data": [], "pagination": {}},
        build_url(SETTINGS, SETTINGS.data_url, "v2/resolutions", after): rows,
        build_url(SETTINGS, SETTINGS.clob_url, "books"): [book(token(number)) for number in (1, 4)],
    }
    return {url: json.dumps(answer).encode() for url, answer in found.items()}


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = SETTINGS
    remote_settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()


class OrderBatches:
    """Orders on a yes-or-no market, on its like without fees, and on an option of an event."""

    def __init__(self, polymarket: PaperFixture) -> None:
        self.stand = polymarket
        world = polymarket.venue.world
        self.rain = world.add_market("Will it rain?", fees=FakeFeeSchedule(rate=Decimal("0.04")))
        self.snow = world.add_market("Will it snow?", version="v2")
        self.event, self.racers = world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
        self.quiet = world.add_market("Will nobody come?")

    async def bought(self) -> SubmissionBatch:
        rain = await self.stand.question(self.rain.condition)
        snow = await self.stand.question(self.snow.condition)
        race = await self.stand.question(f"event:{self.event.id}")
        return of(
            "bought",
            (rain, order("30", "0.52", of=question_contracts(rain)[""])),
            (snow, order("120", "0.52", leg=ContractSide.NO, of=question_contracts(snow)[""])),
            (race, order("20", "0.31", of=question_contracts(race)["Bob"], option="Bob")),
        )

    async def trades(self) -> Sequence[ExpectedTrade]:
        """Of books of 0.49 and 0.51; rain takes 0.04 * shares * price * (1 - price): docs/facts/polymarket.md#fees."""
        made = []
        for traded, leg, fees in (
            (self.rain, ContractSide.YES, (0.19992, 0.09996)),
            (self.snow, ContractSide.NO, (0.0, 0.0)),
        ):
            contract = question_contracts(await self.stand.question(traded.condition))[""]
            for side, shares, price, unmet, fee in (
                (OrderSide.BUY, 20, "0.51", "0.49", fees[0]),
                (OrderSide.SELL, 10, "0.49", "0.51", fees[1]),
            ):
                asked, unfilled = (
                    order(str(shares), limit, leg=leg, of=contract, side=side) for limit in (price, unmet)
                )
                made.append(ExpectedTrade(order=asked, price=float(price), fee=fee, shares=shares, unfilled=unfilled))
        return made

    async def refused(self) -> SubmissionBatch:
        """Of more than the account has."""
        rain = await self.stand.question(self.rain.condition)
        return of("refused", (rain, order("5000", "0.52", of=question_contracts(rain)[""])))

    async def resting(self) -> SubmissionBatch:
        """At a price below the market, where nobody sells."""
        quiet = await self.stand.question(self.quiet.condition)
        contract, lasts = question_contracts(quiet)[""], timedelta(hours=1)
        return of("resting", (quiet, order("50", "0.40", of=contract, kind=PolymarketOrderType.GTD, lifetime=lasts)))


def of(key: str, *wanted: tuple[Question, Order]) -> SubmissionBatch:
    intents = tuple(intent_of(f"{key} {place}", one, asked.ref) for place, (asked, one) in enumerate(wanted))
    return SubmissionBatch(key=key, intents=intents, questions=tuple(asked for asked, _ in wanted))


class TestPaperBook(TradingSubmitterContract):
    spec = SPEC
    # An option of an event where nothing won pays nothing, and its other side 1: docs/facts/polymarket.md.
    pays_void = True
    part: ClassVar[Literal["writer", "paper"]] = "paper"

    @pytest.fixture
    async def setup(self, tmp_path: Path) -> AsyncIterator[SubmitterSetup]:
        async with open_paper_fixture(tmp_path) as polymarket, AsyncExitStack() as stack:
            batches = OrderBatches(polymarket)

            async def opened() -> TradingSubmitter:
                assert SPEC.paper is not None
                return cast(
                    "TradingSubmitter",
                    await stack.enter_async_context(SPEC.paper(polymarket.settings, polymarket.place())),
                )

            async def reopen() -> TradingSubmitter:
                polymarket.clock.advance_without_waking(RESTART_S)
                return await opened()

            later: Callable[[float], Awaitable[None]] = polymarket.clock.advance
            book = LossyTradingSubmitter(await opened())
            yield SubmitterSetup(
                sealer=book,
                batch=await batches.bought(),
                refused_batch=await batches.refused(),
                count_effects=lambda: count_orders(polymarket.place().folder),
                reopen=reopen,
                advance_time=later,
                now=polymarket.clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                resting_batch=await batches.resting(),
                trades=await batches.trades(),
            )
            # On paper nothing is ever written there: books are asked for by POST.
            assert {one.path for one in polymarket.venue.requests if one.method != "GET"} <= {"/books"}


def count_orders(folder: Path) -> int:
    """Return how many orders moved cash or hold some back, or did, by the book's own file."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as database:
        sql = "select count(*) from ticket where state not in ('refused', 'lost')"
        return int(database.execute(sql).fetchone()[0])
