"""What the estimators of ``bot.stats.time_series`` say of each date of a question about a series.

How a source's series are extrapolated is part of its spec. Source: BLF (arXiv 2604.18576v3), appendix I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from bot.domain.research import Series, SeriesModel


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


def estimates(series: Series, days: Sequence[date], *, model: SeriesModel, today: date) -> list[Estimate]:
    """Return one estimate for each day, against the last value before ``today``, the day of the forecast.

    Raises ValueError for a series without a value before today, or with an infinite one.
    """
    import numpy as np  # noqa: PLC0415 - a start of the program needs no numpy

    from bot.stats import time_series  # noqa: PLC0415 - as above

    past = time_series.daily_series([day.isoformat() for day in series.dates], list(series.values)).before(
        np.datetime64(today, "D")
    )
    if not past.values.size:
        message = "the series has no value before the day of the forecast"
        raise ValueError(message)
    line = time_series.TrendModel(
        window=model.window, unit=model.unit, trust=model.trust, trend_share=model.trend_share
    )
    reference = float(past.values[-1])
    made = []
    for day in days:
        on = np.datetime64(day, "D")
        season = time_series.seasonal_exceedance(past, reference, on).probability
        trend = time_series.trend_exceedance(past, reference, on, line).probability
        mixed = time_series.hybrid_exceedance(past, reference, on, line).probability
        probability = season if model.seasonal else mixed
        made.append(Estimate(probability=probability, season=season, trend=trend, mixed=mixed))
    return made
