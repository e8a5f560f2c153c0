from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from bot.core.beliefs import ModelUsage, Step
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.forecasts import ForecasterSetup, Trial, TrialEnd, TrialLimits
from bot.core.ids import derive_id, sha256_hex
from bot.core.learning import FittedParameters
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape
from bot.core.questions import CrowdForecast, Target
from bot.core.submissions import HoldDecision
from bot.store.forecasts import ForecastBasis
from bot.store.schedule import DueEntry
from bot.store.trials import RecordedResponse, RecordingKey, pack_recordings
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)
Make = Callable[..., Step]
SETUP = ForecasterSetup(settings={"depth": 3}, trials=5, aggregate="mean", limits=TrialLimits(steps=4))


@dataclass(frozen=True)
class Later:
    at: datetime
    why: str


async def test_a_forecast_has_an_id_that_belongs_to_its_question_forecaster_and_revision(
    ledger_fixture: LedgerFixture,
) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    assert running.id == derive_id("forecast", "lantern:rain", "plain", "1")
    assert (running.revision, running.trials) == (1, ())


async def test_an_unfinished_forecast_is_taken_up_with_its_steps(
    ledger_fixture: LedgerFixture, make_step: Make
) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question)
    forecasts = ledger_fixture.ledger.forecasts
    await forecasts.log_step(first.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    ended = Trial(number=1, end=TrialEnd.FINISHED, belief=make_step(0.4).belief, steps=1, usage=ModelUsage(calls=2))
    await forecasts.end_trial(first.id, ended, NOON)
    await forecasts.log_step(first.id, trial=2, number=1, step=make_step(0.6), at=NOON + HOUR)
    again = await ledger_fixture.begin(question, why="restart", now=NOON + HOUR)
    assert (again.id, again.revision, again.cutoff) == (first.id, 1, NOON)
    done, open_ = again.trials
    assert (done.number, done.trial, done.end) == (1, ended, TrialEnd.FINISHED)
    assert (open_.number, open_.trial, open_.end) == (2, None, None)
    assert [(item.number, item.at, item.step) for item in open_.steps] == [(1, NOON + HOUR, make_step(0.6))]


async def test_a_live_forecast_cut_off_a_moment_ago_keeps_its_cutoff(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question)
    again = await ledger_fixture.begin(question, cutoff=NOON + HOUR, now=NOON + HOUR)
    assert (again.id, again.cutoff) == (first.id, NOON)


@pytest.mark.parametrize("cutoff", [NOON + HOUR + timedelta(seconds=1), NOON - timedelta(seconds=1)])
async def test_a_forecast_left_too_long_or_with_a_later_cutoff_is_abandoned(
    ledger_fixture: LedgerFixture, cutoff: datetime
) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question)
    second = await ledger_fixture.begin(question, cutoff=cutoff, now=NOON + 2 * HOUR)
    assert (second.revision, second.trials) == (2, ())
    trace = await ledger_fixture.ledger.forecasts.trace(first.id)
    assert trace.state == "abandoned"
    assert "not finished" in trace.detail


async def test_a_forecast_says_how_its_forecaster_was_configured(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question, setup=SETUP)
    forecasts = ledger_fixture.ledger.forecasts
    assert (await forecasts.trace(first.id)).setup == SETUP
    other = await ledger_fixture.begin(await ledger_fixture.ask("snow"), forecaster="other")
    assert (await forecasts.trace(other.id)).setup is None


async def test_settings_that_change_meanwhile_begin_a_forecast_anew(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question, setup=SETUP)
    second = await ledger_fixture.begin(question, setup=replace(SETUP, settings={"depth": 4}))
    assert second.revision == 2
    left = await ledger_fixture.ledger.forecasts.trace(first.id)
    assert (left.state, left.setup) == ("abandoned", SETUP)
    assert "settings of the forecaster changed" in left.detail


async def test_another_number_of_trials_goes_on_and_is_noted(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question, setup=SETUP)
    more = replace(SETUP, trials=7, aggregate="median")
    assert (await ledger_fixture.begin(question, setup=more)).id == first.id
    assert (await ledger_fixture.ledger.forecasts.trace(first.id)).setup == more


