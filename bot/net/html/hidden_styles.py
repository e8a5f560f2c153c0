"""The ways in which a style hides text: simple rules over single values, without a cascade.

A rule of a sheet counts where it selects by a tag, a class, an id, or a tag with one of those; any value that hides is
enough. Combinators, states, variables, imports and computed values are not read: text that is hidden by those reaches
a model like other text, fenced as the words of others. Running time is linear in the length of a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

# Property -> its value: the last one that is declared, or the first one that speaks against the text.
Declarations = Mapping[str, str]
# Red, green and blue, the text of a colour in another form, or None where it cannot be known.
Colour = tuple[float, ...] | str | None

_MIN_READABLE_PX, _FAR_PX, _OFF_SCREEN_PX = 2.0, 300.0, 5000.0
_MAX_FAINT_SHARE, _MAX_SAME_DISTANCE, _MAX_VALUE_CHARS = 0.05, 24.0, 200
# A share is taken of a box of 300 pixels; a unit that is not here has ten.
_PX_PER_UNIT = {"": 1.0, "px": 1.0, "pt": 4 / 3, "em": 16.0, "rem": 16.0, "vw": 12.8, "vh": 7.2, "%": 3.0}
_COLOUR_NAMES = {"white": "#ffffff", "black": "#000000", "gray": "#808080", "navy": "#000080", "snow": "#fffafa"}
_TRANSPARENT = "transparent"
# Comments and strings say nothing here, an address only that there is one.
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


@dataclass(frozen=True, slots=True)
class TextAppearance:
    """How text looks where it stands, as it is handed down."""

    concealed: bool = False
    tiny: bool = False
    ink: Colour = None
    paper: Colour = (255.0, 255.0, 255.0)

    @property
    def readable(self) -> bool:
        """Whether a person could read the text."""
        return not (self.concealed or self.tiny or self.ink == _TRANSPARENT or _are_alike(self.ink, self.paper))

    def inherit(self, declared: Declarations) -> TextAppearance:
        """Return how text looks in an element with these declarations."""
        if not declared:
            return self
        return TextAppearance(
            concealed=_speaks_against("visibility", declared) if "visibility" in declared else self.concealed,
            tiny=_speaks_against("font-size", declared)
            or (self.tiny and not _ABSOLUTE_SIZE.search(declared.get("font-size", ""))),
            ink=_read_ink(declared.get("color", "inherit"), self.ink),
            paper=_read_paper(declared.get("background", "inherit"), self.paper),
        )


def read_sheet(css: str) -> Iterator[tuple[str, Declarations]]:
    """Yield each simple selector of a sheet, in lower case, with what it declares for a screen; never raises."""
    for selectors, text in _iter_blocks(_NOISE.sub(r" \2 ", css)):
        # A comma in brackets divides no list, so a list is read up to its first bracket.
        parts = (part.strip() for part in selectors.lower().partition("(")[0].split(","))
        names = [part for part in parts if _SIMPLE_SELECTOR.fullmatch(part)]
        if names and (declared := read_style(text)):
            look = TextAppearance(paper=None).inherit(declared)
            if _are_alike(look.ink, look.paper):
                declared["display"] = "none"
            elif "color" in declared and look.ink != _TRANSPARENT:
                # Only a cascade could say on which paper this ink stands.
                declared["color"] = ""
            yield from ((name, declared) for name in names)


def read_style(style: str) -> dict[str, str]:
    """Return what the attribute ``style`` or a block of a sheet declares; never raises."""
    found: dict[str, str] = {}
    plain = _ESCAPE.sub(_unescape, _NOISE.sub(r" \2 ", style))
    for part in plain.lower().split(";"):
        name, _, value = part.partition(":")
        name = _JUDGED_AS.get(name.strip(), name.strip())
        if name in _TELLING_VALUES:
            join_declarations(found, {name: value.partition("!")[0].strip()[:_MAX_VALUE_CHARS]})
    return found


def join_declarations(found: dict[str, str], more: Declarations) -> None:
    """Add declarations to others, of which those stay that speak against the text."""
    for name, value in more.items():
        if not _speaks_against(name, found):
            found[name] = value


def hides_element(declared: Declarations) -> bool:
    """Tell whether an element with these declarations is hidden with all that is in it."""
    cut_off = _speaks_against("overflow", declared) and _speaks_against("width", declared)
    return cut_off or any(_speaks_against(name, declared) for name in declared.keys() & _HIDING)


def _speaks_against(name: str, declared: Declarations) -> bool:
    return name in declared and bool(_TELLING_VALUES[name](declared[name]))


def _iter_blocks(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of each block that applies to a screen and stands within no other rule."""
    # What is still open at the end of a sheet is closed there.
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


