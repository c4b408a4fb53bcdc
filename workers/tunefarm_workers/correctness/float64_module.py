"""Widens a function to 64-bit floats, as a reference for the rounding errors of narrower ones."""

import tvm

from tunefarm_search.tvm.serialization import load_json

_NARROW = ("float16", "bfloat16", "float32")
_BIT_LEVEL = ("reinterpret", "call_extern", "call_packed", "call_llvm", "bitwise_")
"""Operations whose semantics depend on the width of their operands."""


def widen(module_json: str) -> tvm.IRModule:
    """Return the module with every narrow float type replaced by ``float64``.

    Raises:
        ValueError: the module uses the bits of its numbers, or TVM rejects the widened form.
    """
    for operation in _BIT_LEVEL:
        if operation in module_json:
            raise ValueError(f"the module uses {operation}, which depends on the width of its operands")
    for dtype in _NARROW:
        module_json = module_json.replace(f'"{dtype}"', '"float64"')
    return load_json(module_json)
