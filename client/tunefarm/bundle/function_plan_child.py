"""The child that plans functions for a device without TVM: each is an entry of one kernel call, without weights."""

from itertools import count
from typing import Final

import tvm

from tunefarm.bundle.messages import (
    FunctionsPlanOrder,
    NamedFunction,
    PlannedEntry,
    PlannedParts,
    VectorCounts,
    kernel_prefix,
)
from tunefarm.frontend.random_inputs import random_inputs
from tunefarm.frontend.weights_file import Array, write_weights
from tunefarm.intake.target_text import parse_target_text
from tunefarm.model.messages import PreparedTask, input_name, output_name
from tunefarm.model.prepare_child import code_generator
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.relax.static_plan.plan import DTYPES, KernelCall, PlannedTensor, StaticPlan
from tunefarm_search.tvm.cpu_features import required_cpu_features
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_cpu, reason_it_cannot_run_here
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.validation.judgement import NotPermitted, require_permitted
from tunefarm_workers.builder.model_source import model_header, model_source
from tunefarm_workers.builder.scheduled_module import build_in_place

_HERE: Final = {"kind": "llvm", "num-cores": 1}


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``FunctionsPlanOrder``. Runs no function: what it answers becomes a program."""
    answer(channel, lambda: planned_functions(FunctionsPlanOrder.model_validate_json(payload)))


def write_vectors(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: write the test vectors of one ``FunctionsPlanOrder`` to a file, and answer with ``VectorCounts``."""
    answer(channel, lambda: _vectors(FunctionsPlanOrder.model_validate_json(payload), descriptors[0]))


def planned_functions(order: FunctionsPlanOrder) -> PlannedParts:
    """Plan functions.

    Raises:
        BadInput: a function calls others; or the target is not of the kind that the form is for.
    """
    target, notes = _target(order)
    _require_kind(target, is_cuda=order.is_cuda)
    for each in order.functions:
        _require_alone(each.workload)
        _require_known_types(each.workload)
    plans = {_constant(order, each): _plan(each) for each in order.functions}
    return PlannedParts(
        target=target,
        notes=notes,
        code_generator=code_generator(is_cuda=order.is_cuda),
        tvm_version=str(tvm.__version__),
        entries=tuple(PlannedEntry(constant=constant, entry=plan.entry) for constant, plan in plans.items()),
        tasks=tuple(
            PreparedTask(workload=each.workload, functions=(each.name,), calls={each.name: 1})
            for each in order.functions
        ),
        cpu_features=required_cpu_features(target) if order.is_linked else (),
        reason_it_cannot_run_here=reason_it_cannot_run_here(target),
        rest_json=None,
        source=model_source(plans, kernel_prefix(order.name)),
        header="".join(model_header(plan, constant) for constant, plan in plans.items()),
        weights_bytes=0,
    )


def _require_kind(target: Target, *, is_cuda: bool) -> None:
    if is_cuda and target.kind != "cuda":
        fix = 'Give records of a GPU, or a target such as {"kind": "cuda", "arch": "sm_80"}.'
        raise BadInput("target", f"bundles of the form cuda contain code of GPUs, not of {target.kind}.", fix)
    if not is_cuda and target.kind != "llvm":
        fix = "Give --form cuda." if target.kind == "cuda" else "Give records of a CPU, or a CPU target."
        raise BadInput("target", f"bundles of this form contain code of processors, not of {target.kind}.", fix)


def _target(order: FunctionsPlanOrder) -> tuple[Target, tuple[str, ...]]:
    if isinstance(order.target, Target):
        return order.target, ()
    attributes, notes = parse_target_text(order.target, host_cores=order.host_cores, host_cpu=host_cpu())
    canonical = canonical_target(attributes, order.host_cores)
    return canonical.target, (*notes, *canonical.notes)


def _require_alone(workload: Workload) -> None:
    try:
        require_permitted(load_json(workload.module_json))
    except NotPermitted as error:
        fix = "Use its library: tunefarm artifact build RECORD --output DIR"
        raise BadInput("source", f"{workload.name} cannot be a part of a bundle: it {error}.", fix) from error


def _require_known_types(workload: Workload) -> None:
    unknown = sorted({each.dtype for each in workload.arguments} - DTYPES)
    if unknown:
        problem = f"{workload.name} has a tensor of {unknown[0]}, which devices do not know."
        raise BadInput("source", problem, "Use its library: tunefarm artifact build RECORD --output DIR")


def _constant(order: FunctionsPlanOrder, function: NamedFunction) -> str:
    return order.name if len(order.functions) == 1 else f"{order.name}_{function.name}"


def _plan(function: NamedFunction) -> StaticPlan:
    entry = entry_of(function)
    numbers = {True: count(), False: count()}
    tensors = tuple(
        PlannedTensor(each.shape, each.dtype, "output" if each.is_output else "input", next(numbers[each.is_output]))
        for each in function.workload.arguments
    )
    call = KernelCall(function.name, tuple(range(len(tensors))))
    return StaticPlan(entry, tensors, (call,), weights=(), weights_bytes=0, arena_bytes=0)


def entry_of(function: NamedFunction) -> ModelEntry:
    """The function as an entry."""
    arguments = function.workload.arguments
    outputs = tuple(each for each in arguments if each.is_output)
    inputs = tuple(each for each in arguments if not each.is_output)
    return ModelEntry(name=function.name, inputs=inputs, outputs=outputs, is_tuple=len(outputs) > 1)


def _vectors(order: FunctionsPlanOrder, descriptor: int) -> VectorCounts:
    """Inputs, and what each function computes of them on this machine without a schedule, where that is quick."""
    arrays: dict[str, Array] = {}
    counts = []
    for number, each in enumerate(order.functions):
        is_quick = each.workload.floating_point_operations <= order.max_operations
        counts.append(int(is_quick))
        if is_quick:
            arrays |= _vector(each, number)
    write_weights(descriptor, arrays)
    return VectorCounts(counts=tuple(counts))


def _vector(function: NamedFunction, number: int) -> dict[str, Array]:
    workload, inputs = function.workload, random_inputs(entry_of(function), number)
    left = iter(inputs)
    tensors = [
        tvm.runtime.empty(each.shape, each.dtype) if each.is_output else tvm.runtime.tensor(next(left))
        for each in workload.arguments
    ]
    try:
        build_in_place(load_json(workload.module_json), tvm.target.Target(_HERE))[ENTRY](*tensors)
    except TVM_ERRORS as error:
        raise BadInput("source", f"TVM cannot compile {workload.name}: {last_line(error)}", "Tune it again.") from error
    outputs = [each for each, known in zip(tensors, workload.arguments, strict=True) if known.is_output]
    named: dict[str, Array] = {input_name(number, at): each for at, each in enumerate(inputs)}
    return named | {output_name(number, at): each.numpy() for at, each in enumerate(outputs)}
