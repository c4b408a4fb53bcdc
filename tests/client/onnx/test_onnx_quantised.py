"""Quantised ONNX models: float operators between quantize and dequantize, and operators on integers."""

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved

pytestmark = pytest.mark.models
SCALES = constants(xs=np.float32(0.02), xz=np.uint8(120), ys=np.float32(0.05), yz=np.uint8(130))


def integers(*shape: int, low: int = -128, high: int = 128, dtype: type = np.int8) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def test_import_onnx_keeps_a_network_of_quantize_and_dequantize(tmp_path: Path) -> None:
    weights = SCALES | constants(
        w=integers(6, 3, 3, 3), ws=np.linspace(0.002, 0.01, 6).astype(np.float32), wz=np.zeros(6, np.int8),
        b=integers(6, low=-300, high=300, dtype=np.int32), bs=(np.linspace(0.002, 0.01, 6) * 0.02).astype(np.float32),
        bz=np.zeros(6, np.int32),
    )  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        node("DequantizeLinear", ["b", "bs", "bz"], ["db"], axis=0),
        node("Conv", ["d", "dw", "db"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "ys", "yz"], ["p"]),
        node("DequantizeLinear", ["p", "ys", "yz"], ["y"]),
    ]
    path = saved(model_of(nodes, {"x": (1, 3, 7, 7)}, ["y"], weights), tmp_path)
    calls = [{"x": normal(1, 3, 7, 7, seed=seed) * 3} for seed in range(3)]
    model = assert_equal(path, *calls, tolerance=0.05 / 3)
    assert {array.dtype for array in model.weights["main"]} == {np.dtype(np.int8)}


@pytest.mark.parametrize("per_channel", [False, True])
def test_import_onnx_converts_qlinear_conv(tmp_path: Path, per_channel: bool) -> None:
    scale = np.linspace(0.002, 0.01, 6).astype(np.float32) if per_channel else np.float32(0.005)
    weights = SCALES | constants(
        w=integers(6, 3, 3, 3), ws=scale, wz=np.zeros(np.shape(scale), np.int8),
        b=integers(6, low=-300, high=300, dtype=np.int32),
    )  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    types = {"x": TensorProto.UINT8, "y": TensorProto.UINT8}
    nodes = [node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
    path = saved(model_of(nodes, {"x": (1, 3, 7, 7)}, ["y"], weights, types=types), tmp_path)
    assert_equal(path, {"x": integers(1, 3, 7, 7, low=0, high=256, dtype=np.uint8)}, steps=1)


def test_import_onnx_converts_qlinear_matmul(tmp_path: Path) -> None:
    weights = SCALES | constants(w=integers(8, 5), ws=np.float32(0.01), wz=np.int8(3))
    nodes = [node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])]
    types = {"x": TensorProto.UINT8, "y": TensorProto.UINT8}
    path = saved(model_of(nodes, {"x": (4, 8)}, ["y"], weights, types=types), tmp_path)
    assert_equal(path, {"x": integers(4, 8, low=0, high=256, dtype=np.uint8)}, steps=1)


def test_import_onnx_converts_integer_products_exactly(tmp_path: Path) -> None:
    weights = constants(
        xz=np.uint8(120), w=integers(6, 3, 3, 3, low=0, high=256, dtype=np.uint8), wz=np.uint8(7), m=integers(7, 5)
    )
    nodes = [
        node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 1, 1]),
        node("MatMulInteger", ["x", "m", "xz"], ["z"]),
    ]
    types = {"x": TensorProto.UINT8, "y": TensorProto.INT32, "z": TensorProto.INT32}
    path = saved(model_of(nodes, {"x": (1, 3, 7, 7)}, ["y", "z"], weights, types=types), tmp_path)
    assert_equal(path, {"x": integers(1, 3, 7, 7, low=0, high=256, dtype=np.uint8)})


