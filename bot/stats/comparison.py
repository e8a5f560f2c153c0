"""Comparing forecasters.

Brier scores adjusted for the difficulty of the questions each one answered, and how much of the spread of scores is
method, question or chance. Sources: docs/facts/scoring.md#difficulty; BLF paper, appendix G.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from bot.core.light_dataclass import dataclass
from bot.stats.arrays import BoolArray, FloatArray, IntArray, encode_keys, require_finite, require_same_length
from bot.stats.scores import index_from_brier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrierTable:
    """Brier scores in long form, one row for each (forecaster, question) pair that was answered.

    ``forecaster`` and ``question`` have shape (n,) and index into the two label tuples.
    """

    forecaster: IntArray
    question: IntArray
    brier: FloatArray
    forecasters: tuple[Hashable, ...]
    questions: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedScore:
    """Scores of one forecaster; ``rows`` counts the answers whose question has a known difficulty.

    ``raw_brier`` and ``adjusted_brier`` are means over those rows, ``index`` is the adjusted Brier Index in percent.
    """

    forecaster: Hashable
    rows: int
    raw_brier: float
    adjusted_brier: float
    index: float


def build_brier_table(forecasters: Iterable[Hashable], questions: Iterable[Hashable], brier: ArrayLike) -> BrierTable:
    """Number the keys of three columns of equal length.

    A question key is whatever makes a scored event unique, such as (date, source, id, horizon). Raises ValueError for
    unequal lengths, a score that is not finite, or a forecaster who answers one question twice.
    """
    who, what = encode_keys(forecasters), encode_keys(questions)
    scores = require_finite(brier, "Brier score")
    require_same_length(forecasters=who.codes, questions=what.codes, brier=scores)
    pairs = who.codes * len(what.labels) + what.codes
    if np.unique(pairs).size != pairs.size:
        message = "a forecaster has two scores for one question"
        raise ValueError(message)
    return BrierTable(
        forecaster=who.codes, question=what.codes, brier=scores, forecasters=who.labels, questions=what.labels
    )


def fit_difficulty(table: BrierTable, included: Collection[Hashable]) -> FloatArray:
    """Estimate question effects by least squares on the rows of the included forecasters.

    The result has shape (questions,), is NaN where no included forecaster answered, and is fixed up to one constant
    (the forecaster effects sum to zero), which ``adjust_scores`` removes. Raises ValueError when nobody is included or
    when the included forecasters fall into groups without a common question: then their effects cannot be told apart.
    """
    chosen = np.array([name in included for name in table.forecasters], dtype=np.bool_)
    rows = chosen[table.forecaster]
    if not rows.any():
        message = "no included forecaster has a score"
        raise ValueError(message)
    effects = _forecaster_effects(table, rows)
    size = len(table.questions)
    count = np.bincount(table.question[rows], minlength=size).astype(np.float64)
    rest = table.brier[rows] - effects[table.forecaster[rows]]
    total = np.bincount(table.question[rows], weights=rest, minlength=size)
    effect = np.full(size, np.nan)
    np.divide(total, count, out=effect, where=count > 0)
    return effect


def adjust_scores(table: BrierTable, difficulty: FloatArray, half_brier: ArrayLike = 0.25) -> tuple[AdjustedScore, ...]:
    """Score every forecaster of the table after subtracting the question effects, in the order of its labels.

    difficulty has shape (questions,); rows of a question whose difficulty is NaN are ignored. half_brier is the score
    of the forecast one half on each question, a number or shape (questions,): 0.25 unless outcomes are fractional.
    Raises ValueError for a wrong shape or a forecaster without any usable row.
    """
    if difficulty.shape != (len(table.questions),):
        message = f"difficulty has shape {difficulty.shape}, the table has {len(table.questions)} questions"
        raise ValueError(message)
    constant = 0.25 - float(np.nanmean(np.asarray(half_brier, dtype=np.float64) - difficulty))
    known = np.isfinite(difficulty)[table.question]
    who, scores = table.forecaster[known], table.brier[known]
    rows = np.bincount(who, minlength=len(table.forecasters))
    if not rows.all():
        message = f"no question of known difficulty was answered by {table.forecasters[int(rows.argmin())]!r}"
        raise ValueError(message)
    raw = np.bincount(who, weights=scores) / rows
    adjusted = np.bincount(who, weights=scores - difficulty[table.question[known]]) / rows + constant
    index = index_from_brier(adjusted)
    return tuple(
        AdjustedScore(
            forecaster=name,
            rows=int(rows[i]),
            raw_brier=float(raw[i]),
            adjusted_brier=float(adjusted[i]),
            index=float(index[i]),
        )
        for i, name in enumerate(table.forecasters)
    )


def _forecaster_effects(table: BrierTable, rows: BoolArray) -> FloatArray:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    who, what, scores = table.forecaster[rows], table.question[rows], table.brier[rows]
    shape = (len(table.forecasters), len(table.questions))
    answered = csr_array((np.ones(who.size), (who, what)), shape=shape)
    per_question = np.maximum(answered.sum(axis=0), 1.0)
    shares = answered / per_question
    shared = (shares @ answered.T).toarray()
    present = np.unique(who)
    groups, _ = connected_components(csr_array(shared[np.ix_(present, present)]), directed=False)
    if groups != 1:
        message = f"the included forecasters form {groups} groups without a common question"
        raise ValueError(message)
    question_sums = np.bincount(what, weights=scores, minlength=shape[1])
    target = np.bincount(who, weights=scores, minlength=shape[0]) - shares @ question_sums
    # Schur complement of the normal equations; its null space is one constant, and lstsq takes the shortest solution.
    gram = np.diag(answered.sum(axis=1)) - shared
    return np.asarray(np.linalg.lstsq(gram, target)[0], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceEffect:
    """One source of variance: its sum of squares, degrees of freedom, share of the total, F and p value."""

    sum_of_squares: float
    degrees: int
    share: float
    f: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceDecomposition:
    """Two-way analysis of variance; ``residual`` is what neither method nor question explains."""

    method: VarianceEffect
    question: VarianceEffect
    residual: float
    residual_degrees: int


def decompose_variance(
    methods: Iterable[Hashable], questions: Iterable[Hashable], scores: ArrayLike
) -> VarianceDecomposition:
    """Split the variance of scores, one row for each (method, question, trial), by marginal sums of squares.

    Exact for a balanced design and close for a nearly balanced one. Raises ValueError for unequal lengths, a single
    method or question, or rows that leave no residual. Source: BLF paper, appendix G.1.
    """
    who, what = encode_keys(methods), encode_keys(questions)
    values = require_finite(scores, "score")
    require_same_length(methods=who.codes, questions=what.codes, scores=values)
    degrees = (len(who.labels) - 1, len(what.labels) - 1)
    left = values.size - 1 - sum(degrees)
    if min(degrees) < 1 or left < 1:
        message = f"{values.size} rows of {len(who.labels)} methods and {len(what.labels)} questions leave no residual"
        raise ValueError(message)
    total = float(np.square(values - values.mean()).sum())
    between = (_between_sum_of_squares(values, who.codes), _between_sum_of_squares(values, what.codes))
    residual = total - sum(between)
    if residual <= 0.0:
        message = "method and question explain every score: nothing is left to compare with"
        raise ValueError(message)
    effects = [
        _variance_effect(size, own, total=total, residual_mean=residual / left, residual_degrees=left)
        for size, own in zip(between, degrees, strict=True)
    ]
    return VarianceDecomposition(method=effects[0], question=effects[1], residual=residual, residual_degrees=left)


def _between_sum_of_squares(values: FloatArray, codes: IntArray) -> float:
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=values) / counts
    return float(counts @ np.square(means - values.mean()))


def _variance_effect(
    size: float, degrees: int, *, total: float, residual_mean: float, residual_degrees: int
) -> VarianceEffect:
    from scipy.special import fdtrc

    f = size / degrees / residual_mean
    return VarianceEffect(
        sum_of_squares=size,
        degrees=degrees,
        share=size / total,
        f=f,
        p_value=float(fdtrc(degrees, residual_degrees, f)),
    )
