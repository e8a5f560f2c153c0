"""ACLED: counts of conflict events and deaths by country; for accounts with access to its API.

Keys of the old API were retired in September 2025: requests carry the access token of a myACLED account, which lasts a
day. It is requested with a form (``curl -d grant_type=password -d client_id=acled -d username=... -d password=...
https://acleddata.com/oauth/token``) that this plugin cannot send, so the operator must renew the file that
``token_file`` names. One value of the series is the sum over thirty days, which is what the benchmark compares: with
the average of the last twelve values. Data come weekly, so the last value still grows, and events are revised without a
trace: a backtest sees today's version of them. Sources: the service's guide to its API; ForecastBench's resolver for
the windows, docs/facts/forecastbench.md#resolution-set.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from bot.api import (
    AuthenticationError,
    DataSource,
    DataSpec,
    PluginContext,
    PluginSettings,
    Question,
    RequestRejectedError,
    SourcePolicy,
    TimeSeries,
    hookimpl,
)
from plugins.data._series_replies import (
    ADDRESS_PATTERN,
    last_finished_day,
    ordered_series,
    parse_reply,
    raise_not_found,
    request_url,
)

SOURCE = "acled"
MAX_BYTES = 8_000_000
PAGE_SIZE = 5000
MAX_PAGES = 40
WINDOW_DAYS = timedelta(days=30)
# The service begins with this day.
FIRST_DAY = date(1997, 1, 1)
FATALITIES = "fatalities"
EVENT_TYPES = (
    "Battles",
    "Protests",
    "Riots",
    "Explosions/Remote violence",
    "Violence against civilians",
    "Strategic developments",
)
_QUESTION_TITLE = re.compile(
    r"Will there be more (?:than ten times as many )?(?P<counted>.{1,80}?) in (?P<country>.{1,80}?) "
    r"for the 30 days before "
)
ADVICE = (
    "These questions hold a count of the next 30 days against an average of the past year. The anchor is how often "
    "the same comparison came true in earlier windows of the series, and for an increase that is well below one half: "
    "an average is lifted by a few violent months, and most months lie below it. Where events are rare, look at how "
    "many windows had any at all. Ten times the average hardly ever comes. Move from the anchor for what has changed "
    "on the ground: an offensive, a ceasefire, an election, a wave of protest."
)
_QUOTE_MARKS = "'\"\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"


class AcledSettings(PluginSettings):
    """The token, and how far to look back."""

    token: SecretStr
    """Access token of a myACLED account whose terms are accepted; it lasts 24 hours."""

    base_url: str = Field(default="https://acleddata.com/api", pattern=ADDRESS_PATTERN)
    """Address of the service."""

    windows: int = Field(default=24, ge=12, le=120)
    """Periods of thirty days that are read."""


class _ConflictEvent(BaseModel):
    event_date: str
    event_type: str
    country: str
    fatalities: int = Field(ge=0, le=10_000_000)


class _Reply(BaseModel):
    data: list[_ConflictEvent]
    restrictions: Any = Field(default=None, alias="data_query_restrictions")

    @property
    def last_visible_day(self) -> date | None:
        """The day after which the account sees nothing, by its level of access; None where nothing is said of one."""
        recency = self.restrictions.get("date_recency") if isinstance(self.restrictions, Mapping) else None
        try:
            return date.fromisoformat(recency["date"]) if isinstance(recency, Mapping) else None
        except (KeyError, TypeError, ValueError):
            return None


class AcledEvents:
    """Implements DataSource; a series is named country/event type, or country/fatalities."""

    def __init__(self, settings: AcledSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        found = _QUESTION_TITLE.match(question.title) if question.source == SOURCE else None
        if found is None:
            return ()
        return (f"{found['country']}/{found['counted'].strip(_QUOTE_MARKS)}",)

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the sums over windows of thirty days, each dated by its last day; the last ends the day before."""
        country, _, counted = name.partition("/")
        if not country or counted not in {FATALITIES, *EVENT_TYPES}:
            kinds = ", ".join((FATALITIES, *EVENT_TYPES))
            raise_not_found(SOURCE, f"{name!r} is not a country, a slash and one of {kinds}")
        end = last_finished_day(before)
        ends = [end - WINDOW_DAYS * back for back in range(self._settings.windows)]
        sums = dict.fromkeys(ends, 0.0)
        for event in await self._events(country, counted, ends[-1] - WINDOW_DAYS + timedelta(days=1), end):
            day = _event_day(event)
            if day is not None and event.country == country and counted in {FATALITIES, event.event_type}:
                window = end - WINDOW_DAYS * ((end - day) // WINDOW_DAYS)
                if day <= end and window in sums:
                    sums[window] += event.fatalities if counted == FATALITIES else 1
        return ordered_series(sums, name=name, unit=f"{counted} in the 30 days up to the date", source=SOURCE)

    async def _events(self, country: str, counted: str, start: date, end: date) -> list[_ConflictEvent]:
        """Return the events of the country, of that type or of all, with others among them at most."""
        asked = {"country": country, **_between(start, end)}
        if counted != FATALITIES:
            asked["event_type"] = counted
        found: list[_ConflictEvent] = []
        for page in range(1, MAX_PAGES + 1):
            events = await self._page(asked, end=end, page=page)
            found += events
            if len(events) < PAGE_SIZE:
                if not any(event.country == country for event in found):
                    await self._require_visible(country, end)
                return found
        message = (
            f"{SOURCE}: {country} has more than {MAX_PAGES * PAGE_SIZE} events from {start} to {end}; set fewer windows"
        )
        raise RequestRejectedError(message)

    async def _require_visible(self, country: str, end: date) -> None:
        """Raise where no events may mean that the account may not see them, or that the name is of no country."""
        past = await self._page({"country": country, **_between(FIRST_DAY, end)}, end=end, limit=1)
        if not any(event.country == country for event in past):
            raise_not_found(
                SOURCE,
                f"the account sees no event of {country!r} up to {end}: the service has no country of that name, or "
                "none that this account may see",
            )
        start = end - WINDOW_DAYS + timedelta(days=1)
        if not await self._page(_between(start, end), end=end, limit=1):
            message = f"{SOURCE}: the account sees no event from {start} to {end}, anywhere; ask the service for access"
            raise RequestRejectedError(message)

    async def _page(
        self, asked: Mapping[str, str], *, end: date, limit: int = PAGE_SIZE, page: int = 1
    ) -> list[_ConflictEvent]:
        fields = {"fields": "event_date|event_type|country|fatalities", "limit": str(limit)}
        reply = parse_reply(_Reply, await self._get({"_format": "json", **asked, **fields, "page": str(page)}), SOURCE)
        if reply.last_visible_day is not None and reply.last_visible_day < end:
            # What is hidden is missing without an error, and would count as zero.
            seen = f"the account sees no event after {reply.last_visible_day}, and the series ends on {end}"
            message = f"{SOURCE}: {seen}; ask the service for access to recent events"
            raise RequestRejectedError(message)
        return reply.data

    async def _get(self, asked: dict[str, str]) -> bytes:
        headers = {"Authorization": f"Bearer {self._settings.token.get_secret_value()}"}
        url = request_url(self._settings.base_url, "acled/read", asked)
        try:
            return await self._http.get(url, max_bytes=MAX_BYTES, headers=headers)
        except AuthenticationError as error:
            message = (
                f"{error}: {SOURCE} refuses the access token; it lasts 24 hours and needs an account with access to "
                "the API: request a new one and set it as token (or token_file) of [data.acled]"
            )
            raise AuthenticationError(message) from None


def _between(start: date, end: date) -> dict[str, str]:
    return {"event_date": f"{start.isoformat()}|{end.isoformat()}", "event_date_where": "BETWEEN"}


def _event_day(event: _ConflictEvent) -> date | None:
    try:
        return date.fromisoformat(event.event_date)
    except ValueError:
        return None


@asynccontextmanager
async def open_acled(settings: AcledSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield AcledEvents(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[AcledSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Conflict events and deaths by country in windows of thirty days; needs access",
            settings=AcledSettings,
            open=open_acled,
            question_sources=frozenset({"acled"}),
            policy=SourcePolicy(advice=ADVICE),
        )
    ]
