"""Reading an address once, for all that follows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import RequestRejectedError
from bot.net.urls import loggable_url
from bot.net.web.addresses import parse_fetch_target


@pytest.mark.parametrize(
    ("url", "host", "port", "request_"),
    [
        ("http://example.org", "example.org", 80, b"/"),
        ("HTTPS://Example.ORG./a?b=c#d", "example.org", 443, b"/a?b=c"),
        ("https://example.org:80/", "example.org", 80, b"/"),
        ("http://m\u00fcnchen.de/\u00e4", "xn--mnchen-3ya.de", 80, b"/%C3%A4"),
        ("http://93.184.215.14/x", "93.184.215.14", 80, b"/x"),
        ("https://[2001:7fd::1]/", "2001:7fd::1", 443, b"/"),
    ],
)
def test_an_address_becomes_a_target(url: str, host: str, port: int, request_: bytes) -> None:
    target = parse_fetch_target(url)
    assert (target.host, target.port, target.request) == (host, port, request_)
    assert "#" not in target.url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://",
        "http://user@example.org/",
        "http://:@example.org/",
        "http://@example.org/",
        "http://example.org:8080/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org\\@10.0.0.1/",
        "http://exa\tmple.org/",
        "http://example.org\r\nHost: x/",
        "http://ex ample.org/",
        "http://ex%61mple.org/",
        "http://-example.org/",
        "http://a..org/",
        "http://intranet/",
        "http://printer.local/",
        "http://db.internal/",
        f"http://{'a' * 64}.org/",
        f"http://{'a.' * 130}org/",
        f"http://example.org/{'x' * 9000}",
    ],
)
def test_what_is_no_plain_address_of_the_open_web_is_rejected(url: str) -> None:
    with pytest.raises(RequestRejectedError):
        parse_fetch_target(url)


def test_what_is_shown_of_an_address_has_no_query_and_no_user() -> None:
    assert loggable_url("https://me:secret@example.org/a?key=secret#secret") == "https://example.org/a"
    assert loggable_url("https://me:secret@[::1/a") == "an address"


@given(st.text())
def test_whatever_is_asked_for_is_a_target_or_is_rejected(url: str) -> None:
    for address in (url, f"http://{url}", f"http://a.org/{url}"):
        try:
            assert parse_fetch_target(address).port in {80, 443}
        except RequestRejectedError as error:
            assert str(error)  # noqa: PT017 - either outcome is right, anything else is not
