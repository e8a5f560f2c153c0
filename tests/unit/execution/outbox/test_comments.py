"""Comments and withdrawals: each alone, after what it belongs to, and never twice."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.core.interfaces import Clock
from bot.core.submissions import (
    HoldDecision,
    Intent,
    IntentAction,
    IntentState,
    SealedRequest,
    SubmissionBatch,
    WriteReceipt,
)
from bot.testing.exchange import FakeExchange, WriteFailure
from tests.unit.execution.outbox.conftest import OutboxFixture

S = IntentState


async def test_a_comment_follows_what_it_belongs_to(trading: OutboxFixture) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    intent = await trading.plan(await trading.forecast())
    comment = await trading.comment(intent)
    talking.next_failures = [WriteFailure.REPLY_LOST]
    await trading.outbox().flush()
    await trading.outbox().flush()
    assert (await trading.state(intent), await trading.state(comment), talking.said) == (S.UNKNOWN, S.PLANNED, [])
    await trading.outbox().reconcile()
    assert await trading.outbox().flush() == 1
    assert (await trading.state(comment), talking.said) == (S.ACKED, [comment.id])
    assert await trading.outbox().flush() == 0


async def test_a_comment_in_doubt_is_read_back_alone_and_holds_back_nothing_else(trading: OutboxFixture) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    intent = await trading.plan(await trading.forecast())
    comment = await trading.comment(intent)
    talking.mumbles = [WriteFailure.REPLY_LOST]
    await trading.outbox().flush()
    assert (await trading.state(intent), await trading.state(comment)) == (S.ACKED, S.UNKNOWN)
    await trading.jobs_fixture.ledger.submissions.decide(
        forecast_id=intent.forecast, decision=HoldDecision(why="later"), at=trading.jobs_fixture.clock.now()
    )
    await trading.outbox().flush()
    await trading.outbox().reconcile()
    assert (await trading.state(comment), talking.said) == (S.ACKED, [comment.id])


@pytest.mark.parametrize("fate", [S.REFUSED, S.SUPERSEDED])
async def test_a_comment_on_what_never_stood_is_not_made(trading: OutboxFixture, fate: S) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    intent = await trading.plan(await trading.forecast())
    comment = await trading.comment(intent)
    if fate is S.REFUSED:
        talking.next_failures = [WriteFailure.REFUSED]
        await trading.outbox().flush()
    else:
        await trading.jobs_fixture.ledger.submissions.abandon(intent.id, why="old", at=trading.jobs_fixture.clock.now())
    await trading.outbox().flush()
    assert (await trading.state(intent), await trading.state(comment), talking.said) == (fate, S.SUPERSEDED, [])


async def test_a_comment_that_did_not_get_through_goes_again_after_a_while(trading: OutboxFixture) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    comment = await trading.comment(await trading.plan(await trading.forecast()))
    talking.next_failures = [WriteFailure.REPLY_LOST]
    await trading.outbox().flush()
    await trading.outbox().reconcile()
    talking.mumbles = [WriteFailure.NOT_SENT]
    await trading.jobs_fixture.clock.advance(1)
    await trading.outbox().flush()
    for _ in range(3):
        await trading.outbox().flush()
    assert talking.said == []
    await trading.jobs_fixture.clock.advance(300)
    await trading.outbox().flush()
    assert (await trading.state(comment), talking.said) == (S.ACKED, [comment.id])


async def test_a_withdrawal_that_must_wait_stays_planned(trading: OutboxFixture) -> None:
    async def halted(_: Intent) -> str | None:
        return "halted"

    forecast = await trading.forecast()
    name = "withdrawal"
    intent = await trading.plan(forecast)
    away = await trading.decide(
        replace(intent, id=name, batch=name, action=IntentAction.WITHDRAW, order=None, predictions={})
    )
    trading.recheck = halted
    assert await trading.outbox().flush() == 0
    assert (await trading.state(intent), await trading.state(away)) == (S.SUPERSEDED, S.PLANNED)


class FakeCommentExchange(FakeExchange):
    """An exchange where things are said, too."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.said: list[str] = []
        self.mumbles: list[WriteFailure] = []

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().seal_requests(batch)
        return [SealedRequest(intent=intent.id, tag=f"comment {intent.id}", body=intent.text)]

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().submit(batch)
        failure = self.mumbles.pop(0) if self.mumbles else None
        if failure is WriteFailure.NOT_SENT:
            return [WriteReceipt(intent=intent.id, state=S.ABSENT)]
        self.said.append(intent.id)
        return [WriteReceipt(intent=intent.id, state=S.UNKNOWN if failure else S.ACKED)]

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        [intent] = batch.intents
        if intent.action is IntentAction.ORDER:
            return await super().read_submissions(batch)
        return [WriteReceipt(intent=intent.id, state=S.ACKED if intent.id in self.said else S.ABSENT)]


async def test_a_comment_without_a_forecast_says_that_it_is_missing(trading: OutboxFixture) -> None:
    trading.exchange = FakeCommentExchange(trading.jobs_fixture.clock)
    forecast = await trading.forecast()
    alone = Intent(
        id="comment alone",
        account="me",
        ref=forecast.ref,
        forecast=forecast.id,
        action=IntentAction.COMMENT,
        predictions={},
        batch="comment alone",
        text="Because.",
    )
    await trading.decide(alone)
    await trading.outbox().flush()
    row = await trading.jobs_fixture.ledger.submissions.get(alone.id)
    assert (row.state, row.detail) == (S.SUPERSEDED, "its forecast is missing")


async def test_once_the_program_ends_no_comment_is_begun(trading: OutboxFixture) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    comment = await trading.comment(await trading.plan(await trading.forecast()))
    await trading.outbox().flush()
    trading.jobs_fixture.offer("snow")
    other = await trading.comment(await trading.plan(await trading.forecast("snow")))
    stopping = replace(trading.outbox(), is_stopping=lambda: len(talking.placed_orders) == 2)
    await stopping.flush()
    assert talking.said == [comment.id]
    assert await trading.state(other) is S.PLANNED


async def test_comments_of_one_batch_are_read_back_one_by_one_and_all_are_counted(trading: OutboxFixture) -> None:
    trading.exchange = talking = FakeCommentExchange(trading.jobs_fixture.clock)
    comments = []
    for key in ("a", "b"):
        order = await trading.plan(await trading.forecast(key))
        said = replace(order, id=f"comment {key}", batch="comments", action=IntentAction.COMMENT, text="Because.")
        comments.append(await trading.decide(replace(said, order=None)))
    talking.mumbles = [WriteFailure.REPLY_LOST] * 2
    await trading.outbox().flush()
    assert [await trading.state(one) for one in comments] == [S.UNKNOWN] * 2
    assert await trading.outbox().reconcile() == 2
    assert [await trading.state(one) for one in comments] == [S.ACKED] * 2
