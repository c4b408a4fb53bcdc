"""Loops and branches give what JAX gives."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_close, assert_equals_jax, imported, runner

pytestmark = pytest.mark.models

X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 40)), jnp.float32)
SQUARE = jnp.asarray(np.random.default_rng(1).normal(size=(40, 40)) * 0.1, jnp.float32)


def function_names(model: Any, beginning: str) -> list[str]:
    return [each.name_hint for each in model.module.get_global_vars() if each.name_hint.startswith(beginning)]


def test_short_loops_are_unrolled() -> None:
    model = assert_equals_jax(lambda x: lax.fori_loop(0, 5, lambda i, total: total + x[i % 4], jnp.zeros(40)), X)
    assert not function_names(model, "loop")
    assert "dynamic_slice" not in model.module.script()


@pytest.mark.parametrize("trips", [4099, 50_000])
def test_long_loops_run_by_doubling(trips: int) -> None:
    def function(x: Any) -> Any:
        return lax.fori_loop(0, trips, lambda i, total: total * 0.9 + x[i % 4] @ SQUARE, jnp.zeros(40))

    model = assert_equals_jax(function, X, tolerance=1e-4)
    assert len(function_names(model, "loop")) == trips.bit_length()


@pytest.mark.parametrize("trips", [0, 1, 2, 7, 1000])
def test_loops_end_by_their_condition(trips: int) -> None:
    def function(trips: Any, x: Any) -> Any:
        return lax.while_loop(lambda state: state[0] < trips, lambda state: (state[0] + 1, state[1] @ SQUARE), (0, x))

    assert_equals_jax(function, jnp.int32(trips), X)


def test_conditions_on_tensors_equal_jax() -> None:
    def function(x: Any) -> Any:
        return lax.while_loop(lambda s: jnp.sum(s[0]) < 1000, lambda s: (s[0] * 1.5, s[1] + 1), (jnp.abs(x), 0))

    assert_equals_jax(function, X)


def test_nested_loops_equal_jax() -> None:
    def known(x: Any) -> Any:
        return lax.fori_loop(
            0, 3, lambda i, outer: lax.fori_loop(0, i, lambda j, inner: inner + x[j], outer), jnp.zeros(40)
        )

    def unknown(n: Any, x: Any) -> Any:
        def step(i: Any, outer: Any) -> Any:
            return lax.fori_loop(0, i, lambda j, inner: inner @ SQUARE + x[j % 4], outer)

        return lax.fori_loop(0, n, step, jnp.zeros(40))

    assert_equals_jax(known, X)
    assert_equals_jax(unknown, jnp.int32(5), X)


def test_scans_return_what_each_step_yields() -> None:
    assert_equals_jax(lambda x: lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(40), x), X)
    assert_equals_jax(lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(40), x, reverse=True), X)
    assert_equals_jax(lambda x: lax.map(lambda row: row @ SQUARE, x), X)


def test_branches_equal_jax() -> None:
    def function(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda y: y @ SQUARE + 1, lambda y: y * 2, x), lax.cond(
            x[0, 0] > 0, lambda: 1.0, lambda: 2.0
        )

    run = runner(imported(function, X))
    for each in (X, -X, X + 1):
        assert_close(run(each), function(each), 1e-5)


def test_switches_equal_jax() -> None:
    def function(which: Any, x: Any) -> Any:
        return lax.switch(which, [lambda y: y + 1, lambda y: y @ SQUARE, lambda y: y * 2], x)

    run = runner(imported(function, jnp.int32(0), X))
    for which in (-1, 0, 1, 2, 9):
        assert_close(run(np.int32(which), X), function(which, X), 1e-5)


def test_known_branches_leave_no_condition() -> None:
    def step(i: Any, total: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda t: t + 1, lambda t: t * 2, total)

    model = assert_equals_jax(lambda x: lax.fori_loop(0, 4, step, x), X)
    assert not function_names(model, "branch")
