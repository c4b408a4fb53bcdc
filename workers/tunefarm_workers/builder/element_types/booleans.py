"""Booleans that are read or compared, as numbers.

Where all accesses to an intermediate buffer are vectors, TVM makes it one of vectors. It then takes vectors of booleans
for vectors of bytes: a negation gives other results, and most other operators are not compiled. Comparisons, maxima and
minima of booleans are compiled as those of floats, which LLVM rejects.
"""

from typing import Any, Final

import tvm
from tvm import tirx

from tunefarm_workers.builder.element_types.mapped_bodies import mapped

_TRUTH: Final = "bool"
_NUMBER: Final = "int8"
_COMPARISONS: Final = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_EXTREMES: Final = {tirx.Max: tirx.Or, tirx.Min: tirx.And}


def without_boolean_vectors(module: tvm.IRModule) -> tvm.IRModule:
    """The module, whose functions compare booleans, and what they read from their own buffers of them, as numbers."""
    parameters = {parameter for function in module.functions.values() for parameter in function.params}

    def read(load: Any) -> Any:
        if not _is_truth(load) or load.source in parameters:
            return load
        return tirx.NE(_number(load), tirx.const(0, _NUMBER))

    return mapped(module, [((*_COMPARISONS, *_EXTREMES), _combined), (tvm.ir.TensorLoad, read)])


def _combined(pair: Any) -> Any:
    if not _is_truth(pair.a):
        return pair
    if type(pair) in _EXTREMES:
        return _EXTREMES[type(pair)](pair.a, pair.b)
    return type(pair)(_number(pair.a), _number(pair.b))


def _number(truth: Any) -> Any:
    return tirx.Cast(_NUMBER, truth)


def _is_truth(value: Any) -> bool:
    return str(value.ty.dtype) == _TRUTH
