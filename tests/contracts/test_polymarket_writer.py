"""The contract kit of traders on the live Polymarket writer, over its fake venue."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import ContractSide, Order, OrderSide, Question, SealingSubmitter, VenueSpec
from bot.simulator.faults import RequestFault
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.trading_contract import TradingSubmitterContract
from plugins.polymarket import foxcast_venues
from plugins.polymarket.order_terms import PolymarketOrderType
from tests.order_intents import make_batch, make_intent
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, KEY, WriterFixture, open_writer_fixture, order_of

SPEC: VenueSpec[Any] = foxcast_venues()[0]
YES, NO = ContractSide
BUY, SELL = OrderSide


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        # What is matched is confirmed by the time anybody looks.
        opened.world.exchange.mined_s = opened.world.exchange.confirmed_s = 0.0
        yield opened


async def create_setup(polymarket: WriterFixture, **order: Any) -> SubmitterSetup:
    markets = [polymarket.world.add_market(f"Will it {what}?", fees=FEES, **BOOK) for what in ("rain", "snow")]
    questions = [await polymarket.question(market) for market in markets]
    intents = [make_intent(one, order_of(one, **order), f"i{place}") for place, one in enumerate(questions)]
    odd = make_intent(questions[0], order_of(questions[0], price="0.505", size="20"), "odd")
    rests = make_intent(questions[0], order_of(questions[0], price="0.45", type=PolymarketOrderType.GTD), "rests")
    later, now, reopen = _time(polymarket)

    def edit() -> None:
        for market in markets:
            polymarket.world.edit(market, description="Resolves by another source.")

    return SubmitterSetup(
        sealer=polymarket.writer(),
        batch=replace(make_batch(questions[0], *intents), questions=tuple(questions)),
        refused_batch=make_batch(questions[0], odd),
        count_effects=lambda: len(polymarket.effects()),
        reopen=reopen,
        advance_time=later,
        now=now,
        lose_request=lambda: polymarket.venue.faults.schedule(
            RequestFault.DROPPED_BEFORE, method="POST", path="/order"
        ),
        lose_reply=lambda: polymarket.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/order"),
        edit_questions=edit,
        resting_batch=make_batch(questions[0], rests),
        trades=polymarket_trades(*questions),
        secrets=(KEY[2:], polymarket.user.key, polymarket.user.secret, polymarket.user.passphrase),
    )


def polymarket_trades(rain: Question, snow: Question) -> Sequence[ExpectedTrade]:
    """Of a book of 0.49 and 0.50; the fee is 0.04 * shares * price * (1 - price): docs/facts/polymarket.md#fees."""
    return [
        polymarket_trade(rain, YES, BUY, size=20, price=0.50, fee=0.2),
        polymarket_trade(rain, YES, SELL, size=10, price=0.49, fee=0.09996),
        polymarket_trade(snow, NO, BUY, size=20, price=0.51, fee=0.19992),
        polymarket_trade(snow, NO, SELL, size=10, price=0.50, fee=0.1),
    ]


def polymarket_trade(
    question: Question, leg: ContractSide, side: OrderSide, *, size: int, price: float, fee: float
) -> ExpectedTrade:
    def order_at(limit: float) -> Order:
        return order_of(question, leg=leg, side=side, size=str(size), price=f"{limit:.2f}")

    unmet = order_at(price - 0.02 if side is BUY else price + 0.02)
    return ExpectedTrade(order=order_at(price), price=price, fee=fee, shares=size, unfilled=unmet)


def _time(
    polymarket: WriterFixture,
) -> tuple[Callable[[float], Awaitable[None]], Callable[[], datetime], Callable[[], Awaitable[SealingSubmitter]]]:
    async def later(seconds: float) -> None:
        polymarket.clock.advance_without_waking(seconds)

    async def reopen() -> SealingSubmitter:
        return polymarket.writer()

    return later, polymarket.clock.now, reopen


class TestOrdersThatAreMatchedAtOnce(TradingSubmitterContract):
    spec: ClassVar[VenueSpec[Any]] = SPEC
    part = "writer"

    @pytest.fixture
    async def setup(self, polymarket: WriterFixture) -> SubmitterSetup:
        return await create_setup(polymarket)
