"""Matrix products of activations that are quantized at run time are exact, and use the processor's instruction."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import run
from tests.search.scheduled import build_quickly, untried_result
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.placeholders import tasks_without_weights
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import canonical_target, host_target
from tunefarm_search.tvm.tensor_intrinsics.dot_products import dot_product_of

Array = Any
ROWS, DEPTH, COLUMNS = 32, 256, 48
VNNI = canonical_target({"kind": "llvm", "mcpu": "znver4"}, 1).target
HASWELL = canonical_target({"kind": "llvm", "mcpu": "haswell"}, 1).target
HERE = host_target(1)
needs_dot_product = pytest.mark.skipif(dot_product_of(HERE) is None, reason="the processor has no such instruction")
POINTS = {"none": None, "one": (), "a list of one": (1,), "of each row": (ROWS, 1), "of each column": (DEPTH,)}


def module_of(
    dtype: str,
    points: tuple[int, ...] | None,
    rank: int = 2,
    *,
    weights: str = "int8",
    zero: int = 0,
    given: bool = False,
) -> Any:
    """``(x - zero point) @ (w - zero)`` in 32 bits, from x, the zero point, and the weights if ``given``."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1] * (rank - 2) + [ROWS, DEPTH], dtype))
    inputs = [x]
    if points is not None:
        inputs.append(relax.Var("z", relax.TensorType(list(points), dtype)))
    constant: Any = relax.const(stored_weights(weights))
    parameters = [*inputs]
    if given:
        constant = relax.Var("w", relax.TensorType([DEPTH, COLUMNS], weights))
        parameters.append(constant)
    with builder.function("main", parameters, attrs={"num_input": len(inputs)}):
        with builder.dataflow():
            wide = builder.emit(relax.op.astype(x, "int32"))
            if points is not None:
                wide = builder.emit(relax.op.subtract(wide, builder.emit(relax.op.astype(inputs[1], "int32"))))
            weight = builder.emit(relax.op.astype(constant, "int32"))
            if zero:
                weight = builder.emit(relax.op.subtract(weight, relax.const(np.int32(zero))))
            result = builder.emit_output(relax.op.matmul(wide, weight, out_dtype="int32"))
        builder.emit_func_output(result)
    return builder.get()


def stored_weights(dtype: str) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max + 1, (DEPTH, COLUMNS)).astype(dtype)


def inputs_of(dtype: str, points: tuple[int, ...] | None, rank: int) -> tuple[Array, ...]:
    generator, limits = np.random.default_rng(1), np.iinfo(dtype)
    shapes = [(1,) * (rank - 2) + (ROWS, DEPTH), *([] if points is None else [points])]
    return tuple(np.asarray(generator.integers(limits.min, limits.max + 1, each), dtype) for each in shapes)


def expected(inputs: tuple[Array, ...], weights: str, zero: int) -> Array:
    wide = [each.astype(np.int64) for each in inputs]
    left = wide[0] if len(wide) == 1 else wide[0] - wide[1]
    return left @ (stored_weights(weights).astype(np.int64) - zero)


def names_of(prepared: Any) -> str:
    return " ".join(str(each.name_hint) for each in prepared.module.functions)


@needs_dot_product
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.quick_cases(3)
def test_products_are_exact(dtype: str, points: tuple[int, ...] | None, rank: int) -> None:
    prepared, inputs = prepare(module_of(dtype, points, rank), {}, HERE), inputs_of(dtype, points, rank)
    np.testing.assert_array_equal(untried_result(prepared, inputs), expected(inputs, "int8", 0))
    assert ("integer_products" in names_of(prepared)) == (points != (DEPTH,))


@needs_dot_product
@pytest.mark.parametrize(("weights", "zero"), [("uint8", 128), ("uint8", 3), ("int8", -128)])
@pytest.mark.quick_cases(2)
def test_zero_points_of_weights_are_part_of_them(weights: str, zero: int) -> None:
    module, inputs = module_of("uint8", (), weights=weights, zero=zero), inputs_of("uint8", (), 2)
    prepared = prepare(module, {}, HERE)
    np.testing.assert_array_equal(untried_result(prepared, inputs), expected(inputs, weights, zero))
    assert "integer_products" in names_of(prepared)


