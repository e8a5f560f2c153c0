"""When a batch of intents may go: not before what belongs to it is there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gate.case import Lane
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow

LAST_CALL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWait:
    """A batch waits for the first forecast of each of its questions.

    From the last hour of its window on it goes without those that are locked or were put off, but still waits for
    those whose turn has come: a venue may take whole batches only. Of a venue that is not in ``surveyed``, no batch
    goes: what is on record of it may be a part. A question without a batch waits for nothing.
    """

    ledger: Ledger
    lanes: Mapping[str, Lane]
    surveyed: Collection[str]

    async def __call__(self, row: BatchRow, now: datetime) -> bool:
        """Say whether the batch may go now."""
        lane = self.lanes[row.venue]
        others: dict[str, str] = {}
        if lane.choose:
            questions = await self.ledger.questions.in_batch(row.venue, row.batch)
            others = {str(question.ref): lane.leader(question) for question in questions}
        load = await self.ledger.schedule.load(row.venue, row.batch, lane.primary, now=now, others=others)
        if load.questions == 0:
            return True
        if row.venue not in self.surveyed:
            return False
        if row.closes_at is not None and now >= row.closes_at - LAST_CALL:
            return load.busy == 0 and load.waiting == 0
        return load.unforecast == 0
