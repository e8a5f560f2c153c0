"""The contract kits on the Metaculus plugin: the reader on recorded forms, the writer in front of the fake site."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest
from pydantic import SecretStr

from bot.api import (
    BinaryPrediction,
    IntentState,
    PaperBookContext,
    PluginSettings,
    Question,
    RequestRejectedError,
    SealingSubmitter,
    SubmissionBatch,
    VenueSpec,
    VenueSubmitter,
    WriteReceipt,
)
from bot.simulator.faults import RequestFault
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.submitter_contracts import SubmitterContract
from bot.testing.venue_contracts import VenueContract
from plugins.metaculus import foxcast_venues
from plugins.metaculus.api_client import QueryParameters, api_url
from plugins.metaculus.paper_record import MetaculusPaperRecord
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.question_names import question_ref
from plugins.metaculus.settings import MetaculusSettings
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.conftest import site as site_fixture
from tests.plugins.metaculus.records import batch as batch_of
from tests.plugins.metaculus.records import choice, group, intent, numeric, post, question

SPEC: VenueSpec[Any] = foxcast_venues()[0]
SETTINGS = MetaculusSettings(token=SecretStr("5f1d0b7e" * 5), tournaments=("sample-aib",))
RESOLVED = {"status": "resolved", "resolution_set_time": "2026-01-05T00:00:00Z"}

site = site_fixture


def listing(*posts: object) -> bytes:
    return json.dumps({"next": "https://www.metaculus.com/api/posts/", "previous": None, "results": posts}).encode()


def pages() -> Mapping[str, bytes]:
    """The open list, and the outcome of every second question of it."""
    asked: QueryParameters = {"tournaments": "sample-aib", "statuses": "open", "with_cp": "true", "limit": 100}
    ids: QueryParameters = {"ids": [40001, 40003, 40004], "with_cp": "true", "limit": 100}
    return {
        api_url(SETTINGS, "posts/", asked): listing(
            post(40001),
            post(40002, question=numeric(50002)),
            post(40003, question=choice(50003)),
            group(question(50004, label="France"), question(50005, label="Spain"), number=40004),
        ),
        api_url(SETTINGS, "posts/", ids): listing(
            post(40001, question=question(50001, resolution="yes", **RESOLVED)),
            post(40003, question=choice(50003, resolution="Green", **RESOLVED)),
            group(question(50004), question(50005, resolution="annulled", **RESOLVED), number=40004),
        ),
    }


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = SETTINGS
    remote_settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()
    ignored_parameter: ClassVar[str] = "fresh"


class SealingWriter:
    """Seals what it is to submit, as the outbox does."""

    def __init__(self, writer: SealingSubmitter) -> None:
        self._writer = writer

    async def submit(self, batch: SubmissionBatch) -> list[WriteReceipt]:
        try:
            sealed = tuple(await self._writer.seal_requests(batch))
        except RequestRejectedError as error:
            return [WriteReceipt(intent=one.id, state=IntentState.REFUSED, detail=str(error)) for one in batch.intents]
        return list(await self._writer.submit(replace(batch, sealed=sealed)))

    async def read_submissions(self, batch: SubmissionBatch) -> list[WriteReceipt]:
        return list(await self._writer.read_submissions(batch))


class TestWriter(SubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"

    @pytest.fixture
    def submitter(self, site: MetaculusFixture) -> VenueSubmitter:
        return SealingWriter(site.writer)

    @pytest.fixture
    def batch(self, site: MetaculusFixture) -> SubmissionBatch:
        rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
        return batch_of(
            intent(question_ref(rain.post, rain.id)), intent(question_ref(snow.post, snow.id), BinaryPrediction(0.4))
        )

    @pytest.fixture
    def refused_batch(self, site: MetaculusFixture) -> SubmissionBatch:
        """Sealed while the question was open, which it is not any more when the request arrives."""
        rain = site.fake.world.add_question("Rain?")
        site.fake.faults.schedule(RequestFault.CLOSING, method="POST")
        return batch_of(intent(question_ref(rain.post, rain.id)))

    @pytest.fixture
    def answers(self, site: MetaculusFixture) -> Callable[[], int]:
        return lambda: sum(len(site.ours(one)) for one in site.fake.state.questions.values())


class TestPaperRecord(SubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"

    @pytest.fixture
    async def paper(self, tmp_path: Path) -> AsyncIterator[MetaculusPaperRecord]:
        place = PaperBookContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path, cash=1000.0, delay_s=2.0)
        assert SPEC.paper is not None
        async with SPEC.paper(SETTINGS, place) as book:
            yield cast("MetaculusPaperRecord", book)

    @pytest.fixture
    def submitter(self, paper: MetaculusPaperRecord) -> VenueSubmitter:
        return SealingWriter(paper)

    @pytest.fixture
    def batch(self) -> SubmissionBatch:
        rain, snow = asked(post(40001)), asked(post(40002))
        return batch_of(intent(rain.ref), intent(snow.ref, BinaryPrediction(0.4)), questions=(rain, snow))

    @pytest.fixture
    def refused_batch(self) -> SubmissionBatch:
        over = asked(post(40001, question=question(50001, scheduled_close_time="2026-01-01T00:00:00Z", open_time=None)))
        return batch_of(intent(over.ref), questions=(over,))

    @pytest.fixture
    def answers(self, tmp_path: Path) -> Callable[[], int]:
        def count() -> int:
            with closing(sqlite3.connect(tmp_path / "standing.sqlite")) as database:
                sql = "select count(*) from statement where action = 'forecast' and ended_at is null"
                return int(database.execute(sql).fetchone()[0])

        return count


def asked(raw: object) -> Question:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(raw)
    return build_question(unpacked.entries[0])


def test_the_folder_of_this_plugin_names_its_host() -> None:
    hosts = (Path(__file__).resolve().parents[2] / "plugins/hosts.txt").read_text().splitlines()
    assert set(SPEC.hosts) <= set(hosts)
