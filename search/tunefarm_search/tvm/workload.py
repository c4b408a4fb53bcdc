"""Conversion of an IRModule to a workload: one function, named ``main``, with static shapes."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.workload import TensorArgument, Workload
from tunefarm_search.tvm.moved_data import work_of
from tunefarm_search.tvm.operation_count import floating_point_operations
from tunefarm_search.tvm.serialization import load_json

ENTRY = "main"


def workload_of(module: Any, function: str | None = None, name: str | None = None) -> Workload:
    """Normalise one function of a module.

    Args:
        module: an ``IRModule`` or a ``PrimFunc``.
        function: which function, if the module has several.
        name: the name of the workload; the function's name by default.

    Raises:
        BadInput: the module has only Relax functions, the choice is ambiguous, shapes are dynamic, or the function has
            no schedulable blocks or works in place.
    """
    functions = functions_of(module)
    chosen = _choose(functions, function, untuned_functions(module))
    normalised = tvm.IRModule({ENTRY: functions[chosen].with_attr("global_symbol", ENTRY)})
    arguments = _arguments(normalised)
    _require_out_of_place(normalised)
    module_json = str(tvm.ir.save_json(normalised))
    return Workload(
        workload_id=digest(module_json),
        structural_hash=str(tvm_ffi.structural_hash(normalised)),
        tvm_version=str(tvm.__version__),
        module_json=module_json,
        name=name or chosen,
        arguments=arguments,
        floating_point_operations=floating_point_operations(normalised),
        work=work_of(normalised),
    )


def functions_of(module: Any) -> dict[str, Any]:
    """The TIR functions of a module by name, without their callers.

    Raises:
        BadInput: it has none.
    """
    if isinstance(module, tvm.tirx.PrimFunc):
        symbol = module.attrs.get("global_symbol") if module.attrs else None
        return {str(symbol or ENTRY): module}
    if not isinstance(module, tvm.IRModule):
        raise BadInput("module", f"is a {type(module).__name__}.", "Give an IRModule or a PrimFunc of TensorIR.")
    found = {str(variable.name_hint): function for variable, function in module.functions.items()}
    tensor_functions = {name: each for name, each in found.items() if isinstance(each, tvm.tirx.PrimFunc)}
    if not found:
        raise BadInput("module", "has no functions.", "Give a module with one TIR function.")
    if not tensor_functions:
        raise BadInput(
            "module",
            f"holds the Relax function{'s' if len(found) > 1 else ''} {', '.join(sorted(found))} and no TIR function; "
            "only TIR is tuned.",
            "Lower it with relax.transform.LegalizeOps, AnnotateTIROpPattern, FuseOps and FuseTIR, and give the whole "
            "result: its TIR functions are taken.",
        )
    return tensor_functions


def untuned_functions(module: Any) -> tuple[str, ...]:
    """The functions of a module that are not TIR, such as those of Relax, by name. They stay unchanged."""
    if not isinstance(module, tvm.IRModule):
        return ()
    others = [name for name, each in module.functions.items() if not isinstance(each, tvm.tirx.PrimFunc)]
    return tuple(sorted(str(variable.name_hint) for variable in others))


def may_stand_for(stored: Workload, given: Workload, *, with_schedules: bool, of_model: bool = False) -> bool:
    """Whether a stored workload may be used in place of another.

    They must be structurally equal and have the same external names: parameters, which input specs refer to, and
    blocks, which traces refer to. ``with_schedules`` also compares buffers, after which TVM names the blocks that a
    schedule adds. ``of_model`` ignores the names of parameters, which no input spec of a model refers to.
    """
    if stored.module_json == given.module_json:
        return True
    modules = [load_json(workload.module_json) for workload in (stored, given)]
    if not tvm_ffi.structural_equal(*modules):
        return False
    of_stored, of_given = (_outer_names(module, with_buffers=with_schedules) for module in modules)
    first = len(given.arguments) if of_model else 0
    return of_stored[first:] == of_given[first:]


def _outer_names(module: Any, *, with_buffers: bool) -> list[str]:
    function = module[ENTRY]
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, blocks.append), order="post")
    names = [str(parameter.name) for parameter in function.params] + [str(block.name_hint) for block in blocks]
    buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
    buffers += [match.buffer for block in blocks for match in block.match_buffers]
    return names + ([str(buffer.name) for buffer in buffers] if with_buffers else [])


def _choose(functions: Mapping[str, Any], function: str | None, untuned: Sequence[str]) -> str:
    if function is None and len(functions) == 1:
        return next(iter(functions))
    names = ", ".join(sorted(functions))
    if function is None:
        raise BadInput("function", f"the module has {len(functions)} functions.", f"Choose one of: {names}.")
    if function in untuned:
        fix = f"Choose one of the TIR functions: {names}."
        raise BadInput("function", f"{function} is a Relax function; only TIR is tuned.", fix)
    if function not in functions:
        raise BadInput("function", f"there is no {function!r} in the module.", f"Choose one of: {names}.")
    return function


def _arguments(module: Any) -> tuple[TensorArgument, ...]:
    parameters = list(module[ENTRY].params)
    shapes = [_static_shape(parameter) for parameter in parameters]
    written = _written_buffers(module)
    if not written:
        raise BadInput("module", "the function has no blocks to schedule.", "Write it as TensorIR with blocks.")
    arguments = tuple(
        TensorArgument(
            name=str(parameter.name),
            shape=shape,
            dtype=str(parameter.dtype),
            is_output=any(parameter.same_as(buffer) for buffer in written),
        )
        for parameter, shape in zip(parameters, shapes, strict=True)
    )
    if not any(argument.is_output for argument in arguments):
        raise BadInput("module", "the function writes none of its arguments.", "Pass its output as an argument.")
    return arguments


def _written_buffers(module: Any) -> list[Any]:
    """Buffers that the blocks of ``main`` write."""
    return [region.source for block in _blocks(module) for region in block.writes]


def _require_out_of_place(module: Any) -> None:
    """Refuse a function that reads the previous contents of a tensor that it writes.

    TVM treats such a block as neither complete nor a reduction, and refuses to parallelise or vectorise its loops.
    Also, each call finds other inputs than the one before, so that repeated calls cannot be timed or compared.
    """
    written: list[Any] = []
    read: list[tuple[Any, str]] = []
    for block in _leaf_blocks(module):
        writes = [region.source for region in block.writes]
        loaded = [region.source for region in block.reads] + ([] if block.init is not None else _loaded(block.body))
        read += [(buffer, str(block.name_hint)) for buffer in loaded if not _is_among(buffer, written)]
        for buffer, reader in read:
            if _is_among(buffer, writes):
                problem = f"the function works in place: the block {block.name_hint} writes the tensor {buffer.name}"
                fix = "Give the result a tensor of its own: write to a new argument what is now written back."
                raise BadInput("module", f"{problem}, whose old values the block {reader} reads.", fix)
        written += writes


def _leaf_blocks(module: Any) -> list[Any]:
    """The blocks of ``main`` that contain no others, in the order in which they run."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(module[ENTRY].body, (tvm.s_tir.SBlock, blocks.append), order="post")
    return [block for block in blocks if not _holds_blocks(block)]


