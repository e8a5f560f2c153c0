"""Replies in the form of the service's /v22/series/{provider}/{dataset}/{series}."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import MalformedDataError, NotFoundError, PluginSettings
from bot.testing.data_contract import UNRELATED_QUESTION, TimeSeriesContract
from plugins.data.dbnomics import DbnomicsSeries, DbnomicsSettings, foxcast_data_sources
from tests.plugins.data.shared_values import LAST_DAYS, answered, as_json, names_of_all, points, real_questions

NAME = "meteofrance/TEMPERATURE/celsius.07607.D"
URL = f"https://api.db.nomics.world/v22/series/{NAME}?observations=1&metadata=0"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)


def reply(frequency: str, *values: tuple[str, Any]) -> dict[str, Any]:
    return {
        "_meta": {"args": {"observations": True}, "version": "22.1.17"},
        "series": {
            "docs": [
                {
                    "@frequency": frequency,
                    "dataset_code": "TEMPERATURE",
                    "dataset_name": "Average temperature by day and by station for France",
                    "dimensions": {"FREQ": "D", "station": "07607", "unit": "celsius"},
                    "indexed_at": "2026-11-21T20:41:09.512Z",
                    "period": [day for day, _ in values],
                    "period_start_day": [day for day, _ in values],
                    "provider_code": "meteofrance",
                    "series_code": "celsius.07607.D",
                    "series_name": "Degree Celsius - MONT-DE-MARSAN - Daily",
                    "value": [value for _, value in values],
                }
            ],
            "limit": 1000,
            "num_found": 1,
            "offset": 0,
        },
    }


DAILY = reply("daily", ("2026-03-02", 9.5), ("2026-03-03", "NA"), ("2026-03-04", 11), ("2026-03-05", 12.25))


class TestDbnomics(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = DbnomicsSettings()
    pages: ClassVar = {URL: as_json(DAILY)}
    now = NOW
    name = NAME
    before = BEFORE
    beyond = b'"2026-03-05"'
    missing = "meteofrance/TEMPERATURE/celsius.00000.D"


async def series(body: bytes, folder: Path, *, name: str = NAME, before: datetime = BEFORE) -> dict[str, float]:
    context, _ = answered(body, folder, now=NOW)
    return points(await DbnomicsSeries(DbnomicsSettings(), context).series(name, before=before))


async def test_missing_days_are_left_out(tmp_path: Path) -> None:
    assert await series(as_json(DAILY), tmp_path) == {"2026-03-02": 9.5, "2026-03-04": 11.0}


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_last_whole_day_is_the_last(before: datetime, tmp_path: Path) -> None:
    days = [date.fromisoformat(LAST_DAYS[before]) + timedelta(days=step) for step in (-1, 0, 1, 2)]
    found = await series(as_json(reply("daily", *((str(day), 1.0) for day in days))), tmp_path, before=before)
    assert list(found) == [str(day) for day in days[:2]]


@pytest.mark.parametrize(
    ("frequency", "over", "running"),
    [
        ("weekly", "2026-02-26", "2026-02-27"),
        ("monthly", "2026-02-01", "2026-03-01"),
        ("quarterly", "2025-10-01", "2026-01-01"),
        ("annual", "2025-01-01", "2026-01-01"),
    ],
)
async def test_a_period_counts_once_it_is_over(frequency: str, over: str, running: str, tmp_path: Path) -> None:
    assert list(await series(as_json(reply(frequency, (over, 1.0), (running, 2.0))), tmp_path)) == [over]


@pytest.mark.parametrize(
    ("frequency", "start", "next_start"),
    [
        ("weekly", "2026-02-23", "2026-03-02"),
        ("bi-weekly", "2026-02-16", "2026-03-02"),
        ("monthly", "2026-02-01", "2026-03-01"),
        ("monthly", "2024-02-01", "2024-03-01"),
        ("monthly", "2025-12-01", "2026-01-01"),
        ("bi-monthly", "2026-01-01", "2026-03-01"),
        ("quarterly", "2026-01-01", "2026-04-01"),
        ("bi-annual", "2026-01-01", "2026-07-01"),
        ("annual", "2025-01-01", "2026-01-01"),
        ("annual", "2025-07-01", "2026-07-01"),
    ],
)
async def test_a_period_is_over_when_the_next_begins(
    frequency: str, start: str, next_start: str, tmp_path: Path
) -> None:
    body = as_json(reply(frequency, (start, 1.0)))
    end = datetime.fromisoformat(next_start).replace(tzinfo=UTC)
    assert await series(body, tmp_path, before=end) == {start: 1.0}
    with pytest.raises(NotFoundError, match="nothing before"):
        await series(body, tmp_path, before=end - timedelta(microseconds=1))


@given(
    start=st.dates(min_value=date(1950, 1, 1), max_value=date(2100, 1, 1)),
    count=st.integers(1, 60),
    before=st.datetimes(min_value=datetime(1960, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
)
async def test_whatever_comes_what_is_kept_was_over(
    start: date, count: int, before: datetime, tmp_path_factory: pytest.TempPathFactory
) -> None:
    days = [start + timedelta(days=step) for step in range(count)]
    body = as_json(reply("daily", *((str(day), float(step)) for step, day in enumerate(days))))
    expected = {
        str(day): float(step)
        for step, day in enumerate(days)
        if datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) <= before
    }
    context, _ = answered(body, tmp_path_factory.getbasetemp(), now=NOW)
    source = DbnomicsSeries(DbnomicsSettings(), context)
    if not expected:
        with pytest.raises(NotFoundError):
            await source.series(NAME, before=before)
    else:
        assert points(await source.series(NAME, before=before)) == expected


@pytest.mark.parametrize(
    "odd",
    [
        reply("daily", ("2026-03-02", "warm")),
        reply("hourly", ("2026-03-02", 1.0)),
        reply("daily", ("2026-13-02", 1.0)),
        {"series": {"docs": [{"@frequency": "daily", "period_start_day": ["2026-03-02"], "value": [1.0, 2.0]}]}},
    ],
)
async def test_an_odd_series_is_a_contract_error(odd: object, tmp_path: Path) -> None:
    with pytest.raises(MalformedDataError):
        await series(as_json(odd), tmp_path)


async def test_numbers_beyond_floats_are_a_contract_error(tmp_path: Path) -> None:
    body = as_json(reply("daily", ("2026-03-02", 1.0)))
    for number in (b"NaN", b"1e999", b"9" * 400):
        with pytest.raises(MalformedDataError):
            await series(body.replace(b"[1.0]", b"[%s]" % number), tmp_path)


async def test_a_reply_without_series_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no series"):
        await series(as_json({"errors": [{"message": "not found"}], "series": {"docs": [], "num_found": 0}}), tmp_path)


@pytest.mark.parametrize("name", ["", "a/b", "a/b/c/d", "a//c", "../../x", "a/./c"])
async def test_a_name_of_another_form_is_not_found_without_asking(name: str, tmp_path: Path) -> None:
    context, http = answered(as_json(DAILY), tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="provider/dataset/series"):
        await DbnomicsSeries(DbnomicsSettings(), context).series(name, before=BEFORE)
    assert http.requests == []


async def test_a_code_cannot_leave_its_place_in_the_address(tmp_path: Path) -> None:
    context, http = answered(as_json(DAILY), tmp_path, now=NOW)
    await DbnomicsSeries(DbnomicsSettings(), context).series("a?b/c#d/e%2F", before=BEFORE)
    assert http.requests[0].url == "https://api.db.nomics.world/v22/series/a%3Fb/c%23d/e%252F?observations=1&metadata=0"


def test_every_real_question_names_its_series(shared: Path, tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    source = DbnomicsSeries(DbnomicsSettings(), context)
    named = names_of_all(source, real_questions(shared, "dbnomics"))
    assert len(named) == len(set(named)) == 53
    assert all(re.fullmatch(r"meteofrance/TEMPERATURE/celsius\.\d{5}\.D", name) for name in named)
    bare = (replace(question, url=None) for question in real_questions(shared, "dbnomics"))
    assert names_of_all(source, bare) == named


def test_an_id_that_cannot_be_taken_apart_has_no_name(tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    odd = replace(UNRELATED_QUESTION, source="dbnomics", url=None, source_id="meteofrance")
    assert list(DbnomicsSeries(DbnomicsSettings(), context).series_names(odd)) == []
