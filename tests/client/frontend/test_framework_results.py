"""Models come with what their framework computes for three inputs, where it is installed and runs them."""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from jax import export
from onnx import TensorProto, helper

from tests.client.onnx.graphs import model_of, normal
from tests.client.tflite.model_builder import ModelBuilder
from tests.client.tflite.running import by_litert
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.stablehlo_model import import_stablehlo
from tunefarm.frontend.tflite.reading import import_tflite

pytestmark = pytest.mark.models
WEIGHT = normal(64, 64, seed=1)


def dense(path: Path, *, kind: int = TensorProto.FLOAT) -> Path:
    """``tanh(x @ WEIGHT)``."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["y"])]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    model = model_of(nodes, {"x": [3, 64]}, ["y"], {"w": WEIGHT.astype(dtype)}, types={"x": kind, "y": kind})
    onnx.save(model, path)
    return path


def assert_results(model: RelaxModel, expected: Any) -> None:
    assert len(model.references) == 3
    for reference in model.references:
        (found,) = reference.outputs
        np.testing.assert_allclose(found, expected(*reference.inputs), rtol=1e-5, atol=1e-6)
    assert (model.references[-1].inputs[0] > 0).all()
    assert (model.references[0].inputs[0] < 0).any()


def test_onnx_models_have_results_of_onnxruntime(tmp_path: Path) -> None:
    assert_results(read_onnx(dense(tmp_path / "m.onnx"), {}), lambda x: np.tanh(x @ WEIGHT))


def test_onnx_models_without_onnxruntime_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert read_onnx(dense(tmp_path / "m.onnx"), {}).references == ()


def test_models_in_halves_have_none(tmp_path: Path) -> None:
    assert read_onnx(dense(tmp_path / "m.onnx", kind=TensorProto.FLOAT16), {}).references == ()


def test_models_that_round_to_bytes_have_none(tmp_path: Path) -> None:
    scale = np.array(0.1, np.float32)
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale"], ["bytes"]),
             helper.make_node("DequantizeLinear", ["bytes", "scale"], ["y"])]  # fmt: skip
    onnx.save(model_of(nodes, {"x": [3, 4]}, ["y"], {"scale": scale}), tmp_path / "m.onnx")
    assert read_onnx(tmp_path / "m.onnx", {}).references == ()


def test_models_that_onnxruntime_stops_have_none(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["x", "last"], ["y"])]
    model = model_of(nodes, {"x": [3, 4], "last": [1]}, ["y"], types={"last": TensorProto.INT64})
    onnx.save(model, tmp_path / "m.onnx")
    assert len(read_onnx(tmp_path / "m.onnx", {}).references) == 3
    onnx.save(model_of([*nodes, helper.make_node("Gather", ["y", "last"], ["z"])], {"x": [3, 4], "last": [1]}, ["z"],
                       types={"last": TensorProto.INT64}), tmp_path / "n.onnx")  # fmt: skip
    assert read_onnx(tmp_path / "n.onnx", {}).references == ()


def test_exports_of_jax_have_results_of_xla(tmp_path: Path) -> None:
    exported = export.export(jax.jit(lambda x, unused, y: (jax.numpy.tanh(x["a"] @ WEIGHT), y)[0]))(
        {"a": jax.ShapeDtypeStruct((3, 64), "float32")}, jax.ShapeDtypeStruct((2,), "float32"),
        jax.ShapeDtypeStruct((1,), "float32"),
    )  # fmt: skip
    path = tmp_path / "m.jax"
    path.write_bytes(exported.serialize())
    assert_results(import_stablehlo(path, {}), lambda *given: np.tanh(given[0] @ WEIGHT))


def test_tflite_models_have_results_of_litert(tmp_path: Path) -> None:
    builder = ModelBuilder()
    x, y = builder.input((3, 4)), builder.tensor((3, 4))
    builder.operator("TANH", [x], [y])
    path = builder.save(tmp_path, y)
    assert_results(import_tflite(path, {}), lambda given: by_litert(path, [given])[0])
