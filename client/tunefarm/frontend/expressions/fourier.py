"""Discrete Fourier transforms as products with constant matrices.

A transform of n elements is a product with an n x n matrix. One of a large, composite n is two transforms of its
factors a and b with a multiplication between them (Cooley and Tukey, "An Algorithm for the Machine Calculation of
Complex Fourier Series", 1965): n (a + b) multiplications instead of n n.
"""

import math
from typing import Any, Final

import numpy as np
from tvm import relax

from tunefarm.frontend.expressions.along_axis import extents
from tunefarm.frontend.expressions.complex_numbers import ComplexParts, Emit

_MAX_DIRECT: Final = 64
"""Elements of complex numbers whose transform is one product."""
_MAX_DIRECT_OF_REAL: Final = 400
"""Elements of real numbers whose transform is one product: folding halves it, and no transposition is needed."""
_MAX_PRIME: Final = 1024
"""The largest prime factor of a length, since its matrix is stored."""


def transformed(value: ComplexParts, axis: int, scale: float, emit: Emit, *, is_forward: bool) -> ComplexParts:
    """The transform over an axis, times ``scale``; an imaginary part of None is zero.

    Raises:
        ValueError: the length has a large prime factor.
    """
    shape = extents(value.real)
    axis %= len(shape)
    blocks = _reshaped(value, [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])], emit)
    return _reshaped(_of_blocks(blocks, scale, emit, is_forward=is_forward), shape, emit)


def spectrum(data: Any, axis: int, scale: float, emit: Emit, *, is_half: bool) -> ComplexParts:
    """The transform of real numbers over an axis: all frequencies, or those up to half of the length.

    Raises:
        ValueError: the length has a large prime factor.
    """
    order = _with_last(axis, data.ty.ndim)
    moved = _permuted(data, order, emit)
    extent = _last_extent(moved)
    count = extent // 2 + 1 if is_half else extent
    if _is_direct(extent, _MAX_DIRECT_OF_REAL):
        result = _of_folded(moved, count, scale, emit)
    else:
        whole = transformed(ComplexParts(moved, None), -1, scale, emit, is_forward=True)
        result = ComplexParts(*(_first(each, 0, count, emit) for each in (whole.real, whole.imaginary)))
    return ComplexParts(*(_permuted(each, _inverse(order), emit) for each in (result.real, result.imaginary)))


def from_spectrum(value: ComplexParts, axis: int, extent: int, scale: float, emit: Emit) -> Any:
    """``extent`` real numbers along an axis whose frequencies up to half of the length are given.

    Raises:
        ValueError: the length has a large prime factor.
    """
    order = _with_last(axis, value.real.ty.ndim)
    count = extent // 2 + 1
    real, imaginary = (_first(_permuted(each, order, emit), 0, count, emit) for each in (value.real, value.imaginary))
    twice = np.full((count, 1), 2.0)  # for the conjugates at the other frequencies
    twice[0] = 1.0
    if extent % 2 == 0:
        twice[-1] = 1.0
    if _is_direct(extent, _MAX_DIRECT_OF_REAL):
        cosines, sines = (scale * twice * each for each in _cosines_and_sines(extent, count, extent))
        sums = emit(relax.op.matmul(real, _matrix(cosines, real)))
        result = emit(relax.op.subtract(sums, emit(relax.op.matmul(imaginary, _matrix(sines, real)))))
    else:
        weights = relax.const(twice.reshape(-1).astype(str(real.ty.dtype)))
        rest = [*(0,) * (2 * real.ty.ndim - 1), extent - count]
        weighted = (emit(relax.op.multiply(each, weights)) for each in (real, imaginary))
        padded = [emit(relax.op.nn.pad(each, rest)) for each in weighted]
        result = transformed(ComplexParts(*padded), -1, scale, emit, is_forward=False).real
    return _permuted(result, _inverse(order), emit)


