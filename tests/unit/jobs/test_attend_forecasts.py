"""A forecast that a person asks of the daemon: made due now, or refused with a reason that says what to do."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from bot.desk.combine import Pool
from bot.domain.forecast import Limits
from bot.domain.prediction import BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.request import ForecastQuestion, LockQuestion
from bot.errors import ContractError
from bot.jobs.attend import Attending, attend
from bot.jobs.sitting import Seat
from bot.jobs.spending import Spending
from bot.store.attempts import standing_of, with_url
from bot.store.mailbox import MAX_BYTES
from bot.store.requests import ask, waiting
from bot.testing.forecaster import Hang, ScriptedForecaster
from tests.unit.jobs.conftest import FIRST, VENUE, House, outcome, question

REF = QuestionRef(VENUE, "rain")
OWN = Question(ref=QuestionRef("file", "snow"), title="Snow?", shape=BinaryShape(), targets=(Target(),))


class Dear:
    """Every forecast costs ten US dollars."""

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        return 10.0


def seats(*, asks: bool = False) -> Mapping[str, Seat]:
    scripted = ScriptedForecaster(Hang())
    return {
        FIRST: Seat(name=FIRST, forecaster=scripted, trials=1, pool=Pool.MEAN, limits=Limits(), asks=asks),
    }


async def attended(house: House, **parts: Any) -> str:
    given = {"seats": seats(), **parts}
    return await attend(Attending(folder=house.path, ledger=house.ledger, clock=house.clock, **given))


async def told(house: House) -> str:
    [event, *_] = await house.ledger.journal.recent(9, "request")
    return event.text.partition(" [")[0]


async def test_a_question_on_record_becomes_due_now_though_it_was_forecast_already(house: House) -> None:
    house.offer("rain")
    await house.discover()
    assert await house.forecast() == "1 forecasts made"
    assert await house.forecast() == "0 forecasts made"
    ask(house.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=house.clock.now())
    assert await attended(house) == "1 requests done"
    assert await house.forecast() == "1 forecasts made"
    assert [made.why for made in await house.history()] == ["new question", "asked for"]
    assert await told(house) == f"forecast of lantern:rain by {FIRST} asked for"


async def test_a_question_of_ones_own_comes_with_the_request(house: House) -> None:
    ask(house.path, ForecastQuestion(ref=OWN.ref, forecaster=FIRST, question=OWN), at=house.clock.now())
    assert await attended(house) == "1 requests done"
    assert await house.ledger.questions.get(OWN.ref) == OWN
    assert await house.forecast() == "1 forecasts made"
    [made] = await house.ledger.forecasts.history(OWN.ref)
    assert made.why == "asked for"


async def test_a_question_that_nobody_knows_is_refused(house: House) -> None:
    ask(house.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=house.clock.now())
    assert await attended(house) == "0 requests done, 1 refused"
    assert "no question lantern:rain in the ledger" in await told(house)


async def test_a_forecaster_that_is_not_open_is_refused_by_name(house: House) -> None:
    house.offer("rain")
    await house.discover()
    path = ask(house.path, ForecastQuestion(ref=REF, forecaster="frist"), at=house.clock.now())
    assert await attended(house) == "0 requests done, 1 refused"
    said = await told(house)
    for part in (path.name, "frist is not open here", f"did you mean {FIRST}?", "start the daemon again"):
        assert part in said
    assert waiting(house.path) == []


async def test_what_would_be_held_is_refused_with_the_way_to_say_yes(house: House) -> None:
    house.offer("rain")
    await house.discover()
    request = ForecastQuestion(ref=REF, forecaster=FIRST)
    ask(house.path, request, at=house.clock.now())
    dear = Spending(prices=Dear(), ask_above_usd=5.0)
    assert await attended(house, seats=seats(asks=True), spending=dear) == "0 requests done, 1 refused"
    assert "foxcast run --yes" in await told(house)
    ask(house.path, request, at=house.clock.now())
    agreed = Spending(prices=Dear(), ask_above_usd=5.0, confirmed=True)
    assert await attended(house, seats=seats(asks=True), spending=agreed) == "1 requests done"


async def test_a_closed_a_resolved_and_a_locked_question_are_refused(house: House) -> None:
    house.offer("rain", "snow", "hail")
    await house.discover()
    await house.forecast()
    now = house.clock.now()
    await house.ledger.resolutions.record([outcome("snow", 1.0, at=now)], seen_at=now)
    for key, why in (("snow", "has resolved"), ("hail", "locked: disputed"), ("rain", "closed at")):
        ref = QuestionRef(VENUE, key)
        if key == "hail":
            ask(house.path, LockQuestion(ref=ref, reason="disputed"), at=house.clock.now())
            await attended(house)
        if key == "rain":
            await house.clock.advance(timedelta(days=11).total_seconds())
        ask(house.path, ForecastQuestion(ref=ref, forecaster=FIRST), at=house.clock.now())
        assert await attended(house) == "0 requests done, 1 refused"
        assert why in await told(house)


async def test_a_question_that_its_venue_dates_is_forecast_though_its_window_is_over(house: House) -> None:
    now = house.clock.now()
    past = question("rain", now=now, as_of=now - timedelta(days=9), closes_at=now - timedelta(days=2), price=None)
    await house.ledger.questions.record([past], seen_at=now)
    ask(house.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=now)
    assert await attended(house) == "1 requests done"


async def test_a_question_that_was_put_off_stays_put_off_and_says_so(house: House) -> None:
    house.forecasters[FIRST] = ScriptedForecaster(RuntimeError("broken"))
    house.offer("rain")
    await house.discover()
    assert "1 postponed" in await house.forecast()
    ask(house.path, ForecastQuestion(ref=REF, forecaster=FIRST), at=house.clock.now())
    await attended(house)
    standing = await standing_of(house.ledger.forecasts.readers, REF, FIRST)
    assert standing.attempt is not None
    assert standing.place is not None
    assert (standing.attempt.state, standing.attempt.revision) == ("failed", 1)
    assert standing.place.due_at == house.clock.now() + timedelta(minutes=5)
    assert "RuntimeError" in standing.place.why


async def test_nothing_stands_of_a_question_that_was_never_seen(house: House) -> None:
    standing = await standing_of(house.ledger.forecasts.readers, REF, FIRST)
    assert (standing.attempt, standing.place) == (None, None)


async def test_questions_are_found_by_a_part_of_their_address_taken_literally(house: House) -> None:
    house.offer("rain", url="https://almanac.example/q_1")
    house.offer("snow", url="https://almanac.example/qx1")
    await house.discover()
    found = await with_url(house.ledger.questions.readers, "almanac.example/q_1")
    assert found == [(REF, "https://almanac.example/q_1")]


def test_a_request_under_the_name_of_another_question_is_refused() -> None:
    with pytest.raises(ValueError, match="lantern:rain is asked for with the question file:snow"):
        ForecastQuestion(ref=REF, forecaster=FIRST, question=OWN)


def test_a_request_too_large_to_be_read_is_not_left(house: House) -> None:
    ref = QuestionRef("file", "long")
    long = Question(ref=ref, title="Long?", shape=BinaryShape(), targets=(Target(),), background="x" * MAX_BYTES)
    with pytest.raises(ContractError, match="shorten its texts"):
        ask(house.path, ForecastQuestion(ref=ref, forecaster=FIRST, question=long), at=house.clock.now())
    assert waiting(house.path) == []
