"""What BLF needs of the engine and ``bot.api`` does not export yet; to be replaced by imports from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.api import Curve, CurveShape


def quoted(text: str, label: str) -> str:
    """Fence a text of others, so that a model can tell it from what it is told to do."""
    from bot.desk import untrusted  # noqa: PLC0415 - until bot.api exports it

    return untrusted.quoted(text, label)


def curve_through(quantiles: Mapping[float, float], shape: CurveShape, *, step_mass: float) -> Curve:
    """Return the CDF on the grid of the shape that passes through the quantiles; raises ValueError."""
    from bot.domain import curves  # noqa: PLC0415 - until bot.api exports it

    return curves.curve_through(quantiles, shape, step_mass=step_mass)


def quantiles_of(curve: Curve, shape: CurveShape, levels: Sequence[float]) -> Mapping[float, float]:
    """Return the value at each level."""
    from bot.domain import curves  # noqa: PLC0415 - until bot.api exports it

    return curves.quantiles_of(curve, shape, levels)
