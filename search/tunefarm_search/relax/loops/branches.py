"""Branches of conditions at run time as private functions.

Within the function that has the condition, the operators of a branch would be lowered one by one, for passes over
blocks of dataflow do not look into it. Worse, TVM plans memory as if both branches ran: one may be given storage that
only the other allocates.
"""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from tunefarm_search.relax.expressions import with_blocks


def with_branch_functions(module: Any) -> Any:
    """``module``, in which each branch of a condition calls a private function, or returns a value that exists.

    What a branch reads of the function around it are the parameters of its own. Branches within branches are functions,
    too. Functions that call themselves at their end, as loops do, keep their branches: a function between would need
    as much of the stack again.
    """
    builder = relax.BlockBuilder(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            builder.update_func(variable, _without_branches(function, builder))
    return builder.get()


def _without_branches(function: Any, builder: Any) -> Any:
    """``function`` with calls in place of the branches of its conditions; ``builder`` gets what they call."""
    if _is_loop(function):
        return function
    blocks = [_block(block, function.is_pure, builder) for block in function.body.blocks]
    return with_blocks(function, blocks)


def _is_loop(function: Any) -> bool:
    """Whether a function ends with a condition of which one branch calls functions, and the other computes nothing.

    Its storage can be planned: nothing runs behind it that might read what was not allocated.
    """
    values = _values(function.body)
    if not values or not isinstance(values[-1], relax.If) or any(isinstance(each, relax.If) for each in values[:-1]):
        return False
    step, end = sorted(map(_values, (values[-1].true_branch, values[-1].false_branch)), key=len, reverse=True)
    return not end and any(map(_is_call, step)) and not any(isinstance(each, relax.If) for each in step)


def _block(block: Any, is_pure: bool, builder: Any) -> Any:
    if not any(isinstance(binding.value, relax.If) for binding in block.bindings):
        return block
    return relax.BindingBlock([_binding(binding, is_pure, builder) for binding in block.bindings])


def _binding(binding: Any, is_pure: bool, builder: Any) -> Any:
    value = binding.value
    if not isinstance(value, relax.If):
        return binding
    branches = [_branch(each, is_pure, builder) for each in (value.true_branch, value.false_branch)]
    return relax.VarBinding(binding.var, builder.normalize(relax.If(value.cond, *branches)))


def _branch(branch: Any, is_pure: bool, builder: Any) -> Any:
    values = _values(branch)
    if not values or (len(values) == 1 and _is_call(values[0])):
        return branch
    read = relax.analysis.free_vars(branch)
    function = copy_with_new_vars(relax.Function(read, branch, branch.ty, is_pure))
    variable = builder.add_func(_without_branches(function, builder), "branch")
    return relax.Call(variable, list(read))


def _values(sequence: Any) -> list[Any]:
    return [binding.value for block in sequence.blocks for binding in block.bindings]


def _is_call(value: Any) -> bool:
    """Whether a value is what another Relax function returns."""
    return isinstance(getattr(value, "op", None), tvm.ir.GlobalVar)
