"""Scores over time: a forecast earns its score only while it stands.

The score of a question is the integral of the score of the moment from opening to the *scheduled* close, divided by
that span; forecasting late, withdrawing and an early close therefore lower coverage. Spot scores look at one moment.
Times are seconds on any common scale. Source: venue document of the tournament platform, section 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, IntArray, finite, same_length
from bot.science.log_score import DISCRETE_SCALE, peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One forecast of one forecaster, standing from ``start_s`` until just before ``end_s``.

    ``mass`` is its probability on what happened (the mass of the outcome's bucket for a continuous question).
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
class Span:
    """When a question counted: from opening to its actual close, out of opening to the scheduled close."""

    opens_s: float
    closes_s: float
    scheduled_s: float

    def __post_init__(self) -> None:
        """Refuse an empty span and a close outside it."""
        if not self.opens_s <= self.closes_s <= self.scheduled_s or self.opens_s == self.scheduled_s:
            message = f"want opens <= closes <= scheduled, opens < scheduled: {self}"
            raise ValueError(message)


class Averaged(NamedTuple):
    """A time-averaged score and the share of the span (0 to 1) during which a forecast stood."""

    score: float
    coverage: float


def time_average(standings: Sequence[Standing], scores: ArrayLike, span: Span) -> Averaged:
    """Average the scores of one forecaster's successive forecasts over the span; moments without one count 0.

    scores has shape (standings,). Raises ValueError for no standing, unequal lengths or forecasts that overlap.
    """
    values = finite(scores, "score")
    starts, ends = _clipped(standings, span)
    same_length(scores=values, standings=starts)
    _require_succession(starts, ends)
    shares = (ends - starts) / (span.scheduled_s - span.opens_s)
    return Averaged(score=float(shares @ values), coverage=float(shares.sum()))


def average_peer(standings: Sequence[Standing], span: Span, scale: float = DISCRETE_SCALE) -> Mapping[str, Averaged]:
    """Return every forecaster's time-averaged peer score; at each moment the peers are those who stand then.

    Raises ValueError for no standing or two forecasts of one forecaster that overlap. Runs in O(n log n): with n(t)
    forecasters and the sum L(t) of their log masses, the score of the moment is w * ln p - w * L / n for
    w = scale * n / (n - 1), and both integrals are differences of running sums.
    """
    starts, ends = _clipped(standings, span)
    logs = np.log([standing.mass for standing in standings])
    moments = np.unique(np.concatenate([starts, ends]))
    first, last = np.searchsorted(moments, starts), np.searchsorted(moments, ends)
    count = _running(first, last, np.ones_like(logs), moments.size)
    log_sum = _running(first, last, logs, moments.size)
    weight = np.where(count > 1.5, scale / np.maximum(count - 1.0, 1.0), 0.0)
    lengths = np.diff(moments)
    own = np.concatenate([[0.0], np.cumsum(weight * count * lengths)])
    others = np.concatenate([[0.0], np.cumsum(weight * log_sum * lengths)])
    earned = logs * (own[last] - own[first]) - (others[last] - others[first])
    total = span.scheduled_s - span.opens_s
    rows = _rows_by_forecaster(standings)
    for mine in rows.values():
        _require_succession(starts[mine], ends[mine])
    return {
        name: Averaged(
            score=float(earned[mine].sum() / total),
            coverage=float((ends[mine] - starts[mine]).sum() / total),
        )
        for name, mine in rows.items()
    }


def spot_peer(standings: Sequence[Standing], spot_s: float, scale: float = DISCRETE_SCALE) -> Mapping[str, float]:
    """Return the peer scores of those who stand at the spot moment; nobody else has a spot score.

    spot_s is the smaller of the spot time and the actual close. Empty when nobody stands.
    Raises ValueError when a forecaster has two forecasts at that moment.
    """
    there = [standing for standing in standings if standing.start_s <= spot_s < standing.end_s]
    names = [standing.forecaster for standing in there]
    if len(set(names)) != len(names):
        message = f"a forecaster has two forecasts standing at {spot_s}"
        raise ValueError(message)
    if not there:
        return {}
    scores = peer([standing.mass for standing in there], scale)
    return dict(zip(names, scores.tolist(), strict=True))


def at_spot(standings: Sequence[Standing], scores: ArrayLike, spot_s: float) -> float | None:
    """Return which of one forecaster's scores counts at the spot moment; None where no forecast stands then.

    With baseline scores, shape (standings,), it is the spot baseline score. Raises ValueError for unequal lengths or
    two forecasts at that moment.
    """
    values = finite(scores, "score")
    if values.shape != (len(standings),):
        message = f"want a score for each of {len(standings)} standing forecasts, got shape {values.shape}"
        raise ValueError(message)
    there = [value for value, one in zip(values.tolist(), standings, strict=True) if one.start_s <= spot_s < one.end_s]
    if len(there) > 1:
        message = f"a forecaster has two forecasts standing at {spot_s}"
        raise ValueError(message)
    return there[0] if there else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """All tournament scores of one forecaster on one question; the spot ones are None where nothing stood then."""

    baseline: float
    peer: float
    coverage: float
    spot_baseline: float | None
    spot_peer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a question is scored: its span, its spot moment (never after the close) and the scale of its peer score."""

    span: Span
    spot_s: float
    scale: float = DISCRETE_SCALE


def earned(standings: Sequence[Standing], baselines: ArrayLike, terms: Terms) -> Mapping[str, Earned]:
    """Return the scores of every forecaster from all standing forecasts and the baseline score of each of them.

    Raises ValueError for no standing, unequal lengths, or two forecasts of one forecaster at the same time.
    """
    values = finite(baselines, "baseline score")
    same_length(baselines=values, standings=np.array([standing.mass for standing in standings]))
    spot_s = min(terms.spot_s, terms.span.closes_s)
    peers = average_peer(standings, terms.span, terms.scale)
    spots = spot_peer(standings, spot_s, terms.scale)
    found = {}
    for name, rows in _rows_by_forecaster(standings).items():
        mine = [standings[row] for row in rows]
        baseline = time_average(mine, values[rows], terms.span)
        found[name] = Earned(
            baseline=baseline.score,
            peer=peers[name].score,
            coverage=baseline.coverage,
            spot_baseline=at_spot(mine, values[rows], spot_s),
            spot_peer=spots.get(name),
        )
    return found


def _clipped(standings: Sequence[Standing], span: Span) -> tuple[FloatArray, FloatArray]:
    # Offsets from the opening: seconds since 1970 would cost seven digits of the differences.
    starts = np.array([standing.start_s for standing in standings]) - span.opens_s
    ends = np.array([standing.end_s for standing in standings]) - span.opens_s
    same_length(starts=starts, ends=ends)
    length = span.closes_s - span.opens_s
    return np.clip(starts, 0.0, length), np.clip(ends, 0.0, length)


def _running(first: IntArray, last: IntArray, values: FloatArray, size: int) -> FloatArray:
    change = np.bincount(first, values, size) - np.bincount(last, values, size)
    return np.asarray(np.cumsum(change)[:-1], dtype=np.float64)


def _rows_by_forecaster(standings: Sequence[Standing]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, standing in enumerate(standings):
        rows.setdefault(standing.forecaster, []).append(row)
    return rows


def _require_succession(starts: FloatArray, ends: FloatArray) -> None:
    order = np.lexsort((ends, starts))
    if (starts[order][1:] < ends[order][:-1]).any():
        message = "two forecasts of one forecaster stand at the same time"
        raise ValueError(message)
