"""What a gateway learns about a provider that refuses more than so many requests at once, and what the next one knows.

All times are virtual.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.status import concurrency_lines
from bot.config.schema import LlmSection
from bot.core.errors import ServiceUnavailableError
from bot.llm.adaptive_limit import FIRST_LIMIT
from bot.store.model_concurrency import ModelConcurrency
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.models import ScriptedModelProvider, SlowAnswer, text_completion
from tests.unit.llm import gateway_fixture as rigs
from tests.unit.llm.gateway_fixture import MAIN, NOON, GatewayFixture, LedgerWriteTracker, inquiry, section

BUSY = ServiceUnavailableError("429", retry_after_s=0.0)


class LimitedModelProvider(ScriptedModelProvider):
    """Answers at most ``permitted`` requests at once, each in two seconds, and refuses the rest.

    ``first_requests`` is how many there were in the first second.
    """

    permitted: int = 10
    refused: int = 0
    first_requests: int = 0

    async def complete(self, *arguments: Any) -> Any:
        if self.running >= self.permitted:
            self.refused += 1
            raise BUSY
        return await ScriptedModelProvider.complete(self, *arguments)


def ask_many(
    path: Path, count: int, *, permitted: int, start_hours: int = 0, config: LlmSection | None = None
) -> tuple[LimitedModelProvider, Mapping[str, ModelConcurrency]]:
    """Ask so many questions at once in a process of its own; return the provider and what is known at the end."""
    tracker = LedgerWriteTracker()

    async def main(clock: VirtualClock) -> tuple[LimitedModelProvider, Mapping[str, ModelConcurrency]]:
        prime = LimitedModelProvider(turns=[SlowAnswer(2.0, text_completion("yes"))], clock=clock)
        prime.permitted = permitted
        llms = {"prime": prime, "other": ScriptedModelProvider()}
        async with rigs.open_rig(path, clock, section=config or section(), llms=llms, busy=tracker) as rig:
            asking = asyncio.create_task(_ask_all(rig, count))
            await clock.sleep(1.0)
            prime.first_requests = len(prime.requests)
            await asking
        async with rigs.open_rig(path, clock, section=section(), busy=tracker) as after:
            return prime, {one.model: one for one in await after.ledger.model_concurrency.load()}

    return run_in_virtual_time(main, start=NOON + timedelta(hours=start_hours), busy=tracker)


async def _ask_all(rig: GatewayFixture, count: int) -> None:
    now = rig.clock.now()
    asked = (rig.gateway.ask(inquiry(f"{now} {number}"), deadline_s=1000) for number in range(count))
    answers = await asyncio.gather(*asked)
    assert {answer.completion.text for answer in answers} == {"yes"}


def test_a_restart_keeps_what_was_learned(path: Path) -> None:
    prime, learned = ask_many(path, 150, permitted=40)
    assert 25 <= learned[MAIN].concurrency <= 41
    assert (learned[MAIN].reason, learned[MAIN].ceiling, learned[MAIN].in_flight) == ("rate limit", 1000, 0)
    again, _ = ask_many(path, 100, permitted=1000, start_hours=1)
    assert (prime.first_requests, again.first_requests) == (FIRST_LIMIT, learned[MAIN].concurrency)


def test_the_setting_is_what_bounds_a_provider_that_takes_everything(path: Path) -> None:
    config = section(providers={"prime": {"concurrency": 20}})
    prime, learned = ask_many(path, 100, permitted=1000, config=config)
    assert (prime.max_running, learned[MAIN].concurrency, learned[MAIN].reason) == (20, 20, "setting")


def test_budget_process_and_questions_bound_a_model_that_would_get_more(path: Path) -> None:
    tracker = LedgerWriteTracker()
    # A call may cost 0.0041 US dollars and costs 0.00014, so that at first two have room.
    config = section(budget={"question_usd": None, "day_usd": 0.009})

    async def main(clock: VirtualClock) -> list[str]:
        llms = {
            "prime": ScriptedModelProvider(turns=[SlowAnswer(2.0, text_completion("yes"))], clock=clock),
            "other": ScriptedModelProvider(),
        }
        async with rigs.open_rig(path, clock, section=config, llms=llms, busy=tracker) as rig:
            asking = asyncio.create_task(_ask_all(rig, 3))
            await clock.sleep(2.5)
            reasons = [one.reason for one in await rig.ledger.model_concurrency.load()]
            await asking
            assert llms["prime"].max_running == 2
            for is_busy, is_full in ((False, False), (True, True), (False, True)):
                rig.gateway.load.is_process_busy = is_busy
                rig.gateway.load.is_question_limit_reached = is_full
                rig.gateway.save_concurrency(now=True)
                await rig.settled()
                reasons += [one.reason for one in await rig.ledger.model_concurrency.load()]
            return reasons

    assert run_in_virtual_time(main, busy=tracker) == [
        "budget",
        "nothing so far",
        "the CPU of this process",
        "the questions under way, see concurrency of [daemon]",
    ]


@pytest.mark.parametrize(
    ("running", "line"),
    [
        (True, "model prime:big: 3 requests in flight, at most 41 at a time, bounded by rate limit (setting: 1000)"),
        (False, "model prime:big: at most 41 at a time, bounded by rate limit (setting: 1000)"),
    ],
)
def test_status_shows_what_is_in_flight_and_what_bounds_it(*, running: bool, line: str) -> None:
    known = ModelConcurrency(
        model="prime:big", at=NOON, concurrency=41.7, ceiling=1000, reason="rate limit", in_flight=3
    )
    assert [*concurrency_lines([known], running=running)] == [line]
