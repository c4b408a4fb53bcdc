"""Functions ask Linux for the registers of a matrix unit, without which their instructions end the process.

A process gets these with ``arch_prctl``, for all its threads. Kernels run in processes that know nothing of them: a
user's with TVM alone, or a device's. So each function with such instructions asks at the start of each call, by the
instruction itself, since kernels may call no function of the C library that makes system calls. That takes 0.1 us.
"""

from typing import Any, Final

import tvm_ffi
from tvm import tirx
from tvm.ir import StringImm

from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import features_of_tiles
from tunefarm_search.tvm.tile_registers import ARCH_PRCTL, REQUEST, TILE_DATA

_NAME: Final = "tunefarm_request_tiles"
_SOURCE: Final = f"""
define i64 @{_NAME}(i64 %number, i64 %request, i64 %part) {{
  %result = call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"(i64 %number, i64 %request, i64 %part)
  ret i64 %result
}}
"""
"""In LLVM's language. TVM expands its functions where they are called."""


def with_request(function: Any) -> Any:
    """The lowered function, which asks for the registers first if it has instructions of the unit."""
    if not features_of_tiles(function):
        return function
    body = tvm_ffi.structural_mutate(function.body, [(tirx.AttrStmt, _request_first)])
    return function.with_body(tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", StringImm(_SOURCE), body))


def _request_first(statement: Any, mutator: Any) -> Any:
    """Ask at the beginning of the compute scope, which code generation moves to a function of its own."""
    inner = mutator.default_mutate(statement)
    if str(inner.attr_key) != "compute_scope":
        return inner
    arguments = [tirx.const(each, "int64") for each in (ARCH_PRCTL, REQUEST, TILE_DATA)]
    request = tirx.Evaluate(tirx.call_extern("int64", _NAME, *arguments))
    return tirx.AttrStmt(inner.node, inner.attr_key, inner.value, tirx.SeqStmt([request, inner.body]))
