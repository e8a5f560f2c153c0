"""What the weekly letter and the conditions read from a real ledger."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.forecasts import Trial, TrialEnd
from bot.core.orders import Account
from bot.store.health_queries import count_in_doubt, find_closed_venues, read_job_histories, read_recent_trials
from bot.store.letter_queries import has_forecast_before, read_week
from tests.unit.store.conftest import NOON, LedgerFixture
from tests.unit.store.test_scores import score_all

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


async def test_the_week_of_a_ledger(ledger_fixture: LedgerFixture, make_step: object) -> None:
    for key, probability, value in (("rain", 0.9, 1.0), ("snow", 0.4, 1.0), ("fog", 0.2, None)):
        question = await ledger_fixture.ask(key)
        await ledger_fixture.forecast(question, probability)
        if value is not None:
            await ledger_fixture.resolve(question, value)
    await score_all(ledger_fixture)
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation())
    await ledger_fixture.ledger.calls.settle("call", ledger_fixture.settlement(0.02))
    readers = ledger_fixture.ledger.events.readers
    week = await readers.run(lambda database: read_week(database, NOON - DAY, explained=1))
    assert [(one.venue, one.forecasts, one.questions) for one in week.forecasts] == [("lantern", 3, 3)]
    assert [(one.title.split()[3], one.probability, one.crowd, one.outcome) for one in week.scored] == [
        ("rain", 0.9, 0.25, 1.0),
        ("snow", 0.4, 0.25, 1.0),
    ]
    # The squares of 0.9 - 1 and of 0.4 - 1.
    assert [one.brier for one in week.scored] == pytest.approx([0.01, 0.36])
    assert (week.calls, week.failed, [*week.gains]) == (1, 0, [])
    assert week.spent_usd == pytest.approx(0.02)
    assert set(week.reasons) == {one.forecast for one in week.scored}
    later = await readers.run(lambda database: read_week(database, NOON + DAY, explained=1))
    assert (later.forecasts, later.scored, later.calls) == ([], [], 0)
    assert not await readers.run(lambda database: has_forecast_before(database, NOON))
    assert await readers.run(lambda database: has_forecast_before(database, NOON + DAY))


async def test_runs_of_a_job_since_it_last_succeeded(ledger_fixture: LedgerFixture) -> None:
    events = ledger_fixture.ledger.events
    for hour, ok in enumerate([False, True, False, False]):
        at = NOON + timedelta(hours=hour)
        await events.job_run("tide", started_at=at, ended_at=at, ok=ok, detail="")
    await events.job_run("never", started_at=NOON, ended_at=NOON, ok=False, detail="")
    never, tide = await events.readers.run(read_job_histories)
    assert (tide.last_success, tide.failing_since, tide.failures) == (
        NOON + timedelta(hours=1),
        NOON + timedelta(hours=2),
        2,
    )
    assert (never.last_success, never.failing_since, never.failures) == (None, NOON, 1)


async def test_the_newest_trials_of_each_forecaster(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    running = await ledger_fixture.begin(question)
    lost = Trial(number=1, end=TrialEnd.FAILED, steps=0, belief=None, detail="AuthenticationError: 401")
    for number in range(1, 5):
        at = NOON + timedelta(minutes=number)
        await ledger_fixture.ledger.forecasts.end_trial(running.id, replace(lost, number=number), at)
    read = ledger_fixture.ledger.events.readers.run
    [found] = await read(lambda database: read_recent_trials(database, NOON + timedelta(hours=1)))
    assert (found.ended, len(found.failed), found.last_ended_at) == (4, 4, NOON + timedelta(minutes=4))
    assert await read(lambda database: read_recent_trials(database, NOON + 2 * DAY)) == []


async def test_a_venue_is_closed_once_its_last_question_closed(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask("rain", closes_at=NOON + DAY)
    await ledger_fixture.ask("snow", closes_at=NOON + 2 * DAY)
    read = ledger_fixture.ledger.events.readers.run

    async def closed(days: int) -> list[object]:
        return [
            one.closed_at
            for one in await read(
                lambda database: find_closed_venues(database, ["lantern", "other"], NOON + days * DAY)
            )
        ]

    assert await closed(1) == []
    assert await closed(3) == [NOON + 2 * DAY]
    await ledger_fixture.ask("fog", closes_at=None)
    assert await closed(3) == []
    assert await read(count_in_doubt) == {}


async def test_what_was_deposited_in_a_week_is_no_gain_of_it(ledger_fixture: LedgerFixture) -> None:
    moments = [(NOON - 3 * HOUR, 100.0), (NOON - 2 * HOUR, 160.0), (NOON - HOUR, 160.0)]
    for at, cash in moments:
        account = Account(at=at, currency="COIN", cash=cash)
        await ledger_fixture.ledger.readings.add("lantern", "us", account, paper=False)
    readers = ledger_fixture.ledger.events.readers
    [one] = (await readers.run(lambda database: read_week(database, NOON - DAY, explained=1))).gains
    assert (one.venue, one.worth, one.gained) == ("lantern", 160.0, 0.0)
