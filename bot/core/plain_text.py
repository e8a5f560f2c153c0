"""Dates, snippets and visible text of search engines and pages, and the nearest valid names for a misspelt one.

Invisible characters (Unicode formats, controls, private use, and Default_Ignorable_Code_Point of Unicode 15) can carry
instructions to a model that a person who checks the text does not see.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from email.utils import parsedate_to_datetime

MAX_SNIPPET_CHARS = 5_000
# A date is short; a longer text is a sentence, and not parsed.
_MAX_DATE_CHARS = 80
_MONTH_NAMES = (
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
_AGE_UNITS = {
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
_ISO_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.ASCII)
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MAIL_DATE = re.compile(r"(?:[a-z]{3}, )?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}.*", re.ASCII | re.IGNORECASE)
_MONTH_FIRST = re.compile(r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})", re.ASCII)
_DAY_FIRST = re.compile(r"(?P<day>\d{1,2})(?:st|nd|rd|th)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})", re.ASCII)
_AGE_PATTERN = re.compile(r"(?P<count>an?|\d{1,5}) ?(?P<unit>[a-z]{1,6}?)s? ago", re.ASCII)
# No character has such a high number, and int refuses more than some thousand digits.
_LONG_ENTITY = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
_HTML_TAG = re.compile(r"<(?P<name>/?[a-zA-Z!][a-zA-Z0-9]*)[^<>]*>", re.ASCII)
_BLOCK_TAGS = {
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
_LINE_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r" ?\n[ \n]*\n ?| ?\n ?")
# Control characters except newline, direction marks that reorder text, surrogates, invisible letters.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def parse_date(text: str | None, *, now: datetime, latest: bool = False) -> datetime | None:
    """Return the moment in UTC that the text states; None if it states none.

    It parses ISO 8601 (``2026-03-04``, ``2026-03-04T08:12:00Z``), the dates of mail and RSS (RFC 5322), English dates
    with a month (``Mar 4, 2026``, ``4 March 2026``) and ages (``3 hours ago``, ``yesterday``), which count from
    ``now``. A text without a zone is taken as UTC. A day without a time is its first moment; an age is the latest
    moment that matches (a month is 28 days). Callers that need a page to be older than a moment should allow for both.
    With ``latest`` a day without a time is its last moment, but for the day of ``now`` not after ``now``.
    """
    if text is None or len(text := " ".join(text.split())) > _MAX_DATE_CHARS:
        return None
    try:
        if (day := _parse_day(text.lower(), now)) is not None:
            end = datetime.combine(day, time.max if latest else time.min, UTC)
            return min(end, _in_utc(now)) if latest and day == _in_utc(now).date() else end
        found = _parse_written_date(text) or _parse_age(text.lower(), now)
        return None if found is None else _in_utc(found)
    except (ValueError, OverflowError, IndexError):  # digits like those of a date, such as 2026-13-45
        return None


def plain_snippet(text: str, *, longest: int = MAX_SNIPPET_CHARS) -> str:
    """Return the visible text: no tags, entities resolved, no control characters, at most ``longest`` characters.

    Line breaks are kept, with at most one empty line between paragraphs; other white space becomes single spaces.
    """
    visible = _LONG_ENTITY.sub("", _HTML_TAG.sub(_tag_replacement, text))
    if "&" in visible:
        from html import unescape  # noqa: PLC0415 - the names of all entities take half a megabyte

        visible = unescape(visible)
    visible = _CONTROL_CHARACTERS.sub("", _LINE_BREAKS.sub("\n", visible))
    visible = _BLANK_LINES.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", _SPACES.sub(" ", visible))
    return visible.strip()[:longest].rstrip()


def _parse_written_date(text: str) -> datetime | None:
    if _ISO_MOMENT.fullmatch(text):
        return datetime.fromisoformat(text)
    return parsedate_to_datetime(text) if _MAIL_DATE.fullmatch(text) else None


def _parse_day(text: str, now: datetime) -> date | None:
    """Return the day that a text in lower case states without a time."""
    if _ISO_DAY.fullmatch(text):
        return date.fromisoformat(text)
    if text in {"today", "yesterday"}:
        return _in_utc(now).date() - timedelta(days=text == "yesterday")
    found = _MONTH_FIRST.fullmatch(text) or _DAY_FIRST.fullmatch(text)
    if found is None:
        return None
    name = found["month"]
    named = [number for number, month in enumerate(_MONTH_NAMES, 1) if name in {month, month[:3], month[:4]}]
    return date(int(found["year"]), named[0], int(found["day"])) if named else None


def _parse_age(text: str, now: datetime) -> datetime | None:
    if text in {"now", "just now"}:
        return now
    found = _AGE_PATTERN.fullmatch(text)
    if found is None or found["unit"] not in _AGE_UNITS:
        return None
    count = 1 if found["count"].startswith("a") else int(found["count"])
    return now - count * _AGE_UNITS[found["unit"]]


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _tag_replacement(tag: re.Match[str]) -> str:
    name = tag["name"].lower().removeprefix("/")
    return "\n" if name in _BLOCK_TAGS else ""


_INVISIBLE_CATEGORIES = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})
_ALLOWED_CONTROLS = frozenset("\n\t")
_IGNORABLE_CHARACTERS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_LINE_BREAK_TABLE = str.maketrans(
    {"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"}
)


def strip_invisible(text: str) -> str:
    """Return the text without invisible characters; each kind of line break becomes a newline.

    Blanks, tabs and newlines are kept. The time is linear in the length; applying it again changes nothing.
    """
    text = text.replace("\r\n", "\n").translate(_LINE_BREAK_TABLE)
    if text.isascii() and text.isprintable():
        return text
    visible = text if text.isascii() else _IGNORABLE_CHARACTERS.sub("", text)
    # Looking up the category once per distinct character is much faster than once per position.
    invisible = {
        ord(char): None
        for char in set(visible) - _ALLOWED_CONTROLS
        if unicodedata.category(char) in _INVISIBLE_CATEGORIES
    }
    return visible.translate(invisible) if invisible else visible


REPLACEMENT = "\ufffd"


def replace_invisible(text: str) -> str:
    """Return the text with U+FFFD for each invisible character except newline and tab; the length is the same."""
    return change_invisible(text, lambda _: REPLACEMENT)


def change_invisible(text: str, change: Callable[[str], str]) -> str:
    """Return the text with each invisible character changed, except newline and tab."""
    return "\n".join(line if _is_visible(line) else _change_line(line, change) for line in text.split("\n"))


def _is_visible(text: str) -> bool:
    # The fast path is for ASCII only, because other characters that Python calls printable may be invisible.
    return (text.isascii() and text.isprintable()) or strip_invisible(text) == text


def _change_line(line: str, change: Callable[[str], str]) -> str:
    return "".join(character if strip_invisible(character) == character else change(character) for character in line)


def nearest_names(name: str, valid: Iterable[str]) -> tuple[str, ...]:
    """Return up to three valid names that look like the given one, the likeliest first; case is ignored."""
    candidates = {candidate.casefold(): candidate for candidate in sorted(valid)}
    matches = difflib.get_close_matches(name.casefold(), candidates, n=3, cutoff=0.6)
    return tuple(candidates[match] for match in matches)


def suggest_names(name: str, valid: Iterable[str]) -> str:
    """Return a suggestion for a misspelt name: the nearest valid names, else all of them."""
    names = sorted(set(valid))
    if close := nearest_names(name, names):
        return f"did you mean {' or '.join(close)}?"
    return f"valid: {', '.join(names)}" if names else "there is none"
