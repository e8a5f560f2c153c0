"""The fake site on a real socket, and the plugin in front of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.api import Batch, Question, Receipt, Sealed, WriterPlace
from bot.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.testing.clock import FakeClock
from bot.testing.venues.kit import Served, serve
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.metaculus_state import Forecast, User
from bot.testing.venues.metaculus_state import Question as There
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.venue import MetaculusVenue
from plugins.metaculus.writer import MetaculusWriter

TOKEN = "5f1d0b7e" * 5
# That of nobody.
OTHER = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site with our account on it, and both halves of the plugin, on one clock that stands still."""

    fake: FakeMetaculus
    served: Served
    bot: User
    clock: FakeClock
    place: WriterPlace
    settings: MetaculusSettings
    reader: MetaculusVenue
    writer: MetaculusWriter

    def set(self, **changes: Any) -> "Site":
        """The same site with other settings of the plugin."""
        settings = MetaculusSettings.model_validate({**self.settings.model_dump(), **changes})
        reader, writer = MetaculusVenue(settings, self.place), MetaculusWriter(settings, self.place)
        return replace(self, settings=settings, reader=reader, writer=writer)

    async def questions(self) -> list[Question]:
        return [question async for question in self.reader.questions()]

    async def sealed(self, batch: Batch) -> Batch:
        return replace(batch, sealed=tuple(await self.writer.seal(batch)))

    async def send(self, batch: Batch) -> list[Receipt]:
        """Seal and submit, as the outbox does."""
        return list(await self.writer.submit(await self.sealed(batch)))

    def ours(self, question: There) -> list[Forecast]:
        """Our forecasts that stand on a question, by the site's own books."""
        return [one for one in question.of(self.bot.id) if one.stands(self.clock.now().timestamp())]

    def writes(self) -> list[str]:
        """The paths of all that was posted."""
        return [heard.path for heard in self.fake.requests if heard.method == "POST"]


def one_sealed(batch: Batch) -> Sealed:
    [sealed] = batch.sealed
    return sealed


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    clock = FakeClock()
    fake = FakeMetaculus(clock)
    bot = fake.world.add_user("samplebot", token=TOKEN)
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with (
        serve(fake) as served,
        RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=limits) as http,
        HttpWriteClient(rates=RateLimiter((), clock=SystemClock(), random=SeededRandom(1))) as wire,
    ):
        place = WriterPlace(clock=clock, http=http, folder=tmp_path, wire=wire)
        settings = MetaculusSettings(token=SecretStr(TOKEN), base_url=served.url, tournaments=("sample-aib",))
        yield Site(
            fake=fake,
            served=served,
            bot=bot,
            clock=clock,
            place=place,
            settings=settings,
            reader=MetaculusVenue(settings, place),
            writer=MetaculusWriter(settings, place),
        )
