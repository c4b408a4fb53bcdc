"""The number of operations in floating point of a function."""

from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.analysis import estimate_tir_flops

from tunefarm_search.tvm.errors import TVM_ERRORS


def floating_point_operations(module: Any) -> float:
    """TVM's estimate for all functions of a module, or 0 if there is none (loops whose extents are not constants)."""
    try:
        return float(estimate_tir_flops(module))
    except TVM_ERRORS:
        pass
    try:
        return float(estimate_tir_flops(_without_bindings(module)))
    except TVM_ERRORS:
        return 0.0


def _without_bindings(module: Any) -> Any:
    """The same operations, once each, in expressions that TVM's estimate knows: without ``Let`` and bits."""
    callbacks = [(tvm.tirx.Let, _both_parts), (tvm.ir.Call, _without_bits)]
    functions = {
        variable: function.with_body(tvm_ffi.structural_map(function.body, callbacks))
        for variable, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _both_parts(binding: Any) -> Any:
    is_counted = binding.value.ty == binding.body.ty
    return binding.value + binding.body if is_counted else binding.body


def _without_bits(call: Any) -> Any:
    return tvm.tirx.const(0, call.ty.dtype) if str(getattr(call.op, "name", "")) == "tirx.reinterpret" else call
