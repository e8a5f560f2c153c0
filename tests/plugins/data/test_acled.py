"""Replies in the form of the service's guide to GET /api/acled/read."""

import hashlib
import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from bot.api import AuthenticationError, MalformedDataError, NotFoundError, PluginSettings, RequestRejectedError
from bot.testing.data_contract import TimeSeriesContract
from plugins.data.acled import EVENT_TYPES, FATALITIES, PAGE_SIZE, AcledEvents, AcledSettings, foxcast_data_sources
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

TOKEN = "token-that-must-not-be-shown"  # noqa: S105 - looked for in what is printed
SETTINGS = AcledSettings(token=SecretStr(TOKEN), windows=12)
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
# The 360 days before: 2025-03-10 is the first of them.
SPAN = "event_date=2025-03-10%7C2026-03-04&event_date_where=BETWEEN"
FIELDS = "fields=event_date%7Cevent_type%7Ccountry%7Cfatalities"


def url(more: str, page: int = 1, country: str = "Sri+Lanka") -> str:
    head = f"https://acleddata.com/api/acled/read?_format=json&country={country}"
    return f"{head}&{SPAN}{more}&{FIELDS}&limit=5000&page={page}"


def event(day: str, kind: str = "Protests", deaths: object = 0, country: str = "Sri Lanka") -> dict[str, Any]:
    return {"event_date": day, "event_type": kind, "country": country, "fatalities": deaths}


def reply(*events: dict[str, Any]) -> bytes:
    return as_json({"status": 200, "success": True, "last_update": 20, "count": len(events), "data": events})


PROTESTS = url("&event_type=Protests")
EVENTS = (
    event("2026-03-05"),
    event("2026-03-04"),
    event("2026-02-03", deaths="2"),
    event("2026-02-02"),
    event("2025-03-10"),
    event("2025-03-09"),
    event("0026-03-01"),
    event("2026-03-01", country="Sri Lanka Island"),
    event("2026-03-01", "Riots"),
)


class TestAcled(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SETTINGS
    pages: ClassVar = {PROTESTS: reply(*EVENTS)}
    now = NOW
    secret = TOKEN
    name = "Sri Lanka/Protests"
    before = BEFORE
    beyond = b'"2026-03-05"'
    missing = "Sri Lanka/Parades"


async def test_events_are_counted_in_windows_of_thirty_days_that_end_the_day_before(tmp_path: Path) -> None:
    context, _ = web({PROTESTS: reply(*EVENTS)}, tmp_path, now=NOW)
    found = points(await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE))
    # 4 March back to 3 February is thirty days.
    assert found["2026-03-04"] == 2.0
    assert found["2026-02-02"] == 1.0
    assert found["2025-04-08"] == 1.0
    assert len(found) == 12
    assert sum(found.values()) == 4.0


async def test_deaths_are_summed_over_all_events_of_the_country(tmp_path: Path) -> None:
    events = (event("2026-03-01", "Battles", 3), event("2026-03-02", "Riots", "4"), event("2026-01-01", deaths=0))
    context, http = web({url(""): reply(*events)}, tmp_path, now=NOW)
    found = await AcledEvents(SETTINGS, context).series(f"Sri Lanka/{FATALITIES}", before=BEFORE)
    assert found.values[-1] == sum(found.values) == 7.0
    assert http.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("before", LAST_DAYS, ids=str)
async def test_the_request_ends_with_the_last_whole_day(before: datetime, tmp_path: Path) -> None:
    context, http = answered(reply(event("2026-03-01")), tmp_path, now=NOW)
    found = await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=before)
    first, last = asked_in(http.requests[0].url)["event_date"].split("|")
    assert last == LAST_DAYS[before] == found.dates[-1].isoformat()
    assert date.fromisoformat(last) - date.fromisoformat(first) == timedelta(days=359)


HEAD = "https://acleddata.com/api/acled/read?_format=json"
# Any event of the country up to that day, and any event at all in the last window.
ANY_OF_COUNTRY = (
    f"{HEAD}&country=Antarctica&event_date=1997-01-01%7C2026-03-04&event_date_where=BETWEEN&{FIELDS}&limit=1&page=1"
)
ANY_OF_WINDOW = f"{HEAD}&event_date=2026-02-03%7C2026-03-04&event_date_where=BETWEEN&{FIELDS}&limit=1&page=1"
EMPTY = {url("&event_type=Battles", country="Antarctica"): reply()}


async def test_a_country_where_nothing_happened_has_zeros(tmp_path: Path) -> None:
    older, elsewhere = event("1999-01-01", country="Antarctica"), event("2026-03-01", country="Peru")
    pages = EMPTY | {ANY_OF_COUNTRY: reply(older), ANY_OF_WINDOW: reply(elsewhere)}
    context, _ = web(pages, tmp_path, now=NOW)
    found = await AcledEvents(SETTINGS, context).series("Antarctica/Battles", before=BEFORE)
    assert set(found.values) == {0.0}


@pytest.mark.parametrize("seen", [reply(), reply(event("1999-01-01", country="Antarctic Islands"))])
async def test_a_country_of_which_the_account_sees_nothing_has_no_series(seen: bytes, tmp_path: Path) -> None:
    pages = EMPTY | {ANY_OF_COUNTRY: seen, ANY_OF_WINDOW: reply(event("2026-03-01"))}
    context, _ = web(pages, tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="the account sees no event of 'Antarctica' up to 2026-03-04"):
        await AcledEvents(SETTINGS, context).series("Antarctica/Battles", before=BEFORE)


