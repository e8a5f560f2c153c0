"""Questions of several trials and steps with a gateway whose provider works on so many requests at once.

Times are virtual: an answer takes two seconds, what follows it three tenths.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.forecasting.question_admission import AdmittedQuestion, QuestionAdmission, map_admitted
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.models import ScriptedModelProvider, SlowAnswer, text_completion
from tests.unit.llm.gateway_fixture import NOON, GatewayFixture, LedgerWriteTracker, charge, inquiry, open_rig, section
from tests.unit.llm.test_learned_concurrency import LimitedModelProvider

ANSWER_S, TOOL_S = 2.0, 0.3
TRIALS, STEPS = 3, 4


@dataclass
class QuestionLog:
    """Which questions were begun and ended, in order, and how many were under way at most."""

    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    most: int = 0
    # When the questions ended, in seconds from the start.
    ended_at: list[float] = field(default_factory=list)


async def forecast(rig: GatewayFixture, number: int, admitted: AdmittedQuestion, log: QuestionLog) -> None:
    """Run the trials of a question, the others after the first step of the first one."""
    log.begun.append(number)
    log.most = max(log.most, len(log.begun) - len(log.ended))
    admitted.scope, warm = f"question {number}", asyncio.Event()

    async def run_trial(trial: int) -> None:
        if trial > 1:
            await warm.wait()
        for step in range(STEPS):
            asked = inquiry(f"{number} {trial} {step}", to=charge(admitted.scope, trial))
            await rig.gateway.ask(asked, deadline_s=10_000)
            await rig.clock.sleep(TOOL_S)
            admitted.has_stepped = True
            warm.set()

    await asyncio.gather(*map(run_trial, range(1, TRIALS + 1)))
    log.ended.append(number)
    log.ended_at.append(rig.clock.monotonic())


def run_questions(
    path: Path, count: int, *, permitted: int, most: int | None = None, **config: Any
) -> tuple[QuestionLog, LimitedModelProvider]:
    tracker = LedgerWriteTracker()

    async def main(clock: VirtualClock) -> tuple[QuestionLog, LimitedModelProvider]:
        prime = LimitedModelProvider(turns=[SlowAnswer(ANSWER_S, text_completion("yes"))], clock=clock)
        prime.permitted = permitted
        llms, log = {"prime": prime, "other": ScriptedModelProvider()}, QuestionLog()
        plan = section(budget={"question_usd": None, "day_usd": None}, **config)
        async with open_rig(path, clock, section=plan, llms=llms, busy=tracker) as rig:
            admission = QuestionAdmission(clock=clock, load=rig.gateway.load, most=most)

            async def run(number: int, admitted: AdmittedQuestion) -> None:
                await forecast(rig, number, admitted, log)

            await map_admitted(run, range(count), admission=admission, trials=TRIALS)
            assert rig.gateway.load.open_calls("question 0") == 0
        return log, prime

    return run_in_virtual_time(main, start=NOON, busy=tracker)


def test_as_many_questions_are_under_way_as_the_provider_permits_and_they_end_one_after_the_other(path: Path) -> None:
    permitted, per_question_s = 20, TRIALS * STEPS * ANSWER_S
    log, provider = run_questions(path, 50, permitted=permitted)
    # Once the limit is found its places are used, though a question also waits for tools.
    took_s = log.ended_at[39] - log.ended_at[9]
    assert took_s <= 30 * per_question_s / permitted / 0.85
    # On average a question makes two requests at a time.
    assert permitted / TRIALS <= log.most <= permitted
    assert log.begun == [*range(50)]
    assert max(abs(place - number) for place, number in enumerate(log.ended)) <= log.most
    # None is lost: those that were refused were sent again, and they are few.
    assert len(provider.requests) == 50 * TRIALS * STEPS
    assert 1 <= provider.refused <= 0.06 * len(provider.requests)


def test_a_setting_bounds_the_questions_and_one_is_always_under_way(path: Path) -> None:
    log, provider = run_questions(path, 3, permitted=1, providers={"prime": {"concurrency": 1}})
    assert (log.ended, log.most, provider.max_running) == ([0, 1, 2], 2, 1)
    log, _ = run_questions(path, 6, permitted=100, most=2)
    assert log.most == 2
