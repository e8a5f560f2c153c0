"""The ways in which a style hides text.

One rule each, over all values declared for a property; one that hides is enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from bot.net.html.css_values import (
    FAR_PX,
    MAX_FAINT_ALPHA,
    Colour,
    angles_deg,
    colours_alike,
    evaluate_maths,
    font_size_px,
    is_unknown_colour,
    lengths_px,
    parse_colours,
)
from bot.net.html.stylesheets import Declarations

MIN_READABLE_PX = 2.0
_OFF_SCREEN_PX = 5000.0
_EDGE_ON_DEGREES = 3.0
_FUNCTION_CALL = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")
_IMAGE_FUNCTIONS = ("url(", "image-set(", "cross-fade(", "element(", "paint(", "var(")
_GRADIENT_WORD = re.compile(r"#[0-9a-f]{3,8}\b|[a-z][a-z0-9-]*\([^()]*\)|[a-z]+")
_NAMED_SIZES_PX = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0}


def hides_element(declared: Declarations) -> bool:
    """Tell whether an element with these declarations is hidden with all that is in it."""
    return any(rule(declared) for rule in _HIDING_RULES)


def font_sizes_px(declared: Declarations, inherited_px: float) -> list[float]:
    """Return the sizes of type that are declared, in pixels."""
    values = [*declared.get("font-size", ()), *(_font_without_line_height(value) for value in declared.get("font", ()))]
    sizes = (_NAMED_SIZES_PX.get(value.strip(), font_size_px(value, inherited_px)) for value in values)
    return [size for size in sizes if size is not None]


def is_undecidable(declared: Declarations) -> bool:
    """Tell whether it cannot be known what is seen: something small is better taken for hidden then."""
    inks = _property_values(declared, "color", "-webkit-text-fill-color")
    masks = _property_values(
        declared, "mask", "mask-image", "-webkit-mask", "-webkit-mask-image", "clip-path", "-webkit-clip-path"
    )
    return any(is_unknown_colour(value) for value in inks) or any("url(" in value for value in masks)


def gradient_colour(value: str) -> frozenset[Colour] | None:
    """Return the one colour that a gradient has all over; empty for none, None where it has several or a picture."""
    if any(sign in value for sign in _IMAGE_FUNCTIONS):
        return None
    words = _GRADIENT_WORD.findall(value.partition("gradient(")[2])
    named, is_clear = parse_colours(words)
    if is_clear or len(named) == 0:
        return None if named else frozenset()
    return named if all(colours_alike({one}, frozenset({other})) for one in named for other in named) else None


def _property_values(declared: Declarations, *names: str) -> Iterator[str]:
    for name in names:
        for value in declared.get(name, ()):
            yield evaluate_maths(value)


def _font_without_line_height(font: str) -> str:
    """Return a font without the height of its lines."""
    return evaluate_maths(font).partition("/")[0]


def _is_not_displayed(declared: Declarations) -> bool:
    return "none" in declared.get("display", ()) or "hidden" in declared.get("content-visibility", ())


def _is_faint(declared: Declarations) -> bool:
    filters = (
        inner
        for value in _property_values(declared, "filter")
        for name, inner in _FUNCTION_CALL.findall(value)
        if name == "opacity"
    )
    return any(_parse_share(value) <= MAX_FAINT_ALPHA for value in (*_property_values(declared, "opacity"), *filters))


def _is_off_screen(declared: Declarations) -> bool:
    places: Iterable[str] = ()
    if any(value in {"absolute", "fixed", "relative", "sticky"} for value in _property_values(declared, "position")):
        places = _property_values(
            declared, "left", "right", "top", "bottom", "inset", "inset-inline-start", "inset-block-start"
        )
    shifts = _property_values(
        declared, "margin", "margin-left", "margin-top", "margin-right", "margin-inline-start", "text-indent"
    )
    moves = _property_values(declared, "translate")
    return _is_left_of_all(declared) or any(
        px <= -FAR_PX or px >= _OFF_SCREEN_PX
        for values in (places, shifts, moves)
        for value in values
        for px in lengths_px(value)
    )


def _is_left_of_all(declared: Declarations) -> bool:
    """Tell whether a box ends before the page begins, by its own place and size."""
    for place, size in (("left", "width"), ("top", "height"), ("margin-left", "width")):
        ends = [px for value in _property_values(declared, size, f"max-{size}") for px in lengths_px(value)]
        starts = [px for value in _property_values(declared, place) for px in lengths_px(value)[:1]]
        if ends and starts and min(starts) < 0.0 and min(starts) + min(ends) <= 0.0:
            return True
    return False


def _is_transformed_away(declared: Declarations) -> bool:
    turns = (
        value
        for value in _property_values(declared, "rotate")
        if value.startswith(("x", "y")) or len(value.split()) == 4
    )
    return (
        any(
            _moves_away(name, inner)
            for value in _property_values(declared, "transform", "-webkit-transform", "-ms-transform")
            for name, inner in _FUNCTION_CALL.findall(value)
        )
        or any(0.0 in lengths_px(value) for value in _property_values(declared, "scale", "zoom"))
        or any(_is_edge_on(value) for value in turns)
    )


def _moves_away(function: str, inner: str) -> bool:
    if function.startswith("scale"):
        # The third of three says nothing on a flat page.
        return any(abs(scale) <= MAX_FAINT_ALPHA for scale in lengths_px(inner)[:2])
    if function in {"rotatex", "rotatey", "rotate3d"} or function.startswith("skew"):
        return _is_edge_on(inner)
    if function.startswith("matrix"):
        return _matrix_hides(function, lengths_px(inner))
    return function.startswith("translate") and any(
        px <= -FAR_PX or px >= _OFF_SCREEN_PX for px in lengths_px(inner, of_itself=True)
    )


def _is_edge_on(turn: str) -> bool:
    return any(abs(angle % 180.0 - 90.0) <= _EDGE_ON_DEGREES for angle in angles_deg(turn))


def _matrix_hides(function: str, numbers: list[float]) -> bool:
    """Tell whether a matrix leaves no area, or moves far away. Its numbers go down the columns."""
    wide = 4 if function == "matrix3d" else 2
    if len(numbers) != (16 if wide == 4 else 6):
        return False
    area = numbers[0] * numbers[wide + 1] - numbers[1] * numbers[wide]
    moves = numbers[12:14] if wide == 4 else numbers[4:6]
    return math.sqrt(abs(area)) <= MAX_FAINT_ALPHA or any(px <= -FAR_PX or px >= _OFF_SCREEN_PX for px in moves)


def _is_masked(declared: Declarations) -> bool:
    images = _property_values(declared, "mask", "mask-image", "-webkit-mask", "-webkit-mask-image")
    if any(_is_all_clear(value) for value in images if "gradient(" in value):
        return True
    return any(0.0 in lengths_px(value) for value in _property_values(declared, "mask-size", "-webkit-mask-size"))


def _is_all_clear(value: str) -> bool:
    named, is_clear = parse_colours(_GRADIENT_WORD.findall(value.partition("gradient(")[2]))
    return is_clear and not named


def _is_clipped(declared: Declarations) -> bool:
    if any(
        value.startswith("rect") and max(lengths_px(value), default=9.0) <= 1.0
        for value in _property_values(declared, "clip")
    ):
        return True
    return any(
        _clips_everything(name, inner)
        for value in _property_values(declared, "clip-path", "-webkit-clip-path")
        for name, inner in _FUNCTION_CALL.findall(value)
    )


def _clips_everything(function: str, inner: str) -> bool:
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


def _is_collapsed(declared: Declarations) -> bool:
    if not any(
        word in value
        for value in _property_values(declared, "overflow", "overflow-x", "overflow-y")
        for word in ("hidden", "clip")
    ):
        return False
    sides = _property_values(
        declared, "width", "height", "max-width", "max-height", "line-height", "inline-size", "block-size"
    )
    return any(
        lengths and max(map(abs, lengths)) <= MIN_READABLE_PX for value in sides if (lengths := _box_lengths(value))
    )


def _box_lengths(value: str) -> list[float]:
    # A bare line-height is a factor of the size of type, of which only nothing is nothing.
    return [0.0 if px == 0.0 else max(px, MIN_READABLE_PX + 1) if _is_factor(value) else px for px in lengths_px(value)]


def _is_factor(value: str) -> bool:
    return value.replace(".", "", 1).isdigit()


def _is_behind(declared: Declarations) -> bool:
    return any(
        value.startswith("-") and min(lengths_px(value), default=0.0) < 0
        for value in _property_values(declared, "z-index")
    )


_HIDING_RULES: tuple[Callable[[Declarations], bool], ...] = (
    _is_not_displayed,
    _is_faint,
    _is_off_screen,
    _is_transformed_away,
    _is_clipped,
    _is_masked,
    _is_collapsed,
    _is_behind,
)


def _parse_share(value: str) -> float:
    number, percent, _ = value.strip().partition("%")
    try:
        return float(number) / (100.0 if percent else 1.0)
    except ValueError:
        return 1.0
