"""Models in plain JAX, of small sizes, with random weights that are constants of their functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any
NHWC = ("NHWC", "HWIO", "NHWC")


class Weights:
    """Random arrays, each a constant of the model."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Array:
        scale = 1 / np.sqrt(np.prod(shape[:-1]))
        return jnp.asarray(self._random.normal(0, scale, shape), jnp.float32)

    def positive(self, *shape: int) -> Array:
        return jnp.asarray(self._random.uniform(0.5, 1.5, shape), jnp.float32)


def convolve(x: Array, kernel: Array, stride: int = 1, groups: int = 1) -> Array:
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=NHWC, feature_group_count=groups
    )


def mlp() -> Callable[[Array], Array]:
    weights = Weights()
    first, bias, second = weights(64, 128), weights(128), weights(128, 10)
    return lambda x: jax.nn.log_softmax(jax.nn.relu(x @ first + bias) @ second)


def resnet(widths: tuple[int, ...] = (16, 32)) -> Callable[[Array], Array]:
    """A stem, two basic blocks a stage with batch norms for inference, a classifier."""
    weights = Weights()

    def norm(channels: int) -> tuple[Array, ...]:
        return weights.positive(channels), weights(channels), weights(channels), weights.positive(channels)

    def normalized(x: Array, parameters: tuple[Array, ...]) -> Array:
        scale, offset, mean, variance = parameters
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset

    stem, stem_norm = weights(7, 7, 3, widths[0]), norm(widths[0])
    blocks, before = [], widths[0]
    for stage, width in enumerate(widths):
        for place in range(2):
            stride = 2 if stage and not place else 1
            shortcut = weights(1, 1, before, width) if stride > 1 or before != width else None
            kernels = weights(3, 3, before, width), weights(3, 3, width, width)
            blocks.append((stride, shortcut, kernels, (norm(width), norm(width), norm(width))))
            before = width
    head = weights(before, 10)

    def model(x: Array) -> Array:
        x = jax.nn.relu(normalized(convolve(x, stem, 2), stem_norm))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stride, shortcut, (first, second), norms in blocks:
            y = jax.nn.relu(normalized(convolve(x, first, stride), norms[0]))
            y = normalized(convolve(y, second), norms[1])
            x = jax.nn.relu(y + (x if shortcut is None else normalized(convolve(x, shortcut, stride), norms[2])))
        return jax.nn.softmax(x.mean((1, 2)) @ head)

    return model


