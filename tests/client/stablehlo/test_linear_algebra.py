"""Factors, inverses and systems of small matrices give what JAX gives."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_close, assert_equals_jax, imported, of_text, runner
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
ROWS = 6
A = jnp.asarray(np.random.default_rng(0).normal(size=(3, ROWS, ROWS)), jnp.float32)
POSITIVE = A @ A.swapaxes(-1, -2) + jnp.eye(ROWS)
B = jnp.asarray(np.random.default_rng(1).normal(size=(3, ROWS, 2)), jnp.float32)
TRIANGLES = A + 4 * jnp.eye(ROWS)
TOLERANCE = 1e-3


def test_inverses_determinants_and_solutions_equal_jax() -> None:
    def function(a: Any, b: Any) -> Any:
        return jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a), jnp.linalg.solve(a, b), jsl.expm(a[0])

    assert_equals_jax(function, A, B, tolerance=TOLERANCE)


@pytest.mark.parametrize("shape", [(ROWS, ROWS), (ROWS, 3), (2, ROWS)], ids=str)
def test_triangular_factors_equal_jax(shape: tuple[int, int]) -> None:
    matrices = A[:, : shape[0], : shape[1]]
    assert_equals_jax(lambda a: (lax.linalg.lu(a), jsl.lu(a[0])), matrices, tolerance=TOLERANCE)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors_equal_jax(upper: bool) -> None:
    def function(a: Any, b: Any) -> Any:
        return jnp.linalg.cholesky(a, upper=upper), jsl.cho_solve(jsl.cho_factor(a[0]), b[0])

    assert_equals_jax(function, POSITIVE, B, tolerance=TOLERANCE)


@pytest.mark.parametrize("eigenvalue", [-1.0, 0.0])
def test_matrix_that_is_not_positive_definite_has_no_factor(eigenvalue: float) -> None:
    matrices = jnp.stack([jnp.diag(jnp.asarray([2.0, eigenvalue, 1.0])), jnp.eye(3)])
    [factors] = runner(imported(jnp.linalg.cholesky, matrices))(matrices)
    assert np.isnan(factors[0][np.tril_indices(3)]).all()
    np.testing.assert_array_equal(factors[1], np.eye(3))


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("is_lower", [False, True])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_triangular_systems_equal_jax(is_left: bool, is_lower: bool, is_transposed: bool, platform: str) -> None:
    """XLA has LAPACK's functions for CPUs only, and operators of its own elsewhere."""

    def function(a: Any, b: Any) -> Any:
        options = {"left_side": is_left, "lower": is_lower, "transpose_a": is_transposed}
        whole = lax.linalg.triangular_solve(a, b, **options)
        return whole, lax.linalg.triangular_solve(a, b, unit_diagonal=True, **options)

    operands = TRIANGLES, B if is_left else B.swapaxes(-1, -2)
    text = jax.jit(function).trace(*operands).lower(lowering_platforms=(platform,)).as_text()
    assert ("lapack" in text) == (platform == "cpu")
    assert_close(runner(of_text(text))(*operands), jax.jit(function)(*operands), TOLERANCE)


def test_operator_of_xla_for_cholesky_factors_equals_jax() -> None:
    text = jax.jit(jnp.linalg.cholesky).trace(POSITIVE).lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.cholesky" in text
    assert_close(runner(of_text(text))(POSITIVE), jnp.linalg.cholesky(POSITIVE), TOLERANCE)


def test_large_matrices_and_singular_values_are_refused_with_advice() -> None:
    with pytest.raises(BadInput, match=r"matrices of 33 rows are larger than 32"):
        imported(jnp.linalg.cholesky, jnp.eye(33))
    with pytest.raises(BadInput, match=r"@lapack_sgesdd_ffi .* outside of the model"):
        imported(jnp.linalg.svd, A)
