"""Replies in the form of the service's documentation of fred/series and fred/series/observations."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from bot.api import AuthenticationError, MalformedDataError, NotFoundError, PluginSettings, RequestRejectedError
from bot.testing.data_contract import UNRELATED_QUESTION, TimeSeriesContract
from plugins.data.fred import FredSeries, FredSettings, foxcast_data_sources
from tests.plugins.data.shared_values import (
    LAST_DAYS,
    answered,
    as_json,
    asked_in,
    names_of_all,
    points,
    real_questions,
    web,
)

KEY = "abcdef0123456789abcdef0123456789"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
SETTINGS = FredSettings(key=SecretStr(KEY), years=2)
HOST = "https://api.stlouisfed.org"
ABOUT = {
    "realtime_start": "2026-03-04",
    "realtime_end": "2026-03-04",
    "seriess": [
        {
            "id": "DGS10",
            "realtime_start": "2026-03-04",
            "realtime_end": "2026-03-04",
            "title": "Market Yield on U.S. Treasury Securities at 10-Year Constant Maturity",
            "observation_start": "1962-01-02",
            "observation_end": "2026-03-03",
            "frequency": "Daily",
            "units": "Percent",
            "seasonal_adjustment": "Not Seasonally Adjusted",
            "last_updated": "2026-03-04 15:16:21-06",
        }
    ],
}


def observations(*values: tuple[str, Any]) -> dict[str, Any]:
    shared = {"realtime_start": "2026-03-04", "realtime_end": "2026-03-04"}
    return {
        **shared,
        "observation_start": "2024-03-01",
        "observation_end": "2026-03-04",
        "units": "lin",
        "output_type": 1,
        "file_type": "json",
        "order_by": "observation_date",
        "sort_order": "asc",
        "count": len(values),
        "offset": 0,
        "limit": 100000,
        "observations": [{**shared, "date": date, "value": value} for date, value in values],
    }


SERIES = observations(
    ("2026-02-27", "4.01"), ("2026-03-02", "."), ("2026-03-03", "4.05"), ("2026-03-04", "4.10"), ("2026-03-05", "9.99")
)
VINTAGE = "realtime_start=2026-03-04&realtime_end=2026-03-04"
SPAN = "observation_start=2024-03-01&observation_end=2026-03-04"
ABOUT_URL = f"{HOST}/fred/series?series_id=DGS10&{VINTAGE}&file_type=json&api_key={KEY}"
SERIES_URL = f"{HOST}/fred/series/observations?series_id=DGS10&{VINTAGE}&{SPAN}&file_type=json&api_key={KEY}"
PROBE_URL = f"{HOST}/fred/series?series_id=GNPCA&file_type=json&api_key={KEY}"


class TestFred(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = {ABOUT_URL: as_json(ABOUT), SERIES_URL: as_json(SERIES)}
    now = NOW
    secret = KEY
    rejection_error = AuthenticationError
    name = "DGS10"
    before = BEFORE
    beyond = b'"2026-03-05"'
    missing = "NO_SUCH"


async def test_the_vintage_of_the_day_before_is_read_without_missing_values(tmp_path: Path) -> None:
    context, http = web({ABOUT_URL: as_json(ABOUT), SERIES_URL: as_json(SERIES)}, tmp_path, now=NOW)
    found = await FredSeries(SETTINGS, context).series("DGS10", before=BEFORE)
    assert points(found) == {"2026-02-27": 4.01, "2026-03-03": 4.05, "2026-03-04": 4.10}
    assert found.unit == "Percent"
    assert http.requested_urls == [ABOUT_URL, SERIES_URL]


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_vintage_is_of_the_last_whole_day(before: datetime, tmp_path: Path) -> None:
    context, http = answered(as_json(ABOUT | observations(("1999-12-31", "1"))), tmp_path, now=NOW)
    await FredSeries(SETTINGS, context).series("DGS10", before=before)
    for request in http.requests:
        asked = asked_in(request.url)
        assert asked["realtime_start"] == asked["realtime_end"] == LAST_DAYS[before]
    assert asked_in(http.requests[-1].url)["observation_end"] == LAST_DAYS[before]


async def test_a_series_that_the_service_refuses_is_not_found_where_the_key_is_good(tmp_path: Path) -> None:
    context, http = web({ABOUT_URL: RequestRejectedError("400"), PROBE_URL: as_json(ABOUT)}, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match=r"no series DGS10, or its archive has nothing of it as of 2026-03-04"):
        await FredSeries(SETTINGS, context).series("DGS10", before=BEFORE)
    assert http.requested_urls == [ABOUT_URL, PROBE_URL]


async def test_a_refused_key_says_which_setting_to_renew(tmp_path: Path) -> None:
    context, _ = web(
        {ABOUT_URL: RequestRejectedError("400"), PROBE_URL: RequestRejectedError("400")}, tmp_path, now=NOW
    )
    with pytest.raises(AuthenticationError, match=r"setting key of \[data\.fred\]"):
        await FredSeries(SETTINGS, context).series("DGS10", before=BEFORE)


async def test_a_series_without_any_value_before_the_moment_is_not_found(tmp_path: Path) -> None:
    later = as_json(observations(("2026-03-02", "."), ("2026-03-05", "1")))
    context, _ = web({ABOUT_URL: as_json(ABOUT), SERIES_URL: later}, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="nothing before"):
        await FredSeries(SETTINGS, context).series("DGS10", before=BEFORE)


@pytest.mark.parametrize("value", ["NaN", "inf", "1e999", "", "4,05", None, True, []])
async def test_a_value_that_is_no_finite_number_is_a_contract_error(value: object, tmp_path: Path) -> None:
    odd = as_json(observations(("2026-03-03", value)))
    context, _ = web({ABOUT_URL: as_json(ABOUT), SERIES_URL: odd}, tmp_path, now=NOW)
    with pytest.raises(MalformedDataError, match="documented form"):
        await FredSeries(SETTINGS, context).series("DGS10", before=BEFORE)


async def test_a_name_cannot_add_to_the_request(tmp_path: Path) -> None:
    context, http = answered(NotFoundError("404"), tmp_path, now=NOW)
    with pytest.raises(NotFoundError):
        await FredSeries(SETTINGS, context).series("X&realtime_end=9999-12-31#", before=BEFORE)
    assert asked_in(http.requests[0].url)["series_id"] == "X&realtime_end=9999-12-31#"
    assert asked_in(http.requests[0].url)["realtime_end"] == "2026-03-04"


def test_every_real_question_names_its_series(shared: Path, tmp_path: Path) -> None:
    context, _ = web({}, tmp_path, now=NOW)
    named = names_of_all(FredSeries(SETTINGS, context), real_questions(shared, "fred"))
    assert len(named) == len(set(named)) == 163
    assert all(re.fullmatch(r"[A-Z0-9]+", name) for name in named)


def test_a_question_elsewhere_with_the_address_of_a_series_names_it(tmp_path: Path) -> None:
    context, _ = web({}, tmp_path, now=NOW)
    linked = replace(UNRELATED_QUESTION, url="https://fred.stlouisfed.org/series/UNRATE")
    assert list(FredSeries(SETTINGS, context).series_names(linked)) == ["UNRATE"]
