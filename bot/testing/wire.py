"""The hostile corpus, the half on the wire: what bursts, stalls, breaks off, or leads inside."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import chain

from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unavailable
from bot.testing.hidden import VISIBLE, page
from bot.testing.pages import HOME, HTML, HostilePage, Manner, Reply, entry, html

_ANY: tuple[type[FoxcastError], ...] = (ContractError, Rejected, Unavailable, NotFound)
_FINE = page("").encode()

# An address inside, in as many spellings as there are ways to slip it past a check of text.
SPELLINGS = (
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
# What a name server may answer with, besides or instead of a public address.
_INSIDE = (
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "fe80::1%1",
)


def wire_pages() -> Iterator[HostilePage]:
    """Yield this half of the corpus."""
    return chain(_packed(), _slow(), _heads(), _statuses(), _redirects(), _addresses())


def _packed() -> Iterator[HostilePage]:
    packed = gzip.compress(_FINE)
    bomb = gzip.compress(bytes(60_000_000), compresslevel=9)
    broken = {
        "bomb": (bomb, "gzip"),
        "bomb in a bomb": (gzip.compress(bomb), "gzip, gzip"),
        "twice": (gzip.compress(packed), "gzip,gzip"),
        "bomb declared twice": (bomb, "gzip, identity, gzip"),
        "deflate": (zlib.compress(_FINE), "deflate"),
        "other": (_FINE, "br"),
        "newer": (_FINE, "zstd"),
        "not packed": (_FINE, "gzip"),
        "cut short": (packed[:-20], "gzip"),
        "more after it": (packed * 2, "gzip"),
        "long name": (_FINE, "x" * 3000),
        "just above": (gzip.compress(b" " * 2_000_001), "gzip"),
    }
    for name, (body, encoding) in broken.items():
        yield entry("packed", name, html(body, HTML, ("Content-Encoding", encoding)), ends=(ContractError, Unavailable))
    yield entry("packed", "packed page", html(packed, HTML, ("Content-Encoding", "GZIP")), visible=(VISIBLE,))
    # Packed once more than declared, it is a gzip file, which is no page.
    twice = html(gzip.compress(packed), HTML, ("Content-Encoding", "gzip"))
    yield entry("packed", "twice declared once", twice, ends=(ContractError,))


def _slow() -> Iterator[HostilePage]:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    replies = {
        "no head": Reply(raw=b"", manner=Manner.STALL),
        "half a head": Reply(raw=b"HTTP/1.1 200 OK\r\nCont", manner=Manner.STALL),
        "half a body": Reply(body=b"<p>x", manner=Manner.STALL),
        "endless body": Reply(body=b"x" * 65_536, manner=Manner.ENDLESS),
        "endless chunks": Reply(raw=chunked, body=b"1\r\nx\r\n" * 5000, manner=Manner.ENDLESS),
        "endless head": Reply(raw=b"HTTP/1.1 200 OK\r\n", body=b"X-A: b\r\n" * 5000, manner=Manner.ENDLESS),
        "endless hints": Reply(raw=b"", body=b"HTTP/1.1 103 Early Hints\r\n\r\n", manner=Manner.ENDLESS),
        "long chunk extensions": Reply(
            raw=chunked, body=(b"1;" + b"x" * 15_000 + b"\r\na\r\n") * 8, manner=Manner.ENDLESS
        ),
        "hints before a page": Reply(
            raw=b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 20
            + f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(_FINE)}\r\n\r\n".encode(),
            body=_FINE,
        ),
        "broken off": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n", manner=Manner.RESET),
        "too large": Reply(body=b"x" * 1_000_001),
    }
    for name, reply in replies.items():
        yield entry("slow", name, reply, ends=(ContractError, Unavailable))


def _heads() -> Iterator[HostilePage]:
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
        yield entry("heads", name, Reply(raw=raw, body=_FINE), ends=_ANY, page_too=name == "folded")
    for name, raw in (
        ("no head at all", b""),
        ("another protocol", b"SSH-2.0-x\r\n"),
        ("odd status", b"HTTP/1.1 99999 X\r\n\r\n"),
    ):
        yield entry("heads", name, Reply(raw=raw, body=_FINE), ends=_ANY)
    yield entry("heads", "length too small", html(_FINE, HTML, ("Content-Length", "200")), ends=_ANY, page_too=True)


def _statuses() -> Iterator[HostilePage]:
    expected = {
        204: ContractError,
        206: ContractError,
        304: ContractError,
        401: Rejected,
        403: Rejected,
        404: NotFound,
        410: NotFound,
        418: Rejected,
        429: Unavailable,
        451: Rejected,
        500: Unavailable,
        503: Unavailable,
    }
    for status, error in expected.items():
        body = b"" if status in {204, 304} else _FINE
        reply = Reply(status=status, headers=(("Content-Type", HTML), ("Retry-After", "9" * 50)), body=body)
        yield entry("statuses", str(status), reply, ends=(error,))


def _leading(name: str, location: str, *ends: type[FoxcastError]) -> HostilePage:
    return entry("redirects", name, Reply(status=302, headers=(("Location", location),)), ends=ends)


def _redirects() -> Iterator[HostilePage]:
    for host in SPELLINGS:
        location = f"http://{host}/secret".encode().decode("latin-1")
        yield _leading(f"to {host}", location, Rejected)
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
        yield _leading(f"to {location}", location, Rejected, ContractError)
    yield entry("redirects", "nowhere", Reply(status=302, headers=()), ends=(ContractError,))
    circle = "redirects--in-a-circle"
    yield _leading("in a circle", f"/{circle}", ContractError)
    for host, answers in (("later.test", ((HOME,), ("127.0.0.1",))), ("inner.test", (("10.0.0.7",),))):
        reply = Reply(status=301, headers=(("Location", "/x"),))
        yield HostilePage(
            name=f"redirects: by {host}",
            family="redirects",
            url=f"http://{host}/by-{host}",
            reply=reply,
            ends=(Rejected,),
            hosts={host: answers},
        )


def _addresses() -> Iterator[HostilePage]:
    """Addresses inside, asked for directly or behind a name."""
    for host in SPELLINGS:
        yield HostilePage(
            name=f"addresses: {host}", family="addresses", url=f"http://{host}/", reply=Reply(), ends=(Rejected,)
        )
    for number, address in enumerate(_INSIDE):
        for kind, answers in (("alone", (address,)), ("first", (address, HOME)), ("last", (HOME, address))):
            host = f"{kind}{number}.test"
            yield HostilePage(
                name=f"addresses: {address} {kind}",
                family="addresses",
                url=f"http://{host}/",
                reply=Reply(),
                ends=(Rejected,),
                hosts={host: (answers,)},
            )
