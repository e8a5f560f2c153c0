"""Sheets that a page carries in its own addresses: ``data:`` in a link or an import is style in the page itself."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_IMPORT = re.compile(r"@import\s*(?:url\(\s*)?(?:\"(data:[^\"]*)\"|'(data:[^']*)'|(data:[^\s;)\"']*))", re.IGNORECASE)
_LINKS = 'link[rel~="stylesheet" i][href]'
_DEEPEST = 4
_MOST_SHEETS = 50


def sheets(tree: LexborHTMLParser) -> Iterator[str]:
    """Yield the text of each sheet in the page, those in its addresses included."""
    for node in tree.css("style"):
        yield from _with_imports(node.text() or "")
    for node in tree.css(_LINKS):
        if (said := written(node.attributes.get("href") or "")) is not None:
            yield from _with_imports(said)


def _with_imports(sheet: str) -> Iterator[str]:
    found = [sheet]
    # Each level holds less than the one around it, so this ends; but a sheet may hold very many small ones.
    for _ in range(_DEEPEST):
        yield from found
        found = [said for css in found for said in _imports(css)][:_MOST_SHEETS]


def _imports(css: str) -> Iterator[str]:
    if "@import" in css.lower():
        said = (written(each[1] or each[2] or each[3] or "") for each in _IMPORT.finditer(css))
        yield from (each for each in said if each is not None)


def written(address: str) -> str | None:
    """Return what an address holds itself, or None where it holds nothing."""
    head, comma, body = address.strip().partition(",")
    if not comma or head[:5].lower() != "data:":
        return None
    content = unquote_to_bytes(body)
    if head.lower().rstrip().endswith(";base64"):
        try:
            content = base64.b64decode(bytes(content.split()[0] if content.split() else b"") + b"===")
        except (binascii.Error, ValueError):
            return None
    return content.decode("utf-8", "replace")
