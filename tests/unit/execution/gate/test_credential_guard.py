"""Credentials that a venue refused: it is asked nothing more, over restarts, until they change or a person says so."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import AuthenticationError, HttpErrorResponse, RequestRejectedError
from bot.core.values import Json
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.execution.gate.credential_guard import (
    REFUSAL_WINDOW,
    CredentialGuard,
    GuardedHttpClient,
    GuardedWriteClient,
)
from bot.store import permissions
from bot.store.ledger import Ledger
from bot.store.permissions import HaltEndCondition, SubmissionHalt
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger

VENUE = "lantern"
ADDRESS = "https://lantern.example/me"


@dataclass
class FakeRefusingServer:
    """Answers every request with a status, reading and writing."""

    status: int
    asked: int = 0
    body: str = '{"detail": "Invalid token."}'
    bodies: list[Json] = field(default_factory=list)

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        error = AuthenticationError(f"{url}: status {self.status}")
        error.refusal = HttpErrorResponse(status=self.status, body=self.body)
        raise error

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        self.bodies.append(body)
        return await self.get(url, max_bytes=max_bytes, headers=headers)

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        self.asked += 1
        return HttpResponse(status=self.status, body=self.body.encode())


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=FakeClock().now()) as ledger:
        yield ledger


def credentials(ledger: Ledger, clock: FakeClock, *, key: str = "old", final: int = 1) -> CredentialGuard:
    return CredentialGuard(
        venue=VENUE,
        is_refusal=lambda refusal: refusal.status == 401,
        final_refusals=final,
        compute_digest=lambda: f"digest of {key}",
        ledger=ledger,
        clock=clock,
    )


async def asked_in_vain(http: GuardedHttpClient) -> str:
    with pytest.raises(AuthenticationError) as error:
        await http.get(ADDRESS, max_bytes=100)
    return str(error.value)


async def standing(ledger: Ledger) -> list[SubmissionHalt]:
    return await ledger.permissions.read(permissions.list_active_halts)


async def test_after_a_refusal_nothing_more_leaves_by_reading_or_writing(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(401)
    http, wire = GuardedHttpClient(inner, one), GuardedWriteClient(inner, one)
    await asked_in_vain(http)
    reported = await asked_in_vain(http)
    assert "the credentials were refused (status 401: Invalid token.)" in reported
    with pytest.raises(AuthenticationError) as error:
        await http.post(ADDRESS, {}, max_bytes=100)
    assert not error.value.sent
    with pytest.raises(RequestRejectedError):
        await wire.send(HttpRequest(method="POST", url=ADDRESS), max_bytes=100, deadline_s=1.0)
    assert inner.asked == 1
    [stop] = await standing(ledger)
    assert (stop.venue, stop.end_condition, stop.credentials) == (VENUE, HaltEndCondition.RENEWED, "digest of old")
    assert [row.kind for row in await ledger.permissions.recent_audit_rows(limit=9)] == ["stop"]
    assert len(await ledger.events.recent(9, "alert")) == 1


async def test_an_answer_to_a_write_tells_as_well(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(401)
    reply = await GuardedWriteClient(inner, one).send(
        HttpRequest(method="POST", url=ADDRESS), max_bytes=100, deadline_s=1.0
    )
    assert reply.status == 401
    assert len(await standing(ledger)) == 1


async def test_several_that_were_under_way_make_one_stop(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(401)
    await asyncio.gather(*(asked_in_vain(GuardedHttpClient(inner, one)) for _ in range(5)))
    assert len(await standing(ledger)) == 1


async def test_a_refusal_of_one_item_stops_nothing(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(403)
    for _ in range(3):
        await asked_in_vain(GuardedHttpClient(inner, one))
    assert (inner.asked, await standing(ledger)) == (3, [])


async def test_where_the_first_is_not_final_a_second_one_soon_after_is(ledger: Ledger) -> None:
    clock, inner = FakeClock(), FakeRefusingServer(401)
    one = credentials(ledger, clock, final=2)
    await asked_in_vain(GuardedHttpClient(inner, one))
    await clock.advance(timedelta(minutes=11).total_seconds())
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert await standing(ledger) == []
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert len(await standing(ledger)) == 1


@pytest.mark.parametrize(("key", "asked"), [("old", 0), ("new", 1)])
async def test_the_next_start_asks_with_other_credentials_alone(ledger: Ledger, key: str, asked: int) -> None:
    await asked_in_vain(GuardedHttpClient(FakeRefusingServer(401), credentials(ledger, FakeClock())))
    again, inner = credentials(ledger, FakeClock(), key=key), FakeRefusingServer(403)
    await again.load_refusal()
    assert len(await standing(ledger)) == 1 - asked
    reported = await asked_in_vain(GuardedHttpClient(inner, again))
    assert (inner.asked, "renew them" in reported) == (asked, not asked)


async def test_a_person_who_resumes_has_it_asked_again(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(401)
    await asked_in_vain(GuardedHttpClient(inner, one))
    one.clear_refusal()
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert inner.asked == 2


async def test_a_resume_while_the_halt_is_written_leaves_the_credentials_refused(ledger: Ledger) -> None:
    one, inner = credentials(ledger, FakeClock()), FakeRefusingServer(401)
    refused = asyncio.create_task(asked_in_vain(GuardedHttpClient(inner, one)))
    while not one.refusal_reason:  # noqa: ASYNC110 - the refusal sets it between two turns of the event loop
        await asyncio.sleep(0)
    # Nothing is awaited before the resume, so the halt is still being written.
    assert not refused.done()
    one.clear_refusal()
    await refused
    assert len(await standing(ledger)) == 1
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert inner.asked == 1


async def test_two_refusals_exactly_the_window_apart_are_not_taken_together(ledger: Ledger) -> None:
    clock, inner = FakeClock(), FakeRefusingServer(401)
    one = credentials(ledger, clock, final=2)
    await asked_in_vain(GuardedHttpClient(inner, one))
    await clock.advance(REFUSAL_WINDOW.total_seconds())
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert await standing(ledger) == []
    await clock.advance(REFUSAL_WINDOW.total_seconds() - 1.0)
    await asked_in_vain(GuardedHttpClient(inner, one))
    assert len(await standing(ledger)) == 1


@pytest.mark.parametrize(("status", "halts"), [(399, 0), (400, 1)])
async def test_each_answer_to_a_write_from_400_on_is_looked_at(ledger: Ledger, status: int, halts: int) -> None:
    one = replace(credentials(ledger, FakeClock()), is_refusal=lambda _: True)
    request = HttpRequest(method="POST", url=ADDRESS)
    await GuardedWriteClient(FakeRefusingServer(status), one).send(request, max_bytes=100, deadline_s=1.0)
    assert len(await standing(ledger)) == halts
