"""Who builds on others forecasts behind them, reads what they said before the cutoff, and waits for nobody in vain."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.config.venue_schema import ChooseTable
from bot.core.beliefs import Belief, PriorSource, Step, StepAction, StepObservation, TrialPrior
from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import Forecast, ForecasterSetup, TrialLimits
from bot.core.language_models import CostAttribution
from bot.core.operator_requests import ForecastQuestion
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef
from bot.execution.gate.gate import ExecutionPolicy, PreSendCheck
from bot.forecasting.aggregation import PEER_FORECASTS, read_predictions
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.peers import PeerToolFactory, PeerTrialContext
from bot.forecasting.trial_tools import GuardedTrialContext, question_cutoff
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.store.forecasts import ForecastStart
from bot.store.requests import send_request
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from plugins.blend.forecaster import BlendForecaster
from plugins.blend.settings import BlendSettings
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, JobsFixture, question
from tests.unit.jobs.test_requested_forecasts import FakeExpensiveEstimates

BOTH = "both"
REF = QuestionRef(VENUE, "rain")


@pytest.fixture
def built(jobs_fixture: JobsFixture) -> JobsFixture:
    """A house with a forecaster that is made of the two others."""
    jobs_fixture.forecasters[BOTH] = BlendForecaster(BlendSettings(members=(FIRST, SECOND)))
    jobs_fixture.members[BOTH] = (FIRST, SECOND)
    return jobs_fixture


async def test_in_one_pass_members_come_first_however_many_places_there_are(built: JobsFixture) -> None:
    built.offer("rain", "snow")
    await built.discover([BOTH, FIRST, SECOND])
    assert await built.forecast() == "6 forecasts made"
    for key in ("rain", "snow"):
        made = {one.forecaster: one.raw["outcome"] for one in await built.history(key)}
        mixed = made[BOTH]
        assert isinstance(mixed, BinaryPrediction)
        # Odds of 3/7 and 3/2: the geometric mean is (9/14) ** 0.5, to the power of 1.15.
        odds = (9 / 14) ** 0.575
        assert mixed.probability == pytest.approx(odds / (1 + odds))


async def test_a_member_that_failed_or_is_locked_is_not_waited_for(built: JobsFixture) -> None:
    built.forecasters[SECOND] = ScriptedForecaster(ServiceUnavailableError("down"))
    built.offer("rain", "snow")
    await built.discover([BOTH, FIRST, SECOND])
    await built.ledger.schedule.lock(
        QuestionRef(VENUE, "snow"), forecaster=FIRST, reason="mine", until=None, now=built.clock.now()
    )
    said = await built.forecast()
    assert said.startswith("2 forecasts made, 3 postponed")
    assert {one.forecaster for one in await built.history()} == {FIRST, BOTH}
    # Of the other question no member had an answer.
    assert await built.history("snow") == []


async def test_whoever_asks_for_it_gets_the_members_too_where_they_are_not_there(built: JobsFixture) -> None:
    asked = question("rain", now=built.clock.now())
    send_request(built.path, ForecastQuestion(ref=REF, forecaster=BOTH, question=asked), at=built.clock.now())
    attending = OperatorRequestContext(
        folder=built.path, ledger=built.ledger, clock=built.clock, forecasters=built.configured_forecasters
    )
    assert await handle_requests(attending) == "1 requests done"
    assert await built.forecast() == "3 forecasts made"
    whys = {one.forecaster: one.why for one in await built.history()}
    assert whys == {FIRST: f"{BOTH} builds on it", SECOND: f"{BOTH} builds on it", BOTH: "asked for"}
    send_request(built.path, ForecastQuestion(ref=REF, forecaster=BOTH), at=built.clock.now())
    assert await handle_requests(attending) == "1 requests done"
    assert await built.forecast() == "1 forecasts made"


def trial_start(cutoff: datetime, trial: int = 1) -> GuardedTrialContext:
    return GuardedTrialContext(forecast="x", cutoff=cutoff, trial=trial, fitted=None, random=SeededRandom(1))


async def bench(jobs_fixture: JobsFixture, asked: Question, *, trial: int = 1) -> PeerTrialContext:
    cutoff = question_cutoff(asked, jobs_fixture.clock.now())
    charge = CostAttribution(scope="forecast under way", ref=str(asked.ref), venue=VENUE, forecaster=BOTH, trial=trial)
    return await PeerToolFactory(jobs_fixture.ledger, jobs_fixture.clock).open_trial(
        asked, trial_start(cutoff, trial), charge=charge
    )


async def read(jobs_fixture: JobsFixture, asked: Question, *names: str, trial: int = 1) -> Any:
    found = await bench(jobs_fixture, asked, trial=trial)
    return (await found.use_tool(PEER_FORECASTS, {"forecasters": list(names)})).data


async def test_what_was_said_of_another_text_after_the_cutoff_or_without_guards_does_not_count(
    built: JobsFixture,
) -> None:
    built.offer("rain")
    await built.discover([FIRST])
    await built.forecast()
    asked = await built.ledger.questions.get(REF)
    data = await read(built, asked, FIRST, SECOND)
    (answer,) = data["answers"]
    assert read_predictions(answer["predictions"]) == {"outcome": BinaryPrediction(0.3)}
    assert data["absent"] == {SECOND: "it has no forecast of this question"}
    before = question(now=built.clock.now(), as_of=built.clock.now() - timedelta(days=1))
    assert (await read(built, before, FIRST, trial=2))["absent"] == {
        FIRST: "its forecast is of another text of this question"
    }
    dated = question("snow", now=built.clock.now(), as_of=built.clock.now())
    built.venue.add_questions(dated)
    await built.discover([FIRST])
    await built.forecast()
    earlier = await built.ledger.questions.get(dated.ref)
    charge = CostAttribution(scope="x", ref=str(dated.ref), venue=VENUE, forecaster=BOTH, trial=1)
    benches = PeerToolFactory(built.ledger, built.clock)
    cutoff = built.clock.now() - timedelta(hours=1)
    found = await benches.open_trial(earlier, trial_start(cutoff), charge=charge)
    result = await found.use_tool(PEER_FORECASTS, {"forecasters": [FIRST]})
    assert "may use information from after the cutoff" in result.observation.text


async def test_what_a_member_said_long_before_does_not_count(built: JobsFixture) -> None:
    asked = question(now=built.clock.now(), closes_at=built.clock.now() + timedelta(days=400))
    built.venue.add_questions(asked)
    await built.discover([FIRST])
    await built.forecast()
    await built.clock.advance(6 * 86_400.0)
    assert len((await read(built, asked, FIRST))["answers"]) == 1
    await built.clock.advance(1.0)
    told = await read(built, asked, FIRST, trial=2)
    assert told == {"answers": [], "absent": {FIRST: "its last forecast, of 2026-01-01, is too old"}}


async def test_what_members_would_cost_is_asked_about_as_well(built: JobsFixture) -> None:
    asked = question("rain", now=built.clock.now())
    configured_forecasters = {
        name: replace(configured, uses_models=name == FIRST)
        for name, configured in built.configured_forecasters.items()
    }
    dear = CostCheck(estimates=FakeExpensiveEstimates(), ask_above_usd=5.0)
    send_request(built.path, ForecastQuestion(ref=REF, forecaster=BOTH, question=asked), at=built.clock.now())
    attending = OperatorRequestContext(
        folder=built.path, ledger=built.ledger, clock=built.clock, forecasters=configured_forecasters, cost_check=dear
    )
    assert await handle_requests(attending) == "0 requests done, 1 refused"
    [event, *_] = await built.ledger.events.recent(9, "request")
    assert f"the due forecasts by {FIRST} are expected to cost more" in event.text


async def test_a_clairvoyant_member_is_never_copied(built: JobsFixture) -> None:
    asked = question(now=built.clock.now())
    await built.ledger.questions.record([asked], seen_at=built.clock.now())
    seer = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits(), uses=None, clairvoyant=True)
    now = built.clock.now()
    opening = ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="x", now=now, setup=seer)
    running = await built.ledger.forecasts.begin(opening)
    made = Forecast(
        id=running.id,
        ref=asked.ref,
        version=running.version,
        forecaster=FIRST,
        revision=1,
        cutoff=now,
        made_at=now,
        why="x",
        raw={"outcome": BinaryPrediction(0.99)},
        predictions={"outcome": BinaryPrediction(0.99)},
    )
    await built.ledger.forecasts.complete(made, next_due=None)
    assert await read(built, asked, FIRST) == {"answers": [], "absent": {FIRST: "it is clairvoyant"}}
    # One that sees the future itself may build on others that do.
    charge = CostAttribution(scope="seer", ref=str(asked.ref), venue=VENUE, forecaster=BOTH, trial=1)
    benches = PeerToolFactory(built.ledger, built.clock)
    found = await benches.open_trial(asked, trial_start(now), charge=charge, guarded=False)
    said: Any = (await found.use_tool(PEER_FORECASTS, {"forecasters": [FIRST]})).data
    assert len(said["answers"]) == 1


async def test_a_member_whose_trials_never_moved_from_their_prior_is_left_out(built: JobsFixture) -> None:
    def start_at(price: float, *, then: float) -> ScriptedForecaster:
        belief = Belief(predictions={"outcome": BinaryPrediction(price)}, stated=False)
        first = Step(
            action=StepAction(name="start"),
            observation=StepObservation(),
            belief=belief,
            prior=TrialPrior(PriorSource.CROWD, BinaryPrediction(price)),
        )
        return ScriptedForecaster(lambda _: first, believe_yes(then))

    built.forecasters[FIRST] = start_at(0.3, then=0.3)
    built.forecasters[SECOND] = start_at(0.3, then=0.31)
    built.offer("rain")
    await built.discover([FIRST, SECOND])
    await built.forecast()
    data = await read(built, await built.ledger.questions.get(REF), FIRST, SECOND)
    assert [answer["forecaster"] for answer in data["answers"]] == [SECOND]
    assert data["absent"] == {FIRST: "it did not move from its starting point"}


async def test_a_trial_that_is_taken_up_reads_what_it_read_before(built: JobsFixture) -> None:
    built.offer("rain")
    await built.discover([FIRST, SECOND])
    await built.forecast()
    asked = await built.ledger.questions.get(REF)
    first = await read(built, asked, FIRST)
    built.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.9))
    await built.clock.advance(4 * 86_400.0)
    await built.forecast()
    assert len([one for one in await built.history() if one.forecaster == FIRST]) == 2
    assert await read(built, asked, FIRST) == first
    assert await read(built, asked, FIRST, trial=2) != first


async def test_nothing_else_can_be_used_there_and_texts_are_kept(built: JobsFixture) -> None:
    found = await bench(built, question(now=built.clock.now()))
    assert (await found.use_tool("web_search", {"query": "x"})).failed
    assert (await found.use_tool(PEER_FORECASTS, {"forecasters": "all"})).failed
    kept = await found.store_text("a text")
    assert (await built.ledger.documents.get(kept, scope=found.record.scope)).content == b"a text"
    assert (found.tools, found.all_tools) == ((), ())


async def test_each_question_is_planned_for_those_who_fit_it_and_their_leaders_forecast_leaves(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    jobs_fixture.fits = lambda name, asked: (name == SECOND) == ("wet" in asked.tags)
    jobs_fixture.venue.add_questions(
        question("rain", now=jobs_fixture.clock.now(), tags=("wet",)),
        question("sun", now=jobs_fixture.clock.now(), tags=("dry",)),
    )
    await jobs_fixture.discover([FIRST, SECOND])
    assert await jobs_fixture.forecast() == "2 forecasts made"
    assert [one.forecaster for key in ("rain", "sun") for one in await jobs_fixture.history(key)] == [SECOND, FIRST]
    assert (await jobs_fixture.submit()).startswith("2 planned, 0 held, 2 acknowledged")


async def test_who_leads_is_asked_again_before_the_write_and_when_it_may_have_changed(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    now = jobs_fixture.clock.now()
    jobs_fixture.venue.add_questions(question("rain", now=now, tags=("wet",)))
    await jobs_fixture.discover([FIRST, SECOND])
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    by = {one.forecaster: one.id for one in await jobs_fixture.history()}
    lanes = {
        VENUE: ExecutionPolicy(
            venue=VENUE, mode=jobs_fixture.mode, primary_forecaster=FIRST, account="me", choose=jobs_fixture.choose
        )
    }
    recheck = PreSendCheck(
        ledger=jobs_fixture.ledger, policies=lanes, kill_switch=jobs_fixture.kill_switch, clock=jobs_fixture.clock
    )
    (sent,) = jobs_fixture.book.writes
    assert sent.forecast == by[SECOND]
    assert await recheck(sent) is None
    jobs_fixture.venue.add_questions(question("rain", now=now))
    await jobs_fixture.discover([FIRST, SECOND])
    assert await recheck(sent) == f"{FIRST} forecasts lantern:rain now, not {SECOND}"
    await jobs_fixture.clock.advance(3_600.0)
    await jobs_fixture.submit()
    assert [one.forecast for one in jobs_fixture.book.writes] == [by[SECOND], by[FIRST]]


async def test_a_batch_waits_for_the_forecasts_of_all_who_lead(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    jobs_fixture.fits = lambda name, asked: (name == SECOND) == ("wet" in asked.tags)
    jobs_fixture.forecasters[SECOND] = ScriptedForecaster(ServiceUnavailableError("down"))
    rain = question("rain", now=jobs_fixture.clock.now(), tags=("wet",), batch="b")
    sun = question("sun", now=jobs_fixture.clock.now(), batch="b")
    jobs_fixture.venue.add_questions(rain, sun)
    await jobs_fixture.discover([FIRST, SECOND])
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    assert jobs_fixture.book.writes == []
    jobs_fixture.forecasters[SECOND] = ScriptedForecaster(believe_yes(0.6))
    await jobs_fixture.clock.advance(600.0)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    await jobs_fixture.submit()
    assert len(jobs_fixture.book.writes) == 2


async def test_what_a_question_is_filed_under_moves_without_making_another_question_of_it(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.venue.add_questions(
        question("rain", now=jobs_fixture.clock.now(), tags=("wet",), tournaments=("autumn",))
    )
    await jobs_fixture.discover()
    first = await jobs_fixture.ledger.questions.get(REF)
    assert (first.tags, first.tournaments) == (("wet",), ("autumn",))
    version = await jobs_fixture.ledger.questions.current_version(REF)
    await jobs_fixture.forecast()
    jobs_fixture.venue.add_questions(question("rain", now=jobs_fixture.clock.now(), tags=("wet", "cold")))
    assert "0 new or changed, 0 planned" in await jobs_fixture.discover()
    assert (await jobs_fixture.ledger.questions.get(REF)).tags == ("wet", "cold")
    assert (await jobs_fixture.ledger.questions.get(REF)).tournaments == ()
    assert await jobs_fixture.ledger.questions.current_version(REF) == version
