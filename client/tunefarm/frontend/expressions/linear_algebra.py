"""Inverses, determinants and factors of small matrices, in steps that TVM schedules like any other operator.

Golub and Van Loan, Matrix Computations, 4th edition: Gaussian elimination with partial pivoting (3.4), Cholesky (4.2),
substitution (3.1). Each step takes one column of all matrices of a batch. Kernels cannot fail: where a framework raises
an error for a singular matrix, or one that is not positive definite, the result is infinite or not a number.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm.frontend.expressions.along_axis import extents, joined

MAX_ROWS: Final = 32
"""Steps, each of some kernels, that a module has for one matrix."""
_Emit = Callable[[Any], Any]


def solution(matrices: Any, right: Any, emit: _Emit) -> Any:
    """What ``matrices`` times it is ``right``.

    Args:
        matrices: floats of shape (..., n, n).
        right: of shape (..., n, m), with the same axes before the last two.
        emit: binds an expression to a variable.

    Raises:
        ValueError: n is larger than ``MAX_ROWS``.
    """
    shape = extents(right)
    both = _batch(emit(relax.op.concat([matrices, right], -1)), emit)
    rows = shape[-2]
    for step in range(rows):
        pivots, both, _ = _pivoted(both, step, emit)
        scaled = emit(relax.op.divide(pivots, _column(pivots, step, emit)))
        rest = emit(relax.op.subtract(both, emit(relax.op.multiply(_column(both, step, emit), scaled))))
        both = emit(relax.op.where(_is_row(step, rows), scaled, rest))
    return emit(relax.op.reshape(_slice(both, 2, rows, rows + shape[-1], emit), shape))


def inverse(matrices: Any, emit: _Emit) -> Any:
    """The inverse of each matrix of shape (..., n, n); errors as ``solution``."""
    *batch, rows, _ = extents(matrices)
    identity = relax.const(np.eye(rows), str(matrices.ty.dtype))
    return solution(matrices, emit(relax.op.broadcast_to(identity, [*batch, rows, rows])), emit)


def determinant_parts(matrices: Any, emit: _Emit) -> tuple[Any, Any]:
    """The pivots of elimination, of shape (..., n), and the sign of their exchanges, of shape (...).

    The determinant is their product. Errors as ``solution``.
    """
    *batch, rows, _ = extents(matrices)
    rest, kind = _batch(matrices, emit), str(matrices.ty.dtype)
    one = relax.const(1, kind)
    found, signs = [], relax.const(np.ones((1, 1, 1)), kind)
    for step in range(rows):
        pivots, rest, place = _pivoted(rest, step, emit)
        found.append(_column(pivots, step, emit))
        is_in_place = emit(relax.op.equal(place, relax.const(step, "int64")))
        signs = emit(relax.op.multiply(signs, emit(relax.op.where(is_in_place, one, relax.const(-1, kind)))))
        scaled = emit(relax.op.divide(pivots, _divisor(found[-1], emit)))
        rest = emit(relax.op.subtract(rest, emit(relax.op.multiply(_column(rest, step, emit), scaled))))
    return emit(relax.op.reshape(joined(found, 1, emit), [*batch, rows])), emit(relax.op.reshape(signs, batch))


def triangular_factors(matrices: Any, emit: _Emit) -> tuple[Any, Any]:
    """Elimination as LAPACK stores it: the upper triangle, and below it the lower one without its diagonal of ones.

    Args:
        matrices: floats of shape (..., m, n).
        emit: as in ``solution``.

    Returns:
        The triangles, of the same shape, and the row with which each step exchanged its own: int64 of shape
        (..., min(m, n)).

    Raises:
        ValueError: m is larger than ``MAX_ROWS``.
    """
    *batch, rows, columns = extents(matrices)
    rest = _batch(matrices, emit)
    steps = min(rows, columns)
    places = []
    below, right = (np.arange(size).reshape(shape) for size, shape in ((rows, (1, -1, 1)), (columns, (1, 1, -1))))
    for step in range(steps):
        pivots, rest, place = _pivoted(rest, step, emit)
        places.append(place)
        factors = emit(relax.op.divide(_column(rest, step, emit), _divisor(_column(pivots, step, emit), emit)))
        eliminated = emit(relax.op.subtract(rest, emit(relax.op.multiply(factors, pivots))))
        is_factor = relax.const((below > step) & (right == step), "bool")
        is_eliminated = relax.const((below > step) & (right > step), "bool")
        rest = emit(relax.op.where(is_eliminated, eliminated, emit(relax.op.where(is_factor, factors, rest))))
    exchanged = emit(relax.op.reshape(joined(places, 1, emit), [*batch, steps]))
    return emit(relax.op.reshape(rest, [*batch, rows, columns])), exchanged


def determinant(matrices: Any, emit: _Emit) -> Any:
    """The determinant of each matrix of shape (..., n, n); errors as ``solution``."""
    pivots, sign = determinant_parts(matrices, emit)
    return emit(relax.op.multiply(sign, emit(relax.op.prod(pivots, -1))))


def cholesky_factor(matrices: Any, emit: _Emit, *, is_upper: bool = False) -> Any:
    """The lower triangle whose product with its transpose is each symmetric matrix, or its transpose.

    Only the same triangle of the matrices is read. Errors as ``solution``.
    """
    if is_upper:
        return transposed(cholesky_factor(transposed(matrices, emit), emit), emit)
    shape = extents(matrices)
    rest, rows = _batch(matrices, emit), shape[-1]
    zero = relax.const(0, str(matrices.ty.dtype))
    columns = []
    for step in range(rows):
        diagonal = emit(relax.op.sqrt(_slice(_column(rest, step, emit), 1, step, step + 1, emit)))
        scaled = emit(relax.op.divide(_column(rest, step, emit), diagonal))
        column = emit(relax.op.where(_is_row(step, rows, or_below=True), scaled, zero))
        columns.append(column)
        product = emit(relax.op.multiply(column, emit(relax.op.permute_dims(column, [0, 2, 1]))))
        rest = emit(relax.op.subtract(rest, product))
    return emit(relax.op.reshape(joined(columns, 2, emit), shape))


def triangular_solution(
    triangles: Any, right: Any, is_upper: bool, has_ones: bool, emit: _Emit, *, is_left: bool = True
) -> Any:
    """What ``triangles`` times it is ``right``; shapes and errors as ``solution``.

    Args:
        triangles: what is on the other side of the diagonal is not read.
        right: as in ``solution``.
        is_upper: the upper triangle is meant.
        has_ones: ones are meant in place of the diagonal.
        emit: as in ``solution``.
        is_left: if not, it times ``triangles`` is ``right``, of shape (..., m, n).
    """
    if not is_left:
        triangles, right = transposed(triangles, emit), transposed(right, emit)
        return transposed(triangular_solution(triangles, right, not is_upper, has_ones, emit), emit)
    shape = extents(right)
    left, rest, rows = _batch(triangles, emit), _batch(right, emit), shape[-2]
    found: list[Any] = [None] * rows
    for step in reversed(range(rows)) if is_upper else range(rows):
        column = _column(left, step, emit)
        row = _slice(rest, 1, step, step + 1, emit)
        found[step] = row if has_ones else emit(relax.op.divide(row, _slice(column, 1, step, step + 1, emit)))
        rest = emit(relax.op.subtract(rest, emit(relax.op.multiply(column, found[step]))))
    return emit(relax.op.reshape(joined(found, 1, emit), shape))


def transposed(matrices: Any, emit: _Emit) -> Any:
    """Each matrix with its rows as columns."""
    *batch, rows, columns = range(matrices.ty.ndim)
    return emit(relax.op.permute_dims(matrices, [*batch, columns, rows]))


def _pivoted(matrices: Any, step: int, emit: _Emit) -> tuple[Any, Any, Any]:
    """The row with the largest element of a column, ``matrices`` with it at ``step``, and where it was."""
    rows = extents(matrices)[1]
    numbers = relax.const(np.arange(rows).reshape(1, rows, 1), "int64")
    sizes = emit(relax.op.abs(_column(matrices, step, emit)))
    none = relax.const(-1, str(matrices.ty.dtype))
    sizes = emit(relax.op.where(_is_row(step, rows, or_below=True), sizes, none))
    chosen = emit(relax.op.argmax(sizes, 1, keepdims=True))
    is_chosen = emit(relax.op.equal(numbers, chosen))
    zero = relax.const(0, str(matrices.ty.dtype))
    pivots = emit(relax.op.sum(emit(relax.op.where(is_chosen, matrices, zero)), 1, keepdims=True))
    displaced = _slice(matrices, 1, step, step + 1, emit)
    others = emit(relax.op.where(is_chosen, displaced, matrices))
    return pivots, emit(relax.op.where(_is_row(step, rows), pivots, others)), chosen


def _divisor(pivot: Any, emit: _Emit) -> Any:
    """The pivot, or one where it is zero: its column is zero, too."""
    one, zero = (relax.const(each, str(pivot.ty.dtype)) for each in (1, 0))
    return emit(relax.op.where(emit(relax.op.equal(pivot, zero)), one, pivot))


def _is_row(step: int, rows: int, *, or_below: bool = False) -> Any:
    numbers = np.arange(rows).reshape(1, rows, 1)
    return relax.const(numbers >= step if or_below else numbers == step, "bool")


def _column(matrices: Any, number: int, emit: _Emit) -> Any:
    return _slice(matrices, 2, number, number + 1, emit)


def _slice(value: Any, axis: int, begin: int, end: int, emit: _Emit) -> Any:
    return emit(relax.op.strided_slice(value, [axis], [begin], [end]))


def _batch(matrices: Any, emit: _Emit) -> Any:
    """The matrices along one axis."""
    *_, rows, columns = extents(matrices)
    if rows > MAX_ROWS:
        raise ValueError(f"matrices of {rows} rows are larger than {MAX_ROWS}")
    return emit(relax.op.reshape(matrices, [-1, rows, columns]))
