"""Removes from a page what a person would not see, which is where instructions are hidden."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from bot.net.html.hidden_styles import (
    Declarations,
    TextAppearance,
    hides_element,
    join_declarations,
    read_sheet,
    read_style,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Never shown, whatever style says: code, what stands in for something else, and what waits for a script or a click. The
# children of an element with a shadow are replaced by its template.
_NEVER_SHOWN = (
    "head, script, style, template, noscript, iframe, object, embed, applet, canvas, audio, video, svg, datalist,"
    "select, noembed, noframes, meter, progress, rp, body title, body link, body meta,"
    "[hidden], [aria-hidden=true i], [popover], dialog:not([open]), input[type=hidden i],"
    ".sr-only, .visually-hidden, .screen-reader-text, :has(> template[shadowrootmode])"
)
# What stands in a tree beside elements: text that cannot be read goes, and comments go always.
_NON_ELEMENTS = frozenset({"-text", "-comment"})


def strip_hidden(tree: LexborHTMLParser) -> None:
    """Take everything that is not seen out of the tree."""
    hidden = {node.mem_id for node in tree.css(_NEVER_SHOWN)}
    sheet: dict[str, dict[str, str]] = {}
    for node in tree.css("style"):
        for selector, declared in read_sheet(node.text() or ""):
            join_declarations(sheet.setdefault(selector, {}), declared)
    doomed, anything = _find_hidden(tree.root, hidden, sheet)
    if not anything:
        # A page that hides itself whole waits for a script that shows it.
        doomed, _ = _find_hidden(tree.body, hidden, sheet)
    for node in doomed:
        node.decompose()


def _find_hidden(
    top: LexborNode | None, hidden: Collection[int], sheet: Mapping[str, Declarations]
) -> tuple[list[LexborNode], bool]:
    """Return the outermost nodes within one that are not seen, and whether any text is seen."""
    doomed: list[LexborNode] = []
    anything = False
    waiting = [(top, TextAppearance())] if top is not None else []
    while waiting:
        node, look = waiting.pop()
        readable = look.readable
        for child in node.iter(include_text=True):
            if child.tag == "-text" and readable:
                anything = anything or bool((child.text_content or "").strip())
                continue
            declared = {} if child.tag in _NON_ELEMENTS else _declared_for(child, sheet)
            if child.tag in _NON_ELEMENTS or child.mem_id in hidden or hides_element(declared):
                doomed.append(child)
            else:
                waiting.append((child, look.inherit(declared)))
    return doomed, anything


def _declared_for(node: LexborNode, sheet: Mapping[str, Declarations]) -> Declarations:
    """Return what is declared for an element by the rules of sheets, by attributes of old HTML, and by its style."""
    attributes, tag = node.attributes, node.tag or ""
    found: dict[str, str] = {}
    if sheet:
        names = [f".{name}" for name in (attributes.get("class") or "").lower().split()]
        names += [f"#{name}" for name in (attributes.get("id") or "").lower().split()]
        for name in (tag, *names, *(tag + name for name in names)):
            join_declarations(found, sheet.get(name, {}))
    ink = attributes.get({"font": "color", "body": "text"}.get(tag, ""))
    for name, value in (("color:", ink), ("background:", attributes.get("bgcolor")), ("", attributes.get("style"))):
        if value:
            join_declarations(found, read_style(name + value))
    return found