async def test_a_forecast_begun_without_a_setup_goes_on_without_one(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    first = await ledger_fixture.begin(question)
    assert (await ledger_fixture.begin(question, setup=SETUP)).id == first.id
    assert (await ledger_fixture.ledger.forecasts.trace(first.id)).setup is None


async def test_a_question_that_changes_meanwhile_is_forecast_anew(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.begin(question)
    retitled = await ledger_fixture.ask(title="Other words?")
    assert (await ledger_fixture.begin(retitled)).revision == 2


async def test_a_crowd_that_moves_meanwhile_does_not_undo_what_was_begun(ledger_fixture: LedgerFixture) -> None:
    first = await ledger_fixture.begin(
        await ledger_fixture.ask(crowd=CrowdForecast(prediction=BinaryPrediction(0.6), at=NOON))
    )
    again = await ledger_fixture.begin(
        await ledger_fixture.ask(crowd=CrowdForecast(prediction=BinaryPrediction(0.8), at=NOON))
    )
    assert again.id == first.id
    assert again.question.crowd == CrowdForecast(prediction=BinaryPrediction(0.6), at=NOON)


async def test_forecasters_do_not_share_revisions(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question)
    assert (await ledger_fixture.begin(question, forecaster="other")).revision == 1
    assert (await ledger_fixture.begin(question)).revision == 2


async def test_a_question_that_is_not_on_record_cannot_be_forecast(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError, match=r"current version of .* is not recorded"):
        await ledger_fixture.begin(ledger_fixture.question())


async def test_a_step_logged_twice_is_logged_once(ledger_fixture: LedgerFixture, make_step: Make) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    for _ in range(2):
        await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    assert ledger_fixture.rows("select trial, number, action from step") == [(1, 1, "look")]


async def test_a_step_that_contradicts_the_record_ends_the_forecast_so_that_a_new_one_can_begin(
    ledger_fixture: LedgerFixture, make_step: Make
) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    with pytest.raises(MalformedDataError, match=r"step 1 of trial 1 .* other content"):
        await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.5), at=NOON)
    assert (await ledger_fixture.ledger.forecasts.trace(running.id)).state == "abandoned"
    assert (await ledger_fixture.begin(question)).revision == 2


async def test_a_step_must_follow_the_one_before_it(ledger_fixture: LedgerFixture, make_step: Make) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    with pytest.raises(StoreError, match="gap after step 0"):
        await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=2, step=make_step(0.4), at=NOON)


async def test_no_step_comes_after_the_end(ledger_fixture: LedgerFixture, make_step: Make) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    ended = Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0)
    await ledger_fixture.ledger.forecasts.end_trial(running.id, ended, NOON)
    with pytest.raises(StoreError, match="after its end"):
        await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    await ledger_fixture.ledger.forecasts.complete(ledger_fixture.answer(question, running, 0.4), next_due=None)
    with pytest.raises(StoreError, match="after its end"):
        await ledger_fixture.ledger.forecasts.log_step(running.id, trial=2, number=1, step=make_step(0.4), at=NOON)


async def test_what_waits_is_on_record_before_its_step_or_neither_is(
    ledger_fixture: LedgerFixture, make_step: Make
) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    ledger = ledger_fixture.ledger
    reply = RecordedResponse(digest=sha256_hex(b'"reply"'), body='"reply"')
    waiting = await pack_recordings(running.id, 1, {RecordingKey("tool", "aa"): reply}, at=NOON)
    step = make_step(0.4, documents=tuple(answer.digest for answer in waiting.answers.values()))
    with pytest.raises(StoreError, match="gap after step 0"):
        await ledger.forecasts.log_step(running.id, trial=1, number=2, step=step, at=NOON, waiting=waiting)
    assert await ledger.recordings.read_trial(running.id, 1) == {}
    await ledger.forecasts.log_step(running.id, trial=1, number=1, step=step, at=NOON, waiting=waiting)
    assert list(await ledger.recordings.read_trial(running.id, 1)) == [RecordingKey("tool", "aa")]


async def test_steps_and_trials_of_unknown_forecasts_are_refused(
    ledger_fixture: LedgerFixture, make_step: Make
) -> None:
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.forecasts.log_step("none", trial=1, number=1, step=make_step(0.4), at=NOON)
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.forecasts.end_trial(
            "none", Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0), NOON
        )


