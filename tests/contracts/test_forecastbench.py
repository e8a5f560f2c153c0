import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from bot.api import (
    IntentState,
    PaperBookContext,
    PluginSettings,
    Question,
    SubmissionBatch,
    VenueSpec,
    VenueSubmitter,
    VenueWriterContext,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FakeWriteClient
from bot.testing.submitter_contracts import SubmitterContract
from bot.testing.venue_contracts import ArchiveContract, VenueContract
from plugins.forecastbench import foxcast_venues
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings
from tests.plugins.forecastbench.records import batch as answered

SPEC: VenueSpec[Any] = foxcast_venues()[0]
ROUND = "2026-06-07"


@pytest.fixture(scope="module")
def questions() -> tuple[Question, ...]:
    return ForecastBenchArchive(ForecastBenchSettings(), Path("sample")).read_round(ROUND).questions


class TestReader(VenueContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = ForecastBenchSettings(rounds="all", upload_folder=Path(__file__).parent)
    remote_settings: ClassVar[PluginSettings] = ForecastBenchSettings(source="https://example.org/datasets")


class TestArchive(ArchiveContract):
    spec = SPEC
    settings: ClassVar[PluginSettings] = ForecastBenchSettings()
    known_before = datetime(2026, 9, 1, tzinfo=UTC)

    @pytest.fixture
    def folder(self) -> Path:
        return Path("sample")


class FileContract(SubmitterContract):
    """What paper book and live writer have in common: one file in the fixture ``folder``."""

    @pytest.fixture
    def batch(self, questions: tuple[Question, ...]) -> SubmissionBatch:
        return answered(questions)

    @pytest.fixture
    def refused_batch(self, batch: SubmissionBatch) -> SubmissionBatch:
        return replace(batch, key="no due date")

    @pytest.fixture
    def answers(self, folder: Path) -> Callable[[], int]:
        return lambda: sum(len(json.loads(path.read_bytes())["forecasts"]) for path in folder.glob("*"))

    async def test_half_a_round_is_absent_and_stands_once_it_comes_whole(
        self, submitter: VenueSubmitter, batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        half = replace(batch, intents=batch.intents[: len(batch.intents) // 2])
        receipts = await submitter.submit(half)
        assert {receipt.state for receipt in receipts} == {IntentState.ABSENT}
        assert answers() == 0
        assert {receipt.state for receipt in await submitter.submit(batch)} == {IntentState.ACKED}


def paper_place(folder: Path, now: datetime) -> PaperBookContext:
    return PaperBookContext(clock=FakeClock(now), http=FakeHttpClient({}), folder=folder, cash=1.0, delay_s=0.0)


def writer_place(folder: Path, now: datetime) -> VenueWriterContext:
    return VenueWriterContext(clock=FakeClock(now), http=FakeHttpClient({}), folder=folder, wire=FakeWriteClient())


class TestPaperBook(FileContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "forecast_sets"

    @pytest.fixture
    async def submitter(self, tmp_path: Path) -> AsyncIterator[VenueSubmitter]:
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
    async def submitter(self, tmp_path: Path) -> AsyncIterator[VenueSubmitter]:
        assert SPEC.writer is not None
        settings = ForecastBenchSettings(upload_folder=tmp_path)
        async with SPEC.writer(settings, writer_place(tmp_path, datetime(2026, 6, 7, 12, tzinfo=UTC))) as writer:
            yield writer
