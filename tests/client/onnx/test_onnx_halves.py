"""Operators of float16 compute what onnxruntime computes where intermediate values leave the range of halves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.onnx.graphs import TensorProto, assert_equal, by_tvm, constants, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx

pytestmark = pytest.mark.models
HALF = TensorProto.FLOAT16


def full(number: float, *shape: int) -> Any:
    return np.full(shape, number, np.float16)


@pytest.mark.parametrize(
    ("operator", "number", "attributes"),
    [
        ("ReduceL2", 300, {"axes": [1]}),
        ("ReduceL2", 1e-4, {"axes": [1]}),
        ("ReduceSumSquare", 1e-3, {"axes": [1]}),
        ("LpNormalization", 300, {"axis": 1}),
    ],
)
def test_squares_are_wide(operator: str, number: float, attributes: dict[str, Any], tmp_path: Path) -> None:
    squares = node(operator, ["x"], ["y"], **attributes)
    model = model_of([squares], {"x": (2, 4)}, ["y"], types=dict.fromkeys("xy", HALF))
    assert_equal(saved(model, tmp_path), {"x": full(number, 2, 4)}, tolerance=1e-3)


def test_sums_of_einsum_are_wide(tmp_path: Path) -> None:
    types = dict.fromkeys("xzy", HALF)
    einsum = node("Einsum", ["x", "z"], ["y"], equation="ij,kj->ik")
    model = model_of([einsum], {"x": (2, 4096), "z": (3, 4096)}, ["y"], types=types)
    assert_equal(saved(model, tmp_path), {"x": full(1, 2, 4096), "z": full(1, 3, 4096)}, tolerance=1e-3)


HEADS, TOKENS, ELEMENTS = 2, 3, 64
ATTENTIONS = {
    "multi head": (node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=HEADS), {}),
    "grouped": (
        node("GroupQueryAttention", ["q", "k", "v", "", "", "n", "t"], ["y"], domain="com.microsoft",
             num_heads=HEADS, kv_num_heads=HEADS),
        constants(n=np.array([TOKENS - 1], np.int32), t=np.array(TOKENS, np.int32)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attention", "weights"), ATTENTIONS.values(), ids=ATTENTIONS)
def test_products_of_attention_may_exceed_the_largest_half(attention: Any, weights: Any, tmp_path: Path) -> None:
    """All scores are equal, so that each row is the mean of the values that it may read."""
    shape = (1, TOKENS, HEADS * ELEMENTS)
    inputs, types = dict.fromkeys("qkv", shape), dict.fromkeys("qkvy", HALF)
    model = model_of([attention], inputs, ["y"], weights, types=types, domains=["com.microsoft"])
    values = normal(*shape).astype(np.float16)
    (found,) = by_tvm(read_onnx(saved(model, tmp_path), {}), [full(40, *shape), full(40, *shape), values])
    means = values.astype(np.float32).mean(1)
    np.testing.assert_allclose(found[:, -1], means, atol=2e-3)
