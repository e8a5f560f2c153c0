"""The paper book of the venue end to end: orders as the planner writes them, a market that only is read."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoiceOutcome,
    ContractSide,
    Intent,
    IntentAction,
    IntentState,
    NumericOutcome,
    Order,
    OrderSide,
    PaperBook,
    PaperBookContext,
    PaperBookTerms,
    PaperTradingSubmitter,
    Position,
    QuestionRef,
    Resolution,
    ServiceUnavailableError,
    SubmissionBatch,
    UnpaidOutcome,
    VoidOutcome,
    WriteReceipt,
    open_paper_book,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.manifold import reader as venue_module
from plugins.manifold.account import MARK_CACHE_S
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.paper_market import UNDONE_REASONS, ManifoldPaperMarket, open_paper
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.api_replies import NOW, FakeMarketReader, answer, binary, choice, numeric

RESTS_S = 60.0


def order(amount: float, limit: str, leg: ContractSide = ContractSide.YES, **terms: Any) -> Order:
    worst = float(limit) if leg is ContractSide.YES else 1.0 - float(limit)
    return Order(
        contract=f"m1/{terms['answer']}" if terms.get("answer") else "m1",
        leg=leg,
        side=OrderSide.BUY,
        shares=amount / worst,
        limit=worst,
        cost=amount,
        expected=0.5,
        currency="MANA",
        stake=amount,
        cancels=terms.pop("cancels", ()),
        terms={"market": "m1", "limit_prob": limit, "answer": "", **terms},
    )


@dataclass
class PaperBookSetup:
    book: PaperBook
    clock: FakeClock

    async def send(self, name: str, wanted: Order) -> WriteReceipt:
        intent = Intent(
            id=name,
            account="default",
            ref=QuestionRef("manifold", "m1"),
            forecast=f"forecast of {name}",
            action=IntentAction.ORDER,
            predictions={"outcome": BinaryPrediction(0.9)},
            batch=name,
            order=wanted,
        )
        asked = SubmissionBatch(key=name, intents=(intent,), questions=())
        sealed = await self.book.seal_requests(asked)
        (receipt,) = await self.book.submit(
            SubmissionBatch(key=name, intents=(intent,), questions=(), sealed=tuple(sealed))
        )
        return receipt

    async def settle(self, outcome: BinaryOutcome | ChoiceOutcome | NumericOutcome | VoidOutcome) -> int:
        reported = Resolution(ref=QuestionRef("manifold", "m1"), target="outcome", outcome=outcome, resolved_at=NOW)
        return await self.book.settle([reported])


@asynccontextmanager
async def opened(folder: Path, venue: FakeMarketReader) -> AsyncIterator[PaperBookSetup]:
    clock = FakeClock(NOW)
    place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=folder, cash=1000.0, delay_s=0.0)
    market = ManifoldPaperMarket(venue, clock, delay_s=0.0, rests_s=RESTS_S)
    async with open_paper_book(place, market, PaperBookTerms(currency="MANA", redeems=True)) as book:
        yield PaperBookSetup(book, clock)


def small(**changes: Any) -> dict[str, Any]:
    return binary(pool={"YES": 100, "NO": 100}, **changes)


async def test_a_bet_is_filled_as_the_vector_says_and_debited_at_the_fill(tmp_path: Path) -> None:
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        receipt = await outbox_setup.send("one", order(50.0, "0.99"))
        account = await outbox_setup.book.account()
    assert receipt.state is IntentState.ACKED
    assert [one.shares for one in receipt.fills] == [pytest.approx(83.333333, abs=1e-6)]  # v040
    assert account.cash == pytest.approx(950.0)
    assert account.positions[0].mark == pytest.approx(50.0 / 83.333333, rel=1e-6)


async def test_two_bets_in_a_row_cost_what_one_of_their_size_would(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    async with opened(tmp_path / "two", FakeMarketReader(small())) as outbox_setup:
        first = await outbox_setup.send("one", order(30.0, "0.99"))
        second = await outbox_setup.send("two", order(20.0, "0.99"))
    async with opened(tmp_path / "one", FakeMarketReader(small())) as outbox_setup:
        whole = await outbox_setup.send("one", order(50.0, "0.99"))
    shares = first.fills[0].shares + second.fills[0].shares
    assert shares == pytest.approx(whole.fills[0].shares, rel=1e-6)


async def test_bets_on_both_sides_are_paid_out_as_pairs(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        one = await outbox_setup.send("one", order(50.0, "0.99"))
        two = await outbox_setup.send("two", order(20.0, "0.01", ContractSide.NO))
        account = await outbox_setup.book.account()
    yes, no = one.fills[0].shares, two.fills[0].shares
    assert {p.leg: p.shares for p in account.positions} == {ContractSide.YES: pytest.approx(yes - no, abs=2e-6)}
    assert account.cash == pytest.approx(1000.0 - 70.0 + no, abs=1e-5)


async def test_a_sale_of_all_brings_back_what_the_shares_cost_and_less_than_its_limit_is_none(tmp_path: Path) -> None:
    """Vector v061: a round trip without others trading returns the stake."""
    venue = FakeMarketReader(small())
    async with opened(tmp_path, venue) as outbox_setup:
        bought = await outbox_setup.send("one", order(50.0, "0.99"))
        sale = replace(order(50.0, "0.10"), side=OrderSide.SELL, shares=bought.fills[0].shares, cost=0.0, terms={})
        dear = await outbox_setup.send("dear", replace(sale, limit=0.70, expected=0.7))
        assert dear.state is IntentState.REFUSED
        assert "less than the limit" in dear.detail
        sold = await outbox_setup.send("sale", sale)
        account = await outbox_setup.book.account()
    assert sold.state is IntentState.ACKED
    assert account.cash == pytest.approx(1000.0, abs=1e-4)
    assert account.positions == ()


async def test_what_is_left_of_a_bet_rests_and_is_filled_when_the_price_crosses_it(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    venue = FakeMarketReader(small())
    async with opened(tmp_path, venue) as outbox_setup:
        receipt = await outbox_setup.send("one", order(50.0, "0.60"))
        spent = -receipt.fills[0].cash
        assert 0.0 < spent < 50.0
        account = await outbox_setup.book.account()
        assert [one.reserves for one in account.orders] == [pytest.approx(50.0 - spent)]
        assert await outbox_setup.book.advance() == 0
        venue.full_market = binary(pool={"YES": 300, "NO": 100})
        await outbox_setup.clock.advance(30)
        assert await outbox_setup.book.advance() == 1
        after = await outbox_setup.book.account()
        assert after.orders == ()
        assert after.cash == pytest.approx(950.0)


async def test_what_rests_ends_at_its_time_and_its_mana_comes_back(tmp_path: Path) -> None:
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        receipt = await outbox_setup.send("one", order(50.0, "0.60"))
        await outbox_setup.clock.advance(RESTS_S)
        assert await outbox_setup.book.advance() == 1
        account = await outbox_setup.book.account()
    assert account.cash == pytest.approx(1000.0 + receipt.fills[0].cash)
    assert account.orders == ()


async def test_own_orders_on_the_other_side_go_first(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        await outbox_setup.send("one", order(50.0, "0.60"))
        await outbox_setup.send("two", order(20.0, "0.30", ContractSide.NO, cancels=("one",)))
        assert "one" not in [one.id for one in (await outbox_setup.book.account()).orders]


async def test_a_market_that_gives_nothing_refuses_with_the_reason(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    async with opened(tmp_path, FakeMarketReader(small(isResolved=True))) as outbox_setup:
        receipt = await outbox_setup.send("one", order(50.0, "0.60"))
    assert (receipt.state, receipt.detail) == (IntentState.REFUSED, "the market is resolved")


async def test_a_position_whose_market_closed_or_is_silent_keeps_its_mark(tmp_path: Path) -> None:
    class Fading(FakeMarketReader):
        silent = False

        async def market(self, market_id: str) -> Mapping[str, Any]:
            if self.silent:
                message = "no answer"
                raise ServiceUnavailableError(message)
            return await super().market(market_id)

    venue = Fading(small())
    async with opened(tmp_path, venue) as outbox_setup:
        await outbox_setup.send("one", order(50.0, "0.99"))
        mark = (await outbox_setup.book.account()).positions[0].mark
        assert mark is not None
        venue.silent = True
        await outbox_setup.clock.advance(MARK_CACHE_S)
        assert (await outbox_setup.book.account()).positions[0].mark == mark
        venue.silent = False
        venue.full_market = small(closeTime=1)
        await outbox_setup.clock.advance(MARK_CACHE_S)
        assert (await outbox_setup.book.account()).positions[0].mark == mark


@pytest.mark.parametrize(
    ("outcome", "paid"),
    [
        (BinaryOutcome(1.0), 1.0),
        (BinaryOutcome(0.0), 0.0),
        (BinaryOutcome(0.25), 0.25),
        (VoidOutcome("cancelled"), None),
    ],
)
async def test_outcomes_pay_as_the_venue_does(
    tmp_path: Path, outcome: BinaryOutcome | VoidOutcome, paid: float | None
) -> None:
    """docs/facts/manifold.md#resolution."""
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        receipt = await outbox_setup.send("one", order(50.0, "0.99"))
        assert await outbox_setup.settle(outcome) == 1
        cash = (await outbox_setup.book.account()).cash
    shares = receipt.fills[0].shares
    assert cash == pytest.approx(1000.0 if paid is None else 950.0 + shares * paid, abs=1e-5)


