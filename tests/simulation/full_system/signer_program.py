"""The signer of the simulation: the real one, run inside the event loop on the simulated clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.simulator.programs import SimulatedProgram
from plugins.polymarket.signer import KeyVault
from plugins.polymarket.signer_client import START_CODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.interfaces import Clock
    from bot.simulator.programs import LineHandler


def signer_program(clock: Clock) -> SimulatedProgram:
    """Return the program; days are those of the clock."""

    def plays(line: Sequence[str]) -> bool:
        return START_CODE in line

    def start() -> LineHandler:
        return KeyVault(lambda: f"{clock.now():%Y-%m-%d}").answer_request

    return SimulatedProgram(matches_command=plays, start=start)
