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


async def plan(scribe: LedgerFixture, *dues: DueEntry) -> int:
    for item in dues:
        await scribe.ask(item.ref.key, closes_at=item.closes_at)
    return await scribe.ledger.schedule.plan(dues)


async def finish(scribe: LedgerFixture, key: str = "rain", *, following: Later | None = None) -> datetime:
    """Forecast what is planned; return when that was."""
    question = await scribe.ledger.questions.get(QuestionRef("lantern", key))
    running = await scribe.begin(question)
    forecast = scribe.answer(question, running, 0.4)
    await scribe.ledger.forecasts.complete(forecast, next_due=following)
    return forecast.made_at


async def claim(
    scribe: LedgerFixture, now: datetime = NOON, *, limit: int = 10, owner: str = "me"
) -> list[ForecastLease]:
    return await scribe.ledger.schedule.claim(now=now, owner=owner, lease=HOUR, limit=limit)


def keys(claims: Sequence[ForecastLease]) -> list[str]:
    return [item.ref.key for item in claims]


async def test_open_windows_come_first_soonest_close_first_and_closed_ones_last(scribe: LedgerFixture) -> None:
    await plan(
        scribe,
        due("closed late", closes_at=NOON - HOUR),
        due("closed early", closes_at=NOON - 2 * HOUR),
        due("for ever"),
        due("tomorrow", closes_at=NOON + 24 * HOUR),
        due("soon", closes_at=NOON + HOUR),
        due("soon and longer due", NOON - HOUR, closes_at=NOON + HOUR),
    )
    order = ["soon and longer due", "soon", "tomorrow", "for ever", "closed early", "closed late"]
    assert keys(await claim(scribe, limit=4)) == order[:4]
    assert keys(await claim(scribe)) == order[4:]


async def test_the_order_is_the_same_where_very_many_are_due(scribe: LedgerFixture) -> None:
    crowd = [due(f"{number:05}", closes_at=NOON + timedelta(minutes=number)) for number in range(_CROWDED_AT, 0, -1)]
    await plan(scribe, due("closed", closes_at=NOON - HOUR), due("for ever"), due("later", NOON + HOUR))
    await scribe.ledger.questions.record([scribe.question(item.ref.key) for item in crowd], seen_at=NOON)
    await scribe.ledger.schedule.plan(crowd)
    assert keys(await claim(scribe, limit=3)) == ["00001", "00002", "00003"]
    rest = keys(await claim(scribe, limit=2 * _CROWDED_AT))
    assert rest[0] == "00004"
    assert rest[-2:] == ["for ever", "closed"]
    assert len(rest) == _CROWDED_AT - 1


async def test_what_is_not_due_or_held_is_not_claimed(scribe: LedgerFixture) -> None:
    await plan(scribe, due("now"), due("later", NOON + HOUR))
    assert keys(await claim(scribe)) == ["now"]
    assert await claim(scribe) == []
    assert keys(await claim(scribe, NOON + HOUR)) == ["now", "later"]


