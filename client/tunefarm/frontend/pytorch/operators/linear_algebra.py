"""Converters of inverses, determinants and factors of small matrices, which TVM's importer lacks."""

from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions import linear_algebra
from tunefarm.frontend.expressions.along_axis import extents

WHOLE: Final = tuple(
    getattr(torch.ops.aten, name).default
    for name in (
        *("inverse", "linalg_inv", "linalg_solve", "linalg_cholesky"),
        *("det", "linalg_det", "slogdet", "linalg_slogdet"),
    )
)
"""What must not be decomposed: its parts check for singular matrices, which kernels cannot."""


def inverse(node: fx.Node, importer: Any) -> Any:
    """The inverse of each matrix."""
    return linear_algebra.inverse(importer.env[node.args[0]], importer.block_builder.emit)


def solve(node: fx.Node, importer: Any) -> Any:
    """``linalg_solve``, with a matrix or a vector on the right."""
    emit = importer.block_builder.emit
    matrices, right = (importer.env[each] for each in node.args[:2])
    if not node.kwargs.get("left", True):
        matrices, right = (linear_algebra.transposed(each, emit) for each in _broadcast(matrices, right, emit))
        return linear_algebra.transposed(linear_algebra.solution(matrices, right, emit), emit)
    is_vector = right.ty.ndim == 1 or extents(right) == extents(matrices)[:-1]
    right = emit(relax.op.expand_dims(right, -1)) if is_vector else right
    matrices, right = _broadcast(matrices, right, emit)
    found = linear_algebra.solution(matrices, right, emit)
    return emit(relax.op.squeeze(found, -1)) if is_vector else found


def solve_triangular(node: fx.Node, importer: Any) -> Any:
    """``linalg_solve_triangular``."""
    emit, options = importer.block_builder.emit, node.kwargs
    matrices, right = _broadcast(importer.env[node.args[0]], importer.env[node.args[1]], emit)
    is_upper, has_ones = bool(options["upper"]), bool(options.get("unitriangular", False))
    is_left = bool(options.get("left", True))
    return linear_algebra.triangular_solution(matrices, right, is_upper, has_ones, emit, is_left=is_left)


def determinant(node: fx.Node, importer: Any) -> Any:
    """``linalg_det``."""
    return linear_algebra.determinant(importer.env[node.args[0]], importer.block_builder.emit)


def sign_and_logarithm(node: fx.Node, importer: Any) -> Any:
    """``linalg_slogdet``: the sign of the determinant, and the logarithm of its size."""
    emit = importer.block_builder.emit
    pivots, sign = linear_algebra.determinant_parts(importer.env[node.args[0]], emit)
    signs = emit(relax.op.prod(emit(relax.op.sign(pivots)), -1))
    logarithm = emit(relax.op.sum(emit(relax.op.log(emit(relax.op.abs(pivots)))), -1))
    return relax.Tuple([emit(relax.op.multiply(sign, signs)), logarithm])


def cholesky(node: fx.Node, importer: Any) -> Any:
    """``linalg_cholesky``, of which torch reads one triangle."""
    emit, matrices = importer.block_builder.emit, importer.env[node.args[0]]
    return linear_algebra.cholesky_factor(matrices, emit, is_upper=bool(node.kwargs.get("upper", False)))


def _broadcast(matrices: Any, right: Any, emit: Any) -> tuple[Any, Any]:
    """Both with the same axes before the last two."""
    batch = list(torch.broadcast_shapes(extents(matrices)[:-2], extents(right)[:-2]))
    pair = []
    for each in (matrices, right):
        shape = [*batch, *extents(each)[-2:]]
        pair.append(each if extents(each) == shape else emit(relax.op.broadcast_to(each, shape)))
    return pair[0], pair[1]
