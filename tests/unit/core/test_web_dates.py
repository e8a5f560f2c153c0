from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import format_datetime
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.plain_text import MAX_SNIPPET_CHARS, parse_date, plain_snippet

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1), timezones=ZONES)  # noqa: DTZ001 - the zones come apart


@given(MOMENTS)
def test_a_moment_in_iso_form_is_read_back_in_utc(moment: datetime) -> None:
    found = parse_date(moment.isoformat(), now=NOW)
    assert found == moment
    assert found.utcoffset() == timedelta(0)


@given(MOMENTS)
def test_a_moment_as_mail_and_feeds_write_it_is_read_back(moment: datetime) -> None:
    assert parse_date(format_datetime(moment), now=NOW) == moment.replace(microsecond=0)


@given(
    st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.sampled_from(["%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y"])
)
def test_a_day_in_english_is_its_first_moment(day: date, form: str) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert parse_date(day.strftime(form), now=NOW) == midnight
    assert parse_date(day.isoformat(), now=NOW) == midnight


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-04", "2026-03-04T00:00:00+00:00"),
        ("2026-03-04T08:12:00", "2026-03-04T08:12:00+00:00"),
        (" 2026-03-04 08:12:00Z\n", "2026-03-04T08:12:00+00:00"),
        ("2026-03-04T08:12:00.123456789Z", "2026-03-04T08:12:00.123456+00:00"),
        ("2026-03-04T23:30:00-05:00", "2026-03-05T04:30:00+00:00"),
        # RFC 5322, 4.3: -0000 says that nothing is known of the zone.
        ("Wed, 04 Mar 2026 22:15:00 -0000", "2026-03-04T22:15:00+00:00"),
        ("4 Mar 2026 22:15 +0100", "2026-03-04T21:15:00+00:00"),
        ("Sept. 4, 2025", "2025-09-04T00:00:00+00:00"),
        ("March 4th, 2026", "2026-03-04T00:00:00+00:00"),
        ("3 hours ago", "2026-03-10T09:00:00+00:00"),
        ("an hour ago", "2026-03-10T11:00:00+00:00"),
        ("1 min ago", "2026-03-10T11:59:00+00:00"),
        ("2 Days Ago", "2026-03-08T12:00:00+00:00"),
        ("5d ago", "2026-03-05T12:00:00+00:00"),
        ("a week ago", "2026-03-03T12:00:00+00:00"),
        ("today", "2026-03-10T00:00:00+00:00"),
        ("Yesterday", "2026-03-09T00:00:00+00:00"),
        ("just now", "2026-03-10T12:00:00+00:00"),
    ],
)
def test_spellings_of_a_moment(text: str, expected: str) -> None:
    assert parse_date(text, now=NOW) == datetime.fromisoformat(expected)


@pytest.mark.parametrize("months", range(1, 25))
def test_an_age_in_months_is_never_older_than_it_says(months: int) -> None:
    year, month = divmod(2026 * 12 + 2 - months, 12)
    calendar = NOW.replace(year=year, month=month + 1)
    found = parse_date(f"{months} months ago", now=NOW)
    assert found is not None
    assert calendar <= found < NOW


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "2026-13-45",
        "2026-02-30",
        "2026-03",
        "03/04/2026",
        "20260304",
        "4 mars 2026",
        "Foo 4, 2026",
        "Mar 99, 2026",
        "Ma 4, 2026",
        "Wed, 99 Mar 2026 22:15:00 GMT",
        "Wed, 04 Mar 2026 99:15:00 GMT",
        "0001-01-01T00:00:00+14:00",
        "99999 years ago",
        "3 fortnights ago",
        "-3 days ago",
        "2026-03-04 " + "x" * 100,
    ],
)
def test_what_is_no_date_is_none(text: str | None) -> None:
    assert parse_date(text, now=NOW) is None


@given(st.text(max_size=100))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    found = parse_date(text, now=NOW)
    assert found is None or found.utcoffset() == timedelta(0)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=200))
def test_escaped_text_inside_tags_comes_out_as_it_was(text: str) -> None:
    assert plain_snippet(f"<p class='x'><b>{escape(text)}</b></p>") == text


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_snippet_has_no_control_characters_and_is_not_too_long(text: str, longest: int) -> None:
    found = plain_snippet(text, longest=longest)
    assert len(found) <= longest
    assert found == found.strip()
    assert not [char for char in found if ord(char) < 32 and char != "\n"]
    assert not {"\x7f", "\x85", "\u2028", "\u202e", "\ud800", "\U000e0041"} & set(found)
    found.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The <strong>lan</strong>tern", "The lantern"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("one<br/>two", "one\ntwo"),
        ("<ul><li>one<li>two</ul>", "one\ntwo"),
        ("<!-- seen by nobody -->seen", "seen"),
        ("a < b and c > d, 2<3", "a < b and c > d, 2<3"),
        ("Q&amp;A &#39;x&#39;&nbsp;y &lt;b&gt;", "Q&A 'x' y <b>"),
        ("nul\x00 and\x1b[31m red", "nul and[31m red"),
        ("hid\u202eden\U000e0041", "hidden"),
        ("  many   spaces\t here  ", "many spaces here"),
        ("a\r\n\r\n\r\n\r\nb\rc", "a\n\nb\nc"),
        ("", ""),
    ],
)
def test_what_a_reader_sees(text: str, expected: str) -> None:
    assert plain_snippet(text) == expected


def test_a_snippet_has_five_thousand_characters_at_most() -> None:
    assert len(plain_snippet("x" * 9_999)) == MAX_SNIPPET_CHARS == 5_000


@pytest.mark.parametrize("text", ["2026-03-04", "Mar 4, 2026", "4 March 2026"])
def test_a_day_without_a_time_is_its_last_moment_where_that_is_asked_for(text: str) -> None:
    last = datetime(2026, 3, 4, 23, 59, 59, 999_999, tzinfo=UTC)
    assert parse_date(text, now=last + timedelta(days=9), latest=True) == last


def test_no_day_lasts_longer_than_until_now() -> None:
    now = datetime(2026, 3, 4, 9, tzinfo=UTC)
    assert parse_date("today", now=now, latest=True) == now
    assert parse_date("2026-03-04", now=now, latest=True) == now
    assert parse_date("2026-03-04T08:00:00Z", now=now, latest=True) == now - timedelta(hours=1)
