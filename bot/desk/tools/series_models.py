"""Which estimator of ``bot.science.timeseries`` a series gets, and what it says of each date of a question.

Source: BLF (arXiv 2604.18576v3), appendix I; the classes of series and their constants stand beside the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from bot.domain.research import Series

if TYPE_CHECKING:
    from bot.science.timeseries import TrendModel

# A word in the name or the source of a series -> the class of series in ``bot.science.timeseries``. What is not listed
# is extrapolated with the least trust.
_CLASSES = {
    "dbnomics": "SEASONAL_SERIES",
    "fred": "ECONOMIC_SERIES",
    "yahoo": "DAILY_PRICES",
    "yfinance": "DAILY_PRICES",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The probability that a series stands above its reference value on a day, and the estimates it comes from.

    ``season`` counts past values around that day of the year, ``trend`` extends a line, ``mixed`` joins the line with
    the same day in earlier years.
    """

    probability: float
    season: float
    trend: float
    mixed: float


def estimates(series: Series, days: Sequence[date], *, kind: str, today: date) -> list[Estimate]:
    """Return one estimate for each day, against the last value before ``today``, the day of the forecast.

    ``kind`` is the name of the data source. A class with seasons takes the probability from the season alone. Raises
    ValueError for a series without a value before today, or with an infinite one.
    """
    import numpy as np  # noqa: PLC0415 - a start of the program needs no numpy

    from bot.science import timeseries  # noqa: PLC0415 - as above

    past = timeseries.series([day.isoformat() for day in series.dates], list(series.values)).before(
        np.datetime64(today, "D")
    )
    if not past.values.size:
        message = "the series has no value before the day of the forecast"
        raise ValueError(message)
    name = _class_of(f"{kind} {series.source}")
    model: TrendModel = getattr(timeseries, name)
    reference = float(past.values[-1])
    made = []
    for day in days:
        on = np.datetime64(day, "D")
        season = timeseries.seasonal_exceedance(past, reference, on).probability
        trend = timeseries.trend_exceedance(past, reference, on, model).probability
        mixed = timeseries.hybrid_exceedance(past, reference, on, model).probability
        probability = season if name == "SEASONAL_SERIES" else mixed
        made.append(Estimate(probability=probability, season=season, trend=trend, mixed=mixed))
    return made


def _class_of(words: str) -> str:
    return next((name for word, name in _CLASSES.items() if word in words.casefold()), "DAILY_PRICES")
