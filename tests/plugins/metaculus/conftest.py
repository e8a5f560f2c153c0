"""The fake site on a real socket, and the plugin in front of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.api import Question, SealedRequest, SubmissionBatch, VenueWriterContext, WriteReceipt
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_state import FakeMetaculusForecast, FakeMetaculusUser
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from bot.testing.clock import FakeClock
from plugins.metaculus.reader import MetaculusReader
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.writer import MetaculusWriter

TOKEN = "5f1d0b7e" * 5
# That of nobody.
OTHER = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaculusFixture:
    """A site with our account on it, and both halves of the plugin, on one clock that stands still."""

    fake: FakeMetaculus
    served: ServedService
    bot: FakeMetaculusUser
    clock: FakeClock
    place: VenueWriterContext
    settings: MetaculusSettings
    reader: MetaculusReader
    writer: MetaculusWriter

    def set(self, **changes: Any) -> "MetaculusFixture":
        """The same site with other settings of the plugin."""
        settings = MetaculusSettings.model_validate({**self.settings.model_dump(), **changes})
        reader, writer = MetaculusReader(settings, self.place), MetaculusWriter(settings, self.place)
        return replace(self, settings=settings, reader=reader, writer=writer)

    async def questions(self) -> list[Question]:
        return [question async for question in self.reader.questions()]

    async def sealed(self, batch: SubmissionBatch) -> SubmissionBatch:
        return replace(batch, sealed=tuple(await self.writer.seal_requests(batch)))

    async def send(self, batch: SubmissionBatch) -> list[WriteReceipt]:
        """Seal and submit, as the outbox does."""
        return list(await self.writer.submit(await self.sealed(batch)))

    def ours(self, question: There) -> list[FakeMetaculusForecast]:
        """Our forecasts that stand on a question, by the site's own books."""
        return [one for one in question.forecasts_of(self.bot.id) if one.is_standing(self.clock.now().timestamp())]

    def writes(self) -> list[str]:
        """The paths of all that was posted."""
        return [heard.path for heard in self.fake.requests if heard.method == "POST"]


def one_sealed(batch: SubmissionBatch) -> SealedRequest:
    [sealed] = batch.sealed
    return sealed


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[MetaculusFixture]:
    clock = FakeClock()
    fake = FakeMetaculus(clock)
    bot = fake.world.add_user("samplebot", token=TOKEN)
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with (
        serve_service(fake) as served,
        RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=limits) as http,
        HttpWriteClient(rates=RateLimiter((), clock=SystemClock(), random=SeededRandom(1))) as wire,
    ):
        place = VenueWriterContext(clock=clock, http=http, folder=tmp_path, wire=wire)
        settings = MetaculusSettings(token=SecretStr(TOKEN), base_url=served.url, tournaments=("sample-aib",))
        yield MetaculusFixture(
            fake=fake,
            served=served,
            bot=bot,
            clock=clock,
            place=place,
            settings=settings,
            reader=MetaculusReader(settings, place),
            writer=MetaculusWriter(settings, place),
        )
