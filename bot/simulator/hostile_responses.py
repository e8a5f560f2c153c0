"""The half of the hostile corpus that is about responses: bodies, heads, statuses, redirects, internal addresses."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import chain

from bot.core.errors import (
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.simulator.hidden_text_pages import (
    VISIBLE_TEXT,
    plain_page,
)
from bot.simulator.hostile_web import (
    HTML_TYPE,
    PUBLIC_ADDRESS,
    ConnectionEnding,
    HostilePage,
    HostileResponse,
    hostile_page,
    html_response,
)

_ANY_FAILURE: tuple[type[FoxcastError], ...] = (
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    NotFoundError,
)


_HARMLESS_BODY = plain_page("").encode()


# An internal address, in as many spellings as there are ways to pass a check of its text.
INTERNAL_HOSTS = (
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "0",
    "0.0.0.0",  # noqa: S104 - nothing is bound
    "127.0.0.1.",
    "localhost",
    "LOCALHOST.",
    "x.localhost",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1%25eth0]",
    "192.0.0.192",
    "224.0.0.1",
    "\u2460\u2461\u2466.0.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.16689662",
    "[::ffff:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a83f:8110::]",
    "[2001:67c:2960:6464::a83f:8110]",
    "[fd20:ce::254]",
    "metadata.google.internal",
    "metadata",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[2001:0:7f00:1::]",
    "[5f00::1]",
)


# What a name server may answer, in addition to or instead of a public address.
_INTERNAL_ADDRESSES = (
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "fe80::1%1",
)


def hostile_responses() -> Iterator[HostilePage]:
    """Yield the responses."""
    return chain(
        _compressed_bodies(),
        _slow_responses(),
        _malformed_heads(),
        _error_statuses(),
        _redirect_pages(),
        _internal_addresses(),
    )


def _compressed_bodies() -> Iterator[HostilePage]:
    packed = gzip.compress(_HARMLESS_BODY)
    bomb = gzip.compress(bytes(60_000_000), compresslevel=9)
    broken = {
        "bomb": (bomb, "gzip"),
        "bomb in a bomb": (gzip.compress(bomb), "gzip, gzip"),
        "twice": (gzip.compress(packed), "gzip,gzip"),
        "bomb declared twice": (bomb, "gzip, identity, gzip"),
        "deflate": (zlib.compress(_HARMLESS_BODY), "deflate"),
        "other": (_HARMLESS_BODY, "br"),
        "newer": (_HARMLESS_BODY, "zstd"),
        "not packed": (_HARMLESS_BODY, "gzip"),
        "cut short": (packed[:-20], "gzip"),
        "more after it": (packed * 2, "gzip"),
        "long name": (_HARMLESS_BODY, "x" * 3000),
        "just above": (gzip.compress(b" " * 2_000_001), "gzip"),
    }
    for name, (body, encoding) in broken.items():
        yield hostile_page(
            "packed",
            name,
            html_response(body, HTML_TYPE, ("Content-Encoding", encoding)),
            expected_errors=(MalformedDataError, ServiceUnavailableError),
        )
    yield hostile_page(
        "packed", "packed page", html_response(packed, HTML_TYPE, ("Content-Encoding", "GZIP")), visible=(VISIBLE_TEXT,)
    )
    # Compressed once more than declared, it is a gzip file and not a page.
    twice = html_response(gzip.compress(packed), HTML_TYPE, ("Content-Encoding", "gzip"))
    yield hostile_page("packed", "twice declared once", twice, expected_errors=(MalformedDataError,))


def _slow_responses() -> Iterator[HostilePage]:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    replies = {
        "no head": HostileResponse(raw=b"", manner=ConnectionEnding.STALL),
        "half a head": HostileResponse(raw=b"HTTP/1.1 200 OK\r\nCont", manner=ConnectionEnding.STALL),
        "half a body": HostileResponse(body=b"<p>x", manner=ConnectionEnding.STALL),
        "endless body": HostileResponse(body=b"x" * 65_536, manner=ConnectionEnding.ENDLESS),
        "endless chunks": HostileResponse(raw=chunked, body=b"1\r\nx\r\n" * 5000, manner=ConnectionEnding.ENDLESS),
        "endless head": HostileResponse(
            raw=b"HTTP/1.1 200 OK\r\n", body=b"X-A: b\r\n" * 5000, manner=ConnectionEnding.ENDLESS
        ),
        "endless hints": HostileResponse(
            raw=b"", body=b"HTTP/1.1 103 Early Hints\r\n\r\n", manner=ConnectionEnding.ENDLESS
        ),
        "long chunk extensions": HostileResponse(
            raw=chunked, body=(b"1;" + b"x" * 15_000 + b"\r\na\r\n") * 8, manner=ConnectionEnding.ENDLESS
        ),
        "hints before a page": HostileResponse(
            raw=b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 20
            + f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(_HARMLESS_BODY)}\r\n\r\n".encode(),
            body=_HARMLESS_BODY,
        ),
        "broken off": HostileResponse(
            raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n", manner=ConnectionEnding.RESET
        ),
        "too large": HostileResponse(body=b"x" * 1_000_001),
    }
    for name, reply in replies.items():
        yield hostile_page("slow", name, reply, expected_errors=(MalformedDataError, ServiceUnavailableError))


def _malformed_heads() -> Iterator[HostilePage]:
    lines = {
        "long header": "X-A: " + "b" * 200_000,
        "many headers": "\r\n".join(["X-A: b"] * 20_000),
        "null": "X-A: a\0b",
        "no colon": "nonsense",
        "negative length": "Content-Length: -1",
        "two lengths": "Content-Length: 3\r\nContent-Length: 900",
        "long length": "Content-Length: " + "9" * 400,
        "length too large": "Content-Length: 99999",
        "packed chunks": "Transfer-Encoding: gzip, chunked",
        "odd chunks": "Transfer-Encoding: chunked",
        "folded": "X-A: b\r\n c: d\r\n\te",
        "eighty kilobytes": "X-A: " + "b" * 80_000,
    }
    for name, line in lines.items():
        raw = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{line}\r\n\r\n".encode()
        yield hostile_page(
            "heads",
            name,
            HostileResponse(raw=raw, body=_HARMLESS_BODY),
            expected_errors=_ANY_FAILURE,
            allows_page=name == "folded",
        )
    for name, raw in (
        ("no head at all", b""),
        ("another protocol", b"SSH-2.0-x\r\n"),
        ("odd status", b"HTTP/1.1 99999 X\r\n\r\n"),
    ):
        yield hostile_page("heads", name, HostileResponse(raw=raw, body=_HARMLESS_BODY), expected_errors=_ANY_FAILURE)
    yield hostile_page(
        "heads",
        "length too small",
        html_response(_HARMLESS_BODY, HTML_TYPE, ("Content-Length", "200")),
        expected_errors=_ANY_FAILURE,
        allows_page=True,
    )


def _error_statuses() -> Iterator[HostilePage]:
    expected = {
        204: MalformedDataError,
        206: MalformedDataError,
        304: MalformedDataError,
        401: RequestRejectedError,
        403: RequestRejectedError,
        404: NotFoundError,
        410: NotFoundError,
        418: RequestRejectedError,
        429: ServiceUnavailableError,
        451: RequestRejectedError,
        500: ServiceUnavailableError,
        503: ServiceUnavailableError,
    }
    for status, error in expected.items():
        body = b"" if status in {204, 304} else _HARMLESS_BODY
        reply = HostileResponse(
            status=status, headers=(("Content-Type", HTML_TYPE), ("Retry-After", "9" * 50)), body=body
        )
        yield hostile_page("statuses", str(status), reply, expected_errors=(error,))


def _redirect_to(name: str, location: str, *ends: type[FoxcastError]) -> HostilePage:
    return hostile_page(
        "redirects", name, HostileResponse(status=302, headers=(("Location", location),)), expected_errors=ends
    )


def _redirect_pages() -> Iterator[HostilePage]:
    for host in INTERNAL_HOSTS:
        location = f"http://{host}/secret".encode().decode("latin-1")
        yield _redirect_to(f"to {host}", location, RequestRejectedError)
    for location in (
        "file:///etc/passwd",
        "ftp://a.test/",
        "gopher://a.test/",
        "javascript:x",
        "data:text/html,x",
        "ws://a.test/",
        "http://u:p@a.test/",
        "http://a.test:8080/",
        "http://a.test:22/",
        "//127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http://[::1",
        "http://",
        "http://a b/",
        "http://ex%61mple.test%00/",
        "HTTP://LOCALHOST/",
    ):
        yield _redirect_to(f"to {location}", location, RequestRejectedError, MalformedDataError)
    yield hostile_page(
        "redirects", "nowhere", HostileResponse(status=302, headers=()), expected_errors=(MalformedDataError,)
    )
    circle = "redirects--in-a-circle"
    yield _redirect_to("in a circle", f"/{circle}", MalformedDataError)
    for host, answers in (("later.test", ((PUBLIC_ADDRESS,), ("127.0.0.1",))), ("inner.test", (("10.0.0.7",),))):
        reply = HostileResponse(status=301, headers=(("Location", "/x"),))
        yield HostilePage(
            name=f"redirects: by {host}",
            family="redirects",
            url=f"http://{host}/by-{host}",
            reply=reply,
            expected_errors=(RequestRejectedError,),
            hosts={host: answers},
        )


def _internal_addresses() -> Iterator[HostilePage]:
    """Internal addresses, requested directly or under a name."""
    for host in INTERNAL_HOSTS:
        yield HostilePage(
            name=f"addresses: {host}",
            family="addresses",
            url=f"http://{host}/",
            reply=HostileResponse(),
            expected_errors=(RequestRejectedError,),
        )
    for number, address in enumerate(_INTERNAL_ADDRESSES):
        for kind, answers in (
            ("alone", (address,)),
            ("first", (address, PUBLIC_ADDRESS)),
            ("last", (PUBLIC_ADDRESS, address)),
        ):
            host = f"{kind}{number}.test"
            yield HostilePage(
                name=f"addresses: {address} {kind}",
                family="addresses",
                url=f"http://{host}/",
                reply=HostileResponse(),
                expected_errors=(RequestRejectedError,),
                hosts={host: (answers,)},
            )
