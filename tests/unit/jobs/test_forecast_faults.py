"""What goes wrong with one question, and what that must not cost the others."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count

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


async def leased(house: JobsFixture) -> int:
    return (await house.ledger.schedule.counts(house.clock.now())).leased


@pytest.mark.parametrize("error", [ArithmeticError("no optimum"), LeakError("from tomorrow"), StoreError("unreadable")])
async def test_a_question_that_cannot_be_calibrated_is_put_off_alone(house: JobsFixture, error: Exception) -> None:
    soon = house.clock.now() + timedelta(days=1)
    house.calibrator = FakeFailingCalibrator(error)
    house.offer("rain", closes_at=soon)
    house.offer(*(f"question {number}" for number in range(40)))
    await house.discover()
    with capture_logs() as logs:
        assert await house.forecast() == "40 forecasts made, 1 postponed"
    assert await leased(house) == 0
    [told] = [entry for entry in logs if entry["event"] == "forecast postponed"]
    # What an error of a library says may hold a key, and the ledger keeps it for ever.
    line = " (test_forecast_faults.py:" if isinstance(error, ArithmeticError) else f": {error}"
    assert told["question"] == str(RAIN)
    assert told["why"].startswith(f"{type(error).__name__}{line}")
    assert told["exc_info"] is error


async def test_a_question_that_was_put_off_begins_a_new_revision(house: JobsFixture) -> None:
    house.calibrator = FakeFailingCalibrator(ArithmeticError("no optimum"))
    house.offer("rain")
    await house.discover()
    await house.forecast()
    house.calibrator = FakeFailingCalibrator(AssertionError("not asked"))
    await house.clock.advance(299)
    assert await house.forecast() == "0 forecasts made"
    await house.clock.advance(1)
    assert await house.forecast() == "0 forecasts made, 1 postponed"
    # The second wait is longer.
    await house.clock.advance(3599)
    assert await house.forecast() == "0 forecasts made"
    house.calibrator = IdentityCalibrator()
    await house.clock.advance(1)
    assert await house.forecast() == "1 forecasts made"
    assert [forecast.revision for forecast in await house.history()] == [3]


async def test_a_forecast_that_contradicts_the_run_before_it_is_put_off_and_made_anew(house: JobsFixture) -> None:
    now = house.clock.now()
    house.forecasters = {FIRST: moody()}
    house.offer("rain", "snow")
    await house.discover()
    # What a kill between the second step and the end of the trial leaves behind.
    asked = await house.ledger.questions.get(RAIN)
    running = await house.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="new", now=now)
    )
    for number, step in enumerate((thought(0.4, "clouds"), thought(0.5, "mood of the run before")), start=1):
        await house.ledger.forecasts.log_step(running.id, trial=1, number=number, step=step, at=now)

    assert await house.forecast() == "1 forecasts made, 1 postponed"
    assert await leased(house) == 0
    left = await house.ledger.forecasts.trace(running.id)
    assert (left.state, left.forecast) == ("abandoned", None)
    await house.clock.advance(300)
    assert await house.forecast() == "1 forecasts made"
    assert [forecast.revision for forecast in await house.history()] == [2]


async def test_a_ledger_that_takes_nothing_any_more_ends_the_pass(house: JobsFixture) -> None:
    # SQLite itself refuses any further page, as a disk does that is full.
    await house.ledger.events.writer.run(lambda database: database.execute("pragma max_page_count = 1").fetchone())
    house.forecasters = {FIRST: ScriptedForecaster(lambda _: thought(0.4, "x" * 1_000_000))}
    with pytest.raises(StoreError, match="disk is full"):
        await _discover_and_forecast(house)


async def _discover_and_forecast(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()


async def test_a_clock_that_is_set_back_dates_no_answer_before_its_cutoff(house: JobsFixture) -> None:
    began = house.clock.now()
    believe = believe_yes(0.3)
    assert callable(believe)

    def set_back(question: Question) -> Step:
        house.clock.set_wall_clock(-30.0)
        return believe(question)

    house.forecasters = {FIRST: ScriptedForecaster(set_back)}
    house.offer("rain")
    await house.discover()
    assert await house.forecast() == "1 forecasts made"
    [forecast] = await house.history()
    assert (forecast.cutoff, forecast.made_at) == (began, began)


def keyless(question: Question) -> Step:
    message = "prime:model: no key; set FOXCAST_KEY"
    raise AuthenticationError(message)


async def test_without_credentials_the_pass_fails_with_the_remedy_and_no_warning_for_each_question(
    house: JobsFixture,
) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(keyless), SECOND: ScriptedForecaster(believe_yes(0.6))}
    house.offer(*(f"question {number}" for number in range(9)))
    await house.discover((FIRST, SECOND))
    with capture_logs() as logs, pytest.raises(AuthenticationError) as raised:
        await house.forecast()
    assert str(raised.value) == ("9 forecasts made, 9 postponed; first made none: prime:model: no key; set FOXCAST_KEY")
    assert [entry for entry in logs if entry["log_level"] in {"warning", "error"}] == []
    # With nothing to do nothing is refused.
    assert await house.forecast() == "0 forecasts made"


async def test_who_could_work_for_some_questions_is_warned_of_once(house: JobsFixture) -> None:
    def moody(question: Question) -> Step:
        return thought(0.4, "clouds") if question.ref == RAIN else keyless(question)

    house.forecasters = {FIRST: ScriptedForecaster(moody)}
    house.offer("rain", *(f"question {number}" for number in range(9)))
    await house.discover()
    with capture_logs() as logs:
        said = await house.forecast()
    refused = "9 trials failed: prime:model: no key; set FOXCAST_KEY"
    assert said == f"1 forecasts made, 9 postponed; {refused}"
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["why"] == "prime:model: no key; set FOXCAST_KEY"


async def test_the_same_trouble_of_many_questions_is_one_warning(house: JobsFixture) -> None:
    def closed(question: Question) -> Step:
        message = "prime is being repaired"
        raise ServiceUnavailableError(message)

    house.forecasters = {FIRST: ScriptedForecaster(closed)}
    house.offer(*(f"question {number}" for number in range(9)))
    await house.discover()
    with capture_logs() as logs:
        said = await house.forecast()
    assert said == "0 forecasts made, 9 postponed; 9 trials failed: prime is being repaired"
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert told["until"] == (house.clock.now() + timedelta(minutes=5)).isoformat(timespec="seconds")
