"""The tables of config.toml about alerts: what is reported to people, when, and through which channels."""

from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from bot.config.base_schema import ConfigSection, PluginTable, Seconds
from bot.core.alerts import AlertLevel


def _parse_quiet_hours(text: str) -> tuple[time, time]:
    """Return the beginning and the end of hours such as ``22:00-07:00``; raises ValueError."""
    try:
        begin, end = (time.fromisoformat(part.strip()) for part in text.split("-"))
    except ValueError:
        begin = end = time()
    if begin == end or begin.tzinfo or end.tzinfo:
        message = 'should be two different times, such as "22:00-07:00"'
        raise ValueError(message)
    return begin, end


def _load_time_zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        message = "is no time zone that this machine knows; names are like Europe/Berlin, the package tzdata has all"
        raise ValueError(message) from None


def _require_quiet_hours(text: str) -> str:
    _parse_quiet_hours(text)
    return text


def _require_time_zone(name: str) -> str:
    _load_time_zone(name)
    return name


class LetterDay(StrEnum):
    """The day of the weekly letter."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"
    NEVER = "never"


class AlertsSection(ConfigSection):
    """What is reported to people through ``[notifiers]``, and when."""

    every_s: Seconds = 60.0
    """Seconds between checks for something to report."""

    quiet_hours: Annotated[str, AfterValidator(_require_quiet_hours)] | None = None
    """Hours such as `22:00-07:00` in which only critical alerts are sent; the others follow afterwards. Unset: none."""

    time_zone: Annotated[str, AfterValidator(_require_time_zone)] = "UTC"
    """The time zone of `quiet_hours` and `letter_day`, such as `Europe/Berlin`."""

    letter_day: LetterDay = LetterDay.MONDAY
    """The day on which a letter about the last seven days is sent, at 8 o'clock; `never`: no letter."""

    loss_share: float = Field(default=0.1, gt=0, le=1)
    """The share of an account that may be lost in a day (UTC) before an alert."""

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return _load_time_zone(self.time_zone)

    def quiet_until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours end in which a moment lies, None outside of them."""
        if self.quiet_hours is None:
            return None
        begin, end = _parse_quiet_hours(self.quiet_hours)
        local = now.astimezone(self.zone)
        moment = local.time()
        is_quiet = begin <= moment < end if begin < end else moment >= begin or moment < end
        if not is_quiet:
            return None
        day = local.date() + timedelta(days=moment >= end)
        return datetime.combine(day, end, self.zone).astimezone(UTC)


class NotifierTable(PluginTable):
    """One channel to people, and which alerts it gets."""

    level: AlertLevel = AlertLevel.INFO
    """The lowest level that it gets: `info`, `warning` or `critical`."""
