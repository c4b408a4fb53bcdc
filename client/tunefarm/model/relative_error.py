"""How far results of a model are from those that are expected."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm.model.messages import FLOAT32_TOLERANCE

Array = npt.NDArray[Any]

_TOLERANCES: Final = {"float16": 2e-2, "bfloat16": 6e-2, "float32": FLOAT32_TOLERANCE, "float64": 1e-8}
"""Of the largest element of an output. A few layers in bfloat16 differ from exact ones by 1e-2, in any framework."""
_QUANTIZED: Final = 2e-2
"""The same for models that round to 8-bit integers: a value at the limit between two steps may become either."""
_MAX_DIFFERENT: Final = 1e-4
"""Share of elements of other types that may differ: two scores that are nearly equal may be in either order."""
_OF_SLICES: Final = 10
"""Times the tolerance of an output is that of a slice, whose largest element is less certain."""
_MIN_ELEMENTS: Final = 16
"""Of a slice: the largest of fewer elements may be small by chance."""
_CANCELLED: Final = {"float32": 3e-5, "float64": 6e-14}
"""How much elements of any slice may differ, of the largest element of the output: 256 roundings, which are left where
sums cancel. Other types have too few digits for less than their tolerance."""
_LARGE: Final = 0.1
"""Slices of elements of this size, of the largest element of the output, show how much rounding a network adds up."""
_ALIKE: Final = 2
"""Times as much as in these slices, elements of any slice may differ."""
_MASK: Final = 1e3
"""Constants of a mask are larger than this, and so many times as large as what nine of ten elements exceed."""
_MASK_VALUES: Final = 4
"""Such as sums of two masks. More values are numbers of the model."""
_MAX_ROUNDING: Final = 3
"""Times what is allowed, a framework may itself differ from exact results. With more, nothing could be told."""
_AS_EXACT: Final = 1.5
"""Times as much as the framework, other results may differ from exact ones."""
_SMALLEST: Final = 1e-6
"""Outputs with smaller elements are compared as if this were the largest one."""


def relative_error(found: Array, expected: Array, *, is_quantized: bool = False) -> float:
    """The largest difference, relative to what is allowed for the type of ``expected``.

    Floats may differ by a share of the largest element of the output. Constants of a mask are left out of that: beside
    -1e9, any logits would pass. Where an output joins numbers of several sizes, such as boxes in pixels and scores, the
    small ones are compared with numbers of their own size: an element may differ by ten times that share of the largest
    element of each slice that it is in, that is, of the elements with the same index of one axis. Rounding does
    not shrink with the results where sums cancel, so what is usual for it, or for the large elements, is
    allowed in any slice.
    """
    if found.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    kind = str(expected.dtype)
    if kind not in _TOLERANCES:
        return _share_of_different(found, expected, is_quantized=is_quantized) / _MAX_DIFFERENT
    allowed, cancelled = _TOLERANCES[kind], _CANCELLED.get(kind, _TOLERANCES[kind])
    if is_quantized and kind != "float64":
        allowed = cancelled = max(allowed, _QUANTIZED)
    found, expected = (np.atleast_1d(each.astype("float64")) for each in (found, expected))
    finite = np.isfinite(expected)
    if not np.array_equal(np.where(finite, 0, expected), np.where(np.isfinite(found), 0, found), equal_nan=True):
        return float("inf")  # NaN and infinities must be where they are expected
    differences = np.abs(np.subtract(found, expected, out=np.zeros_like(expected), where=finite))
    sizes = np.where(finite, np.abs(expected), 0)
    error = float(differences.max()) / (allowed * max(float(sizes.max()), _SMALLEST))
    counted = finite & (sizes < _least_of_mask(sizes[finite]))
    sizes, differences = np.where(counted, sizes, 0), np.where(counted, differences, 0)
    largest, scales = max(float(sizes.max()), _SMALLEST), _scales_of_slices(sizes, counted)
    usual = float(differences.max(where=scales >= _LARGE * largest, initial=0))
    of_slices = np.maximum(_OF_SLICES * allowed * scales, max(cancelled * largest, _ALIKE * usual))
    return max(error, float((differences / np.minimum(of_slices, allowed * largest)).max()))


def error_beside_exact(found: Array, expected: Array, exact: Array) -> float:
    """The ``relative_error`` from a framework that rounds to halves; ``exact`` is what it computes in float32.

    Where networks add up so much rounding that the framework differs from exact results by more than is allowed, others
    may, too, in other elements.
    """
    error = relative_error(found, expected)
    rounding = relative_error(expected, exact)
    if error <= 1 or not 1 / _AS_EXACT < rounding <= _MAX_ROUNDING:
        return error
    return min(error, relative_error(found, exact) / (_AS_EXACT * rounding))


def _least_of_mask(sizes: Array) -> float:
    """From which magnitude on elements are constants of a mask; infinity if there is none."""
    if sizes.size < _MIN_ELEMENTS:
        return float("inf")
    least = _MASK * max(float(np.quantile(sizes, 0.1)), 1.0)
    large = sizes[sizes >= least]
    is_mask = large.size <= sizes.size - _MIN_ELEMENTS and np.unique(np.log2(large).round(1)).size <= _MASK_VALUES
    return least if is_mask else float("inf")


def _scales_of_slices(sizes: Array, counted: Array) -> Array:
    """For each element, the least of the largest elements of its slices that have enough elements."""
    scales = np.full(sizes.shape, np.inf)
    for axis in range(sizes.ndim):
        others = tuple(each for each in range(sizes.ndim) if each != axis)
        is_enough = counted.sum(axis=others, keepdims=True) >= _MIN_ELEMENTS
        np.minimum(scales, np.where(is_enough, sizes.max(axis=others, keepdims=True), np.inf), out=scales)
    return scales


def _share_of_different(found: Array, expected: Array, *, is_quantized: bool) -> float:
    """The share of integers or truth values that differ; bytes of a quantized model by more than one step."""
    is_byte = is_quantized and expected.dtype in (np.dtype("int8"), np.dtype("uint8"))
    different = np.abs(found.astype("int64") - expected.astype("int64")) > 1 if is_byte else found != expected
    return float(np.mean(different))
