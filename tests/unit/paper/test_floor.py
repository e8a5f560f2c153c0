"""Orders on paper from the decision to the payout: through the outbox, the settle job and the cancel job."""

import json
from datetime import timedelta
from pathlib import Path

from bot.domain.order import Account
from bot.domain.question import QuestionRef
from bot.domain.request import CancelOrder
from bot.domain.resolution import Happened, Resolution
from bot.errors import Unavailable
from bot.jobs.cancel import cancel_asked
from bot.jobs.settle import settle_accounts
from bot.store.cancels import ask, waiting
from bot.testing.clock import START
from bot.testing.paper import MemoryMarket
from tests.unit.paper.floor import ACCOUNT, Floor, open_floor

HOUR = timedelta(hours=1)


def rain(price: float = 0.4, **changes: object) -> MemoryMarket:
    return MemoryMarket(prices={"rain": price}, **changes)  # type: ignore[arg-type]


async def happened(floor: Floor, value: float) -> None:
    told = Resolution(
        ref=QuestionRef("lantern", "rain"), target="outcome", outcome=Happened(value), resolved_at=floor.clock.now()
    )
    await floor.ledger.resolutions.record([told], seen_at=floor.clock.now())


async def test_an_order_is_sent_filled_read_and_paid_out(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain()) as floor:
        intent = await floor.plan("rain")
        assert await floor.outbox.flush() == 1
        assert await floor.row(intent) == ("acked", 5.0)
        assert [one.cash for one in await floor.ledger.submissions.fills(intent.id)] == [-4.0]
        floor.clock.pass_unnoticed(61.0)
        await floor.outbox.reconcile()
        assert await floor.row(intent) == ("acked", 4.0)
        assert await settle_accounts(floor.accounts) == "0 positions settled, 0 orders advanced, 1 accounts read"
        await happened(floor, 1.0)
        assert await settle_accounts(floor.accounts) == "1 positions settled, 0 orders advanced, 1 accounts read"
        assert await settle_accounts(floor.accounts) == "0 positions settled, 0 orders advanced, 1 accounts read"
        await happened(floor, 0.0)
        assert await settle_accounts(floor.accounts) == "1 positions settled, 0 orders advanced, 1 accounts read"
        readings = await floor.ledger.readings.since("lantern", ACCOUNT, START, paper=True)
        assert [(one.cash, one.equity) for one in readings] == [(96.0, 100.0), (106.0, 106.0), (96.0, 96.0)]


async def test_what_an_order_did_not_take_counts_no_more(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain(size=4.0, rests=HOUR)) as floor:
        intent = await floor.plan("rain")
        await floor.outbox.flush()
        floor.market.prices["rain"] = 0.9
        floor.clock.pass_unnoticed(1800.0)
        await settle_accounts(floor.accounts)
        await floor.outbox.reconcile()
        assert await floor.row(intent) == ("acked", 5.0)
        floor.clock.pass_unnoticed(1801.0)
        await floor.outbox.reconcile()
        assert await floor.row(intent) == ("acked", 1.6)
        assert (await floor.book.account()).cash == 98.4


async def test_an_order_that_gets_nothing_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain(0.9)) as floor:
        intent = await floor.plan("rain")
        assert await floor.outbox.flush() == 0
        assert (await floor.row(intent))[0] == "refused"


async def test_an_order_before_a_silent_market_goes_back_to_the_gate(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain(error=Unavailable("no answer"))) as floor:
        intent = await floor.plan("rain")
        assert await floor.outbox.flush() == 0
        assert (await floor.row(intent))[0] == "superseded"
        held = await floor.ledger.forecasts.held(10, now=floor.clock.now())
        assert [one.id for one in held] == [intent.forecast]


async def test_a_person_takes_a_resting_order_back(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain(0.9, rests=HOUR)) as floor:
        intent = await floor.plan("rain")
        await floor.outbox.flush()
        ask(tmp_path, CancelOrder(intent=intent.id, by="somebody", asked_at=START))
        assert await cancel_asked(floor.cancelling) == "1 orders taken back"
        assert (await floor.book.account()).orders == ()
        assert waiting(tmp_path) == []
        floor.clock.pass_unnoticed(3600.0)
        await floor.outbox.reconcile()
        assert await floor.row(intent) == ("acked", 0.0)
        notes = await floor.ledger.journal.recent(5, "request")
        assert [note.text for note in notes] == [f"order {intent.id} at lantern taken back for somebody"]


async def test_requests_that_cannot_be_done_are_put_aside(tmp_path: Path) -> None:
    async with open_floor(tmp_path, rain()) as floor:
        intent = await floor.plan("rain")
        ask(tmp_path, CancelOrder(intent="nobody's", by="somebody", asked_at=START))
        ask(tmp_path, CancelOrder(intent=intent.id, by="somebody", asked_at=START))
        (tmp_path / "requests" / "orders" / "broken.json").write_text("{}")
        assert await cancel_asked(floor.cancelling) == "0 orders taken back, 3 requests refused"
        assert waiting(tmp_path) == []
        assert len([*(tmp_path / "requests" / "orders" / "refused").iterdir()]) == 3


async def test_an_account_with_trouble_holds_up_no_other(tmp_path: Path) -> None:
    async with open_floor(tmp_path / "one", rain()) as first, open_floor(tmp_path / "two", rain()) as second:
        await first.plan("rain")
        await first.outbox.flush()
        first.market.error = Unavailable("no answer")
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
    async with open_floor(tmp_path, rain()) as floor:
        readings = floor.ledger.readings

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
        bodies = [json.loads(body) if body else None for (body,) in floor.scribe.rows("select body from reading")]
        assert [body is None for body in bodies] == [True, True, False]