async def test_a_period_in_which_the_account_sees_nothing_of_the_world_has_no_series(tmp_path: Path) -> None:
    pages = EMPTY | {ANY_OF_COUNTRY: reply(event("1999-01-01", country="Antarctica")), ANY_OF_WINDOW: reply()}
    context, _ = web(pages, tmp_path, now=NOW)
    with pytest.raises(RequestRejectedError, match="the account sees no event from 2026-02-03 to 2026-03-04"):
        await AcledEvents(SETTINGS, context).series("Antarctica/Battles", before=BEFORE)


@pytest.mark.parametrize("last", ["2025-08-29", "2026-03-03"])
async def test_events_that_the_account_may_not_see_are_not_counted_as_none(last: str, tmp_path: Path) -> None:
    """Accounts with research access see nothing of the last year, with status 200 and an empty list."""
    recency = {"date_recency": {"quantity": 12, "unit": "Months", "date": last}}
    body = {"status": 200, "success": True, "count": 0, "data": [], "data_query_restrictions": recency}
    context, _ = answered(as_json(body), tmp_path, now=NOW)
    with pytest.raises(RequestRejectedError, match=f"the account sees no event after {last}"):
        await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)


@pytest.mark.parametrize(
    "restrictions",
    [None, [], {}, {"date_recency": []}, {"date_recency": {}}, {"date_recency": {"date": "2026-03-04"}}, "none"],
    ids=str,
)
async def test_a_restriction_that_hides_nothing_of_the_series_changes_nothing(
    restrictions: object, tmp_path: Path
) -> None:
    body = {"status": 200, "data": [event("2026-03-01")], "data_query_restrictions": restrictions}
    context, _ = answered(as_json(body), tmp_path, now=NOW)
    found = await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)
    assert found.values[-1] == 1.0


async def test_more_events_than_a_page_holds_are_read_on(tmp_path: Path) -> None:
    kind = "&event_type=Protests"
    pages = {url(kind): reply(*[event("2026-03-01")] * PAGE_SIZE), url(kind, 2): reply(event("2026-03-01"))}
    context, _ = web(pages, tmp_path, now=NOW)
    found = await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)
    assert found.values[-1] == PAGE_SIZE + 1


async def test_too_many_events_say_which_setting_to_change(tmp_path: Path) -> None:
    context, http = answered(reply(*[event("2026-03-01")] * PAGE_SIZE), tmp_path, now=NOW)
    with pytest.raises(RequestRejectedError, match="set fewer windows"):
        await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)
    assert len(http.requests) == 40


async def test_a_refused_token_says_what_to_do(tmp_path: Path) -> None:
    context, _ = answered(AuthenticationError("status 403"), tmp_path, now=NOW)
    with pytest.raises(
        AuthenticationError, match=r"request a new one and set it as token \(or token_file\) of \[data\.acled\]"
    ):
        await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)


@pytest.mark.parametrize("odd", [event("2026-03-01", deaths="many"), event("2026-03-01", deaths=-1), {"country": "X"}])
async def test_an_odd_event_is_a_contract_error(odd: dict[str, Any], tmp_path: Path) -> None:
    context, _ = answered(reply(odd), tmp_path, now=NOW)
    with pytest.raises(MalformedDataError):
        await AcledEvents(SETTINGS, context).series("Sri Lanka/Protests", before=BEFORE)


@pytest.mark.parametrize("name", ["", "Sri Lanka", "/Protests", "Sri Lanka/protests", "Sri Lanka/Battles/x"])
async def test_a_name_of_another_form_is_not_found_without_asking(name: str, tmp_path: Path) -> None:
    context, http = answered(reply(), tmp_path, now=NOW)
    with pytest.raises(NotFoundError, match="is not a country"):
        await AcledEvents(SETTINGS, context).series(name, before=BEFORE)
    assert http.requests == []


def test_every_real_question_names_its_series(shared: Path, tmp_path: Path) -> None:
    context, _ = answered(b"", tmp_path, now=NOW)
    named = names_of_all(AcledEvents(SETTINGS, context), real_questions(shared, "acled"))
    assert len(named) == 632
    counted = Counter(name.partition("/")[2] for name in named)
    assert set(counted) == {FATALITIES, *EVENT_TYPES}
    assert all(name.partition("/")[0].strip() for name in named)


def test_the_names_of_real_questions_reproduce_their_ids(shared: Path, tmp_path: Path) -> None:
    """The id is a digest of country, event type and template (docs/facts/forecastbench.md#question-set)."""
    templates = (
        "last30Days.gt.30DayAvgOverPast360Days",
        "last30DaysTimes10.gt.30DayAvgOverPast360DaysPlus1",
    )
    context, _ = answered(b"", tmp_path, now=NOW)
    source = AcledEvents(SETTINGS, context)
    for question in real_questions(shared, "acled"):
        country, _, kind = source.series_names(question)[0].partition("/")
        digests = {
            hashlib.sha256(
                json.dumps({"country": country, "event_type": kind, "key": key}, sort_keys=True).encode()
            ).hexdigest()
            for key in templates
        }
        assert question.source_id in digests, question.title
