import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import RequestRejectedError
from bot.core.outcomes import VoidOutcome
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, CurvePrediction
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.reforecast_policy import (
    ReforecastPolicy,
    ReforecastTime,
    log_odds_move,
    next_reforecast,
    reschedule_forecasts,
)
from bot.store.schedule import DueEntry
from bot.store.serialization import format_timestamp
from tests.unit.jobs.conftest import JobsFixture, outcome
from tests.unit.jobs.test_failed_trials import FakeFailingForecaster

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = ReforecastPolicy(
    stale_after=timedelta(days=3), near_close=(timedelta(hours=24), timedelta(hours=2)), min_gap=timedelta(hours=1)
)


def question(*, closes_in: timedelta | None = None, as_of: datetime | None = None) -> Question:
    return Question(
        ref=QuestionRef("lantern", "1"),
        title="?",
        shape=BinaryShape(),
        targets=(Target(),),
        closes_at=None if closes_in is None else NOW + closes_in,
        as_of=as_of,
    )


def test_a_forecast_without_a_closing_time_goes_stale() -> None:
    assert next_reforecast(question(), made_at=NOW, policy=POLICY) == ReforecastTime(NOW + timedelta(days=3), "stale")


def test_the_last_day_before_closing_comes_before_staleness() -> None:
    due = next_reforecast(question(closes_in=timedelta(days=2)), made_at=NOW, policy=POLICY)
    assert due is not None
    assert due.at == NOW + timedelta(days=1)
    assert "before closing" in due.why


def test_after_the_last_reminder_nothing_more_is_due_before_the_close() -> None:
    assert next_reforecast(question(closes_in=timedelta(hours=1)), made_at=NOW, policy=POLICY) is None


def test_a_reminder_that_comes_too_soon_waits_for_the_gap() -> None:
    due = next_reforecast(question(closes_in=timedelta(hours=24, minutes=10)), made_at=NOW, policy=POLICY)
    assert due is not None
    assert due.at == NOW + timedelta(hours=1)


def test_nothing_new_can_inform_a_forecast_whose_moment_of_knowledge_has_passed() -> None:
    fixed = question(closes_in=timedelta(days=9), as_of=NOW - timedelta(hours=1))
    assert next_reforecast(fixed, made_at=NOW, policy=POLICY) is None


@given(closes_in=st.timedeltas(timedelta(minutes=1), timedelta(days=400)))
def test_the_next_forecast_is_never_sooner_than_the_gap_nor_after_the_close(closes_in: timedelta) -> None:
    asked = question(closes_in=closes_in)
    due = next_reforecast(asked, made_at=NOW, policy=POLICY)
    if due is not None:
        assert asked.closes_at is not None
        assert NOW + POLICY.min_gap <= due.at < asked.closes_at


def test_a_move_is_measured_in_log_odds() -> None:
    # ln(0.75/0.25) = ln 3 = 1.0986122886681098
    assert log_odds_move(BinaryPrediction(0.5), BinaryPrediction(0.75)) == pytest.approx(1.0986122886681098)


def test_the_largest_move_of_any_option_counts() -> None:
    before, after = ChoicePrediction({"a": 0.5, "b": 0.5}), ChoicePrediction({"a": 0.25, "b": 0.75})
    assert log_odds_move(before, after) == pytest.approx(1.0986122886681098)


def test_other_options_count_as_an_infinite_move() -> None:
    assert log_odds_move(ChoicePrediction({"a": 0.5, "b": 0.5}), ChoicePrediction({"a": 0.5, "c": 0.5})) == float("inf")


def test_the_largest_step_anywhere_on_a_curve_counts() -> None:
    # ln(0.5/0.5) - ln(0.2/0.8) = ln 4
    assert log_odds_move(CurvePrediction((0.1, 0.2, 0.9)), CurvePrediction((0.1, 0.5, 0.9))) == pytest.approx(
        math.log(4)
    )


SHORT = ReforecastPolicy(stale_after=timedelta(hours=10), near_close=(), min_gap=timedelta(hours=1))


def _always(_question: Question, _forecaster: str) -> bool:
    return True


async def due_times(jobs_fixture: JobsFixture) -> dict[str, tuple[str | None, str]]:
    rows = await jobs_fixture.ledger.schedule.readers.run(
        lambda database: database.execute("select ref, due_at, why from schedule order by ref").fetchall()
    )
    return {ref.partition(":")[2]: (due_at, why) for ref, due_at, why in rows}


