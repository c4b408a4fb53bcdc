"""GELU as one operator, in place of the arithmetic that ONNX and StableHLO models have for it.

The arithmetic reads its argument twice, so that TVM would compute it in functions of its own behind a matrix product.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import extents_of, operator_of, rewritten, scalar_of, value_of

_ADD: Final = "relax.add"
_DIVIDE: Final = "relax.divide"
_MULTIPLY: Final = "relax.multiply"
_POWER: Final = "relax.power"
_CUBIC: Final = 0.044715
"""The weight of the cube in the argument of the hyperbolic tangent."""
_TOLERANCE: Final = 1e-4
"""Relative, of numbers that exporters round."""
_MAX_DEPTH: Final = 6
"""Of products of products."""
Product = tuple[float, tuple[Any, ...]]
"""A number and the other factors."""


def with_gelu(module: Any) -> Any:
    """Replace ``x / 2 * (1 + erf(x / sqrt(2)))`` of float32 by ``nn.gelu``, and the form with ``tanh`` by its operator.

    The factors may have any order.
    """
    return rewritten(module, _FindingGelu(module))


@mutator
class _FindingGelu(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited = self.visit_expr_post_order(call)
        if operator_of(visited) not in (_MULTIPLY, _DIVIDE) or str(visited.ty.dtype) != "float32":
            return visited
        _, factors = self._product(visited)
        for factor in factors:
            for argument, gelu in self._arguments(factor):
                number, others = self._product(visited, argument)
                is_gelu = _are(others, (argument, factor)) or _are(others, (factor, argument))
                if is_gelu and _is_close(number, 0.5) and extents_of(argument) == extents_of(visited) is not None:
                    return gelu(argument)
        return visited

    def _arguments(self, factor: Any) -> list[tuple[Any, Any]]:
        """Arguments of a GELU that ``factor``, one and a function of it, may be part of, each with its operator."""
        function = self._added_to_one(factor)
        if operator_of(function) == "relax.erf":
            argument = self._scaled(function.args[0], math.sqrt(0.5))
            return [] if argument is None else [(argument, relax.op.nn.gelu)]
        if operator_of(function) != "relax.tanh":
            return []
        total = self._value(self._scaled(function.args[0], math.sqrt(2 / math.pi)))
        pairs = (total.args, total.args[::-1]) if operator_of(total) == _ADD else ()
        return [(argument, relax.op.nn.gelu_tanh) for argument, cube in pairs if self._is_cube(cube, argument)]

    def _added_to_one(self, expression: Any) -> Any:
        """The other summand of a sum with one; None for other expressions."""
        total = self._value(expression)
        if operator_of(total) != _ADD:
            return None
        for one, other in (total.args, total.args[::-1]):
            found = scalar_of(self._value(one))
            if found is not None and _is_close(found, 1):
                return self._value(other)
        return None

    def _scaled(self, product: Any, scale: float) -> Any:
        """What ``product`` multiplies by ``scale`` itself; None for other expressions."""
        number, factors = self._product(product, depth=1)
        return factors[0] if len(factors) == 1 and _is_close(number, scale) else None

    def _is_cube(self, expression: Any, argument: Any) -> bool:
        number, factors = self._product(expression, argument)
        return _is_close(number, _CUBIC) and _are(factors, (argument,) * 3)

    def _product(self, expression: Any, argument: Any = None, depth: int = _MAX_DEPTH) -> Product:
        """The number and the factors of a product, of which ``argument`` is one as a whole."""
        call = self._value(expression)
        number, name = scalar_of(call), operator_of(call)
        if number is not None:
            return number, ()
        if depth and not (argument is not None and expression.same_as(argument)):
            if name == _MULTIPLY:
                (one, some), (other, more) = (self._product(each, argument, depth - 1) for each in call.args)
                return one * other, (*some, *more)
            second = scalar_of(self._value(call.args[1])) if name in (_DIVIDE, _POWER) else None
            if name == _DIVIDE and second:
                one, some = self._product(call.args[0], argument, depth - 1)
                return one / second, some
            if name == _POWER and second in (2, 3):
                one, some = self._product(call.args[0], argument, depth - 1)
                return one**second, some * int(second)
        return 1.0, (expression,)

    def _value(self, expression: Any) -> Any:
        return value_of(expression, self.lookup_binding)


def _are(expressions: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(expressions) == len(others) and all(a.same_as(b) for a, b in zip(expressions, others, strict=True))


def _is_close(number: float, expected: float) -> bool:
    return math.isclose(number, expected, rel_tol=_TOLERANCE)
