"""What a declaration of style does to text: shows it, or hides it by any of the usual ways.

Each way is a rule of its own, over all values that are declared for a property; one that hides is enough.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable, Iterable, Iterator

from bot.pages.sheet import Declared

Colour = tuple[int, int, int]

# Pixels: a line of text is 16 high, and nothing scrolls that far to the left.
ROOT_PX = 16.0
READABLE_PX = 2.0
_FAR_PX = 300.0
_BEYOND_PX = 5000.0
_FAINT = 0.05
_SAME_COLOUR = 24
_UNITS = {
    "": 1.0, "px": 1.0, "em": 16.0, "rem": 16.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78,
    "ex": 8.0, "ch": 8.0, "vw": 12.8, "vh": 7.2, "vmin": 7.2, "vmax": 12.8, "%": 12.8,
}  # fmt: skip
_LENGTH = re.compile(
    r"(?<![\w.#-])([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?)(px|r?em|pt|pc|in|cm|mm|ex|ch|v(?:w|h|min|max)|%)?"
)
_FUNCTION = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")
_COLOURS = {
    "white": (255, 255, 255), "snow": (255, 250, 250), "ivory": (255, 255, 240), "whitesmoke": (245, 245, 245),
    "ghostwhite": (248, 248, 255), "floralwhite": (255, 250, 240), "mintcream": (245, 255, 250),
    "azure": (240, 255, 255), "seashell": (255, 245, 238), "lightyellow": (255, 255, 224), "black": (0, 0, 0),
    "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0), "gray": (128, 128, 128),
    "grey": (128, 128, 128), "silver": (192, 192, 192), "navy": (0, 0, 128), "canvas": (255, 255, 255),
    "canvastext": (0, 0, 0),
}  # fmt: skip
_SIZE_WORDS = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0}


def removes(declared: Declared) -> bool:
    """Tell whether an element with these declarations is hidden with all that is in it."""
    return any(rule(declared) for rule in _WAYS)


def sizes_px(declared: Declared, inherited_px: float) -> list[float]:
    """Return the sizes of type that are declared, in pixels."""
    values = [*declared.get("font-size", ()), *(value.partition("/")[0] for value in declared.get("font", ()))]
    return [size for value in values if (size := _size_px(value, inherited_px)) is not None]


def colours(values: Iterable[str]) -> tuple[frozenset[Colour], bool]:
    """Return the colours that the values name, and whether one of them is no colour at all (transparent)."""
    found = [colour for value in values if (colour := _colour(value)) is not None]
    return frozenset(colour[0] for colour in found if colour[1] > _FAINT), any(alpha <= _FAINT for _, alpha in found)


def alike(ink: Iterable[Colour], paper: frozenset[Colour]) -> bool:
    """Tell whether any ink is too near to any paper to be read."""
    return any(
        max(abs(a - b) for a, b in zip(one, other, strict=True)) <= _SAME_COLOUR for one in ink for other in paper
    )


def lengths_px(value: str, *, of_itself: bool = False) -> list[float]:
    """Return all lengths in a value, in pixels of a usual screen; of shares ``of_itself`` the whole is far."""
    share = _FAR_PX / 100.0 if of_itself else _UNITS["%"]
    return [float(number) * (share if unit == "%" else _UNITS[unit or ""]) for number, unit in _LENGTH.findall(value)]


def _of(declared: Declared, *names: str) -> Iterator[str]:
    for name in names:
        yield from declared.get(name, ())


def _is_gone(declared: Declared) -> bool:
    return "none" in declared.get("display", ()) or "hidden" in declared.get("content-visibility", ())


def _is_faint(declared: Declared) -> bool:
    filters = (
        inner for value in _of(declared, "filter") for name, inner in _FUNCTION.findall(value) if name == "opacity"
    )
    return any(_share(value) <= _FAINT for value in (*_of(declared, "opacity"), *filters))


def _is_off_screen(declared: Declared) -> bool:
    places: Iterable[str] = ()
    if any(value in {"absolute", "fixed", "relative", "sticky"} for value in _of(declared, "position")):
        places = _of(declared, "left", "right", "top", "bottom", "inset", "inset-inline-start", "inset-block-start")
    shifts = _of(declared, "margin", "margin-left", "margin-top", "margin-right", "margin-inline-start", "text-indent")
    moves = _of(declared, "translate")
    return any(
        px <= -_FAR_PX or px >= _BEYOND_PX
        for values in (places, shifts, moves)
        for value in values
        for px in lengths_px(value)
    )


def _is_transformed_away(declared: Declared) -> bool:
    return any(
        _moves_away(name, inner)
        for value in _of(declared, "transform", "-webkit-transform")
        for name, inner in _FUNCTION.findall(value)
    ) or any(0.0 in lengths_px(value) for value in _of(declared, "scale", "zoom"))


def _moves_away(function: str, inner: str) -> bool:
    if function.startswith("scale"):
        # The third of three says nothing on a flat page.
        return any(abs(scale) <= _FAINT for scale in lengths_px(inner)[:2])
    if function in {"rotatex", "rotatey"}:
        return inner.strip() in {"90deg", "-90deg", "270deg", ".25turn", "0.25turn", "100grad"}
    return function.startswith("translate") and any(
        px <= -_FAR_PX or px >= _BEYOND_PX for px in lengths_px(inner, of_itself=True)
    )


def _is_clipped(declared: Declared) -> bool:
    if any(value.startswith("rect") and max(lengths_px(value), default=9.0) <= 1.0 for value in _of(declared, "clip")):
        return True
    return any(
        _cuts_all(name, inner)
        for value in _of(declared, "clip-path", "-webkit-clip-path")
        for name, inner in _FUNCTION.findall(value)
    )


def _cuts_all(function: str, inner: str) -> bool:
    lengths = lengths_px(inner)
    if function == "inset":
        # Half from each side, of whatever width.
        return (
            any(float(share) >= 50.0 for share in re.findall(r"(\d+(?:\.\d+)?)%", inner))
            or max(lengths, default=0) > 2000
        )
    if function in {"circle", "ellipse"}:
        return bool(lengths) and min(lengths) <= 1.0
    return function == "polygon" and bool(lengths) and max(map(abs, lengths)) <= 1.0


def _is_shut(declared: Declared) -> bool:
    if not any(
        word in value for value in _of(declared, "overflow", "overflow-x", "overflow-y") for word in ("hidden", "clip")
    ):
        return False
    sides = _of(declared, "width", "height", "max-width", "max-height", "line-height", "inline-size", "block-size")
    return any(lengths and max(map(abs, lengths)) <= READABLE_PX for value in sides if (lengths := _absolute(value)))


def _absolute(value: str) -> list[float]:
    # A bare line-height is a factor of the size of type, of which only nothing is nothing.
    return [0.0 if px == 0.0 else max(px, READABLE_PX + 1) if _is_factor(value) else px for px in lengths_px(value)]


def _is_factor(value: str) -> bool:
    return value.replace(".", "", 1).isdigit()


def _is_behind(declared: Declared) -> bool:
    return any(value.startswith("-") and min(lengths_px(value), default=0.0) < 0 for value in _of(declared, "z-index"))


_WAYS: tuple[Callable[[Declared], bool], ...] = (
    _is_gone,
    _is_faint,
    _is_off_screen,
    _is_transformed_away,
    _is_clipped,
    _is_shut,
    _is_behind,
)


def _share(value: str) -> float:
    number, percent, _ = value.strip().partition("%")
    try:
        return float(number) / (100.0 if percent else 1.0)
    except ValueError:
        return 1.0


def _size_px(value: str, inherited_px: float) -> float | None:
    value = value.strip()
    found = [*_LENGTH.finditer(value)]
    if not found:
        return _SIZE_WORDS.get(value)
    number, unit = float(found[-1][1]), found[-1][2] or ""
    if unit in {"em", "%", "ex", "ch"}:
        return number * inherited_px * {"em": 1.0, "%": 0.01}.get(unit, 0.5)
    return number * _UNITS[unit]


def _colour(value: str) -> tuple[Colour, float] | None:
    """Return the colour in a value and how opaque it is, or None where it names none that is known."""
    value = value.strip()
    if value == "transparent":
        return (255, 255, 255), 0.0
    if value in _COLOURS:
        return _COLOURS[value], 1.0
    if value.startswith("#"):
        return _hex(value[1:])
    found = _FUNCTION.fullmatch(value)
    return _components(found[1], found[2]) if found else None


def _hex(digits: str) -> tuple[Colour, float] | None:
    if len(digits) in {3, 4}:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) not in {6, 8} or not all(digit in "0123456789abcdef" for digit in digits):
        return None
    red, green, blue, opaque = bytes.fromhex(digits.ljust(8, "f"))
    return (red, green, blue), opaque / 255


def _components(function: str, inner: str) -> tuple[Colour, float] | None:
    parts = re.findall(r"([+-]?(?:\d+\.?\d*|\.\d+))(%|deg)?", inner)
    if len(parts) not in {3, 4}:
        return None
    shares = [float(number) / (100.0 if unit == "%" else 1.0) for number, unit in parts]
    opaque = shares[3] if len(shares) == 4 else 1.0
    if function in {"rgb", "rgba"}:
        red, green, blue = (
            share if unit != "%" else share * 255 for share, (_, unit) in zip(shares, parts[:3], strict=False)
        )
    elif function in {"hsl", "hsla"}:
        mixed = colorsys.hls_to_rgb(
            shares[0] / 360.0 % 1.0, min(max(shares[2], 0.0), 1.0), min(max(shares[1], 0.0), 1.0)
        )
        red, green, blue = (share * 255 for share in mixed)
    else:
        return None
    return (_byte(red), _byte(green), _byte(blue)), opaque


def _byte(value: float) -> int:
    return round(min(max(value, 0.0), 255.0))
