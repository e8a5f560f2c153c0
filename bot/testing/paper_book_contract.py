"""Contract kit for the paper book of a venue with orders: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
import math
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from bot.core.interfaces import PaperTradingSubmitter
from bot.core.orders import ContractSide
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution, VoidOutcome
from bot.core.plugin_specs import PaperBookContext, PluginContext, PluginSettings
from bot.core.submissions import SubmissionBatch
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.testing.clock import FakeClock
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.submitters import LossyTradingSubmitter
from bot.testing.trading_contract import CENT, TradingSubmitterContract


class PaperBookContract(TradingSubmitterContract):
    """What every paper book of a venue with orders must do.

    The subclass gives the fixtures ``context`` (with a FakeClock, and a client that shows the market), ``batch``
    (purchases that the market fills; yes or no questions) and ``refused_batch`` (orders that cost more than ``cash``),
    and the ``trades`` of SubmitterSetup.
    """

    part: ClassVar[Literal["writer", "paper"]] = "paper"
    settings: ClassVar[PluginSettings]
    cash: ClassVar[float] = 1000.0
    trades: ClassVar[Sequence[ExpectedTrade]] = ()

    @pytest.fixture
    async def setup(
        self, context: PluginContext, batch: SubmissionBatch, refused_batch: SubmissionBatch
    ) -> AsyncIterator[SubmitterSetup]:
        async with self.open_setup(context, batch, refused_batch) as setup:
            yield setup

    @asynccontextmanager
    async def open_setup(
        self, context: PluginContext, batch: SubmissionBatch, refused_batch: SubmissionBatch
    ) -> AsyncIterator[SubmitterSetup]:
        """Open a paper book in the folder of the context."""
        clock, opener = context.clock, self.spec.paper
        assert isinstance(clock, FakeClock), "the fixture context needs bot.testing.clock.FakeClock"
        assert opener is not None, "VenueSpec.paper is not set"
        place = PaperBookContext(
            clock=clock, http=context.http, folder=context.folder / "paper", cash=self.cash, delay_s=0.0
        )
        place.folder.mkdir(exist_ok=True)
        async with AsyncExitStack() as stack:

            async def reopen() -> PaperTradingSubmitter:
                clock.advance_without_waking(1.0)
                book = await stack.enter_async_context(opener(self.settings, place))
                assert isinstance(book, PaperTradingSubmitter), "open the paper book with open_paper_book"
                return book

            book = LossyTradingSubmitter(await reopen())
            yield SubmitterSetup(
                sealer=book,
                batch=batch,
                refused_batch=refused_batch,
                count_effects=lambda: count_paper_orders(place.folder),
                reopen=reopen,
                advance_time=clock.advance,
                now=clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                trades=self.trades,
            )

    @pytest.mark.parametrize("outcome", [BinaryOutcome(1.0), BinaryOutcome(0.0)], ids=["yes", "no"])
    async def test_an_outcome_pays_the_shares_of_its_side_once(
        self, setup: SubmitterSetup, outcome: BinaryOutcome
    ) -> None:
        book = await self._buy(setup)
        before = await book.account()
        winner = ContractSide.YES if outcome.value else ContractSide.NO
        wanted = math.fsum(one.shares for one in before.positions if one.leg is winner)
        for _ in range(2):
            await book.settle(_resolutions(setup, outcome))
            after = await book.account()
            assert abs(after.cash - before.cash - wanted) <= CENT, (
                f"the outcome is {winner}, {wanted:g} shares of it are held, and cash changed by "
                f"{after.cash - before.cash:+g}: look at payout_per_share"
            )
            assert after.positions == ()

    async def test_a_cancelled_question_returns_what_was_paid(self, setup: SubmitterSetup) -> None:
        if self.pays_void:
            pytest.skip("a void question of this venue pays its shares")
        book = await self._buy(setup)
        await book.settle(_resolutions(setup, VoidOutcome("cancelled")))
        assert abs((await book.account()).cash - self.cash) <= CENT, "the stakes of a void question come back in full"

    async def _buy(self, setup: SubmitterSetup) -> PaperTradingSubmitter:
        sealed = replace(setup.batch, sealed=tuple(await setup.sealer.seal_requests(setup.batch)))
        await setup.sealer.submit(sealed)
        book = await setup.reopen()
        assert isinstance(book, PaperTradingSubmitter)
        assert (await book.account()).positions, "the orders of `batch` bought nothing"
        return book


def count_paper_orders(folder: Path) -> int:
    """Return how many orders of a paper book took effect, by its own file."""
    with closing(sqlite3.connect(folder / PAPER_BOOK_FILE)) as book:
        return int(book.execute("select count(*) from ticket where state not in ('refused', 'lost')").fetchone()[0])


def _resolutions(setup: SubmitterSetup, outcome: Outcome) -> list[Resolution]:
    questions = {question.ref: question for question in setup.batch.questions}
    return [
        Resolution(ref=ref, target=target.key, outcome=outcome, resolved_at=setup.now())
        for ref, question in questions.items()
        for target in question.targets
    ]