async def test_a_claim_says_why_and_counts_attempts(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain", closes_at=NOON + 9 * HOUR, why="price moved"))
    (first,) = await claim(scribe)
    assert (first.why, first.closes_at, first.attempt) == ("price moved", NOON + 9 * HOUR, 1)
    await scribe.ledger.schedule.postpone(first, until=NOON + HOUR, why="no answer")
    (second,) = await claim(scribe, NOON + HOUR)
    assert (second.why, second.attempt) == ("no answer", 2)
    await finish(scribe, following=Later(NOON + 2 * HOUR, "stale"))
    (third,) = await claim(scribe, NOON + 2 * HOUR)
    assert (third.why, third.attempt) == ("stale", 1)


async def test_a_finished_question_without_a_next_time_is_not_claimed(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    await claim(scribe)
    await finish(scribe)
    assert await claim(scribe, NOON + 1000 * HOUR) == []


async def test_who_lost_a_lease_can_no_longer_change_the_row(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    (old,) = await claim(scribe, owner="first")
    (new,) = await claim(scribe, NOON + HOUR, owner="second")
    await scribe.ledger.schedule.postpone(old, until=NOON + 9 * HOUR, why="late")
    assert scribe.rows("select owner, why from schedule") == [("second", "new")]
    await scribe.ledger.schedule.postpone(new, until=NOON + 9 * HOUR, why="failing")
    assert scribe.rows("select owner, why from schedule") == [(None, "failing")]


async def test_planning_brings_forward_and_never_puts_off(scribe: LedgerFixture) -> None:
    assert await plan(scribe, due("rain", NOON + 2 * HOUR)) == 1
    assert await plan(scribe, due("rain", NOON + 3 * HOUR, why="later")) == 0
    assert await plan(scribe, due("rain", NOON + HOUR, why="sooner")) == 1
    (held,) = await claim(scribe, NOON + HOUR)
    assert held.why == "sooner"
    assert await plan(scribe, due("rain", NOON, why="while held")) == 0


async def test_planning_revives_what_was_finished(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    await claim(scribe)
    made_at = await finish(scribe)
    assert await plan(scribe, replace(due("rain", why="text changed"), answered_at=made_at)) == 1
    assert [item.why for item in await claim(scribe)] == ["text changed"]


@pytest.mark.parametrize("known", [0, 1])
async def test_a_wish_counts_only_if_it_knows_the_newest_forecast(scribe: LedgerFixture, known: int) -> None:
    await plan(scribe, due("rain"))
    first, second = [await finish(replace(scribe, now=NOON + hours * HOUR)) for hours in range(2)]
    overtaken = replace(due("rain", why="price moved"), answered_at=(None, first)[known])
    assert await plan(scribe, overtaken) == 0
    assert await plan(scribe, replace(overtaken, answered_at=second)) == 1


async def test_what_was_put_off_is_not_brought_forward_before_its_time(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    (held,) = await claim(scribe)
    await scribe.ledger.schedule.postpone(held, until=NOON + 6 * HOUR, why="failing")
    assert await plan(scribe, due("rain", NOON + HOUR, why="new")) == 0
    assert await claim(scribe, NOON + 5 * HOUR) == []
    assert keys(await claim(scribe, NOON + 6 * HOUR)) == ["rain"]


async def test_leases_of_the_dead_come_back_and_those_of_the_living_stay(scribe: LedgerFixture) -> None:
    await plan(scribe, due("a"), due("b"))
    await claim(scribe, limit=1, owner="dead")
    await claim(scribe, limit=1, owner="alive")
    assert await scribe.ledger.schedule.free_leases(owner_not="alive", now=NOON) == 1
    assert keys(await claim(scribe)) == ["a"]
    assert await scribe.ledger.schedule.free_leases(owner_not=None, now=NOON) == 2


@pytest.mark.parametrize("forecaster", [None, "plain"])
async def test_a_lock_keeps_a_question_back_until_it_is_lifted(scribe: LedgerFixture, forecaster: str | None) -> None:
    await plan(scribe, due("rain"))
    ref, schedule = QuestionRef("lantern", "rain"), scribe.ledger.schedule
    await schedule.lock(ref, forecaster=forecaster, reason="under review", until=None, now=NOON)
    assert await claim(scribe) == []
    assert [(lock.ref, lock.forecaster, lock.reason) for lock in await schedule.locks(NOON)] == [
        (ref, forecaster, "under review")
    ]
    assert await schedule.unlock(ref, forecaster=forecaster)
    assert not await schedule.unlock(ref, forecaster=forecaster)
    assert keys(await claim(scribe)) == ["rain"]


async def test_an_expired_lock_does_not_hold(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    ref, schedule = QuestionRef("lantern", "rain"), scribe.ledger.schedule
    await schedule.lock(ref, forecaster=None, reason="wait", until=NOON + HOUR, now=NOON)
    assert await claim(scribe, NOON + timedelta(minutes=59)) == []
    assert await schedule.locks(NOON + HOUR) == []
    assert keys(await claim(scribe, NOON + HOUR)) == ["rain"]


async def test_a_lock_of_one_forecaster_leaves_the_others_alone(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    ref = QuestionRef("lantern", "rain")
    await scribe.ledger.schedule.lock(ref, forecaster="other", reason="wait", until=None, now=NOON)
    assert keys(await claim(scribe)) == ["rain"]


async def test_a_missed_window_is_told_once_and_noted(scribe: LedgerFixture) -> None:
    await plan(scribe, due("missed", closes_at=NOON + HOUR), due("open", closes_at=NOON + 9 * HOUR))
    assert await scribe.ledger.schedule.missed(NOON) == []
    (miss,) = await scribe.ledger.schedule.missed(NOON + HOUR)
    assert (miss.ref.key, miss.forecaster, miss.closes_at) == ("missed", "plain", NOON + HOUR)
    assert await scribe.ledger.schedule.missed(NOON + 2 * HOUR) == []
    (event,) = await scribe.ledger.events.recent(10)
    assert (event.kind, event.at) == ("missed window", NOON + HOUR)


async def test_a_window_met_in_time_or_closed_before_it_was_found_is_no_miss(scribe: LedgerFixture) -> None:
    await plan(scribe, due("past", closes_at=NOON - HOUR), due("met", closes_at=NOON + HOUR))
    await scribe.forecast(await scribe.ask("met", closes_at=NOON + HOUR))
    assert await scribe.ledger.schedule.missed(NOON + 2 * HOUR) == []


async def test_an_answer_after_the_close_is_a_miss_and_a_new_close_opens_the_window_again(
    scribe: LedgerFixture,
) -> None:
    await plan(scribe, due("rain", closes_at=NOON + HOUR))
    question = await scribe.ask("rain", closes_at=NOON + HOUR)
    await scribe.forecast(question, now=NOON + 2 * HOUR, cutoff=NOON + 2 * HOUR)
    assert [miss.ref for miss in await scribe.ledger.schedule.missed(NOON + 3 * HOUR)] == [question.ref]
    await plan(scribe, due("rain", NOON + 9 * HOUR, closes_at=NOON + 5 * HOUR))
    assert await scribe.ledger.schedule.missed(NOON + 3 * HOUR) == []


async def test_completing_a_forecast_gives_the_claim_back_with_the_next_time(scribe: LedgerFixture) -> None:
    await plan(scribe, due("rain"))
    await claim(scribe)
    question = await scribe.ledger.questions.get(QuestionRef("lantern", "rain"))
    running = await scribe.begin(question)
    forecast = scribe.answer(question, running, 0.4)
    await scribe.ledger.forecasts.complete(forecast, next_due=Later(NOON + 3 * HOUR, "stale"))
    assert await claim(scribe, NOON + 2 * HOUR) == []
    (again,) = await claim(scribe, NOON + 3 * HOUR)
    assert (again.why, again.attempt) == ("stale", 1)


async def test_the_counts_follow_the_rows(scribe: LedgerFixture) -> None:
    schedule = scribe.ledger.schedule
    assert await schedule.counts(NOON) == ScheduleCounts(due=0, leased=0, locked=0, waiting=0)
    await plan(scribe, due("a"), due("b"), due("c"), due("d", NOON + 3 * HOUR))
    await schedule.lock(QuestionRef("lantern", "c"), forecaster=None, reason="r", until=None, now=NOON)
    await claim(scribe, limit=1)
    assert await schedule.counts(NOON) == ScheduleCounts(due=1, leased=1, locked=1, waiting=1)


async def test_the_load_of_a_batch_counts_what_is_in_work_and_what_has_no_forecast_yet(scribe: LedgerFixture) -> None:
    await plan(scribe, due("a"), due("b"), due("c"), due("d"), due("put off", NOON + HOUR))
    forecast = await scribe.forecast(await scribe.ask("d", closes_at=None))
    hold = HoldDecision(why="recorded only")
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=hold, at=NOON)
    await scribe.ledger.schedule.lock(QuestionRef("lantern", "c"), forecaster=None, reason="r", until=None, now=NOON)
    await claim(scribe, limit=1)
    load = await scribe.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert load == BatchLoad(questions=5, busy=1, unforecast=3, waiting=1)
    nobody = await scribe.ledger.schedule.read_batch_load("lantern", "2026-03-15", "plain", now=NOON)
    assert nobody == BatchLoad(questions=0, busy=0, unforecast=0, waiting=0)


async def test_a_batch_waits_for_the_decision_over_a_forecast(scribe: LedgerFixture) -> None:
    await plan(scribe, due("a"))
    forecast = await scribe.forecast(await scribe.ask("a", closes_at=None))
    load = await scribe.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert (load.unforecast, load.waiting) == (1, 1)
    await scribe.ledger.submissions.decide(forecast_id=forecast.id, decision=scribe.send(forecast), at=NOON)
    load = await scribe.ledger.schedule.read_batch_load("lantern", "2026-03-01", "plain", now=NOON)
    assert (load.unforecast, load.waiting) == (0, 0)
