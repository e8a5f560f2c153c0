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
    Batch,
    Binary,
    IntentState,
    PaperPlace,
    Question,
    Receipt,
    Rejected,
    Sealer,
    Settings,
    Submitter,
    VenueSpec,
)
from bot.testing.clock import FakeClock
from bot.testing.contracts import SubmitterContract, VenueContract
from bot.testing.http import DictHttp
from bot.testing.venues.faults import Fault
from plugins.metaculus import foxcast_venues
from plugins.metaculus.client import Parameters, address
from plugins.metaculus.paper import PaperRecord
from plugins.metaculus.parse import Unpacked, question_of
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import ref_of
from tests.plugins.metaculus.conftest import Site
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
    """The open list, and what became of every second question of it."""
    asked: Parameters = {"tournaments": "sample-aib", "statuses": "open", "with_cp": "true", "limit": 100}
    ids: Parameters = {"ids": [40001, 40003, 40004], "with_cp": "true", "limit": 100}
    return {
        address(SETTINGS, "posts/", asked): listing(
            post(40001),
            post(40002, question=numeric(50002)),
            post(40003, question=choice(50003)),
            group(question(50004, label="France"), question(50005, label="Spain"), number=40004),
        ),
        address(SETTINGS, "posts/", ids): listing(
            post(40001, question=question(50001, resolution="yes", **RESOLVED)),
            post(40003, question=choice(50003, resolution="Green", **RESOLVED)),
            group(question(50004), question(50005, resolution="annulled", **RESOLVED), number=40004),
        ),
    }


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[Settings] = SETTINGS
    remote: ClassVar[Settings] = SETTINGS
    pages: ClassVar[Mapping[str, bytes | Exception]] = pages()
    idle: ClassVar[str] = "fresh"


class Sealing:
    """Seals what it is to submit, as the outbox does."""

    def __init__(self, writer: Sealer) -> None:
        self._writer = writer

    async def submit(self, batch: Batch) -> list[Receipt]:
        try:
            sealed = tuple(await self._writer.seal(batch))
        except Rejected as error:
            return [Receipt(intent=one.id, state=IntentState.REFUSED, detail=str(error)) for one in batch.intents]
        return list(await self._writer.submit(replace(batch, sealed=sealed)))

    async def standing(self, batch: Batch) -> list[Receipt]:
        return list(await self._writer.standing(batch))


class TestWriter(SubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"

    @pytest.fixture
    def submitter(self, site: Site) -> Submitter:
        return Sealing(site.writer)

    @pytest.fixture
    def batch(self, site: Site) -> Batch:
        rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
        return batch_of(intent(ref_of(rain.post, rain.id)), intent(ref_of(snow.post, snow.id), Binary(0.4)))

    @pytest.fixture
    def refused_batch(self, site: Site) -> Batch:
        """Sealed while the question was open, which it is not any more when the request arrives."""
        rain = site.fake.world.add_question("Rain?")
        site.fake.faults.next(Fault.CLOSING, method="POST")
        return batch_of(intent(ref_of(rain.post, rain.id)))

    @pytest.fixture
    def answers(self, site: Site) -> Callable[[], int]:
        return lambda: sum(len(site.ours(one)) for one in site.fake.state.questions.values())


class TestPaperRecord(SubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"

    @pytest.fixture
    async def paper(self, tmp_path: Path) -> AsyncIterator[PaperRecord]:
        place = PaperPlace(clock=FakeClock(), http=DictHttp({}), folder=tmp_path, cash=1000.0, delay_s=2.0)
        assert SPEC.paper is not None
        async with SPEC.paper(SETTINGS, place) as book:
            yield cast("PaperRecord", book)

    @pytest.fixture
    def submitter(self, paper: PaperRecord) -> Submitter:
        return Sealing(paper)

    @pytest.fixture
    def batch(self) -> Batch:
        rain, snow = asked(post(40001)), asked(post(40002))
        return batch_of(intent(rain.ref), intent(snow.ref, Binary(0.4)), questions=(rain, snow))

    @pytest.fixture
    def refused_batch(self) -> Batch:
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
    unpacked = Unpacked()
    unpacked.add(raw)
    return question_of(unpacked.entries[0])


def test_the_folder_of_this_plugin_names_its_host() -> None:
    hosts = (Path(__file__).resolve().parents[2] / "plugins/hosts.txt").read_text().splitlines()
    assert set(SPEC.hosts) <= set(hosts)
