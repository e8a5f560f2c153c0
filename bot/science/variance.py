"""How much of the spread of scores is the method, how much the question, and how much chance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, IntArray, encode, finite, same_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One source of variance: its sum of squares, degrees of freedom, share of the total, F and p value."""

    sum_of_squares: float
    degrees: int
    share: float
    f: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """Two-way analysis of variance; ``residual`` is what neither method nor question explains."""

    method: Effect
    question: Effect
    residual: float
    residual_degrees: int


def decompose(methods: Iterable[Hashable], questions: Iterable[Hashable], scores: ArrayLike) -> Decomposition:
    """Split the variance of scores, one row for each (method, question, trial), by marginal sums of squares.

    Exact for a balanced design and close for a nearly balanced one. Raises ValueError for unequal lengths, a single
    method or question, or rows that leave no residual. Source: BLF paper, appendix G.1.
    """
    who, what = encode(methods), encode(questions)
    values = finite(scores, "score")
    same_length(methods=who.codes, questions=what.codes, scores=values)
    degrees = (len(who.labels) - 1, len(what.labels) - 1)
    left = values.size - 1 - sum(degrees)
    if min(degrees) < 1 or left < 1:
        message = f"{values.size} rows of {len(who.labels)} methods and {len(what.labels)} questions leave no residual"
        raise ValueError(message)
    total = float(np.square(values - values.mean()).sum())
    between = (_between(values, who.codes), _between(values, what.codes))
    residual = total - sum(between)
    if residual <= 0.0:
        message = "method and question explain every score: nothing is left to compare with"
        raise ValueError(message)
    effects = [
        _effect(size, own, total=total, residual_mean=residual / left, residual_degrees=left)
        for size, own in zip(between, degrees, strict=True)
    ]
    return Decomposition(method=effects[0], question=effects[1], residual=residual, residual_degrees=left)


def _between(values: FloatArray, codes: IntArray) -> float:
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=values) / counts
    return float(counts @ np.square(means - values.mean()))


def _effect(size: float, degrees: int, *, total: float, residual_mean: float, residual_degrees: int) -> Effect:
    from scipy.special import fdtrc

    f = size / degrees / residual_mean
    return Effect(
        sum_of_squares=size,
        degrees=degrees,
        share=size / total,
        f=f,
        p_value=float(fdtrc(degrees, residual_degrees, f)),
    )
