"""From the bytes of a page to its title, text and date. Runs in the child process of ``bot.pages.reader`` only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.errors import ContractError
from bot.pages.charset import decode
from bot.pages.dates import published
from bot.pages.markup import feed, html, is_page, parsed
from bot.pages.text import clean
from bot.pages.visible import strip, text

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

TITLE_CHARS = 300
# The first bytes of what is no text, whatever a server says of it.
_MAGIC = {
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
_LITTLE_CHARS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """What is read out of a page; the fields are those of ``bot.domain.research.Page``."""

    title: str
    text: str
    published_at: datetime | None


def extract(content: bytes, media_type: str, *, longest: int) -> Extract:
    """Return what a person would read, at most ``longest`` characters; raises ContractError for what is no text."""
    _require_text(content)
    kind = media_type.partition(";")[0].strip()
    decoded = decode(content, media_type)
    if kind == "text/html":
        return _page(decoded, longest)
    if kind.endswith("xml"):
        return _document(decoded, kind, longest)
    return Extract(title="", text=clean(decoded, longest=longest), published_at=None)


def _require_text(content: bytes) -> None:
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            message = f"it is {what}, whatever its declared type"
            raise ContractError(message)
    head = content[:1024]
    odd = sum(byte < 32 and byte not in b"\t\n\r\x0c\x1b" for byte in head)
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")) and odd * 10 > len(head) > 0:
        message = "it is no text, whatever its declared type"
        raise ContractError(message)


def _document(decoded: str, kind: str, longest: int) -> Extract:
    """Return what a document in XML holds: a page by its root, whatever stands before it, a feed, or any other."""
    found = parsed(decoded)
    if found is None:
        return _page(decoded, longest)
    if is_page(found.root):
        # Markup beyond the rules of XML is read with those of HTML, which lose less of it.
        return _page(html(found.root) if found.sound else decoded, longest)
    if kind == "application/xhtml+xml":
        return _page(decoded, longest)
    title, said, moment = feed(found.root, longest)
    return Extract(title=_in_a_line(title), text=said, published_at=moment)


def _page(decoded: str, longest: int) -> Extract:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only the process that reads pages loads it

    tree = LexborHTMLParser(decoded.replace("\x00", ""))
    date, title = published(tree), _title(tree, "head title")
    strip(tree)
    # A heading may be hidden, and is asked for only after the stripping.
    title = title or _title(tree, "h1")
    seen = clean(text(tree), longest=longest)
    main = clean(_main(tree.html or ""), longest=longest)
    better = main if len(main) >= max(_LITTLE_CHARS, len(seen) // 20) else seen
    return Extract(title=title, text=better if len(better) > len(main) else main, published_at=date)


def _title(tree: LexborHTMLParser, wanted: str) -> str:
    found = tree.css_first(wanted)
    return _in_a_line(found.text()) if found is not None else ""


def _in_a_line(said: str) -> str:
    return " ".join(clean(said, longest=TITLE_CHARS).split())


def _main(html: str) -> str:
    import trafilatura  # noqa: PLC0415 - as above

    document = trafilatura.bare_extraction(html, include_comments=False, include_tables=True, with_metadata=False)
    found = getattr(document, "text", None)
    return found if isinstance(found, str) else ""
