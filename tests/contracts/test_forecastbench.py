import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from bot.api import Batch, IntentState, PaperPlace, Question, Settings, Submitter, VenueSpec, WriterPlace
from bot.testing.clock import FakeClock
from bot.testing.contracts import ArchiveContract, SubmitterContract, VenueContract
from bot.testing.http import DictHttp
from bot.testing.wires import MemoryWire
from plugins.forecastbench import foxcast_venues
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings
from tests.plugins.forecastbench.records import batch as answered

SPEC: VenueSpec[Any] = foxcast_venues()[0]
ROUND = "2026-06-07"


@pytest.fixture(scope="module")
def questions() -> tuple[Question, ...]:
    return ForecastBenchArchive(ForecastBenchSettings(), Path("sample")).round(ROUND).questions


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[Settings] = ForecastBenchSettings(rounds="all", upload_folder=Path(__file__).parent)
    remote: ClassVar[Settings] = ForecastBenchSettings(source="https://example.org/datasets")


class TestArchive(ArchiveContract):
    spec = SPEC
    settings: ClassVar[Settings] = ForecastBenchSettings()
    late = datetime(2026, 9, 1, tzinfo=UTC)

    @pytest.fixture
    def folder(self) -> Path:
        return Path("sample")


class FileContract(SubmitterContract):
    """What paper book and live writer have in common: one file in the fixture ``folder``."""

    @pytest.fixture
    def batch(self, questions: tuple[Question, ...]) -> Batch:
        return answered(questions)

    @pytest.fixture
    def refused_batch(self, batch: Batch) -> Batch:
        return replace(batch, key="no due date")

    @pytest.fixture
    def answers(self, folder: Path) -> Callable[[], int]:
        return lambda: sum(len(json.loads(path.read_bytes())["forecasts"]) for path in folder.glob("*"))

    async def test_half_a_round_is_absent_and_stands_once_it_comes_whole(
        self, submitter: Submitter, batch: Batch, answers: Callable[[], int]
    ) -> None:
        half = replace(batch, intents=batch.intents[: len(batch.intents) // 2])
        receipts = await submitter.submit(half)
        assert {receipt.state for receipt in receipts} == {IntentState.ABSENT}
        assert answers() == 0
        assert {receipt.state for receipt in await submitter.submit(batch)} == {IntentState.ACKED}


def paper_place(folder: Path, now: datetime) -> PaperPlace:
    return PaperPlace(clock=FakeClock(now), http=DictHttp({}), folder=folder, cash=1.0, delay_s=0.0)


def writer_place(folder: Path, now: datetime) -> WriterPlace:
    return WriterPlace(clock=FakeClock(now), http=DictHttp({}), folder=folder, wire=MemoryWire())


class TestPaperBook(FileContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "forecast_sets"

    @pytest.fixture
    async def submitter(self, tmp_path: Path) -> AsyncIterator[Submitter]:
        assert SPEC.paper is not None
        async with SPEC.paper(ForecastBenchSettings(), paper_place(tmp_path, datetime(2026, 9, 1, tzinfo=UTC))) as book:
            yield book


class TestWriter(FileContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    async def submitter(self, tmp_path: Path) -> AsyncIterator[Submitter]:
        assert SPEC.writer is not None
        settings = ForecastBenchSettings(upload_folder=tmp_path)
        async with SPEC.writer(settings, writer_place(tmp_path, datetime(2026, 6, 7, 12, tzinfo=UTC))) as writer:
            yield writer
