"""Functions that keep vectors for which there are no registers left where each can be loaded in one piece.

LLVM moves a function's stack to an address that suits its vectors only where a register was set aside for that before
registers were given out, and whether vectors have to stay on the stack it learns later. Without it they lie at any
multiple of sixteen bytes: the same kernel takes up to half as long again by where its process happened to begin its
stack. A stack map, which is no instruction, has LLVM set that register aside.
"""

from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target.codegen import llvm_get_system_triple

_NAME: Final = "tunefarm_aligned_stack"
_ARCHITECTURES: Final = ("x86_64", "i386", "i686")
"""x86 has vectors longer than sixteen bytes. Only the wider of its two forms was tried."""
_PARALLEL: Final = 1
"""``ForKind.kParallel``."""


def pipeline_for(target: Any) -> str | None:
    """The name of TVM's lowering pipeline for functions of a target; None for the one that TVM would take."""
    if str(target.kind.name) != "llvm":
        return None
    triple = str(target.attrs.get("mtriple", "")) or llvm_get_system_triple()
    return _NAME if triple.startswith(_ARCHITECTURES) else None


def _pipeline() -> tuple[Any, Any, Any]:
    lower, finalize_host, finalize_device = tirx.get_tir_pipeline("s_tir")
    return tvm.transform.Sequential([lower, _with_marks]), finalize_host, finalize_device


@tvm.transform.module_pass(opt_level=0)  # type: ignore[untyped-decorator]
def _with_marks(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
    for name, function in module.functions.items():
        module.update_func(name, function.with_body(tvm_ffi.structural_mutate(function.body, _MARKING)))
    return module


def _mark_loop(loop: Any, mutator: Any) -> Any:
    """Code generation makes a function of a parallel loop; the mark comes before the loop, once in each thread."""
    if int(loop.kind) != _PARALLEL:
        return mutator.default_mutate(loop)
    one = tirx.const(1, "int32")
    return tirx.AttrStmt(one, "pragma_parallel_launch_point", one, tirx.SeqStmt([_mark(), loop]))


def _mark_function(statement: Any, mutator: Any) -> Any:
    """What is left of the function itself is one behind the checks of its arguments."""
    inner = mutator.default_mutate(statement)
    if str(inner.attr_key) != "compute_scope":
        return inner
    return tirx.AttrStmt(inner.node, inner.attr_key, inner.value, tirx.SeqStmt([_mark(), inner.body]))


def _mark() -> Any:
    number, shadow_bytes = tirx.const(0, "int64"), tirx.const(0, "int32")
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.experimental.stackmap", number, shadow_bytes))


_MARKING: Final = [(tirx.For, _mark_loop), (tirx.AttrStmt, _mark_function)]

tirx.register_tir_pipeline(_NAME, _pipeline)
