"""Scans give in TVM what they give in onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved
from tunefarm.frontend.onnx.branches import MAX_STEPS
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models


def body_of(nodes: Sequence[Any], inputs: Mapping[str, Sequence[int]], outputs: Mapping[str, Sequence[int]]) -> Any:
    described = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    )
    return helper.make_graph(nodes, "body", *described)


def recurrent_layer() -> Any:
    """The next state of a layer, and what it gives at each step: it reads two weights of the enclosing graph."""
    nodes = [
        node("MatMul", ["h", "r"], ["of_state"]),
        node("MatMul", ["x_t", "w"], ["of_input"]),
        node("Add", ["of_state", "of_input"], ["sum"]),
        node("Tanh", ["sum"], ["next"]),
        node("Mul", ["next", "two"], ["out"]),
    ]
    return body_of(nodes, {"h": (2, 4), "x_t": (2, 3)}, {"next": (2, 4), "out": (2, 4)})


WEIGHTS = constants(r=normal(4, 4, seed=1), w=normal(3, 4, seed=2), two=np.float32(2))


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [1]},
        {"scan_input_axes": [-2], "scan_output_axes": [-1]},
        {"scan_input_directions": [1], "scan_output_directions": [1], "scan_output_axes": [1]},
    ],
)
def test_recurrent_layer_as_a_scan(tmp_path: Path, attributes: Any, opset: int) -> None:
    shape = (2, 5, 3) if attributes.get("scan_input_axes") else (5, 2, 3)
    scan = node("Scan", ["h0", "x"], ["last", "y"], body=recurrent_layer(), num_scan_inputs=1, **attributes)
    model = model_of([scan], {"h0": (2, 4), "x": shape}, ["last", "y"], WEIGHTS, opset=opset)
    assert_equal(saved(model, tmp_path), {"h0": normal(2, 4, seed=3), "x": normal(*shape, seed=4)})


def test_scan_of_many_steps(tmp_path: Path) -> None:
    scan = node("Scan", ["h0", "x"], ["last", "y"], body=recurrent_layer(), num_scan_inputs=1)
    model = model_of([scan], {"h0": (2, 4), "x": (12, 2, 3)}, ["last", "y"], WEIGHTS)
    assert_equal(saved(model, tmp_path), {"h0": normal(2, 4, seed=3), "x": normal(12, 2, 3, seed=4)})


def test_scan_of_two_inputs_whose_first_result_is_not_used(tmp_path: Path) -> None:
    """It carries nothing, and its inputs run in opposite directions."""
    nodes = [node("Sub", ["a", "b"], ["sizes"]), node("Abs", ["sizes"], ["axis"])]
    body = body_of(nodes, {"a": (3,), "b": (3,)}, {"sizes": (3,), "axis": (3,)})
    scan = node("Scan", ["x", "z"], ["unused", "y"], body=body, num_scan_inputs=2, scan_input_directions=[0, 1])
    model = model_of([scan], {"x": (4, 3), "z": (4, 3)}, ["y"])
    assert_equal(saved(model, tmp_path), {"x": normal(4, 3), "z": normal(4, 3, seed=1)})


def test_scan_over_a_size_that_the_user_gives(tmp_path: Path) -> None:
    """In a branch that a constant decides, and over a computed tensor."""
    scan = node("Scan", ["h0", "turned"], ["last", "unused"], body=recurrent_layer(), num_scan_inputs=1)
    turned = node("Transpose", ["x"], ["turned"], perm=[1, 0, 2])
    inner = helper.make_graph(
        [turned, scan], "inner", [], [helper.make_tensor_value_info("last", TensorProto.FLOAT, (2, 4))]
    )
    other = helper.make_graph(
        [node("Identity", ["h0"], ["kept"])],
        "o",
        [],
        [helper.make_tensor_value_info("kept", TensorProto.FLOAT, (2, 4))],
    )
    branch = node("If", ["is_scanned"], ["y"], then_branch=inner, else_branch=other)
    weights = {**WEIGHTS, **constants(is_scanned=np.bool_(True))}
    model = model_of([branch], {"h0": (2, 4), "x": (2, "steps", 3)}, ["y"], weights)
    assert_equal(saved(model, tmp_path), {"h0": normal(2, 4), "x": normal(2, 6, 3)})


def test_longer_scan_is_refused_with_a_way_around(tmp_path: Path) -> None:
    steps = MAX_STEPS + 1
    scan = node("Scan", ["h0", "x"], ["last", "unused"], body=recurrent_layer(), num_scan_inputs=1)
    path = saved(model_of([scan], {"h0": (2, 4), "x": (steps, 2, 3)}, ["last"], WEIGHTS), tmp_path)
    with pytest.raises(BadInput, match=rf"Scan.*at most {MAX_STEPS} elements"):
        read_onnx(path, {})
