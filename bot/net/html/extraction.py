"""From the bytes of a page to its title.

Text and date, and the child process that does this under limits of memory and time. Loaded only in that process,
which bot.net.html.page_reader starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.core.errors import MalformedDataError
from bot.net.html.publication_date import publication_date
from bot.net.html.text import clean_text, decode_page, page_text
from bot.net.html.visible_text import strip_hidden
from bot.net.html.xml_documents import is_xhtml_page, parse_xml, read_feed, to_html

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

TITLE_CHARS = 300


# The first bytes of what is no text, whatever a server says of it.
_BINARY_SIGNATURES = {
    b"%PDF-": "a PDF file",
    b"PK\x03\x04": "a ZIP file",
    b"\x1f\x8b": "a gzip file",
    b"\x89PNG": "a picture",
    b"GIF8": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"RIFF": "a picture or sound",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
}


# Below this the main text is so little that the whole page is the better answer.
_MIN_MAIN_CHARS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPage:
    """What is read out of a page; the fields are those of ``bot.core.research.PageText``."""

    title: str
    text: str
    published_at: datetime | None


def extract_page(content: bytes, media_type: str, *, longest: int) -> ExtractedPage:
    """Return what a person would read, at most ``longest`` characters; raises ContractError for what is no text."""
    _require_text(content)
    kind = media_type.partition(";")[0].strip()
    decoded = decode_page(content, media_type)
    if kind == "text/html":
        return _extract_html(decoded, longest)
    if kind.endswith("xml"):
        return _extract_xml(decoded, kind, longest)
    return ExtractedPage(title="", text=clean_text(decoded, longest=longest), published_at=None)


def _require_text(content: bytes) -> None:
    for magic, what in _BINARY_SIGNATURES.items():
        if content.startswith(magic):
            message = f"it is {what}, whatever its declared type"
            raise MalformedDataError(message)
    head = content[:1024]
    odd = sum(byte < 32 and byte not in b"\t\n\r\x0c\x1b" for byte in head)
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")) and odd * 10 > len(head) > 0:
        message = "it is no text, whatever its declared type"
        raise MalformedDataError(message)


def _extract_xml(decoded: str, kind: str, longest: int) -> ExtractedPage:
    """Return what a document in XML holds: a page by its root, whatever stands before it, a feed, or any other."""
    found = parse_xml(decoded)
    if found is None:
        return _extract_html(decoded, longest)
    if is_xhtml_page(found.root):
        # Markup beyond the rules of XML is read with those of HTML, which lose less of it.
        return _extract_html(to_html(found.root) if found.sound else decoded, longest)
    if kind == "application/xhtml+xml":
        return _extract_html(decoded, longest)
    title, said, moment = read_feed(found.root, longest)
    return ExtractedPage(title=_single_line(title), text=said, published_at=moment)


def _extract_html(decoded: str, longest: int) -> ExtractedPage:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only the process that reads pages loads it

    tree = LexborHTMLParser(decoded.replace("\x00", ""))
    date, title = publication_date(tree), _find_title(tree, "head title")
    strip_hidden(tree)
    # A heading may be hidden, and is asked for only after the stripping.
    title = title or _find_title(tree, "h1")
    seen = clean_text(page_text(tree), longest=longest)
    main = clean_text(_main_text(tree.html or ""), longest=longest)
    better = main if len(main) >= max(_MIN_MAIN_CHARS, len(seen) // 20) else seen
    return ExtractedPage(title=title, text=better if len(better) > len(main) else main, published_at=date)


def _find_title(tree: LexborHTMLParser, wanted: str) -> str:
    found = tree.css_first(wanted)
    return _single_line(found.text()) if found is not None else ""


def _single_line(said: str) -> str:
    return " ".join(clean_text(said, longest=TITLE_CHARS).split())


def _main_text(html: str) -> str:
    import trafilatura  # noqa: PLC0415 - as above

    document = trafilatura.bare_extraction(html, include_comments=False, include_tables=True, with_metadata=False)
    found = getattr(document, "text", None)
    return found if isinstance(found, str) else ""


_WARMUP_PAGE = (
    b"<html><head><title>x</title></head><body><article><p>" + b"warm words. " * 40 + b"</p></article></body></html>"
)


def serve_pages() -> None:
    """Serve until the input ends."""
    # Ctrl-C reaches the whole group of processes; ending this one is the parent's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not look like an answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    limits = json.loads(_read_frame(asked) or b"{}")
    extract_page(_WARMUP_PAGE, "text/html", longest=1000)
    _limit_memory(int(limits["memory_bytes"]))
    _send_frame(answers, {"ready": True})
    while (head := _read_frame(asked)) is not None and (content := _read_frame(asked)) is not None:
        _extend_cpu_limit(int(limits["cpu_s"]))
        _send_frame(answers, answer_page(content, json.loads(head)["media_type"], longest=int(limits["chars"])))


def answer_page(content: bytes, media_type: str, *, longest: int) -> dict[str, str | None]:
    """Return the answer to one page: its title, text and date, or why it could not be read."""
    try:
        found = extract_page(content, media_type, longest=longest)
    except MalformedDataError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - whatever a hostile page makes a library raise, the next page is read
        return {"error": f"its form is beyond reading ({type(error).__name__})"}
    moment = found.published_at
    return {"title": found.title, "text": found.text, "published_at": moment.isoformat() if moment else None}


def _read_frame(source: BinaryIO) -> bytes | None:
    length = source.read(4)
    if len(length) < 4:
        return None
    body = source.read(int.from_bytes(length, "big"))
    return body if len(body) == int.from_bytes(length, "big") else None


def _send_frame(answers: BinaryIO, said: object) -> None:
    body = json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
    answers.write(len(body).to_bytes(4, "big") + body)
    answers.flush()


def _limit_memory(memory_bytes: int) -> None:
    """Bound memory, and forbid writing files and dumps; not every system knows each limit."""
    limits = {"RLIMIT_AS": memory_bytes, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for name, most in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))


def _extend_cpu_limit(seconds: int) -> None:
    """Let the next page have that many seconds of computing; the system ends the process that takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))
