"""Fixtures of the contract kits for a venue in front of a fake service that its author wrote.

A test class extends ``AnsweredVenue`` and a kit, in this order. docs/venue-tutorial.md and
docs/venue-tutorial-orders.md show it whole.
"""

# ruff: noqa: S101 - pytest is made of assert
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

import pytest
from pydantic import SecretStr

from bot.core.interfaces import OrderPlanner, TradingSubmitter
from bot.core.orders import Account, Order, OrderSide, SizingPolicy, TradeProposal
from bot.core.orders import ContractSide as Leg
from bot.core.plugin_specs import PaperBookContext, PluginContext, PluginSettings, VenueSpec, VenueWriterContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import SINGLE_TARGET, Question
from bot.testing.answering_client import AnsweringClient
from bot.testing.clock import START, FakeClock
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from bot.testing.submitter_contracts import ExpectedTrade, SubmitterSetup
from bot.testing.submitters import LossyTradingSubmitter, order_batch
from bot.testing.venue import LostPart

CASH = 1000.0
# An order that was refused, or never met the market, moves nothing.
_COUNT_PAPER_ORDERS = "select count(*) from ticket where state not in ('refused', 'lost')"


class AnsweringService(Protocol):
    """A fake service: one function that answers every request."""

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        """Answer one request."""
        ...


class AnsweredVenue:
    """Gives the kits what they ask for, from the fake service of ``start_service``.

    ``accepted`` are purchases that the venue fills at once, by the key of their question, and ``refused`` those that
    it refuses; ``trades`` are those of ``SubmitterSetup``; ``part`` says whether ``TradingSubmitterContract`` is for
    the writer or the paper book.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[PluginSettings]
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    accepted: ClassVar[Mapping[str, Order]] = {}
    refused: ClassVar[Mapping[str, Order]] = {}
    trades: ClassVar[Sequence[ExpectedTrade]] = ()

    def start_service(self, clock: FakeClock) -> Any:  # noqa: ANN401 - an AnsweringService of the author
        """Return the service in its first state; every test has its own."""
        raise NotImplementedError

    def settle_questions(self, service: Any) -> None:  # noqa: ANN401 - as above
        """Settle at the service what ``QuestionListContract.outcomes`` expects."""

    def edit_questions(self, service: Any) -> None:  # noqa: ANN401 - as above
        """Edit the text of the accepted questions at the service."""
        raise NotImplementedError

    def count_orders(self, service: Any) -> int:  # noqa: ANN401 - as above
        """Return how many orders took effect at the service."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def service(self, clock: FakeClock) -> AnsweringService:
        return cast("AnsweringService", self.start_service(clock))

    @pytest.fixture
    def context(self, service: AnsweringService, clock: FakeClock, tmp_path: Path) -> PluginContext:
        return PluginContext(clock=clock, http=AnsweringClient(service.answer), folder=tmp_path)

    @pytest.fixture
    def outcome_context(self, context: PluginContext, clock: FakeClock) -> PluginContext:
        later = self.start_service(clock)
        self.settle_questions(later)
        return replace(context, http=AnsweringClient(later.answer))

    @pytest.fixture
    async def questions(self, context: PluginContext) -> Mapping[str, Question]:
        async with self.spec.reader(self.settings, context) as reader:
            return {question.ref.key: question async for question in reader.questions()}

    @pytest.fixture
    async def planner(self, context: PluginContext) -> AsyncIterator[OrderPlanner]:
        assert self.spec.planner is not None, f"{self.spec.name} has no planner: set VenueSpec.planner"
        async with self.spec.planner(self.settings, context) as planner:
            yield planner

    @pytest.fixture
    async def setup(
        self, questions: Mapping[str, Question], context: PluginContext, service: AnsweringService, clock: FakeClock
    ) -> AsyncIterator[SubmitterSetup]:
        async with AsyncExitStack() as stack:

            async def open_part() -> TradingSubmitter:
                clock.advance_without_waking(1.0)
                return cast("TradingSubmitter", await stack.enter_async_context(self._open_part(context)))

            sealer = await open_part()
            lose: Callable[[LostPart], None] = cast("AnsweringClient", context.http).losses.append
            count_effects = lambda: self.count_orders(service)  # noqa: E731 - one of two
            if self.part == "paper":
                sealer = lossy = LossyTradingSubmitter(sealer)
                lose = lambda part: lossy.losses.append(part.name.lower())  # noqa: E731 - as above
                count_effects = lambda: count_paper_orders(context.folder)  # noqa: E731 - as above
            yield SubmitterSetup(
                sealer=sealer,
                batch=order_batch("accepted", *((questions[name], order) for name, order in self.accepted.items())),
                refused_batch=order_batch(
                    "refused", *((questions[name], order) for name, order in self.refused.items())
                ),
                count_effects=count_effects,
                reopen=open_part,
                advance_time=clock.advance,
                now=clock.now,
                lose_request=lambda: lose(LostPart.REQUEST),
                lose_reply=lambda: lose(LostPart.REPLY),
                replace_reply=None if self.part == "paper" else lambda: lose(LostPart.REPLY_OF_VENUE),
                edit_questions=lambda: self.edit_questions(service),
                trades=self.trades,
                secrets=_secret_values(self.settings),
            )

    def _open_part(self, place: PluginContext) -> Any:  # noqa: ANN401 - a context manager of the plugin
        clock, http, folder = place.clock, place.http, place.folder
        if self.part == "writer":
            assert self.spec.writer is not None, f"{self.spec.name} has no writer: set VenueSpec.writer"
            wire = cast("AnsweringClient", http)
            return self.spec.writer(self.settings, VenueWriterContext(clock=clock, http=http, folder=folder, wire=wire))
        assert self.spec.paper is not None, f"{self.spec.name} has no paper book: set VenueSpec.paper"
        return self.spec.paper(
            self.settings, PaperBookContext(clock=clock, http=http, folder=folder, cash=CASH, delay_s=0.0)
        )


def purchase(contract: str, leg: Leg, shares: float, limit: float, *, fee: float = 0.0, currency: str = "USD") -> Order:
    """Return a purchase within a limit; ``fee`` is that of one share."""
    return Order(
        contract=contract,
        leg=leg,
        side=OrderSide.BUY,
        shares=shares,
        limit=limit,
        cost=shares * (limit + fee),
        expected=limit,
        currency=currency,
        fees=shares * fee,
    )


def trade_proposal(question: Question, belief: float, *, currency: str = "USD") -> TradeProposal:
    """Return a belief in YES, to be turned into an order of an account that holds cash only."""
    return TradeProposal(
        question=question,
        predictions={SINGLE_TARGET: BinaryPrediction(belief)},
        account=Account(at=START, currency=currency, cash=CASH),
        sizing=SizingPolicy(
            kelly_fraction=0.5, market_shrinkage=0.0, min_edge=0.02, price_band=(0.05, 0.95), max_cost=50.0
        ),
        now=START,
    )


def count_paper_orders(folder: Path) -> int:
    """Return how many orders met the market, by the file of the paper book in that folder."""
    with closing(sqlite3.connect(folder / "book.sqlite")) as book:
        return int(book.execute(_COUNT_PAPER_ORDERS).fetchone()[0])


def _secret_values(settings: PluginSettings) -> tuple[str, ...]:
    values = (getattr(settings, name) for name in type(settings).model_fields)
    return tuple(value.get_secret_value() for value in values if isinstance(value, SecretStr) and value)
