"""What the other side says about the pace, in the headers that are in use."""

from datetime import UTC, datetime

import anthropic
import httpx
import pytest

from bot.net.rate_headers import (
    RequestAllowance,
    parse_retry_after,
    remaining_allowance,
    requested_wait_s,
    retry_after_s,
)

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


# The headers of OpenAI's guide to rate limits, of Anthropic's reference, of OpenRouter's and of the draft of the IETF.
@pytest.mark.parametrize(
    ("headers", "allowance"),
    [
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-remaining-tokens": "15000",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            RequestAllowance(requests=59, reset_s=1.0, after_reset=60, share=0.1),
        ),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-11-22T12:00:01Z",
                "anthropic-ratelimit-input-tokens-limit": "30000",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-22T12:00:40Z",
            },
            RequestAllowance(requests=0, reset_s=40.0, share=0.0),
        ),
        (
            {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "-1", "x-ratelimit-reset": "1795348860000"},
            RequestAllowance(requests=0, reset_s=60.0, after_reset=20, share=0.0),
        ),
        (
            {"ratelimit-limit": "10", "ratelimit-remaining": "5", "ratelimit-reset": "30"},
            RequestAllowance(requests=5, reset_s=30.0, after_reset=10, share=0.5),
        ),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "nan", "x-ratelimit-reset-requests": "1s"}, None),
        ({"content-type": "application/json"}, None),
    ],
)
def test_headers_say_how_many_requests_are_left_until_when(
    headers: dict[str, str], allowance: RequestAllowance | None
) -> None:
    assert remaining_allowance(headers, now=NOW) == allowance


@pytest.mark.parametrize("milliseconds", ["250", "1500.5", "soon", ""])
@pytest.mark.parametrize("seconds", ["7", "0.5", "soon", ""])
def test_the_official_client_of_a_provider_reads_the_same_wait(milliseconds: str, seconds: str) -> None:
    sent = {"retry-after-ms": milliseconds, "retry-after": seconds}
    client = anthropic.Anthropic(api_key="none")
    theirs = client._parse_retry_after_header(httpx.Headers(sent))  # type: ignore[arg-type]  # noqa: SLF001 - theirs
    assert retry_after_s(sent, now=NOW) == theirs
