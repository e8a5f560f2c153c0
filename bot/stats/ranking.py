"""How well probabilities separate what happens from what does not, without regard to their calibration.

The papers on courts of models report these figures; each ignores something that the Brier score counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bot.core.light_dataclass import dataclass
from bot.stats.arrays import BoolArray, FloatArray, require_same_length, require_unit_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingFigures:
    """Figures of binary forecasts; the two areas are None where all outcomes are alike.

    ``accuracy`` is the share on the outcome's side of one half (one half itself counts half), ``absolute_error`` the
    mean of |p - o|, ``auc`` the area under the receiver operating characteristic, ``precision`` the average precision.
    """

    accuracy: float
    absolute_error: float
    auc: float | None
    precision: float | None


def rank_forecasts(probabilities: ArrayLike, outcomes: ArrayLike) -> RankingFigures:
    """Return the figures of forecasts of shape (n,) in [0, 1] for outcomes that are 0 or 1.

    Raises ValueError for empty or unequal columns, probabilities outside [0, 1] and fractional outcomes.
    Sources: D. Bamber, Journal of Mathematical Psychology 12 (1975), for the area as the chance that a forecast of what
    happened is above one of what did not, ties half; average precision as in M. Zhu, "Recall, precision and average
    precision", University of Waterloo (2004): the sum over thresholds of (gain in recall) x precision.
    """
    p = require_unit_interval(probabilities, "probability")
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(probabilities=p, outcomes=o)
    happened = o == 1.0
    if not (happened | (o == 0.0)).all():
        message = "an outcome is neither 0 nor 1"
        raise ValueError(message)
    has_both = bool(happened.any() and not happened.all())
    return RankingFigures(
        accuracy=float(np.where(p == 0.5, 0.5, (p > 0.5) == happened).mean()),
        absolute_error=float(np.abs(p - o).mean()),
        auc=_receiver_area(p, happened) if has_both else None,
        precision=_average_precision(p, happened) if has_both else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingCurves:
    """The curves under which the two areas lie, one point for each threshold from high to low, shape (points,).

    ``false_alarms`` and ``recall`` are the shares of what did not happen, and of what did, at or above a threshold;
    ``precision`` is the share of the forecasts there that came true.
    """

    false_alarms: FloatArray
    recall: FloatArray
    precision: FloatArray


def trace_ranking_curves(probabilities: ArrayLike, outcomes: ArrayLike) -> RankingCurves:
    """Return the points of both curves for forecasts of shape (n,) and outcomes that are 0 or 1, some of each."""
    p, happened = np.asarray(probabilities, dtype=np.float64), np.asarray(outcomes, dtype=np.float64) == 1.0
    order = np.argsort(-p, kind="stable")
    # Equal forecasts share one threshold: the last of them.
    last = np.append(np.diff(p[order]) != 0.0, True)
    hits, misses = np.cumsum(happened[order])[last], np.cumsum(~happened[order])[last]
    return RankingCurves(false_alarms=misses / misses[-1], recall=hits / hits[-1], precision=hits / (hits + misses))


def _receiver_area(p: FloatArray, happened: BoolArray) -> float:
    from scipy.stats import rankdata

    wins = rankdata(p)[happened].sum() - happened.sum() * (happened.sum() + 1) / 2.0
    return float(wins / (happened.sum() * (~happened).sum()))


def _average_precision(p: FloatArray, happened: BoolArray) -> float:
    curves = trace_ranking_curves(p, happened)
    return float((np.diff(curves.recall, prepend=0.0) * curves.precision).sum())