async def test_a_trial_ends_once(ledger_fixture: LedgerFixture) -> None:
    running = await ledger_fixture.begin(await ledger_fixture.ask())
    ended = Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0)
    for _ in range(2):
        await ledger_fixture.ledger.forecasts.end_trial(running.id, ended, NOON)
    with pytest.raises(MalformedDataError, match="ended with another result"):
        await ledger_fixture.ledger.forecasts.end_trial(running.id, replace(ended, detail="boom"), NOON)


async def test_a_completed_forecast_comes_back_as_it_was(ledger_fixture: LedgerFixture) -> None:
    fitted = FittedParameters(forecaster="plain", before=NOON - HOUR, examples=3, payload={"slope": 1.1})
    digest = await ledger_fixture.ledger.learning.record(fitted, NOON)
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    running = await ledger_fixture.begin(question)
    forecast = ledger_fixture.answer(
        question,
        running,
        0.4,
        raw={"a": BinaryPrediction(0.1), "b": BinaryPrediction(0.2)},
        predictions={"a": BinaryPrediction(0.15), "b": BinaryPrediction(0.25)},
        fitted=digest,
        calibration=digest,
    )
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=None)
    assert await ledger_fixture.ledger.forecasts.get(running.id) == forecast
    assert await ledger_fixture.ledger.forecasts.latest(question.ref, "plain") == forecast
    assert ledger_fixture.rows("select target, probability, raw_probability from prediction") == [
        ("a", 0.15, 0.1),
        ("b", 0.25, 0.2),
    ]


async def test_other_shapes_come_back_too(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(shape=ChoiceShape(options=("x", "y")), crowd=None)
    running = await ledger_fixture.begin(question)
    given = {"outcome": ChoicePrediction({"x": 0.3, "y": 0.7})}
    forecast = ledger_fixture.answer(question, running, 0.5, raw=given, predictions=given)
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=None)
    assert await ledger_fixture.ledger.forecasts.get(running.id) == forecast


async def test_completing_twice_is_completing_once(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.ledger.schedule.plan([DueEntry(ref=question.ref, forecaster="plain", due_at=NOON, why="new")])
    running = await ledger_fixture.begin(question)
    forecast = ledger_fixture.answer(question, running, 0.4)
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=Later(NOON + HOUR, "stale"))
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=Later(NOON + 9 * HOUR, "again"))
    assert ledger_fixture.rows("select count(*) from prediction") == [(1,)]
    assert await ledger_fixture.ledger.schedule.claim(now=NOON, owner="me", lease=HOUR, limit=1) == []
    [again] = await ledger_fixture.ledger.schedule.claim(now=NOON + HOUR, owner="me", lease=HOUR, limit=1)
    assert again.why == "stale"


