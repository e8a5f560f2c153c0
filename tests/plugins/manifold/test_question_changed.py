"""A market that is edited after its forecast: what the writer reads decides, and nothing is bet on the new question."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bot.api import BinaryPrediction, ChoicePrediction, ChoiceShape, ExecutionMode, Intent, IntentAction, IntentState
from bot.core.submissions import SendDecision
from bot.simulator.venues.manifold_state import FakeManifoldAnswer, FakeManifoldMarket
from bot.store.forecast_queries import read_forecast_status
from tests.plugins.manifold.fixture import ManifoldFixture, order_of
from tests.plugins.manifold.test_through_outbox import OutboxSetup
from tests.plugins.manifold.test_through_outbox import outbox_setup as desk_fixture
from tests.recorded_forecasts import record_forecast

outbox_setup = desk_fixture

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Other", 0.2))
YEAR_MS = 365 * 86_400_000


def binary(manifold: ManifoldFixture) -> FakeManifoldMarket:
    return manifold.world.add_market(description="Rain at Orly.")


def winner(manifold: ManifoldFixture) -> FakeManifoldMarket:
    return manifold.world.add_market("Who?", type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)


def apart(manifold: ManifoldFixture) -> FakeManifoldMarket:
    return manifold.world.add_market("Which?", type="MULTIPLE_CHOICE", answers=THREE)


def with_dan(manifold: ManifoldFixture, market: FakeManifoldMarket) -> None:
    manifold.world.add_answer(market, "Dan")


def renamed(manifold: ManifoldFixture, market: FakeManifoldMarket) -> None:
    market.answers[0].text = "Anna"
    manifold.world.edit(market)


def longer(manifold: ManifoldFixture, market: FakeManifoldMarket) -> None:
    manifold.world.edit(market, closes=(market.closes or 0) + YEAR_MS)


def edited(**fields: Any) -> Callable[[ManifoldFixture, FakeManifoldMarket], None]:
    return lambda manifold, market: manifold.world.edit(market, **fields)


@dataclass(frozen=True, slots=True)
class MarketEdit:
    """A market, what is done to it after its forecast, and what a person reads of it."""

    ask: Callable[[ManifoldFixture], FakeManifoldMarket]
    edit: Callable[[ManifoldFixture, FakeManifoldMarket], None]
    expected_changes: tuple[str, ...]


EDITS = {
    "description": MarketEdit(
        binary, edited(description="Rain at Orly. Snow counts."), ("the question changed: the description changed",)
    ),
    "title": MarketEdit(binary, edited(question="Will it snow?"), ('is "Will it snow?" now',)),
    "closing": MarketEdit(binary, longer, ("it was to close on", "and closes on")),
    "an answer added": MarketEdit(winner, with_dan, ('option "Dan" was added',)),
    "an answer renamed": MarketEdit(winner, renamed, ('option "Anna" was added', 'option "Ann" was removed')),
    "the answer itself": MarketEdit(apart, renamed, ('is "Which?: Anna" now',)),
}


async def plan(outbox_setup: OutboxSetup, market: FakeManifoldMarket) -> Intent:
    """An order on the first answer, or on the whole, decided to leave."""
    now, manifold = outbox_setup.manifold.clock.now(), outbox_setup.manifold
    answer: FakeManifoldAnswer | None = market.answers[0] if market.answers else None
    question = await manifold.question(market, None if market.sums_to_one else answer)
    await outbox_setup.ledger.questions.record([question], seen_at=now)
    choice = isinstance(question.shape, ChoiceShape)
    belief = ChoicePrediction({"Ann": 0.7, "Bob": 0.2, "Other": 0.1}) if choice else BinaryPrediction(0.7)
    forecast = await record_forecast(outbox_setup.ledger, question, {"outcome": belief}, now)
    order = order_of(market, answer=answer, option="Ann" if choice else "", limit="0.60")
    intent = Intent(
        id="one",
        account="default",
        ref=question.ref,
        forecast=forecast.id,
        action=IntentAction.ORDER,
        predictions=forecast.predictions,
        batch="one",
        order=order,
    )
    send = SendDecision(intent=intent, mode=ExecutionMode.LIVE, why="armed")
    await outbox_setup.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=now)
    return intent


@pytest.mark.parametrize("name", EDITS)
async def test_nothing_is_bet_on_a_market_that_changed_after_its_forecast(outbox_setup: OutboxSetup, name: str) -> None:
    case, manifold = EDITS[name], outbox_setup.manifold
    market = case.ask(manifold)
    intent = await plan(outbox_setup, market)
    manifold.clock.advance_without_waking(1)
    case.edit(manifold, market)
    assert await outbox_setup.outbox().flush() == 0
    assert outbox_setup.bets() == 0
    assert await outbox_setup.state(intent) is IntentState.SUPERSEDED
    [*_, held] = await outbox_setup.ledger.submissions.decisions(intent.forecast)
    assert [words for words in case.expected_changes if words not in held.decision.why] == [], held.decision.why
    place = (await read_forecast_status(outbox_setup.ledger.forecasts.readers, intent.ref, "plain")).place
    assert place is not None
    assert place.due_at == manifold.clock.now()


async def test_trades_of_others_hold_nothing(outbox_setup: OutboxSetup) -> None:
    manifold = outbox_setup.manifold
    market = binary(manifold)
    intent = await plan(outbox_setup, market)
    manifold.clock.advance_without_waking(1)
    manifold.world.move_price(market, 0.52)
    assert await outbox_setup.outbox().flush() == 1
    assert await outbox_setup.state(intent) is IntentState.ACKED
