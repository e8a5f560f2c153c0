"""CSS lengths, angles, calculations and colours as numbers that a screen would show.

Sources: CSS Values and Units Module Level 4, CSS Color Module Level 4 and 5.
"""

from __future__ import annotations

import colorsys
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

# Pixels: a line of text is 16 high, and nothing scrolls that far to the left.
ROOT_PX = 16.0


FAR_PX = 300.0


_PX_PER_UNIT = {
    "": 1.0, "px": 1.0, "em": 16.0, "rem": 16.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78,
    "q": 0.945, "ex": 8.0, "ch": 8.0, "ic": 16.0, "lh": 19.2, "rlh": 19.2, "vw": 12.8, "vh": 7.2, "vi": 12.8,
    "vb": 7.2, "vmin": 7.2, "vmax": 12.8, "%": 12.8, "cqw": 12.8, "cqh": 7.2, "cqi": 12.8, "cqb": 7.2,
}  # fmt: skip


_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?"


_UNIT_PATTERN = r"px|r?em|pt|pc|in|cm|mm|q|ex|ch|ic|r?lh|[sld]?v(?:w|h|i|b|min|max)|cq[whib]|%"


_LENGTH_PATTERN = re.compile(rf"(?<![\w.#-])({_NUMBER})({_UNIT_PATTERN})?(?![\w-])")


_ANGLE_PATTERN = re.compile(rf"({_NUMBER})(deg|g?rad|turn)")


_DEGREES = {"deg": 1.0, "rad": 180.0 / math.pi, "grad": 0.9, "turn": 360.0}


_MATHS_CALL = re.compile(r"(?<![\w-])(-?)(calc|-webkit-calc|-moz-calc|min|max|clamp|abs)?\(([^()]*)\)")


_MATHS_TERM = re.compile(rf"({_NUMBER})({_UNIT_PATTERN}|deg|g?rad|turn)?")


_SUM_OPERATOR = re.compile(r"\s([+-])\s")


_PRODUCT_OPERATOR = re.compile(r"\s*([*/])\s*")


_MAX_RESULT = 1e9


_MAX_EVALUATIONS = 40


_RELATIVE_UNITS = frozenset({"em", "%", "ex", "ch", "ic", "lh"})


def lengths_px(value: str, *, of_itself: bool = False) -> list[float]:
    """Return all lengths in a value, in pixels of a usual screen; of shares ``of_itself`` the whole is far."""
    share = FAR_PX / 100.0 if of_itself else _PX_PER_UNIT["%"]
    return [
        float(number) * (share if unit == "%" else _unit_px(unit)) for number, unit in _LENGTH_PATTERN.findall(value)
    ]


def font_size_px(value: str, inherited_px: float) -> float | None:
    """Return the last length in a value as a size of type, or None where there is none."""
    found = _LENGTH_PATTERN.findall(evaluate_maths(value, inherited_px))
    if not found:
        return None
    number, unit = float(found[-1][0]), found[-1][1]
    return number * (_relative_px(unit, inherited_px) if unit in _RELATIVE_UNITS else _unit_px(unit))


@lru_cache(maxsize=4096)
def evaluate_maths(value: str, inherited_px: float | None = None) -> str:
    """Return the value with each computation replaced by its result, in pixels where lengths are in it.

    What cannot be computed stays as it is. ``inherited_px`` is what shares of the size of type are taken of.
    """
    if "(" not in value:
        return value
    for _ in range(_MAX_EVALUATIONS):
        for found in _MATHS_CALL.finditer(value):
            # A bracket without a name stands within a computation, or is none of ours.
            if (result := _evaluate_call(found[2] or "calc", found[3], inherited_px)) is not None:
                value = f"{value[: found.start()]}{found[1]}{result}{value[found.end() :]}"
                break
        else:
            break
    return value


def angles_deg(value: str) -> list[float]:
    """Return all angles in a value."""
    return [float(number) * _DEGREES[unit] for number, unit in _ANGLE_PATTERN.findall(value)]


def split_outside_brackets(value: str, mark: str) -> list[str]:
    """Return the parts of a value between the marks that stand outside of brackets."""
    parts, start, depth = [], 0, 0
    for position, character in enumerate(value):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth = max(0, depth - 1)
        elif character == mark and depth == 0:
            parts.append(value[start:position])
            start = position + 1
    return [*parts, value[start:]]


def _unit_px(unit: str) -> float:
    return _PX_PER_UNIT[unit] if unit in _PX_PER_UNIT else _PX_PER_UNIT[unit[1:]]


