"""What stands around forecasts when they come before the gate: one read for many, since a pass may decide thousands."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.domain.question import Question, QuestionRef
from bot.domain.submission import Intent
from bot.store.questions import current
from bot.store.runs import Runs
from bot.store.schedule import lock_reason
from bot.store.submissions import standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Docket:
    """A question as it is now, its newest intent that is neither refused nor superseded, and why it is locked."""

    question: Question
    standing: Intent | None
    locked: str | None


@dataclass(frozen=True, slots=True)
class Dockets:
    """The reading side of the gate."""

    readers: Runs

    async def of(self, asked: Sequence[tuple[QuestionRef, str]], *, now: datetime) -> list[Docket]:
        """Return a docket for each question and account, in this order, all of one moment; raises NotFound."""
        return await self.readers.run(lambda database: [_docket(database, *one, now) for one in asked])


def _docket(database: Database, ref: QuestionRef, account: str, now: datetime) -> Docket:
    return Docket(
        question=current(database, ref),
        standing=standing(database, ref, account),
        locked=lock_reason(database, ref, now=now),
    )
