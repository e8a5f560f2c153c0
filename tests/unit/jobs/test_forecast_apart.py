"""A forecast that a person only wants to see: it never leaves, and changes nothing about what the daemon does."""

import sqlite3
from contextlib import closing

import pytest

from bot.core.operator_requests import ForecastQuestion
from bot.core.questions import QuestionRef
from bot.core.submissions import HoldDecision, SendDecision
from bot.store.forecast_queries import read_forecast_status
from bot.store.requests import send_request
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture
from tests.unit.jobs.test_requested_forecasts import OWN, attended

REF = QuestionRef(VENUE, "rain")


async def wanted(house: JobsFixture, *, submit: bool, ref: QuestionRef = REF) -> str:
    """Ask the daemon, which forecasts and submits in its next pass."""
    question = OWN if ref == OWN.ref else None
    house.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.8))
    send_request(
        house.path, ForecastQuestion(ref=ref, forecaster=FIRST, question=question, submit=submit), at=house.clock.now()
    )
    assert await attended(house) == "1 requests done"
    assert await house.forecast() == "1 forecasts made"
    return await house.submit()


async def scheduled(house: JobsFixture, ref: QuestionRef = REF) -> object:
    place = (await read_forecast_status(house.ledger.forecasts.readers, ref, FIRST)).place
    return None if place is None else place.due_at


async def test_the_daemon_submits_a_forecast_made_by_hand_only_where_it_is_to(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"
    due_at = await scheduled(house)
    await house.clock.advance(60)
    assert await wanted(house, submit=False) == "0 planned, 1 held, 0 acknowledged"
    mine, by_hand = await house.history()
    [row] = await house.ledger.submissions.decisions(by_hand.id)
    assert row.decision == HoldDecision(why="recorded only: it was made by hand, without --submit")
    standing = await house.ledger.submissions.read_standing(REF, "me")
    assert standing is not None
    assert standing.forecast == mine.id
    assert await scheduled(house) == due_at
    await house.clock.advance(60)
    assert await wanted(house, submit=True) == "1 planned, 0 held, 1 acknowledged"
    assert await scheduled(house) != due_at


async def test_it_does_not_supersede_what_waits(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()
    house.brake.stop_file.touch()
    assert await house.submit() == "0 planned, 1 held, 0 acknowledged"
    await wanted(house, submit=False)
    house.brake.stop_file.unlink()
    await house.clock.advance(3600)
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"
    mine, _ = await house.history()
    assert [type(row.decision) for row in await house.ledger.submissions.decisions(mine.id)][-1] is SendDecision


async def test_a_changed_text_is_forecast_anew_as_if_it_had_not_been_made(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()
    await house.clock.advance(7200)
    house.offer("rain", criteria="By the gauge on the roof.")
    await house.discover()
    await house.forecast()
    await house.submit()
    first, again = [made.why for made in await house.history()]
    assert first == "new question"
    assert again.startswith("the question changed: ")
    await house.clock.advance(7200)
    await wanted(house, submit=False)
    house.offer("rain", criteria="By the gauge in the yard.")
    await house.discover()
    await house.forecast()
    *_, by_hand, mine = await house.history()
    assert (by_hand.why, mine.why.startswith("the question changed: ")) == ("asked for", True)


async def test_what_is_not_on_its_list_is_not_forecast_again(house: JobsFixture) -> None:
    await wanted(house, submit=False, ref=OWN.ref)
    assert await scheduled(house, OWN.ref) is None
    await house.clock.advance(100 * 86_400)
    assert await house.forecast() == "0 forecasts made"


@pytest.mark.parametrize("submit", [True, False])
async def test_the_ledger_says_which_it_is(house: JobsFixture, *, submit: bool) -> None:
    house.offer("rain")
    await house.discover()
    await house.forecast()
    await house.clock.advance(60)
    await wanted(house, submit=submit)
    with closing(sqlite3.connect(house.path / "ledger.sqlite")) as database:
        rows = database.execute("select why, forecast_only from forecast order by revision").fetchall()
    assert rows == [("new question", 0), ("asked for", int(not submit))]
