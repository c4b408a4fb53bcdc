"""Attention of a few rows that reads the keys that its mask shows, up to the last of them.

A decoder has caches for all tokens that may come, and its mask hides those that did not. What is behind the last
visible key adds nothing to any result.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tunefarm_search.relax.attention.matching import HIDDEN, Attention, AttentionMatcher, Mask, matrices_of
from tunefarm_search.relax.attention.operands import OperandFinder, ProductOperand, in_matrices, reshaped
from tunefarm_search.relax.elementary.expressions import exp_without_overflow
from tunefarm_search.relax.expressions import OPAQUE, extents_of, rewritten

_LANES: Final = 16
"""Elements of the widest vector."""
_KEYS: Final = 8
"""Whose scores are computed at once: their sums are kept in a cache."""
_VALUES: Final = 4
"""That are added without a loop."""
_ROWS: Final = 4
"""That are computed at once: their sums of values are kept in registers."""
_MAX_ROWS: Final = {64: 16, 2048: 128}
"""Rows of all heads that share keys, at most, from so many keys on. More are worth a transposition of all keys."""
_HALVES: Final = (8, 4, 2)
"""Lanes to which as many others are added, one after the other."""
_LOWEST: Final = float(np.finfo(np.float32).min)


def with_attention_of_visible_keys(module: Any) -> Any:
    """Compute attention of a few rows at once, where a mask may hide keys."""
    rewriting = _Visible(module)
    return rewritten(module, rewriting, rewriting.changed)


@mutator
class _Visible(PyExprMutator):  # type: ignore[misc]
    _matcher: AttentionMatcher
    """Of the function that is visited."""
    _operands: OperandFinder
    _ends: list[tuple[Any, Any]]
    """Masks, and behind which key all are hidden."""

    def changed(self, function: Any) -> Any:
        """The function with such attention changed."""
        self._matcher, self._operands, self._ends = AttentionMatcher(function), OperandFinder(function), []
        return self.visit_expr(function)

    def visit_call_(self, call: Any) -> Any:
        """Replace the product with the values."""
        found = self._matcher.match(call)
        if found is None or found.scores.mask is None:
            return self.visit_expr_post_order(call)
        queries, keys = found.scores.product.args
        of_keys, of_values = self._operands.source(keys), self._operands.source(found.values)
        if not _is_worth_it(found, of_keys, of_values):
            return self.visit_expr_post_order(call)
        matrices = [in_matrices(self.builder_, self.visit_expr(each.matrices)) for each in (of_keys, of_values)]
        heads, elements = int(matrices[0].ty.shape[0]), int(matrices[0].ty.shape[2])
        rows = reshaped(self.builder_, self.visit_expr(queries), (heads, -1, elements))
        scale = found.scores.scale * of_keys.factor
        if scale != 1:
            rows = self.builder_.emit(relax.op.multiply(rows, relax.const(np.float32(scale))))
        mask, end = self._mask(found.scores.mask)
        attended = self.builder_.call_te(
            partial(
                attention_of_visible_keys,
                copies=of_keys.copies,
                heads_of_group=found.scores.mask.heads_of_group,
                is_guarded=found.is_guarded,
            ),
            *(rows, *matrices, mask, end),
            primfunc_name_hint="rows_attention",
            primfunc_attrs={"op_pattern": OPAQUE},
        )
        if of_values.factor != 1:
            attended = relax.op.multiply(self.builder_.emit(attended), relax.const(np.float32(of_values.factor)))
        return relax.op.reshape(self.builder_.emit(attended), call.ty.shape)

    def _mask(self, mask: Mask) -> tuple[Any, Any]:
        """A mask of shape (groups, rows, keys), and behind which of its keys all are hidden."""
        visited = self.builder_.emit(self.visit_expr(mask.tensor))
        flat = reshaped(self.builder_, visited, (mask.groups, mask.rows, int(visited.ty.shape[-1])))
        known = next((end for tensor, end in self._ends if tensor.same_as(mask.tensor)), None)
        if known is None:
            known = self.builder_.emit_te(end_of_visible, flat, primfunc_name_hint="end_of_visible")
            self._ends.append((mask.tensor, known))
        return flat, known


def _is_worth_it(found: Attention, keys: ProductOperand, values: ProductOperand) -> bool:
    product, shapes = found.scores.product, [extents_of(each.matrices) for each in (keys, values)]
    known, kinds = matrices_of(product), {str(each.ty.dtype) for each in (product, found.values, *product.args)}
    if known is None or kinds != {"float32"} or not keys.is_turned or values.is_turned or keys.copies != values.copies:
        return False
    (of_keys, of_values), (heads, rows, count) = shapes, known
    if of_keys is None or of_values is None or of_keys[:-1] != of_values[:-1]:
        return False
    (*outer, own_count, elements), width = of_keys, of_values[-1]
    has_heads = math.prod(outer) * keys.copies == heads and own_count == count
    has_vectors = all(each % _LANES == 0 for each in (count, elements, width))
    most_rows = max((rows for keys, rows in _MAX_ROWS.items() if count >= keys), default=0)
    return has_heads and has_vectors and keys.copies * rows <= most_rows


def end_of_visible(mask: te.Tensor) -> te.Tensor:
    """One more than the last key that any row sees, of shape (1,); of a mask (groups, rows, keys).

    A row that sees none may be an average of all values: then it is the number of keys.
    """
    groups, rows, count = (int(extent) for extent in mask.shape)
    tile, lane = te.reduce_axis((0, count // _LANES), name="tile"), te.reduce_axis((0, _LANES), name="lane")
    group, row = te.reduce_axis((0, groups), name="group"), te.reduce_axis((0, rows), name="row")

    def last_of_lane(group: Any, row: Any, lane: Any) -> Any:
        key = tile * _LANES + lane
        is_visible = mask[group, row, key] > tirx.const(HIDDEN, mask.dtype)
        return te.max(tirx.Select(is_visible, (key + 1).astype("int32"), tirx.const(0, "int32")), axis=tile)

    of_lanes = te.compute((groups, rows, _LANES), last_of_lane, name="last_of_lanes")
    last = te.compute((groups, rows), lambda group, row: te.max(of_lanes[group, row, lane], axis=lane), name="last")

    def end(_: Any) -> Any:
        own = last[group, row]
        return te.max(tirx.Select(own == 0, tirx.const(count, "int32"), own), axis=[group, row])

    return te.compute((1,), end, name="end")


# For each matrix of keys:
# 1. Scores of some keys at a time: each lane of a vector sums every sixteenth product, and lanes are added in halves.
# 2. The mask, the largest score, powers and their sum.
# 3. Sums of values by powers, for some rows at a time, divided by the sum of the powers.
def attention_of_visible_keys(
    queries: te.Tensor,
    keys: te.Tensor,
    values: te.Tensor,
    mask: te.Tensor,
    end: te.Tensor,
    *,
    copies: int,
    heads_of_group: int,
    is_guarded: bool,
) -> te.Tensor:
    """The softmax of the products of queries and keys plus a mask, times values.

    Args:
        queries: of shape (matrices, rows, elements); a matrix has the rows of one head after those of another one.
        keys: of shape (matrices, keys, elements).
        values: of shape (matrices, keys, elements of a value).
        mask: of shape (groups, rows of a head or 1, keys).
        end: int32 of shape (1,). Keys from there on are left out.
        copies: heads that share a matrix.
        heads_of_group: consecutive heads that share a group of the mask.
        is_guarded: give zeros, and not NaN, in rows where all products are minus infinity.

    Returns:
        A tensor of shape (matrices, rows, elements of a value).
    """
    shape = _Shape(queries, values, mask, copies, heads_of_group)
    together = next(each for each in range(_ROWS, 0, -1) if shape.rows % each == 0)

    def program(given: Sequence[Any], results: Sequence[Any]) -> Any:
        with IRBuilder() as builder:
            queries, keys, values, mask, end = map(T.buffer_proxy, given)
            result, scores = map(T.buffer_proxy, results)
            with T.parallel(0, shape.matrices) as matrix:
                vectors = (end[0] + (_LANES - 1)) // _LANES
                with T.serial(0, vectors * (_LANES // _KEYS)) as part, T.serial(0, shape.rows // together) as group:
                    place = (matrix, group * together, together)
                    _write_scores(shape, (queries, keys, scores), place, part * _KEYS)
                totals = _local(shape.rows)
                with T.serial(0, shape.rows) as row:
                    _write_powers(shape, (mask, scores, totals), (matrix, row), vectors)
                for first in range(0, shape.rows, _ROWS):
                    rows = range(first, min(first + _ROWS, shape.rows))
                    sums = _summed(shape, (scores, values), (matrix, rows), vectors)
                    _write_quotients(shape, (sums, totals, result), (matrix, rows), is_guarded=is_guarded)
            return builder.get()

    results = [(shape.matrices, shape.rows, each) for each in (shape.width, shape.keys)]
    given, kinds = [queries, keys, values, mask, end], [str(queries.dtype)] * 2
    return te.extern(results, given, program, name="rows_attention", dtype=kinds)[0]


class _Shape:
    """Extents of attention."""

    def __init__(self, queries: Any, values: Any, mask: Any, copies: int, heads_of_group: int) -> None:
        self.matrices, self.rows, self.elements = (int(extent) for extent in queries.shape)
        self.keys, self.width = int(values.shape[1]), int(values.shape[2])
        self._copies, self._heads_of_group, self._rows_of_mask = copies, heads_of_group, int(mask.shape[1])

    def place_in_mask(self, matrix: Any, row: Any) -> tuple[Any, Any]:
        """The group and the row of the mask for a row of a matrix."""
        rows_of_head = self.rows // self._copies
        head = matrix * self._copies + row // rows_of_head
        return head // self._heads_of_group, row % rows_of_head if self._rows_of_mask > 1 else 0


def _write_scores(shape: _Shape, buffers: Sequence[Any], place: tuple[Any, Any, int], first_key: Any) -> None:
    """Of some rows: ``place`` is their matrix, the first of them and how many they are."""
    queries, keys, scores = buffers
    matrix, first, count = place
    sums = _zeros(count * _KEYS)
    with T.unroll(0, shape.elements // _LANES) as step, T.unroll(0, _KEYS) as key, T.unroll(0, count) as row:
        at = row * _KEYS + key
        with T.vectorized(0, _LANES) as lane:
            element = step * _LANES + lane
            product = queries[matrix, first + row, element] * keys[matrix, first_key + key, element]
            sums[at, lane] = sums[at, lane] + product
    with T.unroll(0, count) as row, T.unroll(0, _KEYS) as key:
        at = row * _KEYS + key
        for half in _HALVES:
            with T.vectorized(0, half) as lane:
                sums[at, lane] = sums[at, lane] + sums[at, lane + half]
        scores[matrix, first + row, first_key + key] = sums[at, 0] + sums[at, 1]


def _write_powers(shape: _Shape, buffers: Sequence[Any], place: tuple[Any, Any], vectors: Any) -> None:
    mask, scores, totals = buffers
    matrix, row = place
    group, own_row = shape.place_in_mask(matrix, row)
    of_lanes, largest = _local(_LANES), _local(1)
    with T.vectorized(0, _LANES) as lane:
        of_lanes[lane] = T.float32(_LOWEST)
    with T.serial(0, vectors) as part, T.vectorized(0, _LANES) as lane:
        key = part * _LANES + lane
        scores[matrix, row, key] = scores[matrix, row, key] + mask[group, own_row, key]
        of_lanes[lane] = T.max(of_lanes[lane], scores[matrix, row, key])
    largest[0] = of_lanes[0]
    for each in range(1, _LANES):
        largest[0] = T.max(largest[0], of_lanes[each])
    with T.vectorized(0, _LANES) as lane:
        of_lanes[lane] = T.float32(0)
    with T.serial(0, vectors) as part, T.vectorized(0, _LANES) as lane:
        key = part * _LANES + lane
        scores[matrix, row, key] = exp_without_overflow(scores[matrix, row, key] - largest[0])
        of_lanes[lane] = of_lanes[lane] + scores[matrix, row, key]
    totals[row] = of_lanes[0]
    for each in range(1, _LANES):
        totals[row] = totals[row] + of_lanes[each]


def _summed(shape: _Shape, buffers: Sequence[Any], place: tuple[Any, range], vectors: Any) -> Any:
    """Sums of values by as many vectors of powers, as (vectors of all rows, lanes)."""
    scores, values = buffers
    matrix, rows = place
    width = shape.width // _LANES
    sums = _zeros(len(rows) * width)
    with (
        T.serial(0, vectors * (_LANES // _VALUES)) as part,
        T.unroll(0, _VALUES) as step,
        T.unroll(0, len(rows)) as row,
        T.unroll(0, width) as vector,
        T.vectorized(0, _LANES) as lane,
    ):
        key, at = part * _VALUES + step, row * width + vector
        value = values[matrix, key, vector * _LANES + lane]
        sums[at, lane] = sums[at, lane] + scores[matrix, rows.start + row, key] * value
    return sums


def _write_quotients(shape: _Shape, buffers: Sequence[Any], place: tuple[Any, range], *, is_guarded: bool) -> None:
    sums, totals, result = buffers
    matrix, rows = place
    vectors = shape.width // _LANES
    with T.unroll(0, len(rows)) as row, T.unroll(0, vectors) as vector, T.vectorized(0, _LANES) as lane:
        total = totals[rows.start + row]
        quotient = sums[row * vectors + vector, lane] / total
        guarded = T.Select(total == T.float32(0), T.float32(0), quotient) if is_guarded else quotient
        result[matrix, rows.start + row, vector * _LANES + lane] = guarded


def _local(*shape: int) -> Any:
    """A buffer of floats, of a few registers."""
    return T.buffer_proxy(T.decl_buffer(list(shape), "float32", scope="local"))


def _zeros(vectors: int) -> Any:
    """Vectors of zeros."""
    found = _local(vectors, _LANES)
    with T.unroll(0, vectors) as at, T.vectorized(0, _LANES) as lane:
        found[at, lane] = T.float32(0)
    return found
