from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from bot.core.beliefs import ModelUsage, Step
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.forecasts import ForecasterSetup, Trial, TrialEnd, TrialLimits
from bot.core.ids import derive_id
from bot.core.learning import FittedParameters
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape
from bot.core.questions import CrowdForecast, Target
from bot.core.submissions import HoldDecision
from bot.store.forecasts import ForecastBasis
from bot.store.schedule import DueEntry
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)
Make = Callable[..., Step]
SETUP = ForecasterSetup(settings={"depth": 3}, trials=5, aggregate="mean", limits=TrialLimits(steps=4))


@dataclass(frozen=True)
class Later:
    at: datetime
    why: str


async def test_a_forecast_has_an_id_that_belongs_to_its_question_forecaster_and_revision(scribe: LedgerFixture) -> None:
    running = await scribe.begin(await scribe.ask())
    assert running.id == derive_id("forecast", "lantern:rain", "plain", "1")
    assert (running.revision, running.trials) == (1, ())


async def test_an_unfinished_forecast_is_taken_up_with_its_steps(scribe: LedgerFixture, make_step: Make) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question)
    forecasts = scribe.ledger.forecasts
    await forecasts.log_step(first.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    ended = Trial(number=1, end=TrialEnd.FINISHED, belief=make_step(0.4).belief, steps=1, usage=ModelUsage(calls=2))
    await forecasts.end_trial(first.id, ended, NOON)
    await forecasts.log_step(first.id, trial=2, number=1, step=make_step(0.6), at=NOON + HOUR)
    again = await scribe.begin(question, why="restart", now=NOON + HOUR)
    assert (again.id, again.revision, again.cutoff) == (first.id, 1, NOON)
    done, open_ = again.trials
    assert (done.number, done.trial, done.end) == (1, ended, TrialEnd.FINISHED)
    assert (open_.number, open_.trial, open_.end) == (2, None, None)
    assert [(item.number, item.at, item.step) for item in open_.steps] == [(1, NOON + HOUR, make_step(0.6))]


async def test_a_live_forecast_cut_off_a_moment_ago_keeps_its_cutoff(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question)
    again = await scribe.begin(question, cutoff=NOON + HOUR, now=NOON + HOUR)
    assert (again.id, again.cutoff) == (first.id, NOON)


@pytest.mark.parametrize("cutoff", [NOON + HOUR + timedelta(seconds=1), NOON - timedelta(seconds=1)])
async def test_a_forecast_left_too_long_or_with_a_later_cutoff_is_abandoned(
    scribe: LedgerFixture, cutoff: datetime
) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question)
    second = await scribe.begin(question, cutoff=cutoff, now=NOON + 2 * HOUR)
    assert (second.revision, second.trials) == (2, ())
    trace = await scribe.ledger.forecasts.trace(first.id)
    assert trace.state == "abandoned"
    assert "not finished" in trace.detail


async def test_a_forecast_says_how_its_forecaster_was_configured(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question, setup=SETUP)
    forecasts = scribe.ledger.forecasts
    assert (await forecasts.trace(first.id)).setup == SETUP
    other = await scribe.begin(await scribe.ask("snow"), forecaster="other")
    assert (await forecasts.trace(other.id)).setup is None


async def test_settings_that_change_meanwhile_begin_a_forecast_anew(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question, setup=SETUP)
    second = await scribe.begin(question, setup=replace(SETUP, settings={"depth": 4}))
    assert second.revision == 2
    left = await scribe.ledger.forecasts.trace(first.id)
    assert (left.state, left.setup) == ("abandoned", SETUP)
    assert "settings of the forecaster changed" in left.detail


async def test_another_number_of_trials_goes_on_and_is_noted(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question, setup=SETUP)
    more = replace(SETUP, trials=7, aggregate="median")
    assert (await scribe.begin(question, setup=more)).id == first.id
    assert (await scribe.ledger.forecasts.trace(first.id)).setup == more


