"""Reading the ledger from a command, also while a daemon writes it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.app import Records, open_records
from bot.config.model import Config
from bot.domain.question import QuestionRef
from bot.errors import NotFound

T = TypeVar("T")

CANDIDATES = 10


def read(config: Config, query: Callable[[Records], Awaitable[T]]) -> T:
    """Return what the query makes of the ledger; raises NotFound, with the remedy, where there is none yet."""

    async def opened() -> T:
        async with open_records(config) as records:
            return await query(records)

    return asyncio.run(opened())


async def question_named(records: Records, text: str) -> QuestionRef:
    """Return the question that a full reference, a key or a unique part of one, or words of a title mean.

    Raises NotFound that lists the candidates where several answer, or says that none does.
    """
    found = await records.ledger.questions.search(text, limit=CANDIDATES + 1)
    exact = [row for row in found if text in {str(row.ref), row.ref.key}]
    match exact or found:
        case [row]:
            return row.ref
        case []:
            message = f"nothing in the ledger is called {text}; list what there is with: foxcast questions"
            raise NotFound(message)
        case rows:
            listed = [f"  {row.ref}  {row.title}" for row in rows[:CANDIDATES]]
            more = ["  and more"] if len(rows) > CANDIDATES else []
            message = "\n".join([f"{text} is not one question; name one of", *listed, *more])
            raise NotFound(message)
