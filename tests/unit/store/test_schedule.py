from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from bot.core.questions import QuestionRef
from bot.core.submissions import HoldDecision
from bot.store.schedule import _CROWDED_AT, BatchLoad, DueEntry, ForecastLease, ScheduleCounts
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Later:
    at: datetime
    why: str


def due(key: str, at: datetime = NOON, *, closes_at: datetime | None = None, why: str = "new") -> DueEntry:
    return DueEntry(ref=QuestionRef("lantern", key), forecaster="plain", due_at=at, why=why, closes_at=closes_at)


async def plan(ledger_fixture: LedgerFixture, *dues: DueEntry) -> int:
    for item in dues:
        await ledger_fixture.ask(item.ref.key, closes_at=item.closes_at)
    return await ledger_fixture.ledger.schedule.plan(dues)


async def finish(ledger_fixture: LedgerFixture, key: str = "rain", *, following: Later | None = None) -> datetime:
    """Forecast what is planned; return when that was."""
    question = await ledger_fixture.ledger.questions.get(QuestionRef("lantern", key))
    running = await ledger_fixture.begin(question)
    forecast = ledger_fixture.answer(question, running, 0.4)
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=following)
    return forecast.made_at


async def claim(
    ledger_fixture: LedgerFixture, now: datetime = NOON, *, limit: int = 10, owner: str = "me"
) -> list[ForecastLease]:
    return await ledger_fixture.ledger.schedule.claim(now=now, owner=owner, lease=HOUR, limit=limit)


def keys(claims: Sequence[ForecastLease]) -> list[str]:
    return [item.ref.key for item in claims]


async def test_a_forecast_that_is_never_submitted_ends_only_the_entry_that_requested_it(
    ledger_fixture: LedgerFixture,
) -> None:
    for key, is_requested in (("rain", False), ("snow", True)):
        await plan(ledger_fixture, replace(due(key), forecast_only=is_requested))
        question = await ledger_fixture.ledger.questions.get(QuestionRef("lantern", key))
        running = await ledger_fixture.begin(question, forecast_only=True)
        await ledger_fixture.ledger.forecasts.complete(ledger_fixture.answer(question, running, 0.4), next_due=None)
    assert keys(await claim(ledger_fixture)) == ["rain"]


async def test_open_windows_come_first_soonest_close_first_and_closed_ones_last(ledger_fixture: LedgerFixture) -> None:
    await plan(
        ledger_fixture,
        due("closed late", closes_at=NOON - HOUR),
        due("closed early", closes_at=NOON - 2 * HOUR),
        due("for ever"),
        due("tomorrow", closes_at=NOON + 24 * HOUR),
        due("soon", closes_at=NOON + HOUR),
        due("soon and longer due", NOON - HOUR, closes_at=NOON + HOUR),
    )
    order = ["soon and longer due", "soon", "tomorrow", "for ever", "closed early", "closed late"]
    assert keys(await claim(ledger_fixture, limit=4)) == order[:4]
    assert keys(await claim(ledger_fixture)) == order[4:]


async def test_the_order_is_the_same_where_very_many_are_due(ledger_fixture: LedgerFixture) -> None:
    crowd = [due(f"{number:05}", closes_at=NOON + timedelta(minutes=number)) for number in range(_CROWDED_AT, 0, -1)]
    await plan(ledger_fixture, due("closed", closes_at=NOON - HOUR), due("for ever"), due("later", NOON + HOUR))
    await ledger_fixture.ledger.questions.record(
        [ledger_fixture.question(item.ref.key) for item in crowd], seen_at=NOON
    )
    await ledger_fixture.ledger.schedule.plan(crowd)
    assert keys(await claim(ledger_fixture, limit=3)) == ["00001", "00002", "00003"]
    rest = keys(await claim(ledger_fixture, limit=2 * _CROWDED_AT))
    assert rest[0] == "00004"
    assert rest[-2:] == ["for ever", "closed"]
    assert len(rest) == _CROWDED_AT - 1


async def test_what_is_not_due_or_held_is_not_claimed(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("now"), due("later", NOON + HOUR))
    assert keys(await claim(ledger_fixture)) == ["now"]
    assert await claim(ledger_fixture) == []
    assert keys(await claim(ledger_fixture, NOON + HOUR)) == ["now", "later"]


