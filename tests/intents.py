"""Intents of orders as the outbox has them, for the writers of venues and their paper books."""

from collections.abc import Sequence
from typing import Any

from bot.domain.order import Order
from bot.domain.prediction import Binary
from bot.domain.question import Question
from bot.domain.submission import Batch, Intent, IntentAction, Receipt, Sealed
from bot.ports import Sealer


def intent_of(question: Question, order: Order | None, name: str = "i1", **more: Any) -> Intent:
    """Return an intent in a batch of its own: of the order, of a comment where there is none."""
    action = IntentAction.COMMENT if order is None else IntentAction.ORDER
    fields: dict[str, Any] = {"account": "default", "forecast": "f1", "action": action, "batch": name}
    return Intent(id=name, ref=question.ref, predictions={"outcome": Binary(0.7)}, order=order, **{**fields, **more})


def batch_of(question: Question, *intents: Intent, sealed: Sequence[Sealed] = ()) -> Batch:
    return Batch(key=intents[0].batch, intents=intents, questions=(question,), sealed=tuple(sealed))


async def sealed(writer: Sealer, question: Question, *intents: Intent) -> Batch:
    """Return the batch with its requests, as the outbox has it before the wire."""
    return batch_of(question, *intents, sealed=await writer.seal(batch_of(question, *intents)))


async def placed(writer: Sealer, question: Question, order: Order, name: str = "i1") -> tuple[Batch, Receipt]:
    batch = await sealed(writer, question, intent_of(question, order, name))
    (receipt,) = await writer.submit(batch)
    return batch, receipt
