"""Removes from a page what a person would not see.

Which is where instructions are hidden, and returns the rest as text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.net.html.css_values import ROOT_PX, Colour, colours_alike, parse_colours, parse_legacy_colour
from bot.net.html.hidden_styles import MIN_READABLE_PX, font_sizes_px, gradient_colour, hides_element, is_undecidable
from bot.net.html.stylesheets import (
    Declarations,
    StyleRule,
    collect_variables,
    page_stylesheets,
    parse_declarations,
    parse_rules,
    resting_selectors,
    split_selectors,
    substitute_variables,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Never shown, whatever style says: code, what stands in for something else, and what waits for a script or a click.
_NEVER_SHOWN = (
    "script, style, template, noscript, iframe, object, embed, applet, canvas, audio, video, svg, datalist, select,"
    "noembed, noframes, meter, progress, rp, body title, body link, body meta,"
    "[hidden], [aria-hidden=true i], [popover], dialog:not([open]), input[type=hidden i],"
    ".sr-only, .visually-hidden, .screen-reader-text"
)
# The children of such an element are replaced by the template, unless it takes them up.
_SHADOW_HOSTS = ":has(> template[shadowrootmode])"
_STYLED_ELEMENTS = "[style], font[color], [bgcolor], body[text]"
# What cannot be judged is hidden up to this length; more is a page of its own, and lost for a whim of its style.
_MAX_UNDECIDED_CHARS = 1000
_RELEVANT_PROPERTIES = frozenset(
    {
        "display", "content-visibility", "opacity", "filter", "position", "left", "right", "top", "bottom", "inset",
        "inset-inline-start", "inset-block-start", "margin", "margin-left", "margin-top", "margin-right",
        "margin-inline-start", "text-indent", "translate", "transform", "-webkit-transform", "scale", "zoom", "clip",
        "clip-path", "-webkit-clip-path", "overflow", "overflow-x", "overflow-y", "width", "height", "max-width",
        "max-height", "line-height", "inline-size", "block-size", "z-index", "visibility", "font-size", "font", "color",
        "-webkit-text-fill-color", "background-color", "background", "background-image", "rotate", "-ms-transform",
        "mask", "mask-image", "mask-size", "-webkit-mask", "-webkit-mask-image", "-webkit-mask-size",
    }
)  # fmt: skip
# What stands in a tree beside elements: text that cannot be read goes, and comments go always.
_NON_ELEMENTS = frozenset({"-text", "-comment"})
_CELL_TAGS = frozenset({"td", "th"})
_INLINE_TAGS = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
        "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var",
        "wbr", "-text", "-comment",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _TextAppearance:
    """How text looks where it stands, as it is handed down; ``counts`` where it stands in the body of the page."""

    shown: bool = True
    size_px: float = ROOT_PX
    ink: frozenset[Colour] = frozenset({(0, 0, 0)})
    paper: frozenset[Colour] = frozenset({(255, 255, 255)})
    clear: bool = False
    counts: bool = False

    @property
    def readable(self) -> bool:
        return (
            self.shown and self.size_px > MIN_READABLE_PX and not self.clear and not colours_alike(self.ink, self.paper)
        )


_DEFAULT_APPEARANCE = _TextAppearance()


def strip_hidden(tree: LexborHTMLParser) -> None:
    """Take everything that is not seen out of the tree."""
    hidden = {node.mem_id for each in (_NEVER_SHOWN, _SHADOW_HOSTS) for node in tree.css(each)}
    style = _element_styles(tree)
    doomed, anything = _find_hidden(tree, hidden, style)
    if not anything:
        # A page that hides itself whole waits for a script that shows it.
        whole = {node.mem_id for node in tree.css("html, body")}
        doomed, _ = _find_hidden(tree, hidden - whole, {key: each for key, each in style.items() if key not in whole})
    for node in doomed:
        node.decompose()


def page_text(tree: LexborHTMLParser) -> str:
    """Return the text of a stripped tree, each block on a line of its own."""
    parts: list[str] = []
    if tree.body is None:
        return ""
    for node in tree.body.traverse(include_text=True):
        if node.tag == "-text":
            after_block = node.prev is not None and node.prev.tag not in _INLINE_TAGS
            parts.append(f"\n{node.text_content}" if after_block else node.text_content or "")
        elif node.tag in _CELL_TAGS:
            parts.append(" | ")
        elif node.tag not in _INLINE_TAGS:
            parts.append("\n")
    return "".join(parts)


def _find_hidden(
    tree: LexborHTMLParser, hidden: Collection[int], style: Mapping[int, Declarations]
) -> tuple[list[LexborNode], bool]:
    """Return the outermost nodes that are not seen, and whether any text is seen."""
    doomed: list[LexborNode] = []
    anything = False
    waiting = [(tree.root, _DEFAULT_APPEARANCE)] if tree.root is not None else []
    while waiting:
        node, look = waiting.pop()
        for child in node.iter(include_text=True):
            declared = style.get(child.mem_id)
            if child.tag == "-text" and look.readable:
                anything = anything or (look.counts and bool((child.text_content or "").strip()))
            elif child.tag in _NON_ELEMENTS or child.mem_id in hidden or (declared and _is_removed(child, declared)):
                doomed.append(child)
            else:
                waiting.append((child, _inherit_appearance(child.tag, declared, look)))
    return doomed, anything


def _is_removed(node: LexborNode, declared: Declarations) -> bool:
    return hides_element(declared) or (is_undecidable(declared) and len(node.text()) <= _MAX_UNDECIDED_CHARS)


def _inherit_appearance(tag: str | None, declared: Declarations | None, look: _TextAppearance) -> _TextAppearance:
    """Return how text looks in an element, by what it declares and by what it inherits."""
    if tag == "body":
        look = replace(look, counts=True)
    if not declared:
        return look
    visibility = declared.get("visibility", ())
    shown = look.shown
    if visibility:
        concealed = any(value in {"hidden", "collapse"} for value in visibility)
        shown = not concealed and (look.shown or "visible" in visibility)
    ink, clear = parse_colours((*declared.get("color", ()), *declared.get("-webkit-text-fill-color", ())))
    paper = _background_colours(declared, look.paper)
    return _TextAppearance(
        shown=shown,
        size_px=min(font_sizes_px(declared, look.size_px), default=look.size_px),
        ink=ink or look.ink,
        paper=paper,
        clear=clear or (look.clear and not ink),
        counts=look.counts,
    )


def _background_colours(declared: Declarations, inherited: frozenset[Colour]) -> frozenset[Colour]:
    flat: list[str] = []
    washes: list[str] = []
    for name in ("background-color", "background", "background-image"):
        for value in declared.get(name, ()):
            # A picture may have any colour: what stands on it is not judged.
            if any(sign in value for sign in ("url(", "image-set(")):
                return frozenset()
            (washes if "gradient(" in value else flat).append(value)
    papers = [gradient_colour(value) for value in washes]
    if any(paper is None for paper in papers):
        return frozenset()
    named, _ = parse_colours(word for value in flat for word in (value, *value.split()))
    return named.union(*(paper for paper in papers if paper)) or inherited


def _element_styles(tree: LexborHTMLParser) -> dict[int, Declarations]:
    """Return what is declared for each element that anything is declared for, by its id in memory."""
    sheet = [rule for css in page_stylesheets(tree) for rule in parse_rules(css)]
    inline = [(node.mem_id, _inline_declarations(node)) for node in tree.css(_STYLED_ELEMENTS)]
    meanings = collect_variables([*(rule.declared for rule in sheet), *(declared for _, declared in inline)])
    found: dict[int, Declarations] = {}
    for rule in sheet:
        if declared := _relevant_declarations(substitute_variables(rule.declared, meanings)):
            for node in _matching_nodes(tree, rule):
                found[node.mem_id] = _join_declarations(found.get(node.mem_id), declared)
    for key, declared in inline:
        if telling := _relevant_declarations(substitute_variables(declared, meanings)):
            found[key] = _join_declarations(found.get(key), telling)
    return found


def _relevant_declarations(declared: Declarations) -> Declarations:
    return {name: values for name, values in declared.items() if name in _RELEVANT_PROPERTIES}


def _join_declarations(first: Declarations | None, second: Declarations) -> Declarations:
    if first is None:
        return second
    return {name: (*first.get(name, ()), *second.get(name, ())) for name in (*first, *second)}


def _matching_nodes(tree: LexborHTMLParser, rule: StyleRule) -> Sequence[LexborNode]:
    from selectolax.lexbor import SelectolaxError  # noqa: PLC0415 - only the process that reads pages loads it

    selectors = resting_selectors(rule.selector)
    try:
        return tree.css(", ".join(selectors)) if selectors else ()
    except SelectolaxError:
        pass
    found: list[LexborNode] = []
    for selector in split_selectors(selectors):
        with suppress(SelectolaxError):
            found.extend(tree.css(selector))
    return found


def _inline_declarations(node: LexborNode) -> Declarations:
    attributes = node.attributes
    declared = dict(parse_declarations(attributes.get("style") or ""))
    for name, means in (("color", "color"), ("text", "color"), ("bgcolor", "background-color")):
        if value := attributes.get(name):
            declared[means] = (*declared.get(means, ()), parse_legacy_colour(value))
    return declared
