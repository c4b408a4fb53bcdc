"""Aligns the stacks of functions for their spilled vectors.

LLVM realigns a stack only if it reserved a register for that before register allocation, and it learns about spilled
vectors during allocation. Without the register, spills are aligned to 16 bytes only, and a kernel is up to 1.5 times
slower, depending on where its process placed the stack. A stack map, which emits no instruction, makes LLVM reserve it.
"""

from typing import Any, Final

import tvm_ffi
from tvm import tirx

_PARALLEL: Final = 1
"""``ForKind.kParallel``."""


def with_marks(function: Any) -> Any:
    """The lowered function, with a stack map in each function that code generation makes of it."""
    return function.with_body(tvm_ffi.structural_mutate(function.body, _MARKING))


def _mark_loop(loop: Any, mutator: Any) -> Any:
    """Mark the function that code generation makes of a parallel loop, before the loop, once in each thread."""
    if int(loop.kind) != _PARALLEL:
        return mutator.default_mutate(loop)
    one = tirx.const(1, "int32")
    return tirx.AttrStmt(one, "pragma_parallel_launch_point", one, tirx.SeqStmt([_mark(), loop]))


def _mark_function(statement: Any, mutator: Any) -> Any:
    """Mark the function's compute scope, which code generation moves to its own function."""
    inner = mutator.default_mutate(statement)
    if str(inner.attr_key) != "compute_scope":
        return inner
    return tirx.AttrStmt(inner.node, inner.attr_key, inner.value, tirx.SeqStmt([_mark(), inner.body]))


def _mark() -> Any:
    number, shadow_bytes = tirx.const(0, "int64"), tirx.const(0, "int32")
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.experimental.stackmap", number, shadow_bytes))


_MARKING: Final = [(tirx.For, _mark_loop), (tirx.AttrStmt, _mark_function)]
