"""The models of the benchmark, exported from torch, give in TVM what they give in onnxruntime."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from benchmarks.models.zoo.tiny import TINY_ZOO
from tests.client.onnx.graphs import assert_equal

pytestmark = pytest.mark.models
OPSET = 17


def quantize(g: Any, x: Any, scale: Any, zero: Any, low: Any, high: Any, dtype: Any) -> Any:
    return g.op("QuantizeLinear", x, as_float(g, scale), as_int8(g, zero))


def dequantize(g: Any, x: Any, scale: Any, zero: Any, low: Any, high: Any, dtype: Any, out: Any = None) -> Any:
    return g.op("DequantizeLinear", x, as_float(g, scale), as_int8(g, zero))


def dequantize_channels(
    g: Any, x: Any, scale: Any, zero: Any, axis: Any, low: Any, high: Any, dtype: Any, out: Any = None
) -> Any:
    return g.op("DequantizeLinear", x, as_float(g, scale), as_int8(g, zero), axis_i=int(axis.node().t("value")))


def as_float(g: Any, value: Any) -> Any:
    return g.op("Cast", value, to_i=torch.onnx.TensorProtoDataType.FLOAT)


def as_int8(g: Any, value: Any) -> Any:
    return g.op("Cast", value, to_i=torch.onnx.TensorProtoDataType.INT8)


@pytest.fixture
def quantised_operators() -> Any:
    """torch has no ONNX export of its own quantised operators: the exporter is told what they are."""
    names = {"quantize_per_tensor": quantize, "dequantize_per_tensor": dequantize,
             "dequantize_per_channel": dequantize_channels}  # fmt: skip
    for name, symbolic in names.items():
        torch.onnx.register_custom_op_symbolic(f"quantized_decomposed::{name}", symbolic, OPSET)
    yield
    for name in names:
        torch.onnx.unregister_custom_op_symbolic(f"quantized_decomposed::{name}", OPSET)


@pytest.mark.parametrize("name", TINY_ZOO)
def test_import_onnx_keeps_the_model(tmp_path: Path, name: str, quantised_operators: Any) -> None:
    model = TINY_ZOO[name]
    module, inputs = model.build()
    path = tmp_path / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter is deprecated, and traces Python numbers
        torch.onnx.export(
            module, inputs, str(path), dynamo=False, opset_version=OPSET,
            input_names=list(model.input_names), output_names=list(model.output_names),
        )  # fmt: skip
    calls = [
        {key: np.asarray(value) for key, value in zip(model.input_names, model.inputs(number), strict=True)}
        for number in range(3)
    ]
    imported = assert_equal(path, *calls, tolerance=model.tolerance)
    parameters = {variable.name for variable in imported.module["main"].params}
    graph = onnx.load(path).graph
    of_file = {tensor.name for tensor in graph.initializer} | {name for node in graph.node for name in node.output}
    assert set(model.input_names) < parameters <= of_file | set(model.input_names)
