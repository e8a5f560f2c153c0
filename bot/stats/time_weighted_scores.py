"""Scores over time: a forecast earns its score only while it is in force.

So late, withdrawn and early-closed forecasts cover less. Spot scores look at one moment. Times are seconds on any
common scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bot.stats.arrays import FloatArray, IntArray, require_finite, require_same_length
from bot.stats.scores import DISCRETE_PEER_SCALE, peer_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingForecast:
    """One forecast of one forecaster, in force from ``start_s`` until just before ``end_s``.

    ``mass`` is its probability on the outcome (the mass of the outcome's bucket for a continuous question).
    """

    forecaster: str
    mass: float
    start_s: float
    end_s: float = inf

    def __post_init__(self) -> None:
        """Refuse a mass without a logarithm and an interval that runs backwards."""
        if not 0.0 < self.mass <= 1.0 or not self.start_s <= self.end_s:
            message = f"bad standing forecast: {self}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSpan:
    """When a question counted: from opening to its actual close, out of opening to the scheduled close."""

    opens_s: float
    closes_s: float
    scheduled_s: float

    def __post_init__(self) -> None:
        """Refuse an empty span and a close outside it."""
        if not self.opens_s <= self.closes_s <= self.scheduled_s or self.opens_s == self.scheduled_s:
            message = f"needs opens <= closes <= scheduled, opens < scheduled: {self}"
            raise ValueError(message)


class TimeAverage(NamedTuple):
    """A time-averaged score and the share of the span (0 to 1) during which a forecast was in force."""

    score: float
    coverage: float


def time_average_score(standings: Sequence[StandingForecast], scores: ArrayLike, span: QuestionSpan) -> TimeAverage:
    """Average the scores of one forecaster's successive forecasts over the span; moments without one count 0.

    scores has shape (standings,). Raises ValueError for no standing, unequal lengths or forecasts that overlap.
    """
    values = require_finite(scores, "score")
    starts, ends = _clip_to_span(standings, span)
    require_same_length(scores=values, standings=starts)
    _require_no_overlap(starts, ends)
    shares = (ends - starts) / (span.scheduled_s - span.opens_s)
    return TimeAverage(score=float(shares @ values), coverage=float(shares.sum()))


def time_average_peer_scores(
    standings: Sequence[StandingForecast], span: QuestionSpan, scale: float = DISCRETE_PEER_SCALE
) -> Mapping[str, TimeAverage]:
    """Return every forecaster's time-averaged peer score; at each moment the peers are those with a forecast in force.

    Raises ValueError for no standing or two forecasts of one forecaster that overlap. Runs in O(n log n): with n(t)
    forecasters and the sum L(t) of their log masses, the score of the moment is w * ln p - w * L / n for w = scale * n
    / (n - 1), and both integrals are differences of running sums.
    """
    starts, ends = _clip_to_span(standings, span)
    logs = np.log([standing.mass for standing in standings])
    moments = np.unique(np.concatenate([starts, ends]))
    first, last = np.searchsorted(moments, starts), np.searchsorted(moments, ends)
    count = _running_sum(first, last, np.ones_like(logs), moments.size)
    log_sum = _running_sum(first, last, logs, moments.size)
    weight = np.where(count > 1.5, scale / np.maximum(count - 1.0, 1.0), 0.0)
    lengths = np.diff(moments)
    own = np.concatenate([[0.0], np.cumsum(weight * count * lengths)])
    others = np.concatenate([[0.0], np.cumsum(weight * log_sum * lengths)])
    earned = logs * (own[last] - own[first]) - (others[last] - others[first])
    total = span.scheduled_s - span.opens_s
    rows = _rows_by_forecaster(standings)
    for mine in rows.values():
        _require_no_overlap(starts[mine], ends[mine])
    return {
        name: TimeAverage(
            score=float(earned[mine].sum() / total),
            coverage=float((ends[mine] - starts[mine]).sum() / total),
        )
        for name, mine in rows.items()
    }


def spot_peer_scores(
    standings: Sequence[StandingForecast], spot_s: float, scale: float = DISCRETE_PEER_SCALE
) -> Mapping[str, float]:
    """Return the peer scores of those with a forecast in force at the spot moment; nobody else has a spot score.

    spot_s is the smaller of the spot time and the actual close. Empty when there is none. Raises ValueError when a
    forecaster has two forecasts at that moment.
    """
    there = [standing for standing in standings if standing.start_s <= spot_s < standing.end_s]
    names = [standing.forecaster for standing in there]
    if len(set(names)) != len(names):
        message = f"a forecaster has two forecasts in force at {spot_s}"
        raise ValueError(message)
    if not there:
        return {}
    scores = peer_scores([standing.mass for standing in there], scale)
    return dict(zip(names, scores.tolist(), strict=True))


def spot_score(standings: Sequence[StandingForecast], scores: ArrayLike, spot_s: float) -> float | None:
    """Return which of one forecaster's scores counts at the spot moment; None where no forecast is in force then.

    With baseline scores, shape (standings,), it is the spot baseline score. Raises ValueError for unequal lengths or
    two forecasts at that moment.
    """
    values = require_finite(scores, "score")
    if values.shape != (len(standings),):
        message = f"needs a score for each of {len(standings)} standing forecasts, got shape {values.shape}"
        raise ValueError(message)
    there = [value for value, one in zip(values.tolist(), standings, strict=True) if one.start_s <= spot_s < one.end_s]
    if len(there) > 1:
        message = f"a forecaster has two forecasts in force at {spot_s}"
        raise ValueError(message)
    return there[0] if there else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TournamentScores:
    """All tournament scores of one forecaster on one question.

    The spot ones are None where no forecast was in force then.
    """

    baseline: float
    peer: float
    coverage: float
    spot_baseline: float | None
    spot_peer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringTerms:
    """How a question is scored: its span, its spot moment (never after the close) and the scale of its peer score."""

    span: QuestionSpan
    spot_s: float
    scale: float = DISCRETE_PEER_SCALE


def tournament_scores(
    standings: Sequence[StandingForecast], baselines: ArrayLike, terms: ScoringTerms
) -> Mapping[str, TournamentScores]:
    """Return the scores of every forecaster from all their forecasts and the baseline score of each forecast.

    Raises ValueError for no forecast, unequal lengths, or two forecasts of one forecaster at the same time.
    """
    values = require_finite(baselines, "baseline score")
    require_same_length(baselines=values, standings=np.array([standing.mass for standing in standings]))
    spot_s = min(terms.spot_s, terms.span.closes_s)
    peers = time_average_peer_scores(standings, terms.span, terms.scale)
    spots = spot_peer_scores(standings, spot_s, terms.scale)
    found = {}
    for name, rows in _rows_by_forecaster(standings).items():
        mine = [standings[row] for row in rows]
        baseline = time_average_score(mine, values[rows], terms.span)
        found[name] = TournamentScores(
            baseline=baseline.score,
            peer=peers[name].score,
            coverage=baseline.coverage,
            spot_baseline=spot_score(mine, values[rows], spot_s),
            spot_peer=spots.get(name),
        )
    return found


def _clip_to_span(standings: Sequence[StandingForecast], span: QuestionSpan) -> tuple[FloatArray, FloatArray]:
    # Offsets from the opening: seconds since 1970 would cost seven digits of the differences.
    starts = np.array([standing.start_s for standing in standings]) - span.opens_s
    ends = np.array([standing.end_s for standing in standings]) - span.opens_s
    require_same_length(starts=starts, ends=ends)
    length = span.closes_s - span.opens_s
    return np.clip(starts, 0.0, length), np.clip(ends, 0.0, length)


def _running_sum(first: IntArray, last: IntArray, values: FloatArray, size: int) -> FloatArray:
    change = np.bincount(first, values, size) - np.bincount(last, values, size)
    return np.asarray(np.cumsum(change)[:-1], dtype=np.float64)


def _rows_by_forecaster(standings: Sequence[StandingForecast]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, standing in enumerate(standings):
        rows.setdefault(standing.forecaster, []).append(row)
    return rows


def _require_no_overlap(starts: FloatArray, ends: FloatArray) -> None:
    order = np.lexsort((ends, starts))
    if (starts[order][1:] < ends[order][:-1]).any():
        message = "a forecaster has two forecasts in force at the same time"
        raise ValueError(message)
