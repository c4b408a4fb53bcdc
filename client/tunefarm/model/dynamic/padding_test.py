"""Tests that the results of real rows do not depend on the rows that a bucket adds."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tunefarm.frontend.random_inputs import random_array
from tunefarm.model.dynamic.messages import PaddingChecked
from tunefarm.model.loaded_model import CompiledModel
from tunefarm.model.sizes.numpy_arrays import NumpyArray, NumpyOperations, leaves_of
from tunefarm.model.sizes.size_dispatch import Shape, SizeDispatch
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import TensorArgument

_SAME: Final = 1e-2
"""Of what builds with other schedules may differ by: the same kernels run on the same rows."""
_LARGE: Final = 10.0
"""Standard deviation of the padding that is compared with the usual one, so that it shows in maxima and scales."""
_PADDINGS: Final = 3
"""One may change nothing by chance, such as where it loses a maximum."""
_EXACT_ENTRIES: Final = 3
"""Each bucket is compared with the nearest smaller ones, run on exactly their sizes."""

RelativeError = Callable[[NumpyArray, NumpyArray], float]


class _RandomPadding(NumpyOperations):
    """Pads with large random numbers, except where the user stated a value."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def padded(self, array: NumpyArray, shape: Shape, value: float | None) -> NumpyArray:
        """A larger array of ``shape`` with ``array`` at its beginning."""
        if value is not None:
            return super().padded(array, shape, value)
        if array.dtype.kind in "biu":
            larger = np.asarray(self._generator.integers(0, 2, shape)).astype(array.dtype)
        else:
            larger = np.asarray(_LARGE * self._generator.standard_normal(shape)).astype(array.dtype)
        larger[tuple(slice(extent) for extent in array.shape)] = array
        return larger


