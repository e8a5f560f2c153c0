"""Where too much is in doubt, or the books do not agree, the venue is stopped until a person resumes it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.order import Account, Side
from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Mode
from bot.ids import derive_id
from bot.outbox.doubts import why_doubtful
from bot.store import stops
from bot.store.stops import Stop, StopEnd
from bot.store.submissions import Adoption
from bot.testing.exchange import MemoryExchange, Mishap
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.outbox.conftest import Floor, Odd
from tests.unit.outbox.test_orders import floor_rows

S = IntentState
WHY = why_doubtful(3)
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


async def planned(floor: Floor, *keys: str) -> list[Intent]:
    return [await floor.plan(await floor.forecast(key)) for key in keys]


async def lost(floor: Floor, *keys: str) -> list[Intent]:
    """Orders that reached the venue, whose answers did not come back."""
    floor.exchange.mishaps = [Mishap.REPLY_LOST for _ in keys]
    intents = await planned(floor, *keys)
    await floor.outbox().flush()
    return intents


async def free(floor: Floor, key: str) -> Intent:
    """A forecast where nothing is paid."""
    forecast = await floor.forecast(key)
    name = derive_id("intent", forecast.id)
    intent = Intent(
        id=name,
        account="me",
        ref=forecast.ref,
        forecast=forecast.id,
        action=IntentAction.FORECAST,
        predictions=forecast.predictions,
        batch=name,
    )
    return await floor.decide(intent)


async def standing(house: House) -> list[Stop]:
    return await house.ledger.leave.read(stops.standing)


async def test_after_a_fourth_write_without_an_answer_nothing_more_is_written(floor: Floor) -> None:
    await lost(floor, "a", "b", "c", "d")
    told = f"{VENUE}: {VENUE} was stopped at {floor.house.clock.now():%Y-%m-%d %H:%M} UTC: {WHY}; it resumes by itself"
    assert floor.alarms == [f"{told}; at once with: foxcast resume {VENUE}"]
    assert [(stop.venue, stop.why, stop.by) for stop in await standing(floor.house)] == [(VENUE, WHY, "")]
    [one] = await planned(floor, "e")
    assert await floor.outbox().flush() == 0
    assert (await floor.state(one), len(floor.exchange.placed)) == (S.PLANNED, 4)


async def test_three_of_them_stop_nothing(floor: Floor) -> None:
    await lost(floor, "a", "b", "c")
    [one] = await planned(floor, "d")
    assert await floor.outbox().flush() == 1
    assert (await floor.state(one), await standing(floor.house), floor.alarms) == (S.ACKED, [], [])


async def test_it_is_stopped_and_told_of_once(floor: Floor) -> None:
    await lost(floor, "a", "b", "c", "d", "e")
    for _ in range(2):
        await floor.outbox().flush()
    assert (len(await standing(floor.house)), len(floor.alarms)) == (1, 1)
    rows = await floor.house.ledger.leave.audited(limit=10, kind="stop")
    assert [(row.venue, row.body) for row in rows] == [(VENUE, {"why": WHY})]
    assert len(floor.exchange.placed) == 4


async def test_once_all_of_it_was_read_back_the_venue_goes_on_by_itself(floor: Floor) -> None:
    await lost(floor, "a", "b", "c", "d")
    await floor.house.clock.advance(FENCE_S)
    assert await floor.outbox().reconcile() == 4
    assert await standing(floor.house) == []
    assert floor.alarms[1:] == [f"{VENUE}: {VENUE} goes on: all that was without a known outcome was read back"]
    rows = await floor.house.ledger.leave.audited(limit=10, kind="resume")
    assert [(row.venue, row.actor) for row in rows] == [(VENUE, "")]
    [one] = await planned(floor, "e")
    assert (await floor.outbox().flush(), await floor.state(one)) == (1, S.ACKED)


async def test_what_never_arrived_is_settled_too(floor: Floor) -> None:
    floor.exchange.mishaps = [Mishap.REQUEST_LOST] * 4
    intents = await planned(floor, "a", "b", "c", "d")
    await floor.outbox().flush()
    await floor.house.clock.advance(FENCE_S + 1.0)
    assert await floor.outbox().reconcile() == 4
    assert {await floor.state(one) for one in intents} <= {S.ABSENT, S.SUPERSEDED}
    assert await standing(floor.house) == []


async def test_while_some_of_it_is_unread_the_venue_stays_stopped(floor: Floor, odd: Odd) -> None:
    odd.reads = lambda found: [one for one in found if one.intent != first.id]
    first, *_ = await lost(floor, "a", "b", "c", "d")
    await floor.house.clock.advance(FENCE_S)
    assert await floor.outbox().reconcile() == 3
    assert [stop.why for stop in await standing(floor.house)] == [WHY]
    odd.reads = lambda found: found
    assert await floor.outbox().reconcile() == 1
    assert await standing(floor.house) == []


async def test_an_order_that_no_reading_settles_leaves_the_venue_to_a_person(floor: Floor, odd: Odd) -> None:
    odd.reads = lambda found: [one for one in found if one.intent != first.id]
    first, *_ = await lost(floor, "a", "b", "c", "d")
    await floor.house.clock.advance(timedelta(hours=2).total_seconds())
    await floor.outbox().reconcile()
    assert await floor.state(first) is S.IN_DOUBT
    [stop] = await standing(floor.house)
    assert (stop.ends, "no reading tells what became of an order" in stop.why) == (StopEnd.PERSON, True)
    assert "foxcast resume" in floor.alarms[-1]
    odd.reads = lambda found: found
    for _ in range(2):
        await floor.outbox().reconcile()
    assert len(await standing(floor.house)) == 1


async def test_forecasts_that_no_reading_settles_hold_the_venue_back_for_an_hour_and_no_longer(
    floor: Floor, odd: Odd
) -> None:
    odd.reads = lambda _: []
    intents = [await free(floor, key) for key in ("a", "b", "c", "d")]
    await floor.house.ledger.submissions.begin_attempt([one.id for one in intents], at=floor.house.clock.now())
    assert await floor.outbox().recover() == 4
    assert [stop.ends for stop in await standing(floor.house)] == [StopEnd.SETTLED]
    await floor.house.clock.advance(timedelta(hours=2).total_seconds())
    await floor.outbox().reconcile()
    assert [await floor.state(one) for one in intents] == [S.IN_DOUBT] * 4
    assert await standing(floor.house) == []
    [one] = await planned(floor, "e")
    assert (await floor.outbox().flush(), await floor.state(one)) == (1, S.ACKED)


async def test_a_stop_from_before_waits_for_a_person(floor: Floor) -> None:
    with closing(sqlite3.connect(floor.house.path / "ledger.sqlite")) as database, database:
        database.execute(
            "insert into stop (venue, at, why, by) values (?, '2026-06-01T00:00:00Z', 'long ago', '')", [VENUE]
        )
    await floor.outbox().reconcile()
    assert [(stop.why, stop.ends) for stop in await standing(floor.house)] == [("long ago", StopEnd.PERSON)]


async def test_that_it_goes_on_by_itself_does_not_make_losses_count_anew(floor: Floor) -> None:
    await lost(floor, "a", "b", "c", "d")
    now = floor.house.clock.now()
    for cash in (100.0, 40.0):
        account = Account(at=now, currency="COIN", cash=cash)
        await floor.house.ledger.readings.add(VENUE, "me", account, paper=False)
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert await standing(floor.house) == []
    found = await floor.house.ledger.leave.standing({VENUE: "me"}, now=floor.house.clock.now())
    assert found.losses[VENUE][1] == 60.0


@pytest.mark.parametrize(("most", "stopped"), [(5, 0), (0, 1)])
async def test_how_many_doubts_stop_a_venue_is_a_matter_of_config(floor: Floor, most: int, stopped: int) -> None:
    floor.most_doubts = most
    await lost(floor, "a", "b", "c", "d")
    assert len(await standing(floor.house)) == stopped


async def test_what_a_person_resumed_counts_anew(floor: Floor) -> None:
    await lost(floor, "a", "b", "c", "d")
    await floor.house.clock.advance(1)
    await floor.house.ledger.leave.write(
        lambda database: stops.resume(database, VENUE, by="ada", at=floor.house.clock.now())
    )
    await floor.house.clock.advance(1)
    assert [await floor.outbox().flush() for _ in await planned(floor, "e")] == [1]
    await lost(floor, "f", "g", "h")
    assert await standing(floor.house) == []
    await lost(floor, "i")
    assert len(await standing(floor.house)) == 1


async def test_one_that_is_parked_still_counts(floor: Floor, odd: Odd) -> None:
    odd.reads = lambda _: []
    intents = await lost(floor, "a", "b", "c")
    await floor.house.clock.advance(timedelta(hours=2).total_seconds())
    await floor.outbox().reconcile()
    assert [await floor.state(one) for one in intents] == [S.IN_DOUBT] * 3
    assert await standing(floor.house) == []
    await lost(floor, "d")
    assert len(await standing(floor.house)) == 1


async def test_what_died_on_the_wire_counts_when_the_next_run_begins(floor: Floor) -> None:
    intents = await planned(floor, "a", "b", "c", "d")
    at = floor.house.clock.now()
    sealed = [one for intent in intents for one in await floor.exchange.seal(await _alone(floor, intent))]
    await floor.house.ledger.submissions.begin_attempt([one.id for one in intents], at=at, sealed=sealed)
    assert await floor.outbox().recover() == 4
    assert len(await standing(floor.house)) == 1


async def _alone(floor: Floor, intent: Intent) -> Batch:
    return await floor.outbox()._door(VENUE).alone(intent)  # noqa: SLF001 - what the outbox hands over


async def test_on_paper_nothing_is_stopped(floor: Floor) -> None:
    floor.mode = Mode.PAPER
    await lost(floor, "a", "b", "c", "d", "e")
    assert await standing(floor.house) == []


async def doubtful(floor: Floor, venue: str = VENUE) -> int:
    return (await floor.house.ledger.submissions.doubts(venue, now=floor.house.clock.now())).holding


async def test_a_batch_that_goes_in_one_write_is_one_write(floor: Floor) -> None:
    forecasts = [await floor.forecast(key, batch="round 1") for key in ("a", "b", "c", "d", "e")]
    intents = [await floor.plan(one, batch="round 1") for one in forecasts]
    await floor.house.ledger.submissions.begin_attempt([one.id for one in intents], at=floor.house.clock.now())
    assert await doubtful(floor) == 1


@pytest.mark.parametrize("venue", ["elsewhere", "lantern"])
async def test_no_other_venue_is_counted(floor: Floor, venue: str) -> None:
    await lost(floor, "a", "b")
    assert await doubtful(floor, venue) == (2 if venue == VENUE else 0)


async def test_an_order_that_took_more_than_it_may_stops_the_venue_and_its_fills_are_kept(
    floor: Floor, odd: Odd
) -> None:
    odd.answers = lambda said: [
        replace(one, fills=(*one.fills, replace(one.fills[0], reference="more", cash=-490.0))) for one in said
    ]
    intent = await floor.plan(await floor.forecast(), cost=10.0)
    await floor.outbox().flush()
    why = f"the order {intent.id} on {intent.ref} was to cost 10 at most, and took 500"
    assert [stop.why for stop in await standing(floor.house)] == [why]
    assert len(floor.alarms) == 1
    assert [fill.cash for fill in await floor.house.ledger.submissions.fills(intent.id)] == [-10.0, -490.0]
    await floor.outbox().reconcile()
    assert len(floor.alarms) == 1


async def test_what_was_taken_too_much_is_seen_when_it_is_read_back(floor: Floor, odd: Odd) -> None:
    odd.reads = lambda found: [
        replace(one, fills=tuple(replace(fill, cash=fill.cash * 1.01) for fill in one.fills)) for one in found
    ]
    await lost(floor, "a")
    await floor.outbox().reconcile()
    assert [stop.why.endswith("was to cost 10 at most, and took 10.1") for stop in await standing(floor.house)] == [
        True
    ]


async def test_two_readings_together_take_too_much(floor: Floor, odd: Odd) -> None:
    intent = await floor.plan(await floor.forecast(), cost=10.0)
    await floor.outbox().flush()
    odd.reads = lambda found: [
        replace(one, fills=tuple(replace(fill, reference="another") for fill in one.fills)) for one in found
    ]
    await floor.outbox().reconcile()
    [stop] = await standing(floor.house)
    assert stop.why == f"the order {intent.id} on {intent.ref} was to cost 10 at most, and took 20"


async def test_a_sale_of_more_than_was_to_be_sold_stops_the_venue(floor: Floor, odd: Odd) -> None:
    odd.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, shares=1000.0, cash=500.0) for fill in one.fills)) for one in said
    ]
    await floor.plan(await floor.forecast(), side=Side.SELL)
    await floor.outbox().flush()
    [stop] = await standing(floor.house)
    assert stop.why.endswith("was to sell 20 shares at most, and sold 1000")


@pytest.mark.parametrize(("side", "price"), [(Side.BUY, 0.99), (Side.SELL, 0.01)])
async def test_a_price_beyond_the_limit_stops_the_venue(floor: Floor, odd: Odd, side: Side, price: float) -> None:
    odd.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, price=price) for fill in one.fills)) for one in said
    ]
    await floor.plan(await floor.forecast(), side=side)
    await floor.outbox().flush()
    [stop] = await standing(floor.house)
    assert stop.why.endswith(f"was limited to 0.5, and the price was {price:g}")


async def test_a_fill_that_has_other_figures_now_stops_the_venue(floor: Floor, odd: Odd) -> None:
    odd.portion = 0.25
    await floor.plan(await floor.forecast(), cost=10.0)
    await floor.outbox().flush()
    odd.reads = lambda found: [replace(one, fills=tuple(replace(f, cash=-3.0) for f in one.fills)) for one in found]
    await floor.outbox().reconcile()
    [stop] = await standing(floor.house)
    assert "5 shares for -3, and 5 for -2.5 before" in stop.why


async def test_what_floats_cannot_tell_apart_is_not_too_much(floor: Floor, odd: Odd) -> None:
    odd.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, cash=fill.cash - 1e-7) for fill in one.fills)) for one in said
    ]
    await floor.plan(await floor.forecast())
    assert await floor.outbox().flush() == 1
    assert await standing(floor.house) == []


async def test_an_order_that_was_filled_and_is_not_there_any_more_stops_the_venue_and_keeps_its_cost(
    floor: Floor, odd: Odd
) -> None:
    odd.portion = 0.25
    intent = await floor.plan(await floor.forecast(), cost=10.0)
    await floor.outbox().flush()
    odd.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await floor.outbox().reconcile()
    assert await standing(floor.house) == []
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    [stop] = await standing(floor.house)
    assert "was filled in part by its own account, and the venue does not know it" in stop.why
    assert await floor.house.ledger.submissions.resting() == []
    assert floor_rows(floor, "select state, cost from intent") == [("acked", 10.0)]
    assert (await floor.state(intent), len(floor.alarms)) == (S.ACKED, 1)


async def test_what_went_under_another_account_is_not_read_through_this_one(floor: Floor) -> None:
    intents = await lost(floor, "a", "b")
    floor.exchange, floor.account = MemoryExchange(floor.house.clock), "other"
    await floor.house.clock.advance(FENCE_S)
    outbox = floor.outbox()
    for _ in range(2):
        assert await outbox.reconcile() == 0
    assert [await floor.state(one) for one in intents] == [S.UNKNOWN] * 2
    said = "there are submissions under the account me, and other is in use now"
    assert [alarm.startswith(f"{VENUE}: {said}") for alarm in floor.alarms] == [True]
    assert (await outbox.take_stock()).doubtful == 2


async def test_an_order_that_rests_under_another_account_keeps_its_cost(floor: Floor) -> None:
    floor.exchange.portion = 0.0
    await floor.plan(await floor.forecast(), cost=10.0)
    await floor.outbox().flush()
    floor.exchange, floor.account = MemoryExchange(floor.house.clock), "other"
    await floor.house.clock.advance(FENCE_S)
    await floor.outbox().reconcile()
    assert floor_rows(floor, "select state, cost from intent") == [("acked", 10.0)]


@pytest.mark.parametrize("late_s", [0.0, 3600.0])
async def test_an_order_that_a_person_says_was_taken_is_read_once_for_what_was_filled(
    floor: Floor, odd: Odd, late_s: float
) -> None:
    odd.mishaps, odd.portion = [Mishap.REPLY_LOST], 0.25
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    await floor.house.clock.advance(FENCE_S + late_s)
    word = Adoption(intent=intent.id, state=S.ACKED, by="ann", reference="order 7")
    await floor.outbox().adopt(word)
    assert floor_rows(floor, "select cost from intent") == [(10.0,)]
    await floor.outbox().reconcile()
    assert [fill.shares for fill in await floor.house.ledger.submissions.fills(intent.id)] == [5.0]
    assert floor_rows(floor, "select cost from intent") == [(pytest.approx(2.5),)]
    assert await floor.house.ledger.submissions.resting() == []


async def test_what_a_person_says_was_taken_and_is_not_listed_keeps_its_cost(floor: Floor, odd: Odd) -> None:
    odd.mishaps = [Mishap.REQUEST_LOST]
    intent = await floor.plan(await floor.forecast())
    await floor.outbox().flush()
    await floor.house.clock.advance(FENCE_S + 3600.0)
    await floor.outbox().adopt(Adoption(intent=intent.id, state=S.ACKED, by="ann", reference="order 7"))
    await floor.outbox().reconcile()
    assert floor_rows(floor, "select cost from intent") == [(10.0,)]
    assert len(floor.alarms) == 1
    assert await floor.house.ledger.submissions.resting() == []
