"""Reliability of binary forecasts: do events given p come true in a share p of the cases?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, IntArray, same_length, unit_interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReliabilityBins:
    """Non-empty bins of one reliability diagram, all arrays of shape (bins,).

    ``mean_forecast`` and ``event_rate`` are means over the rows of a bin, ``lower`` and ``upper`` its edges; a forecast
    on an edge belongs to the bin below it.
    """

    lower: FloatArray
    upper: FloatArray
    rows: IntArray
    mean_forecast: FloatArray
    event_rate: FloatArray

    @property
    def expected_calibration_error(self) -> float:
        """Mean absolute gap between forecast and event rate, weighted by rows; 0 is perfect."""
        return float(np.average(np.abs(self.mean_forecast - self.event_rate), weights=self.rows))


def equal_width_bins(probabilities: ArrayLike, outcomes: ArrayLike, count: int = 10) -> ReliabilityBins:
    """Cut [0, 1] into ``count`` bins of one width.

    Both columns have shape (n,) and values in [0, 1]. Raises ValueError for empty or unequal columns, a value outside
    [0, 1] or a count below 1. Source: Guo et al., On Calibration of Modern Neural Networks (2017), equation 3.
    """
    p, o = _columns(probabilities, outcomes)
    return _binned(p, o, np.linspace(0.0, 1.0, _positive(count) + 1))


def equal_mass_bins(probabilities: ArrayLike, outcomes: ArrayLike, count: int = 10) -> ReliabilityBins:
    """Cut at the quantiles of the forecasts, so that bins hold about equally many rows; ties stay together.

    Shapes and errors as in ``equal_width_bins``.
    """
    p, o = _columns(probabilities, outcomes)
    return _binned(p, o, np.percentile(p, np.linspace(0.0, 1.0, _positive(count) + 1) * 100.0))


def _columns(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    p = unit_interval(probabilities, "probability")
    o = unit_interval(outcomes, "outcome")
    same_length(probabilities=p, outcomes=o)
    return p, o


def _positive(count: int) -> int:
    if count < 1:
        message = f"want at least one bin, got {count}"
        raise ValueError(message)
    return count


def _binned(p: FloatArray, o: FloatArray, edges: FloatArray) -> ReliabilityBins:
    size = edges.size - 1
    bins = np.searchsorted(edges[1:-1], p, side="left")
    rows = np.bincount(bins, minlength=size)
    full = rows > 0
    return ReliabilityBins(
        lower=edges[:-1][full],
        upper=edges[1:][full],
        rows=rows[full],
        mean_forecast=np.bincount(bins, weights=p, minlength=size)[full] / rows[full],
        event_rate=np.bincount(bins, weights=o, minlength=size)[full] / rows[full],
    )
