from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction
from bot.core.questions import QuestionRef
from bot.store.forecasts import ForecastStart
from bot.store.schedule import DueEntry
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, JobsFixture

DAY_S = 86_400.0
HOUR_S = 3_600.0


async def test_a_new_question_is_forecast_once(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made"
    assert [forecast.why for forecast in await jobs_fixture.history()] == ["new question"]


async def test_every_forecaster_of_the_venue_gets_the_question(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover([FIRST, SECOND])
    await jobs_fixture.forecast()
    made = {forecast.forecaster: forecast.predictions["outcome"] for forecast in await jobs_fixture.history()}
    assert made == {FIRST: BinaryPrediction(0.3), SECOND: BinaryPrediction(0.6)}


async def test_a_stale_forecast_is_renewed(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(3 * DAY_S - 1)
    assert await jobs_fixture.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(1)
    await jobs_fixture.forecast()
    assert [forecast.why for forecast in await jobs_fixture.history()] == ["new question", "stale"]


async def test_a_changed_text_is_forecast_again(jobs_fixture: JobsFixture) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    jobs_fixture.offer("rain", closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(HOUR_S)
    jobs_fixture.offer("rain", closes_at=closes_at, criteria="More than a millimetre.")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert [forecast.why for forecast in await jobs_fixture.history()] == [
        "new question",
        "the question changed: the resolution criteria changed",
    ]


async def test_small_price_moves_add_up_to_one_that_counts(jobs_fixture: JobsFixture) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    jobs_fixture.offer("rain", price=0.40, closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(HOUR_S)
    for price in (0.45, 0.50):
        jobs_fixture.offer("rain", price=price, closes_at=closes_at)
        await jobs_fixture.discover()
        assert await jobs_fixture.forecast() == "0 forecasts made"
    jobs_fixture.offer("rain", price=0.55, closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    # ln(0.55/0.45) - ln(0.40/0.60) = 0.2007 + 0.4055 = 0.6061
    assert [forecast.why for forecast in await jobs_fixture.history()][1:] == ["price moved by 0.61 in log-odds"]


async def test_every_price_move_counts_and_so_does_a_change_of_the_text_after_them(jobs_fixture: JobsFixture) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    reasons = []
    for changes in ({"price": 0.4}, {"price": 0.7}, {"price": 0.95}, {"price": 0.5}, {"price": 0.5, "title": "Rain?"}):
        jobs_fixture.offer("rain", closes_at=closes_at, **changes)
        await jobs_fixture.discover()
        assert await jobs_fixture.forecast() == "1 forecasts made"
        reasons.append((await jobs_fixture.history())[-1].why.split(" by ")[0])
        await jobs_fixture.clock.advance(HOUR_S)
    assert reasons[:4] == ["new question", "price moved", "price moved", "price moved"]
    assert reasons[4] == 'the question changed: the title was "Will there be rain?" and is "Rain?" now'


async def test_a_question_that_changed_is_forecast_again_at_once_unless_it_changes_to_and_fro(
    jobs_fixture: JobsFixture,
) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    made = []
    for number in range(6):
        jobs_fixture.offer("rain", closes_at=closes_at, criteria=f"More than {number % 2} mm.")
        await jobs_fixture.discover()
        made.append(await jobs_fixture.forecast())
        await jobs_fixture.clock.advance(60)
    assert made == [*["1 forecasts made"] * 4, *["0 forecasts made"] * 2]
    await jobs_fixture.clock.advance(HOUR_S)
    assert await jobs_fixture.forecast() == "1 forecasts made"


@pytest.mark.parametrize("changes", [{"price": 0.7}, {"weight": 2.0}])
async def test_what_moves_soon_after_a_forecast_waits_for_the_shortest_gap(
    jobs_fixture: JobsFixture, changes: dict[str, object]
) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    jobs_fixture.offer("rain", price=0.4, closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(60)
    jobs_fixture.offer("rain", **{"price": 0.4, "closes_at": closes_at, **changes})
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made"
    # The default gap is an hour.
    await jobs_fixture.clock.advance(HOUR_S - 61)
    assert await jobs_fixture.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(1)
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_the_soonest_close_is_forecast_first(jobs_fixture: JobsFixture) -> None:
    now = jobs_fixture.clock.now()
    for key, days in (("late", 9), ("soon", 1), ("middle", 5)):
        jobs_fixture.offer(key, closes_at=now + timedelta(days=days))
    forecaster = ScriptedForecaster(believe_yes(0.3))
    jobs_fixture.forecasters, jobs_fixture.concurrency = {FIRST: forecaster}, 1
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert [ref.key for ref in forecaster.started] == ["soon", "middle", "late"]


async def test_a_forecaster_that_fails_is_tried_again_later(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(ServiceUnavailableError("the model is down"))}
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made, 1 postponed; 1 trial failed: the model is down"
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    assert await jobs_fixture.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(300)
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_one_failing_question_does_not_stop_the_others(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {
        FIRST: ScriptedForecaster(believe_yes(0.3)),
        SECOND: ScriptedForecaster(KeyError("bug")),
    }
    jobs_fixture.offer("rain", "snow")
    await jobs_fixture.discover([FIRST, SECOND])
    said = await jobs_fixture.forecast()
    assert said.startswith("2 forecasts made, 2 postponed; 2 trials failed: KeyError (forecaster.py:")


async def test_a_lock_holds_a_question_back_until_it_expires(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    now = jobs_fixture.clock.now()
    ref = QuestionRef(VENUE, "rain")
    await jobs_fixture.ledger.schedule.lock(
        ref, forecaster=None, reason="rules unclear", until=now + timedelta(hours=1), now=now
    )
    assert await jobs_fixture.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(3601)
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_nothing_is_claimed_once_the_daemon_stops(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    jobs_fixture.stop = lambda: True
    assert await jobs_fixture.forecast() == "0 forecasts made"


async def test_a_killed_run_is_taken_up_without_repeating_ended_trials(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    now = jobs_fixture.clock.now()
    claims = await jobs_fixture.ledger.schedule.claim(now=now, owner="dead run", lease=timedelta(minutes=15), limit=9)
    assert len(claims) == 1
    asked = await jobs_fixture.ledger.questions.get(claims[0].ref)
    running = await jobs_fixture.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="new question", now=now)
    )
    first = ScriptedForecaster(believe_yes(0.2))
    jobs_fixture.forecasters, jobs_fixture.trials = {FIRST: first}, 1
    await _one_trial(jobs_fixture, running.id, asked.ref)

    freed = await jobs_fixture.ledger.schedule.free_leases(owner_not="run 1", now=now)
    jobs_fixture.forecasters, jobs_fixture.trials = {FIRST: ScriptedForecaster(believe_yes(0.6))}, 2
    assert (freed, await jobs_fixture.forecast()) == (1, "1 forecasts made")
    made = await jobs_fixture.history()
    assert [(forecast.id, forecast.predictions["outcome"]) for forecast in made] == [
        (running.id, BinaryPrediction(0.4))
    ]


async def _one_trial(jobs_fixture: JobsFixture, forecast: str, ref: QuestionRef) -> None:
    """Log trial 1 with the belief 0.2, as a run does that is killed before trial 2."""
    step = believe_yes(0.2)
    question = await jobs_fixture.ledger.questions.get(ref)
    assert callable(step)
    logged = step(question)
    now = jobs_fixture.clock.now()
    await jobs_fixture.ledger.forecasts.log_step(forecast, trial=1, number=1, step=logged, at=now)
    trial = Trial(number=1, end=TrialEnd.FINISHED, belief=logged.belief, steps=1)
    await jobs_fixture.ledger.forecasts.end_trial(forecast, trial, at=now)


async def test_a_venue_that_fails_midway_keeps_what_it_had_said(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer(*(f"question {n}" for n in range(300)))
    jobs_fixture.venue.fail_with(ServiceUnavailableError("gone"), after=260)
    with pytest.raises(ServiceUnavailableError):
        await jobs_fixture.discover()
    assert await jobs_fixture.ledger.questions.count() == 260
    jobs_fixture.venue.recover()
    await jobs_fixture.discover()
    assert await jobs_fixture.ledger.questions.count() == 300


async def test_a_plan_that_a_forecast_has_overtaken_is_void(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    now = jobs_fixture.clock.now()
    # What discovery wrote down before the forecast was made, and hands in after it.
    late = DueEntry(ref=QuestionRef(VENUE, "rain"), forecaster=FIRST, due_at=now, why="new question")
    await jobs_fixture.forecast()
    assert await jobs_fixture.ledger.schedule.plan([late]) == 0
    assert await jobs_fixture.forecast() == "0 forecasts made"


async def test_a_forecaster_no_longer_in_use_does_not_stop_the_others(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover([FIRST, SECOND])
    del jobs_fixture.forecasters[SECOND]
    assert await jobs_fixture.forecast() == "1 forecasts made, 1 postponed"


async def test_a_window_that_closed_without_a_forecast_raises_the_alarm_once(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(ServiceUnavailableError("the model is down"))}
    jobs_fixture.offer("rain", closes_at=jobs_fixture.clock.now() + timedelta(hours=1))
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(3600)
    with capture_logs() as logs:
        said = await jobs_fixture.forecast()
        assert said.startswith("0 forecasts made, 1 postponed, 1 question windows missed; 1 trial failed: ")
        assert "missed" not in await jobs_fixture.forecast()
    alarms = [entry for entry in logs if entry["event"] == "question windows missed"]
    assert [(entry["log_level"], entry["first"]) for entry in alarms] == [("warning", f"{VENUE}:rain")]
    [event] = await jobs_fixture.ledger.events.recent(9, "missed window")
    assert "lantern:rain: no forecast of first" in event.text
