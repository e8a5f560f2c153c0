"""A forecast that a person asks of the daemon: made due now, or refused with a reason that says what to do."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from bot.core.beliefs import Step
from bot.core.errors import MalformedDataError
from bot.core.forecasts import TrialLimits
from bot.core.interfaces import TrialContext
from bot.core.language_models import ModelUrgency
from bot.core.operator_requests import ForecastQuestion, LockQuestion
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.trial_tools import GuardedTrialContext
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.store.forecast_queries import find_questions_by_url, read_forecast_status
from bot.store.requests import MAX_REQUEST_BYTES, pending_requests, send_request
from bot.testing.forecaster import HangingStep, ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture, outcome, question
from tests.unit.jobs.test_forecast_pass import FakeBlockedForecaster

REF = QuestionRef(VENUE, "rain")
OWN = Question(ref=QuestionRef("file", "snow"), title="Snow?", shape=BinaryShape(), targets=(Target(),))


class FakeExpensiveEstimates:
    """Every forecast costs ten US dollars."""

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        return 10.0


def configured_forecasters(*, asks: bool = False) -> Mapping[str, ConfiguredForecaster]:
    scripted = ScriptedForecaster(HangingStep())
    return {
        FIRST: ConfiguredForecaster(
            name=FIRST,
            implementation=scripted,
            trials=1,
            pool=PoolingMethod.MEAN,
            limits=TrialLimits(),
            uses_models=asks,
        ),
    }


async def attended(jobs_fixture: JobsFixture, **parts: Any) -> str:
    given = {"forecasters": configured_forecasters(), **parts}
    return await handle_requests(
        OperatorRequestContext(folder=jobs_fixture.path, ledger=jobs_fixture.ledger, clock=jobs_fixture.clock, **given)
    )


class UrgencyRecorder(ScriptedForecaster):
    """Notes how urgent the requests of each question are."""

    def __init__(self) -> None:
        super().__init__(believe_yes(0.3))
        self.urgencies: dict[str, ModelUrgency] = {}

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        assert isinstance(context, GuardedTrialContext)
        self.urgencies[question.ref.key] = context.urgency
        async for step in super().steps(question, context):
            yield step


async def told(jobs_fixture: JobsFixture) -> str:
    [event, *_] = await jobs_fixture.ledger.events.recent(9, "request")
    return event.text.partition(" [")[0]


async def test_a_question_on_record_becomes_due_now_though_it_was_forecast_already(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert await jobs_fixture.forecast() == "0 forecasts made"
    send_request(jobs_fixture.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=jobs_fixture.clock.now())
    assert await attended(jobs_fixture) == "1 requests done"
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert [made.why for made in await jobs_fixture.history()] == ["new question", "asked for"]
    assert await told(jobs_fixture) == f"forecast of lantern:rain by {FIRST} asked for"


async def test_a_question_of_ones_own_comes_with_the_request(jobs_fixture: JobsFixture) -> None:
    send_request(
        jobs_fixture.path, ForecastQuestion(ref=OWN.ref, forecaster=FIRST, question=OWN), at=jobs_fixture.clock.now()
    )
    assert await attended(jobs_fixture) == "1 requests done"
    assert await jobs_fixture.ledger.questions.get(OWN.ref) == OWN
    assert await jobs_fixture.forecast() == "1 forecasts made"
    [made] = await jobs_fixture.ledger.forecasts.history(OWN.ref)
    assert made.why == "asked for"


async def test_models_answer_a_person_first_and_then_questions_that_close_within_the_hour(
    jobs_fixture: JobsFixture,
) -> None:
    noting = UrgencyRecorder()
    jobs_fixture.forecasters = {FIRST: noting}
    now = jobs_fixture.clock.now()
    jobs_fixture.offer("rain", closes_at=now + timedelta(minutes=59))
    jobs_fixture.offer("wind", closes_at=now + timedelta(minutes=61))
    await jobs_fixture.discover()
    send_request(jobs_fixture.path, ForecastQuestion(ref=OWN.ref, forecaster=FIRST, question=OWN), at=now)
    assert await attended(jobs_fixture) == "1 requests done"
    assert await jobs_fixture.forecast() == "3 forecasts made"
    assert noting.urgencies == {
        OWN.ref.key: ModelUrgency.REQUESTED,
        "rain": ModelUrgency.CLOSING_SOON,
        "wind": ModelUrgency.ORDINARY,
    }


async def test_a_forecast_that_a_person_waits_for_is_begun_although_all_places_are_taken(
    jobs_fixture: JobsFixture,
) -> None:
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters, jobs_fixture.concurrency = {FIRST: gated}, 1
    jobs_fixture.offer("slow 1", "slow 2")
    await jobs_fixture.discover()
    under_way = asyncio.ensure_future(jobs_fixture.forecast())
    await gated.waits("slow 1")
    request = ForecastQuestion(ref=OWN.ref, forecaster=FIRST, question=OWN)
    send_request(jobs_fixture.path, request, at=jobs_fixture.clock.now())
    assert await attended(jobs_fixture, wake=jobs_fixture.requested.add) == "1 requests done"
    await asyncio.wait_for(gated.waits(OWN.ref.key), 5.0)
    assert "slow 2" not in gated.arrived
    gated.gate.set()
    assert await under_way == "3 forecasts made"


async def test_a_question_that_nobody_knows_is_refused(jobs_fixture: JobsFixture) -> None:
    send_request(jobs_fixture.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=jobs_fixture.clock.now())
    assert await attended(jobs_fixture) == "0 requests done, 1 refused"
    assert "no question lantern:rain in the ledger" in await told(jobs_fixture)


async def test_a_forecaster_that_is_not_open_is_refused_by_name(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    path = send_request(jobs_fixture.path, ForecastQuestion(ref=REF, forecaster="frist"), at=jobs_fixture.clock.now())
    assert await attended(jobs_fixture) == "0 requests done, 1 refused"
    said = await told(jobs_fixture)
    for part in (path.name, "frist is not running here", f"did you mean {FIRST}?", "start the daemon again"):
        assert part in said
    assert pending_requests(jobs_fixture.path) == []


async def test_what_would_be_held_is_refused_with_the_way_to_say_yes(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    request = ForecastQuestion(ref=REF, forecaster=FIRST)
    send_request(jobs_fixture.path, request, at=jobs_fixture.clock.now())
    dear = CostCheck(estimates=FakeExpensiveEstimates(), ask_above_usd=5.0)
    assert (
        await attended(jobs_fixture, forecasters=configured_forecasters(asks=True), cost_check=dear)
        == "0 requests done, 1 refused"
    )
    assert "foxcast run --yes" in await told(jobs_fixture)
    send_request(jobs_fixture.path, request, at=jobs_fixture.clock.now())
    agreed = CostCheck(estimates=FakeExpensiveEstimates(), ask_above_usd=5.0, confirmed=True)
    assert (
        await attended(jobs_fixture, forecasters=configured_forecasters(asks=True), cost_check=agreed)
        == "1 requests done"
    )


async def test_a_closed_a_resolved_and_a_locked_question_are_refused(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain", "snow", "hail")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    now = jobs_fixture.clock.now()
    await jobs_fixture.ledger.resolutions.record([outcome("snow", 1.0, at=now)], seen_at=now)
    for key, why in (("snow", "has resolved"), ("hail", "locked: disputed"), ("rain", "closed at")):
        ref = QuestionRef(VENUE, key)
        if key == "hail":
            send_request(jobs_fixture.path, LockQuestion(ref=ref, reason="disputed"), at=jobs_fixture.clock.now())
            await attended(jobs_fixture)
        if key == "rain":
            await jobs_fixture.clock.advance(timedelta(days=11).total_seconds())
        send_request(jobs_fixture.path, ForecastQuestion(ref=ref, forecaster=FIRST), at=jobs_fixture.clock.now())
        assert await attended(jobs_fixture) == "0 requests done, 1 refused"
        assert why in await told(jobs_fixture)


async def test_a_question_that_its_venue_dates_is_forecast_though_its_window_is_over(jobs_fixture: JobsFixture) -> None:
    now = jobs_fixture.clock.now()
    past = question("rain", now=now, as_of=now - timedelta(days=9), closes_at=now - timedelta(days=2), price=None)
    await jobs_fixture.ledger.questions.record([past], seen_at=now)
    send_request(jobs_fixture.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=now)
    assert await attended(jobs_fixture) == "1 requests done"


async def test_a_question_that_was_put_off_stays_put_off_and_says_so(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters[FIRST] = ScriptedForecaster(RuntimeError("broken"))
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert "1 postponed" in await jobs_fixture.forecast()
    send_request(jobs_fixture.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=jobs_fixture.clock.now())
    await attended(jobs_fixture)
    standing = await read_forecast_status(jobs_fixture.ledger.forecasts.readers, REF, FIRST)
    assert standing.attempt is not None
    assert standing.place is not None
    assert (standing.attempt.state, standing.attempt.revision) == ("failed", 1)
    assert standing.place.due_at == jobs_fixture.clock.now() + timedelta(minutes=5)
    assert "RuntimeError" in standing.place.why


async def test_nothing_stands_of_a_question_that_was_never_seen(jobs_fixture: JobsFixture) -> None:
    standing = await read_forecast_status(jobs_fixture.ledger.forecasts.readers, REF, FIRST)
    assert (standing.attempt, standing.place) == (None, None)


async def test_questions_are_found_by_a_part_of_their_address_taken_literally(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain", url="https://almanac.example/q_1")
    jobs_fixture.offer("snow", url="https://almanac.example/qx1")
    await jobs_fixture.discover()
    found = await find_questions_by_url(jobs_fixture.ledger.questions.readers, "almanac.example/q_1")
    assert found == [(REF, "https://almanac.example/q_1")]


def test_a_request_under_the_name_of_another_question_is_refused() -> None:
    with pytest.raises(ValueError, match="lantern:rain is requested with the question file:snow"):
        ForecastQuestion(ref=REF, forecaster=FIRST, question=OWN)


def test_a_request_too_large_to_be_read_is_not_left(jobs_fixture: JobsFixture) -> None:
    ref = QuestionRef("file", "long")
    long = Question(
        ref=ref, title="Long?", shape=BinaryShape(), targets=(Target(),), background="x" * MAX_REQUEST_BYTES
    )
    with pytest.raises(MalformedDataError, match="shorten its texts"):
        send_request(
            jobs_fixture.path, ForecastQuestion(ref=ref, forecaster=FIRST, question=long), at=jobs_fixture.clock.now()
        )
    assert pending_requests(jobs_fixture.path) == []