async def test_a_claim_says_why_and_counts_attempts(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain", closes_at=NOON + 9 * HOUR, why="price moved"))
    (first,) = await claim(ledger_fixture)
    assert (first.why, first.closes_at, first.attempt) == ("price moved", NOON + 9 * HOUR, 1)
    await ledger_fixture.ledger.schedule.postpone(first, until=NOON + HOUR, why="no answer")
    (second,) = await claim(ledger_fixture, NOON + HOUR)
    assert (second.why, second.attempt) == ("no answer", 2)
    await finish(ledger_fixture, following=Later(NOON + 2 * HOUR, "stale"))
    (third,) = await claim(ledger_fixture, NOON + 2 * HOUR)
    assert (third.why, third.attempt) == ("stale", 1)


async def test_a_finished_question_without_a_next_time_is_not_claimed(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    await claim(ledger_fixture)
    await finish(ledger_fixture)
    assert await claim(ledger_fixture, NOON + 1000 * HOUR) == []


async def test_who_lost_a_lease_can_no_longer_change_the_row(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    (old,) = await claim(ledger_fixture, owner="first")
    (new,) = await claim(ledger_fixture, NOON + HOUR, owner="second")
    await ledger_fixture.ledger.schedule.postpone(old, until=NOON + 9 * HOUR, why="late")
    assert ledger_fixture.rows("select owner, why from schedule") == [("second", "new")]
    await ledger_fixture.ledger.schedule.postpone(new, until=NOON + 9 * HOUR, why="failing")
    assert ledger_fixture.rows("select owner, why from schedule") == [(None, "failing")]


async def test_what_its_owner_still_works_on_does_not_expire(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    await claim(ledger_fixture)
    schedule, later = ledger_fixture.ledger.schedule, NOON + 2 * HOUR
    # The clock was set forward, or the machine slept.
    assert await schedule.claim(now=later, owner="me", lease=HOUR, limit=9, at_work=True) == []
    # Of another run nobody knows.
    assert keys(await schedule.claim(now=later, owner="next run", lease=HOUR, limit=9, at_work=True)) == ["rain"]
    assert keys(await claim(ledger_fixture, later + HOUR, owner="next run")) == ["rain"]


async def test_planning_brings_forward_and_never_puts_off(ledger_fixture: LedgerFixture) -> None:
    assert await plan(ledger_fixture, due("rain", NOON + 2 * HOUR)) == 1
    assert await plan(ledger_fixture, due("rain", NOON + 3 * HOUR, why="later")) == 0
    assert await plan(ledger_fixture, due("rain", NOON + HOUR, why="sooner")) == 1
    (held,) = await claim(ledger_fixture, NOON + HOUR)
    assert held.why == "sooner"
    assert await plan(ledger_fixture, due("rain", NOON, why="while held")) == 0


async def test_planning_revives_what_was_finished(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    await claim(ledger_fixture)
    made_at = await finish(ledger_fixture)
    assert await plan(ledger_fixture, replace(due("rain", why="text changed"), answered_at=made_at)) == 1
    assert [item.why for item in await claim(ledger_fixture)] == ["text changed"]


@pytest.mark.parametrize("known", [0, 1])
async def test_a_wish_counts_only_if_it_knows_the_newest_forecast(ledger_fixture: LedgerFixture, known: int) -> None:
    await plan(ledger_fixture, due("rain"))
    first, second = [await finish(replace(ledger_fixture, now=NOON + hours * HOUR)) for hours in range(2)]
    overtaken = replace(due("rain", why="price moved"), answered_at=(None, first)[known])
    assert await plan(ledger_fixture, overtaken) == 0
    assert await plan(ledger_fixture, replace(overtaken, answered_at=second)) == 1


async def test_what_was_put_off_is_not_brought_forward_before_its_time(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    (held,) = await claim(ledger_fixture)
    await ledger_fixture.ledger.schedule.postpone(held, until=NOON + 6 * HOUR, why="failing")
    assert await plan(ledger_fixture, due("rain", NOON + HOUR, why="new")) == 0
    assert await claim(ledger_fixture, NOON + 5 * HOUR) == []
    assert keys(await claim(ledger_fixture, NOON + 6 * HOUR)) == ["rain"]


async def test_leases_of_the_dead_come_back_and_those_of_the_living_stay(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("a"), due("b"))
    await claim(ledger_fixture, limit=1, owner="dead")
    await claim(ledger_fixture, limit=1, owner="alive")
    assert await ledger_fixture.ledger.schedule.free_leases(owner_not="alive", now=NOON) == 1
    assert keys(await claim(ledger_fixture)) == ["a"]
    assert await ledger_fixture.ledger.schedule.free_leases(owner_not=None, now=NOON) == 2


@pytest.mark.parametrize("forecaster", [None, "plain"])
async def test_a_lock_keeps_a_question_back_until_it_is_lifted(
    ledger_fixture: LedgerFixture, forecaster: str | None
) -> None:
    await plan(ledger_fixture, due("rain"))
    ref, schedule = QuestionRef("lantern", "rain"), ledger_fixture.ledger.schedule
    await schedule.lock(ref, forecaster=forecaster, reason="under review", until=None, now=NOON)
    assert await claim(ledger_fixture) == []
    assert [(lock.ref, lock.forecaster, lock.reason) for lock in await schedule.locks(NOON)] == [
        (ref, forecaster, "under review")
    ]
    assert await schedule.unlock(ref, forecaster=forecaster)
    assert not await schedule.unlock(ref, forecaster=forecaster)
    assert keys(await claim(ledger_fixture)) == ["rain"]


async def test_an_expired_lock_does_not_hold(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    ref, schedule = QuestionRef("lantern", "rain"), ledger_fixture.ledger.schedule
    await schedule.lock(ref, forecaster=None, reason="wait", until=NOON + HOUR, now=NOON)
    assert await claim(ledger_fixture, NOON + timedelta(minutes=59)) == []
    assert await schedule.locks(NOON + HOUR) == []
    assert keys(await claim(ledger_fixture, NOON + HOUR)) == ["rain"]


async def test_a_lock_of_one_forecaster_leaves_the_others_alone(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    ref = QuestionRef("lantern", "rain")
    await ledger_fixture.ledger.schedule.lock(ref, forecaster="other", reason="wait", until=None, now=NOON)
    assert keys(await claim(ledger_fixture)) == ["rain"]


async def test_a_missed_window_is_told_once_and_noted(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("missed", closes_at=NOON + HOUR), due("open", closes_at=NOON + 9 * HOUR))
    assert await ledger_fixture.ledger.schedule.missed(NOON) == []
    (miss,) = await ledger_fixture.ledger.schedule.missed(NOON + HOUR)
    assert (miss.ref.key, miss.forecaster, miss.closes_at) == ("missed", "plain", NOON + HOUR)
    assert await ledger_fixture.ledger.schedule.missed(NOON + 2 * HOUR) == []
    (event,) = await ledger_fixture.ledger.events.recent(10)
    assert (event.kind, event.at) == ("missed window", NOON + HOUR)


async def test_a_window_met_in_time_or_closed_before_it_was_found_is_no_miss(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("past", closes_at=NOON - HOUR), due("met", closes_at=NOON + HOUR))
    await ledger_fixture.forecast(await ledger_fixture.ask("met", closes_at=NOON + HOUR))
    assert await ledger_fixture.ledger.schedule.missed(NOON + 2 * HOUR) == []


async def test_a_close_that_a_venue_moved_counts_from_when_it_is_seen(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain", closes_at=NOON + HOUR), due("snow", closes_at=NOON + HOUR))
    # Seen before a forecast or a request, by which nothing is planned.
    await ledger_fixture.ask("rain", closes_at=NOON + 9 * HOUR)
    assert {one.ref.key: one.closes_at for one in await claim(ledger_fixture)} == {
        "rain": NOON + 9 * HOUR,
        "snow": NOON + HOUR,
    }
    assert [miss.ref.key for miss in await ledger_fixture.ledger.schedule.missed(NOON + 2 * HOUR)] == ["snow"]


async def test_an_answer_after_the_close_is_a_miss_and_a_new_close_opens_the_window_again(
    ledger_fixture: LedgerFixture,
) -> None:
    await plan(ledger_fixture, due("rain", closes_at=NOON + HOUR))
    question = await ledger_fixture.ask("rain", closes_at=NOON + HOUR)
    await ledger_fixture.forecast(question, now=NOON + 2 * HOUR, cutoff=NOON + 2 * HOUR)
    assert [miss.ref for miss in await ledger_fixture.ledger.schedule.missed(NOON + 3 * HOUR)] == [question.ref]
    await plan(ledger_fixture, due("rain", NOON + 9 * HOUR, closes_at=NOON + 5 * HOUR))
    assert await ledger_fixture.ledger.schedule.missed(NOON + 3 * HOUR) == []


async def test_completing_a_forecast_gives_the_claim_back_with_the_next_time(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("rain"))
    await claim(ledger_fixture)
    question = await ledger_fixture.ledger.questions.get(QuestionRef("lantern", "rain"))
    running = await ledger_fixture.begin(question)
    forecast = ledger_fixture.answer(question, running, 0.4)
    await ledger_fixture.ledger.forecasts.complete(forecast, next_due=Later(NOON + 3 * HOUR, "stale"))
    assert await claim(ledger_fixture, NOON + 2 * HOUR) == []
    (again,) = await claim(ledger_fixture, NOON + 3 * HOUR)
    assert (again.why, again.attempt) == ("stale", 1)


async def test_the_counts_follow_the_rows(ledger_fixture: LedgerFixture) -> None:
    schedule = ledger_fixture.ledger.schedule
    assert await schedule.counts(NOON) == ScheduleCounts(due=0, leased=0, locked=0, waiting=0)
    await plan(ledger_fixture, due("a"), due("b"), due("c"), due("d", NOON + 3 * HOUR))
    await schedule.lock(QuestionRef("lantern", "c"), forecaster=None, reason="r", until=None, now=NOON)
    await claim(ledger_fixture, limit=1)
    assert await schedule.counts(NOON) == ScheduleCounts(due=1, leased=1, locked=1, waiting=1)


async def test_the_load_of_a_batch_counts_what_is_in_work_and_what_has_no_forecast_yet(
    ledger_fixture: LedgerFixture,
) -> None:
    await plan(ledger_fixture, due("a"), due("b"), due("c"), due("d"), due("put off", NOON + HOUR))
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask("d", closes_at=None))
    hold = HoldDecision(why="recorded only")
    await ledger_fixture.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    await ledger_fixture.ledger.schedule.lock(
        QuestionRef("lantern", "c"), forecaster=None, reason="r", until=None, now=NOON
    )
    await claim(ledger_fixture, limit=1)
    load = await ledger_fixture.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert load == BatchLoad(questions=5, busy=1, unforecast=3, waiting=1)
    nobody = await ledger_fixture.ledger.schedule.read_batch_load("lantern", "2026-03-15", "plain", now=NOON)
    assert nobody == BatchLoad(questions=0, busy=0, unforecast=0, waiting=0)


async def test_a_batch_waits_for_the_decision_over_a_forecast(ledger_fixture: LedgerFixture) -> None:
    await plan(ledger_fixture, due("a"))
    forecast = await ledger_fixture.forecast(await ledger_fixture.ask("a", closes_at=None))
    load = await ledger_fixture.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert (load.unforecast, load.waiting) == (1, 1)
    await ledger_fixture.ledger.submissions.decide(
        forecast_id=forecast.id, decision=ledger_fixture.send(forecast), at=NOON
    )
    load = await ledger_fixture.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert (load.unforecast, load.waiting) == (0, 0)


async def test_moving_nothing_moves_none(ledger_fixture: LedgerFixture) -> None:
    assert await ledger_fixture.ledger.schedule.move([]) == 0


@pytest.mark.parametrize("by", [timedelta(minutes=-30), 3 * HOUR])
async def test_leases_move_with_a_clock_that_was_set(ledger_fixture: LedgerFixture, by: timedelta) -> None:
    await plan(ledger_fixture, due("rain"))
    [held] = await claim(ledger_fixture)
    assert await ledger_fixture.ledger.schedule.move_leases(by) == 1
    ends = held.leased_until + by
    assert await claim(ledger_fixture, ends - timedelta(seconds=1), owner="other") == []
    assert keys(await claim(ledger_fixture, ends, owner="other")) == ["rain"]


async def test_what_is_planned_for_one_of_two_reasons_is_listed(ledger_fixture: LedgerFixture) -> None:
    reasons = {"a": "new question", "b": "the market moved", "c": "a request"}
    for key in reasons:
        await ledger_fixture.forecast(await ledger_fixture.ask(key))
    await plan(ledger_fixture, *(due(key, NOON + HOUR, why=why) for key, why in reasons.items()))
    listed = await ledger_fixture.ledger.schedule.scheduled(reasons=("new%", "the market%"), now=NOON)
    assert {one.ref.key for one in listed} == {"a", "b"}