def _relative_px(unit: str, inherited_px: float) -> float:
    return inherited_px * {"%": 0.01, "ex": 0.5, "ch": 0.5, "lh": 1.2}.get(unit, 1.0)


def _evaluate_call(function: str, inner: str, inherited_px: float | None) -> str | None:
    results = [_evaluate_sum(part, inherited_px) for part in inner.split(",")]
    numbers = [result[0] for result in results if result is not None]
    if len(numbers) != len(results):
        return None
    unit = next((result[1] for result in results if result is not None and result[1]), "")
    # The bounds of a clamp may lie the wrong way round: then the lower one holds.
    low, middle, high = (numbers * 3)[:3]
    outcome = {
        "min": min(numbers),
        "max": max(numbers),
        "abs": abs(low),
        "clamp": max(low, min(middle, high)),
    }.get(function, low)
    return f"{outcome:.6f}{unit}"


def _evaluate_sum(text: str, inherited_px: float | None) -> tuple[float, str] | None:
    """Return the value of a sum, with "px" where lengths are in it, "deg" for angles, else nothing."""
    pieces = _SUM_OPERATOR.split(text.strip())
    total, unit = 0.0, ""
    for sign, term in zip(("+", *pieces[1::2]), pieces[::2], strict=True):
        product = _evaluate_product(term, inherited_px)
        if product is None:
            return None
        total += product[0] if sign == "+" else -product[0]
        unit = product[1] or unit
    return total, unit


def _evaluate_product(text: str, inherited_px: float | None) -> tuple[float, str] | None:
    factors = _PRODUCT_OPERATOR.split(text.strip())
    result, unit = 1.0, ""
    for operator, factor in zip(("*", *factors[1::2]), factors[::2], strict=True):
        found = _MATHS_TERM.fullmatch(factor)
        if found is None:
            return None
        number, of = float(found[1]), found[2] or ""
        if of:
            unit = "deg" if of in _DEGREES else "px"
            number *= _unit_value(of, inherited_px)
        if operator == "/" and number == 0.0:
            return None
        result = result * number if operator == "*" else result / number
    return min(max(result, -_MAX_RESULT), _MAX_RESULT), unit


def _unit_value(unit: str, inherited_px: float | None) -> float:
    if unit in _DEGREES:
        return _DEGREES[unit]
    return _unit_px(unit) if inherited_px is None or unit not in _RELATIVE_UNITS else _relative_px(unit, inherited_px)


Colour = tuple[int, int, int]


_MAX_SAME_DISTANCE = 24


MAX_FAINT_ALPHA = 0.05


