"""What importers of several frameworks compute along one axis."""

from collections.abc import Callable
from typing import Any

from tvm import relax


def pieces(value: Any, count: int, axis: int, emit: Callable[[Any], Any]) -> list[Any]:
    """A value cut into ``count`` equal pieces."""
    if count == 1:
        return [value]
    whole = emit(relax.op.split(value, count, axis=axis))
    return [emit(relax.TupleGetItem(whole, each)) for each in range(count)]


def scattered(data: Any, positions: Any, values: Any, axis: int, reduction: str, emit: Callable[[Any], Any]) -> Any:
    """Values combined with elements at positions of one axis, as torch and ONNX have it.

    Positions and values may have fewer elements than the data along each axis, and positions fewer than the values.
    TVM reads them wrongly then, so the rest of the data is cut off before, and put back afterwards.
    """
    sizes, counts, given = (extents(each) for each in (data, positions, values))
    if counts != given:
        axes = list(range(len(counts)))
        values = emit(relax.op.strided_slice(values, axes, [0] * len(axes), counts))
    shorter = [each for each in range(len(counts)) if each != axis % len(counts) and counts[each] < sizes[each]]
    parts, rests = data, []
    for each in shorter:
        rests.append(emit(relax.op.strided_slice(parts, [each], [counts[each]], [sizes[each]])))
        parts = emit(relax.op.strided_slice(parts, [each], [0], [counts[each]]))
    result = emit(relax.op.scatter_elements(parts, positions, values, axis, reduction))
    for each, rest in zip(reversed(shorter), reversed(rests), strict=True):
        result = emit(relax.op.concat([result, rest], each))
    return result


def extents(tensor: Any) -> list[int]:
    """The constant shape of a Relax expression."""
    return [int(extent) for extent in tensor.ty.shape]
