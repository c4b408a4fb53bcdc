"""Chooses the bucket of a call, pads its inputs and cuts its outputs. Works on arrays of any library."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import product
from typing import Protocol, TypeVar

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.dynamic_shape import DimensionPlace, DynamicDimension, DynamicShape
from tunefarm_schemas.tuning.model import ModelEntry, ModelManifest

Array = TypeVar("Array")
Shape = tuple[int, ...]
Run = Callable[[str, list[Array]], list[Array]]
"""Runs an entry; gives the tensors of its result, nested tuples flattened."""


class ArrayOperations(Protocol[Array]):
    """What dispatch needs of arrays."""

    def type_of(self, array: Array) -> tuple[str, Shape]:
        """The element type and the shape."""

    def padded(self, array: Array, shape: Shape, value: float | None) -> Array:
        """A larger array of ``shape`` with ``array`` at its beginning. ``value`` is zero if it is None."""

    def narrowed(self, array: Array, axis: int, start: int, end: int) -> Array:
        """A part of ``array``."""

    def joined(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays one after the other."""


class SizeDispatch:
    """Serves calls of a model with dynamic dimensions."""

    def __init__(self, manifest: ModelManifest, dynamic: DynamicShape) -> None:
        """``dynamic`` is that of ``manifest``, which is checked."""
        self._dynamic = dynamic
        self._entries = {each.name: each for each in manifest.entries}
        self._entry_of = {each.sizes: each.entry for each in dynamic.buckets}
        self._free = _free_axes(dynamic, self.largest)

    def entry_of(self, sizes: Shape) -> ModelEntry:
        """The entry of a bucket by its own sizes."""
        return self._entries[self._entry_of[sizes]]

    @property
    def largest(self) -> ModelEntry:
        """The entry of the largest bucket."""
        return self.entry_of(tuple(each.sizes[-1] for each in self._dynamic.dimensions))

    def bucket_of(self, sizes: Shape) -> Shape | None:
        """The sizes of the smallest bucket that holds ``sizes``; None if there is none."""
        found = []
        for size, dimension in zip(sizes, self._dynamic.dimensions, strict=True):
            at = bisect_left(dimension.sizes, size)
            if at == len(dimension.sizes) or (self._dynamic.is_exact and dimension.sizes[at] != size):
                return None
            found.append(dimension.sizes[at])
        return tuple(found)

    def serve(self, arrays: Sequence[Array], operations: ArrayOperations[Array], run: Run[Array]) -> list[Array]:
        """The outputs for inputs of any size that a bucket holds, or that can be split.

        Raises:
            BadInput: inputs have another type or other constant sizes, or sizes that are not served.
        """
        sizes = self.sizes_of([operations.type_of(each) for each in arrays])
        bucket = self.bucket_of(sizes)
        if bucket is None:
            return self._split(arrays, sizes, operations, run)
        return self.in_bucket(arrays, sizes, bucket, operations, run)

    def in_bucket(
        self,
        arrays: Sequence[Array],
        sizes: Shape,
        bucket: Shape,
        operations: ArrayOperations[Array],
        run: Run[Array],
    ) -> list[Array]:
        """The outputs for inputs of ``sizes``, computed in a bucket that holds them."""
        entry = self.entry_of(bucket)
        padded = []
        for expected, array in zip(entry.inputs, arrays, strict=True):
            value = self._dynamic.padding.get(expected.name)
            dtype, shape = operations.type_of(array)
            if shape != expected.shape and self._dynamic.is_exact:
                fix = f"Give {expected.dtype}{list(expected.shape)}."
                raise BadInput("inputs", f"{expected.name} is {dtype}{list(shape)}.", fix)
            padded.append(array if shape == expected.shape else operations.padded(array, expected.shape, value))
        outputs = run(entry.name, padded)
        for size, held, dimension in zip(sizes, bucket, self._dynamic.dimensions, strict=True):
            for place in dimension.outputs if size != held else ():
                end = size * place.factor
                outputs[place.tensor] = operations.narrowed(outputs[place.tensor], place.axis, 0, end)
        return outputs

    def sizes_of(self, types: Sequence[tuple[str, Shape]]) -> Shape:
        """The size of each dimension in inputs of these types and shapes.

        Raises:
            BadInput: as of ``serve``.
        """
        entry = self.largest
        for at, (expected, (dtype, shape)) in enumerate(zip(entry.inputs, types, strict=True)):
            fits = len(shape) == len(expected.shape) and all(
                extent == other or (at, axis) in self._free
                for axis, (extent, other) in enumerate(zip(shape, expected.shape, strict=True))
            )
            if not fits or dtype != expected.dtype:
                problem = f"{expected.name} is {dtype}{list(shape)}."
                raise BadInput("inputs", problem, f"Give {expected.dtype}[{self._shape_text(at, expected.shape)}].")
        return tuple(self._size(each, [shape for _, shape in types]) for each in self._dynamic.dimensions)

    def _size(self, dimension: DynamicDimension, shapes: Sequence[Shape]) -> int:
        found = {(place, shapes[place.tensor][place.axis]) for place in dimension.inputs}
        sizes = {extent for _, extent in found}
        if len(sizes) != 1 or min(sizes) < 1:
            shown = ", ".join(f"{extent} at axis {place.axis} of input {place.tensor}" for place, extent in found)
            fix = "Give inputs of one positive size."
            raise BadInput("inputs", f"the dimension {dimension.name} has several sizes, or none: {shown}.", fix)
        return sizes.pop()

    def _shape_text(self, tensor: int, shape: Shape) -> str:
        named = [(place, each.name) for each in self._dynamic.dimensions for place in each.inputs]
        names = {place.axis: name for place, name in named if place.tensor == tensor}
        return ", ".join(names.get(axis, str(extent)) for axis, extent in enumerate(shape))

    def _split(
        self, arrays: Sequence[Array], sizes: Shape, operations: ArrayOperations[Array], run: Run[Array]
    ) -> list[Array]:
        at = next((n for n, each in enumerate(self._dynamic.dimensions) if sizes[n] > each.sizes[-1]), None)
        dimension = None if at is None else self._dynamic.dimensions[at]
        if dimension is None or self._dynamic.is_exact or not dimension.is_splittable:
            raise self._not_served(sizes)
        largest = dimension.sizes[-1]
        parts = []
        for start in range(0, sizes[at or 0], largest):
            given = list(arrays)
            for place in dimension.inputs:
                end = min(start + largest, sizes[at or 0])
                given[place.tensor] = operations.narrowed(arrays[place.tensor], place.axis, start, end)
            parts.append(self.serve(given, operations, run))
        axes = {place.tensor: place.axis for place in dimension.outputs}
        return [operations.joined(each, axes[tensor]) for tensor, each in enumerate(zip(*parts, strict=True))]

    def _not_served(self, sizes: Shape) -> BadInput:
        named = zip(self._dynamic.dimensions, sizes, strict=True)
        given = ", ".join(f"{each.name} is {size}" for each, size in named)
        if self._dynamic.is_exact:
            served = "; ".join(f"{each.name}: {', '.join(map(str, each.sizes))}" for each in self._dynamic.dimensions)
            return BadInput("inputs", f"{given}, and the model serves exact sizes only.", f"Give one of {served}.")
        served = "; ".join(f"{each.name}: 1 to {each.sizes[-1]}" for each in self._dynamic.dimensions)
        return BadInput("inputs", f"{given}.", f"The model serves {served}. Compile it with a larger bucket.")


