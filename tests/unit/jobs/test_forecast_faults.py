"""What goes wrong with one question, and what that must not cost the others."""

import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from random import Random

import pytest
from structlog.testing import capture_logs

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import AuthenticationError, LeakError, ServiceUnavailableError, StoreError
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import Question, QuestionRef
from bot.forecasting.calibration import CalibratedPredictions, IdentityCalibrator
from bot.store.forecasts import ForecastStart
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, JobsFixture

RAIN = QuestionRef(VENUE, "rain")


class FakeFailingCalibrator:
    """Implements Calibrator: cannot calibrate rain, and leaves everything else as it is."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> CalibratedPredictions:
        if question.ref == RAIN:
            raise self.error
        return CalibratedPredictions(predictions=raw, digest=None)


def thought(probability: float, text: str) -> Step:
    belief = Belief(predictions={"outcome": BinaryPrediction(probability)})
    return Step(action=StepAction(name="think"), observation=StepObservation(text=text), belief=belief)


def moody() -> ScriptedForecaster:
    """Return one that says the same at first, then something else at every call, as a language model does."""
    calls = count(1)
    return ScriptedForecaster(lambda _: thought(0.4, "clouds"), lambda _: thought(0.5, f"mood {next(calls)}"))


async def leased(jobs_fixture: JobsFixture) -> int:
    return (await jobs_fixture.ledger.schedule.counts(jobs_fixture.clock.now())).leased


@pytest.mark.parametrize("error", [ArithmeticError("no optimum"), LeakError("from tomorrow"), StoreError("unreadable")])
async def test_a_question_that_cannot_be_calibrated_is_put_off_alone(
    jobs_fixture: JobsFixture, error: Exception
) -> None:
    soon = jobs_fixture.clock.now() + timedelta(days=1)
    jobs_fixture.calibrator = FakeFailingCalibrator(error)
    jobs_fixture.offer("rain", closes_at=soon)
    jobs_fixture.offer(*(f"question {number}" for number in range(40)))
    await jobs_fixture.discover()
    with capture_logs() as logs:
        assert await jobs_fixture.forecast() == "40 forecasts made, 1 postponed"
    assert await leased(jobs_fixture) == 0
    [told] = [entry for entry in logs if entry["event"] == "forecast postponed"]
    # What an error of a library says may hold a key, and the ledger keeps it for ever.
    line = " (test_forecast_faults.py:" if isinstance(error, ArithmeticError) else f": {error}"
    assert told["question"] == str(RAIN)
    assert told["why"].startswith(f"{type(error).__name__}{line}")
    assert told["exc_info"] is error


async def test_a_question_that_was_put_off_begins_a_new_revision(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.calibrator = FakeFailingCalibrator(ArithmeticError("no optimum"))
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    jobs_fixture.calibrator = FakeFailingCalibrator(AssertionError("not asked"))
    await jobs_fixture.clock.advance(299)
    assert await jobs_fixture.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(1)
    assert await jobs_fixture.forecast() == "0 forecasts made, 1 postponed"
    # The second wait is longer.
    await jobs_fixture.clock.advance(3599)
    assert await jobs_fixture.forecast() == "0 forecasts made"
    jobs_fixture.calibrator = IdentityCalibrator()
    await jobs_fixture.clock.advance(1)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert [forecast.revision for forecast in await jobs_fixture.history()] == [3]


async def test_a_forecast_that_contradicts_the_run_before_it_is_put_off_and_made_anew(
    jobs_fixture: JobsFixture,
) -> None:
    now = jobs_fixture.clock.now()
    jobs_fixture.forecasters = {FIRST: moody()}
    jobs_fixture.offer("rain", "snow")
    await jobs_fixture.discover()
    # What a kill between the second step and the end of the trial leaves behind.
    asked = await jobs_fixture.ledger.questions.get(RAIN)
    running = await jobs_fixture.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="new", now=now)
    )
    for number, step in enumerate((thought(0.4, "clouds"), thought(0.5, "mood of the run before")), start=1):
        await jobs_fixture.ledger.forecasts.log_step(running.id, trial=1, number=number, step=step, at=now)

    assert await jobs_fixture.forecast() == "1 forecasts made, 1 postponed"
    assert await leased(jobs_fixture) == 0
    left = await jobs_fixture.ledger.forecasts.trace(running.id)
    assert (left.state, left.forecast) == ("abandoned", None)
    await jobs_fixture.clock.advance(300)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert [forecast.revision for forecast in await jobs_fixture.history()] == [2]


async def test_a_ledger_that_takes_nothing_any_more_ends_the_pass(jobs_fixture: JobsFixture) -> None:
    # SQLite itself refuses any further page, as a disk does that is full.
    await jobs_fixture.ledger.events.writer.run(
        lambda database: database.execute("pragma max_page_count = 1").fetchone()
    )
    # Not even compressed does it fit into the free pages.
    noise = Random(1).randbytes(500_000).hex()
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(lambda _: thought(0.4, noise))}
    with pytest.raises(StoreError, match="disk is full"):
        await _discover_and_forecast(jobs_fixture)


async def _discover_and_forecast(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()


async def test_a_clock_that_is_set_back_dates_no_answer_before_its_cutoff(jobs_fixture: JobsFixture) -> None:
    began = jobs_fixture.clock.now()
    believe = believe_yes(0.3)
    assert callable(believe)

    def set_back(question: Question) -> Step:
        jobs_fixture.clock.set_wall_clock(-30.0)
        return believe(question)

    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(set_back)}
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    [forecast] = await jobs_fixture.history()
    assert (forecast.cutoff, forecast.made_at) == (began, began)


def keyless(question: Question) -> Step:
    message = "prime:model: no key; set FOXCAST_KEY"
    raise AuthenticationError(message)


async def test_without_credentials_the_pass_fails_with_the_remedy_and_no_warning_for_each_question(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(keyless), SECOND: ScriptedForecaster(believe_yes(0.6))}
    jobs_fixture.offer(*(f"question {number}" for number in range(9)))
    await jobs_fixture.discover((FIRST, SECOND))
    with capture_logs() as logs, pytest.raises(AuthenticationError) as raised:
        await jobs_fixture.forecast()
    assert str(raised.value) == ("9 forecasts made, 9 postponed; first made none: prime:model: no key; set FOXCAST_KEY")
    assert [entry for entry in logs if entry["log_level"] in {"warning", "error"}] == []
    # With nothing to do nothing is refused.
    assert await jobs_fixture.forecast() == "0 forecasts made"


async def test_who_could_work_for_some_questions_is_warned_of_once(jobs_fixture: JobsFixture) -> None:
    def moody(question: Question) -> Step:
        return thought(0.4, "clouds") if question.ref == RAIN else keyless(question)

    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(moody)}
    jobs_fixture.offer("rain", *(f"question {number}" for number in range(9)))
    await jobs_fixture.discover()
    with capture_logs() as logs:
        said = await jobs_fixture.forecast()
    refused = "9 trials failed: prime:model: no key; set FOXCAST_KEY"
    assert said == f"1 forecasts made, 9 postponed; {refused}"
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["why"] == "prime:model: no key; set FOXCAST_KEY"


async def test_the_same_trouble_of_many_questions_is_one_warning(jobs_fixture: JobsFixture) -> None:
    def closed(question: Question) -> Step:
        message = "prime is being repaired"
        raise ServiceUnavailableError(message)

    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(closed)}
    jobs_fixture.offer(*(f"question {number}" for number in range(9)))
    await jobs_fixture.discover()
    with capture_logs() as logs:
        said = await jobs_fixture.forecast()
    assert said == "0 forecasts made, 9 postponed; 9 trials failed: prime is being repaired"
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["until"] == (jobs_fixture.clock.now() + timedelta(minutes=5)).isoformat(timespec="seconds")


async def test_a_forecast_fails_and_its_question_is_postponed_together_or_not_at_all(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.calibrator = FakeFailingCalibrator(ArithmeticError("no optimum"))
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.ledger.permissions.write(
        lambda database: database.execute(
            "create trigger attached.disk_full before update of not_before on schedule when new.not_before is not null "
            "begin select raise(abort, 'full'); end"
        )
    )
    with pytest.raises(sqlite3.IntegrityError, match="full"):
        await jobs_fixture.forecast()
    states = await jobs_fixture.ledger.permissions.read(
        lambda database: database.execute("select state from forecast").fetchall()
    )
    # A failed one whose question is still due would be paid again at once.
    assert states == [("running",)]
