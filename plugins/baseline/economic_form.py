"""Economic series: will the value on the target day be above the value on the day of the forecast?

The nature of a series decides how much its own past counts. A market price has no memory: its family starts near one
half and stays there, however one-sided a year of falling rates looked. A stock of loans, a policy rate or a balance
sheet moves the same way for months, so its own outcomes count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

from bot.api import RegressionTerm
from plugins.baseline.model_form import ModelForm, ModelTerms, question_block
from plugins.baseline.question_facts import ScoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFamily:
    """Series of one nature, recognised by a pattern of their ids.

    ``level`` is the prior log odds of an increase within 30 days, ``slope`` its change with the logarithm of the
    horizon, ``week`` the extra at 7 days, where a weekly or monthly value has often not moved. ``traded`` series are
    priced by markets, or computed from such prices, and learn next to nothing from their past.
    """

    name: str
    pattern: str
    level: float
    slope: float = 0.0
    week: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriorSpreads:
    """Prior standard deviations of the coefficients of a family and of one series in it; None: not modelled."""

    level: float
    slope: float
    series: float | None = None
    series_week: float = 0.0


_TRADED_FAMILIES = (
    SeriesFamily(name="share index", pattern=r"DJIA|SP500|NASDAQ|NIKKEI|BAML\w+TRIV$", level=0.3, slope=0.15),
    # Yields are published with two digits, and an unchanged value counts as no increase.
    SeriesFamily(
        name="market price",
        pattern=r"BAML|DGS|DTB|DFII|D?AAA|D?BAA|MORTGAGE|OBMMI|WGS|REAINT|EXPINF|THREEFY|T\d+Y|DEX|DTWEX|A?NFCI|STLFSI"
        r"|VIX|VXV|OVX|GVZ|DCOIL|DHHNGSP|CBBTC",
        level=-0.1,
    ),
)
_SLOW_FAMILIES = (
    SeriesFamily(
        name="policy rate", pattern=r"DFEDTAR|DPCREDIT|DPRIME|IORB|RRPONTSYAWARD|ECBDFR", level=-3.5, slope=0.3
    ),
    SeriesFamily(name="closed facility", pattern=r"H41RESPPALDK", level=-6.0),
    SeriesFamily(
        name="growing stock",
        pattern=r"(?!CASA)\w+CBW027SBOG|TOTBKCR|TOTCI|TOTLL|WM\dNS|WRMFNS|CURRCIR|SOFRINDEX",
        level=1.2,
        slope=0.5,
        week=-0.3,
    ),
    # Averages over months, and the rates that banks pay savers, follow the policy rate late and were above it.
    SeriesFamily(name="lagging rate", pattern=r"SOFR\d+DAYAVG|MMTY|SNDR|NDR", level=-0.6, slope=-0.3),
    SeriesFamily(name="overnight rate", pattern=r"DFF$|EFFR|OBFR|SOFR$|IUDSOIA|ECBESTR|RIFSPP", level=-0.4, slope=-0.4),
)
_OTHER_FAMILY = SeriesFamily(name="other series", pattern="", level=-0.1)
_FAMILIES = tuple(
    (re.compile(family.pattern), family) for family in (*_TRADED_FAMILIES, *_SLOW_FAMILIES, _OTHER_FAMILY)
)

_TRADED_SPREADS = _PriorSpreads(level=0.05, slope=0.05)
_SLOW_SPREADS = _PriorSpreads(level=0.5, slope=0.2, series=0.4, series_week=0.3)


@lru_cache(maxsize=4096)
def find_family(key: str) -> SeriesFamily:
    """Return the family of a series id; ids that match no pattern are ``other series``."""
    return next(found for pattern, found in _FAMILIES if pattern.match(key))


def _economic_terms(event: ScoredEvent) -> ModelTerms:
    return _series_terms(event.facts.key, event.days)


# Each round asks the same series over the same horizons.
@lru_cache(maxsize=4096)
def _series_terms(key: str, ahead: int) -> ModelTerms:
    found = find_family(key)
    spreads = _TRADED_SPREADS if found in _TRADED_FAMILIES else _SLOW_SPREADS
    week = 1.0 if ahead <= 7 else 0.0
    name = found.name
    terms = (
        RegressionTerm(name, 1.0, found.level, spreads.level, f"{key} is a {name}"),
        RegressionTerm(
            f"{name} horizon", math.log(ahead / 30.0), found.slope, spreads.slope, f"{name} over {ahead} days"
        ),
        RegressionTerm(f"{name} week", week, found.week, spreads.slope, f"{name} within a week"),
    )
    if spreads.series is None:
        return terms
    return (
        *terms,
        RegressionTerm(key, 1.0, 0.0, spreads.series, f"earlier outcomes of {key}"),
        RegressionTerm(f"{key} week", week, 0.0, spreads.series_week, f"earlier outcomes of {key} within a week"),
    )


def _shock_block(event: ScoredEvent) -> Hashable:
    found = find_family(event.facts.key)
    return (event.facts.due, event.target, found.name) if found in _TRADED_FAMILIES else question_block(event)


ECONOMIC_FORM = ModelForm(name="fred", terms=_economic_terms, block=_shock_block)
