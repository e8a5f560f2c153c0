"""How well probabilities separate what happens from what does not, without regard to their calibration.

The papers on courts of models report these figures; each ignores something that the Brier score counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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


def _receiver_area(p: FloatArray, happened: BoolArray) -> float:
    from scipy.stats import rankdata

    wins = rankdata(p)[happened].sum() - happened.sum() * (happened.sum() + 1) / 2.0
    return float(wins / (happened.sum() * (~happened).sum()))


def _average_precision(p: FloatArray, happened: BoolArray) -> float:
    order = np.argsort(-p, kind="stable")
    hits = np.cumsum(happened[order])
    # Equal forecasts share one threshold: the last of them.
    last = np.append(np.diff(p[order]) != 0.0, True)
    hits, taken = hits[last], np.flatnonzero(last) + 1
    return float((np.diff(hits, prepend=0) / hits[-1] * hits / taken).sum())
