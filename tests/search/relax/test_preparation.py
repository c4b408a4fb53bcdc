from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import (
    SmallModel,
    controlled,
    convolutional_network,
    flattened,
    grouped_by_hand,
    multilayer_perceptron,
    one_entry,
    random_array,
    run,
    tuples,
    two_entries,
)
from tests.search.scheduled import build_quickly
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.assembly import with_schedules
from tunefarm_search.relax.constants import array_of, fold_constants, is_constant
from tunefarm_search.relax.expressions import is_reshape
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import calls_per_run, model_tasks, tir_functions
from tunefarm_search.tvm.target import host_target

FILLINGS = (-np.inf, 2.5, np.inf)


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def result_of(prepared: PreparedModel, inputs: tuple[object, ...], entry: str = "main") -> object:
    machine = virtual_machine(lower(with_schedules(prepared, {}), prepared.target), prepared.target, build_quickly)
    return run(machine, inputs, entry)


@pytest.mark.parametrize("create", [multilayer_perceptron, grouped_by_hand, convolutional_network, flattened, tuples])
def test_prepare_keeps_what_a_model_computes(create: Callable[[], SmallModel], here: Target) -> None:
    model = create()
    prepared = prepare(model.module, model.weights, here)
    assert [each.shape for each in prepared.entries[0].inputs] == [each.shape for each in model.inputs]
    assert_close(result_of(prepared, model.inputs), model.expected(*model.inputs))


