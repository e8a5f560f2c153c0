"""For tests of submitters: batches of orders, and submitters whose requests and replies get lost."""

from collections.abc import Sequence
from typing import Any

from bot.core.interfaces import SealingSubmitter, TradingSubmitter
from bot.core.orders import Account, Order, Position, UnpaidOutcome
from bot.core.outcomes import Outcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.questions import Question
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt


def order_batch(key: str, *orders: tuple[Question, Order]) -> SubmissionBatch:
    """Return a batch with one intent for each order."""
    intents = tuple(
        Intent(
            id=f"{key}-{number}",
            account="default",
            ref=question.ref,
            forecast=f"forecast of {question.ref}",
            action=IntentAction.ORDER,
            predictions=dict.fromkeys(
                (target.key for target in question.targets),
                ChoicePrediction({order.option: 1.0}) if order.option else BinaryPrediction(0.5),
            ),
            batch=key,
            order=order,
        )
        for number, (question, order) in enumerate(orders)
    )
    return SubmissionBatch(key=key, intents=intents, questions=tuple(question for question, _ in orders))


class LossySubmitter:
    """Implements SealingSubmitter on another one whose requests and replies get lost, as those of a process that dies.

    ``losses`` says of the next writes what is lost: "request" or "reply".
    """

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - a submitter, whichever methods it has
        self.losses: list[str] = []
        self.inner: Any = inner

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        sealed: Sequence[SealedRequest] = await self.inner.seal_requests(batch)
        return sealed

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        lost = self.losses.pop(0) if self.losses else ""
        if lost == "request":
            return _unknown(batch)
        receipts: Sequence[WriteReceipt] = await self.inner.submit(batch)
        return _unknown(batch) if lost else receipts

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts: Sequence[WriteReceipt] = await self.inner.read_submissions(batch)
        return receipts


class LossyTradingSubmitter(LossySubmitter):
    """The same for TradingSubmitter."""

    async def account(self) -> Account:
        account: Account = await self.inner.account()
        return account

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        ended: Sequence[str] = await self.inner.cancel(order_ids)
        return ended

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        paid: float | UnpaidOutcome = self.inner.payout_per_share(position, outcome, state)
        return paid


def make_lossy(inner: SealingSubmitter) -> LossySubmitter:
    """Wrap a sealer, as what it is."""
    return LossyTradingSubmitter(inner) if isinstance(inner, TradingSubmitter) else LossySubmitter(inner)


def _unknown(batch: SubmissionBatch) -> list[WriteReceipt]:
    return [
        WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost") for intent in batch.intents
    ]
