"""What tests of planner and paper book share: accounts, proposals, and orders to send."""

from typing import Any

from bot.api import (
    Account,
    BinaryPrediction,
    Intent,
    IntentAction,
    Order,
    OrderPlan,
    PaperBookContext,
    Prediction,
    Question,
    QuestionRef,
    SizingPolicy,
    SubmissionBatch,
    TradeProposal,
    WriteReceipt,
)
from plugins.kalshi.planner import create_planner
from tests.plugins.kalshi.conftest import KalshiFixture

EAGER = SizingPolicy(kelly_fraction=1.0, market_shrinkage=0.0, min_edge=0.0, price_band=(0.01, 0.99), max_cost=1e9)


def account(kalshi: KalshiFixture, cash: float = 100.0, **changes: Any) -> Account:
    return Account(at=kalshi.clock.now(), currency="USD", cash=cash, **changes)


async def plan(
    kalshi: KalshiFixture,
    question: Question,
    belief: float | Prediction,
    of: Account | None = None,
    sizing: SizingPolicy = EAGER,
) -> OrderPlan:
    prediction = BinaryPrediction(belief) if isinstance(belief, float) else belief
    proposal = TradeProposal(
        question=question,
        predictions={"outcome": prediction},
        account=of or account(kalshi),
        sizing=sizing,
        now=kalshi.clock.now(),
    )
    return await create_planner(kalshi.settings, kalshi.client).plan_order(proposal)


def paper_place(kalshi: KalshiFixture, cash: float = 100.0) -> PaperBookContext:
    place = kalshi.place
    return PaperBookContext(clock=kalshi.clock, http=place.http, folder=place.folder, cash=cash, delay_s=0.0)


def intent_of(name: str, order: Order, ref: QuestionRef) -> Intent:
    return Intent(
        id=name,
        account="default",
        ref=ref,
        forecast=f"forecast of {name}",
        action=IntentAction.ORDER,
        predictions={"outcome": BinaryPrediction(0.5)},
        batch=name,
        order=order,
    )


async def send(book: Any, name: str, order: Order, ref: QuestionRef) -> WriteReceipt:
    """Seal and submit one order."""
    intents = (intent_of(name, order, ref),)
    sealed = await book.seal_requests(SubmissionBatch(key=name, intents=intents, questions=()))
    batch = SubmissionBatch(key=name, intents=intents, questions=(), sealed=tuple(sealed))
    (receipt,) = await book.submit(batch)
    return receipt  # type: ignore[no-any-return]  # the book is any submitter
