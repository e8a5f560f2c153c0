"""Amounts as whole millionths: sums of them are exact, so that what was booked can be checked to the last one."""

import math

ONE = 1_000_000


def micros(amount: float) -> int:
    """Return an amount in millionths, to the nearest; raises ValueError for one that is not finite."""
    return round(amount * ONE)


def at_most(amount: float) -> int:
    """Return the least whole millionths that an amount fits into; what a float cannot tell apart is no more."""
    whole = micros(amount)
    return whole if abs(amount * ONE - whole) < 1e-3 else math.ceil(amount * ONE)


def units(whole: int) -> float:
    """Return millionths as an amount."""
    return whole / ONE
