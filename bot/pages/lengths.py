"""Lengths, angles and shares of CSS as numbers, those that are computed (``calc`` and its kin) included.

Source: CSS Values and Units Module Level 4. Lengths are in pixels of a usual screen.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

# Pixels: a line of text is 16 high, and nothing scrolls that far to the left.
ROOT_PX = 16.0
FAR_PX = 300.0
_UNITS = {
    "": 1.0, "px": 1.0, "em": 16.0, "rem": 16.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78,
    "q": 0.945, "ex": 8.0, "ch": 8.0, "ic": 16.0, "lh": 19.2, "rlh": 19.2, "vw": 12.8, "vh": 7.2, "vi": 12.8,
    "vb": 7.2, "vmin": 7.2, "vmax": 12.8, "%": 12.8, "cqw": 12.8, "cqh": 7.2, "cqi": 12.8, "cqb": 7.2,
}  # fmt: skip
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?"
_UNIT = r"px|r?em|pt|pc|in|cm|mm|q|ex|ch|ic|r?lh|[sld]?v(?:w|h|i|b|min|max)|cq[whib]|%"
_LENGTH = re.compile(rf"(?<![\w.#-])({_NUMBER})({_UNIT})?(?![\w-])")
_ANGLE = re.compile(rf"({_NUMBER})(deg|g?rad|turn)")
_DEGREES = {"deg": 1.0, "rad": 180.0 / math.pi, "grad": 0.9, "turn": 360.0}
_MATHS = re.compile(r"(?<![\w-])(-?)(calc|-webkit-calc|-moz-calc|min|max|clamp|abs)?\(([^()]*)\)")
_TERM = re.compile(rf"({_NUMBER})({_UNIT}|deg|g?rad|turn)?")
_SIGN = re.compile(r"\s([+-])\s")
_FACTOR = re.compile(r"\s*([*/])\s*")
_MOST = 1e9
_MOST_STEPS = 40
_RELATIVE = frozenset({"em", "%", "ex", "ch", "ic", "lh"})


def lengths_px(value: str, *, of_itself: bool = False) -> list[float]:
    """Return all lengths in a value, in pixels of a usual screen; of shares ``of_itself`` the whole is far."""
    share = FAR_PX / 100.0 if of_itself else _UNITS["%"]
    return [float(number) * (share if unit == "%" else _unit(unit)) for number, unit in _LENGTH.findall(value)]


def size_px(value: str, inherited_px: float) -> float | None:
    """Return the last length in a value as a size of type, or None where there is none."""
    found = _LENGTH.findall(measured(value, inherited_px))
    if not found:
        return None
    number, unit = float(found[-1][0]), found[-1][1]
    return number * (_of_type(unit, inherited_px) if unit in _RELATIVE else _unit(unit))


@lru_cache(maxsize=4096)
def measured(value: str, inherited_px: float | None = None) -> str:
    """Return the value with each computation replaced by its result, in pixels where lengths are in it.

    What cannot be computed stays as it is. ``inherited_px`` is what shares of the size of type are taken of.
    """
    if "(" not in value:
        return value
    for _ in range(_MOST_STEPS):
        for found in _MATHS.finditer(value):
            # A bracket without a name stands within a computation, or is none of ours.
            if (result := _computed(found[2] or "calc", found[3], inherited_px)) is not None:
                value = f"{value[: found.start()]}{found[1]}{result}{value[found.end() :]}"
                break
        else:
            break
    return value


def degrees(value: str) -> list[float]:
    """Return all angles in a value."""
    return [float(number) * _DEGREES[unit] for number, unit in _ANGLE.findall(value)]


def split(value: str, mark: str) -> list[str]:
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


def _unit(unit: str) -> float:
    return _UNITS[unit] if unit in _UNITS else _UNITS[unit[1:]]


def _of_type(unit: str, inherited_px: float) -> float:
    return inherited_px * {"%": 0.01, "ex": 0.5, "ch": 0.5, "lh": 1.2}.get(unit, 1.0)


def _computed(function: str, inner: str, inherited_px: float | None) -> str | None:
    results = [_sum(part, inherited_px) for part in inner.split(",")]
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


def _sum(text: str, inherited_px: float | None) -> tuple[float, str] | None:
    """Return the value of a sum, with "px" where lengths are in it, "deg" for angles, else nothing."""
    pieces = _SIGN.split(text.strip())
    total, unit = 0.0, ""
    for sign, term in zip(("+", *pieces[1::2]), pieces[::2], strict=True):
        product = _product(term, inherited_px)
        if product is None:
            return None
        total += product[0] if sign == "+" else -product[0]
        unit = product[1] or unit
    return total, unit


def _product(text: str, inherited_px: float | None) -> tuple[float, str] | None:
    factors = _FACTOR.split(text.strip())
    result, unit = 1.0, ""
    for operator, factor in zip(("*", *factors[1::2]), factors[::2], strict=True):
        found = _TERM.fullmatch(factor)
        if found is None:
            return None
        number, of = float(found[1]), found[2] or ""
        if of:
            unit = "deg" if of in _DEGREES else "px"
            number *= _worth(of, inherited_px)
        if operator == "/" and number == 0.0:
            return None
        result = result * number if operator == "*" else result / number
    return min(max(result, -_MOST), _MOST), unit


def _worth(unit: str, inherited_px: float | None) -> float:
    if unit in _DEGREES:
        return _DEGREES[unit]
    return _unit(unit) if inherited_px is None or unit not in _RELATIVE else _of_type(unit, inherited_px)