def dequantized_product(dtype: str, scales: Array, zero_point: int | None) -> Any:
    """The product of an activation, dequantized by the inputs s and z, and a dequantized weight with torch's axes.

    The zero point is a constant if it is given.
    """
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4, ROWS // 4, DEPTH], dtype))
    scale = relax.Var("s", relax.TensorType([], "float32"))
    zero = relax.Var("z", relax.TensorType([], "int32")) if zero_point is None else relax.const(np.int32(zero_point))
    inputs = [x, scale, *([zero] if zero_point is None else [])]
    weights = relax.const(np.ascontiguousarray(stored_weights("int8").T))
    with builder.function("main", inputs, attrs={"num_input": len(inputs)}):
        with builder.dataflow():
            data = builder.emit(relax.op.dequantize(x, scale, zero, -1, "float32"))
            rows = builder.emit(relax.op.reshape(data, [ROWS, DEPTH]))
            zeros = relax.const(np.zeros(len(scales), np.int32))
            floats = builder.emit(relax.op.dequantize(weights, relax.const(scales), zeros, 0, "float32"))
            result = builder.emit_output(relax.op.matmul(rows, builder.emit(relax.op.permute_dims(floats))))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("zero_point", [None, 0, 7])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_dequantized_operands_are_multiplied_as_integers(dtype: str, zero_point: int | None) -> None:
    """The functions are compiled for a processor without the instruction, so that any host runs them."""
    scales = np.linspace(0.01, 0.02, COLUMNS, dtype=np.float32)
    prepared = prepare(dequantized_product(dtype, scales, zero_point), {}, VNNI)
    assert "integer_products" in names_of(prepared)
    machine = virtual_machine(lower(prepared.module, HASWELL), HASWELL, build_quickly)
    x = inputs_of(dtype, None, 2)[0].reshape(4, -1, DEPTH)
    zero = -9 if zero_point is None else zero_point
    found = run(machine, [x, np.float32(0.5), *([np.int32(zero)] if zero_point is None else [])])
    exact = (x.reshape(ROWS, DEPTH).astype(np.int64) - zero) @ stored_weights("int8").astype(np.int64)
    np.testing.assert_allclose(found, exact * 0.5 * scales.astype(np.float64), rtol=1e-6)


def test_processors_without_the_instruction_compute_the_same() -> None:
    prepared, inputs = prepare(module_of("uint8", ()), {}, HASWELL), inputs_of("uint8", (), 2)
    machine = virtual_machine(lower(prepared.module, HASWELL), HASWELL, build_quickly)
    np.testing.assert_array_equal(run(machine, inputs), expected(inputs, "int8", 0))
    assert "integer_products" not in names_of(prepared)


def test_tasks_without_weights_are_those_of_the_model() -> None:
    module = module_of("uint8", (), given=True)
    whole = model_tasks(prepare(module, {"main": (stored_weights("int8"),)}, VNNI))
    found = tasks_without_weights(module, VNNI)
    assert [task.workload.workload_id for task in found] == [task.workload.workload_id for task in whole]


def test_products_of_two_activations_stay_wide() -> None:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType([8, 8], "int32")) for name in "xy")
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(relax.op.matmul(x, y, out_dtype="int32")))
    prepared = prepare(builder.get(), {}, VNNI)
    assert "integer_products" not in names_of(prepared)
    assert isinstance(prepared.module, tvm.IRModule)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_floats_are_quantized_with_a_scale_of_run_time(dtype: str) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([40, 33], "float32"))
    scale, zero_point = relax.Var("s", relax.TensorType([], "float32")), relax.Var("z", relax.TensorType([], dtype))
    with builder.function("main", [x, scale, zero_point]):
        builder.emit_func_output(builder.emit(relax.op.quantize(x, scale, zero_point, axis=0, out_dtype=dtype)))
    given = np.random.default_rng(2).standard_normal((40, 33)).astype("float32")
    inputs = (given, np.float32(0.013), np.asarray(90, dtype))
    limits = np.iinfo(dtype)
    found = untried_result(prepare(builder.get(), {}, HERE), tuple(map(np.asarray, inputs)))
    steps = np.clip(np.rint(given.astype("float64") / np.float64(inputs[1])) + 90, limits.min, limits.max)
    assert np.abs(found.astype("int64") - steps).max() <= 1
    assert np.mean(found != steps) < 1e-2
    assert {limits.min, limits.max} & set(found.reshape(-1).tolist())
