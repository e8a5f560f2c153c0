"""The signer of the simulation: the real one with its real library, played inside the loop on the machine's clock.

Its state is where that of the real one is, in the folder of the life that started it, and stays there as a kill finds
it. Nothing but what its requests and answers say goes in or out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.testing.programs import Program
from plugins.polymarket.signer import Vault
from plugins.polymarket.signer_process import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.ports import Clock
    from bot.testing.programs import Talk


def signer_of(clock: Clock) -> Program:
    """Return the program; days are those of the clock."""

    def plays(line: Sequence[str]) -> bool:
        return START in line

    def start() -> Talk:
        return Vault(lambda: f"{clock.now():%Y-%m-%d}").answer

    return Program(plays=plays, start=start)
