"""A gateway in virtual time on a real ledger, with scripted providers."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from bot.config.schema import LlmSection
from bot.core.errors import FoxcastError, ServiceUnavailableError
from bot.core.language_models import TokenPrice
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.models import ProviderTurn, ScriptedModelProvider, text_completion
from tests.unit.llm.gateway_fixture import MAIN, NOON, GatewayFixture, LedgerWriteTracker, inquiry, open_rig, section

T = TypeVar("T")

PRICE = TokenPrice(tokens_in=1.0, tokens_cached=1.0, tokens_out=10.0)
DOWN = ServiceUnavailableError("500")


class VirtualGateway:
    """Plays a story with a gateway on a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.sqlite"
        self.starts_at = NOON

    def play(self, scenario: Callable[[GatewayFixture], Awaitable[T]], *turns: ProviderTurn, section: LlmSection) -> T:
        """Play it in a process of its own, an hour after the one before."""
        busy = LedgerWriteTracker()
        start, self.starts_at = self.starts_at, self.starts_at + timedelta(hours=1)

        async def main(clock: VirtualClock) -> T:
            llms = {
                "prime": ScriptedModelProvider(turns=[*turns], default_price=PRICE, clock=clock),
                "other": ScriptedModelProvider(turns=[text_completion("spare")], default_price=PRICE, clock=clock),
            }
            async with open_rig(self.path, clock, section=section, llms=llms, busy=busy) as fixture:
                return await scenario(fixture)

        return run_in_virtual_time(main, start=start, busy=busy)


async def failure(fixture: GatewayFixture, *, deadline_s: float = 1000.0, text: str = "Will it rain?") -> FoxcastError:
    try:
        await fixture.gateway.ask(inquiry(text), deadline_s=deadline_s)
    except FoxcastError as error:
        return error
    pytest.fail("there was an answer")


def waiting(timeout_s: float = 120.0, **provider: object) -> LlmSection:
    roles = {"main": {"model": MAIN, "max_tokens": 1000, "timeout_s": timeout_s}}
    return section(roles=roles, providers={"prime": provider})
