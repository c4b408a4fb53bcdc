"""From a model with schedules to the bytecode of TVM's Relax VM and the kernels that it calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tunefarm_schemas.kernel_library.program import RELEASE_FUNCTION
from tunefarm_schemas.tuning.model import EntryUpdates
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.expressions import viewed_by, with_blocks
from tunefarm_search.relax.loops.private_functions import private_functions, without_argument_checks
from tunefarm_search.relax.loops.updates_in_place import with_fast_loops
from tunefarm_search.tvm.target import tvm_target

Build = Callable[[Any, Any], Any]
"""Compiles a module of TIR functions for a TVM target, such as ``build_scheduled`` of the workers."""


@dataclass(frozen=True)
class LoweredModel:
    """A model as the VM runs it.

    Attributes:
        program: the bytecode with its constants, as a runtime module of TVM (``relax.VMExecutable``).
        kernels: a module of the TIR functions that the bytecode calls by name; None if it calls none.
        updated_inputs: what entries can update in place. The bytecode has a second function for each such entry,
            ``in_place_name`` of it.
    """

    program: Any
    kernels: Any
    updated_inputs: tuple[EntryUpdates, ...]


def lower(module: Any, target: Target) -> LoweredModel:
    """Plan memory and generate bytecode.

    Args:
        module: the result of ``with_schedules``, or any Relax module.
        target: what its TIR functions are compiled for.

    Raises TVM's errors.
    """
    built_for = tvm_target(target)
    updated = with_fast_loops(module)
    whole = updated.module
    private = {str(variable.name_hint) for variable in private_functions(whole)}
    with built_for:
        lowered = relax.get_pipeline("default_build")(_with_views_inside(whole))
    lowered = without_argument_checks(lowered, private)
    constants = dict((lowered.attrs or {}).get("const_name_to_constant", {}))
    builder = relax.ExecBuilder()
    rest = tvm_ffi.get_global_func("relax.VMCodeGen")(builder, lowered)
    with builder.function(RELEASE_FUNCTION, num_inputs=1):
        builder.emit_ret(builder.r(0))
    called = _called(lowered)
    functions = {
        variable: each
        for variable, each in rest.functions.items()
        if isinstance(each, tvm.tirx.PrimFunc) and not called.isdisjoint(_names(variable, each))
    }
    program = tvm_ffi.get_global_func("relax.VMLink")(builder, built_for, None, [], constants)
    kernels = tvm.IRModule(functions, attrs=rest.attrs) if functions else None
    return LoweredModel(program, kernels, updated.updated_inputs)


def _with_views_inside(module: Any) -> Any:
    """``module`` with another variable for each view that leaves its block: TVM makes views of the others only."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs)
    for name, function in module.functions.items():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            blocks = [_with_views_inside_block(block, module) for block in function.body.blocks]
            changed.update_func(name, with_blocks(function, blocks))
    return changed


def _with_views_inside_block(block: Any, module: Any) -> Any:
    if not isinstance(block, relax.DataflowBlock):
        return block
    bindings: list[Any] = []
    for binding in block.bindings:
        variable, value = binding.var, binding.value
        if not isinstance(variable, relax.DataflowVar) and viewed_by(value, module) is not None:
            inside = relax.DataflowVar(f"{variable.name}_inside", variable.ty)
            bindings += [relax.VarBinding(inside, value), relax.VarBinding(variable, inside)]
        else:
            bindings.append(binding)
    return relax.DataflowBlock(bindings)


def _called(module: Any) -> set[str]:
    """The names of the functions that others refer to. Reshapes are none of them: they became views."""
    found: set[str] = set()

    def keep(expression: Any) -> None:
        if isinstance(expression, tvm.ir.GlobalVar):
            found.add(str(expression.name_hint))
        elif isinstance(expression, relax.ExternFunc):
            found.add(str(expression.global_symbol))

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, keep)
        elif isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.ir.GlobalVar, keep), order="post")
    return found


def _names(variable: Any, function: Any) -> set[str]:
    """By which a function can be called."""
    return {str(variable.name_hint), str((function.attrs or {}).get("global_symbol", ""))}


def virtual_machine(lowered: LoweredModel, target: Target, build: Build) -> Any:
    """A VM that runs the model in this process; its entries are its items. ``build`` compiles the kernels."""
    if lowered.kernels is not None:
        lowered.program.import_module(build(lowered.kernels, tvm_target(target)))
    return relax.VirtualMachine(lowered.program, tvm.cpu())
