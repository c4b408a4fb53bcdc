"""The tolerance for results.

1. The error of the untuned function is the largest difference between its output and that of its float64 form.
2. A candidate may err four times as much, because reordered sums round differently, and at least by a floor per type.
3. Without a float64 form, or if it disagrees by more than rounding explains, the tolerance is a multiple of the floor.
Errors are relative to an element's own size plus the RMS of its tensor, because elements near zero result from
cancellation, which makes their own relative error meaningless. Integers must be equal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, rounding_unit

Array = np.ndarray[Any, Any]

_ALLOWANCE = 4.0
"""Multiple of the untuned function's error."""
_FLOOR_UNITS = {"float64": 4096.0, "float32": 64.0}
_FLOOR_UNITS_NARROW = 4.0
_UNKNOWN_ALLOWANCE = 64.0
"""Multiple of the floor, if the error of the untuned function is unknown."""
_CREDIBLE_ERROR_ROOT = 0.5
"""A float64 form that disagrees by more than the rounding unit to this power computes something else."""


@dataclass(frozen=True)
class OutputReference:
    """The reference for one output. ``limit`` is the largest allowed error relative to ``scale`` of each element."""

    values: Array
    scale: Array
    limit: float

    @classmethod
    def of(cls, tensor: TensorArgument, own: Array, double: Array | None) -> "OutputReference":
        """Derive it from the untuned function's output in its own type and, if there is one, in 64-bit floats."""
        if not is_floating(tensor.dtype):
            return cls(values=own, scale=np.ones(()), limit=0.0)
        unit = rounding_unit(tensor.dtype)
        floor = _FLOOR_UNITS.get(tensor.dtype, _FLOOR_UNITS_NARROW) * unit
        plain = own.astype(np.float64)
        if double is not None:
            scale = _scale(double)
            error = _largest(np.abs(plain - double) / scale)
            if error < unit**_CREDIBLE_ERROR_ROOT:
                return cls(values=double, scale=scale, limit=max(_ALLOWANCE * error, floor))
        return cls(values=plain, scale=_scale(plain), limit=_UNKNOWN_ALLOWANCE * floor)

    def among(self, pick: Callable[[Array], Array]) -> "OutputReference":
        """Return the reference for the elements that ``pick`` selects."""
        scale = pick(self.scale) if self.scale.shape == self.values.shape else self.scale
        return OutputReference(values=pick(self.values), scale=scale, limit=self.limit)

    def worst_element(self, output: Array) -> int:
        """Return the row-major number of the element with the largest error."""
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(output.astype(np.float64) - self.values.astype(np.float64)) / self.scale
        return int(np.argmax(np.nan_to_num(away, nan=np.inf)))

    def error(self, output: Array) -> float:
        """Return the largest error of ``output`` as a multiple of the limit; infinite if a number is not finite."""
        if self.limit == 0.0:
            return 0.0 if np.array_equal(output, self.values) else float("inf")
        with np.errstate(invalid="ignore", over="ignore"):
            relative = np.abs(output.astype(np.float64) - self.values) / self.scale
        return _largest(relative) / self.limit


def worst_error(references: Sequence[OutputReference], outputs: Sequence[Array]) -> float:
    """Return the largest error of all outputs as a multiple of the limit; at most 1 is correct."""
    return max(reference.error(output) for reference, output in zip(references, outputs, strict=True))


def all_finite(outputs: Sequence[Array]) -> bool:
    """Whether all elements are finite."""
    return all(bool(np.isfinite(output.astype(np.float64)).all()) for output in outputs)


def _scale(values: Array) -> Array:
    """Return each element's magnitude plus the RMS of all."""
    magnitude = np.abs(values)
    typical = float(np.sqrt(np.mean(np.square(magnitude)))) if magnitude.size else 0.0
    return magnitude + max(typical, np.finfo(np.float64).tiny)


def _largest(relative: Array) -> float:
    if relative.size == 0:
        return 0.0
    worst = float(np.max(relative))
    return worst if np.isfinite(worst) else float("inf")
