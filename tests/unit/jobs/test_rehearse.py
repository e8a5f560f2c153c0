"""Requests that are made and not sent."""

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from bot.clock import SeededRandom
from bot.domain.submission import Batch, Mode, Sealed, Send
from bot.domain.wire import Request
from bot.errors import FoxcastError, Rejected, Unauthorized
from bot.gate.case import Case
from bot.jobs.rehearse import Rehearsal, Rehearsing, no_wire, rehearse, without_secrets
from bot.net.rate_limit import RateLimiter
from bot.redact import forgetting, learn
from bot.testing.book import MemoryBook
from tests.unit.jobs.conftest import House
from tests.unit.jobs.market import Broker, Shopfloor
from tests.unit.jobs.test_preflight import looked


class Talker(Broker):
    """Seals what it is told to."""

    body = '{"amount": 5, "apiKey": "k", "order":{"signature":"0xabc","note":"k-secret-123456"}}'
    fault: Exception | None = None

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        if self.fault is not None:
            raise self.fault
        until = self.clock() + timedelta(seconds=60)
        return [Sealed(intent=intent.id, tag="t", body=self.body, fence=until) for intent in batch.intents]


async def sends(floor: Shopfloor) -> list[tuple[Case, Send]]:
    floor.bound(Mode.LIVE)
    await floor.arm()
    await floor.forecast("rain")
    found = await looked(floor)
    return [(one.case, one.decision) for one in found.values() if isinstance(one.decision, Send)]


async def rehearsed(floor: Shopfloor, writer: MemoryBook, *, comments: bool = False) -> Rehearsal:
    parts = Rehearsing(ledger=floor.house.ledger, writer=writer, comments=comments)
    [found] = (await rehearse(parts, await sends(floor))).values()
    return found


async def test_the_request_is_shown_without_what_is_secret_and_nothing_is_submitted(house: House) -> None:
    floor, writer = Shopfloor.of(house), Talker(house.clock.now)
    with forgetting():
        learn("k-secret-123456")
        found = await rehearsed(floor, writer)
    assert found.sealed is not None
    assert json.loads(found.sealed.body) == {
        "amount": 5,
        "apiKey": "(left out)",
        "order": {"signature": "(left out)", "note": "(secret-left-out)"},
    }
    assert found.sealed.fence == house.clock.now() + timedelta(seconds=60)
    assert (writer.writes, found.comment) == ([], "")


async def test_where_nothing_is_secret_the_bytes_are_those_that_would_leave() -> None:
    body = '[{"question": 5,  "p": 0.70}]'
    assert without_secrets(body) == body
    with forgetting():
        learn("other secret")
        assert without_secrets("no json, other secret") == "no json, (secret-left-out)"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Rejected("closed"), "closed"),
        (Unauthorized("no key"), "no key"),
        (KeyError("pool"), "the writer failed: KeyError"),
    ],
)
async def test_why_a_request_cannot_be_made_is_told(house: House, fault: Exception, why: str) -> None:
    writer = Talker(house.clock.now)
    writer.fault = fault
    found = await rehearsed(Shopfloor.of(house), writer)
    assert (found.sealed, found.why) == (None, why)


async def test_a_writer_without_requests_shows_none_and_the_comment_is_shown_where_one_goes(house: House) -> None:
    found = await rehearsed(Shopfloor.of(house), MemoryBook(), comments=True)
    assert (found.sealed, found.why) == (None, "")
    assert found.comment.startswith("Forecast 30.0%")


async def test_the_wire_of_a_preflight_takes_nothing(house: House) -> None:
    rates = RateLimiter((), clock=house.clock, random=SeededRandom(1))
    async with no_wire(rates=rates) as wire:
        with pytest.raises(FoxcastError, match="a preflight sends nothing, so this POST was not sent") as caught:
            await wire.send(Request(method="POST", url="http://127.0.0.1:9/bet"), max_bytes=1, deadline_s=1.0)
    assert isinstance(caught.value, Rejected)