def layer_norm(x: Array, scale: Array, offset: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * scale + offset


def encoder_layer(weights: Weights, width: int, heads: int) -> Callable[[Array, Array | None], Array]:
    queries, keys, values = (weights(width, heads, width // heads) for _ in range(3))
    out, first, second = weights(heads, width // heads, width), weights(width, 4 * width), weights(4 * width, width)
    norms = [(weights.positive(width), weights(width)) for _ in range(2)]

    def layer(x: Array, mask: Array | None) -> Array:
        q, k, v = (jnp.einsum("bsw,whd->bshd", x, each) for each in (queries, keys, values))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
        if mask is not None:
            scores = jnp.where(mask[:, None, None, :], scores, -1e9)
        attended = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        x = layer_norm(x + jnp.einsum("bqhd,hdw->bqw", attended, out), *norms[0])
        return layer_norm(x + jax.nn.gelu(x @ first, approximate=False) @ second, *norms[1])

    return layer


def bert(layers: int = 2, width: int = 32, heads: int = 4, vocabulary: int = 100) -> Callable[[Array, Array], Array]:
    """Token and position embeddings, encoder layers with a mask, a pooler."""
    weights = Weights()
    tokens, positions = weights(vocabulary, width), weights(16, width)
    norm = weights.positive(width), weights(width)
    encoder = [encoder_layer(weights, width, heads) for _ in range(layers)]
    pooler = weights(width, width)

    def model(ids: Array, mask: Array) -> Array:
        x = layer_norm(jnp.take(tokens, ids, axis=0) + positions[: ids.shape[1]], *norm)
        for layer in encoder:
            x = layer(x, mask > 0)
        return x, jnp.tanh(x[:, 0] @ pooler)

    return model


def vit(layers: int = 2, width: int = 32, heads: int = 4) -> Callable[[Array], Array]:
    weights = Weights()
    patches, classification, head = weights(4, 4, 3, width), weights(1, 1, width), weights(width, 10)
    positions = weights(1, 17, width)
    encoder = [encoder_layer(weights, width, heads) for _ in range(layers)]

    def model(image: Array) -> Array:
        x = lax.conv_general_dilated(image, patches, (4, 4), "VALID", dimension_numbers=NHWC)
        x = x.reshape(x.shape[0], -1, width)
        x = jnp.concatenate([jnp.broadcast_to(classification, (x.shape[0], 1, width)), x], 1) + positions
        for layer in encoder:
            x = layer(x, None)
        return x[:, 0] @ head

    return model


def lstm(width: int = 16, hidden: int = 32) -> Callable[[Array], Array]:
    """One layer as a scan; a long sequence is not unrolled."""
    weights = Weights()
    of_input, of_state, bias = weights(width, 4 * hidden), weights(hidden, 4 * hidden), weights(4 * hidden)

    def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        state, cell = carry
        gates = jnp.split(x @ of_input + state @ of_state + bias, 4, -1)
        cell = jax.nn.sigmoid(gates[1]) * cell + jax.nn.sigmoid(gates[0]) * jnp.tanh(gates[2])
        state = jax.nn.sigmoid(gates[3]) * jnp.tanh(cell)
        return (state, cell), state

    def model(xs: Array) -> Array:
        zeros = jnp.zeros((xs.shape[1], hidden))
        (state, _), outputs = lax.scan(step, (zeros, zeros), xs)
        return state, outputs

    return model


def unet() -> Callable[[Array], Array]:
    """One step down by pooling, one up by a transposed convolution, a skip connection, group norms."""
    weights = Weights()
    down, middle, up = weights(3, 3, 3, 8), weights(3, 3, 8, 16), weights(2, 2, 16, 8)
    last, out = weights(3, 3, 16, 8), weights(1, 1, 8, 2)

    def group_norm(x: Array) -> Array:
        grouped = x.reshape(*x.shape[:3], 4, -1)
        mean, variance = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
        return ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)

    def model(x: Array) -> Array:
        skip = jax.nn.silu(group_norm(convolve(x, down)))
        x = lax.reduce_window(skip, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        x = jax.nn.silu(group_norm(convolve(x, middle)))
        x = lax.conv_transpose(x, up, (2, 2), "VALID", dimension_numbers=NHWC)
        x = jax.nn.silu(group_norm(convolve(jnp.concatenate([x, skip], -1), last)))
        return jax.nn.sigmoid(convolve(x, out))

    return model


def decoder_step(width: int = 32, length: int = 16) -> Callable[[Array, Array, Array, Array], Array]:
    """One step of a decoder with a cache of keys and values."""
    weights = Weights()
    projection, out = weights(width, 3 * width), weights(width, 100)

    def model(x: Array, keys: Array, values: Array, position: Array) -> Array:
        query, key, value = jnp.split(x @ projection, 3, -1)
        keys = lax.dynamic_update_slice(keys, key[:, None], (0, position, 0))
        values = lax.dynamic_update_slice(values, value[:, None], (0, position, 0))
        scores = jnp.einsum("bd,bkd->bk", query, keys) / np.sqrt(width)
        scores = jnp.where(jnp.arange(length) <= position, scores, -jnp.inf)
        logits = jnp.einsum("bk,bkd->bd", jax.nn.softmax(scores), values) @ out
        return jnp.argmax(logits, -1), keys, values

    return model
