"""A process that has too much to do begins no more questions than the usual places."""

import asyncio

from bot.forecasting.question_admission import (
    LATE_PAUSE_S,
    MAX_BEGUN_AT_ONCE,
    MAX_LATENESS_S,
    PLACES_WITHOUT_MODELS,
    POLL_S,
    QuestionAdmission,
)
from bot.testing.clock import FakeClock
from tests.unit.jobs.test_forecast_pass import FakeRequestLoad


async def wait_late(admission: QuestionAdmission, clock: FakeClock, late_s: float) -> None:
    """Wait as the forecast job does while the process wakes up so late."""
    waiting = asyncio.ensure_future(admission.wait())
    await asyncio.sleep(0)
    await clock.advance(POLL_S + late_s)
    await waiting


async def test_a_process_that_is_late_begins_no_more_than_the_usual_places() -> None:
    clock = FakeClock()
    admission = QuestionAdmission(clock=clock, load=FakeRequestLoad(100))
    under_way = [admission.begin(trials=0) for _ in range(PLACES_WITHOUT_MODELS)]
    await wait_late(admission, clock, 0.9 * MAX_LATENESS_S)
    assert admission.room(trials=1) == MAX_BEGUN_AT_ONCE
    await wait_late(admission, clock, 1.1 * MAX_LATENESS_S)
    assert admission.room(trials=1) == 0
    # One of the usual places is free.
    admission.end(under_way.pop())
    await clock.advance(LATE_PAUSE_S / 2)
    assert admission.room(trials=1) > 0
    under_way.append(admission.begin(trials=0))
    assert admission.room(trials=1) == 0
    await clock.advance(LATE_PAUSE_S)
    assert admission.room(trials=1) == MAX_BEGUN_AT_ONCE
