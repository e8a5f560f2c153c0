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


async def test_a_new_question_is_forecast_once(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    assert await house.forecast() == "1 forecasts made"
    await house.discover()
    assert await house.forecast() == "0 forecasts made"
    assert [forecast.why for forecast in await house.history()] == ["new question"]


async def test_every_forecaster_of_the_venue_gets_the_question(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover([FIRST, SECOND])
    await house.forecast()
    made = {forecast.forecaster: forecast.predictions["outcome"] for forecast in await house.history()}
    assert made == {FIRST: BinaryPrediction(0.3), SECOND: BinaryPrediction(0.6)}


async def test_a_stale_forecast_is_renewed(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()
    await house.clock.advance(3 * DAY_S - 1)
    assert await house.forecast() == "0 forecasts made"
    await house.clock.advance(1)
    await house.forecast()
    assert [forecast.why for forecast in await house.history()] == ["new question", "stale"]


async def test_a_changed_text_is_forecast_again(house: JobsFixture) -> None:
    closes_at = house.clock.now() + timedelta(days=10)
    house.offer("rain", closes_at=closes_at)
    await house.discover()
    await house.forecast()
    await house.clock.advance(HOUR_S)
    house.offer("rain", closes_at=closes_at, criteria="More than a millimetre.")
    await house.discover()
    await house.forecast()
    assert [forecast.why for forecast in await house.history()] == [
        "new question",
        "the question changed: the resolution criteria changed",
    ]


async def test_small_price_moves_add_up_to_one_that_counts(house: JobsFixture) -> None:
    closes_at = house.clock.now() + timedelta(days=10)
    house.offer("rain", price=0.40, closes_at=closes_at)
    await house.discover()
    await house.forecast()
    await house.clock.advance(HOUR_S)
    for price in (0.45, 0.50):
        house.offer("rain", price=price, closes_at=closes_at)
        await house.discover()
        assert await house.forecast() == "0 forecasts made"
    house.offer("rain", price=0.55, closes_at=closes_at)
    await house.discover()
    await house.forecast()
    # ln(0.55/0.45) - ln(0.40/0.60) = 0.2007 + 0.4055 = 0.6061
    assert [forecast.why for forecast in await house.history()][1:] == ["price moved by 0.61 in log-odds"]


async def test_every_price_move_counts_and_so_does_a_change_of_the_text_after_them(house: JobsFixture) -> None:
    closes_at = house.clock.now() + timedelta(days=10)
    reasons = []
    for changes in ({"price": 0.4}, {"price": 0.7}, {"price": 0.95}, {"price": 0.5}, {"price": 0.5, "title": "Rain?"}):
        house.offer("rain", closes_at=closes_at, **changes)
        await house.discover()
        assert await house.forecast() == "1 forecasts made"
        reasons.append((await house.history())[-1].why.split(" by ")[0])
        await house.clock.advance(HOUR_S)
    assert reasons[:4] == ["new question", "price moved", "price moved", "price moved"]
    assert reasons[4] == 'the question changed: the title was "Will there be rain?" and is "Rain?" now'


async def test_a_question_that_changed_is_forecast_again_at_once_unless_it_changes_to_and_fro(
    house: JobsFixture,
) -> None:
    closes_at = house.clock.now() + timedelta(days=10)
    made = []
    for number in range(6):
        house.offer("rain", closes_at=closes_at, criteria=f"More than {number % 2} mm.")
        await house.discover()
        made.append(await house.forecast())
        await house.clock.advance(60)
    assert made == [*["1 forecasts made"] * 4, *["0 forecasts made"] * 2]
    await house.clock.advance(HOUR_S)
    assert await house.forecast() == "1 forecasts made"


@pytest.mark.parametrize("changes", [{"price": 0.7}, {"facts": {"weight": "2"}}])
async def test_what_moves_soon_after_a_forecast_waits_for_the_shortest_gap(
    house: JobsFixture, changes: dict[str, object]
) -> None:
    closes_at = house.clock.now() + timedelta(days=10)
    house.offer("rain", price=0.4, closes_at=closes_at)
    await house.discover()
    await house.forecast()
    await house.clock.advance(60)
    house.offer("rain", **{"price": 0.4, "closes_at": closes_at, **changes})
    await house.discover()
    assert await house.forecast() == "0 forecasts made"
    # The default gap is an hour.
    await house.clock.advance(HOUR_S - 61)
    assert await house.forecast() == "0 forecasts made"
    await house.clock.advance(1)
    assert await house.forecast() == "1 forecasts made"


async def test_the_soonest_close_is_forecast_first(house: JobsFixture) -> None:
    now = house.clock.now()
    for key, days in (("late", 9), ("soon", 1), ("middle", 5)):
        house.offer(key, closes_at=now + timedelta(days=days))
    forecaster = ScriptedForecaster(believe_yes(0.3))
    house.forecasters, house.concurrency = {FIRST: forecaster}, 1
    await house.discover()
    await house.forecast()
    assert [ref.key for ref in forecaster.started] == ["soon", "middle", "late"]


async def test_a_forecaster_that_fails_is_tried_again_later(house: JobsFixture) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(ServiceUnavailableError("the model is down"))}
    house.offer("rain")
    await house.discover()
    assert await house.forecast() == "0 forecasts made, 1 postponed; 1 trial failed: the model is down"
    house.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    assert await house.forecast() == "0 forecasts made"
    await house.clock.advance(300)
    assert await house.forecast() == "1 forecasts made"


async def test_one_failing_question_does_not_stop_the_others(house: JobsFixture) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3)), SECOND: ScriptedForecaster(KeyError("bug"))}
    house.offer("rain", "snow")
    await house.discover([FIRST, SECOND])
    said = await house.forecast()
    assert said.startswith("2 forecasts made, 2 postponed; 2 trials failed: KeyError (forecaster.py:")


