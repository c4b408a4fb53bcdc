"""Attention with many scores as one function that has those of a few rows at a time.

Apart, the scores of a sequence of 1500 are written, read and written by the softmax, and read again: 54 MB for 6 heads.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.attention.matching import Attention, AttentionMatcher, Mask, matrices_of
from tunefarm_search.relax.attention.operands import in_matrices
from tunefarm_search.relax.elementary.expressions import exp_without_overflow
from tunefarm_search.relax.expressions import OPAQUE, extents_of, rewritten
from tunefarm_search.validation.permitted_nodes import ATTENTION

_LANES: Final = 16
"""Keys of a tile: those of a cache line, and of the widest vector."""
_TILES: Final = (4, 3)
"""A row of scores is filled to a multiple of so many tiles, which are computed at once. One or two are not filled."""
_ROWS: Final = range(4, 9)
"""Rows of scores that are computed at once."""
_MAX_MORE_ROWS: Final = 1.1
"""Times as many, where none of these divides their number."""
_MIN_BYTES: Final = 256 << 10
"""Of all scores. Less stays in a cache of one core."""
_MIN_ODD_KEYS: Final = 33
"""So many keys that fill no whole tiles are worth it in any case: vectors do not divide their scores."""


def with_fused_attention(module: Any) -> Any:
    """Compute attention at once where its scores are large and nothing else reads them."""
    fusing = _Fusing(module)
    return rewritten(module, fusing, fusing.fused)


@mutator
class _Fusing(PyExprMutator):  # type: ignore[misc]
    _matcher: AttentionMatcher
    """Of the function that is visited."""

    def fused(self, function: Any) -> Any:
        """The function with its attention fused."""
        self._matcher = AttentionMatcher(function)
        return self.visit_expr(function)

    def visit_call_(self, call: Any) -> Any:
        """Replace the product with the values."""
        found = self._matcher.match(call)
        if found is None or not _is_worth_it(found):
            return self.visit_expr_post_order(call)
        scores = found.scores
        operands = (*scores.product.args, found.values)
        queries, keys, values = (in_matrices(self.builder_, self.visit_expr(each)) for each in operands)
        if scores.scale != 1:
            queries = self.builder_.emit(relax.op.multiply(queries, relax.const(np.float32(scores.scale))))
        rows = int(queries.ty.shape[1])
        more = _divisible(rows)
        if more > rows:
            queries = self.builder_.emit_te(partial(filled_rows, rows=more), queries, primfunc_name_hint="filled_rows")
        tiles = self.builder_.emit_te(keys_in_tiles, keys, primfunc_name_hint="keys_in_tiles")
        masks = [] if scores.mask is None else [self._mask_in_tiles(scores.mask, more)]
        heads_of_group = 1 if scores.mask is None else scores.mask.heads_of_group
        fused = self.builder_.call_te(
            partial(attention, heads_of_group=heads_of_group, is_guarded=found.is_guarded),
            *(queries, tiles, values, *masks),
            primfunc_name_hint="attention",
            primfunc_attrs={"op_pattern": OPAQUE},
        )
        if more > rows:
            fused = relax.op.strided_slice(self.builder_.emit(fused), [1], [0], [rows])
        extents = extents_of(call)
        return fused if extents == matrices_of(call) else relax.op.reshape(self.builder_.emit(fused), extents)

    def _mask_in_tiles(self, mask: Mask, rows: int) -> Any:
        tensor = self.builder_.emit(self.visit_expr(mask.tensor))
        shape = (mask.groups, mask.rows, int(tensor.ty.shape[-1]))
        flat = self.builder_.emit(relax.op.reshape(tensor, shape))
        tiles = partial(mask_in_tiles, rows=rows if mask.rows > 1 else 1)
        return self.builder_.emit_te(tiles, flat, primfunc_name_hint="mask_in_tiles")


def _is_worth_it(found: Attention) -> bool:
    product = found.scores.product
    shapes = [matrices_of(each) for each in (product, found.values, *product.args)]
    known = [shape for shape in shapes if shape is not None]
    # Operands with fewer heads are broadcast.
    kinds = {str(each.ty.dtype) for each in (product, found.values, *product.args)}
    if len(known) < len(shapes) or len({heads for heads, *_ in known}) > 1 or kinds != {"float32"}:
        return False
    (heads, rows, keys), (_, count, width), *_ = known
    has_tiles = width % _LANES == 0 and _divisible(rows) <= _MAX_MORE_ROWS * rows
    is_large = 4 * heads * rows * keys >= _MIN_BYTES or (keys >= _MIN_ODD_KEYS and keys % _LANES > 0)
    return has_tiles and count == keys and is_large


def _divisible(rows: int) -> int:
    """So many rows, or a few more, that can be computed some at a time."""
    return min(-(-rows // each) * each for each in _ROWS)


def filled_rows(queries: te.Tensor, rows: int) -> te.Tensor:
    """Queries of shape (heads, count, elements) as (heads, rows, elements), with zeros behind the last."""
    heads, count, elements = (int(extent) for extent in queries.shape)
    zero = tvm.tirx.const(0, queries.dtype)

    def element(head: Any, row: Any, at: Any) -> Any:
        return tvm.tirx.if_then_else(row < count, queries[head, row, at], zero)

    return te.compute((heads, rows, elements), element, name="filled_rows")


def keys_in_tiles(keys: te.Tensor) -> te.Tensor:
    """Keys of shape (heads, elements, keys) as (heads, tiles, elements, keys of a tile), with zeros behind the last."""
    heads, elements, count = (int(extent) for extent in keys.shape)
    zero = tvm.tirx.const(0, keys.dtype)

    def element(head: Any, tile: Any, at: Any, lane: Any) -> Any:
        key = tile * _LANES + lane
        return tvm.tirx.if_then_else(key < count, keys[head, at, key], zero)

    return te.compute((heads, _tiles_of(count), elements, _LANES), element, name="keys_in_tiles")


def mask_in_tiles(mask: te.Tensor, rows: int) -> te.Tensor:
    """A mask of shape (groups, rows, keys) as (groups, rows, tiles, keys of a tile), filled with minus infinity.

    ``rows`` may be more; those behind the last are as that one.
    """
    groups, own_rows, count = (int(extent) for extent in mask.shape)
    hidden = tvm.tirx.const(-math.inf, mask.dtype)

    def element(group: Any, row: Any, tile: Any, lane: Any) -> Any:
        key = tile * _LANES + lane
        own = row if rows == own_rows else tvm.tirx.min(row, own_rows - 1)
        return tvm.tirx.if_then_else(key < count, mask[group, own, key], hidden)

    return te.compute((groups, rows, _tiles_of(count), _LANES), element, name="mask_in_tiles")


def _tiles_of(keys: int) -> int:
    whole = -(-keys // _LANES)
    return whole if whole < min(_TILES) else min(-(-whole // each) * each for each in _TILES)


def attention(
    queries: te.Tensor,
    keys: te.Tensor,
    values: te.Tensor,
    mask: te.Tensor | None = None,
    *,
    heads_of_group: int = 1,
    is_guarded: bool = False,
) -> te.Tensor:
    """The softmax of the products of queries and keys, times values.

    Args:
        queries: of shape (heads, rows, elements).
        keys: as ``keys_in_tiles`` gives them.
        values: of shape (heads, keys, elements of a value).
        mask: added to the products; as ``mask_in_tiles`` gives it, with one row if it is the same for all.
        heads_of_group: consecutive heads that share a group of the mask.
        is_guarded: give zeros, and not NaN, in rows where all products are minus infinity.

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
        if mask is not None:
            masked_row = row if int(mask.shape[1]) > 1 else 0
            return scores(head, row, tile, lane) + mask(head // heads_of_group, masked_row, tile, lane)
        if int(tiles) * _LANES == int(count):
            return scores(head, row, tile, lane)
        return tvm.tirx.Select(tile * _LANES + lane < count, scores(head, row, tile, lane), lowest)

    largest = _reduced(te.max, score, (heads, rows, tiles), "largest")

    def power(head: Any, row: Any, tile: Any, lane: Any) -> Any:
        return exp_without_overflow(score(head, row, tile, lane) - largest[head, row])

    powers = te.compute(scores.shape, power, name="powers")
    total = _reduced(te.sum, powers, (heads, rows, tiles), "total")
    key = te.reduce_axis((0, count), name="key")

    def weighted(head: Any, row: Any, at: Any) -> Any:
        return te.sum(powers[head, row, key // _LANES, key % _LANES] * values[head, key, at], axis=key)

    sums = te.compute((heads, rows, width), weighted, name="weighted", attrs={ATTENTION: "sums"})

    def quotient(head: Any, row: Any, at: Any) -> Any:
        found, zero = sums[head, row, at] / total[head, row], tvm.tirx.const(0, queries.dtype)
        return tvm.tirx.Select(tvm.tirx.EQ(total[head, row], zero), zero, found) if is_guarded else found

    return te.compute(sums.shape, quotient, name="attention")


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