# The names of CSS Color Module Level 4.
_COLOUR_NAMES = (
    "aliceblue:f0f8ff antiquewhite:faebd7 aqua:00ffff aquamarine:7fffd4 azure:f0ffff beige:f5f5dc bisque:ffe4c4 "
    "black:000000 blanchedalmond:ffebcd blue:0000ff blueviolet:8a2be2 brown:a52a2a burlywood:deb887 cadetblue:5f9ea0 "
    "chartreuse:7fff00 chocolate:d2691e coral:ff7f50 cornflowerblue:6495ed cornsilk:fff8dc crimson:dc143c cyan:00ffff "
    "darkblue:00008b darkcyan:008b8b darkgoldenrod:b8860b darkgray:a9a9a9 darkgreen:006400 darkgrey:a9a9a9 "
    "darkkhaki:bdb76b darkmagenta:8b008b darkolivegreen:556b2f darkorange:ff8c00 darkorchid:9932cc darkred:8b0000 "
    "darksalmon:e9967a darkseagreen:8fbc8f darkslateblue:483d8b darkslategray:2f4f4f darkslategrey:2f4f4f "
    "darkturquoise:00ced1 darkviolet:9400d3 deeppink:ff1493 deepskyblue:00bfff dimgray:696969 dimgrey:696969 "
    "dodgerblue:1e90ff firebrick:b22222 floralwhite:fffaf0 forestgreen:228b22 fuchsia:ff00ff gainsboro:dcdcdc "
    "ghostwhite:f8f8ff gold:ffd700 goldenrod:daa520 gray:808080 green:008000 greenyellow:adff2f grey:808080 "
    "honeydew:f0fff0 hotpink:ff69b4 indianred:cd5c5c indigo:4b0082 ivory:fffff0 khaki:f0e68c lavender:e6e6fa "
    "lavenderblush:fff0f5 lawngreen:7cfc00 lemonchiffon:fffacd lightblue:add8e6 lightcoral:f08080 lightcyan:e0ffff "
    "lightgoldenrodyellow:fafad2 lightgray:d3d3d3 lightgreen:90ee90 lightgrey:d3d3d3 lightpink:ffb6c1 "
    "lightsalmon:ffa07a lightseagreen:20b2aa lightskyblue:87cefa lightslategray:778899 lightslategrey:778899 "
    "lightsteelblue:b0c4de lightyellow:ffffe0 lime:00ff00 limegreen:32cd32 linen:faf0e6 magenta:ff00ff maroon:800000 "
    "mediumaquamarine:66cdaa mediumblue:0000cd mediumorchid:ba55d3 mediumpurple:9370db mediumseagreen:3cb371 "
    "mediumslateblue:7b68ee mediumspringgreen:00fa9a mediumturquoise:48d1cc mediumvioletred:c71585 "
    "midnightblue:191970 mintcream:f5fffa mistyrose:ffe4e1 moccasin:ffe4b5 navajowhite:ffdead navy:000080 "
    "oldlace:fdf5e6 olive:808000 olivedrab:6b8e23 orange:ffa500 orangered:ff4500 orchid:da70d6 palegoldenrod:eee8aa "
    "palegreen:98fb98 paleturquoise:afeeee palevioletred:db7093 papayawhip:ffefd5 peachpuff:ffdab9 peru:cd853f "
    "pink:ffc0cb plum:dda0dd powderblue:b0e0e6 purple:800080 rebeccapurple:663399 red:ff0000 rosybrown:bc8f8f "
    "royalblue:4169e1 saddlebrown:8b4513 salmon:fa8072 sandybrown:f4a460 seagreen:2e8b57 seashell:fff5ee "
    "sienna:a0522d silver:c0c0c0 skyblue:87ceeb slateblue:6a5acd slategray:708090 slategrey:708090 snow:fffafa "
    "springgreen:00ff7f steelblue:4682b4 tan:d2b48c teal:008080 thistle:d8bfd8 tomato:ff6347 turquoise:40e0d0 "
    "violet:ee82ee wheat:f5deb3 white:ffffff whitesmoke:f5f5f5 yellow:ffff00 yellowgreen:9acd32 "
    "canvas:ffffff canvastext:000000 field:ffffff fieldtext:000000 buttonface:f0f0f0 buttontext:000000"
)


_COLOURS_BY_NAME = {name: bytes.fromhex(digits) for name, digits in (each.split(":") for each in _COLOUR_NAMES.split())}


_COMPONENT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?)(%|deg|g?rad|turn)?|none")


_COLOUR_CALL = re.compile(r"([a-z][a-z0-9-]*)\((.*)\)", re.DOTALL)


# The same colour again, more or less opaque.
_RELATIVE_COLOUR = re.compile(
    r"from\s+(\S+|[a-z-]+\(.*?\))\s+(?:r\s+g\s+b|h\s+s\s+l|l\s+c\s+h)(?:\s*/\s*([\d.]*\d%?))?"
)


_HUE_DEGREES = {"": 1.0, "deg": 1.0, "rad": 180.0 / math.pi, "grad": 0.9, "turn": 360.0}


_MAX_COLOUR_DEPTH = 4


_MAX_LEGACY_CHARS = 128


def parse_colours(values: Iterable[str]) -> tuple[frozenset[Colour], bool]:
    """Return the colours that the values name, and whether one of them is no colour at all (transparent)."""
    found = [colour for value in values if (colour := parse_colour(value)) is not None]
    return frozenset(colour[0] for colour in found if colour[1] > MAX_FAINT_ALPHA), any(
        alpha <= MAX_FAINT_ALPHA for _, alpha in found
    )


def colours_alike(ink: Iterable[Colour], paper: frozenset[Colour]) -> bool:
    """Tell whether any ink is too near to any paper to be read."""
    return any(
        max(abs(a - b) for a, b in zip(one, other, strict=True)) <= _MAX_SAME_DISTANCE for one in ink for other in paper
    )


def is_unknown_colour(value: str) -> bool:
    """Tell whether a value computes a colour in a way that is not known here."""
    return "(" in value and "var(" not in value and parse_colour(value) is None


def parse_colour(value: str, depth: int = 0) -> tuple[Colour, float] | None:
    """Return the colour in a value and how opaque it is, or None where it names none that is known."""
    value = value.strip()
    if value == "transparent":
        return (255, 255, 255), 0.0
    if value == "currentcolor" and depth > 0:
        # Within a mixture only how much of it there is can be judged.
        return (0, 0, 0), 1.0
    if (named := _COLOURS_BY_NAME.get(value)) is not None:
        return (named[0], named[1], named[2]), 1.0
    found = _COLOUR_CALL.fullmatch(value)
    if found is not None and depth <= _MAX_COLOUR_DEPTH:
        return _parse_colour_call(found[1], found[2], depth)
    return _parse_hex(value[1:]) if value.startswith("#") else None