async def test_a_lock_holds_a_question_back_until_it_expires(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    now = house.clock.now()
    ref = QuestionRef(VENUE, "rain")
    await house.ledger.schedule.lock(
        ref, forecaster=None, reason="rules unclear", until=now + timedelta(hours=1), now=now
    )
    assert await house.forecast() == "0 forecasts made"
    await house.clock.advance(3601)
    assert await house.forecast() == "1 forecasts made"


async def test_nothing_is_claimed_once_the_daemon_stops(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    house.stop = lambda: True
    assert await house.forecast() == "0 forecasts made"


async def test_a_killed_run_is_taken_up_without_repeating_ended_trials(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    now = house.clock.now()
    claims = await house.ledger.schedule.claim(now=now, owner="dead run", lease=timedelta(minutes=15), limit=9)
    assert len(claims) == 1
    asked = await house.ledger.questions.get(claims[0].ref)
    running = await house.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="new question", now=now)
    )
    first = ScriptedForecaster(believe_yes(0.2))
    house.forecasters, house.trials = {FIRST: first}, 1
    await _one_trial(house, running.id, asked.ref)

    freed = await house.ledger.schedule.free_leases(owner_not="run 1", now=now)
    house.forecasters, house.trials = {FIRST: ScriptedForecaster(believe_yes(0.6))}, 2
    assert (freed, await house.forecast()) == (1, "1 forecasts made")
    made = await house.history()
    assert [(forecast.id, forecast.predictions["outcome"]) for forecast in made] == [
        (running.id, BinaryPrediction(0.4))
    ]


async def _one_trial(house: JobsFixture, forecast: str, ref: QuestionRef) -> None:
    """Log trial 1 with the belief 0.2, as a run does that is killed before trial 2."""
    step = believe_yes(0.2)
    question = await house.ledger.questions.get(ref)
    assert callable(step)
    logged = step(question)
    now = house.clock.now()
    await house.ledger.forecasts.log_step(forecast, trial=1, number=1, step=logged, at=now)
    trial = Trial(number=1, end=TrialEnd.FINISHED, belief=logged.belief, steps=1)
    await house.ledger.forecasts.end_trial(forecast, trial, at=now)


async def test_a_venue_that_fails_midway_keeps_what_it_had_said(house: JobsFixture) -> None:
    house.offer(*(f"question {n}" for n in range(300)))
    house.venue.fail_with(ServiceUnavailableError("gone"), after=260)
    with pytest.raises(ServiceUnavailableError):
        await house.discover()
    assert await house.ledger.questions.count() == 260
    house.venue.recover()
    await house.discover()
    assert await house.ledger.questions.count() == 300


async def test_a_plan_that_a_forecast_has_overtaken_is_void(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    now = house.clock.now()
    # What discovery wrote down before the forecast was made, and hands in after it.
    late = DueEntry(ref=QuestionRef(VENUE, "rain"), forecaster=FIRST, due_at=now, why="new question")
    await house.forecast()
    assert await house.ledger.schedule.plan([late]) == 0
    assert await house.forecast() == "0 forecasts made"


async def test_a_forecaster_no_longer_in_use_does_not_stop_the_others(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover([FIRST, SECOND])
    del house.forecasters[SECOND]
    assert await house.forecast() == "1 forecasts made, 1 postponed"


async def test_a_window_that_closed_without_a_forecast_raises_the_alarm_once(house: JobsFixture) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(ServiceUnavailableError("the model is down"))}
    house.offer("rain", closes_at=house.clock.now() + timedelta(hours=1))
    await house.discover()
    await house.forecast()
    await house.clock.advance(3600)
    with capture_logs() as logs:
        said = await house.forecast()
        assert said.startswith("0 forecasts made, 1 postponed, 1 question windows missed; 1 trial failed: ")
        assert "missed" not in await house.forecast()
    alarms = [entry for entry in logs if entry["event"] == "question windows missed"]
    assert [(entry["log_level"], entry["first"]) for entry in alarms] == [("warning", f"{VENUE}:rain")]
    [event] = await house.ledger.events.recent(9, "missed window")
    assert "lantern:rain: no forecast of first" in event.text
