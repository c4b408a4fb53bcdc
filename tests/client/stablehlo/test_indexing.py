"""Reading and writing at indexes gives what JAX gives, also outside of the tensor."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_equals_jax, imported
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models

TABLE = jnp.asarray(np.random.default_rng(0).normal(size=(10, 6)), jnp.float32)


@pytest.mark.parametrize("mode", ["fill", "clip", "wrap"])
def test_embedding_equals_jax(mode: str) -> None:
    ids = jnp.asarray([[0, 9, 3], [12, -1, -20]], jnp.int32)
    assert_equals_jax(lambda ids: jnp.nan_to_num(jnp.take(TABLE, ids, axis=0, mode=mode)), ids)


def test_index_forms_equal_jax() -> None:
    i, j = jnp.asarray([1, 5, 2], jnp.int32), jnp.asarray([[0, 3], [5, 1]], jnp.int32)

    def function(x: Any, i: Any, j: Any) -> Any:
        along = jnp.take_along_axis(x, j[:, :1], 1) if x.shape[0] == j.shape[0] else x[:2][:, j[0]]
        return x[i], x[i, i], x[:, j], x[i, 2:4], x[j, 3], jnp.take_along_axis(x, x.argsort(1), 1), x[i[0]], along

    assert_equals_jax(function, TABLE, i, j)


@pytest.mark.parametrize("start", [-3, 0, 4, 99])
def test_dynamic_slices_equal_jax(start: int) -> None:
    def function(x: Any, at: Any) -> Any:
        return (
            lax.dynamic_slice(x, (at, at), (3, 2)),
            lax.dynamic_slice(x, (2, at), (3, 6)),
            lax.dynamic_update_slice(x, x[:2, :3] * 2, (at, 1)),
            lax.dynamic_slice(x, (start, 1), (3, 2)),
            lax.dynamic_update_slice(x, x[:2, :3] * 2, (start, 2)),
        )

    assert_equals_jax(function, TABLE, jnp.int32(start))


def test_batched_dynamic_slices_equal_jax() -> None:
    starts = jnp.asarray([0, 1, 9, -4] * 2 + [2, 3], jnp.int32)
    assert_equals_jax(lambda x, i: jax.vmap(lambda row, j: lax.dynamic_slice(row, (j,), (3,)))(x, i), TABLE, starts)


@pytest.mark.parametrize("rows", [[1, 7], [3, 3], [9, 12], [-1, -30]], ids=str)
def test_scatters_of_rows_equal_jax(rows: list[int]) -> None:
    def function(x: Any, i: Any) -> Any:
        update = x[:2] * 10
        return (
            x.at[i].add(update),
            x.at[i].max(update),
            x.at[i].multiply(2.0),
            x.at[i, i % 6].add(1.0),
            x.at[i].set(4.0),
        )

    assert_equals_jax(function, TABLE, jnp.asarray(rows, jnp.int32))


@pytest.mark.parametrize("at", [-11, -1, 0, 5, 10])
def test_scatters_of_windows_equal_jax(at: int) -> None:
    def function(x: Any, i: Any) -> Any:
        return (
            [x.at[i].set(x[0]), x.at[:, 3].set(0.0), x.at[1:3, 4:6].multiply(2.0), x.at[i, 1:3].add(x[0, :2])],
            [x.at[i, 2].min(-5.0), x.at[2:5].set(7.0)],
        )

    assert_equals_jax(function, TABLE, jnp.int32(at))


def test_scatters_of_several_windows_equal_jax() -> None:
    def function(x: Any, at: Any) -> Any:
        part, whole = x[:2, :2], x[:5]
        return (
            x.at[:, at].add(1.0),
            x.at[1:8:3, ::2].set(5.0),
            x.at[at, at].multiply(-2.0),
            jax.vmap(lambda row, i: row.at[i].add(1.0))(whole, at),
            jax.vmap(lambda row, i: lax.dynamic_update_slice(row, row[:2], (i,)))(whole, at),
            jax.vmap(lambda i: x.at[i].set(part[0, 0]))(at),
            lax.scatter_add(
                x,
                at[:, None],
                jnp.broadcast_to(part, (5, 2, 2)),
                lax.ScatterDimensionNumbers((1, 2), (), (0,)),
                mode=lax.GatherScatterMode.FILL_OR_DROP,
            ),
            (x > 0).at[at].set(True),
        )

    assert_equals_jax(function, TABLE, jnp.asarray([1, 5, 0, 9, 12], jnp.int32))


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (lambda x, i: x.at[i].apply(jnp.sin), "Scatter by replacing"),
        (lambda x, i: (x > 0).at[i].max(x[:2] > 1), "Scatter truth values by replacing"),
    ],
)
def test_other_scatters_are_refused_with_advice(function: Any, advice: str) -> None:
    with pytest.raises(BadInput, match=f"stablehlo.scatter at .* {advice}"):
        imported(function, TABLE, jnp.asarray([1, 2], jnp.int32))
