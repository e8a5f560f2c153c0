"""The contract kits on what trades at Manifold: the writer in front of the fake venue, and the paper book."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import ContractSide, PaperBookContext, Question, SubmissionBatch, TradingSubmitter, VenueSpec
from bot.simulator.faults import RequestFault
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.submitters import LossyTradingSubmitter
from bot.testing.trading_contract import TradingSubmitterContract
from plugins.manifold import foxcast_venues
from tests.order_intents import make_intent
from tests.plugins.manifold.fixture import KEY, ManifoldFixture, open_fixture, order_of, sale_of

SPEC: VenueSpec[Any] = foxcast_venues()[0]
THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
# As long as a process takes to come up again, at least.
RESTART_S = 1.0


class OrderBatches:
    """Orders on a yes-or-no market, on an answer that stands for itself, and on one of several that exclude another."""

    def __init__(self, manifold: ManifoldFixture) -> None:
        self.stand = manifold
        world = manifold.world
        self.rain = world.add_market(liquidity=1000.0)
        self.many = world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
        self.one = world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
        self.dear = world.add_market("Too much?")
        self.quiet = world.add_market("Will nobody come?")

    async def bought(self) -> SubmissionBatch:
        bob, ann = self.many.answers[1], self.one.answers[0]
        on_rain = await self.stand.question(self.rain)
        on_bob = await self.stand.question(self.many, bob)
        on_one = await self.stand.question(self.one)
        return of(
            "bought",
            (on_rain, order_of(self.rain)),
            (on_bob, order_of(self.many, answer=bob, leg=ContractSide.NO, limit="0.25")),
            (on_one, order_of(self.one, answer=ann, option="Ann", limit="0.55")),
        )

    def trades(self) -> Sequence[ExpectedTrade]:
        """Of 20 mana, and back: the pool holds 100 of each side, and the product stays the same without fees.

        120 shares of one side are there when 100 * 100 / 120 of the other are left: docs/facts/manifold.md.
        """
        shares = 120 - 100 * 100 / 120
        made = []
        for leg, unmet in ((ContractSide.YES, "0.48"), (ContractSide.NO, "0.52")):
            order = order_of(self.rain, leg=leg, limit="0.60" if leg is ContractSide.YES else "0.40")
            unfilled, sale = order_of(self.rain, leg=leg, limit=unmet), sale_of(self.rain, shares, leg)
            made.append(ExpectedTrade(order=order, price=20 / shares, fee=0.0, shares=shares, unfilled=unfilled))
            made.append(ExpectedTrade(order=sale, price=20 / shares, fee=0.0, shares=shares))
        return made

    def edit(self) -> None:
        self.stand.clock.advance_without_waking(1)
        for market in (self.rain, self.many, self.one):
            self.stand.world.edit(market, description="Resolves by another source.")

    async def refused(self) -> SubmissionBatch:
        """Of more than the account has."""
        return of("refused", (await self.stand.question(self.dear), order_of(self.dear, amount=5000.0)))

    async def resting(self) -> SubmissionBatch:
        """At a price below the market, where nobody sells."""
        return of("resting", (await self.stand.question(self.quiet), order_of(self.quiet, limit="0.40")))


def of(key: str, *wanted: tuple[Question, Any]) -> SubmissionBatch:
    intents = tuple(make_intent(question, order, f"{key} {place}") for place, (question, order) in enumerate(wanted))
    return SubmissionBatch(key=key, intents=intents, questions=tuple(question for question, _ in wanted))


@pytest.fixture
async def manifold(tmp_path: Path) -> AsyncIterator[ManifoldFixture]:
    async with open_fixture(tmp_path) as here:
        yield here


class TestWriter(TradingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"
    orders_name_cost = True

    @pytest.fixture
    async def setup(self, manifold: ManifoldFixture) -> SubmitterSetup:
        batches = OrderBatches(manifold)

        async def reopen() -> TradingSubmitter:
            manifold.clock.advance_without_waking(RESTART_S)
            return manifold.writer()

        later: Callable[[float], Awaitable[None]] = manifold.clock.advance
        return SubmitterSetup(
            sealer=manifold.writer(),
            batch=await batches.bought(),
            refused_batch=await batches.refused(),
            count_effects=lambda: len(manifold.venue.ledger.effects("bet", account=manifold.ada.id)),
            reopen=reopen,
            advance_time=later,
            now=manifold.clock.now,
            lose_request=lambda: manifold.venue.faults.schedule(
                RequestFault.DROPPED_BEFORE, method="POST", path="/v0/bet"
            ),
            lose_reply=lambda: manifold.venue.faults.schedule(
                RequestFault.DROPPED_AFTER, method="POST", path="/v0/bet"
            ),
            edit_questions=batches.edit,
            resting_batch=await batches.resting(),
            trades=batches.trades(),
            secrets=(KEY,),
        )


class TestPaperBook(TradingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    orders_name_cost = True

    @pytest.fixture
    async def setup(self, manifold: ManifoldFixture, tmp_path: Path) -> AsyncIterator[SubmitterSetup]:
        batches = OrderBatches(manifold)
        place = PaperBookContext(clock=manifold.clock, http=manifold.http, folder=tmp_path, cash=1000.0, delay_s=0.0)
        assert SPEC.paper is not None
        async with AsyncExitStack() as stack:
            book = LossyTradingSubmitter(await stack.enter_async_context(SPEC.paper(manifold.settings, place)))

            async def reopen() -> TradingSubmitter:
                manifold.clock.advance_without_waking(RESTART_S)
                assert SPEC.paper is not None
                return cast("TradingSubmitter", await stack.enter_async_context(SPEC.paper(manifold.settings, place)))

            later: Callable[[float], Awaitable[None]] = manifold.clock.advance
            yield SubmitterSetup(
                sealer=book,
                batch=await batches.bought(),
                refused_batch=await batches.refused(),
                count_effects=lambda: count_orders(tmp_path),
                reopen=reopen,
                advance_time=later,
                now=manifold.clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                resting_batch=await batches.resting(),
                trades=batches.trades(),
            )
        # On paper nothing is ever written there.
        assert [one.path for one in manifold.venue.requests if one.method != "GET"] == []


def count_orders(folder: Path) -> int:
    """Return how many orders moved cash or hold some back, or did, by the book's own file."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as database:
        sql = "select count(*) from ticket where state not in ('refused', 'lost')"
        return int(database.execute(sql).fetchone()[0])
