"""Products read weights in the bits that they have: quantized ones as integers, halves as halves."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.placeholders import tasks_without_weights
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import canonical_target, host_target

HERE = host_target(1)
INNER, WIDTH = 1024, 272
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Weights:
    """Weights as a model has them, and the Relax expression and the floats that they stand for."""

    arrays: tuple[Array, ...]
    matrix: Callable[[Any, Sequence[Any]], Any]
    floats: Array


def integers(low: int, high: int, dtype: str, width: int = WIDTH) -> Array:
    return np.random.default_rng(width).integers(low, high, (width, INNER), endpoint=True).astype(dtype)


def scales(groups: int, width: int = WIDTH) -> Array:
    return np.random.default_rng(1).uniform(0.5, 1.5, (width, groups, 1)).astype("float32")


def quantized(codes: Array, factors: Array, zero_points: Array | None = None) -> Weights:
    """As torchao writes them: rows are columns of the product, and each has scales of groups."""
    width, groups, _ = factors.shape
    grouped = codes.reshape(width, groups, -1)
    given = (codes, factors) if zero_points is None else (codes, factors, zero_points)

    def matrix(builder: Any, names: Sequence[Any]) -> Any:
        emit = builder.emit
        found = emit(relax.op.astype(emit(relax.op.reshape(names[0], grouped.shape)), "float32"))
        if zero_points is not None:
            found = emit(relax.op.subtract(found, emit(relax.op.astype(names[2], "float32"))))
        factors = [found, names[1]] if zero_points is None else [names[1], found]
        found = emit(relax.op.multiply(*factors))
        return emit(relax.op.permute_dims(emit(relax.op.reshape(found, codes.shape))))

    shifts = 0 if zero_points is None else zero_points.astype("float32")
    floats = (grouped.astype("float32") - shifts) * factors
    return Weights(given, matrix, floats.reshape(codes.shape).T)


def halves(dtype: Any) -> Weights:
    stored = random_array(WIDTH, INNER).astype(dtype)

    def matrix(builder: Any, names: Sequence[Any]) -> Any:
        return builder.emit(relax.op.astype(builder.emit(relax.op.permute_dims(names[0])), "float32"))

    return Weights((stored,), matrix, stored.astype("float32").T)


def dequantized(axis: int) -> Weights:
    codes, factors = integers(0, 255, "uint8").T.copy(), random_array((INNER, WIDTH)[axis]) ** 2 + 0.1
    zero_points = np.full(factors.shape, 128, "uint8")

    def matrix(builder: Any, names: Sequence[Any]) -> Any:
        return builder.emit(relax.op.dequantize(*names[:3], axis=axis, out_dtype="float32"))

    scaled = factors[None, :] if axis == 1 else factors[:, None]
    return Weights((codes, factors, zero_points), matrix, (codes.astype("float32") - 128) * scaled)


def layer(weights: Weights, rows: tuple[int, ...]) -> tuple[Any, tuple[Array, ...]]:
    """A product with a bias and a rectifier, and its weights."""
    bias = random_array(weights.floats.shape[1], seed=3)
    arrays = (*weights.arrays, bias)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        found = builder.emit(relax.op.matmul(given[0], weights.matrix(builder, names)))
        return relax.op.nn.relu(builder.emit(relax.op.add(found, names[-1])))

    return one_entry(emit, [(*rows, INNER)], arrays), arrays


def product(weights: Weights, rows: tuple[int, ...], target: Target = HERE) -> PreparedModel:
    module, arrays = layer(weights, rows)
    return prepare(module, {"main": arrays}, target)


def constants_of(prepared: PreparedModel) -> list[tuple[str, tuple[int, ...]]]:
    """What the only function of a model reads, but for the activations and the bias."""
    [task] = model_tasks(prepared)
    return [(each.dtype, each.shape) for each in task.workload.arguments if not each.is_output][1:-1]


PER_COLUMN = quantized(integers(-128, 127, "int8"), scales(1))
GROUPS = quantized(integers(-128, 127, "int8"), scales(8))
FOUR_BITS = quantized(integers(-8, 7, "int8"), scales(8))
FOUR_BITS_PER_COLUMN = quantized(integers(-8, 7, "int8"), scales(1))
SHIFTED = quantized(integers(0, 15, "uint8"), scales(8), np.full((WIDTH, 8, 1), 11, "uint8"))
WIDE_SHIFTED = quantized(integers(0, 255, "uint8"), scales(8), np.full((WIDTH, 8, 1), 3, "uint8"))
NARROW = quantized(integers(-128, 127, "int8", 1000), scales(4, 1000))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize(
    ("weights", "constants"),
    [
        (PER_COLUMN, [("int8", (17, 1, 1024, 16)), ("float32", (17, 1, 16))]),
        (GROUPS, [("int8", (17, 8, 128, 16)), ("float32", (17, 8, 16))]),
        (FOUR_BITS, [("uint8", (17, 8, 64, 16)), ("float32", (17, 8, 16))]),
        (FOUR_BITS_PER_COLUMN, [("uint8", (17, 1, 512, 16)), ("float32", (17, 1, 16))]),
        (SHIFTED, [("uint8", (17, 8, 64, 16)), ("float32", (17, 8, 16)), ("float32", (17, 8, 16))]),
        (WIDE_SHIFTED, [("uint8", (17, 8, 128, 16)), ("float32", (17, 8, 16)), ("float32", (17, 8, 16))]),
        (NARROW, [("int8", (63, 4, 256, 16)), ("float32", (63, 4, 16))]),
        (dequantized(axis=1), [("int8", (17, 1, 1024, 16)), ("float32", (17, 1, 16))]),
        (halves("float16"), [("float16", (17, 1, 1024, 16))]),
        (halves(ml_dtypes.bfloat16), [("bfloat16", (17, 1, 1024, 16))]),
    ],
)
@pytest.mark.parametrize("rows", [(1,), (3,), (2, 7)])
def test_product_reads_weights_in_the_bits_that_they_have(
    weights: Weights, constants: list[tuple[str, tuple[int, ...]]], rows: tuple[int, ...]
) -> None:
    prepared = product(weights, rows)
    assert constants_of(prepared) == constants
    given, bias = random_array(*rows, INNER, seed=2), random_array(weights.floats.shape[1], seed=3)
    found = result_of(prepared, (given,))  # type: ignore[call-overload]
    expected = np.maximum(given @ weights.floats + bias, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("weights", [GROUPS, FOUR_BITS, SHIFTED, WIDE_SHIFTED, PER_COLUMN, NARROW])
@pytest.mark.quick_cases(3)
def test_rows_of_a_table_are_read_in_their_bits(weights: Weights) -> None:
    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        indices = builder.emit(relax.op.astype(given[0], "int64"))
        table = builder.emit(relax.op.permute_dims(weights.matrix(builder, names)))
        return relax.op.take(table, indices, axis=0)

    prepared = prepare(one_entry(emit, [(2, 3)], weights.arrays), {"main": weights.arrays}, HERE)
    tables = [each for task in model_tasks(prepared) for each in task.workload.arguments if not each.is_output]
    assert max(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in tables) <= weights.arrays[0].size
    rows = np.array([[0, 5, 77], [weights.floats.shape[1] - 1, 5, 16]])
    found = result_of(prepared, (rows.astype("float32"),))  # type: ignore[call-overload]
    np.testing.assert_allclose(found, weights.floats.T[rows], rtol=1e-6, atol=1e-6)


def test_vector_times_matrix_reads_integers() -> None:
    prepared = product(GROUPS, ())
    given = random_array(INNER, seed=2)
    found = result_of(prepared, (given,))  # type: ignore[call-overload]
    expected = np.maximum(given @ GROUPS.floats + random_array(WIDTH, seed=3), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert constants_of(prepared)[0] == ("int8", (17, 8, 128, 16))


def test_many_rows_read_4_bits_as_bytes_and_halves_as_floats() -> None:
    assert constants_of(product(FOUR_BITS, (40,)))[0] == ("int8", (17, 8, 128, 16))
    assert constants_of(product(halves("float16"), (40,))) == [("float32", (17, 1024, 16))]


@pytest.mark.parametrize(
    "weights",
    [
        dequantized(axis=0),
        quantized(integers(-128, 127, "int8"), scales(128)),
        quantized(integers(0, 255, "uint8"), scales(8), np.full((WIDTH, 8, 1), 0.5, "float32")),
        quantized(integers(-128, 127, "int8", 240), scales(1, 240)),
    ],
    ids=["scales of rows", "small groups", "fractions as zero points", "few in all"],
)
def test_other_weights_are_floats(weights: Weights) -> None:
    prepared = product(weights, (3,))
    assert {dtype for dtype, _ in constants_of(prepared)} == {"float32"}


def test_processor_without_instruction_for_float16_reads_floats() -> None:
    old, new = (canonical_target({"kind": "llvm", "mcpu": each}, 1).target for each in ("x86-64-v2", "x86-64-v3"))
    assert constants_of(product(halves("float16"), (1,), old)) == [("float32", (17, 1024, 16))]
    assert constants_of(product(halves("float16"), (1,), new)) == [("float16", (17, 1, 1024, 16))]


@pytest.mark.parametrize("weights", [PER_COLUMN, dequantized(axis=1), halves(ml_dtypes.bfloat16)])
def test_tasks_of_narrow_weights_are_the_same_without_them(weights: Weights) -> None:
    prepared = product(weights, (1,))
    [alone] = tasks_without_weights(layer(weights, (1,))[0], HERE)
    [task] = model_tasks(prepared)
    assert alone.workload == task.workload
