"""Operators that move elements give what JAX gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_equals_jax

pytestmark = pytest.mark.models

X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 12)), jnp.float32)
IMAGE = jnp.asarray(np.random.default_rng(0).normal(size=(1, 5, 4, 2)), jnp.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.reshape(2, -1), x.reshape(4, 3, 4).transpose(2, 0, 1), x.T, x[None], x.ravel()),
        lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 1), jnp.stack([x, x], 1), jnp.concatenate([x, x * 2], 1)),
        lambda x: (jnp.roll(x, 3, 1), jnp.flip(x, 0), jnp.flip(x), jnp.split(x, 3, 1)[1], x[:, ::-2], x[1:3, 5]),
        lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.eye(4) @ x, jnp.diag(x[:, :4]), x + jnp.arange(12)),
        lambda x: (lax.broadcast_in_dim(x, (12, 2, 4), (2, 0)), jnp.broadcast_to(x[:, :1], x.shape).reshape(2, 24)),
        lambda x: (jnp.broadcast_to(x[0], (3, 12))[1:, 2:5], jnp.broadcast_to(x[0], (3, 12)).T.reshape(6, 6)),
        lambda x: (x, jnp.zeros((3,)), jnp.arange(3), jnp.full((2, 2), 5.0).T, lax.iota(jnp.int8, 4)),
    ],
    ids=["reshape", "concatenate", "slice", "masks", "broadcast", "of-broadcast", "constants"],
)
def test_shapes_equal_jax(function: Callable[..., Any]) -> None:
    assert_equals_jax(function, X)


@pytest.mark.parametrize(
    "padding",
    [
        ((1, 2, 0), (3, 0, 0)),
        ((-1, 0, 0), (0, -3, 0)),
        ((0, 0, 2), (1, 1, 1)),
        ((-1, 2, 1), (3, -2, 3)),
        ((0, 0, 0), (0, 0, 0)),
    ],
    ids=str,
)
def test_pad_equals_jax(padding: tuple[tuple[int, int, int], ...]) -> None:
    assert_equals_jax(lambda x, value: lax.pad(x, value, padding), X, jnp.float32(1.5))


def test_padding_modes_equal_jax() -> None:
    assert_equals_jax(lambda x: [jnp.pad(x, 2, mode=mode) for mode in ("constant", "edge", "reflect", "wrap")], X)


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_resizing_equals_jax(method: str) -> None:
    assert_equals_jax(lambda x: jax.image.resize(x, (1, 10, 8, 2), method), IMAGE)
