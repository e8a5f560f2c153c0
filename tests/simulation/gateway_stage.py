"""A gateway in virtual time on a real ledger, with providers that do what a test says."""

import shutil
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from bot.config.llm_schema import LlmSection
from bot.domain.prompt import Price
from bot.errors import FoxcastError, Unavailable
from bot.store.ledger import BALLAST_FILE
from bot.testing.llm import ScriptedLlm, Turn, said
from bot.testing.loop import VirtualClock, simulate
from tests.unit.llm.rig import MAIN, NOON, Busy, Rig, inquiry, open_rig, section

T = TypeVar("T")

PRICE = Price(tokens_in=1.0, tokens_cached=1.0, tokens_out=10.0)
DOWN = Unavailable("500")


class Stage:
    """Plays a story with a gateway on a ledger of its own."""

    def __init__(self, blank: Path, folder: Path) -> None:
        self.path = folder / "ledger.sqlite"
        shutil.copy(blank / self.path.name, self.path)
        (folder / BALLAST_FILE).hardlink_to(blank / BALLAST_FILE)
        self.starts_at = NOON

    def play(self, story: Callable[[Rig], Awaitable[T]], *turns: Turn, section: LlmSection) -> T:
        """Play it in a process of its own, an hour after the one before."""
        busy = Busy()
        start, self.starts_at = self.starts_at, self.starts_at + timedelta(hours=1)

        async def main(clock: VirtualClock) -> T:
            llms = {
                "prime": ScriptedLlm(turns=[*turns], price_of_all=PRICE, clock=clock),
                "other": ScriptedLlm(turns=[said("spare")], price_of_all=PRICE, clock=clock),
            }
            async with open_rig(self.path, clock, section=section, llms=llms, busy=busy) as rig:
                return await story(rig)

        return simulate(main, start=start, busy=busy)


async def failure(rig: Rig, *, deadline_s: float = 1000.0, text: str = "Will it rain?") -> FoxcastError:
    try:
        await rig.gateway.ask(inquiry(text), deadline_s=deadline_s)
    except FoxcastError as error:
        return error
    pytest.fail("there was an answer")


def waiting(timeout_s: float = 120.0, **provider: object) -> LlmSection:
    roles = {"main": {"model": MAIN, "max_tokens": 1000, "timeout_s": timeout_s}}
    return section(roles=roles, providers={"prime": provider})
