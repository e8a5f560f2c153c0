"""Messages of the contract kits for a number that is wrong: what was found, and what probably went wrong."""

import math
from collections.abc import Mapping

_SAME_NUMBER = 1e-4


def explain_number(what: str, found: float | None, wanted: float | None, causes: Mapping[str, float], hint: str) -> str:
    """Return one sentence; ``causes`` are the numbers that the usual mistakes give, ``hint`` is for all others."""
    known = [
        cause
        for cause, number in causes.items()
        if found is not None and math.isclose(found, number, rel_tol=_SAME_NUMBER, abs_tol=_SAME_NUMBER)
    ]
    return f"{what} is {_number_text(found)}, expected {_number_text(wanted)}: {known[0] if known else hint}"


def _number_text(number: float | None) -> str:
    return "None" if number is None else f"{number:.6g}"