async def test_a_forecast_begun_without_a_setup_goes_on_without_one(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    first = await scribe.begin(question)
    assert (await scribe.begin(question, setup=SETUP)).id == first.id
    assert (await scribe.ledger.forecasts.trace(first.id)).setup is None


async def test_a_question_that_changes_meanwhile_is_forecast_anew(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.begin(question)
    retitled = await scribe.ask(title="Other words?")
    assert (await scribe.begin(retitled)).revision == 2


async def test_a_crowd_that_moves_meanwhile_does_not_undo_what_was_begun(scribe: LedgerFixture) -> None:
    first = await scribe.begin(await scribe.ask(crowd=CrowdForecast(prediction=BinaryPrediction(0.6), at=NOON)))
    again = await scribe.begin(await scribe.ask(crowd=CrowdForecast(prediction=BinaryPrediction(0.8), at=NOON)))
    assert again.id == first.id
    assert again.question.crowd == CrowdForecast(prediction=BinaryPrediction(0.6), at=NOON)


async def test_forecasters_do_not_share_revisions(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.forecast(question)
    assert (await scribe.begin(question, forecaster="other")).revision == 1
    assert (await scribe.begin(question)).revision == 2


async def test_a_question_that_is_not_on_record_cannot_be_forecast(scribe: LedgerFixture) -> None:
    with pytest.raises(NotFoundError, match=r"current version of .* is not recorded"):
        await scribe.begin(scribe.question())


async def test_a_step_logged_twice_is_logged_once(scribe: LedgerFixture, make_step: Make) -> None:
    running = await scribe.begin(await scribe.ask())
    for _ in range(2):
        await scribe.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    assert scribe.rows("select trial, number, action from step") == [(1, 1, "look")]


async def test_a_step_that_contradicts_the_record_ends_the_forecast_so_that_a_new_one_can_begin(
    scribe: LedgerFixture, make_step: Make
) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    await scribe.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    with pytest.raises(MalformedDataError, match=r"step 1 of trial 1 .* other content"):
        await scribe.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.5), at=NOON)
    assert (await scribe.ledger.forecasts.trace(running.id)).state == "abandoned"
    assert (await scribe.begin(question)).revision == 2


async def test_a_step_must_follow_the_one_before_it(scribe: LedgerFixture, make_step: Make) -> None:
    running = await scribe.begin(await scribe.ask())
    with pytest.raises(StoreError, match="gap after step 0"):
        await scribe.ledger.forecasts.log_step(running.id, trial=1, number=2, step=make_step(0.4), at=NOON)


async def test_no_step_comes_after_the_end(scribe: LedgerFixture, make_step: Make) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    ended = Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0)
    await scribe.ledger.forecasts.end_trial(running.id, ended, NOON)
    with pytest.raises(StoreError, match="after its end"):
        await scribe.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    await scribe.ledger.forecasts.complete(scribe.answer(question, running, 0.4), next_due=None)
    with pytest.raises(StoreError, match="after its end"):
        await scribe.ledger.forecasts.log_step(running.id, trial=2, number=1, step=make_step(0.4), at=NOON)


async def test_a_step_may_rest_only_on_documents_that_are_kept(scribe: LedgerFixture, make_step: Make) -> None:
    running = await scribe.begin(await scribe.ask())
    kept = await scribe.ledger.documents.put(b"page", "text/html")
    log = scribe.ledger.forecasts.log_step
    await log(running.id, trial=1, number=1, step=make_step(0.4, documents=(kept,)), at=NOON)
    with pytest.raises(NotFoundError, match="must be stored before they are used: feed"):
        await log(running.id, trial=1, number=2, step=make_step(0.4, documents=(kept, "feed")), at=NOON)


async def test_steps_and_trials_of_unknown_forecasts_are_refused(scribe: LedgerFixture, make_step: Make) -> None:
    with pytest.raises(NotFoundError):
        await scribe.ledger.forecasts.log_step("none", trial=1, number=1, step=make_step(0.4), at=NOON)
    with pytest.raises(NotFoundError):
        await scribe.ledger.forecasts.end_trial("none", Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0), NOON)


async def test_a_trial_ends_once(scribe: LedgerFixture) -> None:
    running = await scribe.begin(await scribe.ask())
    ended = Trial(number=1, end=TrialEnd.EMPTY, belief=None, steps=0)
    for _ in range(2):
        await scribe.ledger.forecasts.end_trial(running.id, ended, NOON)
    with pytest.raises(MalformedDataError, match="ended with another result"):
        await scribe.ledger.forecasts.end_trial(running.id, replace(ended, detail="boom"), NOON)


