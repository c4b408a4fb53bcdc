"""TFLite models give in TVM what they give in LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.frontend.untuned import by_tvm
from tests.client.tflite.model_builder import NONE, RELU, RELU6, SAME, TANH, VALID, ModelBuilder, options
from tests.client.tflite.running import by_litert
from tunefarm.frontend.tflite.reading import import_tflite

pytestmark = pytest.mark.models
SCALE = 0.05
"""Of the activations of the quantised models."""


def normal(*shape: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * 0.5).astype(np.float32)


def integers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(np.int8)


def convolution(kind: str, **fields: Any) -> Any:
    return options(kind, dilationWFactor=1, dilationHFactor=1, **fields)


def pool(stride: int, padding: int = VALID) -> Any:
    sizes = {"strideW": stride, "strideH": stride, "filterWidth": stride, "filterHeight": stride}
    return options("Pool2DOptions", padding=padding, fusedActivationFunction=NONE, **sizes)


def equal(path: Path, inputs: list[Any], tolerance: float) -> None:
    for mine, theirs in zip(by_tvm(import_tflite(path, {}), inputs), by_litert(path, inputs), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert np.max(np.abs(mine.astype(np.float64) - theirs.astype(np.float64))) <= tolerance


def mobile_network() -> tuple[ModelBuilder, int]:
    """Convolutions with every padding and activation, a residual, pools, a dense layer and softmax."""
    model = ModelBuilder()
    x, first = model.input((1, 15, 16, 3)), model.tensor((1, 8, 8, 16))
    weights = [model.weight(normal(16, 3, 3, 3), "stem/kernel"), model.weight(normal(16), "stem/bias")]
    fields = {"strideW": 2, "strideH": 2, "fusedActivationFunction": RELU6}
    model.operator("CONV_2D", [x, *weights], [first], convolution("Conv2DOptions", padding=SAME, **fields))
    depthwise = model.tensor((1, 8, 8, 16))
    weights = [model.weight(normal(1, 3, 3, 16), "depthwise/kernel"), model.weight(normal(16))]
    fields = {"strideW": 1, "strideH": 1, "depthMultiplier": 1, "fusedActivationFunction": RELU}
    chosen = convolution("DepthwiseConv2DOptions", padding=SAME, **fields)
    model.operator("DEPTHWISE_CONV_2D", [first, *weights], [depthwise], chosen)
    total, halved, mean = model.tensor((1, 8, 8, 16)), model.tensor((1, 4, 4, 16)), model.tensor((1, 1, 1, 16))
    model.operator("ADD", [first, depthwise], [total], options("AddOptions", fusedActivationFunction=NONE))
    model.operator("MAX_POOL_2D", [total], [halved], pool(2))
    model.operator("AVERAGE_POOL_2D", [halved], [mean], pool(4))
    flat, scores, result = model.tensor((1, 16)), model.tensor((1, 10)), model.tensor((1, 10))
    shape = model.weight(np.array([1, 16], np.int32))
    model.operator("RESHAPE", [mean, shape], [flat], options("ReshapeOptions", newShape=[1, 16]))
    weights = [model.weight(normal(10, 16), "dense/kernel"), model.weight(normal(10), "dense/bias")]
    dense = options("FullyConnectedOptions", fusedActivationFunction=NONE)
    model.operator("FULLY_CONNECTED", [flat, *weights], [scores], dense)
    model.operator("SOFTMAX", [scores], [result], options("SoftmaxOptions", beta=1.0))
    return model, result


def int8_network() -> tuple[ModelBuilder, int]:
    """The same operators with int8 tensors: weights of convolutions have a scale per channel."""
    model = ModelBuilder()

    def value(*shape: int, zero: int = 3) -> int:
        return model.tensor(shape, "int8", scale=SCALE, zero=zero)

    def bias(count: int, scales: Any) -> int:
        array = np.random.default_rng(count).integers(-200, 200, count).astype(np.int32)
        return model.weight(array, scale=SCALE * scales)

    x, first = model.input((1, 8, 8, 3), "int8", scale=SCALE, zero=3), value(1, 4, 4, 8)
    scales = np.linspace(0.002, 0.01, 8)
    weights = [model.weight(integers(8, 3, 3, 3), "stem/kernel", scale=scales), bias(8, scales)]
    fields = {"strideW": 2, "strideH": 2, "fusedActivationFunction": RELU}
    model.operator("CONV_2D", [x, *weights], [first], convolution("Conv2DOptions", padding=SAME, **fields))
    depthwise = value(1, 4, 4, 8)
    weights = [model.weight(integers(1, 3, 3, 8), "depthwise/kernel", scale=scales, axis=3), bias(8, scales)]
    fields = {"strideW": 1, "strideH": 1, "depthMultiplier": 1, "fusedActivationFunction": RELU6}
    chosen = convolution("DepthwiseConv2DOptions", padding=SAME, **fields)
    model.operator("DEPTHWISE_CONV_2D", [first, *weights], [depthwise], chosen)
    total, halved, mean = value(1, 4, 4, 8, zero=-5), value(1, 2, 2, 8, zero=-5), value(1, 1, 1, 8, zero=-5)
    model.operator("ADD", [first, depthwise], [total], options("AddOptions", fusedActivationFunction=NONE))
    model.operator("MAX_POOL_2D", [total], [halved], pool(2))
    model.operator("AVERAGE_POOL_2D", [halved], [mean], pool(2))
    flat, scores = value(1, 8, zero=-5), value(1, 5)
    shape = model.weight(np.array([1, 8], np.int32))
    model.operator("RESHAPE", [mean, shape], [flat], options("ReshapeOptions", newShape=[1, 8]))
    weights = [model.weight(integers(5, 8), "dense/kernel", scale=0.01), bias(5, np.array([0.01]))]
    dense = options("FullyConnectedOptions", fusedActivationFunction=NONE)
    model.operator("FULLY_CONNECTED", [flat, *weights], [scores], dense)
    result = model.tensor((1, 5), "int8", scale=1 / 256, zero=-128)
    model.operator("SOFTMAX", [scores], [result], options("SoftmaxOptions", beta=1.0))
    return model, result


def test_import_tflite_keeps_a_float_network(tmp_path: Path) -> None:
    model, result = mobile_network()
    path = model.save(tmp_path, result)
    for seed in range(3):
        equal(path, [normal(1, 15, 16, 3, seed=seed)], 1e-6)


def test_import_tflite_names_weights_as_the_file(tmp_path: Path) -> None:
    model, result = mobile_network()
    imported = import_tflite(model.save(tmp_path, result), {})
    names = [variable.name for variable in imported.module["main"].params]
    assert names[:2] == ["input_0", "stem/kernel"]
    assert {"stem/bias", "depthwise/kernel", "dense/kernel", "dense/bias"} <= set(names)
    assert int(imported.module["main"].attrs["num_input"]) == 1
    assert len(imported.weights["main"]) == len(names) - 1


def test_import_tflite_keeps_an_int8_network_within_two_steps(tmp_path: Path) -> None:
    model, result = int8_network()
    path = model.save(tmp_path, result)
    for seed in range(3):
        equal(path, [integers(1, 8, 8, 3, seed=seed)], 2)


def test_import_tflite_computes_with_weights_that_are_quantised_alone(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, first = model.input((1, 6, 6, 4)), model.tensor((1, 6, 6, 8))
    weights = [model.weight(integers(8, 3, 3, 4), "kernel", scale=np.linspace(0.002, 0.01, 8)), model.weight(normal(8))]
    fields = {"strideW": 1, "strideH": 1, "fusedActivationFunction": RELU}
    model.operator("CONV_2D", [x, *weights], [first], convolution("Conv2DOptions", padding=SAME, **fields))
    flat, result = model.tensor((1, 288)), model.tensor((1, 5))
    shape = model.weight(np.array([1, 288], np.int32))
    model.operator("RESHAPE", [first, shape], [flat], options("ReshapeOptions", newShape=[1, 288]))
    weights = [model.weight(integers(5, 288), scale=0.01), model.weight(normal(5))]
    dense = options("FullyConnectedOptions", fusedActivationFunction=NONE)
    model.operator("FULLY_CONNECTED", [flat, *weights], [result], dense)
    within_three_percent(model.save(tmp_path, result), [normal(1, 6, 6, 4)])


def within_three_percent(path: Path, inputs: list[Any]) -> None:
    """LiteRT quantises the activations at each run, so that it differs from floating point by a percent."""
    (found,), (expected,) = by_tvm(import_tflite(path, {}), inputs), by_litert(path, inputs)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= 0.03 * np.max(np.abs(expected))


def test_products_with_a_matrix_that_is_quantised_alone(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, result = model.input((2, 4, 6)), model.tensor((2, 4, 5))
    weight = model.weight(integers(2, 6, 5), scale=0.01)
    model.operator("BATCH_MATMUL", [x, weight], [result], options("BatchMatMulOptions"))
    within_three_percent(model.save(tmp_path, result), [normal(2, 4, 6)])


def test_transposed_convolution_whose_kernel_is_quantised_alone(tmp_path: Path) -> None:
    model = ModelBuilder()
    shape = model.weight(np.array([1, 8, 8, 3], np.int32))
    x, result = model.input((1, 4, 4, 2)), model.tensor((1, 8, 8, 3))
    weight = model.weight(integers(3, 3, 3, 2), scale=0.01)
    model.operator("TRANSPOSE_CONV", [shape, weight, x], [result],
                   options("TransposeConvOptions", padding=SAME, strideW=2, strideH=2), version=2)  # fmt: skip
    within_three_percent(model.save(tmp_path, result), [normal(1, 4, 4, 2)])


def test_rows_of_a_table_that_is_quantised_alone(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, result = model.input((4,), "int32"), model.tensor((4, 6))
    model.operator("EMBEDDING_LOOKUP", [x, model.weight(integers(10, 6), scale=0.01)], [result])
    within_three_percent(model.save(tmp_path, result), [np.array([3, 0, 9, 3], np.int32)])


def test_constant_that_is_dequantised(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, floats, result = model.input((4, 6)), model.tensor((4, 6)), model.tensor((4, 6))
    model.operator("DEQUANTIZE", [model.weight(integers(4, 6), scale=0.1, zero=3)], [floats])
    model.operator("ADD", [x, floats], [result], options("AddOptions", fusedActivationFunction=NONE))
    equal(model.save(tmp_path, result), [normal(4, 6)], 1e-6)


def test_import_tflite_tells_tensors_of_the_same_name_apart(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, one, two = model.input((4,)), model.tensor((4,), name="same"), model.tensor((4,), name="same")
    model.operator("ABS", [x], [one], options("AbsOptions"))
    model.operator("EXP", [x], [two], options("ExpOptions"))
    result = model.tensor((4,))
    model.operator("SUB", [one, two], [result], options("SubOptions", fusedActivationFunction=NONE))
    equal(model.save(tmp_path, result), [normal(4)], 1e-6)


def test_import_tflite_returns_several_outputs(tmp_path: Path) -> None:
    model = ModelBuilder()
    x = model.input((2, 6))
    axis = model.weight(np.array(1, np.int32))
    parts = [model.tensor((2, 3)), model.tensor((2, 3))]
    model.operator("SPLIT", [axis, x], parts, options("SplitOptions", numSplits=2))
    equal(model.save(tmp_path, *parts), [normal(2, 6)], 0)


def unary(name: str, kind: str = "", **fields: Any) -> Any:
    return lambda model, x: [name, [x], (1, 4, 6, 2), options(kind, **fields) if kind else None]


def with_constant(name: str, constant: Any, shape: tuple[int, ...], kind: str = "", **fields: Any) -> Any:
    chosen = options(kind, **fields) if kind else None
    return lambda model, x: [name, [x, model.weight(np.asarray(constant))], shape, chosen]


def batch_to_space(model: ModelBuilder, x: int) -> Any:
    blocks, parts = model.weight(np.array([2, 3], np.int32)), model.tensor((6, 3, 3, 2))
    pads = model.weight(np.array([[1, 1], [0, 3]], np.int32))
    model.operator("SPACE_TO_BATCH_ND", [x, blocks, pads], [parts])
    crops = model.weight(np.array([[0, 1], [2, 3]], np.int32))
    return ["BATCH_TO_SPACE_ND", [parts, blocks, crops], (1, 5, 4, 2), None]


def transposed(model: ModelBuilder, x: int, shape: tuple[int, ...], padding: int, activation: int) -> Any:
    wanted, bias = model.weight(np.array(shape, np.int32)), model.weight(normal(5, seed=2))
    chosen = options("TransposeConvOptions", strideH=2, strideW=2, padding=padding, fusedActivationFunction=activation)
    return ["TRANSPOSE_CONV", [wanted, model.weight(normal(5, 3, 3, 2)), x, bias], shape, chosen]


OPERATORS = {
    "hard swish": unary("HARD_SWISH", "HardSwishOptions"),
    "logistic": unary("LOGISTIC"),
    "tanh": unary("TANH"),
    "relu": unary("RELU"),
    "leaky relu": unary("LEAKY_RELU", "LeakyReluOptions", alpha=0.2),
    "elu": unary("ELU"),
    "mean": with_constant("MEAN", np.array([1, 2], np.int32), (1, 1, 1, 2), "ReducerOptions", keepDims=True),
    "sum": with_constant("SUM", np.array([3], np.int32), (1, 4, 6), "ReducerOptions", keepDims=False),
    "transpose": with_constant("TRANSPOSE", np.array([0, 2, 1, 3], np.int32), (1, 6, 4, 2), "TransposeOptions"),
    "pad": with_constant("PAD", np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32), (1, 7, 7, 2), "PadOptions"),
    "resize nearest": with_constant("RESIZE_NEAREST_NEIGHBOR", np.array([8, 12], np.int32), (1, 8, 12, 2),
                                    "ResizeNearestNeighborOptions", alignCorners=False, halfPixelCenters=True),
    "resize bilinear": with_constant("RESIZE_BILINEAR", np.array([8, 12], np.int32), (1, 8, 12, 2),
                                     "ResizeBilinearOptions", alignCorners=False, halfPixelCenters=True),
    "multiply": with_constant("MUL", normal(1, 4, 6, 2, seed=5), (1, 4, 6, 2), "MulOptions",
                              fusedActivationFunction=NONE),
    "space to depth": lambda model, x: [
        "SPACE_TO_DEPTH", [x], (1, 2, 3, 8), options("SpaceToDepthOptions", blockSize=2)],
    "softmax with beta": unary("SOFTMAX", "SoftmaxOptions", beta=2.0),
    "gelu": unary("GELU", "GeluOptions", approximate=False),
    "approximate gelu": unary("GELU", "GeluOptions", approximate=True),
    "expand dims": with_constant("EXPAND_DIMS", np.array(1, np.int32), (1, 1, 4, 6, 2)),
    "gather of positions": with_constant("GATHER_ND", np.array([[0, 1], [0, 3], [0, 0]], np.int32), (3, 6, 2)),
    "space to batch": lambda model, x: [
        "SPACE_TO_BATCH_ND", [x, model.weight(np.array([2, 3], np.int32)),
                              model.weight(np.array([[1, 1], [0, 3]], np.int32))], (6, 3, 3, 2), None],
    "batch to space": lambda model, x: batch_to_space(model, x),
    "fully connected images": lambda model, x: [
        "FULLY_CONNECTED", [x, model.weight(normal(5, 12)), model.weight(normal(5, seed=1))], (4, 5),
        options("FullyConnectedOptions", fusedActivationFunction=NONE)],
    "matrices times one": with_constant("BATCH_MATMUL", normal(1, 1, 2, 7), (1, 4, 6, 7), "BatchMatMulOptions"),
    "matrices times more": with_constant("BATCH_MATMUL", normal(3, 4, 7, 2), (3, 4, 6, 7), "BatchMatMulOptions",
                                         adjY=True),
    "transposed convolution": lambda model, x: transposed(model, x, (1, 8, 12, 5), SAME, NONE),
    "transposed convolution with relu": lambda model, x: transposed(model, x, (1, 9, 13, 5), VALID, RELU),
    "argmax": with_constant("ARG_MAX", np.array(2, np.int32), (1, 4, 2), "ArgMaxOptions",
                            outputType=2),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_import_tflite_converts_the_operator(tmp_path: Path, name: str) -> None:
    model = ModelBuilder()
    x = model.input((1, 4, 6, 2))
    code, inputs, shape, chosen = OPERATORS[name](model, x)
    result = model.tensor(shape, "int32" if name == "argmax" else "float32")
    model.operator(code, inputs, [result], chosen)
    equal(model.save(tmp_path, result), [normal(1, 4, 6, 2)], 1e-6)


def test_import_tflite_adds_what_is_scattered_to_one_position(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, result = model.input((3, 4)), model.tensor((5, 4))
    places, shape = model.weight(np.array([[4], [1], [4]], np.int32)), model.weight(np.array([5, 4], np.int32))
    model.operator("SCATTER_ND", [places, x, shape], [result], options("ScatterNdOptions"))
    equal(model.save(tmp_path, result), [normal(3, 4)], 1e-6)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("are_integers", [False, True])
def test_import_tflite_unrolls_an_lstm_as_keras_has_it(tmp_path: Path, time_major: bool, are_integers: bool) -> None:
    def weight(rows: int, columns: int, seed: int) -> int:
        values = np.random.default_rng(seed).integers(-127, 128, (rows, columns)).astype(np.int8)
        return model.weight(values, scale=0.01) if are_integers else model.weight(normal(rows, columns, seed=seed))

    model = ModelBuilder()
    shape, results = ((4, 2, 3), (4, 2, 5)) if time_major else ((2, 4, 3), (2, 4, 5))
    x, result = model.input(shape), model.tensor(results)
    of_input = [weight(5, 3, each) for each in range(4)]
    of_state = [weight(5, 5, each) for each in range(4)]
    biases = [model.weight(normal(5, seed=each)) for each in range(4)]
    states = [model.tensor((2, 5)), model.tensor((2, 5))]
    for each in states:
        model.graph.tensors[each].isVariable = True
    given = [x, *of_input, *of_state, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    chosen = options(
        "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=TANH, timeMajor=time_major, cellClip=0.4
    )
    model.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [result], chosen)
    path = model.save(tmp_path, result)
    if are_integers:
        within_three_percent(path, [normal(*shape)])
    else:
        equal(path, [normal(*shape)], 1e-5)


PASSING = {
    "RESIZE_NEAREST_NEIGHBOR": with_constant(
        "RESIZE_NEAREST_NEIGHBOR", np.array([8, 12], np.int32), (1, 8, 12, 2), "ResizeNearestNeighborOptions"
    ),
    "SPACE_TO_DEPTH": lambda model, x: [
        "SPACE_TO_DEPTH",
        [x],
        (1, 2, 3, 8),
        options("SpaceToDepthOptions", blockSize=2),
    ],
    "TILE": with_constant("TILE", np.array([1, 2, 1, 3], np.int32), (1, 8, 6, 6)),
    "GATHER_ND": with_constant("GATHER_ND", np.array([[0, 1], [0, 3]], np.int32), (2, 6, 2)),
}


@pytest.mark.parametrize("name", PASSING)
def test_import_tflite_moves_quantised_elements(tmp_path: Path, name: str) -> None:
    model = ModelBuilder()
    x = model.input((1, 4, 6, 2), "int8", scale=SCALE, zero=3)
    code, inputs, shape, chosen = PASSING[name](model, x)
    result = model.tensor(shape, "int8", scale=SCALE, zero=3)
    model.operator(code, inputs, [result], chosen)
    equal(model.save(tmp_path, result), [integers(1, 4, 6, 2)], 0)
