"""How near the outputs of two implementations of a model are."""

from collections.abc import Sequence
from typing import Any

import numpy


def worst_error(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference of any output, relative to the largest absolute value of that output.

    Infinite where numbers, shapes or counts of outputs do not fit.
    """
    if len(found) != len(expected):
        return float("inf")
    return max(_error(numpy.asarray(one), numpy.asarray(other)) for one, other in zip(found, expected, strict=True))


def _error(found: Any, expected: Any) -> float:
    if found.shape != expected.shape or not numpy.isfinite(found).all():
        return float("inf")
    return float(numpy.abs(found - expected).max() / max(float(numpy.abs(expected).max()), 1e-30))
