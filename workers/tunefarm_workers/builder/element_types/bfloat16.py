"""Lowering of functions in bfloat16 up to the pass that makes their arithmetic that of float32.

That pass of TVM does not look into the values of variables of expressions (``T.Let``), by which elementary functions
are arithmetic: it leaves bfloat16 there, to be read as integers. And where it rounds, it has the value three times, and
binds the variables in it three times. So values are rounded here, and variables hidden from it as calls.
"""

from typing import Any, Final

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tunefarm_search.tvm.bfloat16 import rounded_bits
from tunefarm_workers.builder.element_types.mapped_bodies import mapped

_SHORT, _LONG = "bfloat16", "float32"
_HIDDEN: Final = "tunefarm.let"
_BITS: Final = "tirx.reinterpret"
_PASSES: Final = (
    *(s_tir.transform.CanonicalizeLoop, s_tir.transform.LowerInitBlock),
    *(s_tir.transform.PlanAndUpdateBufferAllocationLocation, s_tir.transform.ConvertBlocksToOpaque),
    *(s_tir.transform.CompactBufferAllocation, s_tir.transform.LowerMatchBuffer, s_tir.transform.StmtSimplify),
    *(s_tir.transform.LowerOpaqueBlock, tirx.transform.FlattenBuffer, tirx.transform.BF16ComputeLegalize),
)
"""Those of TVM's pipeline for CPUs, to that pass. The pipeline finds nothing left to do for them."""


def without_bfloat16_arithmetic(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """The module, whose functions load and store bfloat16 but compute float32; others as they are."""
    if str(target.kind.name) != "llvm" or not _has_bfloat16(module):
        return module
    hidden = mapped(module, [(tirx.Cast, _rounded), (tirx.Let, _hidden), (tirx.For, _serial)])
    passes = [tirx.transform.BindTarget(target), *(each() for each in _PASSES)]
    return mapped(tvm.transform.Sequential(passes)(hidden), [(tvm.ir.Call, _shown)])


def _has_bfloat16(module: tvm.IRModule) -> bool:
    kinds: set[str] = set()
    noted = [
        ((tvm.ir.TensorLoad, tirx.Cast), lambda value: kinds.add(str(value.ty.dtype))),
        (tirx.BufferStore, lambda store: kinds.add(str(store.buffer.dtype))),
    ]
    for function in module.functions.values():
        tvm_ffi.structural_walk(function.body, noted, order="post")
    return _SHORT in kinds


def _rounded(cast: Any) -> Any:
    """A conversion from float32 as arithmetic on the bits of a variable, one of a constant as its result."""
    if isinstance(cast.value, tirx.FloatImm) and str(cast.ty.dtype) == _LONG:
        return tirx.const(float(cast.value.value), _LONG)
    if (str(cast.value.ty.dtype), str(cast.ty.dtype)) != (_LONG, _SHORT) or isinstance(cast.value, tvm.ir.TensorLoad):
        return cast
    value = tirx.Var("value", _LONG)
    kept = tirx.Cast("uint16", rounded_bits(value))
    return tirx.reinterpret(_SHORT, _hidden(tirx.Let(value, cast.value, kept)))


def _hidden(binding: Any) -> Any:
    return tirx.call_extern(str(binding.ty.dtype), _HIDDEN, binding.var, binding.value, binding.body)


def _shown(call: Any) -> Any:
    if str(getattr(call.op, "name", "")) != "tirx.call_extern" or call.args[0].value != _HIDDEN:
        return call
    return tirx.Let(*call.args[1:])


def _serial(loop: Any) -> Any:
    """Copies and constants in a plain loop, of which LLVM makes vectors: a later pass of TVM does not know these."""
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    stores: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.BufferStore, stores.append), order="post")
    if not any(str(each.value.ty.dtype) == _SHORT and not _is_rounded(each.value) for each in stores):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body, None, loop.annotations)


def _is_rounded(value: Any) -> bool:
    return str(getattr(getattr(value, "op", None), "name", "")) == _BITS
