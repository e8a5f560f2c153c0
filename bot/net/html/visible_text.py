"""Removes from a page what a person would not see, because hidden text is where attackers put instructions.

Simple rules over single values of styles, without a cascade: a rule of a style sheet counts if it selects by a tag, a
class, an id, or a tag with one of those, and any value that hides is enough. Combinators, states, variables, imports
and computed values are not read; text that only they hide reaches a model as fenced text of others, like all text of a
page. Running time is linear in the length of a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Never visible, whatever the style: code, replacements of other content, and elements that a script or a click shows.
# The children of an element with a shadow root are replaced by its template.
_NEVER_SHOWN = (
    "head, script, style, template, noscript, iframe, object, embed, applet, canvas, audio, video, svg, datalist,"
    "select, noembed, noframes, meter, progress, rp, body title, body link, body meta,"
    "[hidden], [aria-hidden=true i], [popover], dialog:not([open]), input[type=hidden i],"
    ".sr-only, .visually-hidden, .screen-reader-text, :has(> template[shadowrootmode])"
)
# Nodes that are not elements: unreadable text is removed, comments are always removed.
_NON_ELEMENTS = frozenset({"-text", "-comment"})
# Property -> its value: the last declared one, or the first one that hides the text.
Declarations = Mapping[str, str]
# Red, green and blue, the text of a colour in another form, or None if it is unknown.
Colour = tuple[float, ...] | str | None
_MIN_READABLE_PX, _FAR_PX, _OFF_SCREEN_PX = 2.0, 300.0, 5000.0
_MAX_FAINT_SHARE, _MAX_SAME_DISTANCE, _MAX_VALUE_CHARS = 0.05, 24.0, 200
# A percentage is of a box of 300 pixels; an unknown unit has ten pixels.
_PX_PER_UNIT = {"": 1.0, "px": 1.0, "pt": 4 / 3, "em": 16.0, "rem": 16.0, "vw": 12.8, "vh": 7.2, "%": 3.0}
_COLOUR_NAMES = {"white": "#ffffff", "black": "#000000", "gray": "#808080", "navy": "#000080", "snow": "#fffafa"}
_TRANSPARENT = "transparent"
# Comments and strings are dropped; of an address only its presence counts.
_NOISE = re.compile(r"""/\*.*?(?:\*/|\Z)|<!--|-->|(["'])(?:\\.|(?!\1)[^\\\n])*\1?|\b(url)\([^)]*\)?""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_SIMPLE_SELECTOR = re.compile(r"[a-z][\w-]*|(?:[a-z][\w-]*)?[.#][\w-]+")
_OTHER_MEDIA = re.compile(
    r"(?<!not )(?:print|speech)|scheme\s*:\s*dark"
    r"|(?:max-width\s*:|width\s*<=?)\s*(?:\d{1,3}(?:\.\d+)?px|\d\d?(?:\.\d+)?r?em)"
)
_LENGTH = re.compile(r"(?<![\w.#-])([+-]?(?:\d+\.?\d*|\.\d+))([a-z]+|%)?")
_FUNCTION = re.compile(r"([a-z0-9]+)\(([^()]*)\)")
_CLIPPED = re.compile(r"rect\((?:[\s,]*[01](?:px)?){4}\s*\)|inset\(\s*(?:[5-9]\d|100)%|(?:circle|ellipse)\(\s*0[^.\d]")
_ABSOLUTE_SIZE = re.compile(r"\d(?:px|pt|rem)|small|medium|large")
_COLOUR = re.compile(rf"#[0-9a-f]+|rgba?\([^)]*\)|\b(?:{'|'.join(_COLOUR_NAMES)})\b")
_HEX = re.compile(r"#?([0-9a-f]{6})(?:..)?|#([0-9a-f]{3}).?")
_NO_ALPHA = re.compile(r"transparent|#...0|#.{6}0.|(?:rgb|hsl)a?\([^,/)]*(?:,[^,]*,[^,]*,|/)\s*(?:0|0?\.0\d*)%?\s*\)")


def strip_hidden(tree: LexborHTMLParser) -> None:
    """Remove everything from the tree that is not visible."""
    hidden = {node.mem_id for node in tree.css(_NEVER_SHOWN)}
    sheet: dict[str, dict[str, str]] = {}
    for node in tree.css("style"):
        for selector, declared in read_sheet(node.text() or ""):
            join_declarations(sheet.setdefault(selector, {}), declared)
    hidden_nodes, has_text = _find_hidden(tree.root, hidden, sheet)
    if not has_text:
        # A page that hides all of itself waits for a script that shows it.
        hidden_nodes, _ = _find_hidden(tree.body, hidden, sheet)
    for node in hidden_nodes:
        node.decompose()


def _find_hidden(
    top: LexborNode | None, hidden: Collection[int], sheet: Mapping[str, Declarations]
) -> tuple[list[LexborNode], bool]:
    """Return the outermost hidden nodes inside a node, and whether any text is visible."""
    hidden_nodes: list[LexborNode] = []
    has_text = False
    pending = [(top, TextAppearance())] if top is not None else []
    while pending:
        node, appearance = pending.pop()
        is_readable = appearance.is_readable
        for child in node.iter(include_text=True):
            if child.tag == "-text" and is_readable:
                has_text = has_text or bool((child.text_content or "").strip())
                continue
            declared = {} if child.tag in _NON_ELEMENTS else _declared_for(child, sheet)
            if child.tag in _NON_ELEMENTS or child.mem_id in hidden or hides_element(declared):
                hidden_nodes.append(child)
            else:
                pending.append((child, appearance.inherit(declared)))
    return hidden_nodes, has_text


def _declared_for(node: LexborNode, sheet: Mapping[str, Declarations]) -> Declarations:
    """Return the declarations for an element from style sheets, from attributes of old HTML, and from its style."""
    attributes, tag = node.attributes, node.tag or ""
    found: dict[str, str] = {}
    if sheet:
        names = [f".{name}" for name in (attributes.get("class") or "").lower().split()]
        names += [f"#{name}" for name in (attributes.get("id") or "").lower().split()]
        for name in (tag, *names, *(tag + name for name in names)):
            join_declarations(found, sheet.get(name, {}))
    text_colour = attributes.get({"font": "color", "body": "text"}.get(tag, ""))
    for name, value in (
        ("color:", text_colour),
        ("background:", attributes.get("bgcolor")),
        ("", attributes.get("style")),
    ):
        if value:
            join_declarations(found, read_style(name + value))
    return found


@dataclass(frozen=True, slots=True)
class TextAppearance:
    """How text looks in an element, with inherited values."""

    concealed: bool = False
    tiny: bool = False
    text_colour: Colour = None
    background: Colour = (255.0, 255.0, 255.0)

    @property
    def is_readable(self) -> bool:
        """Whether a person could read the text."""
        return not (
            self.concealed
            or self.tiny
            or self.text_colour == _TRANSPARENT
            or _are_alike(self.text_colour, self.background)
        )

    def inherit(self, declared: Declarations) -> TextAppearance:
        """Return how text looks in an element with these declarations."""
        if not declared:
            return self
        return TextAppearance(
            concealed=_hides_text("visibility", declared) if "visibility" in declared else self.concealed,
            tiny=_hides_text("font-size", declared)
            or (self.tiny and not _ABSOLUTE_SIZE.search(declared.get("font-size", ""))),
            text_colour=_read_text_colour(declared.get("color", "inherit"), self.text_colour),
            background=_read_background(declared.get("background", "inherit"), self.background),
        )


def read_sheet(css: str) -> Iterator[tuple[str, Declarations]]:
    """Yield each simple selector of a style sheet in lower case with its declarations for screens; never raises."""
    for selectors, text in _iter_blocks(_NOISE.sub(r" \2 ", css)):
        # A comma in brackets does not separate selectors, so a list is read up to its first bracket.
        parts = (part.strip() for part in selectors.lower().partition("(")[0].split(","))
        names = [part for part in parts if _SIMPLE_SELECTOR.fullmatch(part)]
        if names and (declared := read_style(text)):
            appearance = TextAppearance(background=None).inherit(declared)
            if _are_alike(appearance.text_colour, appearance.background):
                declared["display"] = "none"
            elif "color" in declared and appearance.text_colour != _TRANSPARENT:
                # Only a cascade could find the background of this colour.
                declared["color"] = ""
            yield from ((name, declared) for name in names)


def read_style(style: str) -> dict[str, str]:
    """Return the declarations of the attribute ``style`` or of a block of a style sheet; never raises."""
    found: dict[str, str] = {}
    plain = _ESCAPE.sub(_unescape, _NOISE.sub(r" \2 ", style))
    for part in plain.lower().split(";"):
        name, _, value = part.partition(":")
        name = _PROPERTY_ALIASES.get(name.strip(), name.strip())
        if name in _VALUE_CHECKS:
            join_declarations(found, {name: value.partition("!")[0].strip()[:_MAX_VALUE_CHARS]})
    return found


def join_declarations(found: dict[str, str], more: Declarations) -> None:
    """Add declarations to others; a declaration that hides text is not replaced."""
    for name, value in more.items():
        if not _hides_text(name, found):
            found[name] = value


def hides_element(declared: Declarations) -> bool:
    """Return whether an element with these declarations is hidden with all its content."""
    is_clipped = _hides_text("overflow", declared) and _hides_text("width", declared)
    return is_clipped or any(_hides_text(name, declared) for name in declared.keys() & _HIDING)


def _hides_text(name: str, declared: Declarations) -> bool:
    return name in declared and bool(_VALUE_CHECKS[name](declared[name]))


def _iter_blocks(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of each block for screens that is not nested in another rule."""
    # Blocks that are open at the end of a sheet are closed there.
    pieces = re.split("([{}])", css + "}" * css.count("{"))
    open_blocks: list[tuple[str, bool, list[str]]] = []
    for piece, mark in zip(pieces[::2], pieces[1::2], strict=False):
        before, _, prelude = piece.rpartition(";")
        if open_blocks:
            open_blocks[-1][2].append(before if mark == "{" else piece)
        if mark == "{":
            applies = not open_blocks or (open_blocks[-1][1] and open_blocks[-1][0].startswith("@"))
            open_blocks.append((prelude.strip(), applies and _is_on_screen(prelude.strip().lower()), []))
        elif open_blocks:
            selectors, applies, parts = open_blocks.pop()
            if applies and not selectors.startswith("@"):
                yield selectors, ";".join(parts)


def _is_on_screen(prelude: str) -> bool:
    return not prelude.startswith("@media") or not all(_OTHER_MEDIA.search(query) for query in prelude.split(","))


def _unescape(escape: re.Match[str]) -> str:
    return chr(min(int(escape[1], 16), 0x10FFFF)) if escape[1] else escape[2]


def _read_text_colour(value: str, inherited: Colour) -> Colour:
    if value in {"inherit", "currentcolor"}:
        return inherited
    return _TRANSPARENT if _NO_ALPHA.fullmatch(value) else _read_colour(value)


def _read_background(value: str, inherited: Colour) -> Colour:
    if value in {"inherit", "none", "initial", "unset", "0"} or _NO_ALPHA.fullmatch(value):
        return inherited
    found = _COLOUR.search(value)
    return None if _PICTURE.search(value) else _read_colour(found[0] if found else value)


def _read_colour(value: str) -> Colour:
    value = _COLOUR_NAMES.get(value, value)
    if found := _HEX.fullmatch(value):
        return tuple(bytes.fromhex(found[1] or "".join(digit * 2 for digit in found[2])))
    numbers = [float(number) * (2.55 if unit == "%" else 1.0) for number, unit in _LENGTH.findall(value)]
    return tuple(numbers[:3]) if value.startswith("rgb") and len(numbers) >= 3 else value or None


def _are_alike(text_colour: Colour, background: Colour) -> bool:
    if isinstance(text_colour, tuple) and isinstance(background, tuple):
        return max(abs(one - other) for one, other in zip(text_colour, background, strict=True)) <= _MAX_SAME_DISTANCE
    return text_colour is not None and text_colour == background


def _lengths_px(value: str, share_px: float = _PX_PER_UNIT["%"]) -> list[float]:
    """Return the lengths in a value in pixels; none if the value has a function."""
    found = [] if "(" in value else _LENGTH.findall(value)
    return [float(number) * (share_px if unit == "%" else _PX_PER_UNIT.get(unit, 10.0)) for number, unit in found]


def _is_near_zero(value: str) -> bool:
    return any(abs(share) <= _MAX_FAINT_SHARE for share in _lengths_px(value, 0.01)[:2])


def _is_off_screen(value: str) -> bool:
    return any(px <= -_FAR_PX or px >= _OFF_SCREEN_PX for px in _lengths_px(value))


def _is_transformed_out_of_sight(value: str) -> bool:
    return any(
        _is_off_screen(inner) if name.startswith("translate") else name.startswith("scale") and _is_near_zero(inner)
        for name, inner in _FUNCTION.findall(value)
    )


_PICTURE = re.compile(r"url|gradient|image|var\(")
# Property -> a check whether a value hides text; the properties of _HIDING hide an element with all its content.
_HIDING: dict[str, Callable[[str], object]] = {
    "display": re.compile("none").fullmatch,
    "content-visibility": re.compile("hidden").fullmatch,
    "opacity": _is_near_zero,
    "filter": re.compile(r".*opacity\(\s*0*(?:\.0\d*)?%?\s*\)").match,
    "left": _is_off_screen,
    "transform": _is_transformed_out_of_sight,
    "clip": _CLIPPED.search,
    "z-index": re.compile("-").match,
}
_VALUE_CHECKS: dict[str, Callable[[str], object]] = {
    **_HIDING,
    "overflow": re.compile("hidden|clip").search,
    "width": lambda value: any(abs(px) <= _MIN_READABLE_PX for px in _lengths_px(value)),
    "visibility": re.compile("hidden|collapse").fullmatch,
    # In the shorthand "font", the line height follows a slash.
    "font-size": lambda value: any(px <= _MIN_READABLE_PX for px in _lengths_px(value.partition("/")[0], 0.16)[-1:]),
    "color": _NO_ALPHA.fullmatch,
    "background": _PICTURE.search,
}
_PROPERTY_ALIASES = {
    **dict.fromkeys(("right", "top", "bottom", "inset", "margin", "text-indent", "translate"), "left"),
    **dict.fromkeys(("margin-left", "margin-top", "margin-right"), "left"),
    **dict.fromkeys(("height", "max-width", "max-height"), "width"),
    **dict.fromkeys(("overflow-x", "overflow-y"), "overflow"),
    **dict.fromkeys(("background-color", "background-image"), "background"),
    "clip-path": "clip", "font": "font-size", "scale": "opacity", "zoom": "opacity",
}  # fmt: skip
