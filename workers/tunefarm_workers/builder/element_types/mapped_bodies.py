"""Replaces nodes in the functions of a module."""

from typing import Any

import tvm
import tvm_ffi


def mapped(module: tvm.IRModule, callbacks: Any) -> tvm.IRModule:
    """The module with the bodies of its functions mapped by ``callbacks``, as ``tvm_ffi.structural_map`` takes them."""
    functions = {
        variable: function.with_body(tvm_ffi.structural_map(function.body, callbacks))
        for variable, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)
