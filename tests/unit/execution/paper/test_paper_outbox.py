"""Orders on paper from the decision to the payout: through the outbox, the settle job and the cancel job."""

import json
from datetime import timedelta
from pathlib import Path

from bot.core.errors import ServiceUnavailableError
from bot.core.operator_requests import CancelOrder
from bot.core.orders import Account
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.questions import QuestionRef
from bot.core.trading_profit import MILLIONTHS
from bot.jobs.reconciliation import settle_accounts
from bot.jobs.withdrawals import cancel_requested_orders
from bot.store.accounts import AccountKey
from bot.store.requests import pending_cancellations, request_cancellation
from bot.testing.clock import START
from bot.testing.paper_market import FakePaperMarket
from tests.unit.execution.paper.paper_outbox_fixture import ACCOUNT, PaperOutboxFixture, open_outbox_fixture

HOUR = timedelta(hours=1)


def rain(price: float = 0.4, **changes: object) -> FakePaperMarket:
    return FakePaperMarket(prices={"rain": price}, **changes)  # type: ignore[arg-type]


async def happened(trading: PaperOutboxFixture, value: float) -> None:
    reported = Resolution(
        ref=QuestionRef("lantern", "rain"),
        target="outcome",
        outcome=BinaryOutcome(value),
        resolved_at=trading.clock.now(),
    )
    await trading.ledger.resolutions.record([reported], seen_at=trading.clock.now())


async def test_an_order_is_sent_filled_read_and_paid_out(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain()) as trading:
        intent = await trading.plan("rain")
        assert await trading.outbox.flush() == 1
        assert await trading.row(intent) == ("acked", 5.0)
        assert [one.cash for one in await trading.ledger.submissions.fills(intent.id)] == [-4.0]
        trading.clock.advance_without_waking(61.0)
        await trading.outbox.reconcile()
        assert await trading.row(intent) == ("acked", 4.0)
        assert await settle_accounts(trading.accounts) == "0 positions settled, 0 orders advanced, 1 accounts read"
        await happened(trading, 1.0)
        assert await settle_accounts(trading.accounts) == "1 positions settled, 0 orders advanced, 1 accounts read"
        assert await settle_accounts(trading.accounts) == "0 positions settled, 0 orders advanced, 1 accounts read"
        await happened(trading, 0.0)
        assert await settle_accounts(trading.accounts) == "1 positions settled, 0 orders advanced, 1 accounts read"
        readings = await trading.ledger.readings.since("lantern", ACCOUNT, START, paper=True)
        assert [(one.cash, one.equity) for one in readings] == [(96.0, 100.0), (106.0, 106.0), (96.0, 96.0)]


async def test_a_payout_is_on_record_once_the_book_paid_it(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(), settle_after=HOUR) as trading:
        await trading.plan("rain")
        await trading.outbox.flush()
        await happened(trading, 1.0)
        account = AccountKey(venue="lantern", account=ACCOUNT, paper=True)
        # Ten shares were bought at 0.4 each.
        for wait, gain in ((60.0, 0), (3600.0, 6 * MILLIONTHS)):
            trading.clock.advance_without_waking(wait)
            await settle_accounts(trading.accounts)
            [contract] = (await trading.ledger.profits.record(account, START, redeems=False)).book.contracts
            assert contract.realised == gain


async def test_a_halt_takes_back_what_rests_in_a_paper_book(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(0.9, resting_time=HOUR)) as trading:
        await trading.plan("rain")
        await trading.outbox.flush()
        (tmp_path / "STOP").touch()
        assert await trading.halting.enforce_halts() == "1 venues halted, 1 orders cancelled"
        assert (await trading.book.account()).orders == ()


async def test_what_an_order_did_not_take_counts_no_more(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(size=4.0, resting_time=HOUR)) as trading:
        intent = await trading.plan("rain")
        await trading.outbox.flush()
        trading.market.prices["rain"] = 0.9
        trading.clock.advance_without_waking(1800.0)
        await settle_accounts(trading.accounts)
        await trading.outbox.reconcile()
        assert await trading.row(intent) == ("acked", 5.0)
        trading.clock.advance_without_waking(1801.0)
        await trading.outbox.reconcile()
        assert await trading.row(intent) == ("acked", 1.6)
        assert (await trading.book.account()).cash == 98.4


