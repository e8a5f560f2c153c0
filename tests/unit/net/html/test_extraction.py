"""From bytes to title, text and date."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.html.extraction import TITLE_CHARS, extract_page, parse_moment
from bot.simulator.hidden_text_pages import VISIBLE_TEXT, plain_page

EARLIEST, LATEST = datetime(1991, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001 - the zone is drawn


def test_a_page_has_its_title_its_text_and_the_date_it_gives() -> None:
    html = plain_page("").replace(
        "<head>", '<head><meta property="article:published_time" content="2026-03-01T08:30:00+01:00">'
    )
    found = extract_page(html.encode(), "text/html", max_chars=1000)
    assert (found.title, found.published_at) == ("The river", datetime(2026, 3, 1, 7, 30, tzinfo=UTC))
    assert VISIBLE_TEXT in found.text


@pytest.mark.parametrize(
    "head",
    [
        '<script type="application/ld+json">{"@type":"NewsArticle", "datePublished" : "2026-03-01"}</script>',
        '<meta name="DC.date" content="2026-03-01">',
        '<meta itemprop="datePublished" content="20260301">',
        '<meta name="date" content="Sun, 01 Mar 2026 00:00:00 GMT">',
        '<body><article><time datetime="2026-03-01T00:00:00Z">x</time></article>',
    ],
)
def test_a_date_is_read_where_pages_give_it(head: str) -> None:
    html = f"<html><head>{head}<p>{VISIBLE_TEXT}"
    assert extract_page(html.encode(), "text/html", max_chars=1000).published_at == datetime(2026, 3, 1, tzinfo=UTC)


def test_a_date_in_the_prose_is_not_the_date_of_the_page() -> None:
    html = plain_page("<p>It closes on 2026-03-01, or on March 2, 2026.</p>")
    assert extract_page(html.encode(), "text/html", max_chars=1000).published_at is None


@given(st.text() | st.from_regex(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?)?", fullmatch=True))
def test_whatever_is_said_of_a_date_is_a_moment_in_utc_or_nothing(text: str) -> None:
    found = parse_moment(text)
    assert found is None or found.tzinfo is UTC


@given(st.datetimes(EARLIEST, LATEST, timezones=st.timezones()))
def test_a_moment_is_read_back_as_the_library_writes_it(at: datetime) -> None:
    whole = at.replace(microsecond=0)
    if whole.utcoffset().total_seconds() % 60 == 0:  # type: ignore[union-attr]  # it has a zone
        assert parse_moment(whole.isoformat()) == datetime.fromisoformat(whole.isoformat())


def test_a_feed_is_a_list_of_its_entries_dated_by_the_newest() -> None:
    feed = f"""<?xml version="1.0" encoding="utf-8"?><rss><channel><title>Rivers</title>
      <item><title>Old</title><pubDate>Sun, 01 Mar 2026 07:00:00 GMT</pubDate><description>x</description></item>
      <item><title>New</title><pubDate>Mon, 02 Mar 2026 07:00:00 GMT</pubDate>
      <description><![CDATA[<p>{VISIBLE_TEXT}</p>
      <p style="display:none">canary</p>]]></description></item></channel></rss>"""
    found = extract_page(feed.encode(), "application/rss+xml", max_chars=1000)
    assert found.title == "Rivers"
    assert found.published_at == datetime(2026, 3, 2, 7, tzinfo=UTC)
    assert VISIBLE_TEXT in found.text
    assert "canary" not in found.text


def test_plain_text_and_json_stay_as_they_are() -> None:
    assert extract_page(b'{"a": [1, 2]}', "application/json", max_chars=100).text == '{"a": [1, 2]}'
    assert extract_page(b"<p hidden>1 < 2", "text/plain", max_chars=100).text == "<p hidden>1 < 2"


def test_title_and_text_are_cut() -> None:
    html = f"<title>{'t' * 999}</title><p>{'word ' * 999}"
    found = extract_page(html.encode(), "text/html", max_chars=50)
    assert len(found.title) == TITLE_CHARS
    assert len(found.text) <= 50
