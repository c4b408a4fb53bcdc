"""What models and functions compute with schedules."""

from typing import Any

import numpy as np
import tvm

from tests.search.relax.models import Array, run
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.assembly import with_schedules
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_workers.builder.scheduled_module import build_in_place


def functions_of(prepared: PreparedModel) -> list[str]:
    """The names of the functions of all tasks, in order."""
    return sorted(name for task in model_tasks(prepared) for name in task.functions)


def untried_machine(prepared: PreparedModel) -> Any:
    """TVM's virtual machine with the model, with an untried schedule of each function."""
    target = prepared.target
    schedules = {
        name: untried_schedule(load_json(task.workload.module_json), target).module
        for task in model_tasks(prepared)
        for name in task.functions
    }
    return virtual_machine(lower(with_schedules(prepared, schedules), target), target, build_quickly)


def untried_result(prepared: PreparedModel, inputs: tuple[Array, ...]) -> Any:
    """What the model gives for these inputs, with an untried schedule of each function."""
    return run(untried_machine(prepared), inputs)


def result_of_floats(module: Any, target: Target) -> Array:
    """The last argument of ``main`` after a call with random floats."""
    generator = np.random.default_rng(1)
    shapes = [tuple(int(extent) for extent in each.shape) for each in module["main"].params]
    arguments = [tvm.runtime.tensor(generator.standard_normal(shape).astype("float32")) for shape in shapes]
    build_quickly(module, tvm_target(target))["main"](*arguments)
    return arguments[-1].numpy()


def build_quickly(module: Any, target: Any) -> Any:
    """Build as ``build_in_place`` does, without LLVM's optimizations: a quarter of the time, and the same results."""
    return build_in_place(module, tvm.target.Target({**target.export(), "opt-level": 0}))
