"""What the other side says about the pace, in the headers that are in use."""

from datetime import UTC, datetime

import pytest

from bot.net.rate_limit import parse_retry_after, requested_wait_s

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


# The examples of RFC 9110, section 10.2.3.
@pytest.mark.parametrize(
    ("text", "now", "seconds"),
    [
        ("Fri, 31 Dec 1999 23:59:59 GMT", datetime(1999, 12, 31, 23, 59, 0, tzinfo=UTC), 59.0),
        ("120", NOW, 120.0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", NOW, 0.0),
        ("1.5", NOW, 1.5),
        ("", NOW, None),
        ("soon", NOW, None),
        ("-5", NOW, None),
        ("Fri, 31 Dec 1999 23:59:59", NOW, None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", NOW, None),
    ],
)
def test_the_header_retry_after_is_seconds_or_a_date(text: str, now: datetime, seconds: float | None) -> None:
    assert parse_retry_after(text, now=now) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}, 50.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "50"}, 50.0),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "7"}, 7.0),
        ({"poly-ratelimit-remaining": "0", "poly-ratelimit-reset": "3"}, 3.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW.timestamp()) + 90)}, 90.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 90_500)}, 90.5),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "2026-11-22T12:01:00Z"}, 60.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"x-ratelimit-remaining": "0"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "whenever"}, None),
        ({"x-ratelimit-remaining": "some", "x-ratelimit-reset": "5"}, None),
        ({"x-ratelimit-reset": "50"}, None),
        ({"retry-after": "9"}, None),
    ],
)
def test_a_limit_that_is_used_up_asks_for_a_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert requested_wait_s(200, headers, now=NOW) == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_the_longest_wait_counts() -> None:
    headers = {"retry-after": "9", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}
    assert requested_wait_s(429, headers, now=NOW) == 50.0
    assert requested_wait_s(429, {**headers, "retry-after": "70"}, now=NOW) == 70.0