async def test_a_resolution_that_is_not_final_brings_the_position_back(tmp_path: Path) -> None:
    """docs/facts/manifold.md#resolution."""
    async with opened(tmp_path, FakeMarketReader(small())) as outbox_setup:
        await outbox_setup.send("one", order(50.0, "0.99"))
        before = await outbox_setup.book.account()
        await outbox_setup.settle(BinaryOutcome(1.0))
        for why in UNDONE_REASONS:
            await outbox_setup.settle(VoidOutcome(why))
            assert await outbox_setup.book.account() == before


def test_what_is_not_final_is_worded_as_the_reader_words_it() -> None:
    reported = Path(venue_module.__file__).read_text()
    assert all(f'"{why}"' in reported for why in UNDONE_REASONS)


def position(leg: ContractSide = ContractSide.YES, option: str = "") -> Position:
    return Position(contract="m1", leg=leg, shares=1.0, paid=0.5, option=option)


def test_shares_of_answers_and_of_numbers_pay_their_part() -> None:
    """docs/facts/manifold.md#resolution."""
    market = ManifoldPaperMarket(FakeMarketReader(small()), FakeClock(NOW), delay_s=0.0, rests_s=RESTS_S)
    assert market.payout_per_share(position(option="a"), ChoiceOutcome("a"), "") == 1.0
    assert market.payout_per_share(position(ContractSide.NO, "b"), ChoiceOutcome("a"), "") == 1.0
    several = VoidOutcome("several answers won", shares={"a, or not": 0.25, "b": 0.75})
    assert market.payout_per_share(position(option="a, or not"), several, "") == 0.25
    assert market.payout_per_share(position(ContractSide.NO, "b"), several, "") == 0.25
    assert market.payout_per_share(position(option="c"), several, "") == 0.0
    state = ManifoldMarketState.from_api(numeric(), (), read_at=NOW).to_json()
    assert market.payout_per_share(position(), NumericOutcome(30.0), state) == pytest.approx(0.3)
    assert market.payout_per_share(position(), NumericOutcome(30.0), "") is UnpaidOutcome.OPEN


async def test_answers_of_one_market_are_carried_together(tmp_path: Path) -> None:
    """docs/facts/manifold.md#paper-fills."""
    market = choice(answer("a", 0.5), answer("b", 0.5), id="m1")
    async with opened(tmp_path, FakeMarketReader(market)) as outbox_setup:
        one = await outbox_setup.send("one", order(50.0, "0.99", answer="a"))
        two = await outbox_setup.send("two", order(50.0, "0.99", answer="b"))
    assert one.state is IntentState.ACKED
    # The first bet made the second answer cheaper.
    assert two.fills[0].shares > one.fills[0].shares


async def test_the_book_opens_without_a_key(tmp_path: Path) -> None:
    place = PaperBookContext(clock=FakeClock(NOW), http=FakeHttpClient({}), folder=tmp_path, cash=7.0, delay_s=2.0)
    async with open_paper(ManifoldSettings(), place) as book:
        assert isinstance(book, PaperTradingSubmitter)
        account = await book.account()
    assert (account.cash, account.currency) == (7.0, "MANA")
    assert account.at - NOW == timedelta()
