"""A plugin for measurements: a venue with as many questions as wanted, and a search engine with long results."""

import json
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.api import (
    BinaryShape,
    LocalPath,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    SearchEngine,
    SearchResult,
    SearchSpec,
    Target,
    VenueReader,
    VenueSpec,
    hookimpl,
)
from bot.testing.venue import FakeVenueReader

VENUE = "workload"
CRITERIA = "Resolves to yes if the keeper of the harbour says in public that the lamp was lit before the date. " * 4


class WorkloadSettings(PluginSettings):
    """How many questions are open, and where the CPU of each thread is noted at the end."""

    questions: int = 1
    threads_file: LocalPath | None = None


class WorkloadSearchSettings(PluginSettings):
    """How many results a search has, and how long each is."""

    results: int = 1
    chars: int = 200


class WorkloadSearchEngine:
    """Implements SearchEngine: other addresses and texts for each query."""

    def __init__(self, settings: WorkloadSearchSettings) -> None:
        self._settings = settings
        self._searches = 0

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        self._searches += 1
        at = datetime.now(UTC) - timedelta(days=2)
        return [
            SearchResult(
                url=f"https://news.example/{self._searches}/{number}",
                title=f"Report {number} of search {self._searches}",
                snippet=(f"Report {self._searches}-{number}: harbour, keeper and oil. " * 200)[: self._settings.chars],
                published_at=at,
            )
            for number in range(self._settings.results)
        ]


def make_question(number: int, now: datetime) -> Question:
    """Return one open question."""
    return Question(
        ref=QuestionRef(VENUE, f"lamp-{number}"),
        title=f"Will lamp {number} of the harbour be lit this month?",
        shape=BinaryShape(),
        targets=(Target(),),
        criteria=CRITERIA,
        closes_at=now + timedelta(days=30),
    )


def read_thread_times() -> dict[str, float]:
    """Return the seconds of CPU that threads of this process have used, by name; nothing where no /proc tells."""
    times: dict[str, float] = {}
    for thread in threading.enumerate():
        status = Path(f"/proc/self/task/{thread.native_id}/stat")
        if status.exists():
            # The name is in brackets; user and system time are the 14th and 15th field.
            fields = status.read_text().rpartition(")")[2].split()
            name = thread.name.rstrip("0123456789").rstrip("_-")
            times[name] = times.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return times


@asynccontextmanager
async def open_reader(settings: WorkloadSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    now = context.clock.now()
    try:
        yield FakeVenueReader([make_question(number, now) for number in range(settings.questions)])
    finally:
        if settings.threads_file is not None:
            settings.threads_file.write_text(json.dumps(read_thread_times()))


@asynccontextmanager
async def open_search(settings: WorkloadSearchSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    yield WorkloadSearchEngine(settings)


@hookimpl
def foxcast_venues() -> list[VenueSpec[WorkloadSettings]]:
    return [VenueSpec(name=VENUE, summary="Many questions", settings=WorkloadSettings, reader=open_reader)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[WorkloadSearchSettings]]:
    return [
        SearchSpec(
            name="finder",
            summary="Long results",
            settings=WorkloadSearchSettings,
            open=open_search,
            bounds_dates=True,
        )
    ]
