"""A market that is edited after its forecast: what the writer reads decides, and nothing is bet on the new question."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bot.api import Binary, Choice, ChoiceShape, Intent, IntentAction, IntentState, Mode
from bot.domain.submission import Send
from bot.store.attempts import standing_of
from bot.testing.records import forecast_on_record
from bot.testing.venues.manifold_state import Answer, Market
from tests.plugins.manifold.stand import Stand, order_of
from tests.plugins.manifold.test_through_outbox import Desk
from tests.plugins.manifold.test_through_outbox import desk as desk_fixture

desk = desk_fixture

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Other", 0.2))
YEAR_MS = 365 * 86_400_000


def binary(stand: Stand) -> Market:
    return stand.world.add_market(description="Rain at Orly.")


def winner(stand: Stand) -> Market:
    return stand.world.add_market("Who?", type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)


def apart(stand: Stand) -> Market:
    return stand.world.add_market("Which?", type="MULTIPLE_CHOICE", answers=THREE)


def with_dan(stand: Stand, market: Market) -> None:
    stand.world.add_answer(market, "Dan")


def renamed(stand: Stand, market: Market) -> None:
    market.answers[0].text = "Anna"
    stand.world.edit(market)


def longer(stand: Stand, market: Market) -> None:
    stand.world.edit(market, closes=(market.closes or 0) + YEAR_MS)


def edited(**fields: Any) -> Callable[[Stand, Market], None]:
    return lambda stand, market: stand.world.edit(market, **fields)


@dataclass(frozen=True, slots=True)
class Edit:
    """A market, what is done to it after its forecast, and what a person reads of it."""

    ask: Callable[[Stand], Market]
    edit: Callable[[Stand, Market], None]
    said: tuple[str, ...]


EDITS = {
    "description": Edit(
        binary, edited(description="Rain at Orly. Snow counts."), ("the question changed: the description changed",)
    ),
    "title": Edit(binary, edited(question="Will it snow?"), ('is "Will it snow?" now',)),
    "closing": Edit(binary, longer, ("it was to close on", "and closes on")),
    "an answer added": Edit(winner, with_dan, ('option "Dan" was added',)),
    "an answer renamed": Edit(winner, renamed, ('option "Anna" was added', 'option "Ann" was removed')),
    "the answer itself": Edit(apart, renamed, ('is "Which?: Anna" now',)),
}


async def plan(desk: Desk, market: Market) -> Intent:
    """An order on the first answer, or on the whole, decided to leave."""
    now, stand = desk.stand.clock.now(), desk.stand
    answer: Answer | None = market.answers[0] if market.answers else None
    question = await stand.question(market, None if market.sums_to_one else answer)
    await desk.ledger.questions.record([question], seen_at=now)
    choice = isinstance(question.shape, ChoiceShape)
    belief = Choice({"Ann": 0.7, "Bob": 0.2, "Other": 0.1}) if choice else Binary(0.7)
    forecast = await forecast_on_record(desk.ledger, question, {"outcome": belief}, now)
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
    send = Send(intent=intent, mode=Mode.LIVE, why="armed")
    await desk.ledger.submissions.decide(forecast_id=forecast.id, decision=send, at=now)
    return intent


@pytest.mark.parametrize("name", EDITS)
async def test_nothing_is_bet_on_a_market_that_changed_after_its_forecast(desk: Desk, name: str) -> None:
    case, stand = EDITS[name], desk.stand
    market = case.ask(stand)
    intent = await plan(desk, market)
    stand.clock.pass_unnoticed(1)
    case.edit(stand, market)
    assert await desk.outbox().flush() == 0
    assert desk.bets() == 0
    assert await desk.state(intent) is IntentState.SUPERSEDED
    [*_, held] = await desk.ledger.submissions.decisions(intent.forecast)
    assert [words for words in case.said if words not in held.decision.why] == [], held.decision.why
    place = (await standing_of(desk.ledger.forecasts.readers, intent.ref, "plain")).place
    assert place is not None
    assert place.due_at == stand.clock.now()


async def test_trades_of_others_hold_nothing(desk: Desk) -> None:
    stand = desk.stand
    market = binary(stand)
    intent = await plan(desk, market)
    stand.clock.pass_unnoticed(1)
    stand.world.move(market, 0.52)
    assert await desk.outbox().flush() == 1
    assert await desk.state(intent) is IntentState.ACKED
