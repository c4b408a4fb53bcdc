"""The intake child: reads a module, a target and a space in a confined process."""

import os
from collections.abc import Sequence
from typing import Any, Final

from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_reader import ConvertedByFrontend, read_module
from tunefarm.intake.schedules.own_intrinsics import carrying_sketch, carrying_trace, register_own_intrinsics
from tunefarm.intake.schedules.schedule_function import schedule_function_of, seed_trace, tersely_failing
from tunefarm.intake.target_text import parse_target_text
from tunefarm.intake.user_file import require_registered
from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.relax.placeholders import is_model, tasks_without_weights
from tunefarm_search.space.space import sketches_of
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_cpu, reason_it_cannot_run_here
from tunefarm_search.tvm.target_attributes import require_measured_kind
from tunefarm_search.tvm.workload import functions_of, untuned_functions, workload_of
from tunefarm_search.validation.foreign_input import require_permitted_module
from tunefarm_search.validation.memory_bounds import refuse_strays

TORCH_CACHE: Final = "TORCHINDUCTOR_CACHE_DIR"
"""torch creates this folder when it is imported, and this process may not write to any."""
LARGEST_WEIGHTS_BYTES: Final = 3 << 30
"""Within the memory of this child."""
_ELSEWHERE: Final = (
    "Submit it to a service with a machine that can: tunefarm submit MODULE --target TARGET; or use --target host."
)


def understand(request: IntakeRequest) -> IntakeAnswer:
    """Read the parts of a job that require TVM.

    Raises:
        BadInput: any part of the request cannot be tuned.
    """
    target, notes = understand_target(request.target, request.host_cores, elsewhere=request.elsewhere)
    os.environ.setdefault(TORCH_CACHE, "/")
    if request.intrinsics_file is not None:
        register_own_intrinsics(request.intrinsics_file, target)
    try:
        module, name = read_module(request.module)
    except ConvertedByFrontend:
        if not request.takes_frontends:
            raise
        return IntakeAnswer(
            workloads=(), target=target, space=Space(), seed_traces=(), notes=notes, is_of_frontend=True
        )
    if request.function is None and is_model(module, all_functions=request.all_functions):
        return _model_answer(request, module, target, notes)
    workloads = chosen_workloads(module, name, request.function, all_functions=request.all_functions)
    for workload in workloads:
        loaded = load_json(workload.module_json)
        if request.callees is not None:
            require_permitted_module(loaded, request.callees)
        refuse_strays(loaded, "module")
    specs, examples = _inputs(request, workloads)
    return IntakeAnswer(
        workloads=workloads,
        target=target,
        space=_space(request, workloads, target),
        seed_traces=_seed_traces(request, workloads),
        notes=notes,
        input_specs=specs,
        input_examples=examples,
        untuned_functions=untuned_functions(module),
    )


def _model_answer(request: IntakeRequest, module: Any, target: Target, notes: tuple[str, ...]) -> IntakeAnswer:
    """The functions of a model, as they result with any weights of its shapes."""
    for field, is_given in (("space", request.space), ("seed_traces", request.seeds), ("input", request.inputs)):
        if is_given:
            fix = "Leave it out, or tune one function of the model by itself."
            raise BadInput(field, "it applies to one function, and a model has several.", fix)
    if request.abi == "packed":
        raise BadInput("abi", "the functions of a model take its weights as they are.", "Use stable.")
    if not request.elsewhere:
        require_registered(module, request.functions_file)
    tasks = tasks_without_weights(module, target, LARGEST_WEIGHTS_BYTES)
    for task in tasks:
        loaded = load_json(task.workload.module_json)
        if request.callees is not None:
            require_permitted_module(loaded, request.callees)
        refuse_strays(loaded, "module")
    return IntakeAnswer(
        workloads=tuple(task.workload for task in tasks),
        target=target,
        space=Space(),
        seed_traces=(),
        notes=notes,
        calls=tuple(float(sum(task.calls.values())) for task in tasks),
    )


def understand_target(text: str, host_cores: int, *, elsewhere: bool = False) -> tuple[Target, tuple[str, ...]]:
    """The canonical form of a target, and notes on the defaults that were filled in.

    Raises:
        BadInput: TVM does not know the target, no worker measures it, or it is to be measured here and this machine
            cannot run it.
    """
    attributes, notes = parse_target_text(text, host_cores=host_cores, host_cpu=host_cpu())
    require_measured_kind(attributes)
    known = canonical_target(attributes, host_cores)
    reason = None if elsewhere else reason_it_cannot_run_here(known.target)
    if reason is not None:
        raise BadInput("target", f"{reason}.", _ELSEWHERE)
    return known.target, (*notes, *known.notes)


def chosen_workloads(module: Any, name: str, function: str | None, *, all_functions: bool) -> tuple[Workload, ...]:
    """The selected functions of a module, normalised.

    Raises:
        BadInput: the selection matches no function, is ambiguous or contradictory, or a function cannot be tuned.
    """
    present = functions_of(module)
    if all_functions and function is not None:
        raise BadInput("function", "it conflicts with --all-functions.", "Give --function or --all-functions.")
    if all_functions:
        return tuple(workload_of(module, each) for each in sorted(present))
    if function is None and len(present) > 1:
        fix = "Give --function NAME or --all-functions."
        raise BadInput("module", f"it has several functions: {', '.join(sorted(present))}.", fix)
    return (workload_of(module, function, name=name if function is None else function),)


def _inputs(
    request: IntakeRequest, workloads: Sequence[Workload]
) -> tuple[tuple[InputSpec, ...], tuple[InputExample, ...]]:
    if not request.inputs:
        return (), ()
    # Imported here because clients that only submit modules do not have the workers installed.
    from tunefarm.intake.input_reader import read_inputs

    return read_inputs(request.inputs, workloads)


def _space(request: IntakeRequest, workloads: Sequence[Workload], target: Target) -> Space:
    if request.space is None:
        return Space()
    module = only_module(workloads, "space")
    function = tersely_failing(schedule_function_of("space", request.space))
    sketches = sketches_of(function, module, target)
    return Space(automatic=False, sketches=tuple(carrying_sketch(each) for each in sketches))


def _seed_traces(request: IntakeRequest, workloads: Sequence[Workload]) -> tuple[Trace, ...]:
    if not request.seeds:
        return ()
    module = only_module(workloads, "seed_traces")
    return tuple(carrying_trace(seed_trace(seed, module, request.callees)) for seed in request.seeds)


def only_module(workloads: Sequence[Workload], field: str) -> Any:
    """The module of the only workload.

    Raises:
        BadInput: there are several workloads, but a schedule applies to one function only.
    """
    if len(workloads) > 1:
        raise BadInput(
            field, "a schedule applies to one function, but several are tuned.", "Select one with --function."
        )
    return load_json(workloads[0].module_json)


main = answering(IntakeRequest, understand)
