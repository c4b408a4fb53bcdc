"""Operators of onnxruntime's own domain give in TVM what they give in onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved

pytestmark = pytest.mark.models
WIDTH = 16
X = {"x": (2, 5, WIDTH)}


def one(operator: str, weights: Any, inputs: Any = None, **attributes: Any) -> Any:
    names = [*(inputs or X), *weights]
    nodes = [node(operator, names, ["y"], domain="com.microsoft", **attributes)]
    return model_of(nodes, inputs or X, ["y"], weights, domains=["com.microsoft"])


VECTORS = constants(g=normal(WIDTH, seed=1), b=normal(WIDTH, seed=2), c=normal(WIDTH, seed=3))
MODELS = {
    "gelu": lambda: one("Gelu", {}),
    "fast gelu": lambda: one("FastGelu", constants(b=normal(WIDTH, seed=1))),
    "bias gelu": lambda: one("BiasGelu", constants(b=normal(WIDTH, seed=1))),
    "skip layer normalization": lambda: one("SkipLayerNormalization", VECTORS, X | {"s": (2, 5, WIDTH)}, epsilon=1e-5),
    "skip layer normalization without shift and bias": lambda: one(
        "SkipLayerNormalization", constants(g=VECTORS["g"]), X | {"s": (2, 5, WIDTH)}),
    "skip normalization by squares": lambda: model_of(
        [node("SkipSimplifiedLayerNormalization", ["x", "s", "g"], ["n", "", "", "t"], domain="com.microsoft"),
         node("Add", ["n", "t"], ["y"])],
        X | {"s": (2, 5, WIDTH)}, ["y"], constants(g=VECTORS["g"]), domains=["com.microsoft"]),
    "attention": lambda: one("Attention", constants(w=normal(WIDTH, 3 * WIDTH, seed=1), b=normal(3 * WIDTH, seed=2)),
                             num_heads=4),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_import_onnx_converts_of_microsoft(tmp_path: Path, name: str) -> None:
    model = MODELS[name]()
    sizes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in model.graph.input}
    call = {key: normal(*shape, seed=number) for number, (key, shape) in enumerate(sizes.items())}
    assert_equal(saved(model, tmp_path), call, tolerance=1e-4)


@pytest.mark.parametrize("channels", [1, WIDTH])
def test_integers_of_16_bits_are_quantized_and_back(tmp_path: Path, channels: int) -> None:
    shape = () if channels == 1 else (channels,)
    weights = constants(s=np.full(shape, 1e-4, np.float32), z=np.full(shape, 30_000, np.uint16))
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], domain="com.microsoft", axis=2),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], domain="com.microsoft", axis=2),
    ]
    assert_equal(
        saved(model_of(nodes, X, ["y"], weights, domains=["com.microsoft"]), tmp_path), {"x": normal(2, 5, WIDTH)}
    )


def test_import_onnx_converts_embeddings_of_microsoft(tmp_path: Path) -> None:
    weights = constants(
        words=normal(30, WIDTH, seed=1), places=normal(8, WIDTH, seed=2), kinds=normal(2, WIDTH, seed=3)
    )
    weights |= constants(g=VECTORS["g"], b=VECTORS["b"])
    names = ["x", "s", "words", "places", "kinds", "g", "b"]
    nodes = [node("EmbedLayerNormalization", names, ["y", "mask"], domain="com.microsoft", epsilon=1e-5)]
    types = {"x": TensorProto.INT32, "s": TensorProto.INT32}
    model = model_of(nodes, {"x": (2, 5), "s": (2, 5)}, ["y"], weights, types=types, domains=["com.microsoft"])
    call = {"x": np.arange(10, dtype=np.int32).reshape(2, 5), "s": np.ones((2, 5), np.int32)}
    assert_equal(saved(model, tmp_path), call, tolerance=1e-4)
