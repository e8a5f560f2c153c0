"""The nearest valid name, for errors that say what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def instead(name: str, valid: Iterable[str]) -> str:
    """Say what to write instead of a name: the nearest valid one, else all of them."""
    names = sorted(set(valid))
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return f"did you mean {near[0]}?" if near else f"valid: {', '.join(names) or 'none'}"
