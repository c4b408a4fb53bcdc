"""C source of a scheduled module, for a C11 compiler and ``deploy/edge/runtime``."""

import re
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx

_INCLUDES: Final = re.compile(r'^#include "tvm/[^"]*"\n', re.MULTILINE)
_RUNTIME: Final = '#include "tunefarm_runtime.h"\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n'
_SHARED: Final = ("__tvm_ffi_main", "__tvm_ffi__library_ctx")
"""What TVM defines in each module."""
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
    plain = tvm.IRModule({name: _without_extrema(function) for name, function in module.functions.items()})
    with tvm.transform.PassContext(config={_NO_VECTORS: True}):
        built = tvm.tirx.build(plain, target=tvm.target.Target({"kind": "c"}))
    source = _INCLUDES.sub("", str(built.inspect_source()))
    own = "" if unit is None else "".join(f"#define {name} {unit}_{name.lstrip('_')}\n" for name in _SHARED)
    return _RUNTIME + own + source


def _without_extrema(function: Any) -> Any:
    """Replace ``Max`` and ``Min`` by ``Select``.

    TVM keeps their operands in variables and takes those for equal operands later in the same scope, even if the memory
    that they were loaded from has changed, as in an unrolled reduction.
    """
    return function.with_body(tvm_ffi.structural_mutate(function.body, _SELECTING))


def _select(extremum: Any, mutator: Any) -> Any:
    inner = mutator.default_mutate(extremum)
    is_first = inner.a > inner.b if isinstance(inner, tirx.Max) else inner.a < inner.b
    return tirx.Select(is_first, inner.a, inner.b)


_SELECTING: Final = [(tirx.Max, _select), (tirx.Min, _select)]
