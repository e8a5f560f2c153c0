"""Carries planned intents to the venue, or to its paper book, batch by batch.

An intent is committed as ``sending`` before the first byte. What comes back is acknowledged, refused with proof, or
unknown; unknown counts as sent until reading back proves otherwise. Nothing here retries a write.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from bot.domain.submission import Batch, Intent, IntentState, Receipt
from bot.errors import FoxcastError, StoreError
from bot.gate.brake import Brake
from bot.ports import Clock, Submitter
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow, IntentRow

log = structlog.get_logger()

WAITING = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.ABSENT})
STANDING = WAITING | {IntentState.ACKED}
ANSWERS = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})
UNSETTLED = frozenset({IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT})
# A batch that came back as incomplete goes again with the next intent that joins it, or else after so long.
AGAIN_AFTER = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What taking stock found: doubts settled, acknowledgements taken back, and what is still in doubt."""

    settled: int
    revoked: int
    doubtful: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """``ready`` says whether a batch may go now or still waits for forecasts that belong to it.

    Nothing is written while the brake holds, whatever was decided before.
    """

    ledger: Ledger
    submitters: Mapping[str, Submitter]
    clock: Clock
    brake: Brake
    ready: Callable[[BatchRow, datetime], Awaitable[bool]]

    async def recover(self) -> int:
        """At start, before anything is sent: whatever was on the wire when the process died is unknown."""
        left = await self.ledger.submissions.sending()
        for row in left:
            await self.ledger.submissions.mark(
                row.intent.id, IntentState.UNKNOWN, detail="the process ended before an answer", at=self.clock.now()
            )
        return len(left)

    async def flush(self) -> int:
        """Send every batch that has waiting intents and is ready; return how many intents were acknowledged.

        A batch with an intent in doubt stays: a write that left the doubtful one out might undo it.
        """
        acknowledged = 0
        for row in await self.ledger.submissions.batches(states=[*WAITING]):
            if row.venue not in self.submitters or not UNSETTLED.isdisjoint(row.counts):
                continue
            if self.brake.holds():
                break
            if await self.ready(row, self.clock.now()):
                acknowledged += await self._send(row)
        return acknowledged

    async def reconcile(self) -> int:
        """Read back every batch with unknown intents; doing it twice changes nothing more.

        A venue that does not answer leaves its own intents in doubt and nobody else's.
        """
        settled = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.UNKNOWN]):
            submitter = self.submitters.get(row.venue)
            if submitter is None:
                continue
            try:
                settled += await self._read_back(row, submitter)
            except StoreError:
                raise
            except FoxcastError as error:
                log.warning("cannot be read back", venue=row.venue, batch=row.batch, error=str(error))
        return settled

    async def take_stock(self) -> Stock:
        """Ask the venues in use about all that a restored ledger believes to stand or to wait.

        What waits may have left since the backup was made, so it counts as sent until it is read back. What was
        acknowledged and is not there any more waits again. Raises what a venue raises that cannot answer.
        """
        for row in await self.ledger.submissions.batches(states=[*WAITING]):
            await self._doubt(row)
        revoked = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.ACKED]):
            if submitter := self.submitters.get(row.venue):
                revoked += await self._revoke(row, submitter)
        settled = await self.reconcile()
        left = await self.ledger.submissions.batches(states=[IntentState.UNKNOWN])
        doubtful = sum(row.counts[IntentState.UNKNOWN] for row in left if row.venue in self.submitters)
        return Stock(settled=settled, revoked=revoked, doubtful=doubtful)

    async def _doubt(self, row: BatchRow) -> None:
        waiting = [item.intent for item in await self._intents(row, WAITING)]
        await self.ledger.submissions.begin_attempt([intent.id for intent in waiting], at=self.clock.now())
        receipts = [_unknown(intent, "it may have left since the backup was made") for intent in waiting]
        await self.ledger.submissions.settle(receipts, at=self.clock.now())

    async def _revoke(self, row: BatchRow, submitter: Submitter) -> int:
        acknowledged = await self._intents(row, frozenset({IntentState.ACKED}))
        receipts = await submitter.standing(await self._batch(row, [item.intent for item in acknowledged]))
        gone = [receipt.intent for receipt in receipts if receipt.state is IntentState.ABSENT]
        detail = "read back after a restore: it does not stand"
        await self.ledger.submissions.revoke(gone, detail=detail, at=self.clock.now())
        return len(gone)

    async def _send(self, row: BatchRow) -> int:
        """Send all that shall stand, with what stands already; what is absent after that waits again."""
        standing = await self._intents(row, STANDING)
        waiting = [item for item in standing if item.state is not IntentState.ACKED]
        if all(_came_back(item, self.clock.now()) for item in waiting):
            return 0
        fresh = [item.intent for item in waiting]
        batch = await self._batch(row, [item.intent for item in standing])
        await self.ledger.submissions.begin_attempt([intent.id for intent in fresh], at=self.clock.now())
        receipts = await self._write(self.submitters[row.venue], batch)
        sent = {intent.id for intent in fresh}
        mine = [receipt for receipt in receipts if receipt.intent in sent]
        back = [replace(receipt, state=IntentState.PLANNED) for receipt in mine if receipt.state is IntentState.ABSENT]
        await self.ledger.submissions.settle([*mine, *back], at=self.clock.now())
        acked = sum(receipt.state is IntentState.ACKED for receipt in mine)
        details = sorted({receipt.detail for receipt in mine if receipt.detail})
        log.info("sent", venue=row.venue, batch=row.batch, acked=acked, of=len(mine), detail="; ".join(details[:3]))
        return acked

    async def _write(self, submitter: Submitter, batch: Batch) -> Sequence[Receipt]:
        """Write once; an error of any kind is no proof of refusal, and an intent without an answer is unknown."""
        try:
            receipts = {receipt.intent: receipt for receipt in await submitter.submit(batch)}
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises, the write may have happened
            log.warning("submission in doubt", batch=batch.key, error=f"{type(error).__name__}: {error}")
            return [_unknown(intent, f"{type(error).__name__}: {error}") for intent in batch.intents]
        return [_answer(intent, receipts.get(intent.id)) for intent in batch.intents]

    async def _read_back(self, row: BatchRow, submitter: Submitter) -> int:
        doubtful = await self._intents(row, frozenset({IntentState.UNKNOWN}))
        batch = await self._batch(row, [item.intent for item in doubtful])
        settled = 0
        for receipt in await submitter.standing(batch):
            if receipt.state in {IntentState.ACKED, IntentState.ABSENT}:
                await self.ledger.submissions.mark(
                    receipt.intent, receipt.state, detail=receipt.detail, at=self.clock.now()
                )
                settled += 1
        return settled

    async def _intents(self, row: BatchRow, states: frozenset[IntentState]) -> list[IntentRow]:
        intents = await self.ledger.submissions.intents(row.venue, row.account, row.batch)
        return [item for item in intents if item.state in states]

    async def _batch(self, row: BatchRow, intents: Sequence[Intent]) -> Batch:
        questions = await self.ledger.questions.in_batch(row.venue, row.batch)
        if not questions:
            questions = [await self.ledger.questions.get(intent.ref) for intent in intents]
        return Batch(key=row.batch, intents=tuple(intents), questions=tuple(questions))


def _came_back(item: IntentRow, now: datetime) -> bool:
    """Say whether the intent was sent and came back a short while ago."""
    returned = item.state is IntentState.PLANNED and item.changed_at > item.planned_at
    return returned and now < item.changed_at + AGAIN_AFTER


def _answer(intent: Intent, receipt: Receipt | None) -> Receipt:
    if receipt is None:
        return _unknown(intent, "no receipt")
    if receipt.state not in ANSWERS:
        return _unknown(intent, f"{receipt.state} is no answer to a write")
    return receipt


def _unknown(intent: Intent, detail: str) -> Receipt:
    return Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail=detail)