async def test_a_completed_forecast_comes_back_as_it_was(scribe: LedgerFixture) -> None:
    fitted = FittedParameters(forecaster="plain", before=NOON - HOUR, examples=3, payload={"slope": 1.1})
    digest = await scribe.ledger.learning.record(fitted, NOON)
    question = await scribe.ask(targets=(Target(key="a"), Target(key="b")))
    running = await scribe.begin(question)
    forecast = scribe.answer(
        question,
        running,
        0.4,
        raw={"a": BinaryPrediction(0.1), "b": BinaryPrediction(0.2)},
        predictions={"a": BinaryPrediction(0.15), "b": BinaryPrediction(0.25)},
        fitted=digest,
        calibration=digest,
    )
    await scribe.ledger.forecasts.complete(forecast, next_due=None)
    assert await scribe.ledger.forecasts.get(running.id) == forecast
    assert await scribe.ledger.forecasts.latest(question.ref, "plain") == forecast
    assert scribe.rows("select target, probability, raw_probability from prediction") == [
        ("a", 0.15, 0.1),
        ("b", 0.25, 0.2),
    ]


async def test_other_shapes_come_back_too(scribe: LedgerFixture) -> None:
    question = await scribe.ask(shape=ChoiceShape(options=("x", "y")), crowd=None)
    running = await scribe.begin(question)
    given = {"outcome": ChoicePrediction({"x": 0.3, "y": 0.7})}
    forecast = scribe.answer(question, running, 0.5, raw=given, predictions=given)
    await scribe.ledger.forecasts.complete(forecast, next_due=None)
    assert await scribe.ledger.forecasts.get(running.id) == forecast