def _parse_colour_call(name: str, inner: str, depth: int) -> tuple[Colour, float] | None:
    if name == "color-mix":
        return _mix_colours(inner, depth)
    if name == "light-dark":
        return parse_colour(split_outside_brackets(inner, ",")[0], depth + 1)
    if (derived := _RELATIVE_COLOUR.fullmatch(inner.strip())) is not None:
        origin = parse_colour(derived[1], depth + 1)
        share = derived[2] or "1"
        opaque = float(share.rstrip("%")) / (100.0 if share.endswith("%") else 1.0)
        return None if origin is None else (origin[0], opaque if derived[2] else origin[1])
    return _parse_components(name, evaluate_maths(inner))


def parse_legacy_colour(value: str) -> str:
    """Return the colour that an attribute of old HTML names, as "#rrggbb": any text names one."""
    value = value.strip().lower()
    if value in {"", "transparent"} or value in _COLOURS_BY_NAME:
        return value
    if re.fullmatch("#[0-9a-f]{3}", value):
        return value
    digits = re.sub(
        "[^0-9a-f]", "0", re.sub("[\U00010000-\U0010ffff]", "00", value)[:_MAX_LEGACY_CHARS].removeprefix("#")
    )
    digits = digits.ljust(max(3, -(-len(digits) // 3) * 3), "0")
    length = len(digits) // 3
    parts = [digits[start : start + length][-8:] for start in range(0, 3 * length, length)]
    while len(parts[0]) > 2 and all(part[0] == "0" for part in parts):
        parts = [part[1:] for part in parts]
    return "#" + "".join(part[:2].rjust(2, "0") for part in parts)


def _parse_hex(digits: str) -> tuple[Colour, float] | None:
    if len(digits) in {3, 4}:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) not in {6, 8} or not all(digit in "0123456789abcdef" for digit in digits):
        return None
    red, green, blue, opaque = bytes.fromhex(digits.ljust(8, "f"))
    return (red, green, blue), opaque / 255


def _mix_colours(inner: str, depth: int) -> tuple[Colour, float] | None:
    """Return a mixture, by shares of the light as it is coded: near enough to tell ink from paper."""
    parts = split_outside_brackets(inner, ",")
    parts = parts[1:] if parts[0].strip().startswith("in ") else parts
    read = [_parse_weighted_colour(part, depth) for part in parts]
    if len(read) != 2:
        return None
    (first, share), (second, other) = read
    if first is None or second is None:
        return None
    share, other = _mixing_shares(share, other)
    whole = (share + other) or 1.0
    red, green, blue = (round((a * share + b * other) / whole) for a, b in zip(first[0], second[0], strict=True))
    return (red, green, blue), (first[1] * share + second[1] * other) / whole * min(whole, 1.0)


def _mixing_shares(first: float | None, second: float | None) -> tuple[float, float]:
    if first is None:
        return (0.5, 0.5) if second is None else (1.0 - second, second)
    return first, 1.0 - first if second is None else second


def _parse_weighted_colour(part: str, depth: int) -> tuple[tuple[Colour, float] | None, float | None]:
    found = re.search(r"(?:^|\s)(\d+(?:\.\d+)?)%(?:\s|$)", part)
    plain = part if found is None else part[: found.start()] + " " + part[found.end() :]
    return parse_colour(plain, depth + 1), float(found[1]) / 100.0 if found else None


def _parse_components(function: str, inner: str) -> tuple[Colour, float] | None:
    inner = inner.strip()
    if inner.startswith("from "):
        return None
    space, _, rest = inner.partition(" ") if function == "color" else (function, "", inner)
    parts = [(found[1] or "0", found[2] or "") for found in _COMPONENT.finditer(rest)]
    if len(parts) not in {3, 4} or (light := _COLOUR_SPACES.get(space)) is None:
        return None
    opaque = float(parts[3][0]) / (100.0 if parts[3][1] == "%" else 1.0) if len(parts) == 4 else 1.0
    red, green, blue = light([(float(number), unit) for number, unit in parts[:3]])
    return (_to_byte(red), _to_byte(green), _to_byte(blue)), opaque


ColourComponents = Sequence[tuple[float, str]]


RgbFractions = tuple[float, float, float]


def _scale_component(part: tuple[float, str], whole: float) -> float:
    """Return a number, or the share of the whole."""
    return part[0] / 100.0 * whole if part[1] == "%" else part[0]


def _hue_degrees(part: tuple[float, str]) -> float:
    return part[0] * _HUE_DEGREES.get(part[1], 1.0)


def _rgb(parts: ColourComponents) -> RgbFractions:
    red, green, blue = (_scale_component(part, 255.0) / 255.0 for part in parts)
    return red, green, blue


def _srgb(parts: ColourComponents) -> RgbFractions:
    red, green, blue = (_scale_component(part, 1.0) for part in parts)
    return red, green, blue


def _linear_rgb(parts: ColourComponents) -> RgbFractions:
    return _gamma_encode(*_srgb(parts))


def _hsl(parts: ColourComponents) -> RgbFractions:
    # Shares may be written without their sign.
    saturation, light = (min(max(part[0] / 100.0, 0.0), 1.0) for part in parts[1:])
    return colorsys.hls_to_rgb(_hue_degrees(parts[0]) / 360.0 % 1.0, light, saturation)


def _hwb(parts: ColourComponents) -> RgbFractions:
    white, black = (min(max(part[0] / 100.0, 0.0), 1.0) for part in parts[1:])
    if white + black >= 1.0:
        grey = white / (white + black)
        return grey, grey, grey
    pure = colorsys.hls_to_rgb(_hue_degrees(parts[0]) / 360.0 % 1.0, 0.5, 1.0)
    red, green, blue = (each * (1.0 - white - black) + white for each in pure)
    return red, green, blue


def _lab(parts: ColourComponents) -> RgbFractions:
    return _lab_to_rgb(
        _scale_component(parts[0], 100.0), _scale_component(parts[1], 125.0), _scale_component(parts[2], 125.0)
    )


def _lch(parts: ColourComponents) -> RgbFractions:
    chroma, hue = _scale_component(parts[1], 150.0), math.radians(_hue_degrees(parts[2]))
    return _lab_to_rgb(_scale_component(parts[0], 100.0), chroma * math.cos(hue), chroma * math.sin(hue))


def _oklab(parts: ColourComponents) -> RgbFractions:
    return _oklab_to_rgb(
        _scale_component(parts[0], 1.0), _scale_component(parts[1], 0.4), _scale_component(parts[2], 0.4)
    )


def _oklch(parts: ColourComponents) -> RgbFractions:
    chroma, hue = _scale_component(parts[1], 0.4), math.radians(_hue_degrees(parts[2]))
    return _oklab_to_rgb(_scale_component(parts[0], 1.0), chroma * math.cos(hue), chroma * math.sin(hue))


def _xyz(parts: ColourComponents) -> RgbFractions:
    return _xyz_to_rgb(*_srgb(parts))


def _lab_to_rgb(lightness: float, a: float, b: float) -> RgbFractions:
    middle = (lightness + 16.0) / 116.0
    x, y, z = (
        step**3 if step**3 > 216 / 24389 else (116.0 * step - 16.0) * 27 / 24389
        for step in (middle + a / 500.0, middle, middle - b / 200.0)
    )
    # The white of D50 stands for that of D65, which differs by less than the eye tells apart here.
    return _xyz_to_rgb(x * 0.95046, y, z * 1.08906)


def _oklab_to_rgb(lightness: float, a: float, b: float) -> RgbFractions:
    # Source of the factors: CSS Color Module Level 4, section 18.
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return _gamma_encode(
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _xyz_to_rgb(x: float, y: float, z: float) -> RgbFractions:
    return _gamma_encode(
        3.2409699 * x - 1.5373832 * y - 0.4986108 * z,
        -0.9692436 * x + 1.8759675 * y + 0.0415551 * z,
        0.0556301 * x - 0.2039770 * y + 1.0569715 * z,
    )


def _gamma_encode(*linear: float) -> RgbFractions:
    red, green, blue = (
        12.92 * each if each <= 0.0031308 else 1.055 * min(each, 1.0) ** (1 / 2.4) - 0.055 for each in linear
    )
    return red, green, blue


_COLOUR_SPACES = {
    "rgb": _rgb, "rgba": _rgb, "hsl": _hsl, "hsla": _hsl, "hwb": _hwb, "lab": _lab, "lch": _lch, "oklab": _oklab,
    "oklch": _oklch, "srgb": _srgb, "display-p3": _srgb, "a98-rgb": _srgb, "rec2020": _srgb,
    "prophoto-rgb": _srgb, "srgb-linear": _linear_rgb, "xyz": _xyz, "xyz-d50": _xyz, "xyz-d65": _xyz,
}  # fmt: skip


def _to_byte(value: float) -> int:
    return round(min(max(value * 255.0, 0.0), 255.0))
