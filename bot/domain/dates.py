"""What search engines write about a page, as values: the date in its many spellings, and words without markup.

Pure functions for plugins: what is no date is None, so that one odd spelling loses no result.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from email.utils import parsedate_to_datetime
from html import unescape

SNIPPET_CHARS = 5_000
# A date is short; more is a sentence, and not worth a pattern.
_DATE_CHARS = 80
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_UNITS = {
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "hr": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "d": timedelta(days=1),
    "day": timedelta(days=1),
    "w": timedelta(weeks=1),
    "wk": timedelta(weeks=1),
    "week": timedelta(weeks=1),
    "mo": timedelta(days=28),
    "month": timedelta(days=28),
    "y": timedelta(days=365),
    "yr": timedelta(days=365),
    "year": timedelta(days=365),
}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.ASCII)
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MAIL = re.compile(r"(?:[a-z]{3}, )?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}.*", re.ASCII | re.IGNORECASE)
_MONTH_FIRST = re.compile(r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})", re.ASCII)
_DAY_FIRST = re.compile(r"(?P<day>\d{1,2})(?:st|nd|rd|th)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})", re.ASCII)
_AGO = re.compile(r"(?P<count>an?|\d{1,5}) ?(?P<unit>[a-z]{1,6}?)s? ago", re.ASCII)

# No character has such a number, and the reader of numbers refuses more than some thousand digits.
_LONG_NUMBER = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
_TAG = re.compile(r"<(?P<name>/?[a-zA-Z!][a-zA-Z0-9]*)[^<>]*>", re.ASCII)
_BLOCKS = {
    "br",
    "p",
    "div",
    "li",
    "ul",
    "ol",
    "tr",
    "td",
    "th",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
}
_BREAK = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPACE = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*\n ?| ?\n ?")
# Control characters but for newline, directions that make a text read otherwise, halves of pairs, invisible letters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def parse_date(text: str | None, *, now: datetime, latest: bool = False) -> datetime | None:
    """Return the moment, aware and in UTC, that the text names; None where it names none.

    Understood are ISO 8601 (``2026-03-04``, ``2026-03-04T08:12:00Z``), the dates of mail and RSS (RFC 5322), English
    ones by month (``Mar 4, 2026``, ``4 March 2026``) and ages (``3 hours ago``, ``yesterday``), which count from
    ``now``. What has no zone is taken for UTC. A day without a time is its first moment, and an age the latest moment
    that fits (a month is 28 days): whoever needs a page to be older than a moment should leave room for both. With
    ``latest`` a day without a time is its last moment, but not after ``now``, if that is of the same day.
    """
    if text is None or len(text := " ".join(text.split())) > _DATE_CHARS:
        return None
    try:
        if (day := _day(text.lower(), now)) is not None:
            end = datetime.combine(day, time.max if latest else time.min, UTC)
            return min(end, _in_utc(now)) if latest and day == _in_utc(now).date() else end
        found = _written(text) or _age(text.lower(), now)
        return None if found is None else _in_utc(found)
    except (ValueError, OverflowError, IndexError):  # digits like those of a date, such as 2026-13-45
        return None


def plain_snippet(text: str, *, longest: int = SNIPPET_CHARS) -> str:
    """Return the text as a reader sees it: no tags, entities resolved, no control characters, at most ``longest`` long.

    Line breaks stay, with one empty line between paragraphs at most; all other space becomes single spaces.
    """
    seen = unescape(_LONG_NUMBER.sub("", _TAG.sub(_gap, text)))
    seen = _UNSEEN.sub("", _BREAK.sub("\n", seen))
    seen = _LINES.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", _SPACE.sub(" ", seen))
    return seen.strip()[:longest].rstrip()


def _written(text: str) -> datetime | None:
    if _ISO.fullmatch(text):
        return datetime.fromisoformat(text)
    return parsedate_to_datetime(text) if _MAIL.fullmatch(text) else None


def _day(text: str, now: datetime) -> date | None:
    """Return the day that a text in lower case names, without a time."""
    if _ISO_DAY.fullmatch(text):
        return date.fromisoformat(text)
    if text in {"today", "yesterday"}:
        return _in_utc(now).date() - timedelta(days=text == "yesterday")
    found = _MONTH_FIRST.fullmatch(text) or _DAY_FIRST.fullmatch(text)
    if found is None:
        return None
    name = found["month"]
    named = [number for number, month in enumerate(_MONTHS, 1) if name in {month, month[:3], month[:4]}]
    return date(int(found["year"]), named[0], int(found["day"])) if named else None


def _age(text: str, now: datetime) -> datetime | None:
    if text in {"now", "just now"}:
        return now
    found = _AGO.fullmatch(text)
    if found is None or found["unit"] not in _UNITS:
        return None
    count = 1 if found["count"].startswith("a") else int(found["count"])
    return now - count * _UNITS[found["unit"]]


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _gap(tag: re.Match[str]) -> str:
    name = tag["name"].lower().removeprefix("/")
    return "\n" if name in _BLOCKS else ""
