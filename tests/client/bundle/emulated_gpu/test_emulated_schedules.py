"""CUDA source of functions with TVM's default schedules for GPUs computes what NumPy does, on the emulated GPU."""

from collections.abc import Callable, Sequence
from math import erf
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi
from tvm.s_tir import dlight

from tests.client.bundle.cuda_functions import gpu_target
from tests.client.bundle.emulated_gpu.emulator import Array, EmulationError, Emulator
from tunefarm_search.untried.gpu_schedule import gpu_schedule
from tunefarm_workers.builder.cuda_source import CudaSource, cuda_source
from tunefarm_workers.builder.scheduled_module import target_of

RULES = (
    dlight.gpu.Matmul(),
    dlight.gpu.GEMV(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Transpose(),
    dlight.gpu.Fallback(),
)
IMAGE, ROWS = (1, 8, 14, 14), (4, 300)


def generated(tensors: Sequence[Any]) -> CudaSource:
    """The source of a function that has a default schedule."""
    target = gpu_target()
    function = te.create_prim_func(tensors).with_attr("global_symbol", "f")
    with tvm.target.Target(target_of(target.canonical)):
        scheduled = dlight.ApplyDefaultSchedule(*RULES)(tvm.IRModule({"f": function}))
    return cuda_source(scheduled, target.canonical)


def computed(emulator: Emulator, function: Callable[..., Any], *inputs: Array) -> Array:
    """What a function of tensor expressions computes on the emulated GPU."""
    given = [te.placeholder(each.shape, str(each.dtype), f"given{number}") for number, each in enumerate(inputs)]
    result = function(*given)
    dtype = getattr(result.dtype, "dtype", result.dtype)
    [found] = emulator.run(
        generated([*given, result]), inputs, [np.empty([int(each) for each in result.shape], str(dtype))]
    )
    return found


def random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def product(a: Any, b: Any, dtype: str) -> Any:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=k), "C"
    )


@pytest.mark.parametrize("shape", [(50, 70, 30), (128, 96, 64)], ids=["part of a tile", "tiles"])
@pytest.mark.quick_cases(1)
def test_matmul(emulator: Emulator, shape: tuple[int, int, int]) -> None:
    a, b = random(shape[0], shape[2]), random(shape[2], shape[1])
    found = computed(emulator, lambda a, b: product(a, b, "float32"), a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.faults  # three seconds; softmax and elementwise functions of half remain
def test_matmul_of_half(emulator: Emulator) -> None:
    a, b = random(32, 48, dtype="float16"), random(48, 32, dtype="float16")
    found = computed(emulator, lambda a, b: product(a, b, "float16"), a, b)
    np.testing.assert_allclose(found, a.astype("float32") @ b.astype("float32"), rtol=0.02, atol=0.05)


def test_matmul_of_integers(emulator: Emulator) -> None:
    a, b = (np.random.default_rng(each).integers(-128, 128, (64, 64)).astype("int8") for each in (0, 1))
    found = computed(emulator, lambda a, b: product(a, b, "int32"), a, b)
    np.testing.assert_array_equal(found, a.astype("int32") @ b.astype("int32"))


def matrix_times_vector(emulator: Emulator, rows: int) -> tuple[Array, Array]:
    """What the emulated GPU computes, and what it ought to be."""
    vector, matrix = (np.random.default_rng(0).integers(-128, 128, shape).astype("int8") for shape in (96, (rows, 96)))

    def dots(vector: Any, matrix: Any) -> Any:
        k = te.reduce_axis((0, 96), "k")
        return te.compute((rows,), lambda i: te.sum(vector[k].astype("int32") * matrix[i, k].astype("int32"), axis=k))

    return computed(emulator, dots, vector, matrix), matrix.astype("int32") @ vector.astype("int32")


def test_matrix_times_vector(emulator: Emulator) -> None:
    np.testing.assert_array_equal(*matrix_times_vector(emulator, 48))


def test_write_beyond_an_output_is_an_error(emulator: Emulator) -> None:
    # TVM's LowerCrossThreadReduction drops the condition that ends the rows: the last of three blocks of 16 rows writes
    # eight rows too many.
    with pytest.raises(EmulationError, match="block 2,0,0: thread 256 accessed the address"):
        matrix_times_vector(emulator, 40)


def test_rows_that_fill_no_block_get_a_rule_that_is_right(emulator: Emulator) -> None:
    matrix, vector = random(40, 96), random(96)
    given = [te.placeholder(each.shape, "float32", name) for each, name in ((matrix, "A"), (vector, "x"))]
    k = te.reduce_axis((0, 96), "k")
    rows = te.compute((40,), lambda i: te.sum(given[0][i, k] * given[1][k], axis=k), "y")
    scheduled = gpu_schedule(tvm.IRModule({"main": te.create_prim_func([*given, rows])}), gpu_target())
    assert scheduled is not None
    source = cuda_source(scheduled.module, gpu_target().canonical)
    [found] = emulator.run(source, [matrix, vector], [np.empty(40, "float32")])
    np.testing.assert_allclose(found, matrix @ vector, rtol=1e-4, atol=1e-4)


def test_convolution(emulator: Emulator) -> None:
    image, weights = random(*IMAGE), random(16, 8, 3)[..., None] * random(1, 1, 1, 3)
    found = computed(emulator, lambda a, b: topi.nn.conv2d_nchw(a, b, 1, 1, 1, "float32"), image, weights)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(found, np.einsum("nchwyx,ocyx->nohw", windows, weights), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("float32", 1e-5)])
