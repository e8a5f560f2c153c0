"""Who builds on others forecasts behind them, reads what they said before the cutoff, and waits for nobody in vain."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.clock import SeededRandom
from bot.config.venue_schema import ChooseTable
from bot.desk.desk import TrialDesk, cutoff_of
from bot.desk.peers import PeerBench, PeerBenches
from bot.desk.said import PEERS, predictions_of
from bot.domain.forecast import Forecast, Limits
from bot.domain.inquiry import Charge
from bot.domain.prediction import Binary
from bot.domain.question import Question, QuestionRef
from bot.domain.request import ForecastQuestion
from bot.domain.setup import Setup
from bot.errors import Unavailable
from bot.gate.gate import Lane
from bot.gate.recheck import Recheck
from bot.jobs.attend import Attending, attend
from bot.jobs.spending import Spending
from bot.store.forecasts import Opening
from bot.store.requests import ask
from bot.testing.forecaster import ScriptedForecaster, say
from plugins.ensemble.forecaster import Ensemble
from plugins.ensemble.settings import EnsembleSettings
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, House, question
from tests.unit.jobs.test_attend_forecasts import Dear

BOTH = "both"
REF = QuestionRef(VENUE, "rain")


@pytest.fixture
def built(house: House) -> House:
    """A house with a forecaster that is made of the two others."""
    house.forecasters[BOTH] = Ensemble(EnsembleSettings(members=(FIRST, SECOND)))
    house.members[BOTH] = (FIRST, SECOND)
    return house


async def test_in_one_pass_members_come_first_however_many_places_there_are(built: House) -> None:
    built.offer("rain", "snow")
    await built.discover([BOTH, FIRST, SECOND])
    assert await built.forecast() == "6 forecasts made"
    for key in ("rain", "snow"):
        made = {one.forecaster: one.raw["outcome"] for one in await built.history(key)}
        mixed = made[BOTH]
        assert isinstance(mixed, Binary)
        # Odds of 3/7 and 3/2: the geometric mean is (9/14) ** 0.5.
        odds = (9 / 14) ** 0.5
        assert mixed.probability == pytest.approx(odds / (1 + odds))


async def test_a_member_that_failed_or_is_locked_is_not_waited_for(built: House) -> None:
    built.forecasters[SECOND] = ScriptedForecaster(Unavailable("down"))
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


async def test_whoever_asks_for_it_gets_the_members_too_where_they_are_not_there(built: House) -> None:
    asked = question("rain", now=built.clock.now())
    ask(built.path, ForecastQuestion(ref=REF, forecaster=BOTH, question=asked), at=built.clock.now())
    attending = Attending(folder=built.path, ledger=built.ledger, clock=built.clock, seats=built.seats)
    assert await attend(attending) == "1 requests done"
    assert await built.forecast() == "3 forecasts made"
    whys = {one.forecaster: one.why for one in await built.history()}
    assert whys == {FIRST: f"{BOTH} builds on it", SECOND: f"{BOTH} builds on it", BOTH: "asked for"}
    ask(built.path, ForecastQuestion(ref=REF, forecaster=BOTH), at=built.clock.now())
    assert await attend(attending) == "1 requests done"
    assert await built.forecast() == "1 forecasts made"


async def bench(house: House, asked: Question, *, trial: int = 1) -> PeerBench:
    cutoff = cutoff_of(asked, house.clock.now())
    charge = Charge(scope="forecast under way", ref=str(asked.ref), venue=VENUE, forecaster=BOTH, trial=trial)
    return await PeerBenches(house.ledger, house.clock).bench(asked, charge=charge, cutoff=cutoff, limits=Limits())


async def read(house: House, asked: Question, *names: str, trial: int = 1) -> Any:
    found = await bench(house, asked, trial=trial)
    return (await found.use(PEERS, {"forecasters": list(names)})).data


async def test_what_was_said_of_another_text_after_the_cutoff_or_without_guards_does_not_count(built: House) -> None:
    built.offer("rain")
    await built.discover([FIRST])
    await built.forecast()
    asked = await built.ledger.questions.get(REF)
    data = await read(built, asked, FIRST, SECOND)
    (answer,) = data["answers"]
    assert predictions_of(answer["predictions"]) == {"outcome": Binary(0.3)}
    assert data["absent"] == {SECOND: "it has no forecast of this question"}
    before = question(now=built.clock.now(), as_of=built.clock.now() - timedelta(days=1))
    assert (await read(built, before, FIRST, trial=2))["absent"] == {
        FIRST: "its forecast is of another text of this question"
    }
    dated = question("snow", now=built.clock.now(), as_of=built.clock.now())
    built.venue.offer(dated)
    await built.discover([FIRST])
    await built.forecast()
    earlier = await built.ledger.questions.get(dated.ref)
    charge = Charge(scope="x", ref=str(dated.ref), venue=VENUE, forecaster=BOTH, trial=1)
    benches = PeerBenches(built.ledger, built.clock)
    cutoff = built.clock.now() - timedelta(hours=1)
    found = await benches.bench(earlier, charge=charge, cutoff=cutoff, limits=Limits())
    result = await found.use(PEERS, {"forecasters": [FIRST]})
    assert "may rest on what came after the cutoff" in result.observation.text


async def test_what_a_member_said_long_before_does_not_count(built: House) -> None:
    asked = question(now=built.clock.now(), closes_at=built.clock.now() + timedelta(days=400))
    built.venue.offer(asked)
    await built.discover([FIRST])
    await built.forecast()
    await built.clock.advance(6 * 86_400.0)
    assert len((await read(built, asked, FIRST))["answers"]) == 1
    await built.clock.advance(1.0)
    told = await read(built, asked, FIRST, trial=2)
    assert told == {"answers": [], "absent": {FIRST: "its last forecast, of 2026-01-01, is too old"}}


async def test_what_members_would_cost_is_asked_about_as_well(built: House) -> None:
    asked = question("rain", now=built.clock.now())
    seats = {name: replace(seat, asks=name == FIRST) for name, seat in built.seats.items()}
    dear = Spending(prices=Dear(), ask_above_usd=5.0)
    ask(built.path, ForecastQuestion(ref=REF, forecaster=BOTH, question=asked), at=built.clock.now())
    attending = Attending(folder=built.path, ledger=built.ledger, clock=built.clock, seats=seats, spending=dear)
    assert await attend(attending) == "0 requests done, 1 refused"
    [event, *_] = await built.ledger.journal.recent(9, "request")
    assert f"what is due to {FIRST} is expected to cost more" in event.text


async def test_a_clairvoyant_member_is_never_copied(built: House) -> None:
    asked = question(now=built.clock.now())
    await built.ledger.questions.record([asked], seen_at=built.clock.now())
    seer = Setup(settings={}, trials=1, aggregate="mean", limits=Limits(), uses=None, clairvoyant=True)
    now = built.clock.now()
    opening = Opening(question=asked, forecaster=FIRST, cutoff=now, why="x", now=now, setup=seer)
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
        raw={"outcome": Binary(0.99)},
        predictions={"outcome": Binary(0.99)},
    )
    await built.ledger.forecasts.complete(made, next_due=None)
    assert await read(built, asked, FIRST) == {"answers": [], "absent": {FIRST: "it is clairvoyant"}}
    # One that sees the future itself may build on others that do.
    charge = Charge(scope="seer", ref=str(asked.ref), venue=VENUE, forecaster=BOTH, trial=1)
    benches = PeerBenches(built.ledger, built.clock)
    found = await benches.bench(asked, charge=charge, cutoff=now, limits=Limits(), guarded=False)
    said: Any = (await found.use(PEERS, {"forecasters": [FIRST]})).data
    assert len(said["answers"]) == 1


async def test_a_trial_that_is_taken_up_reads_what_it_read_before(built: House) -> None:
    built.offer("rain")
    await built.discover([FIRST, SECOND])
    await built.forecast()
    asked = await built.ledger.questions.get(REF)
    first = await read(built, asked, FIRST)
    built.forecasters[FIRST] = ScriptedForecaster(say(0.9))
    await built.clock.advance(4 * 86_400.0)
    await built.forecast()
    assert len([one for one in await built.history() if one.forecaster == FIRST]) == 2
    assert await read(built, asked, FIRST) == first
    assert await read(built, asked, FIRST, trial=2) != first


async def test_nothing_else_can_be_used_there_and_texts_are_kept(built: House) -> None:
    found = await bench(built, question(now=built.clock.now()))
    assert (await found.use("web_search", {"query": "x"})).failed
    assert (await found.use(PEERS, {"forecasters": "all"})).failed
    kept = await found.keep("a text")
    assert (await built.ledger.documents.get(kept)).content == b"a text"
    desk = TrialDesk(
        forecast="x",
        cutoff=built.clock.now(),
        trial=1,
        fitted=None,
        random=SeededRandom(1),
        bench=found,
    )
    assert (desk.tools, desk.all_tools) == ((), ())


async def test_each_question_is_planned_for_those_who_fit_it_and_their_leaders_forecast_leaves(house: House) -> None:
    house.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    house.fits = lambda name, asked: (name == SECOND) == ("wet" in asked.tags)
    house.venue.offer(
        question("rain", now=house.clock.now(), tags=("wet",)), question("sun", now=house.clock.now(), tags=("dry",))
    )
    await house.discover([FIRST, SECOND])
    assert await house.forecast() == "2 forecasts made"
    assert [one.forecaster for key in ("rain", "sun") for one in await house.history(key)] == [SECOND, FIRST]
    assert (await house.submit()).startswith("2 planned, 0 held, 2 acknowledged")


async def test_who_leads_is_asked_again_before_the_write_and_when_it_may_have_changed(house: House) -> None:
    house.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    now = house.clock.now()
    house.venue.offer(question("rain", now=now, tags=("wet",)))
    await house.discover([FIRST, SECOND])
    await house.forecast()
    await house.submit()
    by = {one.forecaster: one.id for one in await house.history()}
    lanes = {VENUE: Lane(venue=VENUE, mode=house.mode, primary=FIRST, account="me", choose=house.choose)}
    recheck = Recheck(ledger=house.ledger, lanes=lanes, brake=house.brake, clock=house.clock)
    (sent,) = house.book.writes
    assert sent.forecast == by[SECOND]
    assert await recheck(sent) is None
    house.venue.offer(question("rain", now=now))
    await house.discover([FIRST, SECOND])
    assert await recheck(sent) == f"{FIRST} forecasts lantern:rain now, not {SECOND}"
    await house.clock.advance(3_600.0)
    await house.submit()
    assert [one.forecast for one in house.book.writes] == [by[SECOND], by[FIRST]]


async def test_a_batch_waits_for_the_forecasts_of_all_who_lead(house: House) -> None:
    house.choose = (ChooseTable(tag=("wet",), forecasters=(SECOND,)),)
    house.fits = lambda name, asked: (name == SECOND) == ("wet" in asked.tags)
    house.forecasters[SECOND] = ScriptedForecaster(Unavailable("down"))
    rain = question("rain", now=house.clock.now(), tags=("wet",), batch="b")
    sun = question("sun", now=house.clock.now(), batch="b")
    house.venue.offer(rain, sun)
    await house.discover([FIRST, SECOND])
    await house.forecast()
    await house.submit()
    assert house.book.writes == []
    house.forecasters[SECOND] = ScriptedForecaster(say(0.6))
    await house.clock.advance(600.0)
    assert await house.forecast() == "1 forecasts made"
    await house.submit()
    assert len(house.book.writes) == 2


async def test_what_a_question_is_filed_under_moves_without_making_another_question_of_it(house: House) -> None:
    house.venue.offer(question("rain", now=house.clock.now(), tags=("wet",), tournaments=("autumn",)))
    await house.discover()
    first = await house.ledger.questions.get(REF)
    assert (first.tags, first.tournaments) == (("wet",), ("autumn",))
    version = await house.ledger.questions.current_version(REF)
    await house.forecast()
    house.venue.offer(question("rain", now=house.clock.now(), tags=("wet", "cold")))
    assert "0 new or changed, 0 planned" in await house.discover()
    assert (await house.ledger.questions.get(REF)).tags == ("wet", "cold")
    assert (await house.ledger.questions.get(REF)).tournaments == ()
    assert await house.ledger.questions.current_version(REF) == version
