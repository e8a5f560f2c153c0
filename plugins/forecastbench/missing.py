"""The 5 % rule: a file that misses more rows than that is ignored for the whole round (venue document, section 2.3)."""

from collections.abc import Collection, Iterator, Mapping

from bot.api import QuestionRef
from plugins.forecastbench.terms import MISSING_SHARE_LIMIT

Row = tuple[QuestionRef, str]


def excesses(groups: Mapping[str, Collection[Row]], given: Collection[Row]) -> Iterator[str]:
    """Say for each group of expected rows, by label, how many are not among the given ones if that is too many."""
    for label, rows in groups.items():
        missing = sum(row not in given for row in rows)
        if missing > MISSING_SHARE_LIMIT * len(rows):
            share, limit = 100 * missing / len(rows), 100 * MISSING_SHARE_LIMIT
            yield f"{missing} of {len(rows)} {label} rows are missing ({share:.1f} %, at most {limit:.0f} %)"
