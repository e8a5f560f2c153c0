"""Writing: what an answer proves, and how a bet without one is found again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import (
    ContractError,
    FoxcastError,
    IntentState,
    Rejected,
    Reply,
    Request,
    Unauthorized,
    Unavailable,
    WriterPlace,
)
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.venues.manifold_math import Want
from bot.testing.wires import MemoryWire
from plugins.manifold.state import milliseconds
from plugins.manifold.writer import ManifoldWriter
from tests.intents import intent_of, placed, sealed
from tests.plugins.manifold.stand import KEY, Stand, order_of, query_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


# MF-C: what is not known

UNKNOWN_ENDS = [
    Fault.DROPPED_BEFORE,
    Fault.DROPPED_AFTER,
    Fault.ERROR_AFTER,
    Fault.PAGE_AFTER,
    Fault.TRUNCATED,
    Trouble(fault=Fault.ERROR_BEFORE, status=500),
]


@pytest.mark.parametrize("trouble", UNKNOWN_ENDS, ids=str)
async def test_mf_c1_without_a_whole_answer_nothing_is_known_and_nothing_repeated(
    stand: Stand, trouble: Fault | Trouble
) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(
        writer, question, intent_of(question, order_of(market)), intent_of(question, order_of(market), "i2")
    )
    stand.venue.faults.next(trouble, method="POST", path="/v0/bet")
    first, second = await writer.submit(batch)
    assert first.state is IntentState.UNKNOWN
    assert second.state is IntentState.ABSENT
    assert len(stand.asked("/v0/bet", "POST")) == 1


@pytest.mark.parametrize("trouble", UNKNOWN_ENDS, ids=str)
async def test_mf_c2_and_c3_the_list_of_bets_tells_which_one_was_taken(stand: Stand, trouble: Fault | Trouble) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    stand.venue.faults.next(trouble, method="POST", path="/v0/bet")
    batch, _ = await placed(writer, question, order_of(market))
    sent_ms = milliseconds(stand.clock.now())
    stand.clock.pass_unnoticed(30)
    (receipt,) = await writer.standing(batch)
    own = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id]
    if own:
        assert (receipt.state, receipt.reference) == (IntentState.ACKED, own[0].id)
        assert receipt.fills
    else:
        assert receipt.state is IntentState.ABSENT
    asked = query_of(stand.asked("/v0/bets")[-1])
    assert float(asked["afterTime"]) <= sent_ms - 5_000
    assert (asked["order"], asked["contractId"], asked["userId"]) == ("asc", market.id, stand.ada.id)
    # An absence proves nothing before the fence: more than the 15 seconds that the venue may take.
    assert batch.sealed[0].fence is not None
    assert batch.sealed[0].fence - stand.clock.now() >= timedelta(seconds=15)


async def test_mf_c2_no_reading_is_answered_by_a_cache(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ABSENT]
    await writer.submit(batch)
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ACKED]


async def test_a_bet_that_takes_effect_late_is_found(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    stand.venue.faults.next(Trouble(fault=Fault.LATE, wait_s=20.0), method="POST", path="/v0/bet")
    batch, receipt = await placed(writer, question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ABSENT]
    await stand.clock.advance(20.0)
    await stand.venue.until(lambda: bool(stand.venue.ledger.effects("bet")))
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ACKED]


async def test_a_bet_that_arrives_after_its_expiry_is_refused_by_the_venue(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    stand.venue.faults.next(Trouble(fault=Fault.LATE, wait_s=100.0), method="POST", path="/v0/bet")
    batch, _ = await placed(writer, question, order_of(market))
    await stand.clock.advance(130.0)
    assert batch.sealed[0].fence is not None
    assert stand.clock.now() > batch.sealed[0].fence
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ABSENT]
    assert stand.venue.ledger.effects("bet") == []


async def test_mf_c3_two_candidates_settle_nothing(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch, receipt = await placed(writer, question, order_of(market))
    first = stand.venue.state.bets[receipt.reference]
    stand.venue.state.keep(replace(first, id="twin"))
    stand.clock.pass_unnoticed(1)
    (again,) = await writer.standing(batch)
    assert again.state is IntentState.UNKNOWN
    assert "twin" in again.detail


async def test_a_list_that_comes_twice_over_is_no_second_bet(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch, receipt = await placed(writer, question, order_of(market))
    stand.venue.faults.next(Fault.DUPLICATED, method="GET", path="/v0/bets")
    assert list(await writer.standing(batch)) == [receipt]


async def test_bets_of_others_and_other_bets_of_ours_are_not_taken_for_it(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    bob = stand.world.add_user("bob")
    stand.world.trade(bob, market, Want(outcome="YES", amount=20.0, limit=0.6))
    await placed(writer, question, order_of(market), "i2")
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ABSENT]


@pytest.mark.parametrize("skew_s", [-3_600.0, -300.0, 30.0])
async def test_a_bet_is_found_whatever_the_clock_of_the_venue_says(stand: Stand, skew_s: float) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    stand.venue.faults.skew_s = skew_s
    batch, receipt = await placed(writer, question, order_of(market))
    assert receipt.state is IntentState.ACKED
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ACKED]


@pytest.mark.parametrize("fault", [Fault.ERROR_BEFORE, Fault.TRUNCATED, Fault.PAGE_BEFORE, Fault.TOO_MANY])
async def test_what_cannot_be_read_back_stays_unknown(stand: Stand, fault: Fault) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch, _ = await placed(writer, question, order_of(market))
    stand.venue.faults.next(fault, method="GET", path="/v0/bets")
    assert [one.state for one in await writer.standing(batch)] == [IntentState.UNKNOWN]


async def test_a_row_that_is_no_bet_makes_an_absence_no_proof(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))

    def spoilt(rows: Any) -> Any:
        return [*rows, {"amount": 20}]

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=spoilt), method="GET", path="/v0/bets")
    assert [one.state for one in await writer.standing(batch)] == [IntentState.UNKNOWN]


async def test_mf_c5_a_busy_venue_took_nothing_and_may_be_asked_again(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=503), method="POST", path="/v0/bet")
    batch, receipt = await placed(writer, question, order_of(market))
    assert receipt.state is IntentState.ABSENT
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ACKED


async def test_a_server_in_front_of_the_venue_proves_nothing(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_AFTER, status=502), method="POST", path="/v0/bet")
    _, receipt = await placed(stand.writer(), question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN


async def test_mf_l2_too_many_requests_without_a_wait_is_absent(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    stand.venue.faults.next(Trouble(fault=Fault.TOO_MANY, retry_after=None), method="POST", path="/v0/bet")
    _, receipt = await placed(stand.writer(), question, order_of(market))
    assert receipt.state is IntentState.ABSENT
    assert "429" in receipt.detail


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Rejected("no connection; nothing was sent"), IntentState.ABSENT),
        (Unavailable("no whole answer; it may have arrived"), IntentState.UNKNOWN),
        (ContractError("status 200 with more than enough bytes"), IntentState.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_the_wire_says_of_an_arrival_is_believed(
    stand: Stand, error: FoxcastError, state: IntentState
) -> None:
    def fail(_: Request) -> Reply:
        raise error

    market = stand.world.add_market()
    wire = MemoryWire(fail)
    place = WriterPlace(clock=stand.clock, http=stand.http, folder=stand.folder, wire=wire)
    _, receipt = await placed(ManifoldWriter(stand.settings, place), await stand.question(market), order_of(market))
    assert (receipt.state, len(wire.sent)) == (state, 1)
    assert KEY not in repr(wire.sent)


async def test_where_nobody_listens_nothing_was_written(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    async with stand.served.away():
        (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT


# Errors by who must act


async def test_an_unknown_key_stops_the_writer(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    (await writer.standing(batch),)
    own = stand.venue.state.users[stand.ada.id]
    # The list of own orders is read without a key; the bet is what meets the lock.
    own.key = "another"
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.REFUSED
    assert "401" in receipt.detail
    assert KEY not in receipt.detail
    with pytest.raises(Unauthorized, match=r"\[venues.manifold.settings\]"):
        await writer.seal(batch)


@pytest.mark.parametrize("turn", [Fault.CLOSING, Fault.RESOLVED])
async def test_what_ends_in_flight_is_refused_for_good(stand: Stand, turn: Fault) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    stand.venue.faults.next(turn, method="POST", path="/v0/bet")
    _, receipt = await placed(stand.writer(), question, order_of(market))
    assert receipt.state is IntentState.REFUSED
    assert "403" in receipt.detail
    assert stand.venue.ledger.effects("bet") == []


async def test_too_little_mana_is_refused_and_does_not_stop_the_writer(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    _, receipt = await placed(writer, question, order_of(market, amount=5000.0))
    assert receipt.state is IntentState.REFUSED
    assert "Insufficient balance" in receipt.detail
    _, receipt = await placed(writer, question, order_of(market), "i2")
    assert receipt.state is IntentState.ACKED


async def test_an_answer_that_is_not_what_was_sent_is_a_doubt(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)

    def other(answer: Any) -> Any:
        return {**answer, "outcome": "NO"}

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=other), method="POST", path="/v0/bet")
    _, receipt = await placed(stand.writer(), question, order_of(market))
    assert receipt.state is IntentState.UNKNOWN


@pytest.mark.parametrize("linked", [None, True, False])
async def test_a_bet_that_came_after_its_expiry_did_nothing_and_is_no_refusal(
    stand: Stand,
    linked: bool | None,  # noqa: FBT001 - a table
) -> None:
    """The venue says 400 of one price, and 403 where answers have prices of their own."""
    several = {"type": "MULTIPLE_CHOICE", "sums_to_one": linked, "answers": THREE}
    fields: dict[str, Any] = {} if linked is None else several
    market = stand.world.add_market(**fields)
    answer = None if linked is None else market.answers[0]
    question = await stand.question(market, None if linked else answer)
    writer = stand.writer()
    order = order_of(market, answer=answer, option="Ann" if linked else "")
    batch = await sealed(writer, question, intent_of(question, order))
    stand.venue.faults.skew_s = 3_600.0
    [receipt] = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "expire in the past" in receipt.detail
    assert stand.venue.ledger.effects("bet", account=stand.ada.id) == []
