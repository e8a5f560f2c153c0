"""Writing: what an answer proves, and how a bet without one is found again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import (
    AuthenticationError,
    FoxcastError,
    HttpRequest,
    HttpResponse,
    IntentState,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    VenueWriterContext,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.testing.http import FakeWriteClient
from plugins.manifold.market_state import to_milliseconds
from plugins.manifold.writer import ManifoldWriter
from tests.order_intents import make_intent, seal_and_submit, seal_batch
from tests.plugins.manifold.fixture import KEY, ManifoldFixture, order_of, query_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


# MF-C: what is not known

UNKNOWN_ENDS = [
    RequestFault.DROPPED_BEFORE,
    RequestFault.DROPPED_AFTER,
    RequestFault.ERROR_AFTER,
    RequestFault.PAGE_AFTER,
    RequestFault.TRUNCATED,
    FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500),
]


@pytest.mark.parametrize("details", UNKNOWN_ENDS, ids=str)
async def test_mf_c1_without_a_whole_answer_nothing_is_known_and_nothing_repeated(
    manifold: ManifoldFixture, details: RequestFault | FaultDetails
) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(
        writer, question, make_intent(question, order_of(market)), make_intent(question, order_of(market), "i2")
    )
    manifold.venue.faults.schedule(details, method="POST", path="/v0/bet")
    first, second = await writer.submit(batch)
    assert first.state is IntentState.UNKNOWN
    assert second.state is IntentState.ABSENT
    assert len(manifold.asked("/v0/bet", "POST")) == 1


@pytest.mark.parametrize("details", UNKNOWN_ENDS, ids=str)
async def test_mf_c2_and_c3_the_list_of_bets_tells_which_one_was_taken(
    manifold: ManifoldFixture, details: RequestFault | FaultDetails
) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    manifold.venue.faults.schedule(details, method="POST", path="/v0/bet")
    batch, _ = await seal_and_submit(writer, question, order_of(market))
    sent_ms = to_milliseconds(manifold.clock.now())
    manifold.clock.advance_without_waking(30)
    (receipt,) = await writer.read_submissions(batch)
    own = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id]
    if own:
        assert (receipt.state, receipt.reference) == (IntentState.ACKED, own[0].id)
        assert receipt.fills
    else:
        assert receipt.state is IntentState.ABSENT
    asked = query_of(manifold.asked("/v0/bets")[-1])
    assert float(asked["afterTime"]) <= sent_ms - 5_000
    assert (asked["order"], asked["contractId"], asked["userId"]) == ("asc", market.id, manifold.ada.id)
    # An absence proves nothing before the fence: more than the 15 seconds that the venue may take.
    assert batch.sealed[0].fence is not None
    assert batch.sealed[0].fence - manifold.clock.now() >= timedelta(seconds=15)


async def test_mf_c2_no_reading_is_answered_by_a_cache(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    await writer.submit(batch)
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


async def test_a_bet_that_takes_effect_late_is_found(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.LATE, wait_s=20.0), method="POST", path="/v0/bet")
    batch, receipt = await seal_and_submit(writer, question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    await manifold.clock.advance(20.0)
    await manifold.venue.wait_until(lambda: bool(manifold.venue.ledger.effects("bet")))
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


async def test_a_bet_that_arrives_after_its_expiry_is_refused_by_the_venue(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.LATE, wait_s=100.0), method="POST", path="/v0/bet")
    batch, _ = await seal_and_submit(writer, question, order_of(market))
    await manifold.clock.advance(130.0)
    assert batch.sealed[0].fence is not None
    assert manifold.clock.now() > batch.sealed[0].fence
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    assert manifold.venue.ledger.effects("bet") == []


async def test_mf_c3_two_candidates_settle_nothing(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch, receipt = await seal_and_submit(writer, question, order_of(market))
    first = manifold.venue.state.bets[receipt.reference]
    manifold.venue.state.add_bet(replace(first, id="twin"))
    manifold.clock.advance_without_waking(1)
    (again,) = await writer.read_submissions(batch)
    assert again.state is IntentState.UNKNOWN
    assert "twin" in again.detail
    assert f"check market {market.id}:" in again.detail


async def test_a_list_that_comes_twice_over_is_no_second_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch, receipt = await seal_and_submit(writer, question, order_of(market))
    manifold.venue.faults.schedule(RequestFault.DUPLICATED, method="GET", path="/v0/bets")
    assert list(await writer.read_submissions(batch)) == [receipt]


async def test_bets_of_others_and_other_bets_of_ours_are_not_taken_for_it(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    bob = manifold.world.add_user("bob")
    manifold.world.trade(bob, market, WantedTrade(outcome="YES", amount=20.0, limit=0.6))
    await seal_and_submit(writer, question, order_of(market), "i2")
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]


@pytest.mark.parametrize("skew_s", [-3_600.0, -300.0, 30.0])
async def test_a_bet_is_found_whatever_the_clock_of_the_venue_says(manifold: ManifoldFixture, skew_s: float) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    manifold.venue.faults.skew_s = skew_s
    batch, receipt = await seal_and_submit(writer, question, order_of(market))
    assert receipt.state is IntentState.ACKED
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


@pytest.mark.parametrize(
    "fault", [RequestFault.ERROR_BEFORE, RequestFault.TRUNCATED, RequestFault.PAGE_BEFORE, RequestFault.TOO_MANY]
)
async def test_what_cannot_be_read_back_stays_unknown(manifold: ManifoldFixture, fault: RequestFault) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch, _ = await seal_and_submit(writer, question, order_of(market))
    manifold.venue.faults.schedule(fault, method="GET", path="/v0/bets")
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.UNKNOWN]


async def test_a_row_that_is_no_bet_makes_an_absence_no_proof(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))

    def spoilt(rows: Any) -> Any:
        return [*rows, {"amount": 20}]

    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=spoilt), method="GET", path="/v0/bets"
    )
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.UNKNOWN]


async def test_mf_c5_a_busy_venue_took_nothing_and_may_be_asked_again(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=503), method="POST", path="/v0/bet"
    )
    batch, receipt = await seal_and_submit(writer, question, order_of(market))
    assert receipt.state is IntentState.ABSENT
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ACKED


async def test_a_server_in_front_of_the_venue_proves_nothing(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_AFTER, status=502), method="POST", path="/v0/bet"
    )
    _, receipt = await seal_and_submit(manifold.writer(), question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN


async def test_mf_l2_too_many_requests_without_a_wait_is_absent(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.TOO_MANY, retry_after=None), method="POST", path="/v0/bet"
    )
    _, receipt = await seal_and_submit(manifold.writer(), question, order_of(market))
    assert receipt.state is IntentState.ABSENT
    assert "429" in receipt.detail


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (RequestRejectedError("no connection; nothing was sent"), IntentState.ABSENT),
        (ServiceUnavailableError("no whole answer; it may have arrived"), IntentState.UNKNOWN),
        (MalformedDataError("status 200 with more than enough bytes"), IntentState.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_the_wire_says_of_an_arrival_is_believed(
    manifold: ManifoldFixture, error: FoxcastError, state: IntentState
) -> None:
    def fail(_: HttpRequest) -> HttpResponse:
        raise error

    market = manifold.world.add_market()
    wire = FakeWriteClient(fail)
    place = VenueWriterContext(clock=manifold.clock, http=manifold.http, folder=manifold.folder, wire=wire)
    _, receipt = await seal_and_submit(
        ManifoldWriter(manifold.settings, place), await manifold.question(market), order_of(market)
    )
    assert (receipt.state, len(wire.sent)) == (state, 1)
    assert KEY not in repr(wire.sent)


async def test_where_nobody_listens_nothing_was_written(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    async with manifold.served.refuse_connections():
        (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT


# Errors by who must act


async def test_an_unknown_key_stops_the_writer(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    (await writer.read_submissions(batch),)
    own = manifold.venue.state.users[manifold.ada.id]
    # The list of own orders is read without a key; the bet is what meets the lock.
    own.key = "another"
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.REFUSED
    assert "401" in receipt.detail
    assert KEY not in receipt.detail
    with pytest.raises(AuthenticationError, match=r"\[venues.manifold.settings\]"):
        await writer.seal_requests(batch)


@pytest.mark.parametrize("turn", [RequestFault.CLOSING, RequestFault.RESOLVED])
async def test_what_ends_in_flight_is_refused_for_good(manifold: ManifoldFixture, turn: RequestFault) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    manifold.venue.faults.schedule(turn, method="POST", path="/v0/bet")
    _, receipt = await seal_and_submit(manifold.writer(), question, order_of(market))
    assert receipt.state is IntentState.REFUSED
    assert "403" in receipt.detail
    assert manifold.venue.ledger.effects("bet") == []


async def test_too_little_mana_is_refused_and_does_not_stop_the_writer(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    _, receipt = await seal_and_submit(writer, question, order_of(market, amount=5000.0))
    assert receipt.state is IntentState.REFUSED
    assert "Insufficient balance" in receipt.detail
    _, receipt = await seal_and_submit(writer, question, order_of(market), "i2")
    assert receipt.state is IntentState.ACKED


async def test_an_answer_that_is_not_what_was_sent_is_a_doubt(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)

    def other(answer: Any) -> Any:
        return {**answer, "outcome": "NO"}

    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=other), method="POST", path="/v0/bet")
    _, receipt = await seal_and_submit(manifold.writer(), question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN


@pytest.mark.parametrize("linked", [None, True, False])
async def test_a_bet_that_came_after_its_expiry_did_nothing_and_is_no_refusal(
    manifold: ManifoldFixture,
    linked: bool | None,  # noqa: FBT001 - a table
) -> None:
    """The venue says 400 of one price, and 403 where answers have prices of their own."""
    several = {"type": "MULTIPLE_CHOICE", "sums_to_one": linked, "answers": THREE}
    fields: dict[str, Any] = {} if linked is None else several
    market = manifold.world.add_market(**fields)
    answer = None if linked is None else market.answers[0]
    question = await manifold.question(market, None if linked else answer)
    writer = manifold.writer()
    order = order_of(market, answer=answer, option="Ann" if linked else "")
    batch = await seal_batch(writer, question, make_intent(question, order))
    manifold.venue.faults.skew_s = 3_600.0
    [receipt] = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "expire in the past" in receipt.detail
    assert manifold.venue.ledger.effects("bet", account=manifold.ada.id) == []
