"""Factors of matrices and triangular systems, by StableHLO's operators and by the calls of LAPACK that JAX exports."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from tvm import relax

from tunefarm.frontend.expressions import linear_algebra
from tunefarm.frontend.stablehlo.attributes import Unconvertible, dtype_of, shape_of
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.operators.elementwise import Converter

R: Final = relax.op


def _cholesky(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """Of the given triangle; the other one is unspecified."""
    return [_factor(op, operands[0], ir.BoolAttr(op.attributes["lower"]).value, emitter)]


def _potrf(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """The factor, and a number that is not zero where the matrix is not positive definite."""
    factor = _factor(op, operands[0], _letter(op, "uplo") == "L", emitter)
    failed = emitter.emit(R.astype(emitter.emit(R.isnan(factor.compact)), "int32"))
    return [factor, _result(op, 1, emitter.emit(R.max(failed, [-2, -1])))]


def _factor(op: Any, matrices: Operand, is_lower: bool, emitter: Emitter) -> Operand:
    whole = emitter.full(matrices)
    return _result(op, 0, _of_small(linear_algebra.cholesky_factor, whole, emitter.emit, is_upper=not is_lower))


def _triangular_solve(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    is_left, is_lower, has_ones = (
        ir.BoolAttr(op.attributes[name]).value for name in ("left_side", "lower", "unit_diagonal")
    )
    is_transposed = "NO_TRANSPOSE" not in str(op.attributes["transpose_a"])
    return [_solution(op, operands, emitter, is_left, is_lower, is_transposed, has_ones)]


def _trsm(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    side, triangle, transposition, diagonal = (_letter(op, name) for name in ("side", "uplo", "trans_x", "diag"))
    return [_solution(op, operands, emitter, side == "L", triangle == "L", transposition != "N", diagonal == "U")]


def _solution(
    op: Any,
    operands: Sequence[Operand],
    emitter: Emitter,
    is_left: bool,
    is_lower: bool,
    is_transposed: bool,
    has_ones: bool,
) -> Operand:
    emit = emitter.emit
    triangles, right = (emitter.full(each) for each in operands)
    triangles = linear_algebra.transposed(triangles, emit) if is_transposed else triangles
    solve, is_upper = linear_algebra.triangular_solution, is_lower == is_transposed
    return _result(op, 0, _of_small(solve, triangles, right, is_upper, has_ones, emit, is_left=is_left))


def _getrf(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """The factors, the rows that are exchanged as LAPACK counts them, and a number that says that nothing failed."""
    factors, places = _of_small(linear_algebra.triangular_factors, emitter.full(operands[0]), emitter.emit)
    pivots = emitter.emit(R.astype(emitter.emit(R.add(places, relax.const(1, "int64"))), dtype_of(op.results[1])))
    return [_result(op, 0, factors), _result(op, 1, pivots), _result(op, 2, relax.const(0, dtype_of(op.results[2])))]


def _result(op: Any, number: int, expression: Any) -> Operand:
    return Operand(expression, shape_of(op.results[number]), dtype_of(op.results[number]))


def _letter(op: Any, name: str) -> str:
    """An option of LAPACK."""
    for config in ("mhlo.backend_config", "backend_config"):
        if config in op.attributes and isinstance(op.attributes[config], ir.DictAttr) and name in op.attributes[config]:
            return chr(int(op.attributes[config][name].value))
    raise Unconvertible(f"Export it with a version of JAX that states LAPACK's option {name}.")


def _of_small(compute: Callable[..., Any], *arguments: Any, **options: bool) -> Any:
    """Raises Unconvertible if matrices are too large."""
    try:
        return compute(*arguments, **options)
    except ValueError as error:
        raise Unconvertible(f"Compute this step outside of the model, before or after it: {error}.") from error


CONVERTERS: Final[dict[str, Converter]] = {
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
}
LAPACK: Final[dict[str, Converter]] = {
    f"lapack_{letter}{name}_ffi": convert
    for name, convert in (("getrf", _getrf), ("potrf", _potrf), ("trsm", _trsm))
    for letter in "sd"
}
"""By the names of its custom calls, of float32 and float64."""
