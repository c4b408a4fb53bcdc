"""Builds ONNX models, and runs them in onnxruntime and, as Relax, in TVM's virtual machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.client.frontend.untuned import Array, by_tvm
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm.frontend.relax_model import RelaxModel

OPSET = 17


def normal(*shape: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * 0.5).astype(np.float32)


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = OPSET,
    types: Mapping[str, int] | None = None,
    domains: Sequence[str] = (),
) -> Any:
    """A model; outputs have the type float32 and no shape, unless ``types`` names another."""
    kinds = types or {}

    def value(name: str, shape: Sequence[int | str] | None) -> Any:
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        list(nodes),
        "test",
        [value(name, shape) for name, shape in inputs.items()],
        [value(name, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 20 else 10)


def saved(model: Any, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def by_onnxruntime(path: Path, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # else products saturate without VNNI
    try:
        session = onnxruntime.InferenceSession(str(path), options)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        # It cannot have that where weights share a zero point. Without optimizations it computes with their floats.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options)
    return list(session.run(None, dict(inputs)))


def assert_equal(path: Path, *calls: Mapping[str, Array], tolerance: float = 1e-5, steps: int = 0) -> RelaxModel:
    """TVM gives what onnxruntime gives, for each call.

    ``tolerance`` is relative to the largest value of an output; integers differ by at most ``steps``.
    """
    model = read_onnx(path, {name: tuple(array.shape) for name, array in calls[0].items()})
    for call in calls:
        expected = by_onnxruntime(path, call)
        found = by_tvm(model, list(call.values()))
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            worst = np.max(np.abs(mine.astype(np.float64) - theirs.astype(np.float64)), initial=0)
            allowed = tolerance * np.max(np.abs(theirs), initial=1e-9) if theirs.dtype.kind == "f" else steps
            assert worst <= allowed
    return model


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


def joined_or_kept(condition: str) -> Any:
    """An ``If`` that joins ``x`` with itself, or gives it as it is."""
    value = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    joined = helper.make_graph([node("Concat", ["x", "x"], ["result"], axis=1)], "joined", [], [value])
    kept = helper.make_graph([node("Identity", ["x"], ["result"])], "kept", [], [value])
    return node("If", [condition], ["y"], then_branch=joined, else_branch=kept)


def constants(**arrays: Any) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in arrays.items()}


__all__ = ["TensorProto", "assert_equal", "by_tvm", "constants", "model_of", "node", "normal", "onnx", "saved"]