def _holds_blocks(block: Any) -> bool:
    inner: list[Any] = []
    tvm_ffi.structural_walk(block.body, (tvm.s_tir.SBlock, inner.append), order="post")
    return bool(inner)


def _loaded(body: Any) -> list[Any]:
    loads: list[Any] = []
    tvm_ffi.structural_walk(body, (tvm.ir.TensorLoad, loads.append), order="post")
    return [load.source for load in loads]


def _is_among(buffer: Any, buffers: Sequence[Any]) -> bool:
    return any(buffer.same_as(other) for other in buffers)


def _blocks(module: Any) -> list[Any]:
    """The outermost blocks of ``main`` below its root."""
    try:
        schedule = tvm.s_tir.Schedule(module)
        root = schedule.get_sblock("root", func_name=ENTRY)
        return [schedule.get(block) for block in schedule.get_child_blocks(root)]
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise BadInput("module", f"TVM cannot schedule it: {reason}", "Write it as TensorIR with blocks.") from error


def _static_shape(parameter: Any) -> tuple[int, ...]:
    name, extents = str(parameter.name), []
    try:
        shape = parameter.shape
    except AttributeError as error:
        raise BadInput("module", f"the argument {name} is a scalar.", "Make it a tensor or a constant.") from error
    for extent in shape:
        value = getattr(extent, "value", extent)
        if not isinstance(value, int):
            raise BadInput(
                "module", f"the argument {name} has the dynamic extent {extent}.", "Bind it to a number and tune that."
            )
        if value < 1:
            raise BadInput("module", f"the argument {name} has no elements.", "Give each of its axes at least one.")
        extents.append(int(value))
    return tuple(extents)
