"""Sizes that a file derives from the shapes of its tensors, as Keras does where the batch is open, are constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.frontend.untuned import by_tvm
from tests.client.tflite.model_builder import NONE, ModelBuilder, options, schema
from tests.client.tflite.running import by_litert
from tunefarm.frontend.tflite.reading import import_tflite

pytestmark = pytest.mark.models
INT32 = schema.TensorType.INT32


def integer(model: ModelBuilder, *numbers: int) -> int:
    return model.weight(np.array(numbers, np.int32))


def shape_of(model: ModelBuilder, tensor: int, rank: int) -> int:
    shape = model.tensor((rank,), "int32")
    model.operator("SHAPE", [tensor], [shape], options("ShapeOptions", outType=INT32))
    return shape


def element_of(model: ModelBuilder, vector: int, place: int) -> int:
    element = model.tensor((), "int32")
    bounds = [integer(model, each) for each in (place, place + 1, 1)]
    model.operator("STRIDED_SLICE", [vector, *bounds], [element], options("StridedSliceOptions", shrinkAxisMask=1))
    return element


def equal(path: Path, *inputs: Any) -> None:
    (found,), (expected,) = by_tvm(import_tflite(path, {}), list(inputs)), by_litert(path, list(inputs))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_reshape_that_keeps_the_batch(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, wanted, result = model.input((2, 4, 6)), model.tensor((2,), "int32"), model.tensor((2, 24))
    batch, rest = element_of(model, shape_of(model, x, 3), 0), model.weight(np.array(24, np.int32))
    model.operator("PACK", [batch, rest], [wanted], options("PackOptions", valuesCount=2, axis=0))
    model.operator("RESHAPE", [x, wanted], [result], options("ReshapeOptions"))
    equal(model.save(tmp_path, result), np.arange(48, dtype=np.float32).reshape(2, 4, 6))


def test_reshape_to_products_of_sizes(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, wanted, result = model.input((2, 4, 6)), model.tensor((2,), "int32"), model.tensor((8, 6))
    shape, rows = shape_of(model, x, 3), model.tensor((), "int32")
    first, row = model.tensor((2,), "int32"), model.tensor((1,), "int32")
    model.operator("SLICE", [shape, integer(model, 0), integer(model, 2)], [first], options("SliceOptions"))
    axis = model.weight(np.array(0, np.int32))
    model.operator("REDUCE_PROD", [first, axis], [rows], options("ReducerOptions", keepDims=False))
    model.operator("EXPAND_DIMS", [rows, axis], [row], options("ExpandDimsOptions"))
    last = model.tensor((1,), "int32")
    model.operator("GATHER", [shape, integer(model, 2)], [last], options("GatherOptions", axis=0))
    joined = options("ConcatenationOptions", axis=0, fusedActivationFunction=NONE)
    model.operator("CONCATENATION", [row, last], [wanted], joined)
    model.operator("RESHAPE", [x, wanted], [result], options("ReshapeOptions"))
    equal(model.save(tmp_path, result), np.arange(48, dtype=np.float32).reshape(2, 4, 6))


@pytest.mark.parametrize("code", ["FILL", "BROADCAST_TO", "SLICE"])
def test_sizes_of_other_operators(tmp_path: Path, code: str) -> None:
    model = ModelBuilder()
    x, result = model.input((2, 6)), model.tensor((2, 6))
    shape, changed = shape_of(model, x, 2), model.tensor((2, 6))
    if code == "FILL":
        model.operator(code, [shape, model.weight(np.array(2.5, np.float32))], [changed], options("FillOptions"))
    elif code == "BROADCAST_TO":
        row = model.weight(np.arange(6, dtype=np.float32))
        model.operator(code, [row, shape], [changed], options("BroadcastToOptions"), version=2)
    else:
        table = model.weight(np.arange(24, dtype=np.float32).reshape(3, 8))
        model.operator(code, [table, integer(model, 1, 1), shape], [changed], options("SliceOptions"))
    model.operator("ADD", [x, changed], [result], options("AddOptions", fusedActivationFunction=NONE))
    equal(model.save(tmp_path, result), np.arange(12, dtype=np.float32).reshape(2, 6))


def test_size_may_be_a_result(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, doubled = model.input((2, 6)), model.tensor((2,), "int32")
    shape = shape_of(model, x, 2)
    model.operator("MUL", [shape, integer(model, 2, 3)], [doubled], options("MulOptions", fusedActivationFunction=NONE))
    equal(model.save(tmp_path, doubled), np.ones((2, 6), np.float32))
