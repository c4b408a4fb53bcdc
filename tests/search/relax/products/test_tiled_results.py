"""Operators behind a packed product are computed on its tiles, and the others read a view of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tests.search.scheduled import build_quickly
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target
from tunefarm_search.untried.untried_schedule import untried_schedule

HERE = host_target(1)
WEIGHTS, BIAS = random_array(24, 48), random_array(48, seed=1)


def residual_block(rows: int, *, last: Any = None) -> PreparedModel:
    """``max(x @ WEIGHTS + BIAS, 0) + y`` for x and y with so many rows, and what ``last`` makes of it."""

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        product = builder.emit(relax.op.matmul(given[0], names[0]))
        active = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(product, names[1]))))
        added = builder.emit(relax.op.add(active, given[1]))
        return added if last is None else last(added)

    return prepare(one_entry(emit, [(rows, 24), (rows, 48)], (WEIGHTS, BIAS)), {"main": (WEIGHTS, BIAS)}, HERE)


def inputs_of(rows: int) -> tuple[Any, Any]:
    return random_array(rows, 24, seed=2), random_array(rows, 48, seed=3)


def expected_of(left: Any, right: Any) -> Any:
    return np.maximum(left @ WEIGHTS + BIAS, 0) + right


@pytest.mark.parametrize("rows", [1, 2, 12, 62])
@pytest.mark.quick_cases(2)
def test_residual_block_is_one_function_of_tiles(rows: int) -> None:
    prepared, inputs = residual_block(rows), inputs_of(rows)
    [task] = model_tasks(prepared)
    assert task.functions == ("fused_matmul_add_relu_add1",)
    assert {each.shape for each in task.workload.arguments} == {(rows, 24), (3, 24, 16), (3, 16), (rows, 3, 16)}
    np.testing.assert_allclose(result_of(prepared, inputs), expected_of(*inputs), rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]


def test_result_of_the_model_keeps_its_shape() -> None:
    [entry] = residual_block(12).entries
    assert [each.shape for each in entry.outputs] == [(12, 48)]


def test_no_kernel_copies_the_result_of_the_model() -> None:
    lowered = lower(residual_block(12).module, HERE)
    assert [str(name.name_hint) for name in lowered.kernels.functions] == ["fused_matmul_add_relu_add1"]


def test_results_of_two_runs_are_apart() -> None:
    prepared = residual_block(12)
    machine = virtual_machine(lower(prepared.module, HERE), HERE, build_quickly)
    given = [tuple(map(tvm.runtime.tensor, (random_array(12, 24, seed=at), random_array(12, 48)))) for at in (0, 1)]
    found = [machine["main"](*each) for each in given]
    for result, inputs in zip(found, given, strict=True):
        expected = expected_of(*(each.numpy() for each in inputs))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_bias_and_activation_run_in_the_tiles_of_the_sums() -> None:
    [task] = model_tasks(residual_block(12))
    scheduled = untried_schedule(load_json(task.workload.module_json), HERE).module
    passes = scheduled["main"].body.block.body
    assert isinstance(passes, tvm.tirx.For), "more than one loop over all results"


@pytest.mark.parametrize(
    ("last", "of_numpy"),
    [
        (lambda added: relax.op.sum(added, axis=[-1]), lambda added: added.sum(axis=-1)),
        (lambda added: relax.op.permute_dims(added), lambda added: added.T),
        (lambda added: relax.op.concat([added, added], axis=1), lambda added: np.concatenate([added, added], axis=1)),
        (
            lambda added: relax.op.subtract(added, relax.const(random_array(12, 1))),
            lambda added: added - random_array(12, 1),
        ),
        (
            lambda added: relax.op.multiply(added, relax.const(np.float32(3))),
            lambda added: added * 3,
        ),
        (
            lambda added: relax.op.add(added, relax.const(random_array(2, 12, 48))),
            lambda added: added + random_array(2, 12, 48),
        ),
    ],
    ids=["sum", "transpose", "concatenation", "column", "number", "more axes"],
)
def test_other_operators_read_a_view(last: Any, of_numpy: Any) -> None:
    prepared, inputs = residual_block(12, last=last), inputs_of(12)
    found = result_of(prepared, inputs)  # type: ignore[call-overload]
    np.testing.assert_allclose(found, of_numpy(expected_of(*inputs)), rtol=1e-4, atol=1e-5)


def test_two_products_of_tiles_are_multiplied_on_tiles() -> None:
    gate = random_array(24, 48, seed=4)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        one = builder.emit(relax.op.nn.silu(builder.emit(relax.op.matmul(given[0], names[0]))))
        return relax.op.multiply(one, builder.emit(relax.op.matmul(given[0], names[1])))

    prepared = prepare(one_entry(emit, [(12, 24)], (WEIGHTS, gate)), {"main": (WEIGHTS, gate)}, HERE)
    views = [name for name in _functions(prepared) if name.startswith("view")]
    assert views == ["view"], "only the result needs a view"
    given = random_array(12, 24)
    left = given @ WEIGHTS
    expected = left / (1 + np.exp(-left)) * (given @ gate)
    np.testing.assert_allclose(result_of(prepared, (given,)), expected, rtol=1e-4, atol=1e-4)  # type: ignore[call-overload]


def test_tiles_of_other_widths_are_read_as_a_view() -> None:
    half = random_array(24, 64, seed=4).astype("float16")
    whole = random_array(24, 64, seed=5)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        one = builder.emit(relax.op.matmul(builder.emit(relax.op.astype(given[0], "float16")), names[0]))
        other = builder.emit(relax.op.matmul(given[0], names[1]))
        return relax.op.add(builder.emit(relax.op.astype(one, "float32")), other)

    prepared = prepare(one_entry(emit, [(12, 24)], (half, whole)), {"main": (half, whole)}, HERE)
    given = random_array(12, 24)
    expected = given @ half.astype("float32") + given @ whole
    np.testing.assert_allclose(result_of(prepared, (given,)), expected, rtol=0.05, atol=0.1)  # type: ignore[call-overload]


def _functions(prepared: PreparedModel) -> list[str]:
    called: list[str] = []
    main = prepared.module["main"]
    tvm_ffi.structural_walk(main.body, (tvm.ir.GlobalVar, lambda each: called.append(str(each.name_hint))))
    return called
