"""Operators that onnxruntime's optimizers write give what onnxruntime gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx

pytestmark = pytest.mark.models
DOMAIN = "com.microsoft"


def one(operator: str, inputs: Any, weights: Any = None, **attributes: Any) -> Any:
    nodes = [node(operator, [*inputs, *(weights or {})], ["y"], domain=DOMAIN, **attributes)]
    return model_of(nodes, inputs, ["y"], weights, domains=[DOMAIN])


def quantized(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)


MATRIX = {"w": quantized(16, 24, seed=1), "s": np.full((), 0.01, np.float32)}
COLUMNS = {"w": quantized(16, 24, seed=1), "s": np.linspace(0.01, 0.02, 24).astype(np.float32),
           "z": quantized(24, seed=2) // 8}  # fmt: skip
FUSED = {
    "transposed": lambda: one("FusedMatMul", {"a": (2, 6, 5), "b": (2, 7, 6)}, transA=1, transB=1, alpha=0.5),
    "transposed by batch": lambda: one(
        "FusedMatMul", {"a": (5, 2, 3, 6), "b": (6, 2, 3, 7)}, transBatchA=1, transBatchB=1),
    "transposed twice": lambda: one("FusedMatMul", {"a": (6, 2, 3, 5), "b": (2, 3, 6, 7)}, transBatchA=1, transA=1),
    "vector": lambda: one("FusedMatMul", {"a": (6,), "b": (6, 7)}),
    "gemm": lambda: one("FusedGemm", {"a": (3, 6)}, constants(b=normal(7, 6, seed=1), c=normal(7, seed=2)),
                        transB=1, activation="LeakyRelu", activation_alpha=0.2),
    "quick gelu": lambda: one("QuickGelu", {"x": (3, 7)}),
    "quick gelu of a slope": lambda: one("QuickGelu", {"x": (3, 7)}, alpha=0.7),
    "quantized product": lambda: one("DynamicQuantizeMatMul", {"x": (2, 5, 16)}, constants(**MATRIX)),
    "quantized product of columns": lambda: model_of(
        [node("DynamicQuantizeMatMul", ["x", "w", "s", "z", "b"], ["y"], domain=DOMAIN)], {"x": (2, 5, 16)}, ["y"],
        constants(**COLUMNS, b=normal(24, seed=3)), domains=[DOMAIN]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_import_onnx_converts_fused_operators(tmp_path: Path, name: str) -> None:
    model = FUSED[name]()
    sizes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in model.graph.input}
    call = {key: normal(*shape, seed=4 + number) for number, (key, shape) in enumerate(sizes.items())}
    assert_equal(saved(model, tmp_path), call, tolerance=1e-5)


IMAGE, BYTE = {"x": (2, 4, 9, 8)}, constants(s=np.float32(0.02), z=np.uint8(120))
SIZED = {
    "convolution": [node("FusedConv", ["x", "w"], ["v"], domain=DOMAIN, activation="Relu", strides=[2, 2])],
    "matrix": [node("Flatten", ["x"], ["f"]),
               node("FusedGemm", ["f", "m"], ["v"], domain=DOMAIN, activation="Relu", transB=1)],
    "quantized": [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearConcat", ["s", "z", "q", "s", "z", "q", "s", "z"], ["c"], domain=DOMAIN, axis=1),
        node("QLinearAveragePool", ["c", "s", "z", "s", "z"], ["p"], domain=DOMAIN, kernel_shape=[3, 3],
             strides=[2, 2]),
        node("QLinearWhere", ["t", "p", "s", "z", "p", "s", "z", "s", "z"], ["o"], domain=DOMAIN),
        node("DequantizeLinear", ["o", "s", "z"], ["v"])],
    "pooled": [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearGlobalAveragePool", ["q", "s", "z", "s", "z"], ["g"], domain=DOMAIN),
        node("DequantizeLinear", ["g", "s", "z"], ["v"])],
    "quantized matrix": [
        node("Flatten", ["x"], ["f"]), node("QuantizeLinear", ["f", "s", "z"], ["q"]),
        node("QGemm", ["q", "s", "z", "i", "s", "z", "", "s", "z"], ["o"], domain=DOMAIN),
        node("DequantizeLinear", ["o", "s", "z"], ["v"])],
}  # fmt: skip


@pytest.mark.parametrize("name", SIZED)
def test_sizes_behind_fused_operators_are_known(tmp_path: Path, name: str) -> None:
    """As where PyTorch's ``x.view(x.size(0), -1)`` was exported with an open batch."""
    view = [
        node("Shape", ["v"], ["shape"]),
        node("Gather", ["shape", "first"], ["batch"]),
        node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        node("Reshape", ["v", "wanted"], ["y"]),
    ]
    weights = BYTE | constants(
        w=normal(6, 4, 3, 3), m=normal(5, 288, seed=1), t=np.bool_(True), i=np.full((288, 5), 121, np.uint8),
        first=np.array([0]), rest=np.array([-1]),
    )  # fmt: skip
    model = model_of([*SIZED[name], *view], IMAGE, ["y"], weights, domains=[DOMAIN])
    assert_equal(saved(model, tmp_path), {"x": normal(2, 4, 9, 8)}, tolerance=2e-2)


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.2]), ("Clip", [-0.1, 0.3]),
     ("HardSigmoid", [0.3, 0.4])],
)  # fmt: skip
@pytest.mark.parametrize("added", [False, True])
def test_import_onnx_converts_fused_convolutions(
    tmp_path: Path, activation: str, numbers: list[float], added: bool
) -> None:
    inputs = {"x": (1, 3, 8, 8)} | ({"z": (1, 4, 8, 8)} if added else {})
    held = constants(w=normal(4, 3, 3, 3, seed=1), b=normal(4, seed=2))
    attributes = {"activation": activation, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    attributes |= {"activation_params": numbers} if numbers else {}
    nodes = [node("FusedConv", ["x", "w", "b", *list(inputs)[1:]], ["y"], domain=DOMAIN, **attributes)]
    model = model_of(nodes, inputs, ["y"], held, domains=[DOMAIN])
    assert_equal(saved(model, tmp_path), {name: normal(*shape, seed=5) for name, shape in inputs.items()})


@pytest.mark.parametrize("columns", [False, True])
def test_import_onnx_converts_quantized_attention(tmp_path: Path, columns: bool) -> None:
    held = constants(
        w=quantized(24, 3 * 32, seed=1), b=normal(3 * 32, seed=2),
        s=np.linspace(0.01, 0.02, 3 * 32).astype(np.float32) if columns else np.float32(0.01),
        z=quantized(3 * 32, seed=3) // 8 if columns else np.int8(3),
    )  # fmt: skip
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        node("QAttention", ["q", "w", "b", "qs", "s", "mask", "qz", "z"], ["y"], domain=DOMAIN, num_heads=4),
    ]
    types = {"mask": TensorProto.INT32}
    model = model_of(nodes, {"x": (2, 5, 24), "mask": (2, 5)}, ["y"], held, types=types, domains=[DOMAIN])
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], np.int32)
    assert_equal(saved(model, tmp_path), {"x": normal(2, 5, 24), "mask": mask}, tolerance=1e-4)


