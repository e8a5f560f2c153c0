"""The writer in front of the signed half of the double: reads over a real socket, writes by the double's own hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.api import HttpRequest, HttpResponse, ServiceUnavailableError, VenueWriterContext
from bot.testing.clock import FakeClock
from bot.testing.http import FakeWriteClient
from bot.testing.loopback_server import ReceivedRequest
from plugins.kalshi.writer import KalshiWriter
from tests.plugins.kalshi.conftest import KalshiFixture, open_kalshi
from tests.plugins.kalshi.fake_account import KEY_ID, FakeKalshiAccount, key_text
from tests.plugins.kalshi.fake_exchange import not_found
from tests.plugins.kalshi.records import WALK_BOOK, event, quoted

A, B = "KXDEMO-26DEC31-A", "KXDEMO-26DEC31-B"


class SkippingClock(FakeClock):
    """A clock on which nobody waits: each wait moves it on at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance_without_waking(seconds)


@dataclass(slots=True)
class WriterFixture:
    """The venue with an account; ``losses`` are what happens to the next writes: request, reply, or a status."""

    kalshi: KalshiFixture
    account: FakeKalshiAccount
    losses: list[str] = field(default_factory=list)

    def writer(self) -> KalshiWriter:
        place = self.kalshi.place
        wire = FakeWriteClient(self._deliver)
        return KalshiWriter(
            self.kalshi.settings,
            VenueWriterContext(clock=place.clock, http=place.http, folder=place.folder, wire=wire),
        )

    def _deliver(self, request: HttpRequest) -> HttpResponse:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "request":
            raise ServiceUnavailableError("the connection ended")  # noqa: EM101, TRY003 - of the network
        if loss.isdigit():
            return HttpResponse(status=int(loss))
        assert request.is_cancellation is (request.method == "DELETE")
        path = "/" + request.url.partition("//")[2].partition("/")[2]
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(method=request.method, path=path, headers=headers, body=request.body or b"")
        sent = self.account.answer(received) or not_found()
        if loss == "reply":
            raise ServiceUnavailableError("the connection ended")  # noqa: EM101, TRY003 - of the network
        if loss == "gateway":
            return HttpResponse(status=502, body=b"bad gateway")
        return HttpResponse(status=sent.status, body=sent.body)


@asynccontextmanager
async def open_writer_fixture(folder: Path, clock: FakeClock | None = None) -> AsyncIterator[WriterFixture]:
    async with open_kalshi(folder, clock or SkippingClock()) as kalshi:
        key = folder / "kalshi.key"
        key.write_bytes(key_text())
        key.chmod(0o600)
        account = FakeKalshiAccount(kalshi.venue, kalshi.clock.now)
        kalshi.venue.override = account.answer
        kalshi.venue.add(event(quoted("A", "0.5500", "0.5700"), quoted("B", "0.5500", "0.5700")))
        kalshi.venue.books = {A: WALK_BOOK, B: WALK_BOOK}
        yield WriterFixture(kalshi.set(key_id=KEY_ID, key_file=key, attested=True), account)
