"""Where too much is in doubt, or the books do not agree, the venue is stopped until a person resumes it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.ids import derive_id
from bot.core.orders import Account, OrderSide
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState, SubmissionBatch
from bot.execution.outbox.safety_halts import halt_venue, unsettled_reason
from bot.store import permissions
from bot.store.permissions import HaltEndCondition, SubmissionHalt
from bot.store.submissions import OutcomeAdoption
from bot.testing.exchange import FakeExchange, WriteFailure
from tests.unit.execution.outbox.conftest import FaultyExchange, OutboxFixture
from tests.unit.execution.outbox.test_orders import outbox_rows
from tests.unit.jobs.conftest import VENUE, JobsFixture

S = IntentState
WHY = unsettled_reason(3)
# A request lives 30 s and readings are at most 15 s old.
FENCE_S = 45.0


async def planned(trading: OutboxFixture, *keys: str) -> list[Intent]:
    return [await trading.plan(await trading.forecast(key)) for key in keys]


async def lost(trading: OutboxFixture, *keys: str) -> list[Intent]:
    """Orders that reached the venue, whose answers did not come back."""
    trading.exchange.next_failures = [WriteFailure.REPLY_LOST for _ in keys]
    intents = await planned(trading, *keys)
    await trading.outbox().flush()
    return intents


async def free(trading: OutboxFixture, key: str) -> Intent:
    """A forecast where nothing is paid."""
    forecast = await trading.forecast(key)
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
    return await trading.decide(intent)


async def standing(jobs_fixture: JobsFixture) -> list[SubmissionHalt]:
    return await jobs_fixture.ledger.permissions.read(permissions.list_active_halts)


async def test_after_a_fourth_write_without_an_answer_nothing_more_is_written(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c", "d")
    now = f"{trading.jobs_fixture.clock.now():%Y-%m-%d %H:%M}"
    reported = f"{VENUE}: {VENUE} was stopped at {now} UTC: {WHY}; it resumes by itself"
    assert trading.alarms == [f"{reported}; at once with: foxcast resume {VENUE}"]
    assert [(stop.venue, stop.why, stop.by) for stop in await standing(trading.jobs_fixture)] == [(VENUE, WHY, "")]
    [one] = await planned(trading, "e")
    assert await trading.outbox().flush() == 0
    assert (await trading.state(one), len(trading.exchange.placed_orders)) == (S.PLANNED, 4)


async def test_three_of_them_stop_nothing(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c")
    [one] = await planned(trading, "d")
    assert await trading.outbox().flush() == 1
    assert (await trading.state(one), await standing(trading.jobs_fixture), trading.alarms) == (S.ACKED, [], [])


async def test_it_is_stopped_and_told_of_once(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c", "d", "e")
    for _ in range(2):
        await trading.outbox().flush()
    assert (len(await standing(trading.jobs_fixture)), len(trading.alarms)) == (1, 1)
    rows = await trading.jobs_fixture.ledger.permissions.recent_audit_rows(limit=10, kind="stop")
    assert [(row.venue, row.body) for row in rows] == [(VENUE, {"why": WHY})]
    assert len(trading.exchange.placed_orders) == 4


async def test_once_all_of_it_was_read_back_the_venue_goes_on_by_itself(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c", "d")
    await trading.jobs_fixture.clock.advance(FENCE_S)
    assert await trading.outbox().reconcile() == 4
    assert await standing(trading.jobs_fixture) == []
    assert trading.alarms[1:] == [f"{VENUE}: {VENUE} resumes: all writes with an unknown outcome were read back"]
    rows = await trading.jobs_fixture.ledger.permissions.recent_audit_rows(limit=10, kind="resume")
    assert [(row.venue, row.actor) for row in rows] == [(VENUE, "")]
    [one] = await planned(trading, "e")
    assert (await trading.outbox().flush(), await trading.state(one)) == (1, S.ACKED)


async def test_what_never_arrived_is_settled_too(trading: OutboxFixture) -> None:
    trading.exchange.next_failures = [WriteFailure.REQUEST_LOST] * 4
    intents = await planned(trading, "a", "b", "c", "d")
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(FENCE_S + 1.0)
    assert await trading.outbox().reconcile() == 4
    assert {await trading.state(one) for one in intents} <= {S.ABSENT, S.SUPERSEDED}
    assert await standing(trading.jobs_fixture) == []


async def test_while_some_of_it_is_unread_the_venue_stays_stopped(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.reads = lambda found: [one for one in found if one.intent != first.id]
    first, *_ = await lost(trading, "a", "b", "c", "d")
    await trading.jobs_fixture.clock.advance(FENCE_S)
    assert await trading.outbox().reconcile() == 3
    assert [stop.why for stop in await standing(trading.jobs_fixture)] == [WHY]
    faulty_exchange.reads = lambda found: found
    assert await trading.outbox().reconcile() == 1
    assert await standing(trading.jobs_fixture) == []


async def test_an_order_that_no_reading_settles_leaves_the_venue_to_a_person(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.reads = lambda found: [one for one in found if one.intent != first.id]
    first, *_ = await lost(trading, "a", "b", "c", "d")
    await trading.jobs_fixture.clock.advance(timedelta(hours=2).total_seconds())
    await trading.outbox().reconcile()
    assert await trading.state(first) is S.IN_DOUBT
    [stop] = await standing(trading.jobs_fixture)
    assert (stop.end_condition, "no reading shows the outcome of an order" in stop.why) == (
        HaltEndCondition.PERSON,
        True,
    )
    assert "foxcast resume" in trading.alarms[-1]
    faulty_exchange.reads = lambda found: found
    for _ in range(2):
        await trading.outbox().reconcile()
    assert len(await standing(trading.jobs_fixture)) == 1


async def test_forecasts_that_no_reading_settles_hold_the_venue_back_for_an_hour_and_no_longer(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.reads = lambda _: []
    intents = [await free(trading, key) for key in ("a", "b", "c", "d")]
    await trading.jobs_fixture.ledger.submissions.begin_attempt(
        [one.id for one in intents], at=trading.jobs_fixture.clock.now()
    )
    assert await trading.outbox().recover() == 4
    assert [stop.end_condition for stop in await standing(trading.jobs_fixture)] == [HaltEndCondition.SETTLED]
    await trading.jobs_fixture.clock.advance(timedelta(hours=2).total_seconds())
    await trading.outbox().reconcile()
    assert [await trading.state(one) for one in intents] == [S.IN_DOUBT] * 4
    assert await standing(trading.jobs_fixture) == []
    [one] = await planned(trading, "e")
    assert (await trading.outbox().flush(), await trading.state(one)) == (1, S.ACKED)


async def test_a_stop_from_before_waits_for_a_person(trading: OutboxFixture) -> None:
    with closing(sqlite3.connect(trading.jobs_fixture.path / "ledger.sqlite")) as database, database:
        database.execute(
            "insert into halt (venue, at, why, by) values (?, '2026-06-01T00:00:00Z', 'long ago', '')", [VENUE]
        )
    await trading.outbox().reconcile()
    assert [(stop.why, stop.end_condition) for stop in await standing(trading.jobs_fixture)] == [
        ("long ago", HaltEndCondition.PERSON)
    ]


async def test_that_it_goes_on_by_itself_does_not_make_losses_count_anew(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c", "d")
    now = trading.jobs_fixture.clock.now()
    for cash in (100.0, 40.0):
        account = Account(at=now, currency="COIN", cash=cash)
        await trading.jobs_fixture.ledger.readings.add(VENUE, "me", account, paper=False)
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    assert await standing(trading.jobs_fixture) == []
    found = await trading.jobs_fixture.ledger.permissions.read_status(
        {VENUE: "me"}, now=trading.jobs_fixture.clock.now()
    )
    assert found.losses[VENUE][1] == 60.0


@pytest.mark.parametrize(("most", "stopped"), [(5, 0), (0, 1)])
async def test_how_many_doubts_stop_a_venue_is_a_matter_of_config(
    trading: OutboxFixture, most: int, stopped: int
) -> None:
    trading.most_doubts = most
    await lost(trading, "a", "b", "c", "d")
    assert len(await standing(trading.jobs_fixture)) == stopped


async def test_what_a_person_resumed_counts_anew(trading: OutboxFixture) -> None:
    await lost(trading, "a", "b", "c", "d")
    await trading.jobs_fixture.clock.advance(1)
    await trading.jobs_fixture.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, VENUE, by="ada", at=trading.jobs_fixture.clock.now())
    )
    await trading.jobs_fixture.clock.advance(1)
    assert [await trading.outbox().flush() for _ in await planned(trading, "e")] == [1]
    await lost(trading, "f", "g", "h")
    assert await standing(trading.jobs_fixture) == []
    await lost(trading, "i")
    assert len(await standing(trading.jobs_fixture)) == 1


async def test_one_that_is_parked_still_counts(trading: OutboxFixture, faulty_exchange: FaultyExchange) -> None:
    faulty_exchange.reads = lambda _: []
    intents = await lost(trading, "a", "b", "c")
    await trading.jobs_fixture.clock.advance(timedelta(hours=2).total_seconds())
    await trading.outbox().reconcile()
    assert [await trading.state(one) for one in intents] == [S.IN_DOUBT] * 3
    assert await standing(trading.jobs_fixture) == []
    await lost(trading, "d")
    assert len(await standing(trading.jobs_fixture)) == 1


async def test_what_died_on_the_wire_counts_when_the_next_run_begins(trading: OutboxFixture) -> None:
    intents = await planned(trading, "a", "b", "c", "d")
    at = trading.jobs_fixture.clock.now()
    sealed = [one for intent in intents for one in await trading.exchange.seal_requests(await _alone(trading, intent))]
    await trading.jobs_fixture.ledger.submissions.begin_attempt([one.id for one in intents], at=at, sealed=sealed)
    assert await trading.outbox().recover() == 4
    assert len(await standing(trading.jobs_fixture)) == 1


async def _alone(trading: OutboxFixture, intent: Intent) -> SubmissionBatch:
    return await trading.outbox()._open_session(VENUE).build_single_batch(intent)  # noqa: SLF001 - what the outbox hands over


async def test_on_paper_nothing_is_stopped(trading: OutboxFixture) -> None:
    trading.mode = ExecutionMode.PAPER
    await lost(trading, "a", "b", "c", "d", "e")
    assert await standing(trading.jobs_fixture) == []


async def unknown(trading: OutboxFixture, venue: str = VENUE) -> int:
    return (
        await trading.jobs_fixture.ledger.submissions.count_unsettled(venue, now=trading.jobs_fixture.clock.now())
    ).blocking


async def test_a_batch_that_goes_in_one_write_is_one_write(trading: OutboxFixture) -> None:
    forecasts = [await trading.forecast(key, batch="round 1") for key in ("a", "b", "c", "d", "e")]
    intents = [await trading.plan(one, batch="round 1") for one in forecasts]
    await trading.jobs_fixture.ledger.submissions.begin_attempt(
        [one.id for one in intents], at=trading.jobs_fixture.clock.now()
    )
    assert await unknown(trading) == 1


@pytest.mark.parametrize("venue", ["elsewhere", "lantern"])
async def test_no_other_venue_is_counted(trading: OutboxFixture, venue: str) -> None:
    await lost(trading, "a", "b")
    assert await unknown(trading, venue) == (2 if venue == VENUE else 0)


async def test_an_order_that_took_more_than_it_may_stops_the_venue_and_its_fills_are_kept(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=(*one.fills, replace(one.fills[0], reference="more", cash=-490.0))) for one in said
    ]
    intent = await trading.plan(await trading.forecast(), cost=10.0)
    await trading.outbox().flush()
    why = f"the order {intent.id} on {intent.ref} may cost 10 at most, but cost 500"
    assert [stop.why for stop in await standing(trading.jobs_fixture)] == [why]
    assert len(trading.alarms) == 1
    assert [fill.cash for fill in await trading.jobs_fixture.ledger.submissions.fills(intent.id)] == [-10.0, -490.0]
    await trading.outbox().reconcile()
    assert len(trading.alarms) == 1


async def test_an_order_that_took_too_much_is_seen_behind_one_that_took_nothing(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(said[0], fills=()),
        replace(said[1], fills=tuple(replace(fill, cash=-11.0) for fill in said[1].fills)),
    ]
    for forecast in [await trading.forecast(key, batch="round 1") for key in ("a", "b")]:
        await trading.plan(forecast, batch="round 1")
    await trading.outbox().flush()
    [stop] = await standing(trading.jobs_fixture)
    assert stop.why.endswith("may cost 10 at most, but cost 11")


async def test_what_was_taken_too_much_is_seen_when_it_is_read_back(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.reads = lambda found: [
        replace(one, fills=tuple(replace(fill, cash=fill.cash * 1.01) for fill in one.fills)) for one in found
    ]
    await lost(trading, "a")
    await trading.outbox().reconcile()
    assert [
        stop.why.endswith("may cost 10 at most, but cost 10.1") for stop in await standing(trading.jobs_fixture)
    ] == [True]


async def test_two_readings_together_take_too_much(trading: OutboxFixture, faulty_exchange: FaultyExchange) -> None:
    intent = await trading.plan(await trading.forecast(), cost=10.0)
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [
        replace(one, fills=tuple(replace(fill, reference="another") for fill in one.fills)) for one in found
    ]
    await trading.outbox().reconcile()
    [stop] = await standing(trading.jobs_fixture)
    assert stop.why == f"the order {intent.id} on {intent.ref} may cost 10 at most, but cost 20"


async def test_a_sale_of_more_than_was_to_be_sold_stops_the_venue(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, shares=1000.0, cash=500.0) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast(), side=OrderSide.SELL)
    await trading.outbox().flush()
    [stop] = await standing(trading.jobs_fixture)
    assert stop.why.endswith("may sell 20 shares at most, but sold 1000")


@pytest.mark.parametrize(("side", "price"), [(OrderSide.BUY, 0.99), (OrderSide.SELL, 0.01)])
async def test_a_price_beyond_the_limit_stops_the_venue(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, side: OrderSide, price: float
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, price=price) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast(), side=side)
    await trading.outbox().flush()
    [stop] = await standing(trading.jobs_fixture)
    assert stop.why.endswith(f"was limited to 0.5, but the price was {price:g}")


@pytest.mark.parametrize(("side", "price"), [(OrderSide.BUY, 0.5), (OrderSide.BUY, 0.4), (OrderSide.SELL, 0.5)])
async def test_a_price_within_the_limit_stops_nothing(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, side: OrderSide, price: float
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, price=price) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast(), side=side)
    assert await trading.outbox().flush() == 1
    assert await standing(trading.jobs_fixture) == []


async def test_two_orders_that_no_reading_settles_are_counted_and_a_persons_halt_for_another_reason_is_added(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.reads = lambda found: [one for one in found if one.intent not in {intent.id for intent in first}]
    first = (await lost(trading, "a", "b", "c", "d"))[:2]
    await trading.jobs_fixture.clock.advance(timedelta(hours=2).total_seconds())
    await trading.outbox().reconcile()
    [stop] = await standing(trading.jobs_fixture)
    assert "no reading shows the outcome of 2 orders;" in stop.why
    session = trading.outbox()._open_session(VENUE)  # noqa: SLF001 - what the outbox hands over
    for why in ("another reason", "another reason", stop.why):
        await halt_venue(session, VENUE, why)
    assert sorted(one.why for one in await standing(trading.jobs_fixture)) == sorted([stop.why, "another reason"])


async def test_a_fill_that_has_other_figures_now_stops_the_venue(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.fill_share = 0.25
    await trading.plan(await trading.forecast(), cost=10.0)
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [
        replace(one, fills=tuple(replace(f, cash=-3.0) for f in one.fills)) for one in found
    ]
    await trading.outbox().reconcile()
    [stop] = await standing(trading.jobs_fixture)
    assert "5 shares for -3, and 5 for -2.5 before" in stop.why


async def test_what_floats_cannot_tell_apart_is_not_too_much(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, cash=fill.cash - 1e-7) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast())
    assert await trading.outbox().flush() == 1
    assert await standing(trading.jobs_fixture) == []


@pytest.mark.parametrize(
    ("cost", "more", "stops"),
    [(0.5, 0.9e-6, False), (0.5, 1.5e-6, True), (1000.0, 0.9e-3, False), (1000.0, 1.1e-3, True)],
)
async def test_a_millionth_more_is_too_much_of_a_dollar_at_least(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, cost: float, more: float, *, stops: bool
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, cash=-cost - more) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast(), cost=cost)
    await trading.outbox().flush()
    assert len(await standing(trading.jobs_fixture)) == stops


@pytest.mark.parametrize(
    ("shares", "more", "stops"),
    [(20.0, 1.9e-5, False), (20.0, 2.1e-5, True), (0.5, 0.9e-6, False), (0.5, 1.5e-6, True)],
)
async def test_a_millionth_more_than_was_to_be_sold_is_too_much_of_a_share_at_least(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, shares: float, more: float, *, stops: bool
) -> None:
    faulty_exchange.answers = lambda said: [
        replace(one, fills=tuple(replace(fill, shares=shares + more, cash=10.0) for fill in one.fills)) for one in said
    ]
    await trading.plan(await trading.forecast(), cost=shares / 2, side=OrderSide.SELL)
    await trading.outbox().flush()
    assert len(await standing(trading.jobs_fixture)) == stops


async def test_an_order_that_was_filled_and_is_not_there_any_more_stops_the_venue_and_keeps_its_cost(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.fill_share = 0.25
    intent = await trading.plan(await trading.forecast(), cost=10.0)
    await trading.outbox().flush()
    faulty_exchange.reads = lambda found: [replace(one, state=S.ABSENT, fills=()) for one in found]
    await trading.outbox().reconcile()
    assert await standing(trading.jobs_fixture) == []
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    [stop] = await standing(trading.jobs_fixture)
    assert "was filled in part by its own account, but the venue does not know it" in stop.why
    assert await trading.jobs_fixture.ledger.submissions.resting() == []
    assert outbox_rows(trading, "select state, cost from intent") == [("acked", 10.0)]
    assert (await trading.state(intent), len(trading.alarms)) == (S.ACKED, 1)


async def test_what_went_under_another_account_is_not_read_through_this_one(trading: OutboxFixture) -> None:
    intents = await lost(trading, "a", "b")
    trading.exchange, trading.account = FakeExchange(trading.jobs_fixture.clock), "other"
    await trading.jobs_fixture.clock.advance(FENCE_S)
    outbox = trading.outbox()
    for _ in range(2):
        assert await outbox.reconcile() == 0
    assert [await trading.state(one) for one in intents] == [S.UNKNOWN] * 2
    said = "there are submissions under the account me, but other is in use now"
    assert [alert.startswith(f"{VENUE}: {said}") for alert in trading.alarms] == [True]
    assert (await outbox.reconcile_after_restore()).doubtful == 2


async def test_an_order_that_rests_under_another_account_keeps_its_cost(trading: OutboxFixture) -> None:
    trading.exchange.fill_share = 0.0
    await trading.plan(await trading.forecast(), cost=10.0)
    await trading.outbox().flush()
    trading.exchange, trading.account = FakeExchange(trading.jobs_fixture.clock), "other"
    await trading.jobs_fixture.clock.advance(FENCE_S)
    await trading.outbox().reconcile()
    assert outbox_rows(trading, "select state, cost from intent") == [("acked", 10.0)]


@pytest.mark.parametrize("late_s", [0.0, 3600.0])
async def test_an_order_that_a_person_says_was_taken_is_read_once_for_what_was_filled(
    trading: OutboxFixture, faulty_exchange: FaultyExchange, late_s: float
) -> None:
    faulty_exchange.next_failures, faulty_exchange.fill_share = [WriteFailure.REPLY_LOST], 0.25
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(FENCE_S + late_s)
    word = OutcomeAdoption(intent=intent.id, state=S.ACKED, by="ann", reference="order 7")
    await trading.outbox().adopt(word)
    assert outbox_rows(trading, "select cost from intent") == [(10.0,)]
    await trading.outbox().reconcile()
    assert [fill.shares for fill in await trading.jobs_fixture.ledger.submissions.fills(intent.id)] == [5.0]
    assert outbox_rows(trading, "select cost from intent") == [(pytest.approx(2.5),)]
    assert await trading.jobs_fixture.ledger.submissions.resting() == []


async def test_what_a_person_says_was_taken_and_is_not_listed_keeps_its_cost(
    trading: OutboxFixture, faulty_exchange: FaultyExchange
) -> None:
    faulty_exchange.next_failures = [WriteFailure.REQUEST_LOST]
    intent = await trading.plan(await trading.forecast())
    await trading.outbox().flush()
    await trading.jobs_fixture.clock.advance(FENCE_S + 3600.0)
    await trading.outbox().adopt(OutcomeAdoption(intent=intent.id, state=S.ACKED, by="ann", reference="order 7"))
    await trading.outbox().reconcile()
    assert outbox_rows(trading, "select cost from intent") == [(10.0,)]
    assert len(trading.alarms) == 1
    assert await trading.jobs_fixture.ledger.submissions.resting() == []
