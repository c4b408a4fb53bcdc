"""C source of a scheduled module, for a C11 compiler and ``deploy/edge/runtime``."""

import math
import re
import struct
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx

_INCLUDES: Final = re.compile(r'^#include "tvm/[^"]*"\n', re.MULTILINE)
_RUNTIME: Final = '#include "tunefarm_runtime.h"\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n'
_SHARED: Final = ("__tvm_ffi_main", "__tvm_ffi__library_ctx")
"""What TVM defines in each module."""
_REINTERPRETED: Final = re.compile(r"\(\*\((float|double|int32_t|int64_t) \*\)\(&\((-?\w+)\)\)\)")
"""TVM reads bits through a pointer to another type, which C leaves undefined, even those of a literal."""
_NO_VECTORS: Final = "tirx.disable_vectorize"


def c_source(module: Any, unit: str | None = None) -> str:
    """The functions of a scheduled module in C.

    A program can hold several modules if each has a ``unit`` of its own, an identifier; ``__tvm_ffi_main`` then has
    another name.

    Vectorised loops become plain ones, because TVM writes vectors in OpenCL's types, which C does not have; compilers
    vectorise those loops again. Parallel loops run on one thread.

    Raises:
        TVM's errors: it cannot generate C for something in the module.
    """
    plain = tvm.IRModule({name: _expressible(function) for name, function in module.functions.items()})
    with tvm.transform.PassContext(config={_NO_VECTORS: True}):
        built = tvm.tirx.build(plain, target=tvm.target.Target({"kind": "c"}))
    source = _INCLUDES.sub("", str(built.inspect_source()))
    own = "" if unit is None else "".join(f"#define {name} {unit}_{name.lstrip('_')}\n" for name in _SHARED)
    return _RUNTIME + own + _REINTERPRETED.sub(_reinterpreted, source)


def _expressible(function: Any) -> Any:
    """Replace what TVM writes in C with another meaning.

    It keeps the operands of ``Max`` and ``Min`` in variables and takes those for equal operands later in the same
    scope, even if the memory that they were loaded from has changed, as in an unrolled reduction. It writes seven
    digits of numbers, and float32 needs nine.
    """
    return function.with_body(tvm_ffi.structural_mutate(function.body, _REPLACEMENTS))


def _select(extremum: Any, mutator: Any) -> Any:
    inner = mutator.default_mutate(extremum)
    is_first = inner.a > inner.b if isinstance(inner, tirx.Max) else inner.a < inner.b
    return tirx.Select(is_first, inner.a, inner.b)


def _reinterpreted(found: re.Match[str]) -> str:
    kind, value = found.groups()
    if value.lstrip("-").isdigit():
        integer, floating, suffix = ("<i", "<f", "f") if kind == "float" else ("<q", "<d", "")
        return f"{struct.unpack(floating, struct.pack(integer, int(value)))[0].hex()}{suffix}"
    return f"tunefarm_{kind}_of({value})"


def _exact(number: Any, _mutator: Any) -> Any:
    """The number by its bits, unless seven digits give it."""
    formats = _BITS.get(str(number.ty.dtype))
    value = float(number.value)
    if formats is None or not math.isfinite(value):
        return number
    floating, integer, dtype = formats
    bits = struct.pack(floating, value)
    if struct.pack(floating, float(f"{value:.6e}")) == bits:
        return number
    return tirx.reinterpret(str(number.ty.dtype), tirx.IntImm(dtype, struct.unpack(integer, bits)[0]))


_BITS: Final = {"float32": ("<f", "<i", "int32"), "float64": ("<d", "<q", "int64")}
"""The formats of a number and of an integer with the same bits, and the type of that."""
_REPLACEMENTS: Final = [(tirx.Max, _select), (tirx.Min, _select), (tirx.FloatImm, _exact)]