async def test_what_is_scheduled_already_moves_with_the_policy(jobs_fixture: JobsFixture) -> None:
    began = jobs_fixture.clock.now()
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    before = await due_times(jobs_fixture)
    assert before == {"rain": (format_timestamp(began + timedelta(days=3)), "stale")}
    ledger, now = jobs_fixture.ledger, jobs_fixture.clock.now()
    assert await reschedule_forecasts(ledger, jobs_fixture.policy, repeats=_always, now=now) == 0
    assert await reschedule_forecasts(ledger, SHORT, repeats=_always, now=now) == 1
    assert await due_times(jobs_fixture) == {"rain": (format_timestamp(began + timedelta(hours=10)), "stale")}
    assert await reschedule_forecasts(ledger, SHORT, repeats=_always, now=now) == 0
    await jobs_fixture.clock.advance(11 * 3600)
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_a_longer_policy_moves_it_back(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.policy = SHORT
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    longer = ReforecastPolicy(stale_after=timedelta(days=20), near_close=(timedelta(hours=24),))
    assert await reschedule_forecasts(jobs_fixture.ledger, longer, repeats=_always, now=jobs_fixture.clock.now()) == 1
    [(due_at, why)] = (await due_times(jobs_fixture)).values()
    assert (due_at, why) == (
        format_timestamp(jobs_fixture.clock.now() + timedelta(days=9)),
        "1 day, 0:00:00 before closing",
    )


@pytest.mark.parametrize(("repeats", "moved"), [(True, 1), (False, 0)])
async def test_what_would_not_have_been_due_again_is_where_it_repeats(
    jobs_fixture: JobsFixture, *, repeats: bool, moved: int
) -> None:
    jobs_fixture.policy = ReforecastPolicy(stale_after=timedelta(days=30), near_close=())
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert await due_times(jobs_fixture) == {"rain": (None, "forecast made")}
    now = jobs_fixture.clock.now()
    assert await reschedule_forecasts(jobs_fixture.ledger, SHORT, repeats=lambda *_: repeats, now=now) == moved


async def test_a_question_that_resolved_before_its_close_is_not_due_again_after_a_start(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.offer("rain", closes_at=jobs_fixture.clock.now() + timedelta(days=9))
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(3600)
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=jobs_fixture.clock.now()))
    await jobs_fixture.resolve()
    await jobs_fixture.clock.advance(timedelta(days=4).total_seconds())
    assert await jobs_fixture.forecast() == "0 forecasts made"
    now = jobs_fixture.clock.now()
    assert await reschedule_forecasts(jobs_fixture.ledger, jobs_fixture.policy, repeats=_always, now=now) == 0
    assert await due_times(jobs_fixture) == {"rain": (None, "stale")}
    # Its venue takes the outcome back: it is open again.
    withdrawn = replace(outcome("rain", 1.0, at=now), outcome=VoidOutcome("withdrawn"))
    await jobs_fixture.ledger.resolutions.record([withdrawn], seen_at=now)
    assert await reschedule_forecasts(jobs_fixture.ledger, jobs_fixture.policy, repeats=_always, now=now) == 1


async def test_what_was_put_off_or_asked_for_stays(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    now = jobs_fixture.clock.now()
    await jobs_fixture.ledger.schedule.writer.run(
        lambda database: database.execute("update schedule set not_before = due_at").rowcount
    )
    assert await reschedule_forecasts(jobs_fixture.ledger, SHORT, repeats=_always, now=now) == 0


async def test_a_forecast_that_fails_is_tried_again_before_its_question_closes(jobs_fixture: JobsFixture) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(hours=3)
    jobs_fixture.offer("rain", closes_at=closes_at)
    await jobs_fixture.discover()
    sound = jobs_fixture.forecasters["first"]
    jobs_fixture.forecasters["first"] = FakeFailingForecaster(RequestRejectedError("down"), frozenset({1}))
    attempts = 0
    while jobs_fixture.clock.now() < closes_at - timedelta(minutes=40):
        attempts += (await jobs_fixture.forecast()).startswith("0 forecasts made, 1 postponed")
        await jobs_fixture.clock.advance(60)
    assert attempts == 4
    jobs_fixture.forecasters["first"] = sound
    await jobs_fixture.clock.advance(timedelta(minutes=30).total_seconds())
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_a_renewal_that_failed_is_not_tried_again_once_its_question_has_closed(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain", closes_at=jobs_fixture.clock.now() + timedelta(hours=4))
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    sound = jobs_fixture.forecasters["first"]
    jobs_fixture.forecasters["first"] = FakeFailingForecaster(RequestRejectedError("down"), frozenset({1}))
    await jobs_fixture.clock.advance(timedelta(hours=3, minutes=50).total_seconds())
    assert (await jobs_fixture.forecast()).startswith("0 forecasts made, 1 postponed")
    jobs_fixture.forecasters["first"] = sound
    await jobs_fixture.clock.advance(timedelta(hours=1).total_seconds())
    assert await jobs_fixture.forecast() == "0 forecasts made"


async def test_a_forecast_is_not_renewed_once_its_question_has_closed_unless_somebody_asks(
    jobs_fixture: JobsFixture,
) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(hours=3)
    jobs_fixture.offer("rain", closes_at=closes_at)
    jobs_fixture.offer("snow", closes_at=closes_at + timedelta(hours=20))
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "2 forecasts made"
    # The daemon is down from before the renewal of rain until after its close; snow closes later, and is renewed.
    await jobs_fixture.clock.advance(timedelta(hours=22, minutes=30).total_seconds())
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert [one.ref.key for one in await jobs_fixture.ledger.forecasts.recent(1)] == ["snow"]
    rain, now = QuestionRef("lantern", "rain"), jobs_fixture.clock.now()
    made_at = (await jobs_fixture.ledger.forecasts.history(rain))[-1].made_at
    asked = DueEntry(ref=rain, forecaster="first", due_at=now, why="asked for", answered_at=made_at)
    await jobs_fixture.ledger.schedule.plan([asked])
    assert await jobs_fixture.forecast() == "1 forecasts made"
