"""The nearest valid names for a misspelt one, for errors that suggest what to write instead."""

import difflib
from collections.abc import Iterable


def nearest_names(name: str, valid: Iterable[str]) -> tuple[str, ...]:
    """Return up to three valid names that look like the given one, the likeliest first; case does not count."""
    spelt = {candidate.casefold(): candidate for candidate in sorted(valid)}
    return tuple(spelt[match] for match in difflib.get_close_matches(name.casefold(), spelt, n=3, cutoff=0.6))


def suggest_names(name: str, valid: Iterable[str]) -> str:
    """Suggest what to write instead of the name: the nearest valid names, else all of them."""
    names = sorted(set(valid))
    if close := nearest_names(name, names):
        return f"did you mean {' or '.join(close)}?"
    return f"valid: {', '.join(names)}" if names else "there is none"
