"""Convolutions with packed kernels give what they gave before."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.products.direct_convolution import direct_convolution
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target

HERE = host_target(1)
FEW_REGISTERS = canonical_target({"kind": "llvm", "mcpu": "haswell"}, 1).target


def convolved(
    data: Array, weights: Array, *, residual: bool = False, target: Target = HERE, **options: Any
) -> PreparedModel:
    """A convolution of NCHW with OIHW, or of NCW with OIW, a bias, and a ReLU of the sum with the input or without."""
    constants = (weights, random_array(1, weights.shape[0], 1, 1).reshape(1, -1, *([1] * (data.ndim - 2))))
    convolution = relax.op.nn.conv2d if data.ndim == 4 else relax.op.nn.conv1d

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        result = builder.emit(convolution(given[0], names[0], **options))
        result = builder.emit(relax.op.add(result, names[1]))
        return relax.op.nn.relu(builder.emit(relax.op.add(result, given[0])) if residual else result)

    return prepare(one_entry(build, [data.shape], constants), {"main": constants}, target)


def expected_of(data: Array, weights: Array, stride: int = 1, padding: int = 0) -> Any:
    """Sums over windows of NCHW, element by element of the kernels, and the bias."""
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = weights.shape[2:]
    rows = (padded.shape[2] - height) // stride + 1
    columns = (padded.shape[3] - width) // stride + 1
    sums = np.zeros((data.shape[0], weights.shape[0], rows, columns))
    for y in range(height):
        for x in range(width):
            part = padded[:, :, y : y + stride * (rows - 1) + 1 : stride, x : x + stride * (columns - 1) + 1 : stride]
            sums += np.einsum("nihw,oi->nohw", part, weights[:, :, y, x])
    return sums + random_array(1, weights.shape[0], 1, 1)


def convolutions_of(prepared: PreparedModel) -> list[Workload]:
    """The functions that convolve."""
    return [task.workload for task in model_tasks(prepared) if re.search("conv[12]d", task.functions[0])]


def kernel_shapes(prepared: PreparedModel) -> list[tuple[int, ...]]:
    """Of the second argument of the functions that convolve."""
    return [workload.arguments[1].shape for workload in convolutions_of(prepared)]


@pytest.mark.parametrize("target", [HERE, FEW_REGISTERS], ids=["host", "few registers"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(1, 24, 7, 7), (1, 24, 14, 13), (2, 24, 5, 9)], ids=["7 x 7", "14 x 13", "batch"])
@pytest.mark.quick_cases(2)
def test_results_are_those_of_the_convolution(shape: tuple[int, ...], stride: int, target: Target) -> None:
    data, weights = random_array(*shape), random_array(48, 24, 1, 1, seed=1)
    prepared = convolved(data, weights, strides=stride, target=target)
    assert kernel_shapes(prepared) == [(3, 24, 16)]
    expected = np.maximum(expected_of(data, weights, stride), 0)
    np.testing.assert_allclose(untried_result(prepared, (data,)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((3, 3), 2, 1), ((2, 2), 2, 0), ((5, 3), 1, 2), ((1, 3), 1, 0), ((3, 1), 2, 1)],
    ids=["3 x 3", "2 x 2", "5 x 3", "1 x 3", "3 x 1"],
)
@pytest.mark.quick_cases(1)
def test_windows_of_many_results_have_packed_kernels(kernel: tuple[int, int], stride: int, padding: int) -> None:
    data, weights = random_array(2, 32, 9, 7), random_array(256, 32, *kernel, seed=1)
    prepared = convolved(data, weights, strides=stride, padding=padding)
    assert kernel_shapes(prepared) == [(16, *(extent for extent in kernel if extent > 1), 32, 16)]
    expected = np.maximum(expected_of(data, weights, stride, padding), 0)
    np.testing.assert_allclose(untried_result(prepared, (data,)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [2, 1])
@pytest.mark.parametrize("side", [13, 14])
@pytest.mark.quick_cases(1)
def test_windows_of_7_x_7_pixels_are_rows_that_two_vectors_fit(batch: int, side: int) -> None:
    data, weights = random_array(batch, 8, side, side), random_array(256, 8, 3, 3, seed=1)
    prepared = convolved(data, weights, strides=2, padding=1, target=FEW_REGISTERS)
    [workload] = convolutions_of(prepared)
    assert f"({50 * batch}), T.int64(16), T.int64(16))" in load_json(workload.module_json).script()
    expected = np.maximum(expected_of(data, weights, 2, 1), 0)
    np.testing.assert_allclose(untried_result(prepared, (data,)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [((1, 32, 99), 3, 2, 0), ((1, 32, 47), 3, 1, 1), ((1, 32, 61), 1, 1, 0), ((2, 32, 38), 2, 2, 0)],
    ids=["stride", "padding", "one element", "batch"],
)
@pytest.mark.quick_cases(1)
def test_convolutions_of_lines_have_packed_kernels(
    shape: tuple[int, ...], kernel: int, stride: int, padding: int
) -> None:
    data, weights = random_array(*shape), random_array(256, 32, kernel, seed=1)
    prepared = convolved(data, weights, strides=stride, padding=padding)
    assert kernel_shapes(prepared) == [(16, *([kernel] if kernel > 1 else []), 32, 16)]
    padded = np.pad(data, ((0, 0), (0, 0), (padding, padding)))
    expected = np.maximum(expected_of(padded[:, :, None], weights[:, :, None], stride)[:, :, 0], 0)
    np.testing.assert_allclose(untried_result(prepared, (data,)), expected, rtol=1e-4, atol=1e-4)


def test_bias_residual_and_activation_are_in_the_function_of_the_product() -> None:
    data, weights = random_array(1, 32, 6, 6), random_array(32, 32, 1, 1, seed=1)
    prepared = convolved(data, weights, residual=True)
    assert "fused_conv2d_add_add1_relu" in {name for task in model_tasks(prepared) for name in task.functions}
    expected = np.maximum(expected_of(data, weights) + data, 0)
    np.testing.assert_allclose(untried_result(prepared, (data,)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "weights", "extents"),
    [
        ({"padding": 1}, (48, 24, 1, 1), (6, 6)),
        ({"groups": 2}, (48, 12, 1, 1), (6, 6)),
        ({}, (240, 24, 1, 3), (6, 6)),
        ({}, (40, 24, 1, 1), (6, 6)),
        ({}, (48, 24, 1, 1), (1, 1)),
    ],
    ids=["padding", "groups", "1 x 3 to 240 results", "40 results", "one pixel"],
)
def test_other_convolutions_stay_as_they_are(
    options: dict[str, int], weights: tuple[int, ...], extents: tuple[int, int]
) -> None:
    prepared = convolved(random_array(1, 24, *extents), random_array(*weights), **options)
    assert all(len(shape) == 4 for shape in kernel_shapes(prepared))


@pytest.mark.parametrize(("dtype", "is_product"), [("float32", True), ("float16", False)])
def test_halves_stay_as_they_are(dtype: str, is_product: bool) -> None:
    data = relax.Var("data", relax.TensorType((1, 6, 6, 32), dtype))
    weights = relax.const(np.ones((1, 1, 32, 32), dtype), dtype)
    call = relax.op.nn.conv2d(data, weights, data_layout="NHWC", kernel_layout="HWIO")
    assert (direct_convolution(relax.BlockBuilder().normalize(call)) is not None) == is_product
