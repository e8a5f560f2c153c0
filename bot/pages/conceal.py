"""What a declaration of style does to text: shows it, or hides it by any of the usual ways.

Each way is a rule of its own, over all values that are declared for a property; one that hides is enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from bot.pages.colours import FAINT, Colour, alike, colours, is_riddle
from bot.pages.lengths import FAR_PX, degrees, lengths_px, measured, size_px
from bot.pages.sheet import Declared

READABLE_PX = 2.0
_BEYOND_PX = 5000.0
_EDGE_ON = 3.0
_FUNCTION = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")
_PICTURE = ("url(", "image-set(", "cross-fade(", "element(", "paint(", "var(")
_GRADIENT_WORD = re.compile(r"#[0-9a-f]{3,8}\b|[a-z][a-z0-9-]*\([^()]*\)|[a-z]+")
_SIZE_WORDS = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0}


def removes(declared: Declared) -> bool:
    """Tell whether an element with these declarations is hidden with all that is in it."""
    return any(rule(declared) for rule in _WAYS)


def sizes_px(declared: Declared, inherited_px: float) -> list[float]:
    """Return the sizes of type that are declared, in pixels."""
    values = [*declared.get("font-size", ()), *(_before_slash(value) for value in declared.get("font", ()))]
    sizes = (_SIZE_WORDS.get(value.strip(), size_px(value, inherited_px)) for value in values)
    return [size for size in sizes if size is not None]


def puzzles(declared: Declared) -> bool:
    """Tell whether it cannot be known what is seen: something small is better taken for hidden then."""
    inks = _of(declared, "color", "-webkit-text-fill-color")
    masks = _of(declared, "mask", "mask-image", "-webkit-mask", "-webkit-mask-image", "clip-path", "-webkit-clip-path")
    return any(is_riddle(value) for value in inks) or any("url(" in value for value in masks)


def gradient(value: str) -> frozenset[Colour] | None:
    """Return the one colour that a gradient has all over; empty for none, None where it has several or a picture."""
    if any(sign in value for sign in _PICTURE):
        return None
    words = _GRADIENT_WORD.findall(value.partition("gradient(")[2])
    named, is_clear = colours(words)
    if is_clear or len(named) == 0:
        return None if named else frozenset()
    return named if all(alike({one}, frozenset({other})) for one in named for other in named) else None


def _of(declared: Declared, *names: str) -> Iterator[str]:
    for name in names:
        for value in declared.get(name, ()):
            yield measured(value)


def _before_slash(font: str) -> str:
    """Return a font without the height of its lines."""
    return measured(font).partition("/")[0]


def _is_gone(declared: Declared) -> bool:
    return "none" in declared.get("display", ()) or "hidden" in declared.get("content-visibility", ())


def _is_faint(declared: Declared) -> bool:
    filters = (
        inner for value in _of(declared, "filter") for name, inner in _FUNCTION.findall(value) if name == "opacity"
    )
    return any(_share(value) <= FAINT for value in (*_of(declared, "opacity"), *filters))


def _is_off_screen(declared: Declared) -> bool:
    places: Iterable[str] = ()
    if any(value in {"absolute", "fixed", "relative", "sticky"} for value in _of(declared, "position")):
        places = _of(declared, "left", "right", "top", "bottom", "inset", "inset-inline-start", "inset-block-start")
    shifts = _of(declared, "margin", "margin-left", "margin-top", "margin-right", "margin-inline-start", "text-indent")
    moves = _of(declared, "translate")
    return _is_left_of_all(declared) or any(
        px <= -FAR_PX or px >= _BEYOND_PX
        for values in (places, shifts, moves)
        for value in values
        for px in lengths_px(value)
    )


def _is_left_of_all(declared: Declared) -> bool:
    """Tell whether a box ends before the page begins, by its own place and size."""
    for place, size in (("left", "width"), ("top", "height"), ("margin-left", "width")):
        ends = [px for value in _of(declared, size, f"max-{size}") for px in lengths_px(value)]
        starts = [px for value in _of(declared, place) for px in lengths_px(value)[:1]]
        if ends and starts and min(starts) < 0.0 and min(starts) + min(ends) <= 0.0:
            return True
    return False


def _is_transformed_away(declared: Declared) -> bool:
    turns = (value for value in _of(declared, "rotate") if value.startswith(("x", "y")) or len(value.split()) == 4)
    return (
        any(
            _moves_away(name, inner)
            for value in _of(declared, "transform", "-webkit-transform", "-ms-transform")
            for name, inner in _FUNCTION.findall(value)
        )
        or any(0.0 in lengths_px(value) for value in _of(declared, "scale", "zoom"))
        or any(_is_edge_on(value) for value in turns)
    )


def _moves_away(function: str, inner: str) -> bool:
    if function.startswith("scale"):
        # The third of three says nothing on a flat page.
        return any(abs(scale) <= FAINT for scale in lengths_px(inner)[:2])
    if function in {"rotatex", "rotatey", "rotate3d"} or function.startswith("skew"):
        return _is_edge_on(inner)
    if function.startswith("matrix"):
        return _flattens(function, lengths_px(inner))
    return function.startswith("translate") and any(
        px <= -FAR_PX or px >= _BEYOND_PX for px in lengths_px(inner, of_itself=True)
    )


def _is_edge_on(turn: str) -> bool:
    return any(abs(angle % 180.0 - 90.0) <= _EDGE_ON for angle in degrees(turn))


def _flattens(function: str, numbers: list[float]) -> bool:
    """Tell whether a matrix leaves no area, or moves far away. Its numbers go down the columns."""
    wide = 4 if function == "matrix3d" else 2
    if len(numbers) != (16 if wide == 4 else 6):
        return False
    area = numbers[0] * numbers[wide + 1] - numbers[1] * numbers[wide]
    moves = numbers[12:14] if wide == 4 else numbers[4:6]
    return math.sqrt(abs(area)) <= FAINT or any(px <= -FAR_PX or px >= _BEYOND_PX for px in moves)


def _is_masked(declared: Declared) -> bool:
    images = _of(declared, "mask", "mask-image", "-webkit-mask", "-webkit-mask-image")
    if any(_is_all_clear(value) for value in images if "gradient(" in value):
        return True
    return any(0.0 in lengths_px(value) for value in _of(declared, "mask-size", "-webkit-mask-size"))


def _is_all_clear(value: str) -> bool:
    named, is_clear = colours(_GRADIENT_WORD.findall(value.partition("gradient(")[2]))
    return is_clear and not named


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
    if function == "xywh":
        return any(abs(side) <= 1.0 for side in lengths[2:4])
    if function in {"path", "shape"}:
        # Its letters touch its numbers.
        lengths = [float(number) for number in re.findall(r"[+-]?(?:\d+\.?\d*|\.\d+)", inner)]
    return function in {"path", "shape", "polygon", "rect"} and bool(lengths) and _is_a_point(lengths)


def _is_a_point(places: list[float]) -> bool:
    return max(places) - min(places) <= 1.0


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
    _is_masked,
    _is_shut,
    _is_behind,
)


def _share(value: str) -> float:
    number, percent, _ = value.strip().partition("%")
    try:
        return float(number) / (100.0 if percent else 1.0)
    except ValueError:
        return 1.0
