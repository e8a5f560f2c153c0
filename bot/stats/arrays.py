"""Array types, the checks of arguments that all functions on arrays share, and the logit scale.

A NaN in a mean is found weeks later, so values are checked once, at the entry.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bot.core.distributions import LOGIT_EPSILON

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
DateArray = NDArray[np.datetime64]


class EncodedKeys(NamedTuple):
    """Keys replaced by integers: ``labels[codes[i]]`` is the key of row i; labels are in order of appearance."""

    codes: IntArray
    labels: tuple[Hashable, ...]


def require_finite(values: ArrayLike, name: str) -> FloatArray:
    """Return values as float64, any shape. Raises ValueError naming ``name`` for a NaN or an infinity."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        message = f"{name} holds a value that is not finite"
        raise ValueError(message)
    return array


def require_unit_interval(values: ArrayLike, name: str) -> FloatArray:
    """Return values as float64, any shape. Raises ValueError naming ``name`` for anything outside [0, 1]."""
    array = require_finite(values, name)
    if array.size and (array.min() < 0.0 or array.max() > 1.0):
        message = f"{name} runs from {array.min()} to {array.max()}, outside [0, 1]"
        raise ValueError(message)
    return array


def require_same_length(**columns: FloatArray | IntArray) -> None:
    """Raise ValueError unless all columns are vectors of one shared length above zero."""
    shapes = {name: column.shape for name, column in columns.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 or not shape[0] for shape in shapes.values()):
        message = f"needs vectors of one length above zero, got shapes {shapes}"
        raise ValueError(message)


def encode_keys(keys: Iterable[Hashable]) -> EncodedKeys:
    """Number the distinct keys 0, 1, 2, ... in order of appearance."""
    index: dict[Hashable, int] = {}
    codes = np.fromiter((index.setdefault(key, len(index)) for key in keys), dtype=np.int64)
    return EncodedKeys(codes=codes, labels=tuple(index))


def logit(probabilities: ArrayLike, eps: float = LOGIT_EPSILON) -> FloatArray:
    """Return log(p / (1 - p)) after clipping p to [eps, 1 - eps]; any shape.

    Raises ValueError for a value outside [0, 1]. Source of the default eps: conformance vectors, ``eps_logit``.
    """
    clipped = np.clip(require_unit_interval(probabilities, "probability"), eps, 1.0 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped), dtype=np.float64)


def sigmoid(log_odds: ArrayLike) -> FloatArray:
    """Return 1 / (1 + exp(-x)) without overflow, any shape."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(log_odds, dtype=np.float64))), dtype=np.float64)
