"""The built-in workloads as TVM tensor expressions. Runs inside a confined child."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tvm import te, tirx

from tunefarm.builtin.catalogue import BuiltinReference

DATA_TYPE: Final = "float32"
EPSILON: Final = 1e-5

# TVM's Python layer is untyped: a tensor or an expression is Any.
Expression = Callable[..., list[Any]]


def create_builtin(reference: BuiltinReference) -> Any:
    """The TIR function of a built-in workload; its parameters are the inputs, then the output."""
    return te.create_prim_func(EXPRESSIONS[reference.name](*reference.shape))


def _matmul(m: int, n: int, k: int) -> list[Any]:
    a, b = _input("A", m, k), _input("B", k, n)
    return [a, b, _product(a, b, m, n, k)]


def _matmul_bias_relu(m: int, n: int, k: int) -> list[Any]:
    a, b, bias = _input("A", m, k), _input("B", k, n), _input("bias", n)
    product = _product(a, b, m, n, k, name="product")
    output = te.compute((m, n), lambda i, j: _relu(product[i, j] + bias[j]), name="C")
    return [a, b, bias, output]


def _batch_matmul(batch: int, m: int, n: int, k: int) -> list[Any]:
    a, b = _input("A", batch, m, k), _input("B", batch, k, n)
    r = te.reduce_axis((0, k), name="k")
    output = te.compute((batch, m, n), lambda p, i, j: te.sum(a[p, i, r] * b[p, r, j], axis=r), name="C")
    return [a, b, output]


def _dense(m: int, n: int, k: int) -> list[Any]:
    a, weight = _input("A", m, k), _input("W", n, k)
    r = te.reduce_axis((0, k), name="k")
    return [a, weight, te.compute((m, n), lambda i, j: te.sum(a[i, r] * weight[j, r], axis=r), name="C")]


def _softmax(m: int, n: int) -> list[Any]:
    a = _input("A", m, n)
    r, s = te.reduce_axis((0, n), name="r"), te.reduce_axis((0, n), name="s")
    largest = te.compute((m,), lambda i: te.max(a[i, r], axis=r), name="largest")
    powers = te.compute((m, n), lambda i, j: te.exp(a[i, j] - largest[i]), name="powers")
    total = te.compute((m,), lambda i: te.sum(powers[i, s], axis=s), name="total")
    return [a, te.compute((m, n), lambda i, j: powers[i, j] / total[i], name="C")]


def _rms_norm(m: int, n: int) -> list[Any]:
    a, gain = _input("A", m, n), _input("gain", n)
    r = te.reduce_axis((0, n), name="r")
    squares = te.compute((m,), lambda i: te.sum(a[i, r] * a[i, r], axis=r), name="squares")
    mean = tirx.const(1.0 / n, DATA_TYPE)
    scale = te.compute((m,), lambda i: te.rsqrt(squares[i] * mean + tirx.const(EPSILON, DATA_TYPE)), name="scale")
    return [a, gain, te.compute((m, n), lambda i, j: a[i, j] * scale[i] * gain[j], name="C")]


def _conv2d_relu(batch: int, height: int, width: int, channels: int, filters: int) -> list[Any]:
    a, weight = _input("A", batch, height, width, channels), _input("W", 3, 3, channels, filters)
    zero = tirx.const(0.0, DATA_TYPE)

    def pixel(b: Any, y: Any, x: Any, c: Any) -> Any:
        inside = tirx.all(y >= 1, y <= height, x >= 1, x <= width)
        return tirx.if_then_else(inside, a[b, y - 1, x - 1, c], zero)

    padded = te.compute((batch, height + 2, width + 2, channels), pixel, name="padded")
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    c = te.reduce_axis((0, channels), name="c")
    convolved = te.compute(
        (batch, height, width, filters),
        lambda b, y, x, f: te.sum(padded[b, y + dy, x + dx, c] * weight[dy, dx, c, f], axis=[dy, dx, c]),
        name="convolved",
    )
    return [a, weight, te.compute(convolved.shape, lambda *at: _relu(convolved(*at)), name="C")]


def _input(name: str, *shape: int) -> Any:
    return te.placeholder(shape, dtype=DATA_TYPE, name=name)


def _product(a: Any, b: Any, m: int, n: int, k: int, name: str = "C") -> Any:
    r = te.reduce_axis((0, k), name="k")
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name=name)


def _relu(value: Any) -> Any:
    return tirx.max(value, tirx.const(0.0, DATA_TYPE))


EXPRESSIONS: Final[Mapping[str, Expression]] = MappingProxyType(
    {
        "matmul": _matmul,
        "matmul_bias_relu": _matmul_bias_relu,
        "batch_matmul": _batch_matmul,
        "dense": _dense,
        "softmax": _softmax,
        "rms_norm": _rms_norm,
        "conv2d_relu": _conv2d_relu,
    }
)