def _read_ink(value: str, inherited: Colour) -> Colour:
    if value in {"inherit", "currentcolor"}:
        return inherited
    return _TRANSPARENT if _NO_ALPHA.fullmatch(value) else _read_colour(value)


def _read_paper(value: str, inherited: Colour) -> Colour:
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


def _are_alike(ink: Colour, paper: Colour) -> bool:
    if isinstance(ink, tuple) and isinstance(paper, tuple):
        return max(abs(one - other) for one, other in zip(ink, paper, strict=True)) <= _MAX_SAME_DISTANCE
    return ink is not None and ink == paper


def _lengths_px(value: str, share_px: float = _PX_PER_UNIT["%"]) -> list[float]:
    """Return the lengths in a value, in pixels; none where something is to be computed."""
    found = [] if "(" in value else _LENGTH.findall(value)
    return [float(number) * (share_px if unit == "%" else _PX_PER_UNIT.get(unit, 10.0)) for number, unit in found]


def _is_nothing(value: str) -> bool:
    return any(abs(share) <= _MAX_FAINT_SHARE for share in _lengths_px(value, 0.01)[:2])


def _is_far_off(value: str) -> bool:
    return any(px <= -_FAR_PX or px >= _OFF_SCREEN_PX for px in _lengths_px(value))


def _is_transformed_away(value: str) -> bool:
    return any(
        _is_far_off(inner) if name.startswith("translate") else name.startswith("scale") and _is_nothing(inner)
        for name, inner in _FUNCTION.findall(value)
    )


_PICTURE = re.compile(r"url|gradient|image|var\(")
# Property -> tells whether a value of it speaks against the text: by itself for those that hide.
_HIDING: dict[str, Callable[[str], object]] = {
    "display": re.compile("none").fullmatch,
    "content-visibility": re.compile("hidden").fullmatch,
    "opacity": _is_nothing,
    "filter": re.compile(r".*opacity\(\s*0*(?:\.0\d*)?%?\s*\)").match,
    "left": _is_far_off,
    "transform": _is_transformed_away,
    "clip": _CLIPPED.search,
    "z-index": re.compile("-").match,
}
_TELLING_VALUES: dict[str, Callable[[str], object]] = {
    **_HIDING,
    "overflow": re.compile("hidden|clip").search,
    "width": lambda value: any(abs(px) <= _MIN_READABLE_PX for px in _lengths_px(value)),
    "visibility": re.compile("hidden|collapse").fullmatch,
    # Of a font, the height of lines follows.
    "font-size": lambda value: any(px <= _MIN_READABLE_PX for px in _lengths_px(value.partition("/")[0], 0.16)[-1:]),
    "color": _NO_ALPHA.fullmatch,
    "background": _PICTURE.search,
}
_JUDGED_AS = {
    **dict.fromkeys(("right", "top", "bottom", "inset", "margin", "text-indent", "translate"), "left"),
    **dict.fromkeys(("margin-left", "margin-top", "margin-right"), "left"),
    **dict.fromkeys(("height", "max-width", "max-height"), "width"),
    **dict.fromkeys(("overflow-x", "overflow-y"), "overflow"),
    **dict.fromkeys(("background-color", "background-image"), "background"),
    "clip-path": "clip", "font": "font-size", "scale": "opacity", "zoom": "opacity",
}  # fmt: skip
