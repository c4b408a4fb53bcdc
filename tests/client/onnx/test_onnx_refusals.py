"""ONNX models that cannot be used are refused with what is wrong and what to do."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.client.onnx.graphs import TensorProto, by_tvm, constants, joined_or_kept, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models


def refusal(model: Any, folder: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> BadInput:
    path = model if isinstance(model, Path) else saved(model, folder)
    with pytest.raises(BadInput) as caught:
        read_onnx(path, shapes or {})
    return caught.value


def dense() -> Any:
    weights = constants(w=normal(40, 50), b=normal(50))
    return model_of([node("Gemm", ["x", "w", "b"], ["y"])], {"x": (2, 40)}, ["y"], weights)


def test_import_onnx_refuses_what_is_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"this is not a protobuf")
    assert "damaged or not an ONNX model" in refusal(path, tmp_path).problem
    path.write_bytes(b"")
    assert "contains no ONNX graph" in refusal(path, tmp_path).problem
    assert "not a regular file" in refusal(tmp_path, tmp_path).problem
    assert "No such file" in refusal(tmp_path / "missing.onnx", tmp_path).problem


def test_import_onnx_refuses_a_truncated_model(tmp_path: Path) -> None:
    whole = dense().SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(1, len(whole), len(whole) // 25):
        path.write_bytes(whole[:length])
        assert refusal(path, tmp_path).fix


def test_import_onnx_refuses_names_that_are_no_text(tmp_path: Path) -> None:
    model = dense()
    model.graph.node[0].op_type = "Name"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString().replace(b"Name", b"N\xf7me"))
    assert "not UTF-8" in refusal(path, tmp_path).problem


def test_import_onnx_refuses_files_that_protobuf_cannot_parse(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    os.truncate(path, 2**31)  # a sparse file takes no space
    error = refusal(path, tmp_path)
    assert "larger than 2 GB" in error.problem
    assert "save_as_external_data" in error.fix


def test_import_onnx_names_all_unsupported_operators(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [node("NonZero", ["x"], ["d"]), node("Identity", ["x"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [node("Identity", ["x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)]
    )
    nodes = [
        node("Secret", ["x"], ["a"], domain="vendor", name="first"),
        node("FusedConv", ["x", "x"], ["b"], domain="com.microsoft", name="second"),
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "z"], ["c"]),
        node("If", ["c"], ["i"], then_branch=inner, else_branch=other),
        node("Sum", ["a", "b", "i"], ["y"]),
    ]
    weights = constants(z=np.float32(0))
    model = model_of(nodes, {"x": (4, 4)}, ["y"], weights, domains=["vendor", "com.microsoft"])
    error = refusal(model, tmp_path)
    assert "3 nodes" in error.problem
    assert "vendor::Secret at first (float32[4, 4])" in error.problem
    assert "com.microsoft::FusedConv at second (float32[4, 4], float32[4, 4])" in error.problem
    assert "NonZero at d (float32[4, 4])" in error.problem
    assert "without the fusions of onnxruntime" in error.fix
    assert "domain vendor" in error.fix


def test_import_onnx_says_how_to_choose_between_branches_of_other_shapes(tmp_path: Path) -> None:
    model = model_of([joined_or_kept("c")], {"c": (1,), "x": (1, 3)}, ["y"], types={"c": TensorProto.BOOL})
    error = refusal(model, tmp_path)
    assert "If at y" in error.problem
    assert "y is float32[1, 6] in one branch and float32[1, 3] in the other" in error.fix
    assert "add its value as an initializer" in error.fix


def test_import_onnx_says_why_a_known_operator_has_no_conversion(tmp_path: Path) -> None:
    weights = constants(s=np.ones(2, np.float32), r=np.float32(0.5), t=np.bool_(True))
    trained = node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"], training_mode=1)
    model = model_of([trained, node("Dropout", ["x", "r", "t"], ["z"])], {"x": (1, 2, 4, 4)}, ["y", "z"], weights)
    error = refusal(model, tmp_path)
    assert "2 nodes" in error.problem
    assert "BatchNormalization: it is in training: export the model for inference" in error.fix
    assert "Dropout: it drops elements" in error.fix


def test_import_onnx_refuses_loops_that_the_input_ends_and_that_collect(tmp_path: Path) -> None:
    scalar = (
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    )
    body = helper.make_graph(
        [
            node("Add", ["a", "a"], ["next"]),
            node("ReduceSum", ["next"], ["s"], keepdims=0),
            node("Less", ["s", "m"], ["go"]),
            node("Identity", ["next"], ["each"]),
        ],
        "body",
        [*scalar, helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])],
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("each", TensorProto.FLOAT, [2]),
        ],
    )
    weights = constants(n=np.int64(9), t=np.bool_(True), m=np.float32(100))
    nodes = [node("Loop", ["n", "t", "x"], ["y", "all"], body=body)]
    error = refusal(model_of(nodes, {"x": (2,)}, ["y"], weights), tmp_path)
    assert "Loop at y" in error.problem
    assert "the data decide how many" in error.fix
    assert "constant count" in error.fix


def test_import_onnx_names_every_dimension_without_size(tmp_path: Path) -> None:
    nodes = [node("Concat", ["x", "mask"], ["y"], axis=1)]
    model = model_of(nodes, {"x": ("batch", "length"), "mask": ("batch", 3)}, ["y"])
    error = refusal(model, tmp_path)
    assert error.field == "shapes"
    assert "dimension 0 (batch) of input x; dimension 1 (length) of input x" in error.problem
    assert "input mask" not in error.problem, "its only such dimension was named"
    assert "such as x=1,1" in error.fix


def test_import_onnx_takes_one_size_for_each_name(tmp_path: Path) -> None:
    nodes = [node("Concat", ["x", "mask"], ["y"], axis=1)]
    path = saved(model_of(nodes, {"x": ("batch", "length"), "mask": ("batch", 3)}, ["y"]), tmp_path)
    model = read_onnx(path, {"x": (2, 5)})
    assert by_tvm(model, [normal(2, 5), normal(2, 3)])[0].shape == (2, 8)
    assert model.notes == ("Dimension batch of input x is 2.", "Dimension length of input x is 5.")
    error = refusal(path, tmp_path, {"x": (2, 5), "mask": (4, 3)})
    assert "Dimension 0 of input mask (batch, 3) is 2, not 4" in error.problem


def test_import_onnx_refuses_shapes_that_contradict_the_model(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    assert "no input image" in refusal(path, tmp_path, {"image": (1, 3)}).problem
    assert "Its inputs are x" in refusal(path, tmp_path, {"w": (40, 50)}).fix
    assert "Dimension 1 of input x (2, 40) is 40, not 41" in refusal(path, tmp_path, {"x": (2, 41)}).problem
    assert "2 dimensions" in refusal(path, tmp_path, {"x": (2, 40, 1)}).problem
    assert "below 1" in refusal(path, tmp_path, {"x": (0, 40)}).problem


def test_import_onnx_refuses_a_missing_weight(tmp_path: Path) -> None:
    model = dense()
    del model.graph.initializer[1]
    assert "b" in refusal(model, tmp_path).problem
    model = dense()
    model.graph.initializer[0].ClearField("raw_data")
    assert "Weight w of shape (40, 50) and type float32 has 0 numbers" in refusal(model, tmp_path).problem


def test_import_onnx_refuses_mistyped_weights(tmp_path: Path) -> None:
    model = dense()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    assert "has 7996 bytes instead of 8000" in refusal(model, tmp_path).problem
    model = dense()
    model.graph.initializer[0].data_type = TensorProto.INT32
    assert "contradict each other" in refusal(model, tmp_path).problem
    model = dense()
    model.graph.initializer[0].data_type = 99
    assert "unknown type 99" in refusal(model, tmp_path).problem
    model = dense()
    model.graph.initializer[0].dims[:] = [50, 40]
    assert "contradict each other" in refusal(model, tmp_path).problem


def test_import_onnx_refuses_a_newer_opset(tmp_path: Path) -> None:
    model = dense()
    model.opset_import[0].version = 999
    error = refusal(model, tmp_path)
    assert "opset 999" in error.problem
    assert "opset_version=" in error.fix


def test_import_onnx_refuses_a_graph_that_is_none(tmp_path: Path) -> None:
    model = dense()
    model.graph.node[0].op_type = "NoSuchOperator"
    assert "checker" in refusal(model, tmp_path).problem


@pytest.mark.parametrize(("operator", "advice"), [("NonMaxSuppression", "boxes and scores"), ("NonZero", "masks")])
def test_import_onnx_names_operators_whose_results_have_a_size_of_data(
    tmp_path: Path, operator: str, advice: str
) -> None:
    inputs = {"x": (1, 6, 4), "s": (1, 2, 6)} if operator == "NonMaxSuppression" else {"x": (4, 3)}
    model = model_of([node(operator, list(inputs), ["y"])], inputs, ["y"], types={"y": TensorProto.INT64})
    error = refusal(model, tmp_path)
    assert operator in error.problem
    assert advice in error.problem + error.fix