async def test_a_forecast_must_answer_every_target_and_no_other(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    running = await ledger_fixture.begin(question)
    whole = ledger_fixture.answer(question, running, 0.4)
    for wrong in (
        {"a": BinaryPrediction(0.4)},
        {"a": BinaryPrediction(0.4), "b": BinaryPrediction(0.4), "c": BinaryPrediction(0.4)},
    ):
        with pytest.raises(MalformedDataError, match="the targets are"):
            await ledger_fixture.ledger.forecasts.complete(replace(whole, predictions=wrong), next_due=None)
        with pytest.raises(MalformedDataError, match="raw predictions"):
            await ledger_fixture.ledger.forecasts.complete(replace(whole, raw=wrong), next_due=None)
    assert ledger_fixture.rows("select state from forecast") == [("running",)]


async def test_a_forecast_is_completed_as_it_was_begun_or_not_at_all(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    forecast = ledger_fixture.answer(question, running, 0.4)
    complete = ledger_fixture.ledger.forecasts.complete
    with pytest.raises(MalformedDataError, match="was started as"):
        await complete(replace(forecast, revision=2), next_due=None)
    with pytest.raises(NotFoundError, match="never started"):
        await complete(replace(forecast, id="0" * 24), next_due=None)
    with pytest.raises(NotFoundError, match="must be stored before"):
        await complete(replace(forecast, fitted="0" * 64), next_due=None)
    await ledger_fixture.ledger.forecasts.fail(running.id, why="no answer", at=NOON)
    with pytest.raises(StoreError, match="is failed"):
        await complete(forecast, next_due=None)


async def test_a_failed_forecast_makes_room_for_the_next_revision(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    await ledger_fixture.ledger.forecasts.fail(running.id, why="no trial ended", at=NOON)
    trace = await ledger_fixture.ledger.forecasts.trace(running.id)
    assert (trace.state, trace.detail, trace.forecast) == ("failed", "no trial ended", None)
    assert (await ledger_fixture.begin(question)).revision == 2
    assert await ledger_fixture.ledger.forecasts.latest(question.ref, "plain") is None


async def test_a_trace_shows_the_question_as_the_forecaster_saw_it(
    ledger_fixture: LedgerFixture, make_step: Make
) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    await ledger_fixture.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    forecast = ledger_fixture.answer(question, running, 0.4)
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=None)
    await ledger_fixture.ask(
        title="Changed later?", crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON + HOUR)
    )
    trace = await ledger_fixture.ledger.forecasts.trace(running.id)
    assert (trace.state, trace.forecast, trace.question) == ("done", forecast, question)
    assert [item.step for item in trace.trials[0].steps] == [make_step(0.4)]


async def test_the_basis_of_a_forecast_is_what_it_was_made_on(ledger_fixture: LedgerFixture) -> None:
    rain, snow = await ledger_fixture.ask("rain"), await ledger_fixture.ask("snow", crowd=None)
    hail = await ledger_fixture.ask("hail")
    first = await ledger_fixture.forecast(rain)
    bare = await ledger_fixture.forecast(snow)
    await ledger_fixture.ask("rain", crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON))
    bases = await ledger_fixture.ledger.forecasts.read_bases([rain.ref, snow.ref, hail.ref], "plain")
    assert bases == {
        rain.ref: ForecastBasis(
            version=first.version, made_at=first.made_at, crowd=BinaryPrediction(0.25), recent_forecasts=1
        ),
        snow.ref: ForecastBasis(version=bare.version, made_at=bare.made_at, crowd=None),
    }
    assert await ledger_fixture.ledger.forecasts.read_bases([rain.ref], "other") == {}


async def test_forecasts_are_listed_by_question_by_age_and_by_id(ledger_fixture: LedgerFixture) -> None:
    rain, snow = await ledger_fixture.ask("rain"), await ledger_fixture.ask("snow")
    one = await ledger_fixture.forecast(rain, now=NOON)
    two = await ledger_fixture.forecast(snow, now=NOON + HOUR)
    three = await ledger_fixture.forecast(rain, now=NOON + 2 * HOUR)
    forecasts = ledger_fixture.ledger.forecasts
    assert await forecasts.history(rain.ref) == [one, three]
    assert await forecasts.recent(2) == [three, two]
    assert await forecasts.latest(rain.ref, "plain") == three
    assert await forecasts.find(one.id[:10]) == [one]
    assert await forecasts.find("%") == await forecasts.find("")
    assert await forecasts.count() == 3
    latest = ledger_fixture.rows("select id from latest_forecast order by made_at")
    assert latest == [(two.id,), (three.id,)]


async def test_unknown_forecasts_are_not_found(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.forecasts.get("0" * 24)
    with pytest.raises(NotFoundError):
        await ledger_fixture.ledger.forecasts.trace("0" * 24)


async def test_held_forecasts_come_up_again_when_their_time_has_come(ledger_fixture: LedgerFixture) -> None:
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    assert await ledger_fixture.ledger.forecasts.undecided(10) == [forecast]
    hold = HoldDecision(why="halted", until=NOON + HOUR)
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    assert await ledger_fixture.ledger.forecasts.undecided(10) == []
    assert await ledger_fixture.ledger.forecasts.held(10, now=NOON) == []
    assert await ledger_fixture.ledger.forecasts.held(10, now=NOON + HOUR) == [forecast]
    await ledger_fixture.ledger.submissions.decide(
        forecast_id=forecast.id, decision=HoldDecision(why="never"), at=NOON + HOUR
    )
    assert await ledger_fixture.ledger.forecasts.held(10, now=NOON + HOUR) == []


async def test_a_held_forecast_that_has_a_newer_one_stays_held(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    old = await ledger_fixture.forecast(question)
    await ledger_fixture.ledger.submissions.decide(
        forecast_id=old.id, decision=HoldDecision(why="halted", until=NOON), at=NOON
    )
    await ledger_fixture.forecast(question)
    assert await ledger_fixture.ledger.forecasts.held(10, now=NOON) == []
