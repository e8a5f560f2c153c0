"""The kit is mutated before it is trusted: each way to break a submitter must fail the check named with it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.core.errors import RequestRejectedError
from bot.core.predictions import BinaryPrediction
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.testing.submitter_contracts import SubmitterContract
from bot.testing.venue import FakeSubmitter
from tests.unit.testing.correct_venue import Failure, checks_of, question, run_check


class CorrectSubmitter(FakeSubmitter):
    """Sound: refuses what the batch marks as refused."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if batch.key != "closed":
            return await super().submit(batch)
        return [WriteReceipt(intent=intent.id, state=IntentState.REFUSED, detail="closed") for intent in batch.intents]

    def count(self) -> int:
        return len({(intent.account, intent.ref) for intent in self.writes})


class DoublingSubmitter(CorrectSubmitter):
    def count(self) -> int:
        return len(self.writes)


class LosingSubmitter(CorrectSubmitter):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return (await super().submit(batch))[1:]


class BoastingSubmitter(CorrectSubmitter):
    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [WriteReceipt(intent=intent.id, state=IntentState.ACKED) for intent in batch.intents]


class ForgettingSubmitter(CorrectSubmitter):
    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [WriteReceipt(intent=intent.id, state=IntentState.ABSENT) for intent in batch.intents]


class RaisingSubmitter(CorrectSubmitter):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        if batch.key == "closed":
            raise RequestRejectedError(batch.key)
        return await super().submit(batch)


class CurtSubmitter(CorrectSubmitter):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [replace(receipt, detail="") for receipt in await super().submit(batch)]


class SneakingSubmitter(CorrectSubmitter):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        await super().submit(replace(batch, key="open"))
        return await super().submit(batch)


class ScribblingSubmitter(CorrectSubmitter):
    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.writes.append(intent_for(7))
        return await super().submit(batch)


class SkippingSubmitter(CorrectSubmitter):
    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return (await super().read_submissions(batch))[1:]


class DishonestSubmitter(CorrectSubmitter):
    """Says of what it has taken that it is on its way."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [replace(receipt, state=IntentState.SENDING) for receipt in await super().submit(batch)]


class StubbornSubmitter(CorrectSubmitter):
    """The first answer to a question stands for good."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        before = dict(self.standing_intents)
        receipts = await super().submit(batch)
        self.standing_intents |= before
        return receipts


class SealingSubmitter(CorrectSubmitter):
    """Sound too: makes its requests beforehand and writes nothing without one."""

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [SealedRequest(intent=intent.id, tag=intent.id, body=intent.id) for intent in batch.intents]

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        assert [one.intent for one in batch.sealed] == [intent.id for intent in batch.intents]
        return await super().submit(batch)


SUBMITTER_MUTANTS: list[tuple[str, type[CorrectSubmitter]]] = [
    ("nothing_stands_before_it_is_submitted", BoastingSubmitter),
    ("what_was_acknowledged_stands", ForgettingSubmitter),
    ("what_was_acknowledged_stands", LosingSubmitter),
    ("what_was_acknowledged_stands", SkippingSubmitter),
    ("what_was_acknowledged_stands", DishonestSubmitter),
    ("submitting_twice_is_standing_once", DoublingSubmitter),
    ("submitting_twice_is_standing_once", ForgettingSubmitter),
    ("the_later_answer_stands", BoastingSubmitter),
    ("the_later_answer_stands", ForgettingSubmitter),
    ("the_later_answer_stands", StubbornSubmitter),
    ("a_refusal_is_a_receipt_with_a_reason", RaisingSubmitter),
    ("a_refusal_is_a_receipt_with_a_reason", CurtSubmitter),
    ("a_refusal_is_a_receipt_with_a_reason", SneakingSubmitter),
    ("an_empty_batch_leaves_no_trace", ScribblingSubmitter),
]


def intent_for(number: int) -> Intent:
    asked = question(number)
    return Intent(
        id=f"intent {number}",
        account="team",
        ref=asked.ref,
        forecast="f",
        action=IntentAction.FORECAST,
        predictions={"outcome": BinaryPrediction(0.5)},
        batch="lamps",
    )


async def run_submitter(name: str, book: CorrectSubmitter) -> None:
    batch = SubmissionBatch(key="lamps", intents=(intent_for(0), intent_for(1)), questions=(question(0), question(1)))
    closed = replace(batch, key="closed")
    await run_check(SubmitterContract(), name, submitter=book, batch=batch, refused_batch=closed, answers=book.count)


@pytest.mark.parametrize("book", [CorrectSubmitter, SealingSubmitter])
@pytest.mark.parametrize("name", checks_of(SubmitterContract))
async def test_a_sound_submitter_passes(name: str, book: type[CorrectSubmitter]) -> None:
    await run_submitter(name, book())


@pytest.mark.parametrize(("name", "mutant"), SUBMITTER_MUTANTS)
async def test_a_broken_submitter_is_found(name: str, mutant: type[CorrectSubmitter]) -> None:
    with pytest.raises((*Failure, RequestRejectedError)):
        await run_submitter(name, mutant())


def test_every_check_of_a_submitter_has_a_mutant() -> None:
    assert {name for name, _ in SUBMITTER_MUTANTS} == set(checks_of(SubmitterContract))