def test_import_onnx_converts_convolutions_of_inputs_that_are_quantised_at_run_time(tmp_path: Path) -> None:
    weights = constants(w=integers(6, 3, 3, 3), wz=np.int8(3))
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("ConvInteger", ["q", "w", "z", "wz"], ["c"], pads=[1, 1, 1, 1]),
        node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    path = saved(model_of(nodes, {"x": (1, 3, 7, 7)}, ["y"], weights), tmp_path)
    assert_equal(path, {"x": normal(1, 3, 7, 7)}, tolerance=1e-2)  # an input may be rounded to either of two integers


def test_import_onnx_quantises_zeros_in_steps_of_one(tmp_path: Path) -> None:
    node_of_zeros = node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    types = {"q": TensorProto.UINT8, "z": TensorProto.UINT8}
    path = saved(model_of([node_of_zeros], {"x": (2, 3)}, ["q", "s", "z"], {}, types=types), tmp_path)
    assert_equal(path, {"x": np.zeros((2, 3), np.float32)}, steps=0)


def test_import_onnx_converts_quantised_operators_of_onnxruntime(tmp_path: Path) -> None:
    weights = SCALES | constants(g=integers(5, 3, dtype=np.int8), gs=np.float32(0.01), gz=np.int8(0))
    domain = {"domain": "com.microsoft"}
    nodes = [
        node("QLinearAdd", ["x", "xs", "xz", "x", "xs", "xz", "ys", "yz"], ["a"], **domain),
        node("QLinearMul", ["a", "ys", "yz", "x", "xs", "xz", "ys", "yz"], ["m"], **domain),
        node("QLinearConcat", ["ys", "yz", "a", "ys", "yz", "m", "ys", "yz"], ["c"], axis=1, **domain),
        node("QLinearGlobalAveragePool", ["x", "xs", "xz", "ys", "yz"], ["p"], channels_last=0, **domain),
        node("QLinearLeakyRelu", ["x", "xs", "xz", "ys", "yz"], ["l"], alpha=0.2, **domain),
        node("QLinearSoftmax", ["x", "xs", "xz", "ys", "yz"], ["e"], axis=-1, opset=13, **domain),
        node("Flatten", ["p"], ["f"]),
        node("QGemm", ["f", "ys", "yz", "g", "gs", "gz", "", "ys", "yz"], ["z"], transB=1, **domain),
    ]
    types = dict.fromkeys(("x", "c", "l", "e", "z"), TensorProto.UINT8)
    model = model_of(nodes, {"x": (1, 3, 4, 4)}, ["c", "l", "e", "z"], weights, types=types, domains=["com.microsoft"])
    path = saved(model, tmp_path)
    assert_equal(path, {"x": integers(1, 3, 4, 4, low=0, high=256, dtype=np.uint8)}, steps=1)


class Readings(CalibrationDataReader):  # type: ignore[misc]
    """The inputs that onnxruntime takes the ranges of the activations from."""

    def __init__(self, *calls: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
        self._calls = iter(calls)

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[type-arg]
        return next(self._calls, None)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    weights = constants(w=normal(16, 3, 3, 3, seed=1), b=normal(16, seed=2), k=normal(16, 10, seed=3))
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Add", ["r", "r"], ["a"]),
        node("GlobalAveragePool", ["a"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "k"], ["y"]),
    ]
    return saved(model_of(nodes, {"x": (1, 3, 12, 12)}, ["y"], weights), tmp_path, "float.onnx")


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_import_onnx_keeps_what_onnxruntime_quantises(tmp_path: Path, network: Path, form: QuantFormat) -> None:
    calls = [{"x": normal(1, 3, 12, 12, seed=seed)} for seed in range(3)]
    path = tmp_path / "quantised.onnx"
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(str(network), str(path), Readings(*calls), quant_format=form, **kinds)
    model = assert_equal(path, *calls, tolerance=0.02)
    assert np.dtype(np.int8) in {array.dtype for array in model.weights["main"]}


def test_import_onnx_keeps_activations_quantised_at_run_time(tmp_path: Path, network: Path) -> None:
    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(str(network), str(path), op_types_to_quantize=["MatMul"])
    assert_equal(path, {"x": normal(1, 3, 12, 12)})
