"""Layer norm and RMS norm as one operator each, in place of the arithmetic that models have for them.

ONNX before version 17 and torch write arithmetic, of which TVM fuses parts: the squares are a function of their own.
"""

from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import array_of, is_constant
from tunefarm_search.relax.expressions import extents_of, integers, operator_of, rewritten, scalar_of, value_of

_LAYER_NORM: Final = "relax.nn.layer_norm"
_RMS_NORM: Final = "relax.nn.rms_norm"
_ADD: Final = "relax.add"
_DIVIDE: Final = "relax.divide"
_MULTIPLY: Final = "relax.multiply"
_SUBTRACT: Final = "relax.subtract"
_ROOTS: Final = {_DIVIDE: "relax.sqrt", _MULTIPLY: "relax.rsqrt"}
"""The operator of the second operand of a norm, by the one that applies it."""


def with_norms(module: Any) -> Any:
    """Replace the arithmetic of norms of float32 along the last axis, with a scale and a shift, by operators."""
    return rewritten(module, _FindingNorms(module))


@mutator
class _FindingNorms(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited, name = self.visit_expr_post_order(call), operator_of(call)
        if name not in (_ADD, _DIVIDE, _MULTIPLY) or str(visited.ty.dtype) != "float32":
            return visited
        one, other = visited.args
        ways = [self._normalized] if name == _DIVIDE else [self._normalized, self._scaled]
        pairs = [(one, other)] if name == _DIVIDE else [(one, other), (other, one)]
        found = (way(name, *pair) for way in ways for pair in pairs)
        return next((each for each in found if each is not None), visited)

    def _normalized(self, name: str, value: Any, divisor: Any) -> Any:
        """A norm of ``value`` that scales by one; None for other operands."""
        epsilon, extents = self._epsilon(name, value, divisor), extents_of(value)
        if epsilon is None or not extents:
            return None
        deviation = self._value(value)
        ones, zeros = (relax.const(np.full(extents[-1:], each, "float32")) for each in (1, 0))
        if operator_of(deviation) == _SUBTRACT and self._is_mean(deviation.args[1], deviation.args[0]):
            return relax.op.nn.layer_norm(deviation.args[0], ones, zeros, axes=[-1], epsilon=epsilon)
        return relax.op.nn.rms_norm(value, ones, axes=[-1], epsilon=epsilon)

    def _epsilon(self, name: str, value: Any, divisor: Any) -> float | None:
        """What is added to the mean of the squares of ``value``, whose root is ``divisor``; None if it is another."""
        root = self._value(divisor)
        total = self._value(root.args[0]) if root is not None and operator_of(root) == _ROOTS.get(name) else None
        if total is None or operator_of(total) != _ADD:
            return None
        for mean, epsilon in (total.args, total.args[::-1]):
            number = scalar_of(self._value(epsilon))
            squares = self._averaged(mean) if number is not None else None
            if squares is not None and self._is_square(squares, value):
                return number
        return None

    def _scaled(self, name: str, norm: Any, vector: Any) -> Any:
        """A norm with ``vector`` as its scale or shift, if it has none; None for other expressions."""
        found = self._value(norm)
        if operator_of(found) not in (_LAYER_NORM, _RMS_NORM) or integers(found.attrs.axes) != [-1]:
            return None
        data, scale, *shifts = found.args
        if extents_of(vector) != extents_of(scale) or not all(_is_full_of(each, 0) for each in shifts):
            return None
        options = {"axes": [-1], "epsilon": float(found.attrs.epsilon)}
        if name == _ADD:
            return relax.op.nn.layer_norm(data, scale, vector, **options) if shifts else None
        if not _is_full_of(scale, 1):
            return None
        make = relax.op.nn.layer_norm if shifts else relax.op.nn.rms_norm
        return make(data, vector, *shifts, **options)

    def _is_mean(self, expression: Any, of: Any) -> bool:
        averaged = self._averaged(expression)
        return averaged is not None and bool(averaged.same_as(of))

    def _averaged(self, expression: Any) -> Any:
        """What ``expression`` is the mean of along the last axis, which stays; None if it is no such mean."""
        mean = self._value(expression)
        if operator_of(mean) != "relax.mean" or not mean.attrs.keepdims or mean.attrs.axis is None:
            return None
        shape = extents_of(mean.args[0])
        return mean.args[0] if shape and integers(mean.attrs.axis) in ([-1], [len(shape) - 1]) else None

    def _is_square(self, expression: Any, of: Any) -> bool:
        square = self._value(expression)
        name = operator_of(square)
        if name == "relax.power":
            return scalar_of(self._value(square.args[1])) == 2 and bool(square.args[0].same_as(of))
        factors = square.args if name == _MULTIPLY else [*square.args] * 2 if name == "relax.square" else ()
        return bool(factors) and all(each.same_as(of) for each in factors)

    def _value(self, expression: Any) -> Any:
        return value_of(expression, self.lookup_binding)


def _is_full_of(value: Any, number: float) -> bool:
    return is_constant(value) and bool(np.all(array_of(value) == number))
