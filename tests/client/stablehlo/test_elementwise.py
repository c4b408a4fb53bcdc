"""Elementwise operators give what JAX gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_equals_jax, imported

pytestmark = pytest.mark.models
Function = Callable[..., Any]

X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 33)) * 2, jnp.float32)
N = jnp.asarray(np.random.default_rng(1).integers(-9, 10, (4, 8)), jnp.int32)
DIVISOR = jnp.where(N[::-1] == 0, 3, N[::-1])


def together(*functions: Function) -> Function:
    return lambda *values: [function(*values) for function in functions]


@pytest.mark.parametrize(
    "functions",
    [
        (jnp.exp, jnp.tanh, jnp.sin, jnp.cos, jnp.tan, jnp.sinh, jnp.cosh, jnp.arctan, jnp.arcsinh, jnp.cbrt, jnp.exp2),
        (jnp.floor, jnp.ceil, jnp.round, jnp.trunc, jnp.sign, jnp.abs, jnp.negative, jnp.square, jnp.rint),
        (
            jnp.isnan,
            jnp.isinf,
            jnp.isfinite,
            lambda x: jnp.isnan(jnp.log(x)),
            lambda x: jnp.isinf(jnp.log(jnp.maximum(x, 0))),
            lambda x: jnp.nan_to_num(jnp.log(x)),
            lambda x: lax.round(x * 0.5),
        ),
        (lax.erf, lax.erfc, jax.nn.sigmoid, jnp.expm1, lambda x: jnp.expm1(x * 1e-3), lambda x: jnp.log1p(x * 1e-3)),
        (lambda x: jnp.sqrt(jnp.abs(x)), lambda x: lax.rsqrt(jnp.abs(x)), lambda x: jnp.log(jnp.abs(x))),
        (jax.nn.softplus, jax.nn.elu, jax.nn.relu6, jax.nn.silu, jax.nn.gelu, jax.nn.selu, jax.nn.leaky_relu),
        (lambda x: jax.nn.gelu(x, approximate=False), jax.nn.hard_tanh, jax.nn.hard_swish, jax.nn.mish),
    ],
    ids=["transcendental", "rounding", "finite", "error", "roots", "activations", "exact"],
)
def test_functions_of_one_tensor_equal_jax(functions: tuple[Function, ...]) -> None:
    assert_equals_jax(together(*functions), X)


@pytest.mark.parametrize("name", ["sqrt", "exp", "tanh", "add", "maximum", "divide"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_equal_jax(name: str, dtype: str) -> None:
    function = getattr(jnp, name)
    operands = [jnp.abs(X) + 1] * (2 if name in {"add", "maximum", "divide"} else 1)
    assert_equals_jax(function, *(each.astype(dtype) for each in operands), tolerance=2e-2)


def test_functions_of_two_tensors_equal_jax() -> None:
    functions = (jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, jnp.arctan2)
    assert_equals_jax(together(*functions, jnp.logaddexp, jnp.hypot), X, X[::-1] + 5)
    assert_equals_jax(together(jnp.power, jnp.remainder, jnp.fmod, jnp.floor_divide), jnp.abs(X) + 0.1, X[::-1])


def test_integers_equal_jax() -> None:
    functions = (jnp.remainder, jnp.fmod, jnp.floor_divide, lax.div, lax.rem, jnp.bitwise_xor, jnp.maximum)
    assert_equals_jax(together(*functions, jnp.bitwise_and, jnp.bitwise_or), N, DIVISOR)
    shifts = (lambda n: n << 2, lambda n: n >> 1, lambda n: lax.shift_right_logical(n, jnp.full_like(n, 3)))
    assert_equals_jax(together(*shifts, jnp.invert, jnp.negative, jnp.sign, jnp.abs, lambda n: n**3), N)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
def test_shifts_by_the_width_and_more_equal_jax(dtype: str) -> None:
    shifts = (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
    width = jnp.iinfo(dtype).bits
    by = jnp.asarray([0, 1, width - 1, width, width + 1, 2 * width], dtype)
    numbers = jnp.asarray([[1], [-5], [7], [-(2 ** (width - 1))], [2 ** (width - 1) - 1]], "int32").astype(dtype)
    numbers, by = jnp.broadcast_arrays(numbers, by)
    assert_equals_jax(together(*shifts), numbers, by, tolerance=0)
    constants = [lambda n, by=each: [shift(n, jnp.full_like(n, by)) for shift in shifts] for each in (1, width)]
    assert_equals_jax(together(*constants), numbers, tolerance=0)


def test_random_numbers_of_a_constant_seed_equal_jax() -> None:
    def function(x: Any) -> Any:
        first, second = jax.random.split(jax.random.key(1))
        kept = jax.random.bernoulli(first, 0.5, x.shape)
        return jnp.where(kept, x, 0), jax.random.normal(second, x.shape), jax.random.permutation(second, 9)

    assert_equals_jax(function, X)


def test_special_functions_equal_jax() -> None:
    numbers = jnp.concatenate([jnp.linspace(-9.9, 30.0, 500), jnp.logspace(-20, 20, 50), jnp.asarray([1.0, 2.0])])
    assert_equals_jax(together(lax.lgamma, lax.digamma), numbers[100:], tolerance=1e-5)
    assert_equals_jax(lax.lgamma, numbers[:100], tolerance=2e-5)
    inside = jnp.concatenate([jnp.linspace(-1, 1, 401), 1 - jnp.logspace(-6, -1, 30)])
    assert_equals_jax(lax.erf_inv, inside, tolerance=2e-5)
    halves = inside.astype(jnp.float16)
    assert_equals_jax(together(lax.erf_inv, lax.lgamma), halves[1:-1], tolerance=2e-3)


def test_precision_is_reduced_as_in_jax() -> None:
    bits = ((5, 10), (8, 7), (8, 23))
    assert_equals_jax(together(*(lambda x, bits=each: lax.reduce_precision(x, *bits) for each in bits)), X, tolerance=0)
    for narrow in (X.astype(jnp.float16), X.astype(jnp.bfloat16)):
        assert_equals_jax(together(*(lambda x, bits=each: lax.reduce_precision(x, *bits) for each in bits)), narrow)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "int32", "uint32"])
def test_bits_are_counted_as_in_jax(dtype: str) -> None:
    numbers = jnp.asarray([0, 1, 2, 3, 100, 127, jnp.iinfo(dtype).max, jnp.iinfo(dtype).min], dtype)
    assert_equals_jax(together(lax.population_count, lax.clz, jnp.negative), numbers, tolerance=0)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32"])
def test_narrow_integers_wrap_round_as_in_jax(dtype: str) -> None:
    assert_equals_jax(lambda n: (n * 31, n + 100, n // 3, n.max(), n >> 1), (N + 9).astype(dtype))


def test_booleans_equal_jax() -> None:
    def function(n: Any) -> Any:
        positive, small = n > 0, n < 3
        return (
            [positive & small, positive | small, positive ^ small, ~positive, positive == small, positive != small],
            [positive.astype(jnp.float32), positive.sum(), n.astype(bool), jnp.where(positive, n, 7)],
            [positive + small, positive * small, jnp.maximum(positive, small), positive < small],
        )

    assert_equals_jax(function, N)


def test_conversions_equal_jax() -> None:
    names = ("int8", "int32", "uint8", "float16", "bool", "bfloat16")
    assert_equals_jax(lambda x: [jnp.abs(x).astype(name) for name in names], X)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        *(("float32", "int32"), ("float16", "int16"), ("bfloat16", "uint16"), ("uint16", "bfloat16")),
        *(("bfloat16", "float16"), ("float32", "uint8"), ("int8", "float32"), ("uint16", "int32"), ("int16", "int8")),
    ],
    ids=str,
)
def test_bits_of_other_types_equal_jax(given: str, wanted: str) -> None:
    numbers = X[:, :8] if "float" in given else jnp.asarray(np.random.default_rng(3).integers(0, 60, (4, 8)))
    numbers = numbers.astype(given)
    parts = jnp.dtype(wanted).itemsize // jnp.dtype(given).itemsize
    grouped = numbers.reshape(4, -1, parts) if parts > 1 else numbers
    assert_equals_jax(lambda x: lax.bitcast_convert_type(x, wanted), grouped, tolerance=0)


def test_choices_equal_jax() -> None:
    def function(x: Any, low: Any) -> Any:
        return jnp.where(low > 0, x, -x), jnp.clip(x, low, 1.5), lax.clamp(low, x, 2.0), lax.select(x > 0, x, x * 2)

    assert_equals_jax(function, X, jnp.float32(-1))


def test_broadcast_biases_stay_small() -> None:
    bias = jnp.asarray(np.random.default_rng(2).normal(size=33), jnp.float32)
    model = assert_equals_jax(lambda x: jnp.maximum((x + bias) * jax.nn.sigmoid(bias), 0), X)
    assert "broadcast_to" not in model.module.script()


def test_neutral_guard_of_softmax_is_dropped() -> None:
    assert "R.maximum" not in imported(jax.nn.softmax, X).module.script()


@pytest.mark.parametrize("kind", ["int8", "int32", "uint8"])
def test_integers_are_divided_by_zero_as_by_xla(kind: str) -> None:
    def quotients(x: Any, by: Any) -> Any:
        return lax.div(x, by), lax.rem(x, by), jnp.where(by == 0, 7, x // by)

    least = np.iinfo(kind).min
    divisors = np.array([0, 3, -1 if least else 255, 2], kind)
    assert_equals_jax(quotients, np.array([5, least, least, 7], kind), divisors)