async def test_an_order_that_gets_nothing_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(0.9)) as trading:
        intent = await trading.plan("rain")
        assert await trading.outbox.flush() == 0
        assert (await trading.row(intent))[0] == "refused"


async def test_an_order_before_a_silent_market_goes_back_to_the_gate(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(error=ServiceUnavailableError("no answer"))) as trading:
        intent = await trading.plan("rain")
        assert await trading.outbox.flush() == 0
        assert (await trading.row(intent))[0] == "superseded"
        held = await trading.ledger.forecasts.held(10, now=trading.clock.now())
        assert [one.id for one in held] == [intent.forecast]


async def test_a_person_takes_a_resting_order_back(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain(0.9, resting_time=HOUR)) as trading:
        intent = await trading.plan("rain")
        await trading.outbox.flush()
        request_cancellation(tmp_path, CancelOrder(intent=intent.id, by="somebody", asked_at=START))
        assert await cancel_requested_orders(trading.cancelling) == "1 orders cancelled"
        assert (await trading.book.account()).orders == ()
        assert pending_cancellations(tmp_path) == []
        trading.clock.advance_without_waking(3600.0)
        await trading.outbox.reconcile()
        assert await trading.row(intent) == ("acked", 0.0)
        notes = await trading.ledger.events.recent(5, "request")
        assert [note.text for note in notes] == [f"order {intent.id} at lantern cancelled for somebody"]


async def test_requests_that_cannot_be_done_are_put_aside(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain()) as trading:
        intent = await trading.plan("rain")
        request_cancellation(tmp_path, CancelOrder(intent="nobody's", by="somebody", asked_at=START))
        request_cancellation(tmp_path, CancelOrder(intent=intent.id, by="somebody", asked_at=START))
        (tmp_path / "requests" / "orders" / "broken.json").write_text("{}")
        assert await cancel_requested_orders(trading.cancelling) == "0 orders cancelled, 3 requests refused"
        assert pending_cancellations(tmp_path) == []
        assert len([*(tmp_path / "requests" / "orders" / "refused").iterdir()]) == 3


async def test_an_account_with_trouble_holds_up_no_other(tmp_path: Path) -> None:
    async with (
        open_outbox_fixture(tmp_path / "one", rain()) as first,
        open_outbox_fixture(tmp_path / "two", rain()) as second,
    ):
        await first.plan("rain")
        await first.outbox.flush()
        first.market.error = ServiceUnavailableError("no answer")
        both = first.accounts
        parts = type(both)(
            ledger=first.ledger,
            submitters={"lantern": first.book, "harbour": second.book},
            names={"lantern": ACCOUNT, "harbour": ACCOUNT},
            clock=first.clock,
            paper={"lantern", "harbour"},
        )
        assert (await settle_accounts(parts)).endswith("1 accounts read")
        assert await first.ledger.readings.last("lantern", ACCOUNT, paper=True) is None
        assert (await first.ledger.readings.last("harbour", ACCOUNT, paper=True)) is not None


async def test_readings_keep_the_whole_account_once_and_sums_for_good(tmp_path: Path) -> None:
    async with open_outbox_fixture(tmp_path, rain()) as trading:
        readings = trading.ledger.readings

        def account(hours: float, cash: float) -> Account:
            return Account(at=START + timedelta(hours=hours), currency="COIN", cash=cash)

        assert await readings.last("lantern", ACCOUNT, paper=True) is None
        assert await readings.add("lantern", ACCOUNT, account(0.0, 5.0), paper=True)
        assert not await readings.add("lantern", ACCOUNT, account(0.5, 5.0), paper=True)
        assert await readings.last("lantern", ACCOUNT, paper=True) == account(0.5, 5.0)
        assert await readings.add("lantern", ACCOUNT, account(1.0, 5.0), paper=True)
        assert await readings.add("lantern", ACCOUNT, account(1.1, 4.0), paper=True)
        assert await readings.last("lantern", ACCOUNT, paper=True) == account(1.1, 4.0)
        assert [one.equity for one in await readings.since("lantern", ACCOUNT, START, paper=True)] == [5.0, 5.0, 4.0]
        bodies = [
            json.loads(body) if body else None
            for (body,) in trading.ledger_fixture.rows("select body from account_reading")
        ]
        assert [body is None for body in bodies] == [True, True, False]
