"""The data that a function moves at least, whatever its schedule.

Each element of an argument counts once, if some value of the loops' variables selects it. Elements that data select, as
a lookup does, do not count: several indices may be the same. Where only a part of an intermediate tensor is used, that
part of what it is computed from counts.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tunefarm_schemas.roofline import Work
from tunefarm_search.tvm.errors import TVM_ERRORS

MAX_POINTS: Final = 1 << 20
"""Values of the variables of an index that are looked at; beyond, all elements count that they may select."""
_WITHOUT_ARITHMETIC: Final = "bool"
_IntArray = npt.NDArray[np.int64]


class _NotUnderstoodError(Exception):
    """An index is not a sum, product, quotient or remainder of loop variables and constants."""


def work_of(module: Any) -> Work | None:
    """The work of the function ``main`` of a module; None if its form is not understood."""
    try:
        with np.errstate(all="ignore"):  # a quotient by 0 selects some element or none
            return _work(module["main"])
    except (*TVM_ERRORS, ArithmeticError):
        return None


def _work(function: Any) -> Work:
    stores, extents = _inside(function.body, tirx.BufferStore), _extents(function.body)
    needed = dict.fromkeys(function.params, 1.0)
    touched: dict[Any, float] = {}
    for store in reversed(stores):
        share = needed.get(store.buffer, 0.0)
        written = _elements(store.buffer, store.indices, extents)
        touched[store.buffer] = max(touched.get(store.buffer, 0.0), written)
        for load in _inside(store, TensorLoad):
            if not load.source.same_as(store.buffer):
                read = share * _elements(load.source, load.indices, extents)
                touched[load.source] = max(touched.get(load.source, 0.0), read)
                needed[load.source] = min(1.0, needed.get(load.source, 0.0) + read / _size(load.source))
    moved_bits = sum(touched.get(each, 0.0) * int(each.dtype.bits) * int(each.dtype.lanes) for each in function.params)
    used = [buffer for store in stores for buffer in (store.buffer, *_read_values(store.value))]
    dtypes = {str(buffer.dtype) for buffer in used} - {_WITHOUT_ARITHMETIC}
    return Work(moved_bytes=int(moved_bits / 8), dtype=dtypes.pop() if len(dtypes) == 1 else "")


def _size(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.shape)


def _read_values(value: Any) -> list[Any]:
    """The buffers whose elements a value is computed from, without those that select elements."""
    found: list[Any] = []

    def look(load: Any) -> Any:
        found.append(load.source)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(value, (TensorLoad, look), order="pre")
    return found


def _extents(body: Any) -> dict[Any, int]:
    """The extents of all variables of loops and blocks, where they are constants and begin at 0."""
    loops, blocks = _inside(body, tirx.For), _inside(body, tvm.s_tir.SBlock)
    ranges = [(loop.loop_var, loop.min, loop.extent) for loop in loops]
    ranges += [(each.var, each.dom.min, each.dom.extent) for block in blocks for each in block.iter_vars]
    return {
        variable: int(extent)
        for variable, begin, extent in ranges
        if isinstance(extent, tirx.IntImm) and isinstance(begin, tirx.IntImm) and int(begin) == 0
    }


def _inside(node: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (kind, found.append), order="post")
    return found


def _elements(buffer: Any, indices: Sequence[Any], extents: dict[Any, int]) -> int:
    """How many elements of a buffer an access certainly selects."""
    shape = [int(extent) for extent in buffer.shape]
    count = 1
    for dimensions in _coupled(indices):
        try:
            count *= _selected([indices[at] for at in dimensions], [shape[at] for at in dimensions], extents)
        except _NotUnderstoodError:
            continue
    return count


def _coupled(indices: Sequence[Any]) -> list[list[int]]:
    """Dimensions whose indices have variables in common, directly or by way of others."""
    groups: list[tuple[set[Any], list[int]]] = []
    for at, index in enumerate(indices):
        variables, dimensions = set(_inside(index, tirx.Var)), [at]
        apart = [group for group in groups if not group[0] & variables]
        for group in groups:
            if group[0] & variables:
                variables, dimensions = variables | group[0], sorted([*dimensions, *group[1]])
        groups = [*apart, (variables, dimensions)]
    return [dimensions for _, dimensions in groups]


def _selected(indices: Sequence[Any], shape: Sequence[int], extents: dict[Any, int]) -> int:
    """How many different elements the indices select within ``shape``."""
    variables = list(dict.fromkeys(variable for index in indices for variable in _inside(index, tirx.Var)))
    if any(variable not in extents for variable in variables):
        raise _NotUnderstoodError
    points = prod(extents[variable] for variable in variables)
    if max(points, prod(shape)) > MAX_POINTS:
        for index in indices:
            _value(index, dict.fromkeys(variables, np.zeros(1, np.int64)))
        return min(points, prod(shape))
    grid = np.indices([extents[variable] for variable in variables], np.int64, sparse=True)
    at = dict(zip(variables, grid, strict=True))
    values = np.broadcast_arrays(*[np.asarray(_value(index, at)) for index in indices])
    inside = np.logical_and.reduce(
        [(value >= 0) & (value < extent) for value, extent in zip(values, shape, strict=True)]
    )
    is_selected = np.zeros(shape, bool)
    is_selected[tuple(value[inside] for value in values)] = True
    return int(np.count_nonzero(is_selected))


def _value(index: Any, at: dict[Any, _IntArray]) -> _IntArray:
    if isinstance(index, tirx.Var):
        return at[index]
    if isinstance(index, tirx.IntImm):
        return np.asarray(int(index), np.int64)
    if isinstance(index, tirx.Cast):
        return _value(index.value, at)
    operation = _OPERATIONS.get(type(index))
    if operation is None:
        raise _NotUnderstoodError
    result: _IntArray = operation(_value(index.a, at), _value(index.b, at))
    return result


_OPERATIONS: Final[dict[type, Any]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
}
