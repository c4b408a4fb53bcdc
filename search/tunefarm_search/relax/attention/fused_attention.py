"""Attention whose scores do not fit into a cache, as one function that has those of a few rows at a time.

Apart, the scores of a sequence of 1500 are written, read and written by the softmax, and read again: 54 MB for 6 heads.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.attention.padded_softmax import SOFTMAX
from tunefarm_search.relax.expressions import OPAQUE, extents_of, operator_of
from tunefarm_search.relax.products.packed_columns import MATMUL
from tunefarm_search.validation.permitted_nodes import ATTENTION

_RESHAPE: Final = "relax.reshape"
_LANES: Final = 16
"""Keys of a tile: those of a cache line, and of the widest vector."""
_TILES: Final = 4
"""A row of scores is filled to a multiple of so many tiles, which are computed at once."""
_AXES: Final = 3
"""Heads, rows, and keys or elements."""
_ROWS: Final = range(4, 9)
"""Rows of scores that are computed at once, one of which must divide their number."""
_MIN_BYTES: Final = 4 << 20
"""Of all scores. What is smaller stays in a cache."""


def with_fused_attention(module: Any) -> Any:
    """Compute ``softmax(queries @ keys) @ values`` at once where its scores are large and nothing else reads them."""
    fusing = _Fusing(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            fusing.builder_.update_func(variable, fusing.fused(function))
    return fusing.builder_.get()


@mutator
class _Fusing(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._values: dict[Any, Any] = {}
        self._reads: Counter[Any] = Counter()

    def fused(self, function: Any) -> Any:
        """The function with its attention fused."""
        self._values = dict(relax.analysis.get_var2val(function).items())
        self._reads = Counter(relax.analysis.free_vars(function.body.body))
        for value in self._values.values():
            self._reads.update(relax.analysis.free_vars(value))
        return self.visit_expr(function)

    def visit_call_(self, call: Any) -> Any:
        """Replace the product with the values."""
        scores = self._scores(call)
        if scores is None:
            return self.visit_expr_post_order(call)
        queries, keys, values = (self.visit_expr(each) for each in (*scores.args, call.args[1]))
        tiles = self.builder_.emit_te(keys_in_tiles, keys, primfunc_name_hint="keys_in_tiles")
        apart = {"op_pattern": OPAQUE}
        return self.builder_.call_te(
            attention, queries, tiles, values, primfunc_name_hint="attention", primfunc_attrs=apart
        )

    def _scores(self, call: Any) -> Any:
        """The product of queries and keys, if ``call`` is the product of its softmax with values and worth it."""
        softmax = self._read_once(call.args[0]) if operator_of(call) == MATMUL else None
        if softmax is None or operator_of(softmax) != SOFTMAX:
            return None
        scores = self._read_once(softmax.args[0])
        if scores is None or operator_of(scores) != MATMUL or str(scores.ty.dtype) != "float32":
            return None
        of_rows = int(softmax.attrs.axis) in (-1, len(softmax.ty.shape) - 1)
        found = [extents_of(each) for each in (scores, call.args[0], call.args[1], *scores.args)]
        shapes = [shape for shape in found if shape is not None and len(shape) == _AXES]
        # Operands with fewer heads are broadcast.
        if not of_rows or len(shapes) < len(found) or len({heads for heads, *_ in shapes}) > 1:
            return None
        (heads, rows, keys), probabilities, (*_, width), *_ = shapes
        is_large = 4 * heads * rows * keys >= _MIN_BYTES
        has_tiles = width % _LANES == 0 and any(rows % each == 0 for each in _ROWS)
        return scores if is_large and has_tiles and probabilities == (heads, rows, keys) else None

    def _read_once(self, expression: Any) -> Any:
        """What a variable that is read once stands for, through reshapes that keep the last axis; None for others."""
        while isinstance(expression, relax.Var) and self._reads[expression] == 1 and expression in self._values:
            value = self._values[expression]
            if operator_of(value) != _RESHAPE:
                return value
            whole, viewed = extents_of(value), extents_of(value.args[0])
            if whole is None or viewed is None or whole[-1:] != viewed[-1:]:
                return None
            expression = value.args[0]
        return None


def keys_in_tiles(keys: te.Tensor) -> te.Tensor:
    """Keys of shape (heads, elements, keys) as (heads, tiles, elements, keys of a tile), with zeros behind the last."""
    heads, elements, count = (int(extent) for extent in keys.shape)
    multiple = _LANES * _TILES
    tiles = -(-count // multiple) * _TILES
    zero = tvm.tirx.const(0, keys.dtype)

    def element(head: Any, tile: Any, at: Any, lane: Any) -> Any:
        key = tile * _LANES + lane
        return tvm.tirx.if_then_else(key < count, keys[head, at, key], zero)

    return te.compute((heads, tiles, elements, _LANES), element, name="keys_in_tiles")


def attention(queries: te.Tensor, keys: te.Tensor, values: te.Tensor) -> te.Tensor:
    """The softmax of the products of queries and keys, times values.

    Args:
        queries: of shape (heads, rows, elements).
        keys: as ``keys_in_tiles`` gives them.
        values: of shape (heads, keys, elements of a value).

    Returns:
        A tensor of shape (heads, rows, elements of a value).
    """
    (heads, rows, elements), (_, count, width) = queries.shape, values.shape
    tiles, lowest = keys.shape[1], te.min_value(queries.dtype)
    inner = te.reduce_axis((0, elements), name="k")

    def products(head: Any, row: Any, tile: Any, lane: Any) -> Any:
        return te.sum(queries[head, row, inner] * keys[head, tile, inner, lane], axis=inner)

    scores = te.compute((heads, rows, tiles, _LANES), products, name="scores", attrs={ATTENTION: "scores"})

    def score(head: Any, row: Any, tile: Any, lane: Any) -> Any:
        if int(tiles) * _LANES == int(count):
            return scores(head, row, tile, lane)
        return tvm.tirx.Select(tile * _LANES + lane < count, scores(head, row, tile, lane), lowest)

    largest = _reduced(te.max, score, (heads, rows, tiles), "largest")

    def power(head: Any, row: Any, tile: Any, lane: Any) -> Any:
        return te.exp(score(head, row, tile, lane) - largest[head, row])

    powers = te.compute(scores.shape, power, name="powers")
    total = _reduced(te.sum, powers, (heads, rows, tiles), "total")
    key = te.reduce_axis((0, count), name="key")

    def weighted(head: Any, row: Any, at: Any) -> Any:
        return te.sum(powers[head, row, key // _LANES, key % _LANES] * values[head, key, at], axis=key)

    sums = te.compute((heads, rows, width), weighted, name="weighted", attrs={ATTENTION: "sums"})
    return te.compute(sums.shape, lambda head, row, at: sums[head, row, at] / total[head, row], name="attention")


def _reduced(reduce: Callable[..., Any], tensor: Callable[..., Any], shape: Sequence[Any], name: str) -> te.Tensor:
    """Rows reduced to one number each, by way of as many as a tile has."""
    heads, rows, tiles = shape
    tile, lane = te.reduce_axis((0, tiles), name="tile"), te.reduce_axis((0, _LANES), name="lane")
    lanes = te.compute(
        (heads, rows, _LANES),
        lambda head, row, lane: reduce(tensor(head, row, tile, lane), axis=tile),
        name=f"{name}_of_lanes",
    )
    return te.compute((heads, rows), lambda head, row: reduce(lanes[head, row, lane], axis=lane), name=name)
