"""Intents and batches of orders as the outbox has them, for tests of venue writers and paper books."""

from collections.abc import Sequence
from typing import Any

from bot.core.interfaces import SealingSubmitter
from bot.core.orders import Order
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.core.submissions import Intent, IntentAction, SealedRequest, SubmissionBatch, WriteReceipt


def make_intent(question: Question, order: Order | None, name: str = "i1", **more: Any) -> Intent:
    """Return an intent in a batch of its own: of the order, of a comment where there is none."""
    action = IntentAction.COMMENT if order is None else IntentAction.ORDER
    fields: dict[str, Any] = {"account": "default", "forecast": "f1", "action": action, "batch": name}
    return Intent(
        id=name, ref=question.ref, predictions={"outcome": BinaryPrediction(0.7)}, order=order, **{**fields, **more}
    )


def make_batch(question: Question, *intents: Intent, sealed: Sequence[SealedRequest] = ()) -> SubmissionBatch:
    return SubmissionBatch(key=intents[0].batch, intents=intents, questions=(question,), sealed=tuple(sealed))


async def seal_batch(writer: SealingSubmitter, question: Question, *intents: Intent) -> SubmissionBatch:
    """Return the batch with its requests, as the outbox has it before the wire."""
    return make_batch(question, *intents, sealed=await writer.seal_requests(make_batch(question, *intents)))


async def seal_and_submit(
    writer: SealingSubmitter, question: Question, order: Order, name: str = "i1"
) -> tuple[SubmissionBatch, WriteReceipt]:
    batch = await seal_batch(writer, question, make_intent(question, order, name))
    (receipt,) = await writer.submit(batch)
    return batch, receipt
