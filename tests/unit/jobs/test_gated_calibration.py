"""Gated calibration over a real ledger: what it may see, what it decides, and that it keeps to its decisions."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.gated_calibration import DECISION_SERIALIZER, GatedCalibrator, calibration_name
from bot.stats.calibration import PlattCalibration
from bot.stats.calibration_gate import CalibrationCheck, CalibrationDecision, CalibrationPolicy
from bot.store.scores import ScoreFilter
from bot.testing.clock import START
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture, outcome, question

DAY = timedelta(days=1)
# As strict as the standard policy, on the few rows of a test.
POLICY = CalibrationPolicy(min_rows=20, min_window_rows=10)
SAID = 0.9


async def live_through(jobs_fixture: JobsFixture, days: int, *, every: int = 2, teaches: bool = True) -> None:
    """Say 90 % of one question a day; every so-many-th of them comes true, the day after."""
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(SAID))}
    for day in range(days):
        key = f"day {day}, {teaches=}"
        asked = question(key, now=jobs_fixture.clock.now(), price=None)
        jobs_fixture.venue.add_questions(replace(asked, allows_training=teaches))
        await jobs_fixture.discover()
        await jobs_fixture.forecast()
        happened = float(day % every == 0)
        jobs_fixture.venue.publish_outcomes(outcome(key, happened, at=jobs_fixture.clock.now() + DAY))
        jobs_fixture.venue.remove_questions(QuestionRef(VENUE, key))
        await jobs_fixture.clock.advance(DAY.total_seconds())
        await jobs_fixture.resolve()


def gated(jobs_fixture: JobsFixture, policy: CalibrationPolicy = POLICY) -> GatedCalibrator:
    return GatedCalibrator(ledger=jobs_fixture.ledger, clock=jobs_fixture.clock, policy=policy)


async def test_a_steady_overconfidence_is_corrected_up_to_the_cap_and_what_was_said_is_kept(
    jobs_fixture: JobsFixture,
) -> None:
    await live_through(jobs_fixture, 120)
    jobs_fixture.calibrator = gated(jobs_fixture)
    jobs_fixture.offer("tomorrow")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    [forecast] = await jobs_fixture.history("tomorrow")
    # Half of what was said at 90 % came true, so the fit says about 50 %, and the cap stops it at 10 points.
    assert forecast.predictions == {"outcome": BinaryPrediction(SAID - POLICY.cap)}
    assert forecast.raw == {"outcome": BinaryPrediction(SAID)}
    assert forecast.calibration is not None
    decided = await jobs_fixture.ledger.learning.get(forecast.calibration)
    assert (decided.forecaster, decided.examples) == ("calibration:first:market", 119)
    assert decided.before == START + 120 * DAY
    assert all(check.passed for check in DECISION_SERIALIZER.value(decided.payload).checks)


async def test_where_the_gate_refuses_nothing_moves_and_the_forecast_names_the_refusal(
    jobs_fixture: JobsFixture,
) -> None:
    await live_through(jobs_fixture, 30)
    jobs_fixture.calibrator = gated(jobs_fixture)
    jobs_fixture.offer("tomorrow")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    [forecast] = await jobs_fixture.history("tomorrow")
    assert forecast.predictions == forecast.raw == {"outcome": BinaryPrediction(SAID)}
    assert forecast.calibration is not None
    decision = DECISION_SERIALIZER.value((await jobs_fixture.ledger.learning.get(forecast.calibration)).payload)
    assert decision.platt is None
    assert [check.name for check in decision.failures] == ["rows resolved before window 1", "rows in window 1"]


async def test_questions_whose_terms_forbid_it_teach_no_calibrator(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 5, teaches=False)
    assert await gated(jobs_fixture).decision_for(FIRST, "market", jobs_fixture.clock.now()) is None
    await live_through(jobs_fixture, 5)
    decided = await gated(jobs_fixture).decision_for(FIRST, "market", jobs_fixture.clock.now() + DAY)
    assert decided is not None
    assert (await jobs_fixture.ledger.learning.get(decided.digest)).examples == 5


async def test_before_anything_resolved_there_is_nothing_to_decide(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.calibrator = gated(jobs_fixture)
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    [forecast] = await jobs_fixture.history()
    assert (forecast.calibration, forecast.predictions) == (None, forecast.raw)
    assert await jobs_fixture.ledger.learning.rows() == []


async def test_a_decision_of_the_day_is_used_again_whatever_became_known_since(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 30)
    now = jobs_fixture.clock.now()
    first = await gated(jobs_fixture).decision_for(FIRST, "market", now)
    late = GatedCalibrator(ledger=jobs_fixture.ledger, clock=jobs_fixture.clock, policy=CalibrationPolicy(min_rows=1))
    assert first is not None
    assert await late.decision_for(FIRST, "market", now + timedelta(hours=23)) == first
    assert await late.decision_for(FIRST, "market", now + DAY) != first
    assert len(await jobs_fixture.ledger.learning.rows()) == 2


async def test_a_decision_sees_all_that_resolved_before_its_day_and_nothing_else(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 40)
    calibrator = gated(jobs_fixture)
    table = await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter(forecaster=FIRST))
    assert len(table) == 40
    for hours in range(0, 41 * 24, 7):
        cutoff = START + timedelta(hours=hours)
        midnight = cutoff.replace(hour=0)
        # One question resolves at each midnight from the second one on.
        expected = max(0, (midnight - START).days - 1)
        decided = await calibrator.decision_for(FIRST, "market", cutoff)
        seen = await _examples(jobs_fixture, midnight) if decided else 0
        assert (seen, decided is None) == (expected, expected == 0)


async def _examples(jobs_fixture: JobsFixture, before: datetime) -> int:
    newest = await jobs_fixture.ledger.learning.newest(calibration_name(FIRST, "market"), before)
    assert newest is not None
    assert newest[1].before == before
    return newest[1].examples


async def test_another_forecaster_and_another_family_have_decisions_of_their_own(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 30)
    now = jobs_fixture.clock.now()
    assert await gated(jobs_fixture).decision_for(FIRST, "market", now) is not None
    assert await gated(jobs_fixture).decision_for(FIRST, "dataset", now) is None
    assert await gated(jobs_fixture).decision_for("second", "market", now) is None


async def test_what_is_no_probability_of_yes_is_left_alone(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 120)
    choice = ChoicePrediction({"red": 0.9, "blue": 0.1})
    raw: dict[str, Any] = {"colour": choice, "outcome": BinaryPrediction(SAID)}
    asked = Question(ref=QuestionRef(VENUE, "x"), title="?", shape=BinaryShape(), targets=(Target(),), source="almanac")
    market = question("x", now=jobs_fixture.clock.now())
    calibrator = gated(jobs_fixture)
    moved = await calibrator.calibrate(market, FIRST, jobs_fixture.clock.now(), raw)
    assert moved.predictions["colour"] is choice
    assert moved.predictions["outcome"] != BinaryPrediction(SAID)
    alone = await calibrator.calibrate(asked, FIRST, jobs_fixture.clock.now(), {"colour": choice})
    assert (alone.predictions, alone.digest) == ({"colour": choice}, None)


async def test_only_so_many_days_are_kept_in_memory(jobs_fixture: JobsFixture) -> None:
    await live_through(jobs_fixture, 3)
    calibrator = gated(jobs_fixture)
    for day in range(70):
        await calibrator.decision_for(FIRST, "market", START + day * DAY)
    again = await calibrator.decision_for(FIRST, "market", START + 3 * DAY)
    assert again is not None
    assert (await jobs_fixture.ledger.learning.get(again.digest)).before == START + 3 * DAY


finite = st.floats(-50, 50)
lines = st.builds(
    PlattCalibration,
    slope=finite,
    intercept=finite,
    offsets=st.dictionaries(st.text(max_size=5), finite, max_size=3),
    rows=st.integers(1, 10**6),
)
decisions = st.builds(
    CalibrationDecision,
    platt=st.none() | lines,
    cap=st.floats(0.001, 0.5),
    before=st.dates(),
    checks=st.lists(st.builds(CalibrationCheck, st.text(max_size=9), finite, finite, st.booleans())).map(tuple),
)


@given(decision=decisions, said=st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_kept_decision_calibrates_as_the_one_that_was_made(decision: CalibrationDecision, said: list[float]) -> None:
    kept = DECISION_SERIALIZER.decode(DECISION_SERIALIZER.encode(decision))
    assert (kept.before, kept.cap, kept.checks) == (decision.before, decision.cap, decision.checks)
    groups = [*(decision.platt.offsets if decision.platt else ()), "new", *["new"] * 4][: len(said)]
    assert kept.apply(said, groups).tolist() == decision.apply(said, groups).tolist()


@given(decision=decisions, said=st.floats(0, 1))
def test_a_refusal_is_identity_and_an_adoption_moves_no_further_than_its_cap(
    decision: CalibrationDecision, said: float
) -> None:
    [moved] = decision.apply([said]).tolist()
    assert 0.0 <= moved <= 1.0
    assert abs(moved - said) <= (decision.cap + 1e-12 if decision.platt else 0.0)
