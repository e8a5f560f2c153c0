"""What the tests of the data sources share: moments with their last whole day, replies as bytes, and real questions."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from bot.api import DataSource, PluginContext, Question, TimeSeries
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FixedResponseClient
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings

EAST = timezone(timedelta(hours=14))
WEST = timezone(timedelta(hours=-11))
# Moments and, worked out by hand, the last day in UTC that was over.
LAST_DAYS = {
    datetime(2026, 3, 5, tzinfo=UTC): "2026-03-04",
    datetime(2026, 3, 5, 0, 0, 1, tzinfo=UTC): "2026-03-04",
    datetime(2026, 3, 4, 23, 59, 59, 999_999, tzinfo=UTC): "2026-03-03",
    datetime(2024, 3, 1, tzinfo=UTC): "2024-02-29",
    datetime(2026, 1, 1, 12, tzinfo=UTC): "2025-12-31",
    datetime(2026, 3, 5, 13, 59, tzinfo=EAST): "2026-03-03",
    datetime(2026, 3, 5, 14, tzinfo=EAST): "2026-03-04",
    datetime(2026, 3, 4, 13, tzinfo=WEST): "2026-03-04",
}


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def asked_in(url: str) -> dict[str, str]:
    return {key: value for key, (value,) in parse_qs(urlsplit(url).query, keep_blank_values=True).items()}


def answered(answer: bytes | Exception, folder: Path, *, now: datetime) -> tuple[PluginContext, FixedResponseClient]:
    http = FixedResponseClient(answer)
    return PluginContext(clock=FakeClock(now), http=http, folder=folder), http


def web(pages: Mapping[str, bytes | Exception], folder: Path, *, now: datetime) -> tuple[PluginContext, FakeHttpClient]:
    http = FakeHttpClient(pages)
    return PluginContext(clock=FakeClock(now), http=http, folder=folder), http


def points(found: TimeSeries) -> dict[str, float]:
    return {day.isoformat(): value for day, value in zip(found.dates, found.values, strict=True)}


def real_questions(shared: Path, source: str) -> Iterator[Question]:
    """Yield the questions of that source in all published rounds, one of each id."""
    return (question for question in _questions(shared) if question.source == source)


@lru_cache(maxsize=1)
def _questions(shared: Path) -> tuple[Question, ...]:
    archive = ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")
    rounds = [archive.read_round(key) for key in archive.round_keys()]
    return tuple({question.series: question for found in rounds for question in found.questions}.values())


def names_of_all(source: DataSource, questions: Iterator[Question]) -> list[str]:
    """Return the name of each question's series; fails for one that has none or several."""
    named = []
    for question in questions:
        (name,) = source.series_names(question)
        named.append(name)
    return named