@pytest.mark.quick_cases(1)
def test_softmax(emulator: Emulator, dtype: str, tolerance: float) -> None:
    given = random(*ROWS, dtype=dtype)
    exponents = np.exp(given.astype("float64"))
    expected = exponents / exponents.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(computed(emulator, topi.nn.softmax, given), expected, rtol=tolerance, atol=1e-4)


def test_layer_norm(emulator: Emulator) -> None:
    given, scale, shift = random(*ROWS), random(300), random(1, 300)[0]
    found = computed(emulator, lambda *each: topi.nn.layer_norm(*each, [1]), given, scale, shift)
    mean, variance = given.mean(axis=1, keepdims=True), given.var(axis=1, keepdims=True)
    np.testing.assert_allclose(found, (given - mean) / np.sqrt(variance + 1e-5) * scale + shift, rtol=1e-4, atol=1e-4)


def test_pools(emulator: Emulator) -> None:
    image = random(*IMAGE)
    found = computed(emulator, lambda a: topi.nn.pool2d(a, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max"), image)
    np.testing.assert_array_equal(found, image.reshape(1, 8, 7, 2, 7, 2).max(axis=(3, 5)))
    found = computed(emulator, lambda a: topi.nn.global_pool(a, "avg"), image)
    np.testing.assert_allclose(found, image.mean(axis=(2, 3), keepdims=True), rtol=1e-5, atol=1e-6)


def test_transpose(emulator: Emulator) -> None:
    given = random(*ROWS)
    np.testing.assert_array_equal(computed(emulator, topi.transpose, given), given.T)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 5e-3)])
def test_elementwise(emulator: Emulator, dtype: str, tolerance: float) -> None:
    given = random(*ROWS, dtype=dtype)

    def function(a: Any) -> Any:
        one = tirx.const(1, dtype)
        return te.compute(
            ROWS, lambda i, j: te.erf(a[i, j]) + te.exp(-te.abs(a[i, j])) * te.max(te.tanh(a[i, j]), -one)
        )

    wide = given.astype("float64")
    expected = np.vectorize(erf)(wide) + np.exp(-np.abs(wide)) * np.tanh(wide)
    np.testing.assert_allclose(computed(emulator, function, given), expected, rtol=tolerance, atol=tolerance)


# The import of TVM's tensor intrinsics takes seconds.
@pytest.mark.targets
def test_matmul_with_tensor_cores(emulator: Emulator) -> None:
    a, b = random(128, 128, dtype="float16"), random(128, 128, dtype="float16").T.copy()
    given = [te.placeholder((128, 128), "float16", name) for name in ("a", "b")]
    source = generated([*given, product(*given, "float32")])
    assert "nvcuda::wmma::mma_sync" in source.source
    [found] = emulator.run(source, [a, b], [np.empty((128, 128), "float32")])
    np.testing.assert_allclose(found, a.astype("float32") @ b.astype("float32"), rtol=1e-3, atol=1e-3)
