"""Requests that are made and not sent."""

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from bot.core.clock import SeededRandom
from bot.core.errors import AuthenticationError, FoxcastError, RequestRejectedError
from bot.core.redaction import register_secrets, temporary_secrets
from bot.core.submissions import ExecutionMode, SealedRequest, SendDecision, SubmissionBatch
from bot.core.venue_http import HttpRequest
from bot.execution.gate.decision_context import DecisionContext
from bot.execution.preflight import (
    RequestPreview,
    RequestPreviewContext,
    open_refusing_client,
    preview_requests,
    redact_body,
)
from bot.net.rate_limit import RateLimiter
from bot.testing.venue import FakeSubmitter
from tests.unit.jobs.conftest import JobsFixture
from tests.unit.jobs.test_preflight import looked
from tests.unit.jobs.trading_fixture import FakeTradingAccount, TradingFixture


class FakeSealingBook(FakeTradingAccount):
    """Seals what it is told to."""

    body = '{"amount": 5, "apiKey": "k", "order":{"signature":"0xabc","note":"k-secret-123456"}}'
    fault: Exception | None = None

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        if self.fault is not None:
            raise self.fault
        until = self.clock() + timedelta(seconds=60)
        return [SealedRequest(intent=intent.id, tag="t", body=self.body, fence=until) for intent in batch.intents]


async def sends(trading_fixture: TradingFixture) -> list[tuple[DecisionContext, SendDecision]]:
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    found = await looked(trading_fixture)
    return [(one.context, one.decision) for one in found.values() if isinstance(one.decision, SendDecision)]


async def rehearsed(
    trading_fixture: TradingFixture, writer: FakeSubmitter, *, comments: bool = False
) -> RequestPreview:
    parts = RequestPreviewContext(ledger=trading_fixture.jobs_fixture.ledger, writer=writer, comments=comments)
    [found] = (await preview_requests(parts, await sends(trading_fixture))).values()
    return found


async def test_the_request_is_shown_without_what_is_secret_and_nothing_is_submitted(jobs_fixture: JobsFixture) -> None:
    trading_fixture, writer = TradingFixture.of(jobs_fixture), FakeSealingBook(jobs_fixture.clock.now)
    with temporary_secrets():
        register_secrets("k-secret-123456")
        found = await rehearsed(trading_fixture, writer)
    assert found.sealed is not None
    assert json.loads(found.sealed.body) == {
        "amount": 5,
        "apiKey": "(left out)",
        "order": {"signature": "(left out)", "note": "(secret-left-out)"},
    }
    assert found.sealed.fence == jobs_fixture.clock.now() + timedelta(seconds=60)
    assert (writer.writes, found.comment) == ([], "")


async def test_where_nothing_is_secret_the_bytes_are_those_that_would_leave() -> None:
    body = '[{"question": 5,  "p": 0.70}]'
    assert redact_body(body) == body
    with temporary_secrets():
        register_secrets("other secret")
        assert redact_body("no json, other secret") == "no json, (secret-left-out)"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (RequestRejectedError("closed"), "closed"),
        (AuthenticationError("no key"), "no key"),
        (KeyError("pool"), "the writer failed: KeyError"),
    ],
)
async def test_why_a_request_cannot_be_made_is_told(jobs_fixture: JobsFixture, fault: Exception, why: str) -> None:
    writer = FakeSealingBook(jobs_fixture.clock.now)
    writer.fault = fault
    found = await rehearsed(TradingFixture.of(jobs_fixture), writer)
    assert (found.sealed, found.why) == (None, why)


async def test_a_writer_without_requests_shows_none_and_the_comment_is_shown_where_one_goes(
    jobs_fixture: JobsFixture,
) -> None:
    found = await rehearsed(TradingFixture.of(jobs_fixture), FakeSubmitter(), comments=True)
    assert (found.sealed, found.why) == (None, "")
    assert found.comment.startswith("Forecast 30.0%")


async def test_the_wire_of_a_preflight_takes_nothing(jobs_fixture: JobsFixture) -> None:
    rates = RateLimiter((), clock=jobs_fixture.clock, random=SeededRandom(1))
    async with open_refusing_client(rates=rates) as wire:
        with pytest.raises(FoxcastError, match="a preflight sends nothing, so this POST was not sent") as caught:
            await wire.send(HttpRequest(method="POST", url="http://127.0.0.1:9/bet"), max_bytes=1, deadline_s=1.0)
    assert isinstance(caught.value, RequestRejectedError)