def _of_folded(data: Any, count: int, scale: float, emit: Emit) -> ComplexParts:
    """The first ``count`` frequencies of real numbers, of half as many multiplications.

    Elements t and n - t have the same cosine and opposite sines, so their sum and their difference are multiplied.
    """
    extent = _last_extent(data)
    positions = np.arange(extent // 2 + 1)
    mirrored = emit(relax.op.take(data, relax.const(-positions % extent), axis=-1))
    nearer = _first(data, 0, len(positions), emit)
    cosines, sines = _cosines_and_sines(extent, len(positions), count)
    alone = np.where(positions * 2 % extent == 0, 0.5, 1.0)[:, None]  # added to themselves
    sums, differences = (emit(each(nearer, mirrored)) for each in (relax.op.add, relax.op.subtract))
    return ComplexParts(
        emit(relax.op.matmul(sums, _matrix(scale * alone * cosines, data))),
        emit(relax.op.matmul(differences, _matrix(-scale * sines, data))),
    )


def _of_blocks(value: ComplexParts, scale: float, emit: Emit, *, is_forward: bool) -> ComplexParts:
    """The transform over the second of three axes. The third one needs no transposition, and fills vectors."""
    outer, extent, inner = extents(value.real)
    sign = -1.0 if is_forward else 1.0
    if _is_direct(extent, _MAX_DIRECT):
        cosines, sines = _cosines_and_sines(extent, extent, extent)
        return _multiplied(value, scale * cosines, sign * scale * sines, emit)
    first, second = _factors(extent)
    # Element (second t + u) of the input stands at (t, u), and element (k + first l) of the result at (k, l).
    columns = _reshaped(value, [outer, first, second * inner], emit)
    columns = _of_blocks(columns, scale, emit, is_forward=is_forward)  # (k, u)
    cosines, sines = (each[:, :, None] for each in _cosines_and_sines(extent, first, second))
    columns = _turned(_reshaped(columns, [outer, first, second, inner], emit), cosines, sign * sines, emit)
    rows = _reshaped(columns, [outer * first, second, inner], emit)
    rows = _reshaped(_of_blocks(rows, 1.0, emit, is_forward=is_forward), [outer, first, second, inner], emit)  # (k, l)
    ordered = ComplexParts(*(_permuted(each, [0, 2, 1, 3], emit) for each in (rows.real, rows.imaginary)))
    return _reshaped(ordered, [outer, extent, inner], emit)


def _multiplied(value: ComplexParts, cosines: Any, sines: Any, emit: Emit) -> ComplexParts:
    """Products with the matrix of both, which is symmetric, over the second of three axes."""
    outer, extent, inner = extents(value.real)

    def product(data: Any, upper: Any, lower: Any) -> Any:
        if inner == 1:
            rows = emit(relax.op.reshape(data, [outer, extent]))
            return emit(relax.op.matmul(rows, _matrix(np.concatenate([upper, lower], axis=1), data)))
        return emit(relax.op.matmul(_matrix(np.concatenate([upper, lower], axis=0), data), data))

    both = product(value.real, cosines, sines)
    if value.imaginary is not None:
        both = emit(relax.op.add(both, product(value.imaginary, -sines, cosines)))
    parts = (emit(relax.op.strided_slice(both, [1], [begin], [begin + extent])) for begin in (0, extent))
    return _reshaped(ComplexParts(*parts), [outer, extent, inner], emit)


def _reshaped(value: ComplexParts, shape: list[int], emit: Emit) -> ComplexParts:
    parts = (value.real, value.imaginary)
    return ComplexParts(*(None if each is None else emit(relax.op.reshape(each, shape)) for each in parts))


def _turned(value: ComplexParts, cosines: Any, sines: Any, emit: Emit) -> ComplexParts:
    """The numbers turned by angles."""
    cosines, sines = (_matrix(each, value.real) for each in (cosines, sines))
    real = relax.op.subtract(
        emit(relax.op.multiply(value.real, cosines)), emit(relax.op.multiply(value.imaginary, sines))
    )
    imaginary = relax.op.add(
        emit(relax.op.multiply(value.real, sines)), emit(relax.op.multiply(value.imaginary, cosines))
    )
    return ComplexParts(emit(real), emit(imaginary))


def _cosines_and_sines(extent: int, rows: int, columns: int) -> tuple[Any, Any]:
    """Of 2 pi t k / extent for the first rows t and columns k.

    The product of t and k is reduced as an integer, so that large ones are as accurate as small ones. Multiples of a
    quarter of the circle are exact: else a sum that is 0 would have any sign, and the phase of a negative number too.
    """
    circle = 2.0 * np.pi / extent * np.arange(extent)
    places = np.arange(rows)[:, None] * np.arange(columns) % extent
    exact = np.arange(extent) * 4 % extent == 0
    cosines, sines = (np.where(exact, np.round(each(circle)), each(circle)) + 0.0 for each in (np.cos, np.sin))
    return cosines[places], sines[places]


def _is_direct(extent: int, most: int) -> bool:
    return extent <= most or (extent <= _MAX_PRIME and _factors(extent)[0] == 1)


def _factors(extent: int) -> tuple[int, int]:
    """The two factors that are nearest to each other, the smaller one first.

    Raises:
        ValueError: the length is a large prime.
    """
    smaller = next(each for each in range(math.isqrt(extent), 0, -1) if extent % each == 0)
    if smaller == 1 and extent > _MAX_PRIME:
        raise ValueError(f"the length {extent} of its transform is a prime above {_MAX_PRIME}; pad it")
    return smaller, extent // smaller


def _matrix(values: Any, like: Any) -> Any:
    return relax.const(np.ascontiguousarray(values).astype(str(like.ty.dtype)))


def _first(data: Any, begin: int, end: int, emit: Emit) -> Any:
    """A part of the last axis."""
    if (begin, end) == (0, _last_extent(data)):
        return data
    return emit(relax.op.strided_slice(data, [data.ty.ndim - 1], [begin], [end]))


def _permuted(data: Any, order: list[int], emit: Emit) -> Any:
    return data if order == sorted(order) else emit(relax.op.permute_dims(data, order))


def _with_last(axis: int, rank: int) -> list[int]:
    return [*(each for each in range(rank) if each != axis % rank), axis % rank]


def _inverse(order: list[int]) -> list[int]:
    return [order.index(each) for each in range(len(order))]


def _last_extent(data: Any) -> int:
    return extents(data)[-1]