def assert_close(found: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_prepare_serves_several_entries(here: Target) -> None:
    model = two_entries()
    prepared = prepare(model.module, model.weights, here)
    assert [entry.name for entry in prepared.entries] == ["decode", "encode"]
    for entry in prepared.entries:
        assert_close(result_of(prepared, model.inputs, entry.name), model.expected(entry.name, *model.inputs))
    assert {entry: sum(calls.values()) for entry, calls in calls_per_run(prepared).items()} == {
        "decode": 2,
        "encode": 1,
    }


def test_prepare_leaves_no_work_on_constants_at_run_time(here: Target) -> None:
    model = multilayer_perceptron()
    functions = tir_functions(prepare(model.module, model.weights, here).module)
    assert not [name for name in functions if "transpose" in name or "permute" in name]


def test_prepare_fills_with_numbers_that_are_not_finite(here: Target) -> None:
    def build(builder: relax.BlockBuilder, given: Sequence[Any], _names: Sequence[Any]) -> Any:
        filled = [builder.emit(relax.op.full_like(given[0], relax.const(each, "float32"))) for each in FILLINGS]
        return relax.Tuple([builder.emit(relax.op.maximum(each, given[0])) for each in filled])

    data = random_array(2, 3)
    found = result_of(prepare(one_entry(build, [(2, 3)], ()), {"main": ()}, here), (data,))
    assert_close(found, tuple(np.maximum(np.float32(each), data) for each in FILLINGS))


def test_constants_are_folded_by_numpy() -> None:
    numbers = np.arange(12, dtype="uint32").reshape(3, 4) * np.uint32(0x9E3779B9)
    bits = np.array([3, 5, 31, 0], "uint32")

    def build(builder: relax.BlockBuilder, _given: Sequence[Any], _names: Sequence[Any]) -> Any:
        data, by = relax.const(numbers), relax.const(bits)
        moved = builder.emit(relax.op.bitwise_or(relax.op.left_shift(data, by), relax.op.right_shift(data, by)))
        both = builder.emit(relax.op.concat([moved, builder.emit(relax.op.bitwise_xor(moved, data))], 1))
        return builder.emit(relax.op.bitwise_and(both, relax.const(np.uint32(0xFFFFF0))))

    moved = numbers << bits | numbers >> bits
    np.testing.assert_array_equal(folded(build), np.concatenate([moved, moved ^ numbers], 1) & np.uint32(0xFFFFF0))


def folded(build: Callable[..., Any]) -> Any:
    """What a function without inputs becomes, of whose operators none may be left."""
    module = fold_constants(one_entry(build, [(1,)], ()))
    bindings = [each for block in module["main"].body.blocks for each in block.bindings]
    assert not [each for each in bindings if isinstance(each.value, relax.Call)]
    return [array_of(each.value) for each in bindings if is_constant(each.value)][-1]


def test_functions_of_constants_are_folded_as_tvm_computes_them(here: Target) -> None:
    data = random_array(3, 4)

    def results(x: Any) -> list[Any]:
        waves = relax.op.sin(x), relax.op.cos(relax.op.log(relax.op.abs(x)))
        logarithms = relax.op.log(relax.op.maximum(x, relax.const(0.0)))
        sums = relax.op.add(relax.op.mean(x, 1, keepdims=True), relax.op.min(relax.op.tanh(x), [0, 1], keepdims=True))
        product = relax.op.matmul(relax.op.flip(x, 1), relax.op.permute_dims(relax.op.floor(x)))
        return [*waves, relax.op.maximum(logarithms, relax.const(-9.0)), relax.op.divide(product, sums)]

    def build(builder: relax.BlockBuilder, given: Sequence[Any], _names: Sequence[Any]) -> Any:
        return relax.Tuple([builder.emit(each) for each in results(given[0])])

    computed = result_of(prepare(one_entry(build, [(3, 4)], ()), {"main": ()}, here), (data,))
    assert isinstance(computed, tuple)
    for found, expected in zip(results(relax.const(data)), computed, strict=True):
        np.testing.assert_allclose(folded_result(found), expected, rtol=2e-5, atol=1e-6)


def test_angles_of_constants_are_folded() -> None:
    """TVM takes seconds to compile them; tests of elementary functions compare what it computes with NumPy."""
    data, other = random_array(3, 4), random_array(3, 4, seed=1)
    found = folded_result(relax.op.atan2(relax.const(data), relax.const(other)))
    np.testing.assert_allclose(found, np.arctan2(data, other), rtol=1e-6)


def folded_result(expression: Any) -> Any:
    return folded(lambda builder, _given, _names: builder.emit(expression))


def test_quotients_of_integers_are_not_folded_by_numpy() -> None:
    def build(builder: relax.BlockBuilder, _given: Sequence[Any], _names: Sequence[Any]) -> Any:
        return builder.emit(relax.op.divide(relax.const(np.int32([-7, 7])), relax.const(np.int32([2, 2]))))

    with pytest.raises(AssertionError):
        folded(build)


def test_prepare_folds_batch_norms_into_convolutions(here: Target) -> None:
    model = convolutional_network()
    calls = calls_per_run(prepare(model.module, model.weights, here))["main"]
    assert [name for name in calls if "conv2d" in name]
    assert not [name for name in calls if "multiply" in name or "divide" in name or "sqrt" in name]


def test_model_tasks_counts_calls_and_leaves_views_out(here: Target) -> None:
    model = multilayer_perceptron()
    prepared = prepare(model.module, model.weights, here)
    tasks = model_tasks(prepared)
    assert sum(task.calls["main"] for task in tasks) == 3
    viewing = flattened()
    with_view = prepare(viewing.module, viewing.weights, here)
    named = {name for task in model_tasks(with_view) for name in task.functions}
    views = {name for name, function in tir_functions(with_view.module).items() if is_reshape(function)}
    assert views
    assert not views & named


def test_functions_that_the_user_has_grouped_stay_so(here: Target) -> None:
    model = grouped_by_hand()
    tasks = model_tasks(prepare(model.module, model.weights, here))
    calls = {name: task.calls["main"] for task in tasks for name in task.functions}
    assert sorted(name.rstrip("0123456789") for name in calls) == ["dense_add", "dense_add", "matmul", "relu"]
    assert sum(task.calls["main"] for task in tasks) == 5


def test_conditions_and_loops_run_and_are_counted(here: Target) -> None:
    prepared = prepare(controlled(), {}, here)
    few = np.array(3, dtype="int32")
    x = random_array(8)
    found = result_of(prepared, (x, few))
    assert_close(found, np.maximum(x * 2**3, 0) if x.sum() > 0 else np.minimum(x * 2**3, 0))
    assert len(model_tasks(prepared)) >= 2


def test_prepare_names_a_weight_of_another_shape(here: Target) -> None:
    model = multilayer_perceptron()
    wrong = (model.weights["main"][0].T, *model.weights["main"][1:])
    with pytest.raises(BadInput, match="w0 of main"):
        prepare(model.module, {"main": wrong}, here)
    with pytest.raises(BadInput, match="5 parameters that are weights, and 1 weights"):
        prepare(model.module, {"main": wrong[:1]}, here)


def test_prepare_refuses_dynamic_shapes(here: Target) -> None:
    builder = relax.BlockBuilder()
    rows = tvm.tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 4), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    with pytest.raises(BadInput, match="dynamic"):
        prepare(builder.get(), {}, here)


def test_prepare_refuses_a_module_without_an_entry(here: Target) -> None:
    with pytest.raises(BadInput, match="no Relax function"):
        prepare(tvm.IRModule(), {}, here)
