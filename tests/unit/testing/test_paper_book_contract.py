"""The kit of paper books: what is paid wrongly when a market is over must fail the check named with it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryShape,
    ContractSide,
    Order,
    OrderSide,
    Outcome,
    PaperBookContext,
    PaperBookTerms,
    PluginContext,
    PluginSettings,
    Position,
    Question,
    QuestionRef,
    SubmissionBatch,
    Target,
    UnpaidOutcome,
    VenueReader,
    VenueSpec,
    VenueSubmitter,
    VoidOutcome,
    open_paper_book,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.paper_book_contract import PaperBookContract
from bot.testing.paper_market import FakePaperMarket
from bot.testing.submitters import order_batch
from bot.testing.trading_contract import expected_trade
from bot.testing.venue import FakeVenueReader
from tests.unit.testing.correct_venue import Failure, run_check

RAIN = Question(ref=QuestionRef("bell", "rain"), title="Will it rain?", shape=BinaryShape(), targets=(Target(),))


def purchase(leg: ContractSide, limit: float, shares: float) -> Order:
    cost = shares * limit
    return Order(
        contract="rain",
        leg=leg,
        side=OrderSide.BUY,
        shares=shares,
        limit=limit,
        cost=cost,
        expected=limit,
        currency="USD",
    )


BATCH = order_batch("bought", (RAIN, purchase(ContractSide.YES, 0.4, 20)), (RAIN, purchase(ContractSide.NO, 0.6, 10)))
REFUSED = order_batch("refused", (RAIN, purchase(ContractSide.YES, 0.4, 5000)))


class WrongSidePaid(FakePaperMarket):
    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        other = ContractSide.NO if position.leg is ContractSide.YES else ContractSide.YES
        return super().payout_per_share(replace(position, leg=other), outcome, state)


class CancelledAsLost(FakePaperMarket):
    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return 0.0 if isinstance(outcome, VoidOutcome) else super().payout_per_share(position, outcome, state)


def bell_spec(market: Callable[..., FakePaperMarket]) -> VenueSpec[PluginSettings]:
    @asynccontextmanager
    async def open_reader(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
        yield FakeVenueReader([RAIN])

    @asynccontextmanager
    async def open_paper(settings: PluginSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
        terms = PaperBookTerms(currency="USD")
        async with open_paper_book(context, market(prices={"rain": 0.4}), terms) as book:
            yield book

    return VenueSpec(name="bell", summary="A bell", settings=PluginSettings, reader=open_reader, paper=open_paper)


class TestBellPaper(PaperBookContract):
    """A sound book passes the whole kit."""

    spec: ClassVar[VenueSpec[Any]] = bell_spec(FakePaperMarket)
    settings: ClassVar[PluginSettings] = PluginSettings()
    orders_rest = False
    trades = tuple(
        expected_trade(side, "rain", leg, shares=shares, price=price)
        for leg, price in ((ContractSide.YES, 0.4), (ContractSide.NO, 0.6))
        for side, shares in ((OrderSide.BUY, 20.0), (OrderSide.SELL, 10.0))
    )

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)

    @pytest.fixture
    def batch(self) -> SubmissionBatch:
        return BATCH

    @pytest.fixture
    def refused_batch(self) -> SubmissionBatch:
        return REFUSED


@pytest.mark.parametrize(
    ("market", "check", "words"),
    [
        (WrongSidePaid, "an_outcome_pays_the_shares_of_its_side_once", "look at payout_per_share"),
        (CancelledAsLost, "a_cancelled_question_returns_what_was_paid", "come back in full"),
    ],
)
async def test_a_wrong_payout_is_named(
    market: Callable[..., FakePaperMarket], check: str, words: str, tmp_path: Path
) -> None:
    kit = type("Kit", (TestBellPaper,), {"spec": bell_spec(market)})()
    context = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with kit.open_setup(context, BATCH, REFUSED) as setup:
        with pytest.raises(Failure, match=words):
            await run_check(kit, check, setup=setup, outcome=BinaryOutcome(1.0))
