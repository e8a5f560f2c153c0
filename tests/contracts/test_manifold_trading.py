"""The contract kits on what trades at Manifold: the writer in front of the fake venue, and the paper book beside it."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import Batch, Leg, PaperPlace, Question, Trader, VenueSpec
from bot.testing.sealer_contract import Bench, TraderContract
from bot.testing.venues.faults import Fault
from plugins.manifold import foxcast_venues
from tests.contracts.wiring import LossyTrader
from tests.intents import intent_of
from tests.plugins.manifold.stand import KEY, Stand, order_of, standing

SPEC: VenueSpec[Any] = foxcast_venues()[0]
THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
# As long as a process takes to come up again, at least.
RESTART_S = 1.0


class Batches:
    """Orders on a yes-or-no market, on an answer that stands for itself, and on one of several that exclude another."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        world = stand.world
        self.rain = world.add_market(liquidity=1000.0)
        self.many = world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
        self.one = world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
        self.dear = world.add_market("Too much?")
        self.quiet = world.add_market("Will nobody come?")

    async def bought(self) -> Batch:
        bob, ann = self.many.answers[1], self.one.answers[0]
        on_rain = await self.stand.question(self.rain)
        on_bob = await self.stand.question(self.many, bob)
        on_one = await self.stand.question(self.one)
        return of(
            "bought",
            (on_rain, order_of(self.rain)),
            (on_bob, order_of(self.many, answer=bob, leg=Leg.NO, limit="0.25")),
            (on_one, order_of(self.one, answer=ann, option="Ann", limit="0.55")),
        )

    def edit(self) -> None:
        self.stand.clock.pass_unnoticed(1)
        for market in (self.rain, self.many, self.one):
            self.stand.world.edit(market, description="Resolves by another source.")

    async def refused(self) -> Batch:
        """Of more than the account has."""
        return of("refused", (await self.stand.question(self.dear), order_of(self.dear, amount=5000.0)))

    async def resting(self) -> Batch:
        """At a price below the market, where nobody sells."""
        return of("resting", (await self.stand.question(self.quiet), order_of(self.quiet, limit="0.40")))


def of(key: str, *wanted: tuple[Question, Any]) -> Batch:
    intents = tuple(intent_of(question, order, f"{key} {place}") for place, (question, order) in enumerate(wanted))
    return Batch(key=key, intents=intents, questions=tuple(question for question, _ in wanted))


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as here:
        yield here


class TestWriter(TraderContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"
    by_stake = True

    @pytest.fixture
    async def bench(self, stand: Stand) -> Bench:
        batches = Batches(stand)

        async def reopen() -> Trader:
            stand.clock.pass_unnoticed(RESTART_S)
            return stand.writer()

        later: Callable[[float], Awaitable[None]] = stand.clock.advance
        return Bench(
            sealer=stand.writer(),
            batch=await batches.bought(),
            refused=await batches.refused(),
            effects=lambda: len(stand.venue.ledger.effects("bet", account=stand.ada.id)),
            reopen=reopen,
            later=later,
            now=stand.clock.now,
            lose_request=lambda: stand.venue.faults.next(Fault.DROPPED_BEFORE, method="POST", path="/v0/bet"),
            lose_reply=lambda: stand.venue.faults.next(Fault.DROPPED_AFTER, method="POST", path="/v0/bet"),
            edit=batches.edit,
            resting=await batches.resting(),
            secrets=(KEY,),
        )


class TestPaperBook(TraderContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    by_stake = True

    @pytest.fixture
    async def bench(self, stand: Stand, tmp_path: Path) -> AsyncIterator[Bench]:
        batches = Batches(stand)
        place = PaperPlace(clock=stand.clock, http=stand.http, folder=tmp_path, cash=1000.0, delay_s=0.0)
        assert SPEC.paper is not None
        async with AsyncExitStack() as stack:
            book = LossyTrader(await stack.enter_async_context(SPEC.paper(stand.settings, place)))

            async def reopen() -> Trader:
                stand.clock.pass_unnoticed(RESTART_S)
                assert SPEC.paper is not None
                return cast("Trader", await stack.enter_async_context(SPEC.paper(stand.settings, place)))

            later: Callable[[float], Awaitable[None]] = stand.clock.advance
            yield Bench(
                sealer=book,
                batch=await batches.bought(),
                refused=await batches.refused(),
                effects=lambda: taken(tmp_path),
                reopen=reopen,
                later=later,
                now=stand.clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                resting=await batches.resting(),
            )
        # On paper nothing is ever written there.
        assert [one.path for one in stand.venue.requests if one.method != "GET"] == []


def taken(folder: Path) -> int:
    """Return how many orders moved cash or hold some back, or did, by the book's own file."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as database:
        sql = "select count(*) from ticket where state not in ('refused', 'lost')"
        return int(database.execute(sql).fetchone()[0])
