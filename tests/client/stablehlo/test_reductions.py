"""Reductions, windows and orders give what JAX gives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_equals_jax, imported, runner
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models

X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 7)), jnp.float32)
IMAGE = jnp.asarray(np.random.default_rng(0).normal(size=(1, 9, 8, 3)), jnp.float32)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)], ids=str)
def test_reductions_equal_jax(axis: Any) -> None:
    names = ("sum", "max", "min", "prod", "mean", "var", "any", "all")
    assert_equals_jax(lambda x: [getattr(jnp, name)(x, axis=axis) for name in names], X)


@pytest.mark.parametrize("dtype", ["int32", "int8", "bfloat16", "float16", "bool"])
def test_reductions_of_other_types_equal_jax(dtype: str) -> None:
    values = (X * 3).astype(dtype)
    names = ("any", "all") if dtype == "bool" else ("max", "min", "sum")
    assert_equals_jax(lambda x: [getattr(jnp, name)(x, axis=1) for name in names], values, tolerance=3e-2)


def test_initial_values_take_part() -> None:
    assert_equals_jax(lambda x: (jnp.max(x, 1, initial=0.5), jnp.sum(x, 2, initial=3.0), jnp.min(x, initial=-9)), X)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arguments_of_extremes_equal_jax(axis: int) -> None:
    ties = jnp.round(X)
    assert_equals_jax(lambda x: (jnp.argmax(x, axis), jnp.argmin(x, axis)), ties)
    assert_equals_jax(lambda x: jnp.argmax(x, axis), ties > 1)


def test_logarithms_of_sums_and_norms_equal_jax() -> None:
    assert_equals_jax(lambda x: (jax.nn.logsumexp(x, 1), jax.nn.log_softmax(x, 2), jnp.linalg.norm(x, axis=0)), X)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("window", "strides"), [((3, 3), (2, 2)), ((2, 2), (2, 2)), ((3, 1), (1, 3)), ((9, 8), (1, 1))]
)
def test_pools_equal_jax(window: tuple[int, int], strides: tuple[int, int], padding: str) -> None:
    dimensions, steps = (1, *window, 1), (1, *strides, 1)

    def function(x: Any) -> Any:
        counts = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, dimensions, steps, padding)
        return (
            lax.reduce_window(x, -jnp.inf, lax.max, dimensions, steps, padding),
            lax.reduce_window(x, jnp.inf, lax.min, dimensions, steps, padding),
            lax.reduce_window(x, 0.0, lax.add, dimensions, steps, padding) / counts,
        )

    assert_equals_jax(function, IMAGE)


def test_dilated_windows_equal_jax() -> None:
    def function(x: Any) -> Any:
        return lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (1, 0), (2, 3), (0, 0)), (1, 2, 1, 1), (1, 1, 2, 1)
        )

    assert_equals_jax(function, IMAGE)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_pools_of_other_types_equal_jax(dtype: str) -> None:
    lowest = -np.inf if dtype == "bfloat16" else -128

    def function(x: Any) -> Any:
        start = jnp.asarray(lowest, dtype)
        return lax.reduce_window(x, start, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    assert_equals_jax(function, (IMAGE * 5).astype(dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_long_windows_of_halves_are_summed_in_float32(dtype: str) -> None:
    ones = jnp.ones((2, 4096), dtype)
    sums = runner(imported(lambda x: jnp.cumsum(x, 1), ones))(ones)[0].astype(np.float32)
    np.testing.assert_array_equal(sums[0], np.arange(1, 4097).astype(dtype).astype(np.float32))


def test_pools_of_booleans_equal_jax() -> None:
    def function(x: Any) -> Any:
        window, strides = (1, 2, 3), (1, 1, 2)
        dilated = lax.reduce_window(x, False, lax.bitwise_or, window, strides, "SAME")
        return dilated, lax.reduce_window(x, True, lax.bitwise_and, window, strides, "SAME")

    assert_equals_jax(function, X > 0)


def test_running_sums_equal_jax() -> None:
    assert_equals_jax(lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 2), lax.cummax(x, 0)), X)


@pytest.mark.parametrize("axis", [0, 2])
def test_orders_equal_jax(axis: int) -> None:
    def function(x: Any) -> Any:
        pair = lax.sort((x, x * 2, -x), dimension=axis, num_keys=1)
        return jnp.sort(x, axis), jnp.argsort(x, axis), jnp.sort(x, axis, descending=True), pair

    assert_equals_jax(function, X)


def test_orders_by_several_keys_equal_jax() -> None:
    def function(x: Any) -> Any:
        coarse, truth = jnp.round(x), x > 0
        descending = lax.sort((-coarse, truth, x), dimension=2, num_keys=3)
        return lax.sort((coarse, truth, x), num_keys=2), descending, jnp.lexsort((x, coarse), axis=1)

    assert_equals_jax(function, X)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint16", "uint32", "bfloat16", "float16"])
def test_orders_of_other_types_equal_jax(dtype: str) -> None:
    values = (X * 40).astype("int32").astype(dtype)
    assert_equals_jax(lambda x: (jnp.sort(x, 1), jnp.argsort(x, 2, stable=True)), values, tolerance=0)


def test_greatest_elements_equal_jax() -> None:
    assert_equals_jax(lambda x: (lax.top_k(x, 3), jnp.median(x, 1)), X)
    assert_equals_jax(lambda x: (lax.approx_max_k(x, 3), lax.approx_min_k(x, 2, reduction_dimension=1)), X)


def test_other_reducers_are_refused_with_advice() -> None:
    def function(x: Any) -> Any:
        return lax.reduce(x, jnp.float32(0), lambda a, b: a * 2 + b, (1,))

    with pytest.raises(BadInput, match=r"stablehlo.reduce at .* Reduce by one operator"):
        imported(function, X)
