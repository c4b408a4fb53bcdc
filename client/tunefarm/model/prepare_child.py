"""The child that prepares a model: it answers with its tasks, and writes bytecode and weights."""

from pathlib import Path
from typing import Any, Final

import tvm

from tunefarm.frontend.weights_file import DamagedWeights, read_weights, write_weights
from tunefarm.intake.target_text import parse_target_text
from tunefarm.model.messages import PreparedParts, PreparedTask, PrepareOrder
from tunefarm.model.race.plan_child import PlanServer
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.refusal import Refusal
from tunefarm_search.relax.lowering import LoweredModel, lower
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import ModelTask, model_tasks, rounds_to_bytes
from tunefarm_search.relax.weights import LiftedModel, lift_weights
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_cpu, other_architecture

_PROGRAM = "program.vm"
_FOR_OTHERS: Final = (
    "Compile it on such a machine, or build a bundle for one: tunefarm bundle build MODEL --target TARGET"
)


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry. ``descriptors`` holds the file of the weights, the one for the prepared weights, and those of plans."""
    order = PrepareOrder.model_validate_json(payload)
    try:
        model, parts, program = _prepared(order, *descriptors[:2])
        server = PlanServer(model, descriptors[2], descriptors[3], order.folder) if order.has_plans else None
    except BadInput as error:
        channel.send(Refusal.of(error).model_dump_json().encode())
        return
    parts = parts if server is None else parts.model_copy(update={"units": server.units()})
    channel.send(parts.model_dump_json().encode())
    channel.send(program)
    if server is not None:
        server.serve(channel)


def prepared_model(order: PrepareOrder, given: int, *, kind: str = "llvm") -> tuple[PreparedModel, tuple[str, ...]]:
    """The model of an order, prepared, and notes on its target. ``given`` is the file of the weights.

    ``kind`` is that of the targets that the caller compiles for.

    Raises:
        BadInput: the model or the target cannot be compiled.
    """
    attributes, notes = parse_target_text(order.target, host_cores=order.host_cores, host_cpu=host_cpu())
    canonical = canonical_target(attributes, order.host_cores)
    if canonical.target.kind != kind:
        raise BadInput("target", *_of_another_kind(canonical.target.kind, kind))
    try:
        module, arrays = load_json(order.module_json), read_weights(given)
        weights = {entry: tuple(arrays[name] for name in names) for entry, names in order.weights.items()}
    except (*TVM_ERRORS, DamagedWeights) as error:
        raise BadInput("model", f"it cannot be read: {last_line(error)}.", "Export it again.") from error
    return prepare(module, weights, canonical.target), (*notes, *canonical.notes)


def code_generator(*, is_cuda: bool) -> str:
    """What generates the code of kernels, with its version."""
    compiler = "cuda" if is_cuda else f"llvm-{tvm.target.codegen.llvm_version_major()}"
    return f"tvm-{tvm.__version__}+{compiler}"


def _of_another_kind(given: str, kind: str) -> tuple[str, str]:
    """What is wrong with a target, and the fix."""
    if kind == "cuda":
        return f"bundles of the form cuda contain code of GPUs, not of {given}.", "Name a GPU, such as nvidia-a100."
    fix = "Name a CPU. For an NVIDIA GPU, build a bundle: tunefarm bundle build MODEL --form cuda --target nvidia-a100"
    return f"models are compiled for CPUs, not for {given}.", fix


def _prepared(order: PrepareOrder, given: int, result: int) -> tuple[PreparedModel, PreparedParts, bytes]:
    model, notes = prepared_model(order, given)
    elsewhere = other_architecture(model.target)
    if elsewhere is not None:
        raise BadInput("target", f"{elsewhere}, where the compiled model is verified.", _FOR_OTHERS)
    tasks = model_tasks(model)
    try:
        lifted = lift_weights(model.module, [entry.name for entry in model.entries])
        lowered = lower(lifted.module, model.target)
    except TVM_ERRORS as error:
        raise BadInput("model", f"TVM cannot compile it: {last_line(error)}", "Simplify it.") from error
    write_weights(result, lifted.weights)
    parts = _parts(model, tasks, lifted, lowered, notes)
    path = Path(order.folder) / _PROGRAM
    lowered.program.write_to_file(str(path), "")
    return model, parts, path.read_bytes()


def _parts(
    model: PreparedModel,
    tasks: tuple[ModelTask, ...],
    lifted: LiftedModel,
    lowered: LoweredModel,
    notes: tuple[str, ...],
) -> PreparedParts:
    return PreparedParts(
        target=model.target,
        notes=notes,
        code_generator=code_generator(is_cuda=False),
        tvm_version=str(tvm.__version__),
        entries=model.entries,
        entry_weights=lifted.of_entries,
        updated_inputs=lowered.updated_inputs,
        tasks=tuple(PreparedTask(workload=t.workload, functions=t.functions, calls=t.calls) for t in tasks),
        rest_json=_rest(lowered.kernels, {name for task in tasks for name in task.functions}),
        is_quantized=rounds_to_bytes(model.module),
    )


def _rest(kernels: Any, taken: set[str]) -> str | None:
    """The functions of no task, as JSON."""
    if kernels is None:
        return None
    rest = {name: each for name, each in kernels.functions.items() if str(each.attrs["global_symbol"]) not in taken}
    return str(tvm.ir.save_json(tvm.IRModule(rest, attrs=kernels.attrs))) if rest else None