class PaddingTest:
    """Runs one model in all of its buckets; ``run`` returns what it found."""

    def __init__(self, model: CompiledModel, probe: CompiledModel | None, error: RelativeError) -> None:
        """``probe`` has entries for sizes of which none exceeds those of the smallest bucket.

        ``error`` is the difference of two arrays relative to what is allowed.
        """
        dynamic = model.manifest.dynamic
        if dynamic is None:
            raise BadInput("model", "it has no dynamic dimension.", "Compile it with --bucket.")
        self._model = model
        self._error = error
        self._dynamic = dynamic
        self._dispatch = SizeDispatch(model.manifest, dynamic)
        self._generator = np.random.default_rng(7)
        self._exact = [(each.sizes, model, each.entry) for each in dynamic.buckets]
        if probe is not None:
            self._exact += [(self._sizes_of(each.inputs), probe, each.name) for each in probe.manifest.entries]
        self._worst = 0.0

    def run(self) -> PaddingChecked:
        """Compare each bucket with other padding and with exact sizes; split the largest."""
        problem = next((text for each in self._dynamic.buckets if (text := self._problem_of(each.sizes))), "")
        splittable = tuple(not problem and self._is_splittable(at) for at in range(len(self._dynamic.dimensions)))
        return PaddingChecked(problem=problem, splittable=splittable, worst_error=self._worst)

    def _problem_of(self, bucket: Shape) -> str:
        for sizes in self._real_sizes(bucket):
            inputs = self._inputs(sizes)
            zeros = self._in_bucket(inputs, sizes, bucket, NumpyOperations())
            others = [self._in_bucket(inputs, sizes, bucket, _RandomPadding(self._generator)) for _ in range(_PADDINGS)]
            if not all(self._largest_error(other, zeros) <= _SAME for other in others):
                return f"results for {self._named(sizes)} in the bucket {self._named(bucket)} depend on the padding"
        for sizes, model, entry in self._exact_below(bucket):
            inputs = self._inputs(sizes)
            expected = leaves_of(model(*inputs, entry=entry))
            found = self._in_bucket(inputs, sizes, bucket, NumpyOperations())
            error = self._largest_error(found, expected)
            self._worst = max(self._worst, error)
            if not error <= 1.0:
                named = f"{self._named(sizes)} in the bucket {self._named(bucket)}"
                return f"results for {named} differ from those of the exact size, {error:.3g} times what is allowed"
        return ""

    def _real_sizes(self, bucket: Shape) -> list[Shape]:
        """The smallest sizes that a bucket serves, and some in the middle, which differ between dimensions."""
        lows = []
        for size, dimension in zip(bucket, self._dynamic.dimensions, strict=True):
            at = dimension.sizes.index(size)
            lows.append(dimension.sizes[at - 1] + 1 if at else 1)
        parts = len(lows) + 1
        shares = (range(1, parts), range(parts - 1, 0, -1))
        middle = (
            tuple(low + (size - low) * share // parts for low, size, share in zip(lows, bucket, each, strict=True))
            for each in shares
        )
        return [sizes for sizes in dict.fromkeys((tuple(lows), *middle)) if sizes != bucket]

    def _exact_below(self, bucket: Shape) -> list[tuple[Shape, CompiledModel, str]]:
        below = [
            each
            for each in self._exact
            if each[0] != bucket and all(size <= held for size, held in zip(each[0], bucket, strict=True))
        ]
        near = sorted(below, key=lambda each: -math.prod(each[0]))[:_EXACT_ENTRIES]
        return [*near, *(each for each in below if each[1] is not self._model and each not in near)]

    def _is_splittable(self, at: int) -> bool:
        dimension, whole = self._dynamic.dimensions[at], self._dispatch.largest
        axes = {place.tensor: place.axis for place in dimension.outputs}
        if len(axes) != len(whole.outputs) or len(dimension.outputs) != len(axes) or dimension.sizes[-1] < 2:
            return False
        sizes, operations = self._sizes_of(whole.inputs), NumpyOperations()
        inputs, half = self._inputs(sizes), sizes[at] // 2
        parts = []
        for start, end in ((0, half), (half, sizes[at])):
            given = list(inputs)
            for place in dimension.inputs:
                given[place.tensor] = operations.narrowed(inputs[place.tensor], place.axis, start, end)
            real = (*sizes[:at], end - start, *sizes[at + 1 :])
            parts.append(self._in_bucket(given, real, sizes, operations))
        joined = [operations.joined(each, axes[tensor]) for tensor, each in enumerate(zip(*parts, strict=True))]
        return self._largest_error(joined, self._run(whole.name, inputs)) <= _SAME

    def _in_bucket(
        self, inputs: Sequence[NumpyArray], sizes: Shape, bucket: Shape, operations: NumpyOperations
    ) -> list[NumpyArray]:
        return self._dispatch.in_bucket(inputs, sizes, bucket, operations, self._run)

    def _run(self, entry: str, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
        return leaves_of(self._model(*inputs, entry=entry))

    def _largest_error(self, found: Sequence[NumpyArray], expected: Sequence[NumpyArray]) -> float:
        pairs = zip(found, expected, strict=True)
        return max(self._error(one, other) if one.shape == other.shape else math.inf for one, other in pairs)

    def _inputs(self, sizes: Shape) -> list[NumpyArray]:
        """Inputs of these sizes: those with a stated padding are ones where that is zero, else zeros, as of masks."""
        changed = {
            (place.tensor, place.axis): size
            for size, dimension in zip(sizes, self._dynamic.dimensions, strict=True)
            for place in dimension.inputs
        }
        inputs = []
        for at, each in enumerate(self._dispatch.largest.inputs):
            shape = tuple(changed.get((at, axis), extent) for axis, extent in enumerate(each.shape))
            stated = self._dynamic.padding.get(each.name)
            if stated is None:
                inputs.append(random_array(self._generator, each.model_copy(update={"shape": shape})))
            else:
                inputs.append(np.full(shape, 0 if stated else 1, dtype=np.dtype(each.dtype)))
        return inputs

    def _sizes_of(self, inputs: Sequence[TensorArgument]) -> Shape:
        """The sizes of the dimensions in inputs of an entry."""
        return tuple(
            inputs[each.inputs[0].tensor].shape[each.inputs[0].axis] // each.inputs[0].factor
            for each in self._dynamic.dimensions
        )

    def _named(self, sizes: Shape) -> str:
        named = zip(self._dynamic.dimensions, sizes, strict=True)
        return ", ".join(f"{each.name}={size}" for each, size in named)
