"""Documents in XML: pages in its dress, feeds, and any other. Runs in the child process of ``bot.pages.reader`` only.

A browser shows elements of XHTML as it does in a page, wherever they stand, so whatever holds any goes through the same
stripping as a page. Entities are not replaced and nothing is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.pages.dates import moment
from bot.pages.text import clean
from bot.pages.visible import strip, text

if TYPE_CHECKING:
    from datetime import datetime

    from lxml.etree import _Element  # type: ignore[import-untyped] # lxml ships no types

XHTML = "http://www.w3.org/1999/xhtml"
_ENTRIES = frozenset({"item", "entry"})
_DATES = frozenset({"pubdate", "published", "updated", "date"})
_PARTS = frozenset({"title", "description", "summary", "content", "encoded", *_DATES})


@dataclass(frozen=True, slots=True)
class Parsed:
    """The root of a document, and whether it was XML without a fault."""

    root: _Element
    sound: bool


def parsed(decoded: str) -> Parsed | None:
    """Return the document, as far as it could be read, or None."""
    from lxml import etree  # type: ignore[import-untyped] # noqa: PLC0415 - only the child loads it; no types

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.replace("\x00", ""))
    root = etree.fromstring(plain.encode("utf-8", "replace"), parser)
    return None if root is None else Parsed(root, sound=len(parser.error_log) == 0)


def is_page(root: _Element) -> bool:
    """Tell whether a document is a page, by its root."""
    return _name(root) == "html"


def html(element: _Element) -> str:
    """Return the element as HTML. Elements of other kinds get names that mean nothing there."""
    from lxml import etree  # noqa: PLC0415 - as above

    bare = etree.fromstring(etree.tostring(element, with_tail=False), etree.XMLParser(resolve_entities=False))
    own_page = is_page(bare)
    for each in bare.iter():
        if isinstance(each.tag, str):
            space, _, name = each.tag.rpartition("}")
            known = space == f"{{{XHTML}" or (own_page and not space)
            each.tag = name.lower() if known else f"x-{name.lower()}"
    etree.cleanup_namespaces(bare)
    said = etree.tostring(bare, encoding="unicode", method="html", with_tail=False)
    return str(said)


def feed(root: _Element, longest: int) -> tuple[str, str, datetime | None]:
    """Return title, text and date of a feed as a list of its entries, or of any other document its text."""
    entries = [each for each in root.iter() if _name(each) in _ENTRIES]
    if not entries:
        said = _plain(root) if _has_page(root) else "\n".join(map(str, root.itertext()))
        return "", clean(said, longest=longest), None
    head = next((each for each in root.iter() if _name(each) == "title"), None)
    told: list[str] = []
    for entry in entries:
        told.extend(_entry(entry))
        if sum(map(len, told)) > longest:
            break
    title = _plain(head) if head is not None else ""
    return title, clean("\n".join(told), longest=longest), _latest(entries)


def _entry(entry: _Element) -> Iterator[str]:
    yield ""
    for part in entry:
        if _name(part) in _PARTS:
            yield _plain(part)


def _plain(element: _Element) -> str:
    """Return what would be seen of an element whose text may itself be a page, or which may hold parts of one."""
    said = html(element) if _has_page(element) else "".join(map(str, element.itertext()))
    if "<" not in said:
        return said
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - as above

    tree = LexborHTMLParser(said)
    strip(tree)
    return clean(text(tree), longest=len(said) * 2)


def _has_page(element: _Element) -> bool:
    return next(element.iter(f"{{{XHTML}}}*"), None) is not None


def _latest(entries: list[_Element]) -> datetime | None:
    """Return the newest date in a feed: as a whole it was not there before."""
    said = ("".join(map(str, part.itertext())) for entry in entries for part in entry if _name(part) in _DATES)
    return max((found for each in said if (found := moment(each)) is not None), default=None)


def _name(element: _Element) -> str:
    # Comments, instructions and entities have a function where elements have a name.
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""
