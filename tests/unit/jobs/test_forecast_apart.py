"""A forecast that a person only wants to see: it never leaves, and changes nothing about what the daemon does."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from bot.core.errors import RequestRejectedError
from bot.core.operator_requests import ForecastQuestion
from bot.core.questions import QuestionRef
from bot.core.submissions import HoldDecision, SendDecision
from bot.store.forecast_queries import read_forecast_status
from bot.store.requests import send_request
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture
from tests.unit.jobs.test_failed_trials import FakeFailingForecaster
from tests.unit.jobs.test_forecast_pass import FakeBlockedForecaster
from tests.unit.jobs.test_requested_forecasts import OWN, attended

REF = QuestionRef(VENUE, "rain")


async def wanted(jobs_fixture: JobsFixture, *, submit: bool, ref: QuestionRef = REF) -> str:
    """Ask the daemon, which forecasts and submits in its next pass."""
    question = OWN if ref == OWN.ref else None
    jobs_fixture.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.8))
    send_request(
        jobs_fixture.path,
        ForecastQuestion(ref=ref, forecaster=FIRST, question=question, submit=submit),
        at=jobs_fixture.clock.now(),
    )
    assert await attended(jobs_fixture) == "1 requests done"
    assert await jobs_fixture.forecast() == "1 forecasts made"
    return await jobs_fixture.submit()


async def scheduled(jobs_fixture: JobsFixture, ref: QuestionRef = REF) -> object:
    place = (await read_forecast_status(jobs_fixture.ledger.forecasts.readers, ref, FIRST)).place
    return None if place is None else place.due_at


async def test_the_daemon_submits_a_forecast_made_by_hand_only_where_it_is_to(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    due_at = await scheduled(jobs_fixture)
    await jobs_fixture.clock.advance(60)
    assert await wanted(jobs_fixture, submit=False) == "0 planned, 1 held, 0 acknowledged"
    mine, by_hand = await jobs_fixture.history()
    [row] = await jobs_fixture.ledger.submissions.decisions(by_hand.id)
    assert row.decision == HoldDecision(why="recorded only: it was made by hand, without --submit")
    standing = await jobs_fixture.ledger.submissions.read_standing(REF, "me")
    assert standing is not None
    assert standing.forecast == mine.id
    assert await scheduled(jobs_fixture) == due_at
    await jobs_fixture.clock.advance(60)
    assert await wanted(jobs_fixture, submit=True) == "1 planned, 0 held, 1 acknowledged"
    assert await scheduled(jobs_fixture) != due_at


async def test_it_does_not_supersede_what_waits(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    jobs_fixture.kill_switch.stop_file.touch()
    assert await jobs_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await wanted(jobs_fixture, submit=False)
    jobs_fixture.kill_switch.stop_file.unlink()
    await jobs_fixture.clock.advance(3600)
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    mine, _ = await jobs_fixture.history()
    assert [type(row.decision) for row in await jobs_fixture.ledger.submissions.decisions(mine.id)][-1] is SendDecision


async def test_a_changed_text_is_forecast_anew_as_if_it_had_not_been_made(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(7200)
    jobs_fixture.offer("rain", criteria="By the gauge on the roof.")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    first, again = [made.why for made in await jobs_fixture.history()]
    assert first == "new question"
    assert again.startswith("the question changed: ")
    await jobs_fixture.clock.advance(7200)
    await wanted(jobs_fixture, submit=False)
    jobs_fixture.offer("rain", criteria="By the gauge in the yard.")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    *_, by_hand, mine = await jobs_fixture.history()
    assert (by_hand.why, mine.why.startswith("the question changed: ")) == ("asked for", True)


async def test_what_is_not_on_its_list_is_not_forecast_again(jobs_fixture: JobsFixture) -> None:
    await wanted(jobs_fixture, submit=False, ref=OWN.ref)
    assert await scheduled(jobs_fixture, OWN.ref) is None
    await jobs_fixture.clock.advance(100 * 86_400)
    assert await jobs_fixture.forecast() == "0 forecasts made"


@pytest.mark.parametrize("submit", [True, False])
async def test_one_that_failed_first_is_still_submitted_only_where_it_is_to(
    jobs_fixture: JobsFixture, *, submit: bool
) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    await jobs_fixture.clock.advance(60)
    jobs_fixture.forecasters[FIRST] = FakeFailingForecaster(RequestRejectedError("no"), frozenset({1}))
    send_request(
        jobs_fixture.path,
        ForecastQuestion(ref=REF, forecaster=FIRST, question=None, submit=submit),
        at=jobs_fixture.clock.now(),
    )
    await attended(jobs_fixture)
    assert (await jobs_fixture.forecast()).startswith("0 forecasts made, 1 postponed")
    jobs_fixture.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.8))
    await jobs_fixture.clock.advance(301)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    done = "1 planned, 0 held, 1 acknowledged" if submit else "0 planned, 1 held, 0 acknowledged"
    assert await jobs_fixture.submit() == done


async def test_one_that_failed_first_is_submitted_where_a_person_asks_for_that_meanwhile(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.submit()
    jobs_fixture.forecasters[FIRST] = FakeFailingForecaster(RequestRejectedError("no"), frozenset({1}))
    for submit in (False, True):
        await jobs_fixture.clock.advance(60)
        send_request(
            jobs_fixture.path,
            ForecastQuestion(ref=REF, forecaster=FIRST, question=None, submit=submit),
            at=jobs_fixture.clock.now(),
        )
        await attended(jobs_fixture)
        await jobs_fixture.forecast()
    jobs_fixture.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.8))
    await jobs_fixture.clock.advance(301)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


@pytest.mark.parametrize("has_earlier", [True, False])
async def test_one_that_is_being_made_is_submitted_where_a_person_asks_for_that_meanwhile(
    jobs_fixture: JobsFixture, *, has_earlier: bool
) -> None:
    ref = QuestionRef(VENUE, "slow rain")
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters = {FIRST: gated}
    jobs_fixture.offer("slow rain")
    await jobs_fixture.discover([FIRST] if has_earlier else [])
    if has_earlier:
        gated.gate.set()
        await jobs_fixture.forecast()
        await jobs_fixture.submit()
        gated.gate.clear()
        await jobs_fixture.clock.advance(3600)
    gated.arrived.clear()
    making = None
    for submit in (False, True):
        wish = ForecastQuestion(ref=ref, forecaster=FIRST, question=None, submit=submit)
        send_request(jobs_fixture.path, wish, at=jobs_fixture.clock.now())
        assert await attended(jobs_fixture) == "1 requests done"
        making = making or asyncio.ensure_future(jobs_fixture.forecast())
        await gated.waits("slow rain")
    await jobs_fixture.clock.advance(60)
    gated.gate.set()
    assert making is not None
    assert await making == "1 forecasts made"
    made = (await jobs_fixture.history("slow rain"))[-1]
    assert await scheduled(jobs_fixture, ref) == made.made_at + timedelta(days=3)
    done = await jobs_fixture.submit()
    assert done == ("0 planned, 1 held, 0 acknowledged" if has_earlier else "1 planned, 0 held, 1 acknowledged")
    [row] = await jobs_fixture.ledger.submissions.decisions(made.id)
    assert "recorded only" not in row.decision.why
    assert await jobs_fixture.forecast() == "0 forecasts made"


@pytest.mark.parametrize("submit", [True, False])
async def test_the_ledger_says_which_it_is(jobs_fixture: JobsFixture, *, submit: bool) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(60)
    await wanted(jobs_fixture, submit=submit)
    with closing(sqlite3.connect(jobs_fixture.path / "ledger.sqlite")) as database:
        rows = database.execute("select why, forecast_only from forecast order by revision").fetchall()
    assert rows == [("new question", 0), ("asked for", int(not submit))]
