"""Planner and paper book in front of the fake venue: from belief to payout, on real sockets, and nothing is sent."""

import subprocess
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from bot.api import BinaryPrediction, ChoicePrediction, ContractSide, IntentState, PaperTradingSubmitter
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from plugins.polymarket.paper_market import open_paper
from tests.plugins.polymarket.paper_fixture import PaperFixture, open_paper_fixture, send

BOOK = {"bids": (("0.55", "40"), ("0.50", "500")), "asks": (("0.57", "12"), ("0.58", "30"), ("0.60", "100"))}
FEES = FakeFeeSchedule(rate=Decimal("0.04"))


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[PaperFixture]:
    async with open_paper_fixture(tmp_path) as here:
        yield here


async def test_from_belief_to_payout(polymarket: PaperFixture) -> None:
    market = polymarket.venue.world.add_market("Will it rain?", fees=FEES, **BOOK)  # type: ignore[arg-type]
    question = await polymarket.question(market.condition)
    async with open_paper(polymarket.settings, polymarket.place(cash=100.0)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        plan = await polymarket.plan(question, BinaryPrediction(0.75), await book.account())
        assert plan.order is not None
        receipt = await send(book, "one", plan.order, question.ref)
        assert receipt.state is IntentState.ACKED
        shares = sum(fill.shares for fill in receipt.fills)
        assert 0.0 < shares <= plan.order.shares
        account = await book.account()
        (position,) = account.positions
        assert (position.contract, position.leg, position.shares) == (market.condition, ContractSide.YES, shares)
        assert position.mark == pytest.approx((40 * 0.55 + (shares - 40) * 0.50) / shares)
        spent = 100.0 - account.cash
        assert spent == pytest.approx(shares * plan.order.expected + plan.order.fees)
        polymarket.venue.world.propose(market, "1")
        assert await polymarket.resolutions(market.condition) == []
        assert await book.settle([]) == 0
        polymarket.venue.world.resolve(market, "1")
        assert await book.settle(await polymarket.resolutions(market.condition)) == 1
        after = await book.account()
    assert after.positions == ()
    assert after.cash == pytest.approx(100.0 - spent + shares)


@pytest.mark.parametrize(("pays", "each"), [(("0.5",), 0.5), (("0", "0"), 0.0), (("0",), 0.0)])
async def test_pm_x9_settlement_follows_the_pair(polymarket: PaperFixture, pays: tuple[str, ...], each: float) -> None:
    market = polymarket.venue.world.add_market("Will it rain?", **BOOK)  # type: ignore[arg-type]
    question = await polymarket.question(market.condition)
    async with open_paper(polymarket.settings, polymarket.place(cash=100.0)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        plan = await polymarket.plan(question, BinaryPrediction(0.75), await book.account())
        assert plan.order is not None
        await send(book, "one", plan.order, question.ref)
        before = await book.account()
        polymarket.venue.world.resolve(market, *pays)
        assert await book.settle(await polymarket.resolutions(market.condition)) == 1
        after = await book.account()
    assert after.cash - before.cash == pytest.approx(each * before.positions[0].shares)


async def test_pm_x9_nothing_is_paid_before_the_delay_is_over(polymarket: PaperFixture) -> None:
    market = polymarket.venue.world.add_market("Will it rain?", **BOOK)  # type: ignore[arg-type]
    question = await polymarket.question(market.condition)
    patient = polymarket.with_settings(paper_settle_s=600)
    async with open_paper(patient.settings, polymarket.place(cash=100.0)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        plan = await polymarket.plan(question, BinaryPrediction(0.75), await book.account())
        assert plan.order is not None
        await send(book, "one", plan.order, question.ref)
        polymarket.venue.world.resolve(market, "1")
        known = await polymarket.resolutions(market.condition)
        assert await book.settle(known) == 0
        polymarket.clock.advance_without_waking(601)
        assert await book.settle(known) == 1


async def test_an_event_is_traded_by_option_and_settled_by_who_won(polymarket: PaperFixture) -> None:
    event, markets = polymarket.venue.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    question = await polymarket.question(f"event:{event.id}")
    beliefs = ChoicePrediction({"Ann": 0.45, "Bob": 0.45, "Cat": 0.10})
    async with open_paper(polymarket.settings, polymarket.place(cash=100.0)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        for name in ("one", "two", "three"):
            plan = await polymarket.plan(question, beliefs, await book.account())
            if plan.order is not None:
                await send(book, name, plan.order, question.ref)
        before = await book.account()
        held_of = {(one.option, one.leg): one.shares for one in before.positions}
        assert held_of.keys() == {("Ann", ContractSide.NO), ("Bob", ContractSide.YES)}
        for market in markets:
            polymarket.venue.world.resolve(market, "1" if market.item == "Ann" else "0")
        assert await book.settle(await polymarket.resolutions(f"event:{event.id}")) == 2
        after = await book.account()
    assert after.positions == ()
    assert after.cash == pytest.approx(before.cash)


async def test_an_order_that_waits_is_filled_by_trades_of_the_venue(polymarket: PaperFixture) -> None:
    waits = polymarket.with_settings(order_type="GTD", order_lifetime_s=3600)
    world = polymarket.venue.world
    market = world.add_market("Will it rain?", **BOOK)  # type: ignore[arg-type]
    question = await polymarket.question(market.condition)
    async with open_paper(waits.settings, polymarket.place(cash=100.0)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        plan = await waits.plan(question, BinaryPrediction(0.75), await book.account())
        assert plan.order is not None
        assert plan.order.limit == 0.56
        await send(book, "one", plan.order, question.ref)
        assert await book.advance() == 0
        polymarket.clock.advance_without_waking(30)
        # Paper orders are in no real book: a seller meets the bid below.
        world.trade(market, "SELL", "7")
        polymarket.clock.advance_without_waking(30)
        assert await book.advance() == 1
        (position,) = (await book.account()).positions
    assert (position.shares, position.paid) == (7.0, 3.92)


async def test_pm_x1_paper_posts_nothing_but_questions_about_books(polymarket: PaperFixture) -> None:
    await test_from_belief_to_payout(polymarket)
    written = [(one.method, one.path) for one in polymarket.venue.requests if one.method != "GET"]
    assert set(written) == {("POST", "/books")}
    assert polymarket.venue.ledger.effects("order") == []


def test_pm_x1_pm_r1_neither_planning_nor_paper_loads_the_client_that_can_sign() -> None:
    code = (
        "import sys; from plugins.polymarket import foxcast_venues; foxcast_venues();"
        "import plugins.polymarket.paper_market, plugins.polymarket.planner;"
        "print([name for name in sys.modules if name.split('.')[0] in ('polymarket', 'eth_account', 'web3')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
