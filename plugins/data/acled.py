"""ACLED: counts of conflict events and deaths by country; for accounts with access to its API.

Keys of the old API were retired in September 2025: requests carry the access token of a myACLED account, which lasts a
day. It is fetched with a form (``curl -d grant_type=password -d client_id=acled -d username=... -d password=...
https://acleddata.com/oauth/token``) that this plugin cannot send, so the operator renews the file that ``token_file``
names. One value of the series is the sum over thirty days, which is what the benchmark compares: with the average of
the last twelve values. Data come weekly, so the last value still grows, and events are revised without a trace: a
backtest sees them as they are known today.
Sources: the service's guide to its API; ForecastBench's resolver for the windows (venue document, section 2.2).
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bot.api import (
    Can,
    DataSource,
    DataSpec,
    Question,
    Rejected,
    Series,
    Settings,
    SourcePolicy,
    Unauthorized,
    Workplace,
    hookimpl,
)
from plugins.data._reading import ADDRESS, address, in_order, last_whole_day, parsed, unknown

SOURCE = "acled"
MAX_BYTES = 8_000_000
PAGE = 5000
MAX_PAGES = 40
WINDOW = timedelta(days=30)
DEATHS = "fatalities"
EVENT_TYPES = (
    "Battles",
    "Protests",
    "Riots",
    "Explosions/Remote violence",
    "Violence against civilians",
    "Strategic developments",
)
_TITLE = re.compile(
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
_QUOTES = "'\"\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"


class AcledSettings(Settings):
    """The token, and how far to look back."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    token: SecretStr
    """The access token of a myACLED account whose terms are accepted; it lasts 24 hours."""

    base_url: str = Field(default="https://acleddata.com/api", pattern=ADDRESS)
    """Where the service is."""

    windows: int = Field(default=24, ge=12, le=120)
    """How many windows of thirty days to read."""


class _Event(BaseModel):
    event_date: str
    event_type: str
    country: str
    fatalities: int = Field(ge=0, le=10_000_000)


class _Reply(BaseModel):
    data: list[_Event]


class Acled:
    """Implements the port DataSource; a series is named country/event type, or country/fatalities."""

    def __init__(self, settings: AcledSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http

    def names(self, question: Question) -> Sequence[str]:
        found = _TITLE.match(question.title) if question.source == SOURCE else None
        if found is None:
            return ()
        return (f"{found['country']}/{found['counted'].strip(_QUOTES)}",)

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the sums over windows of thirty days, each dated by its last day; the last ends the day before."""
        country, _, counted = name.partition("/")
        if not country or counted not in {DEATHS, *EVENT_TYPES}:
            kinds = ", ".join((DEATHS, *EVENT_TYPES))
            unknown(SOURCE, f"{name!r} is not a country, a slash and one of {kinds}")
        end = last_whole_day(before)
        ends = [end - WINDOW * back for back in range(self._settings.windows)]
        sums = dict.fromkeys(ends, 0.0)
        for event in await self._events(country, counted, ends[-1] - WINDOW + timedelta(days=1), end):
            day = _day(event)
            if day is not None and event.country == country and counted in {DEATHS, event.event_type}:
                window = end - WINDOW * ((end - day) // WINDOW)
                if day <= end and window in sums:
                    sums[window] += event.fatalities if counted == DEATHS else 1
        return in_order(sums, name=name, unit=f"{counted} in the 30 days up to the date", source=SOURCE)

    async def _events(self, country: str, counted: str, start: date, end: date) -> list[_Event]:
        asked = {
            "_format": "json",
            "country": country,
            "event_date": f"{start.isoformat()}|{end.isoformat()}",
            "event_date_where": "BETWEEN",
            "fields": "event_date|event_type|country|fatalities",
            "limit": str(PAGE),
        }
        if counted != DEATHS:
            asked["event_type"] = counted
        found: list[_Event] = []
        for page in range(1, MAX_PAGES + 1):
            rows = parsed(_Reply, await self._get(asked | {"page": str(page)}), SOURCE).data
            found += rows
            if len(rows) < PAGE:
                return found
        message = (
            f"{SOURCE}: {country} has more than {MAX_PAGES * PAGE} events from {start} to {end}; set fewer windows"
        )
        raise Rejected(message)

    async def _get(self, asked: dict[str, str]) -> bytes:
        headers = {"Authorization": f"Bearer {self._settings.token.get_secret_value()}"}
        url = address(self._settings.base_url, "acled/read", asked)
        try:
            return await self._http.get(url, max_bytes=MAX_BYTES, headers=headers)
        except Unauthorized as error:
            message = (
                f"{error}: {SOURCE} refuses the access token; it lasts 24 hours and needs an account with access to "
                "the API: fetch a new one and set it as token (or token_file) of [data.acled]"
            )
            raise Unauthorized(message) from None


def _day(event: _Event) -> date | None:
    try:
        return date.fromisoformat(event.event_date)
    except ValueError:
        return None


@asynccontextmanager
async def open_acled(settings: AcledSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield Acled(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[AcledSettings]]:
    """Offer the one source of this plugin."""
    return [
        DataSpec(
            name=SOURCE,
            summary="Conflict events and deaths by country in windows of thirty days; needs access",
            abilities=frozenset({Can.SERIES}),
            settings=AcledSettings,
            open=open_acled,
            serves=frozenset({"acled"}),
            policy=SourcePolicy(advice=ADVICE),
        )
    ]
