"""Accounts: what is kept of old readings, what a venue says of its own gains, and what a corrected outcome pays."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.core.orders import Account, ContractSide, Position, UnpaidOutcome, VenueReportedGain
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution, VoidOutcome
from bot.core.submissions import IntentState, WriteReceipt
from bot.store.accounts import AccountKey
from bot.store.ledger import Ledger
from tests.unit.store.conftest import LedgerFixture

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVER = datetime(1970, 1, 1, tzinfo=UTC)
LANE = AccountKey(venue="lantern", account="default", paper=False)


def account(at: datetime, cash: float) -> Account:
    return Account(at=at, currency="COIN", cash=cash)


def marked(at: datetime, worth: float) -> Account:
    """An account whose worth is that of its shares."""
    held = Position(contract="rain", leg=ContractSide.YES, shares=1000.0, paid=100.0, mark=worth / 1000.0)
    return replace(account(at, 0.0), positions=(held,))


async def read(ledger: Ledger, one: Account) -> bool:
    return await ledger.readings.add("lantern", "default", one, paper=False)


async def test_of_old_readings_the_first_and_of_each_hour_and_day_the_last_and_the_highest_are_kept(
    ledger_fixture: LedgerFixture,
) -> None:
    ledger = ledger_fixture.ledger
    # A price that moves every six hours for 100 days, on some of them every half hour; each noon is a peak.
    for day in range(100):
        step = 30 if day in {60, 61} or day >= 97 else 360
        moments = [NOON + timedelta(days=day, minutes=minute) for minute in range(0, 24 * 60, step)]
        worth = [100.0 + place / 100 + 50.0 * ((at.hour, at.minute) == (12, 0)) for place, at in enumerate(moments)]
        # Written together, one after the other.
        await asyncio.gather(*(read(ledger, marked(at, value)) for at, value in zip(moments, worth, strict=True)))
    end = NOON + timedelta(days=100)
    kept = await ledger.readings.since("lantern", "default", EVER, paper=False)
    assert kept[0].at == NOON
    assert sum(one.at >= end - timedelta(days=2) for one in kept) == 2 * 24 * 2
    busy = [one for one in kept if NOON + timedelta(days=60) <= one.at < NOON + timedelta(days=62)]
    # The last of each hour, which is the higher one but for the peaks.
    assert len(busy) == 2 * 24 + 2
    daily = [one for one in kept if one.at < end - timedelta(days=92)]
    assert len(daily) == 2 * 8
    # What a drawdown is counted from is there still.
    assert sum(one.equity > 140 for one in daily) == 8


async def test_a_reading_that_says_the_same_is_no_row_and_says_until_when(ledger_fixture: LedgerFixture) -> None:
    ledger = ledger_fixture.ledger
    assert await read(ledger, account(NOON, 100.0))
    assert not await read(ledger, account(NOON + timedelta(minutes=7), 100.0))
    (one,) = await ledger.readings.since("lantern", "default", EVER, paper=False)
    assert (one.at, one.until) == (NOON, NOON + timedelta(minutes=7))


async def test_a_position_whose_price_cannot_be_read_keeps_the_last_one_that_is_known(
    ledger_fixture: LedgerFixture,
) -> None:
    """Its cost in place of its price was a loss that was none, and a peak from which a drawdown was counted."""
    ledger = ledger_fixture.ledger
    await read(ledger, marked(NOON, 950.0))
    guessed = marked(NOON + timedelta(minutes=5), 100.0)
    unpriced = replace(guessed, positions=(replace(guessed.positions[0], is_unpriced=True),))
    for minutes in (5, 90):
        await read(ledger, replace(unpriced, at=NOON + timedelta(minutes=minutes)))
    found = await ledger.readings.since("lantern", "default", EVER, paper=False)
    assert [one.equity for one in found] == [950.0, 950.0]
    await read(ledger, marked(NOON + timedelta(minutes=95), 900.0))
    *_, last = await ledger.readings.since("lantern", "default", EVER, paper=False)
    assert last.equity == 900.0


async def test_a_position_that_never_had_a_price_counts_as_its_plugin_says(ledger_fixture: LedgerFixture) -> None:
    held = Position(contract="hail", leg=ContractSide.NO, shares=10.0, paid=4.0, mark=0.4, is_unpriced=True)
    for minutes in (0, 90):
        at = NOON + timedelta(minutes=minutes)
        await read(ledger_fixture.ledger, replace(account(at, 100.0), positions=(held,)))
    found = await ledger_fixture.ledger.readings.since("lantern", "default", EVER, paper=False)
    assert [one.equity for one in found] == [104.0, 104.0]


async def test_what_is_lent_owed_and_not_from_orders_is_kept_with_the_sums(ledger_fixture: LedgerFixture) -> None:
    held = (
        Position(contract="hail", leg=ContractSide.YES, shares=10.0, paid=4.0, mark=0.5),
        Position(contract="snow", leg=ContractSide.NO, shares=8.0, paid=4.0, mark=1.0, decided=True),
    )
    await read(ledger_fixture.ledger, replace(account(NOON, 100.0), positions=held, loan=3.0))
    (one,) = await ledger_fixture.ledger.readings.since("lantern", "default", EVER, paper=False)
    assert (one.loan, one.owed, one.elsewhere, one.equity) == (3.0, 8.0, 5.0, 110.0)


async def test_what_a_venue_says_is_kept_as_it_said_it_last(ledger_fixture: LedgerFixture) -> None:
    said = VenueReportedGain(contract="rain", gain=3.5, closed=False)
    await read(ledger_fixture.ledger, replace(account(NOON, 100.0), gains=(said,)))
    last = replace(said, gain=4.5, closed=True)
    await read(ledger_fixture.ledger, replace(account(NOON + timedelta(minutes=1), 100.0), gains=(last,)))
    found = await ledger_fixture.ledger.profits.record(LANE, EVER, redeems=True)
    assert found.venue_gains == [last]


async def test_shares_are_paid_again_when_their_outcome_is_corrected_or_withdrawn(
    ledger_fixture: LedgerFixture,
) -> None:
    """Twenty shares for ten pay twenty, then nothing, and then their outcome is open again."""
    ledger, key = ledger_fixture.ledger, AccountKey(venue="lantern", account="us", paper=True)
    question = await ledger_fixture.ask(batch=None)
    send = ledger_fixture.order(await ledger_fixture.forecast(question))
    await ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    await ledger.submissions.begin_attempt([send.intent.id], at=NOON)
    fills = (ledger_fixture.fill("1", shares=20.0),)
    receipt = WriteReceipt(intent=send.intent.id, state=IntentState.ACKED, fills=fills)
    await ledger.submissions.settle([receipt], at=NOON)
    outcomes: list[tuple[Outcome, float | UnpaidOutcome, int]] = [
        (BinaryOutcome(1.0), 1.0, 10),
        (BinaryOutcome(0.0), 0.0, -10),
        (VoidOutcome("the resolution was undone"), UnpaidOutcome.OPEN, 0),
    ]
    for day, (outcome, pays, gain) in enumerate(outcomes):
        resolution = Resolution(ref=question.ref, target="outcome", outcome=outcome, resolved_at=NOON)
        await ledger.resolutions.record([resolution], seen_at=NOON + timedelta(days=day))
        (share,) = await ledger.profits.decided(key)
        assert share.outcome == outcome
        await ledger.profits.pay(key, [(share, pays)])
        (contract,) = (await ledger.profits.record(key, EVER, redeems=False)).book.contracts
        assert contract.realised == gain * 1_000_000
