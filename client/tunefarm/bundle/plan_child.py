"""The child that plans a model for a device without TVM: tables in C, the weights in their places, a test vector."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tunefarm.bundle.messages import PlannedEntry, PlannedParts, StaticPlanOrder, kernel_prefix
from tunefarm.frontend.random_inputs import random_inputs
from tunefarm.frontend.weights_file import Array, write_weights
from tunefarm.model.messages import PreparedTask, input_name, output_name
from tunefarm.model.prepare_child import code_generator, prepared_model
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.relax.static_plan.plan import StaticPlan, static_plan
from tunefarm_search.relax.tasks import ModelTask, model_tasks, tir_functions
from tunefarm_search.tvm.cpu_features import required_cpu_features
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, reason_it_cannot_run_here
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.validation.judgement import NotPermitted, require_permitted
from tunefarm_workers.builder.model_source import model_header, model_source
from tunefarm_workers.builder.scheduled_module import build_in_place


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: answer one ``StaticPlanOrder``. ``descriptors``: the weights, the placed weights, and the test vectors."""
    answer(channel, lambda: planned(StaticPlanOrder.model_validate_json(payload), *descriptors))


def planned(order: StaticPlanOrder, given: int, placed: int, vectors: int) -> PlannedParts:
    """Plan a model.

    Raises:
        BadInput: the model or the target cannot be compiled, or the model needs TVM's virtual machine.
    """
    if order.is_foreign:
        _require_permitted(order.model.module_json)
    model, notes = prepared_model(order.model, given, kind="cuda" if order.is_cuda else "llvm")
    entry = _entry(model, order.entry)
    plan = static_plan(model, entry.name)
    tasks = _called(model_tasks(model), plan)
    _write_placed(plan, placed)
    own = 0 if order.has_vectors else _write_vector(order, given, model, entry, tasks, vectors)
    return PlannedParts(
        target=model.target,
        notes=notes,
        code_generator=code_generator(is_cuda=order.is_cuda),
        tvm_version=str(tvm.__version__),
        entries=(PlannedEntry(constant=order.name, entry=entry, arena_bytes=plan.arena_bytes, vectors=own),),
        tasks=tasks,
        cpu_features=required_cpu_features(model.target) if order.is_linked else (),
        reason_it_cannot_run_here=reason_it_cannot_run_here(model.target),
        rest_json=_rest(model, plan, tasks, kernel_prefix(order.name)),
        source=model_source({order.name: plan}, kernel_prefix(order.name)),
        header=model_header(plan, order.name),
        weights_bytes=plan.weights_bytes,
    )


def _require_permitted(module_json: str) -> None:
    try:
        functions = tir_functions(load_json(module_json))
    except TVM_ERRORS as error:
        raise BadInput("model", f"it cannot be read: {last_line(error)}.", "Export it again.") from error
    for name, function in functions.items():
        try:
            require_permitted(tvm.IRModule({ENTRY: function.with_attr("global_symbol", ENTRY)}))
        except NotPermitted as error:
            raise BadInput(
                "model", f"its function {name} is refused: it {error}.", "Build it on a machine of your own."
            ) from error


def _entry(model: PreparedModel, name: str | None) -> ModelEntry:
    wanted = name or ("main" if len(model.entries) > 1 else model.entries[0].name)
    found = next((each for each in model.entries if each.name == wanted), None)
    if found is None:
        names = ", ".join(each.name for each in model.entries)
        raise BadInput("entry", f"the model has no function {wanted!r}.", f"Give one of: {names}.")
    return found


def _called(tasks: Sequence[ModelTask], plan: StaticPlan) -> tuple[PreparedTask, ...]:
    """The tasks with the functions that the plan calls."""
    called = set(plan.functions)
    return tuple(
        PreparedTask(workload=task.workload, functions=names, calls=task.calls)
        for task in tasks
        if (names := tuple(name for name in task.functions if name in called))
    )


def _rest(model: PreparedModel, plan: StaticPlan, tasks: Sequence[PreparedTask], prefix: str) -> str | None:
    functions, taken = tir_functions(model.module), {name for task in tasks for name in task.functions}
    names = {name: f"{prefix}{name}" for name in plan.functions if name not in taken}
    rest = {named: functions[name].with_attr("global_symbol", named) for name, named in names.items()}
    return str(tvm.ir.save_json(tvm.IRModule(rest))) if rest else None


def _write_placed(plan: StaticPlan, descriptor: int) -> None:
    os.truncate(descriptor, plan.weights_bytes)
    for offset, array in plan.weights:
        data, at = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, 0
        while at < len(data):
            at += os.pwrite(descriptor, data[at:], offset + at)


def _write_vector(
    order: StaticPlanOrder,
    given: int,
    model: PreparedModel,
    entry: ModelEntry,
    tasks: Sequence[PreparedTask],
    descriptor: int,
) -> int:
    """Compute a test vector without schedules, on this machine; return how many were written."""
    operations = sum(task.workload.floating_point_operations * sum(task.calls.values()) for task in tasks)
    if operations > order.max_operations:
        return 0
    here = canonical_target({"kind": "llvm"}, 1).target
    if order.is_cuda:  # TVM's functions for GPUs, such as scatter, may be bound to threads
        model, _ = prepared_model(order.model.model_copy(update={"target": here.canonical}), given)
    try:
        machine = virtual_machine(lower(model.module, here), here, build_in_place)
        inputs = random_inputs(entry, 0)
        outputs = _leaves(machine[entry.name](*map(tvm.runtime.tensor, inputs)))
    except TVM_ERRORS as error:
        raise BadInput("model", f"TVM cannot run it: {last_line(error)}", "Simplify it.") from error
    arrays: dict[str, Array] = {input_name(0, at): each for at, each in enumerate(inputs)}
    write_weights(descriptor, arrays | {output_name(0, at): each for at, each in enumerate(outputs)})
    return 1


def _leaves(result: Any) -> list[Array]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [leaf for each in result for leaf in _leaves(each)]