async def test_completing_twice_is_completing_once(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.ledger.schedule.plan([DueEntry(ref=question.ref, forecaster="plain", due_at=NOON, why="new")])
    running = await scribe.begin(question)
    forecast = scribe.answer(question, running, 0.4)
    await scribe.ledger.forecasts.complete(forecast, next_due=Later(NOON + HOUR, "stale"))
    await scribe.ledger.forecasts.complete(forecast, next_due=Later(NOON + 9 * HOUR, "again"))
    assert scribe.rows("select count(*) from prediction") == [(1,)]
    assert await scribe.ledger.schedule.claim(now=NOON, owner="me", lease=HOUR, limit=1) == []
    [again] = await scribe.ledger.schedule.claim(now=NOON + HOUR, owner="me", lease=HOUR, limit=1)
    assert again.why == "stale"


async def test_a_forecast_must_answer_every_target_and_no_other(scribe: LedgerFixture) -> None:
    question = await scribe.ask(targets=(Target(key="a"), Target(key="b")))
    running = await scribe.begin(question)
    whole = scribe.answer(question, running, 0.4)
    for wrong in (
        {"a": BinaryPrediction(0.4)},
        {"a": BinaryPrediction(0.4), "b": BinaryPrediction(0.4), "c": BinaryPrediction(0.4)},
    ):
        with pytest.raises(MalformedDataError, match="the targets are"):
            await scribe.ledger.forecasts.complete(replace(whole, predictions=wrong), next_due=None)
        with pytest.raises(MalformedDataError, match="raw predictions"):
            await scribe.ledger.forecasts.complete(replace(whole, raw=wrong), next_due=None)
    assert scribe.rows("select state from forecast") == [("running",)]


async def test_a_forecast_is_completed_as_it_was_begun_or_not_at_all(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    forecast = scribe.answer(question, running, 0.4)
    complete = scribe.ledger.forecasts.complete
    with pytest.raises(MalformedDataError, match="was started as"):
        await complete(replace(forecast, revision=2), next_due=None)
    with pytest.raises(NotFoundError, match="never started"):
        await complete(replace(forecast, id="0" * 24), next_due=None)
    with pytest.raises(NotFoundError, match="must be stored before"):
        await complete(replace(forecast, fitted="0" * 64), next_due=None)
    await scribe.ledger.forecasts.fail(running.id, why="no answer", at=NOON)
    with pytest.raises(StoreError, match="is failed"):
        await complete(forecast, next_due=None)


async def test_a_failed_forecast_makes_room_for_the_next_revision(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    await scribe.ledger.forecasts.fail(running.id, why="no trial ended", at=NOON)
    trace = await scribe.ledger.forecasts.trace(running.id)
    assert (trace.state, trace.detail, trace.forecast) == ("failed", "no trial ended", None)
    assert (await scribe.begin(question)).revision == 2
    assert await scribe.ledger.forecasts.latest(question.ref, "plain") is None


async def test_a_trace_shows_the_question_as_the_forecaster_saw_it(scribe: LedgerFixture, make_step: Make) -> None:
    question = await scribe.ask()
    running = await scribe.begin(question)
    await scribe.ledger.forecasts.log_step(running.id, trial=1, number=1, step=make_step(0.4), at=NOON)
    forecast = scribe.answer(question, running, 0.4)
    await scribe.ledger.forecasts.complete(forecast, next_due=None)
    await scribe.ask(title="Changed later?", crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON + HOUR))
    trace = await scribe.ledger.forecasts.trace(running.id)
    assert (trace.state, trace.forecast, trace.question) == ("done", forecast, question)
    assert [item.step for item in trace.trials[0].steps] == [make_step(0.4)]


async def test_the_basis_of_a_forecast_is_what_it_was_made_on(scribe: LedgerFixture) -> None:
    rain, snow = await scribe.ask("rain"), await scribe.ask("snow", crowd=None)
    hail = await scribe.ask("hail")
    first = await scribe.forecast(rain)
    bare = await scribe.forecast(snow)
    await scribe.ask("rain", crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON))
    bases = await scribe.ledger.forecasts.read_bases([rain.ref, snow.ref, hail.ref], "plain")
    assert bases == {
        rain.ref: ForecastBasis(
            version=first.version, made_at=first.made_at, crowd=BinaryPrediction(0.25), recent_forecasts=1
        ),
        snow.ref: ForecastBasis(version=bare.version, made_at=bare.made_at, crowd=None),
    }
    assert await scribe.ledger.forecasts.read_bases([rain.ref], "other") == {}


async def test_forecasts_are_listed_by_question_by_age_and_by_id(scribe: LedgerFixture) -> None:
    rain, snow = await scribe.ask("rain"), await scribe.ask("snow")
    one = await scribe.forecast(rain, now=NOON)
    two = await scribe.forecast(snow, now=NOON + HOUR)
    three = await scribe.forecast(rain, now=NOON + 2 * HOUR)
    forecasts = scribe.ledger.forecasts
    assert await forecasts.history(rain.ref) == [one, three]
    assert await forecasts.recent(2) == [three, two]
    assert await forecasts.latest(rain.ref, "plain") == three
    assert await forecasts.find(one.id[:10]) == [one]
    assert await forecasts.find("%") == await forecasts.find("")
    assert await forecasts.count() == 3
    latest = scribe.rows("select id from latest_forecast order by made_at")
    assert latest == [(two.id,), (three.id,)]


async def test_unknown_forecasts_are_not_found(scribe: LedgerFixture) -> None:
    with pytest.raises(NotFoundError):
        await scribe.ledger.forecasts.get("0" * 24)
    with pytest.raises(NotFoundError):
        await scribe.ledger.forecasts.trace("0" * 24)


async def test_held_forecasts_come_up_again_when_their_time_has_come(scribe: LedgerFixture) -> None:
    forecast = await scribe.forecast(await scribe.ask())
    assert await scribe.ledger.forecasts.undecided(10) == [forecast]
    hold = HoldDecision(why="halted", until=NOON + HOUR)
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    assert await scribe.ledger.forecasts.undecided(10) == []
    assert await scribe.ledger.forecasts.held(10, now=NOON) == []
    assert await scribe.ledger.forecasts.held(10, now=NOON + HOUR) == [forecast]
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=HoldDecision(why="never"), at=NOON + HOUR)
    assert await scribe.ledger.forecasts.held(10, now=NOON + HOUR) == []


async def test_a_held_forecast_that_has_a_newer_one_stays_held(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    old = await scribe.forecast(question)
    await scribe.ledger.submissions.decide(forecast_id=old.id, decision=HoldDecision(why="halted", until=NOON), at=NOON)
    await scribe.forecast(question)
    assert await scribe.ledger.forecasts.held(10, now=NOON) == []
