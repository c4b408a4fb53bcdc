"""Schedules are put back into models, and weights are separated from them."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import multilayer_perceptron, run
from tests.search.scheduled import build_quickly
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.assembly import put_back, with_schedules
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.relax.weights import lift_weights
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def test_with_schedules_replaces_the_functions_of_a_task(here: Target) -> None:
    model = multilayer_perceptron()
    prepared = prepare(model.module, model.weights, here)
    task = model_tasks(prepared)[0]
    schedule = tvm.s_tir.Schedule(load_json(task.workload.module_json))
    block = schedule.get_child_blocks(schedule.get_sblock("root", func_name="main"))[0]
    schedule.split(schedule.get_loops(block)[-1], [None, 8])
    assembled = with_schedules(prepared, dict.fromkeys(task.functions, schedule.mod))
    assert str(assembled[task.functions[0]].script()) != str(prepared.module[task.functions[0]].script())
    machine = virtual_machine(lower(assembled, here), here, build_quickly)
    np.testing.assert_allclose(run(machine, model.inputs), model.expected(*model.inputs), rtol=1e-4, atol=1e-4)


def test_with_schedules_refuses_other_functions(here: Target) -> None:
    model = multilayer_perceptron()
    prepared = prepare(model.module, model.weights, here)
    first, last = model_tasks(prepared)[0], model_tasks(prepared)[-1]
    of_other = load_json(last.workload.module_json)
    with pytest.raises(BadInput, match="the function takes"):
        with_schedules(prepared, {first.functions[0]: of_other})
    with pytest.raises(BadInput, match="no TIR function 'main'"):
        with_schedules(prepared, {"main": of_other})


def test_lift_weights_makes_one_parameter_of_a_shared_constant() -> None:
    shared = relax.const(np.arange(400, dtype="float32").reshape(20, 20))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((20, 20), "float32"))
    with builder.function("main", [x]):
        product = builder.emit(relax.op.matmul(builder.emit(relax.op.matmul(x, shared)), shared))
        builder.emit_func_output(builder.emit(relax.op.multiply(product, relax.const(2.0, "float32"))))
    lifted = lift_weights(builder.get(), ["main"])
    assert lifted.of_entries == {"main": ("w0",)}
    np.testing.assert_array_equal(lifted.weights["w0"], shared.value.numpy())
    assert len(lifted.module["main"].params) == 2
    assert relax.analysis.check_well_formed(lifted.module)


def test_model_tasks_leaves_schedules_of_the_author(here: Target) -> None:
    model = multilayer_perceptron()
    prepared = prepare(model.module, model.weights, here)
    task, *others = model_tasks(prepared)
    schedule = tvm.s_tir.Schedule(load_json(task.workload.module_json))
    block = schedule.get_child_blocks(schedule.get_sblock("root", func_name="main"))[0]
    schedule.parallel(schedule.get_loops(block)[0])
    by_hand = put_back(prepared.module, dict.fromkeys(task.functions, schedule.mod))
    left = model_tasks(replace(prepared, module=by_hand))
    assert [each.functions for each in left] == [each.functions for each in others]