@pytest.mark.parametrize(
    ("operator", "names"), [("SimplifiedLayerNormalization", ["g"]), ("LayerNormalization", ["g", "b"])]
)
def test_import_onnx_takes_operators_that_onnxruntime_puts_into_the_domain_of_onnx(
    tmp_path: Path, operator: str, names: list[str]
) -> None:
    nodes = [node(operator, ["x", *names], ["y"], axis=-1, epsilon=1e-6)]
    held = {name: normal(16, seed=at) for at, name in enumerate(names)}
    model = model_of(nodes, {"x": (2, 5, 16)}, ["y"], held, opset=14)
    assert_equal(saved(model, tmp_path), {"x": normal(2, 5, 16)})


def test_import_onnx_knows_shapes_behind_operators_of_microsoft(tmp_path: Path) -> None:
    """The sizes of a Reshape are those of a result whose shape ONNX does not infer."""
    nodes = [
        node("FastGelu", ["x"], ["g"], domain=DOMAIN),
        node("FusedMatMul", ["g", "w"], ["p"], domain=DOMAIN),
        node("Shape", ["p"], ["shape"]),
        node("Gather", ["shape", "at"], ["tokens"]),
        node("Concat", ["tokens", "rest"], ["sizes"], axis=0),
        node("Reshape", ["p", "sizes"], ["r"]),
        node("Softmax", ["r"], ["y"]),
    ]
    held = constants(w=normal(16, 32, seed=1), at=np.array([1]), rest=np.array([8, 8], np.int64))
    model = model_of(nodes, {"x": (2, "tokens", 16)}, ["y"], held, domains=[DOMAIN])
    assert_equal(saved(model, tmp_path), {"x": normal(2, 5, 16)})


def test_references_of_int8_products_are_exact(tmp_path: Path) -> None:
    """onnxruntime rounds the data of such products to 8 bits unless it is told otherwise."""
    packed = np.random.default_rng(1).integers(0, 256, (64, 2, 16)).astype(np.uint8)
    held = constants(w=packed, s=np.full(128, 0.05, np.float32))
    attributes = {"K": 64, "N": 64, "bits": 4, "block_size": 32, "accuracy_level": 4}
    nodes = [node("MatMulNBits", ["x", "w", "s"], ["y"], domain=DOMAIN, **attributes)]
    model = model_of(nodes, {"x": (2, 64)}, ["y"], held, domains=[DOMAIN])
    references = read_onnx(saved(model, tmp_path), {}).references
    assert len(references) == 3
    numbers = np.stack([packed & 15, packed >> 4], axis=-1).reshape(64, 64).astype(np.float64) - 8
    for each in references:
        np.testing.assert_allclose(each.outputs[0], each.inputs[0] @ numbers.T * 0.05, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operator", "inputs", "weights", "attributes"),
    [
        ("Attention", {"x": (2, 5, 24)}, {"w": normal(24, 96), "b": normal(96)}, {"num_heads": 4}),
        ("MultiHeadAttention", {"q": (2, 5, 32), "k": (2, 7, 32), "v": (2, 7, 32)}, {}, {"num_heads": 4}),
        ("SkipLayerNormalization", {"x": (2, 5, 16), "s": (2, 5, 16)}, {"g": normal(16)}, {}),
        ("MatMulNBits", {"x": (2, 5, 32)}, {"w": np.ones((8, 1, 16), np.uint8), "s": np.ones(8, np.float32)},
         {"K": 32, "N": 8, "block_size": 32}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_import_onnx_knows_the_shape_of_results_of_microsoft(
    tmp_path: Path, operator: str, inputs: dict[str, Any], weights: dict[str, Any], attributes: dict[str, Any]
) -> None:
    """A result with a shape of its own is flattened to a row, by sizes that the model computes."""
    nodes = [
        node(operator, [*inputs, *weights], ["r"], domain=DOMAIN, **attributes),
        node("Size", ["r"], ["size"]),
        node("Reshape", ["size", "one"], ["sizes"]),
        node("Reshape", ["r", "sizes"], ["y"]),
    ]
    model = model_of(nodes, inputs, ["y"], constants(**weights, one=np.array([1])), domains=[DOMAIN])
    call = {name: normal(*shape, seed=at) for at, (name, shape) in enumerate(inputs.items())}
    assert_equal(saved(model, tmp_path), call)
