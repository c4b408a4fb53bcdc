"""Whole models from JAX give what JAX gives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.client.stablehlo import jax_models
from tests.client.stablehlo.equality import assert_equals_jax_thrice

pytestmark = pytest.mark.models


def _normal(random: np.random.Generator, *shape: int) -> Any:
    return jnp.asarray(random.normal(size=shape), jnp.float32)


def test_mlp_equals_jax() -> None:
    model = assert_equals_jax_thrice(jax_models.mlp(), lambda random: (_normal(random, 4, 64),))
    assert [each.shape for each in model.weights["main"]] == [(64, 128), (128, 10)]


def test_resnet_equals_jax() -> None:
    model = assert_equals_jax_thrice(jax_models.resnet(), lambda random: (_normal(random, 1, 32, 32, 3),))
    assert max(each.nbytes for each in model.weights["main"]) == 3 * 3 * 32 * 32 * 4


def test_bert_equals_jax() -> None:
    def inputs(random: np.random.Generator) -> tuple[Any, ...]:
        return jnp.asarray(random.integers(0, 100, (2, 12)), jnp.int32), jnp.ones((2, 12), jnp.int32).at[1, 9:].set(0)

    assert_equals_jax_thrice(jax_models.bert(), inputs)


def test_vit_equals_jax() -> None:
    assert_equals_jax_thrice(jax_models.vit(), lambda random: (_normal(random, 2, 16, 16, 3),))


@pytest.mark.parametrize("length", [8, 300], ids=["unrolled", "doubled"])
def test_lstm_equals_jax(length: int) -> None:
    model = assert_equals_jax_thrice(jax_models.lstm(), lambda random: (_normal(random, length, 2, 16),))
    functions = [each.name_hint for each in model.module.get_global_vars() if each.name_hint.startswith("loop")]
    assert bool(functions) == (length == 300)


def test_unet_equals_jax() -> None:
    assert_equals_jax_thrice(jax_models.unet(), lambda random: (_normal(random, 1, 16, 16, 3),))


def test_decoder_step_equals_jax() -> None:
    def inputs(random: np.random.Generator) -> tuple[Any, ...]:
        return _normal(random, 2, 32), _normal(random, 2, 16, 32), _normal(random, 2, 16, 32), jnp.int32(5)

    assert_equals_jax_thrice(jax_models.decoder_step(), inputs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_encoder_of_small_floats_equals_jax(dtype: str) -> None:
    weights = jax_models.Weights()
    layer = jax_models.encoder_layer(weights, 32, 4)

    def model(x: Any) -> Any:
        return layer(x.astype(dtype), None).astype(dtype)

    assert_equals_jax_thrice(model, lambda random: (_normal(random, 1, 8, 32),), tolerance=3e-2)


def test_integer_convolution_equals_jax() -> None:
    kernel = jnp.asarray(np.random.default_rng(0).integers(-8, 8, (3, 3, 4, 8)), jnp.int8)

    def model(x: Any) -> Any:
        summed = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=jax_models.NHWC, preferred_element_type=jnp.int32
        )
        return jnp.clip(jnp.round(summed * 0.05), -128, 127).astype(jnp.int8)

    assert_equals_jax_thrice(model, lambda random: (jnp.asarray(random.integers(-99, 99, (1, 6, 6, 4)), jnp.int8),))
