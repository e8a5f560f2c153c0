"""What a person is told of orders: what contracts were traded for, and why an order is as it is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.core.submissions import Intent, IntentState, SendDecision, WriteReceipt
from bot.store.submission_queries import (
    OrderFilter,
    OrderRow,
    TradedContract,
    list_and_count_orders,
    list_orders,
    read_traded_contracts,
)
from tests.unit.store.conftest import NOON, LedgerFixture

ANSWERED = "matched: no shares yet"
MINUTE = timedelta(minutes=1)


async def taken(ledger_fixture: LedgerFixture, key: str = "rain", **changes: object) -> Intent:
    """Return an order of 20 shares for 10 at most that was taken, with that answer."""
    send = ledger_fixture.order(await ledger_fixture.forecast(await ledger_fixture.ask(key)))
    order = send.intent.order
    assert order is not None
    send = replace(send, intent=replace(send.intent, order=replace(order, **changes)))  # type: ignore[arg-type]
    stored = await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert isinstance(stored, SendDecision)
    await ledger_fixture.ledger.submissions.begin_attempt([stored.intent.id], at=NOON)
    await told(ledger_fixture, stored.intent, detail=ANSWERED)
    return stored.intent


async def told(
    ledger_fixture: LedgerFixture, intent: Intent, *, detail: str = "", shares: float = 0.0, at: datetime = NOON
) -> None:
    """Settle the order, with one fill where there are shares."""
    fills = (replace(ledger_fixture.fill("one", shares=shares), at=at),) if shares else ()
    receipt = WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference="bet", detail=detail, fills=fills)
    await ledger_fixture.ledger.submissions.settle([receipt], at=at)


async def the_one(ledger_fixture: LedgerFixture) -> OrderRow:
    [row] = await ledger_fixture.ledger.submissions.readers.run(
        lambda database: list_orders(database, OrderFilter(now=NOON))
    )
    return row


async def test_the_answer_explains_an_order_until_more_of_it_is_filled(ledger_fixture: LedgerFixture) -> None:
    intent = await taken(ledger_fixture)
    assert (await the_one(ledger_fixture)).why == ANSWERED
    await told(ledger_fixture, intent, shares=4.0, at=NOON + MINUTE)
    assert (await the_one(ledger_fixture)).why == "4.00 of 20.00 shares filled"


async def test_what_is_filled_needs_no_explanation(ledger_fixture: LedgerFixture) -> None:
    intent = await taken(ledger_fixture)
    await told(ledger_fixture, intent, shares=20.0)
    row = await the_one(ledger_fixture)
    assert row.is_filled
    assert row.why == ""
    assert [one.detail for one in row.attempts] == [ANSWERED]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RAIN", {"rain"}),
        ("how high", {"water"}),
        ("größe", {"water"}),
        ("US", {"rain", "water"}),
        ("matched: NO", {"rain", "water"}),
        ("snow", set()),
        ("%", set()),
    ],
)
async def test_orders_are_searched_by_title_names_and_reason_in_any_case(
    ledger_fixture: LedgerFixture, text: str, found: set[str]
) -> None:
    for key in ("rain", "water"):
        await taken(ledger_fixture, key)
    await ledger_fixture.ask("water", title="GRÖßE: How high is it?")

    async def search(**chosen: Any) -> tuple[Sequence[OrderRow], int]:
        wanted = OrderFilter(now=NOON, text=text, **chosen)
        return await ledger_fixture.ledger.submissions.readers.run(
            lambda database: list_and_count_orders(database, wanted)
        )

    for options in ({}, {"venue": "lantern", "paper": True}, {"limit": None}):
        rows, count = await search(**options)
        assert {row.row.intent.ref.key for row in rows} == found
        assert count == len(found)
    assert await search(venue="elsewhere") == ([], 0)
    rows, count = await search(limit=1)
    assert (len(rows), count) == (min(1, len(found)), len(found))
    assert [row for row in (await search(open=True))[0] if row.row.intent.ref.key not in found] == []


async def test_a_contract_is_known_by_the_newest_order_on_it_of_the_account(ledger_fixture: LedgerFixture) -> None:
    first = await taken(ledger_fixture, "rain", contract="0x1", option="Ann")
    second = await taken(ledger_fixture, "snow", contract="0x2")
    names = ["0x1", "0x2", "0x3"]

    async def known(venue: str = "lantern", account: str = "us") -> dict[str, TradedContract]:
        return dict(
            await ledger_fixture.ledger.submissions.readers.run(
                lambda database: read_traded_contracts(database, venue, account, names)
            )
        )

    assert await known() == {
        "0x1": TradedContract(ref=first.ref, option="Ann"),
        "0x2": TradedContract(ref=second.ref, option=""),
    }
    assert await known(account="them") == await known("elsewhere") == {}
    third = await taken(ledger_fixture, "hail", contract="0x1", option="Bob")
    assert (await known())["0x1"] == TradedContract(ref=third.ref, option="Bob")
