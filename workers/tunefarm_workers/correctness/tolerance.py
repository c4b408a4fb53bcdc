"""How far a result may be from the truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import is_floating, rounding_unit

Array = np.ndarray[Any, Any]

_ALLOWANCE = 4.0
"""A candidate may err this many times as much as the untuned function does."""
_FLOOR_UNITS = {"float64": 4096.0, "float32": 64.0}
_FLOOR_UNITS_NARROW = 4.0
_UNKNOWN_ALLOWANCE = 64.0
"""On the floor, where no wider reference tells how much the untuned function itself errs."""
_CREDIBLE_ERROR_ROOT = 0.5
"""A wider reference that disagrees by more than the rounding unit to this power computes something else."""


@dataclass(frozen=True)
class OutputReference:
    """The truth about one output. ``limit`` is the largest error allowed, relative to ``scale`` of each element."""

    values: Array
    scale: Array
    limit: float

    @classmethod
    def of(cls, tensor: TensorArgument, own: Array, double: Array | None) -> "OutputReference":
        """From the untuned function's output, in its own type and, where there is one, in 64-bit floats."""
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
        """The truth about the elements that ``pick`` takes of such an output."""
        scale = pick(self.scale) if self.scale.shape == self.values.shape else self.scale
        return OutputReference(values=pick(self.values), scale=scale, limit=self.limit)

    def worst_element(self, output: Array) -> int:
        """The number, rows first, of the element that is furthest from the truth."""
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(output.astype(np.float64) - self.values.astype(np.float64)) / self.scale
        return int(np.argmax(np.nan_to_num(away, nan=np.inf)))

    def error(self, output: Array) -> float:
        """The largest error of ``output`` in units of the limit; infinite where a number is missing."""
        if self.limit == 0.0:
            return 0.0 if np.array_equal(output, self.values) else float("inf")
        with np.errstate(invalid="ignore", over="ignore"):
            relative = np.abs(output.astype(np.float64) - self.values) / self.scale
        return _largest(relative) / self.limit


def worst_error(references: Sequence[OutputReference], outputs: Sequence[Array]) -> float:
    """The largest error over all outputs, in units of what is allowed; at most one is correct."""
    return max(reference.error(output) for reference, output in zip(references, outputs, strict=True))


def all_finite(outputs: Sequence[Array]) -> bool:
    """Whether the untuned function gave numbers everywhere, so that results can be compared with them."""
    return all(bool(np.isfinite(output.astype(np.float64)).all()) for output in outputs)


def _scale(values: Array) -> Array:
    """The size against which an element's error counts: its own, and the typical one of the tensor."""
    magnitude = np.abs(values)
    typical = float(np.sqrt(np.mean(np.square(magnitude)))) if magnitude.size else 0.0
    return magnitude + max(typical, np.finfo(np.float64).tiny)


def _largest(relative: Array) -> float:
    if relative.size == 0:
        return 0.0
    worst = float(np.max(relative))
    return worst if np.isfinite(worst) else float("inf")
