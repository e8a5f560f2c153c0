"""The contract kit of traders on the live Polymarket writer, over its fake venue."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import Sealer, VenueSpec
from bot.testing.sealer_contract import Bench, TraderContract
from bot.testing.venues.faults import Fault
from plugins.polymarket import foxcast_venues
from plugins.polymarket.terms import OrderType
from tests.intents import batch_of, intent_of
from tests.plugins.polymarket.writer_stand import BOOK, FEES, KEY, Stand, order_of, standing

SPEC: VenueSpec[Any] = foxcast_venues()[0]


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        # What is matched is confirmed by the time anybody looks.
        opened.world.exchange.mined_s = opened.world.exchange.confirmed_s = 0.0
        yield opened


async def bench_of(stand: Stand, **order: Any) -> Bench:
    markets = [stand.world.add_market(f"Will it {what}?", fees=FEES, **BOOK) for what in ("rain", "snow")]
    questions = [await stand.question(market) for market in markets]
    intents = [intent_of(one, order_of(one, **order), f"i{place}") for place, one in enumerate(questions)]
    odd = intent_of(questions[0], order_of(questions[0], price="0.505", size="20"), "odd")
    rests = intent_of(questions[0], order_of(questions[0], price="0.45", type=OrderType.GTD), "rests")
    later, now, reopen = _time(stand)

    def edit() -> None:
        for market in markets:
            stand.world.edit(market, description="Resolves by another source.")

    return Bench(
        sealer=stand.writer(),
        batch=replace(batch_of(questions[0], *intents), questions=tuple(questions)),
        refused=batch_of(questions[0], odd),
        effects=lambda: len(stand.effects()),
        reopen=reopen,
        later=later,
        now=now,
        lose_request=lambda: stand.venue.faults.next(Fault.DROPPED_BEFORE, method="POST", path="/order"),
        lose_reply=lambda: stand.venue.faults.next(Fault.DROPPED_AFTER, method="POST", path="/order"),
        edit=edit,
        resting=batch_of(questions[0], rests),
        secrets=(KEY[2:], stand.user.key, stand.user.secret, stand.user.passphrase),
    )


def _time(
    stand: Stand,
) -> tuple[Callable[[float], Awaitable[None]], Callable[[], datetime], Callable[[], Awaitable[Sealer]]]:
    async def later(seconds: float) -> None:
        stand.clock.pass_unnoticed(seconds)

    async def reopen() -> Sealer:
        return stand.writer()

    return later, stand.clock.now, reopen


class TestOrdersThatAreMatchedAtOnce(TraderContract):
    spec: ClassVar[VenueSpec[Any]] = SPEC
    part = "writer"

    @pytest.fixture
    async def bench(self, stand: Stand) -> Bench:
        return await bench_of(stand)
