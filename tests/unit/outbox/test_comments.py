"""Comments and withdrawals: each alone, after what it belongs to, and never twice."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.domain.submission import Batch, Hold, Intent, IntentAction, IntentState, Receipt, Sealed
from bot.ports import Clock
from bot.testing.exchange import MemoryExchange, Mishap
from tests.unit.outbox.conftest import Floor

S = IntentState


async def test_a_comment_follows_what_it_belongs_to(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    talking.mishaps = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment), talking.said) == (S.UNKNOWN, S.PLANNED, [])
    await floor.outbox().reconcile()
    assert await floor.outbox().flush() == 1
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])
    assert await floor.outbox().flush() == 0


async def test_a_comment_in_doubt_is_read_back_alone_and_holds_back_nothing_else(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    talking.mumbles = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment)) == (S.ACKED, S.UNKNOWN)
    await floor.house.ledger.submissions.decide(
        forecast_id=intent.forecast, decision=Hold(why="later"), at=floor.house.clock.now()
    )
    await floor.outbox().flush()
    await floor.outbox().reconcile()
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])


@pytest.mark.parametrize("fate", [S.REFUSED, S.SUPERSEDED])
async def test_a_comment_on_what_never_stood_is_not_made(floor: Floor, fate: S) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    intent = await floor.plan(await floor.forecast())
    comment = await floor.comment(intent)
    if fate is S.REFUSED:
        talking.mishaps = [Mishap.REFUSED]
        await floor.outbox().flush()
    else:
        await floor.house.ledger.submissions.abandon(intent.id, why="old", at=floor.house.clock.now())
    await floor.outbox().flush()
    assert (await floor.state(intent), await floor.state(comment), talking.said) == (fate, S.SUPERSEDED, [])


async def test_a_comment_that_did_not_get_through_goes_again_after_a_while(floor: Floor) -> None:
    floor.exchange = talking = Talking(floor.house.clock)
    comment = await floor.comment(await floor.plan(await floor.forecast()))
    talking.mishaps = [Mishap.REPLY_LOST]
    await floor.outbox().flush()
    await floor.outbox().reconcile()
    talking.mumbles = [Mishap.NOT_SENT]
    await floor.house.clock.advance(1)
    await floor.outbox().flush()
    for _ in range(3):
        await floor.outbox().flush()
    assert talking.said == []
    await floor.house.clock.advance(300)
    await floor.outbox().flush()
    assert (await floor.state(comment), talking.said) == (S.ACKED, [comment.id])


async def test_a_withdrawal_that_must_wait_stays_planned(floor: Floor) -> None:
    async def halted(_: Intent) -> str | None:
        return "halted"

    forecast = await floor.forecast()
    name = "withdrawal"
    intent = await floor.plan(forecast)
    away = await floor.decide(
        replace(intent, id=name, batch=name, action=IntentAction.WITHDRAW, order=None, predictions={})
    )
    floor.recheck = halted
    assert await floor.outbox().flush() == 0
    assert (await floor.state(intent), await floor.state(away)) == (S.SUPERSEDED, S.PLANNED)


class Talking(MemoryExchange):
    """An exchange where things are said, too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.said: list[str] = []
        self.mumbles: list[Mishap] = []

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().seal(batch)
        return [Sealed(intent=intent.id, tag=f"comment {intent.id}", body=intent.text)]

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().submit(batch)
        mishap = self.mumbles.pop(0) if self.mumbles else None
        if mishap is Mishap.NOT_SENT:
            return [Receipt(intent=intent.id, state=S.ABSENT)]
        self.said.append(intent.id)
        return [Receipt(intent=intent.id, state=S.UNKNOWN if mishap else S.ACKED)]

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().standing(batch)
        return [Receipt(intent=intent.id, state=S.ACKED if intent.id in self.said else S.ABSENT)]
