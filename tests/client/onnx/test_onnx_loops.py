"""Loops that the data end give in TVM what they give in onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved

pytestmark = pytest.mark.models
SHAPE = (2, 4)


def looped(nodes: Sequence[Any], carried: Sequence[str], results: Sequence[str], shape: Sequence[int] = SHAPE) -> Any:
    """The body of a loop: it computes ``go`` and one result for each of ``carried``."""
    inputs = [("i", TensorProto.INT64, ()), ("c", TensorProto.BOOL, ())]
    inputs += [(name, TensorProto.FLOAT, shape) for name in carried]
    outputs = [("go", TensorProto.BOOL, ()), *((name, TensorProto.FLOAT, shape) for name in results)]
    described = ([helper.make_tensor_value_info(*each) for each in values] for values in (inputs, outputs))
    return helper.make_graph(nodes, "body", *described)


def ends_at(limit: str, value: str) -> list[Any]:
    """Nodes that go on while the sum of absolute values is below a limit."""
    return [node("ReduceL1", [value], ["s"], keepdims=0), node("Less", ["s", limit], ["go"])]


@pytest.mark.parametrize("factor", [1e-3, 1.0, 8.0, 1e3])
def test_loop_ends_by_its_condition_or_its_count(tmp_path: Path, factor: float) -> None:
    """It carries two tensors, and reads a large weight, a small one and a value of the enclosing graph."""
    body = looped(
        [
            node("MatMul", ["a", "w"], ["product"]),
            node("Add", ["product", "scaled"], ["next"]),
            node("Mul", ["b", "h"], ["other"]),
            *ends_at("m", "next"),
        ],
        ["a", "b"],
        ["next", "other"],
    )
    nodes = [node("Mul", ["x", "h"], ["scaled"]), node("Loop", ["n", "t", "x", "scaled"], ["y", "z"], body=body)]
    weights = constants(n=np.int64(7), t=np.bool_(True), m=np.float32(200), h=np.float32(1.5), w=normal(4, 4, seed=4))
    model = model_of(nodes, {"x": SHAPE}, ["y", "z"], weights)
    assert_equal(saved(model, tmp_path), {"x": factor * normal(*SHAPE)})


@pytest.mark.parametrize("inputs", [["", "t", "x"], ["n", "", "x"]])
@pytest.mark.parametrize("steps", [0, 5, 300])
def test_loop_without_a_count_or_a_first_condition(tmp_path: Path, inputs: list[str], steps: int) -> None:
    body = looped([node("Add", ["a", "h"], ["next"]), *ends_at("m", "next")], ["a"], ["next"])
    limit = np.float32(8 * steps) if not inputs[0] else np.float32(1e9)
    weights = constants(n=np.int64(steps), t=np.bool_(True), m=limit, h=np.float32(1))
    used = {name: array for name, array in weights.items() if name in {*inputs, "m", "h"}}
    model = model_of([node("Loop", inputs, ["y"], body=body)], {"x": SHAPE}, ["y"], used)
    assert_equal(saved(model, tmp_path), {"x": np.ones(SHAPE, np.float32)})


def test_condition_inside_of_a_loop(tmp_path: Path) -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(operator, ["a", "h"], ["r"])],
            name,
            [],
            [helper.make_tensor_value_info("r", TensorProto.FLOAT, SHAPE)],
        )
        for name, operator in (("then", "Mul"), ("else", "Sub"))
    }
    body = looped(
        [
            node("ReduceSum", ["a"], ["sum"], keepdims=0),
            node("Greater", ["sum", "zero"], ["positive"]),
            node("If", ["positive"], ["next"], **branches),
            *ends_at("m", "next"),
        ],
        ["a"],
        ["next"],
    )
    weights = constants(n=np.int64(20), t=np.bool_(True), m=np.float32(60), h=np.float32(1.7), zero=np.float32(0))
    model = model_of([node("Loop", ["n", "t", "x"], ["y"], body=body)], {"x": SHAPE}, ["y"], weights)
    for sign in (1, -1):
        assert_equal(saved(model, tmp_path), {"x": sign * np.abs(normal(*SHAPE))})


def test_bodies_and_the_graph_read_one_weight(tmp_path: Path) -> None:
    """Each branch of a condition, a loop in one of them, and a node behind it."""
    body = looped([node("MatMul", ["a", "w"], ["next"]), *ends_at("m", "next")], ["a"], ["next"])
    nodes_of = {
        "then": [node("MatMul", ["x", "w"], ["then_in"]), node("Loop", ["n", "t", "then_in"], ["then_out"], body=body)],
        "else": [node("MatMul", ["x", "w"], ["else_in"]), node("Exp", ["else_in"], ["else_out"])],
    }
    branches = {
        f"{name}_branch": helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, SHAPE)]
        )
        for name, nodes in nodes_of.items()
    }
    nodes = [node("If", ["c"], ["z"], **branches), node("MatMul", ["z", "w"], ["y"])]
    weights = constants(n=np.int64(5), t=np.bool_(True), m=np.float32(50), w=normal(4, 4, seed=4))
    model = model_of(nodes, {"c": (), "x": SHAPE}, ["y"], weights, types={"c": TensorProto.BOOL})
    calls = [{"c": np.array(condition), "x": normal(*SHAPE)} for condition in (True, False)]
    assert_equal(saved(model, tmp_path), *calls)
