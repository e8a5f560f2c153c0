"""XHTML pages, feeds and other XML documents, through the same stripping as HTML.

Entities are not replaced and nothing is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.net.html.publication_date import parse_moment
from bot.net.html.text import clean_text, page_text
from bot.net.html.visible_text import strip_hidden

if TYPE_CHECKING:
    from datetime import datetime

    from lxml.etree import _Element  # type: ignore[import-untyped] # lxml ships no types

XHTML_NAMESPACE = "http://www.w3.org/1999/xhtml"
_ENTRY_TAGS = frozenset({"item", "entry"})
_DATE_TAGS = frozenset({"pubdate", "published", "updated", "date"})
_TEXT_TAGS = frozenset({"title", "description", "summary", "content", "encoded", *_DATE_TAGS})


@dataclass(frozen=True, slots=True)
class ParsedXml:
    """The root of a document, and whether it was XML without a fault."""

    root: _Element
    sound: bool


def parse_xml(decoded: str) -> ParsedXml | None:
    """Return the document, as far as it could be read, or None."""
    from lxml import etree  # type: ignore[import-untyped] # noqa: PLC0415 - only the child loads it; no types

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.replace("\x00", ""))
    root = etree.fromstring(plain.encode("utf-8", "replace"), parser)
    return None if root is None else ParsedXml(root, sound=len(parser.error_log) == 0)


def is_xhtml_page(root: _Element) -> bool:
    """Tell whether a document is a page, by its root."""
    return _tag_name(root) == "html"


def to_html(element: _Element) -> str:
    """Return the element as HTML. Elements of other kinds get names that mean nothing there."""
    from lxml import etree  # noqa: PLC0415 - as above

    bare = etree.fromstring(etree.tostring(element, with_tail=False), etree.XMLParser(resolve_entities=False))
    own_page = is_xhtml_page(bare)
    for each in bare.iter():
        if isinstance(each.tag, str):
            space, _, name = each.tag.rpartition("}")
            known = space == f"{{{XHTML_NAMESPACE}" or (own_page and not space)
            each.tag = name.lower() if known else f"x-{name.lower()}"
    etree.cleanup_namespaces(bare)
    said = etree.tostring(bare, encoding="unicode", method="html", with_tail=False)
    return str(said)


def read_feed(root: _Element, longest: int) -> tuple[str, str, datetime | None]:
    """Return title, text and date of a feed as a list of its entries, or of any other document its text."""
    entries = [each for each in root.iter() if _tag_name(each) in _ENTRY_TAGS]
    if not entries:
        said = _visible_element_text(root) if _has_xhtml(root) else "\n".join(map(str, root.itertext()))
        return "", clean_text(said, longest=longest), None
    head = next((each for each in root.iter() if _tag_name(each) == "title"), None)
    told: list[str] = []
    for entry in entries:
        told.extend(_entry_texts(entry))
        if sum(map(len, told)) > longest:
            break
    title = _visible_element_text(head) if head is not None else ""
    return title, clean_text("\n".join(told), longest=longest), _latest_date(entries)


def _entry_texts(entry: _Element) -> Iterator[str]:
    yield ""
    for part in entry:
        if _tag_name(part) in _TEXT_TAGS:
            yield _visible_element_text(part)


def _visible_element_text(element: _Element) -> str:
    """Return what would be seen of an element whose text may itself be a page, or which may hold parts of one."""
    said = to_html(element) if _has_xhtml(element) else "".join(map(str, element.itertext()))
    if "<" not in said:
        return said
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - as above

    tree = LexborHTMLParser(said)
    strip_hidden(tree)
    return clean_text(page_text(tree), longest=len(said) * 2)


def _has_xhtml(element: _Element) -> bool:
    return next(element.iter(f"{{{XHTML_NAMESPACE}}}*"), None) is not None


def _latest_date(entries: list[_Element]) -> datetime | None:
    """Return the newest date in a feed: as a whole it was not there before."""
    said = ("".join(map(str, part.itertext())) for entry in entries for part in entry if _tag_name(part) in _DATE_TAGS)
    return max((found for each in said if (found := parse_moment(each)) is not None), default=None)


def _tag_name(element: _Element) -> str:
    # Comments, instructions and entities have a function where elements have a name.
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""
