"""The passes between a scheduled function and code generation for x86: TVM's own, and ours behind them."""

from typing import Any, Final

import tvm
from tvm import tirx
from tvm.target.codegen import llvm_get_system_triple

from tunefarm_workers.builder.x86.aligned_stack import with_marks
from tunefarm_workers.builder.x86.matrix_unit import with_request

_NAME: Final = "tunefarm_x86"
_ARCHITECTURES: Final = ("x86_64", "i386", "i686")
"""x86 has vectors longer than 16 bytes, and a matrix unit. Tested on x86_64 only."""


def pipeline_for(target: Any) -> str | None:
    """Return the lowering pipeline for functions of a target; None for TVM's default."""
    if str(target.kind.name) != "llvm":
        return None
    triple = str(target.attrs.get("mtriple", "")) or llvm_get_system_triple()
    return _NAME if triple.startswith(_ARCHITECTURES) else None


def _pipeline() -> tuple[Any, Any, Any]:
    lower, finalize_host, finalize_device = tirx.get_tir_pipeline("s_tir")
    return tvm.transform.Sequential([lower, _for_x86]), finalize_host, finalize_device


@tvm.transform.module_pass(opt_level=0)  # type: ignore[untyped-decorator]
def _for_x86(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
    for name, function in module.functions.items():
        module.update_func(name, with_marks(with_request(function)))
    return module


tirx.register_tir_pipeline(_NAME, _pipeline)
