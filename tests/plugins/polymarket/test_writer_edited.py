"""A market that is edited while an order on it is on its way: before it is signed, and when it is posted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.api import IntentState, Question, Sealed, describe_changes
from bot.testing.venues.faults import Fault
from tests.intents import intent_of, placed, sealed
from tests.plugins.polymarket.writer_stand import BOOK, FEES, Stand, order_of, standing


def assert_unwritten(made: Sealed, question: Question) -> None:
    """The writer made no request, and shows what the question says now."""
    assert (made.body, made.tag) == ("", "")
    assert made.question is not None
    assert describe_changes(question, made.question) == ("the resolution criteria changed",)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        yield opened


async def test_pm_v6_a_market_that_is_edited_while_it_is_read_is_not_signed_for(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await stand.question(market)
    stand.venue.faults.next(Fault.EDITED, path="/gamma")
    [made] = (await sealed(stand.writer(), question, intent_of(question, order_of(question)))).sealed
    assert_unwritten(made, question)
    assert stand.venue.faults.injected == {Fault.EDITED: 1}
    asked = [request["do"] for line in stand.lines for request in line.asked]
    assert "order" not in asked
    assert stand.asked("/order") == []


async def test_pm_v6_an_edit_that_comes_after_the_signature_stops_the_next_order(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await stand.question(market)
    writer = stand.writer()
    stand.venue.faults.next(Fault.EDITED, method="POST", path="/order")
    batch, receipt = await placed(writer, question, order_of(question, size="10"))
    assert stand.venue.faults.injected == {Fault.EDITED: 1}
    # The venue knows no version of rules in an order, so this one stands.
    assert (receipt.state, stand.effects()) == (IntentState.ACKED, [batch.sealed[0].tag])
    [made] = (await sealed(writer, question, intent_of(question, order_of(question, size="10"), name="i2"))).sealed
    assert_unwritten(made, question)
    assert len(stand.asked("/order")) == 1
