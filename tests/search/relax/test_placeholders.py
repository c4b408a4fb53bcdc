from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax

from tests.search.relax.models import SmallModel, convolutional_network, multilayer_perceptron, one_entry, random_array
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.placeholders import is_model, tasks_without_weights
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.workload import may_stand_for


@pytest.mark.parametrize("make", [multilayer_perceptron, convolutional_network])
def test_tasks_without_weights_are_those_of_the_whole_model(make: Callable[[], SmallModel], target: Target) -> None:
    model = make()
    found = tasks_without_weights(model.module, target)
    whole = model_tasks(prepare(model.module, model.weights, target))
    assert [(task.workload.workload_id, task.calls) for task in found] == [
        (task.workload.workload_id, task.calls) for task in whole
    ]


def test_tasks_without_weights_keeps_scalars_as_parameters(target: Target) -> None:
    """The contents of a scalar constant become part of the function that it is passed to."""
    builder = relax.BlockBuilder()
    x, factor = relax.Var("x", relax.TensorType((4, 8), "float32")), relax.Var("f", relax.TensorType((), "float32"))
    with builder.function("main", [x, factor], attrs={"num_input": 1}):
        builder.emit_func_output(builder.emit(relax.op.multiply(x, factor)))
    (task,) = tasks_without_weights(builder.get(), target)
    assert [argument.shape for argument in task.workload.arguments] == [(4, 8), (), (4, 8)]


def test_tasks_without_weights_rejects_too_large_weights(target: Target) -> None:
    with pytest.raises(BadInput, match="its weights have"):
        tasks_without_weights(multilayer_perceptron().module, target, largest_bytes=64)


def test_is_model_needs_a_relax_function_to_call() -> None:
    model = multilayer_perceptron().module
    assert is_model(model)
    assert is_model(model, all_functions=True), "there is no TIR function to tune by itself"
    legalized = relax.transform.LegalizeOps()(model)
    assert is_model(legalized)
    assert not is_model(legalized, all_functions=True)
    legalized.update_func(legalized.get_global_var("main"), legalized["main"].without_attr("global_symbol"))
    assert not is_model(legalized)
    assert not is_model(tvm.IRModule({}))


def test_function_of_two_models_is_one_workload_whatever_its_parameters_are_called(target: Target) -> None:
    weight = random_array(128, 10)

    def behind_relu(builder: Any, given: Any, names: Any) -> Any:
        return builder.emit(relax.op.matmul(builder.emit(relax.op.nn.relu(given[0])), names[0]))

    def alone(_builder: Any, given: Any, names: Any) -> Any:
        return relax.op.matmul(given[0], names[0])

    first, second = (
        tasks_without_weights(one_entry(build, [(1, 128)], [weight]), target)[-1].workload
        for build in (behind_relu, alone)
    )
    assert [argument.name for argument in first.arguments] != [argument.name for argument in second.arguments]
    assert not may_stand_for(first, second, with_schedules=False)
    assert may_stand_for(first, second, with_schedules=False, of_model=True)
