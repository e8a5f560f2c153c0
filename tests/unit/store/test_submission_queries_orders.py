"""What a person is told of orders: what contracts were traded for, and why an order is as it is."""

from dataclasses import replace
from datetime import datetime, timedelta

from bot.core.submissions import Intent, IntentState, SendDecision, WriteReceipt
from bot.store.submission_queries import OrderFilter, OrderRow, TradedContract, list_orders, read_traded_contracts
from tests.unit.store.conftest import NOON, LedgerFixture

ANSWERED = "matched: no shares yet"
MINUTE = timedelta(minutes=1)


async def taken(scribe: LedgerFixture, key: str = "rain", **changes: object) -> Intent:
    """Return an order of 20 shares for 10 at most that was taken, with that answer."""
    send = scribe.order(await scribe.forecast(await scribe.ask(key)))
    order = send.intent.order
    assert order is not None
    send = replace(send, intent=replace(send.intent, order=replace(order, **changes)))  # type: ignore[arg-type]
    stored = await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert isinstance(stored, SendDecision)
    await scribe.ledger.submissions.begin_attempt([stored.intent.id], at=NOON)
    await told(scribe, stored.intent, detail=ANSWERED)
    return stored.intent


async def told(
    scribe: LedgerFixture, intent: Intent, *, detail: str = "", shares: float = 0.0, at: datetime = NOON
) -> None:
    """Settle the order, with one fill where there are shares."""
    fills = (replace(scribe.fill("one", shares=shares), at=at),) if shares else ()
    receipt = WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference="bet", detail=detail, fills=fills)
    await scribe.ledger.submissions.settle([receipt], at=at)


async def the_one(scribe: LedgerFixture) -> OrderRow:
    [row] = await scribe.ledger.submissions.readers.run(lambda database: list_orders(database, OrderFilter(now=NOON)))
    return row


async def test_the_answer_explains_an_order_until_more_of_it_is_filled(scribe: LedgerFixture) -> None:
    intent = await taken(scribe)
    assert (await the_one(scribe)).why == ANSWERED
    await told(scribe, intent, shares=4.0, at=NOON + MINUTE)
    assert (await the_one(scribe)).why == "4.00 of 20.00 shares filled"


async def test_what_is_filled_needs_no_explanation(scribe: LedgerFixture) -> None:
    intent = await taken(scribe)
    await told(scribe, intent, shares=20.0)
    row = await the_one(scribe)
    assert row.is_filled
    assert row.why == ""
    assert [one.detail for one in row.attempts] == [ANSWERED]


async def test_a_contract_is_known_by_the_newest_order_on_it_of_the_account(scribe: LedgerFixture) -> None:
    first = await taken(scribe, "rain", contract="0x1", option="Ann")
    second = await taken(scribe, "snow", contract="0x2")
    names = ["0x1", "0x2", "0x3"]

    async def known(venue: str = "lantern", account: str = "us") -> dict[str, TradedContract]:
        return dict(
            await scribe.ledger.submissions.readers.run(
                lambda database: read_traded_contracts(database, venue, account, names)
            )
        )

    assert await known() == {
        "0x1": TradedContract(ref=first.ref, option="Ann"),
        "0x2": TradedContract(ref=second.ref, option=""),
    }
    assert await known(account="them") == await known("elsewhere") == {}
    third = await taken(scribe, "hail", contract="0x1", option="Bob")
    assert (await known())["0x1"] == TradedContract(ref=third.ref, option="Bob")
