"""From the bytes of a page to its title, text and date. Runs in the child process of ``bot.pages.reader`` only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.errors import ContractError
from bot.pages.charset import decode
from bot.pages.dates import moment, published
from bot.pages.text import clean
from bot.pages.visible import strip, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml.etree import _Element  # type: ignore[import-untyped] # lxml ships no types
    from selectolax.lexbor import LexborHTMLParser

TITLE_CHARS = 300
_HTML = frozenset({"text/html", "application/xhtml+xml"})
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
_ENTRIES = frozenset({"item", "entry"})


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
    if kind in _HTML or (kind.endswith("xml") and _is_page(decoded)):
        return _page(decoded, longest)
    if kind.endswith("xml"):
        return _feed(decoded, longest)
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


def _is_page(decoded: str) -> bool:
    return re.search(r"<(?:!doctype\s+)?html[\s>]", decoded[:2048], re.IGNORECASE) is not None


def _page(decoded: str, longest: int) -> Extract:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only the process that reads pages loads it

    tree = LexborHTMLParser(decoded.replace("\x00", ""))
    date, title = published(tree), _title(tree)
    strip(tree)
    seen = clean(text(tree), longest=longest)
    main = clean(_main(tree.html or ""), longest=longest)
    better = main if len(main) >= max(_LITTLE_CHARS, len(seen) // 20) else seen
    return Extract(title=title, text=better if len(better) > len(main) else main, published_at=date)


def _title(tree: LexborHTMLParser) -> str:
    for found in (tree.css_first("head title"), tree.css_first("h1")):
        if found is not None and (title := clean(found.text(), longest=TITLE_CHARS)):
            return " ".join(title.split())
    return ""


def _main(html: str) -> str:
    import trafilatura  # noqa: PLC0415 - as above

    document = trafilatura.bare_extraction(html, include_comments=False, include_tables=True, with_metadata=False)
    found = getattr(document, "text", None)
    return found if isinstance(found, str) else ""


def _feed(decoded: str, longest: int) -> Extract:
    """Return a feed as a list of its entries, or the text of any other XML; entities are not replaced."""
    from lxml import etree  # type: ignore[import-untyped] # noqa: PLC0415 - as above; no types

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.replace("\x00", ""))
    root = etree.fromstring(plain.encode("utf-8", "replace"), parser)
    if root is None:
        return Extract(title="", text=clean(decoded, longest=longest), published_at=None)
    entries = [each for each in root.iter() if _name(each) in _ENTRIES]
    if not entries:
        return Extract(title="", text=clean("\n".join(map(str, root.itertext())), longest=longest), published_at=None)
    head = next((each for each in root.iter() if _name(each) == "title"), None)
    title = " ".join(clean(_plain(head), longest=TITLE_CHARS).split()) if head is not None else ""
    told: list[str] = []
    for entry in entries:
        told.extend(_entry(entry))
        if sum(map(len, told)) > longest:
            break
    return Extract(title=title, text=clean("\n".join(told), longest=longest), published_at=_latest(entries))


def _entry(entry: _Element) -> Iterator[str]:
    yield ""
    for part in entry:
        if _name(part) in {
            "title",
            "pubdate",
            "published",
            "updated",
            "date",
            "description",
            "summary",
            "content",
            "encoded",
        }:
            yield _plain(part)


def _plain(element: _Element) -> str:
    """Return what would be seen of an element whose text may itself be a page."""
    said = "".join(map(str, element.itertext()))
    if "<" not in said:
        return said
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - as above

    tree = LexborHTMLParser(said)
    strip(tree)
    return clean(text(tree), longest=len(said) * 2)


def _latest(entries: list[_Element]) -> datetime | None:
    """Return the newest date in a feed: as a whole it was not there before."""
    said = ("".join(map(str, part.itertext())) for entry in entries for part in entry
            if _name(part) in {"pubdate", "published", "updated", "date"})  # fmt: skip
    return max((found for each in said if (found := moment(each)) is not None), default=None)


def _name(element: _Element) -> str:
    # Comments, instructions and entities have a function where elements have a name.
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""
