"""From the bytes of a page to its title, text and date: HTML, XHTML, feeds and other XML.

Loaded only in a child process that ``bot.net.html.page_reader`` starts under limits of memory and time. Entities of XML
are not replaced and nothing is loaded. A publication date is read from the head or the markup of a page, never guessed
from its prose: a wrong date would let a page from after a cutoff through.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, BinaryIO

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.net.html.text import clean_text, decode_page, page_text
from bot.net.html.visible_text import strip_hidden

if TYPE_CHECKING:
    from lxml.etree import _Element  # type: ignore[import-untyped] # lxml ships no types
    from selectolax.lexbor import LexborHTMLParser

TITLE_CHARS = 300
# The first bytes of files that are not text, whatever type a server declares.
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
# With a shorter main text, the text of the whole page is the better result.
_MIN_MAIN_CHARS = 250
_JSON_LD = re.compile(r'"(?:datePublished|uploadDate|dateCreated)"\s*:\s*"([^"\\]{4,40})"')
_DATE_METAS = (
    "article:published_time",
    "og:published_time",
    "article:published",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.issued",
    "dcterms.created",
    "dc.date.created",
    "citation_publication_date",
    "citation_date",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "publish-date",
    "publish_date",
    "publication_date",
    "originalpublicationdate",
)
_MOMENT = re.compile(
    r"(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})"
    r"(?:[T ]+(\d{2}):?(\d{2})(?::?(\d{2})(?:[.,]\d{1,9})?)?\s*(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)?)?",
    re.IGNORECASE,
)
XHTML_NAMESPACE = "http://www.w3.org/1999/xhtml"
_ENTRY_TAGS = frozenset({"item", "entry"})
_DATE_TAGS = frozenset({"pubdate", "published", "updated", "date"})
_TEXT_TAGS = frozenset({"title", "description", "summary", "content", "encoded", *_DATE_TAGS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPage:
    """The content of a page; the fields are those of ``bot.core.research.PageText``."""

    title: str
    text: str
    published_at: datetime | None


def extract_page(content: bytes, media_type: str, *, max_chars: int) -> ExtractedPage:
    """Return the visible content, at most ``max_chars`` characters; raises MalformedDataError if it is not text."""
    _require_text(content)
    kind = media_type.partition(";")[0].strip()
    decoded = decode_page(content, media_type)
    if kind == "text/html":
        return _extract_html(decoded, max_chars)
    if kind.endswith("xml"):
        return _extract_xml(decoded, kind, max_chars)
    return ExtractedPage(title="", text=clean_text(decoded, max_chars=max_chars), published_at=None)


def _require_text(content: bytes) -> None:
    for magic, what in _BINARY_SIGNATURES.items():
        if content.startswith(magic):
            message = f"it is {what}, whatever its declared type"
            raise MalformedDataError(message)
    head = content[:1024]
    odd = sum(byte < 32 and byte not in b"\t\n\r\x0c\x1b" for byte in head)
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")) and odd * 10 > len(head) > 0:
        message = "it is not text, whatever its declared type"
        raise MalformedDataError(message)


def _extract_xml(decoded: str, kind: str, max_chars: int) -> ExtractedPage:
    """Return the content of an XML document: a page if its root says so, a feed, or any other.

    What the XML library cannot read, such as characters that XML does not have, is read as HTML.
    """
    from lxml import etree  # type: ignore[import-untyped] # noqa: PLC0415 - only the child loads it; no types

    try:
        return _extract_parsed_xml(decoded, kind, max_chars)
    except (etree.LxmlError, ValueError):
        return _extract_html(decoded, max_chars)


def _extract_parsed_xml(decoded: str, kind: str, max_chars: int) -> ExtractedPage:
    found = parse_xml(decoded)
    if found is None:
        return _extract_html(decoded, max_chars)
    if is_xhtml_page(found.root):
        # Invalid XML is parsed as HTML, which loses less of it.
        return _extract_html(to_html(found.root) if found.is_valid else decoded, max_chars)
    if kind == "application/xhtml+xml":
        return _extract_html(decoded, max_chars)
    title, text, moment = read_feed(found.root, max_chars)
    return ExtractedPage(title=_single_line(title), text=text, published_at=moment)


def _extract_html(decoded: str, max_chars: int) -> ExtractedPage:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only the process that reads pages loads it

    tree = LexborHTMLParser(decoded.replace("\x00", ""))
    date, title = publication_date(tree), _find_title(tree, "head title")
    strip_hidden(tree)
    # A heading may be hidden, so it is read only after hidden parts are removed.
    title = title or _find_title(tree, "h1")
    visible = clean_text(page_text(tree), max_chars=max_chars)
    main = clean_text(_main_text(tree.html or ""), max_chars=max_chars)
    better = main if len(main) >= max(_MIN_MAIN_CHARS, len(visible) // 20) else visible
    return ExtractedPage(title=title, text=better if len(better) > len(main) else main, published_at=date)


def _find_title(tree: LexborHTMLParser, selector: str) -> str:
    found = tree.css_first(selector)
    return _single_line(found.text()) if found is not None else ""


def _single_line(text: str) -> str:
    return " ".join(clean_text(text, max_chars=TITLE_CHARS).split())


def _main_text(html: str) -> str:
    import trafilatura  # noqa: PLC0415 - as above

    document = trafilatura.bare_extraction(html, include_comments=False, include_tables=True, with_metadata=False)
    found = getattr(document, "text", None)
    return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True)
class ParsedXml:
    """The root of a document, and whether it was valid XML."""

    root: _Element
    is_valid: bool


def parse_xml(decoded: str) -> ParsedXml | None:
    """Return the document as far as it can be parsed, or None."""
    from lxml import etree  # noqa: PLC0415 - as above

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.replace("\x00", ""))
    root = etree.fromstring(plain.encode("utf-8", "replace"), parser)
    return None if root is None else ParsedXml(root, is_valid=len(parser.error_log) == 0)


def is_xhtml_page(root: _Element) -> bool:
    """Return whether the root of a document says that it is a page."""
    return _tag_name(root) == "html"


def to_html(element: _Element) -> str:
    """Return the element as HTML; elements that are not HTML get names without a meaning in HTML."""
    from lxml import etree  # noqa: PLC0415 - as above

    bare = etree.fromstring(etree.tostring(element, with_tail=False), etree.XMLParser(resolve_entities=False))
    own_page = is_xhtml_page(bare)
    for each in bare.iter():
        if isinstance(each.tag, str):
            space, _, name = each.tag.rpartition("}")
            known = space == f"{{{XHTML_NAMESPACE}" or (own_page and not space)
            each.tag = name.lower() if known else f"x-{name.lower()}"
    etree.cleanup_namespaces(bare)
    return str(etree.tostring(bare, encoding="unicode", method="html", with_tail=False))


def read_feed(root: _Element, max_chars: int) -> tuple[str, str, datetime | None]:
    """Return title, text and date of a feed, or the text of any other document."""
    entries = [each for each in root.iter() if _tag_name(each) in _ENTRY_TAGS]
    if not entries:
        text = _visible_element_text(root) if _has_xhtml(root) else "\n".join(map(str, root.itertext()))
        return "", clean_text(text, max_chars=max_chars), None
    head = next((each for each in root.iter() if _tag_name(each) == "title"), None)
    texts: list[str] = []
    for entry in entries:
        texts.extend(_entry_texts(entry))
        if sum(map(len, texts)) > max_chars:
            break
    title = _visible_element_text(head) if head is not None else ""
    return title, clean_text("\n".join(texts), max_chars=max_chars), _latest_date(entries)


def _entry_texts(entry: _Element) -> Iterator[str]:
    yield ""
    for part in entry:
        if _tag_name(part) in _TEXT_TAGS:
            yield _visible_element_text(part)


def _visible_element_text(element: _Element) -> str:
    """Return the visible text of an element, whose text may be a page or contain parts of one."""
    text = to_html(element) if _has_xhtml(element) else "".join(map(str, element.itertext()))
    if "<" not in text:
        return text
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - as above

    tree = LexborHTMLParser(text)
    strip_hidden(tree)
    return clean_text(page_text(tree), max_chars=len(text) * 2)


def _has_xhtml(element: _Element) -> bool:
    return next(element.iter(f"{{{XHTML_NAMESPACE}}}*"), None) is not None


def _latest_date(entries: list[_Element]) -> datetime | None:
    """Return the newest date in a feed, because the feed as a whole is not older."""
    texts = ("".join(map(str, part.itertext())) for entry in entries for part in entry if _tag_name(part) in _DATE_TAGS)
    return max((found for text in texts if (found := parse_moment(text)) is not None), default=None)


def _tag_name(element: _Element) -> str:
    # The tag of comments, processing instructions and entities is a function.
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def publication_date(tree: LexborHTMLParser) -> datetime | None:
    """Return the declared publication time in UTC, or None; a date without a time is the start of that day."""
    for text in _declared_dates(tree):
        if (found := parse_moment(text)) is not None:
            return found
    return None


def parse_moment(text: str) -> datetime | None:
    """Return a date or time of ISO 8601 or RFC 5322 in UTC, or None; one without a zone is taken as UTC."""
    text = text.strip()
    if found := _MOMENT.fullmatch(text):
        day, zone = "-".join(found.group(1, 2, 3)), (found[7] or "Z").upper()
        time = ":".join(part or "00" for part in found.group(4, 5, 6))
        zone = "+00:00" if zone in {"Z", "UTC", "GMT"} else zone
        return _parse_iso(f"{day}T{time}{zone if len(zone) != 3 else zone + ':00'}")
    try:
        parsed = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return _to_utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _declared_dates(tree: LexborHTMLParser) -> Iterator[str]:
    """Yield the declared dates of a page, the most trusted one first."""
    metas: dict[str, str] = {}
    for meta in tree.css("meta"):
        name = meta.attributes.get("property") or meta.attributes.get("name") or meta.attributes.get("itemprop") or ""
        metas.setdefault(name.lower(), meta.attributes.get("content") or "")
    yield from (metas[name] for name in _DATE_METAS[:4] if name in metas)
    for script in tree.css('script[type="application/ld+json"]'):
        yield from _JSON_LD.findall(script.text() or "")
    for node in tree.css('[itemprop="datePublished"]'):
        yield node.attributes.get("datetime") or node.attributes.get("content") or node.text()
    yield from (metas[name] for name in _DATE_METAS[4:] if name in metas)
    for node in tree.css("time[pubdate], article time[datetime], header time[datetime]"):
        yield node.attributes.get("datetime") or ""


def _parse_iso(text: str) -> datetime | None:
    try:
        return _to_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def _to_utc(found: datetime) -> datetime | None:
    try:
        moment = found.astimezone(UTC)
    except OverflowError:
        return None
    return moment if moment.year >= 1990 else None


_WARMUP_PAGE = (
    b"<html><head><title>x</title></head><body><article><p>" + b"warm words. " * 40 + b"</p></article></body></html>"
)


def serve_pages() -> None:
    """Read pages from standard input until it ends; the entry point of the child process."""
    # Ctrl-C reaches the whole process group; the parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # The output of a library must not look like an answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    limits = json.loads(_read_frame(requests) or b"{}")
    extract_page(_WARMUP_PAGE, "text/html", max_chars=1000)
    _limit_memory(int(limits["memory_bytes"]))
    _send_frame(answers, {"ready": True})
    while (head := _read_frame(requests)) is not None and (content := _read_frame(requests)) is not None:
        _extend_cpu_limit(int(limits["cpu_s"]))
        _send_frame(answers, answer_page(content, json.loads(head)["media_type"], max_chars=int(limits["chars"])))


def answer_page(content: bytes, media_type: str, *, max_chars: int) -> dict[str, str | None]:
    """Return the answer to one page: its title, text and date, or why it could not be read."""
    try:
        found = extract_page(content, media_type, max_chars=max_chars)
    except MalformedDataError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - a hostile page may make a library raise anything, and the next page must be read
        return {"error": f"its parser failed ({type(error).__name__})"}
    moment = found.published_at
    return {"title": found.title, "text": found.text, "published_at": moment.isoformat() if moment else None}


def _read_frame(source: BinaryIO) -> bytes | None:
    length = source.read(4)
    if len(length) < 4:
        return None
    body = source.read(int.from_bytes(length, "big"))
    return body if len(body) == int.from_bytes(length, "big") else None


def _send_frame(answers: BinaryIO, value: object) -> None:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    answers.write(len(body).to_bytes(4, "big") + body)
    answers.flush()


def _limit_memory(memory_bytes: int) -> None:
    """Limit memory, and forbid writing files and core dumps; some systems lack some of the limits."""
    limits = {"RLIMIT_AS": memory_bytes, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for name, limit in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit))


def _extend_cpu_limit(seconds: int) -> None:
    """Allow the next page that many seconds of CPU time; the system kills a process that takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))
