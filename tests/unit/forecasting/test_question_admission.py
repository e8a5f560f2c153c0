"""A process that has too much to do begins no more questions than the usual places."""

import asyncio

from bot.config.schema import ProviderSection
from bot.forecasting.question_admission import (
    GROWTH_IN_TIME,
    MAX_BEGUN_AT_ONCE,
    MAX_LATENESS_S,
    MAX_PLACES,
    PLACES_WITHOUT_MODELS,
    POLL_S,
    QuestionAdmission,
)
from bot.llm.request_load import WAITING_SHARE
from bot.testing.clock import FakeClock
from tests.unit.jobs.test_forecast_pass import FakeRequestLoad


def test_questions_for_all_requests_of_a_provider_may_be_under_way_and_for_those_that_wait() -> None:
    requests = ProviderSection().concurrency
    assert requests + WAITING_SHARE * requests <= MAX_PLACES
    load = FakeRequestLoad(10_000)
    admission = QuestionAdmission(clock=FakeClock(), load=load)
    for _ in range(MAX_PLACES - 1):
        admission.begin(trials=0)
    assert (admission.room(trials=1), load.is_question_limit_reached) == (1, False)
    last = admission.begin(trials=0)
    assert (admission.room(trials=1), load.is_question_limit_reached) == (0, True)
    admission.end(last)
    assert not load.is_question_limit_reached


async def wait_late(admission: QuestionAdmission, clock: FakeClock, late_s: float) -> None:
    """Wait as the forecast job does while the process wakes up so late."""
    waiting = asyncio.ensure_future(admission.wait())
    await asyncio.sleep(0)
    await clock.advance(POLL_S + late_s)
    await waiting


async def test_a_process_that_is_late_begins_no_more_than_the_usual_places_until_it_is_in_time() -> None:
    clock = FakeClock()
    admission = QuestionAdmission(clock=clock, load=FakeRequestLoad(100))
    under_way = [admission.begin(trials=0) for _ in range(PLACES_WITHOUT_MODELS)]
    await wait_late(admission, clock, 0.9 * MAX_LATENESS_S)
    assert admission.room(trials=1) == MAX_BEGUN_AT_ONCE
    await wait_late(admission, clock, 1.1 * MAX_LATENESS_S)
    assert admission.room(trials=1) == 0
    # One of the usual places is free.
    admission.end(under_way.pop())
    assert admission.room(trials=1) > 0
    under_way.append(admission.begin(trials=0))
    assert admission.room(trials=1) == 0
    # A question has ended before the wait, which says nothing of the time that the process takes to wake up.
    await admission.wait()
    assert admission.room(trials=1) == 0
    await wait_late(admission, clock, 0.0)
    assert 0 < admission.room(trials=1) < MAX_BEGUN_AT_ONCE
    for _ in range(MAX_BEGUN_AT_ONCE // GROWTH_IN_TIME):
        await wait_late(admission, clock, 0.0)
    assert admission.room(trials=1) == MAX_BEGUN_AT_ONCE


async def test_the_more_often_a_process_is_late_the_fewer_questions_it_begins_in_one_instant() -> None:
    clock = FakeClock()
    load = FakeRequestLoad(100)
    admission = QuestionAdmission(clock=clock, load=load)
    _ = [admission.begin(trials=0) for _ in range(PLACES_WITHOUT_MODELS)]
    rooms = []
    for _ in range(6):
        await wait_late(admission, clock, 2 * MAX_LATENESS_S)
        await wait_late(admission, clock, 0.0)
        rooms.append(admission.room(trials=1))
    assert rooms == sorted(rooms, reverse=True)
    assert 1 <= rooms[-1] <= 2 * GROWTH_IN_TIME
    busy = [load.is_process_busy]
    # Where the models would get no more, it is not this process that bounds them.
    load.places = 0
    await wait_late(admission, clock, 2 * MAX_LATENESS_S)
    busy.append(load.is_process_busy)
    load.places = 100
    await wait_late(admission, clock, 2 * MAX_LATENESS_S)
    busy.append(load.is_process_busy)
    for _ in range(MAX_BEGUN_AT_ONCE // GROWTH_IN_TIME):
        await wait_late(admission, clock, 0.0)
    assert [*busy, load.is_process_busy] == [True, False, True, False]
