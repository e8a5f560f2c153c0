"""A market that is edited while an order on it is on its way: before it is signed, and when it is posted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.api import IntentState, Question, SealedRequest
from bot.core.questions import describe_changes
from bot.simulator.faults import RequestFault
from tests.order_intents import make_intent, seal_and_submit, seal_batch
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, WriterFixture, open_writer_fixture, order_of


def assert_unwritten(made: SealedRequest, question: Question) -> None:
    """The writer made no request, and shows what the question says now."""
    assert (made.body, made.tag) == ("", "")
    assert made.question is not None
    assert describe_changes(question, made.question) == ("the resolution criteria changed",)


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


async def test_pm_v6_a_market_that_is_edited_while_it_is_read_is_not_signed_for(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await polymarket.question(market)
    polymarket.venue.faults.schedule(RequestFault.EDITED, path="/gamma")
    [made] = (await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question)))).sealed
    assert_unwritten(made, question)
    assert polymarket.venue.faults.injected == {RequestFault.EDITED: 1}
    asked = [request["do"] for line in polymarket.lines for request in line.asked]
    assert "order" not in asked
    assert polymarket.asked("/order") == []


async def test_pm_v6_an_edit_that_comes_after_the_signature_stops_the_next_order(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await polymarket.question(market)
    writer = polymarket.writer()
    polymarket.venue.faults.schedule(RequestFault.EDITED, method="POST", path="/order")
    batch, receipt = await seal_and_submit(writer, question, order_of(question, size="10"))
    assert polymarket.venue.faults.injected == {RequestFault.EDITED: 1}
    # The venue knows no version of rules in an order, so this one stands.
    assert (receipt.state, polymarket.effects()) == (IntentState.ACKED, [batch.sealed[0].tag])
    [made] = (
        await seal_batch(writer, question, make_intent(question, order_of(question, size="10"), name="i2"))
    ).sealed
    assert_unwritten(made, question)
    assert len(polymarket.asked("/order")) == 1
