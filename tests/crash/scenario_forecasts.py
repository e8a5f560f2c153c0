"""The forecasts of a kill scenario: one of each question to begin with, newer ones of some while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef
from bot.store.ledger import Ledger
from tests.recorded_forecasts import record_forecast

ACCOUNT = "default"
_KNOWN = """
select q.ref, (select count(*) from forecast f where f.ref = q.ref and f.state = 'done') from question q
order by q.rowid
"""


def probability_of(number: int, revision: int) -> float:
    """Return what is forecast of the n-th question then; no two are alike."""
    return round(0.2 + 0.01 * number + 0.1 * (revision - 1), 4)


async def begin(ledger: Ledger, questions: Sequence[Question], now: datetime) -> None:
    """Put the questions into the ledger, and forecast each."""
    await ledger.questions.record(questions, seen_at=now)
    await record(ledger, 1, now)


async def record(ledger: Ledger, revisions: int, now: datetime) -> None:
    """Forecast what has fewer revisions; after the first, every second question alone."""

    def known(database: Database) -> list[tuple[str, int]]:
        return list(database.execute(_KNOWN).fetchall())

    for number, (ref, there) in enumerate(await ledger.permissions.read(known)):
        for revision in range(there + 1, (revisions if number % 2 == 0 else 1) + 1):
            question = await ledger.questions.get(QuestionRef.parse(ref))
            predictions = {"outcome": BinaryPrediction(probability_of(number, revision))}
            await record_forecast(ledger, question, predictions, now)