def refusal_of_dynamic(manifest: ModelManifest) -> str | None:
    """What is wrong with the dynamic dimensions of a manifest; None if its entries are as it says."""
    dynamic = manifest.dynamic
    if dynamic is None:
        return None
    dimensions = dynamic.dimensions
    if not dimensions or any(list(each.sizes) != sorted(set(each.sizes)) or not each.sizes for each in dimensions):
        return "its dynamic dimensions have no ascending sizes"
    expected = set(product(*(each.sizes for each in dimensions)))
    if {each.sizes for each in dynamic.buckets} != expected or len(dynamic.buckets) != len(expected):
        return "its buckets are not the combinations of its sizes"
    if min(min(each.sizes) for each in dimensions) < 1 or any(not each.inputs for each in dimensions):
        return "a dynamic dimension has a size below 1, or no input"
    entries = {each.name: each for each in manifest.entries}
    if any(bucket.entry not in entries for bucket in dynamic.buckets):
        return "a bucket has no entry"
    found = {bucket.sizes: entries[bucket.entry] for bucket in dynamic.buckets}
    if len({_constant_part(dynamic, entry) for entry in found.values()}) != 1:
        return "the inputs of its buckets differ beyond their sizes"
    return next((text for sizes, entry in found.items() if (text := _refusal_of_entry(dynamic, sizes, entry))), None)


def _refusal_of_entry(dynamic: DynamicShape, sizes: Shape, entry: ModelEntry) -> str | None:
    reference = dynamic.dimensions
    for size, dimension in zip(sizes, reference, strict=True):
        for places, tensors in ((dimension.inputs, entry.inputs), (dimension.outputs, entry.outputs)):
            if not all(_has_place(place, size, [each.shape for each in tensors]) for place in places):
                return f"{entry.name} does not have {dimension.name} where the manifest says"
        if dimension.is_splittable and {each.tensor for each in dimension.outputs} != set(range(len(entry.outputs))):
            return f"{dimension.name} is not a dimension of all outputs"
    unknown = dynamic.padding.keys() - {each.name for each in entry.inputs}
    if unknown or not all(math.isfinite(each) or math.isinf(each) for each in dynamic.padding.values()):
        return "its padding is not of an input"
    return None


def _constant_part(dynamic: DynamicShape, entry: ModelEntry) -> tuple[tuple[str, str, Shape], ...]:
    """Names, types and shapes of the inputs, with zero for dynamic extents."""
    free = _free_axes(dynamic, entry)
    return tuple(
        (each.name, each.dtype, tuple(0 if (at, axis) in free else extent for axis, extent in enumerate(each.shape)))
        for at, each in enumerate(entry.inputs)
    )


def _free_axes(dynamic: DynamicShape, entry: ModelEntry) -> set[tuple[int, int]]:
    """The axes of inputs whose extents may differ between buckets: where sizes are exact, any may follow from them."""
    if dynamic.is_exact:
        return {(at, axis) for at, each in enumerate(entry.inputs) for axis in range(len(each.shape))}
    return {(place.tensor, place.axis) for each in dynamic.dimensions for place in each.inputs}


def _has_place(place: DimensionPlace, size: int, shapes: Sequence[Shape]) -> bool:
    if not (0 <= place.tensor < len(shapes) and place.factor > 0):
        return False
    shape = shapes[place.tensor]
    return 0 <= place.axis < len(shape) and shape[place.axis] == size * place.factor
