"""One use of a tool as it goes on: what it asks goes through the record, and what it rests on and costs adds up."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from bot.desk.record import Told, digest_of
from bot.desk.voices import Voices
from bot.domain.prompt import Answer, Prompt
from bot.domain.step import Usage
from bot.errors import ContractError, FoxcastError, Unavailable
from bot.store.documents import Documents


@dataclass(slots=True)
class Take:
    """One use. ``names`` are the exchanges it went through, ``rests_on`` the digests of its documents, in order."""

    voices: Voices
    documents: Documents
    names: list[str] = field(default_factory=list)
    rests_on: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    async def through(self, kind: str, asked: object, make: Callable[[], Awaitable[Any]]) -> Told:
        """Ask through the record; ``asked`` is what is asked as plain JSON values."""
        told = await self.voices.record.through(kind, digest_of(asked), lambda _: make(), names=self.names)
        self.rests_on.append(told.digest)
        return told

    async def ask(self, role: str, prompt: Prompt) -> Answer:
        """Ask the model in a role of the desk's own."""
        heard = await self.voices.ask(role, prompt, names=self.names)
        self.rests_on.append(heard.told.digest)
        self.usage += heard.answer.usage
        return heard.answer

    async def keep(self, text: str) -> None:
        """Put a text that was used on record."""
        self.rests_on.append(await self.documents.put(text.encode(), "text/plain"))

    def branch(self) -> "Take":
        """Return a use beside this one, for work that goes on at the same time."""
        return Take(self.voices, self.documents)

    def join(self, branch: "Take") -> None:
        """Add what a branch went through."""
        self.names += branch.names
        self.rests_on += branch.rests_on
        self.usage += branch.usage


async def within(seconds: float, who: str, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - the JSON edge
    """Await foreign work for so long; whatever goes wrong comes as an error of ``bot.errors``.

    Raises Unavailable when the time is over, and ContractError for an error that no port allows. That one tells its
    type and where it was raised alone: its text may hold a key, of a header for instance, and what comes out of here
    is on record for ever.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        message = f"{who} did not answer within {seconds:g} s"
        raise Unavailable(message) from error
    except FoxcastError:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises becomes one of our errors
        message = f"{who} failed: {named(error)}"
        # Without its cause, which a log with a traceback would write out.
        raise ContractError(message) from None


def named(error: BaseException) -> str:
    """Return the type of an error that is not ours and the line that raised it, without its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}{where}"
