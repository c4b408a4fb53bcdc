"""Weights that are quantized alone, in blocks: MatMulNBits, GatherBlockQuantized, and DequantizeLinear with blocks."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.client.onnx.graphs import assert_equal, constants, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
INNER, WIDTH, BLOCK = 64, 24, 16
X = {"x": (2, 3, INNER)}
CALL = {"x": normal(2, 3, INNER)}
MICROSOFT = {"domain": "com.microsoft"}


def random_bytes(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).integers(0, 256, shape).astype(np.uint8)


def scales(*shape: int) -> Any:
    return np.random.default_rng(1).uniform(0.01, 0.02, shape).astype(np.float32)


def products(inner: int, bits: int, **more: Any) -> Any:
    blocks = -(-inner // BLOCK)
    matrix = random_bytes(WIDTH, blocks, BLOCK * bits // 8)
    weights = constants(w=matrix, s=scales(WIDTH, blocks), **more)
    names = ["x", "w", "s", "z" if "z" in more else "", "", "b" if "b" in more else ""]
    nodes = [node("MatMulNBits", names, ["y"], K=inner, N=WIDTH, bits=bits, block_size=BLOCK, **MICROSOFT)]
    return model_of(nodes, {"x": (2, 3, inner)}, ["y"], weights, domains=["com.microsoft"])


@pytest.mark.parametrize(
    ("inner", "bits", "more"),
    [
        (INNER, 4, {}),
        (INNER, 8, {}),
        (INNER, 2, {}),
        (INNER, 4, {"z": random_bytes(WIDTH, 2)}),
        (INNER, 8, {"z": random_bytes(WIDTH, 4)}),
        (INNER, 4, {"z": normal(WIDTH, 4) * 8}),
        (INNER, 4, {"b": normal(WIDTH)}),
        (48, 4, {"z": random_bytes(WIDTH, 2)}),
        (40, 4, {}),
    ],
    ids=[
        "4 bits",
        "8 bits",
        "2 bits",
        "zero points",
        "zero points of 8 bits",
        "floats as zero points",
        "bias",
        "odd",
        "rest",
    ],
)
def test_import_onnx_converts_products_of_few_bits(tmp_path: Path, inner: int, bits: int, more: Any) -> None:
    model = assert_equal(saved(products(inner, bits, **more), tmp_path), {"x": normal(2, 3, inner)}, tolerance=1e-5)
    assert np.dtype(np.uint8) in {array.dtype for array in model.weights["main"]}


def test_import_onnx_refuses_products_of_other_bits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="integers of 5 bits"):
        read_onnx(saved(products(INNER, 5), tmp_path), {"x": (2, 3, INNER)})


def test_import_onnx_refuses_products_with_an_order_of_rows(tmp_path: Path) -> None:
    model = products(INNER, 4)
    model.graph.node[0].input[4] = "order"
    model.graph.initializer.append(helper.make_tensor("order", TensorProto.INT32, [INNER], list(range(INNER))))
    with pytest.raises(BadInput, match="g_idx"):
        read_onnx(saved(model, tmp_path), {"x": (2, 3, INNER)})


@pytest.mark.parametrize("has_zero_points", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_import_onnx_converts_rows_of_few_bits(tmp_path: Path, bits: int, has_zero_points: bool) -> None:
    weights = constants(w=random_bytes(30, INNER * bits // 8), s=scales(30, INNER // BLOCK))
    weights |= constants(z=random_bytes(30, INNER // BLOCK * bits // 8)) if has_zero_points else {}
    names = ["w", "x", "s", *(["z"] if has_zero_points else [])]
    attributes = {"bits": bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
    nodes = [node("GatherBlockQuantized", names, ["y"], **attributes, **MICROSOFT)]
    types = {"x": TensorProto.INT64}
    model = model_of(nodes, {"x": (2, 5)}, ["y"], weights, types=types, domains=["com.microsoft"])
    call = {"x": np.random.default_rng(0).integers(0, 30, (2, 5))}
    assert_equal(saved(model, tmp_path), call, tolerance=1e-6)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_import_onnx_converts_rows_of_4_bit_integers(tmp_path: Path, dtype: str) -> None:
    weights = constants(w=four_bits(dtype, 30, INNER), s=scales(30, INNER // BLOCK))
    weights |= constants(z=four_bits(dtype, 30, INNER // BLOCK))
    nodes = [node("GatherBlockQuantized", ["w", "x", "s", "z"], ["y"], block_size=BLOCK, quantize_axis=1, **MICROSOFT)]
    model = model_of(
        nodes, {"x": (5,)}, ["y"], weights, types={"x": TensorProto.INT64}, domains=["com.microsoft"], opset=21
    )
    assert_equal(saved(model, tmp_path), {"x": np.array([0, 7, 29, 7, 3])}, tolerance=1e-6)


def four_bits(dtype: str, *shape: int) -> Any:
    low, high = (-8, 8) if dtype == "int4" else (0, 16)
    return np.random.default_rng(2).integers(low, high, shape).astype(getattr(ml_dtypes, dtype))


@pytest.mark.parametrize(("dtype", "has_zero_points"), [("int4", False), ("uint4", True), ("int8", True)])
@pytest.mark.parametrize("axis", [0, 1])
def test_import_onnx_dequantizes_blocks(tmp_path: Path, dtype: str, has_zero_points: bool, axis: int) -> None:
    shape, blocks = (INNER, 32), (INNER // BLOCK, 32) if axis == 0 else (INNER, 32 // BLOCK)

    def numbers(*extents: int) -> Any:
        return (random_bytes(*extents).astype(np.int8)) if dtype == "int8" else four_bits(dtype, *extents)

    weights = constants(w=numbers(*shape), s=scales(*blocks))
    weights |= constants(z=numbers(*blocks)) if has_zero_points else {}
    names = ["w", "s", *(["z"] if has_zero_points else [])]
    nodes = [
        node("DequantizeLinear", names, ["d"], axis=axis, block_size=BLOCK),
        node("Add", ["x", "d"], ["y"]),
    ]
    model = model_of(nodes, {"x": shape}, ["y"], weights, opset=21)
    assert_equal(saved(model, tmp_path), {"x": normal(*shape)}, tolerance=1e-6)


def test_import_onnx_refuses_blocks_that_do_not_fill_an_axis(tmp_path: Path) -> None:
    weights = constants(w=random_bytes(40, 32).astype(np.int8), s=scales(3, 32))
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16), node("Add", ["x", "d"], ["y"])]
    with pytest.raises(BadInput, match="blocks of 16 elements"):
        read_onnx(saved(model_of(nodes, {"x": (40, 32)}, ["y"], weights, opset=21), tmp_path), {"x": (40, 32)})
