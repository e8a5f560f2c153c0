"""What the tools of the desk are called, so that a misspelt name in config is found before anything is asked."""

from collections.abc import Collection, Iterable
from typing import Final

from bot.desk.tools import calculate, lookup, market, own, related, search, summary
from bot.desk.tools.series import Reading

FIXED: Final = (
    market.NAME,
    *(str(reading) for reading in Reading),
    search.NAME,
    summary.NAME,
    lookup.NAME,
    own.NAME,
    related.RELATED,
    related.HISTORY,
    calculate.NAME,
)


def names(shelves: Iterable[str]) -> Collection[str]:
    """Return the names of all tools that a trial may be offered where these sources of pages are enabled."""
    return frozenset([*FIXED, *(f"fetch_{shelf}_{part}" for shelf in shelves for part in ("toc", "section"))])
