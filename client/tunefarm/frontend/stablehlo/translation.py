"""Walks the operators of a function and emits Relax for each, and for the functions and regions that it calls."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import tvm
from jaxlib.mlir import ir
from tvm import relax

from tunefarm.frontend.expressions.loops import MAX_DOUBLINGS
from tunefarm.frontend.stablehlo.attributes import (
    PART_DTYPES,
    Unconvertible,
    dtype_of,
    is_complex,
    node_name,
    operand_types,
    shape_of,
    text,
)
from tunefarm.frontend.stablehlo.loops import free_values, known_trips, nested
from tunefarm.frontend.stablehlo.operand import ComplexOperand, Emitter, Operand, Value, constant, regrouped, tensors
from tunefarm.frontend.stablehlo.operators import (
    complex_numbers,
    contractions,
    elementwise,
    indexing,
    linear_algebra,
    reductions,
    shaping,
)
from tunefarm.frontend.stablehlo.operators.custom_operators import (
    ADVICE,
    IGNORED_CALLS,
    IGNORED_OPERATORS,
    KNOWN_CALLS,
    call_advice,
    composite_attribute,
)
from tunefarm.frontend.stablehlo.scalars import fold
from tunefarm.frontend.unsupported_operators import UnsupportedOperator
from tunefarm_schemas.bad_input import BadInput

CONVERTERS: Final = {
    **elementwise.CONVERTERS,
    **shaping.CONVERTERS,
    **contractions.CONVERTERS,
    **reductions.CONVERTERS,
    **indexing.CONVERTERS,
    **linear_algebra.CONVERTERS,
}
MAX_UNROLLED_OPERATORS: Final = 4096
"""A loop that would become more operators than that calls its body as a function."""
MAX_OPERATORS: Final = 200_000
"""A module that has more once its calls are inlined and its loops unrolled is refused."""
TERMINATORS: Final = frozenset({"func.return", "stablehlo.return"})

Scope = Mapping[Any, Value]


class Translation:
    """One StableHLO module on its way to a Relax module.

    Operators without a conversion are collected, and their results replaced by zeros, so that one walk finds all.
    """

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self.builder = relax.BlockBuilder()
        self.unsupported: dict[Any, UnsupportedOperator] = {}
        self._emitter = Emitter(self.builder)
        self._functions = functions
        self._called: list[str] = []
        self._converted_count = 0
        self._constants: dict[Any, Value] = {}
        self._structured: dict[str, Callable[[Any, list[Value], Scope], list[Value]]] = {
            "func.call": self._call,
            "stablehlo.case": self._case,
            "stablehlo.composite": self._composite,
            "stablehlo.custom_call": self._custom_call,
            "stablehlo.if": self._case,
            "stablehlo.while": self._while,
        }

    def function(self, name: str, arguments: Sequence[Operand], weights: Scope) -> list[Any]:
        """Emit the body of a function; return its results as expressions of their full shapes.

        Args:
            name: of the StableHLO function.
            arguments: its parameters.
            weights: the parameters that take the place of large constants.
        """
        self._constants = dict(weights)
        results = self._region(self._functions[name].regions[0], arguments, {})
        if any(map(_is_complex, results)) and not self.unsupported:
            fix = "Return their real and imaginary parts, for example jnp.stack([z.real, z.imag], -1)."
            raise BadInput("model", f"Results of {name} are complex numbers.", fix)
        return [self._emitter.full(each) for each in tensors(results)]

    def called_by(self, op: Any) -> Any | None:
        """The function that an operator calls; None if it calls none, or one whose name is enough."""
        name = str(op.operation.name)
        if name == "func.call":
            return self._functions.get(text(op, "callee"))
        if name == "stablehlo.composite" and text(op, "name") not in CONVERTERS:
            return self._functions.get(text(op, "decomposition"))
        return None

    def refuse(self, op: Any, advice: str) -> None:
        """Remember that an operator has no conversion."""
        name = str(op.operation.name)
        target = text(op, "call_target_name")
        shown = f"{name} @{target}" if target else name
        self.unsupported[op] = UnsupportedOperator(shown, node_name(op), operand_types(op), advice)

    def _region(self, region: Any, arguments: Sequence[Value], scope: Scope) -> list[Value]:
        block = region.blocks[0]
        values = {**scope, **dict(zip(block.arguments, arguments, strict=True))}
        for op in block.operations:
            if str(op.operation.name) in TERMINATORS:
                return [values[each] for each in op.operands]
            results = self._converted(op, [values[each] for each in op.operands], values)
            values.update(zip(op.results, results, strict=True))
        return []

    def _converted(self, op: Any, operands: list[Value], scope: Scope) -> list[Value]:
        self._converted_count += 1
        if self._converted_count > MAX_OPERATORS:
            fix = "Export a part of the model, or keep its loops as loops."
            raise BadInput("model", f"It has more than {MAX_OPERATORS} operators with its calls inlined.", fix)
        try:
            return list(self._convert(op, operands, scope))
        except Unconvertible as error:
            self.refuse(op, str(error))
        except (tvm.error.InternalError, TypeError, ValueError) as error:
            if not self.unsupported:
                first = (str(error).strip().splitlines() or ["no reason"])[-1]
                self.refuse(op, f"TVM has no such operator: {first[:200]}.")
        return [_zeros(each) for each in op.results]

    def _convert(self, op: Any, values: list[Value], scope: Scope) -> Sequence[Value]:
        name = str(op.operation.name)
        if name in self._structured:
            return self._structured[name](op, values, scope)
        if name in ADVICE:
            raise Unconvertible(ADVICE[name])
        for result in op.results:
            dtype_of(result)
        if name == "stablehlo.constant":
            return [self._constant(op)]
        if name in IGNORED_OPERATORS:
            return values
        if complex_numbers.involves_complex(op):
            return complex_numbers.converted(op, values, self._emitter, CONVERTERS)
        operands = tensors(values)
        numbers = [each.scalar for each in operands]
        known = [each for each in numbers if each is not None]
        if operands and len(known) == len(numbers) and len(op.results) == 1:
            number = fold(op, known)
            if number is not None:
                folded = constant(number, dtype_of(op.result))
                return [Operand(folded.compact, shape_of(op.result), folded.dtype)]
        if name in CONVERTERS:
            return CONVERTERS[name](op, operands, self._emitter)
        raise Unconvertible("")

    def _constant(self, op: Any) -> Value:
        if op.result not in self._constants:
            convert = complex_numbers.constants if is_complex(op.result) else CONVERTERS["stablehlo.constant"]
            (self._constants[op.result],) = convert(op, [], self._emitter)
        return self._constants[op.result]

    def _call(self, op: Any, operands: list[Value], _scope: Scope) -> list[Value]:
        """The callee's operators in place of the call."""
        name = text(op, "callee") or text(op, "decomposition")
        if name not in self._functions or name in self._called:
            raise Unconvertible(f"Export the module with the function {name}, and without recursion.")
        self._called.append(name)
        results = self._region(self._functions[name].regions[0], operands, {})
        self._called.pop()
        return results

    def _composite(self, op: Any, operands: list[Value], scope: Scope) -> list[Value]:
        return list(self._named(text(op, "name"), op, operands)) or self._call(op, operands, scope)

    def _custom_call(self, op: Any, operands: list[Value], _scope: Scope) -> list[Value]:
        target = text(op, "call_target_name")
        if target in IGNORED_CALLS:
            return operands
        if target == "ApproxTopK":
            comparator = self._functions[str(op.attributes["called_computations"][0].value)]
            return list(reductions.approximate_top_k(op, comparator, tensors(operands), self._emitter))
        if target in linear_algebra.LAPACK and not complex_numbers.involves_complex(op):
            return list(linear_algebra.LAPACK[target](op, tensors(operands), self._emitter))
        results = self._named(KNOWN_CALLS.get(target, ""), op, operands)
        if not results:
            raise Unconvertible(call_advice(target))
        return list(results)

    def _named(self, name: str, op: Any, values: list[Value]) -> Sequence[Value]:
        """An operator that a composite or a custom call stands for; empty if it has no converter."""
        if complex_numbers.involves_complex(op):
            return []
        operands = tensors(values)
        if name in elementwise.UNARY:
            return elementwise.apply(elementwise.UNARY[name], op, operands, self._emitter)
        count = composite_attribute(op, "k")
        if name == "chlo.top_k" and count is not None:
            return reductions.greatest(operands[0], count, op.results, self._emitter)
        return []

    def _case(self, op: Any, operands: list[Value], scope: Scope) -> list[Value]:
        """Branches as functions, under a chain of Relax conditions; only the taken one if that is known."""
        (index,), regions = tensors(operands), list(op.regions)
        of_truth = str(op.operation.name) == "stablehlo.if"
        if index.scalar is not None:
            chosen = int(not index.scalar) if of_truth else int(index.scalar)
            return self._region(regions[chosen if 0 <= chosen < len(regions) else -1], [], scope)
        conditions = [index.compact]
        if not of_truth:
            numbers = [relax.const(each, index.dtype) for each in range(len(regions) - 1)]
            conditions = [self._emitter.emit(relax.op.equal(index.compact, number)) for number in numbers]
        calls = []
        for region in regions:
            captured = self._captured([region], scope)
            function = self._outlined("branch", [], captured, scope, functools.partial(self._tuple, region))
            calls.append(self._call_of(function, [], captured, scope))
        expression = calls[-1]
        for condition, call in zip(reversed(conditions), reversed(calls[:-1]), strict=True):
            expression = relax.If(condition, call, expression)
        return self._unpacked(expression, op.results)

    def _while(self, op: Any, operands: list[Value], scope: Scope) -> list[Value]:
        """Unrolled if it is short, by doubled calls of its body if not.

        A call of the n-th function runs the loop two to the power of n times: Relax functions that call themselves
        would need a stack as deep as the loop is long.
        """
        outer = {each: scope[each].scalar for each in free_values(op.regions) if each in scope}
        trips = known_trips(
            op,
            [each.scalar for each in operands],
            {each: number for each, number in outer.items() if number is not None},
        )
        condition, body = op.regions
        size = sum(1 for _ in nested([body], self.called_by))
        if trips is not None and trips * size <= MAX_UNROLLED_OPERATORS:
            for _ in range(trips):
                operands = self._region(body, operands, scope)
            return operands
        captured = self._captured(op.regions, scope)
        loop = self._outlined("loop", operands, captured, scope, functools.partial(self._tuple, body))

        def doubled(half: Any, state: Sequence[Value], inner: Scope) -> Any:
            once = self._unpacked(self._call_of(half, state, captured, inner), op.results)
            return self._repeated(half, once, captured, inner, condition if trips is None else None)

        for bit in range(MAX_DOUBLINGS if trips is None else trips.bit_length()):
            if trips is not None and trips >> bit & 1:
                operands = self._unpacked(self._call_of(loop, operands, captured, scope), op.results)
            if trips is None or trips >> (bit + 1):
                loop = self._outlined("loop", operands, captured, scope, functools.partial(doubled, loop))
        if trips is None:
            return self._unpacked(self._repeated(loop, operands, captured, scope, condition), op.results)
        return operands

    def _repeated(
        self, loop: Any, state: Sequence[Value], captured: Sequence[Any], scope: Scope, condition: Any | None
    ) -> Any:
        """A call of a loop's function, where the loop goes on."""
        call = self._call_of(loop, state, captured, scope)
        if condition is None:
            return call
        (goes_on,) = tensors(self._region(condition, state, scope))
        return relax.If(self._emitter.full(goes_on), call, self._together(state))

    def _captured(self, regions: Any, scope: Scope) -> list[Any]:
        """The values that a function of these regions gets as parameters: variables and weights of the caller."""
        read = [each for each in free_values(regions) if each in scope and not _is_constant(scope[each])]
        weights = [
            op.result
            for op in nested(regions, self.called_by)
            if str(op.operation.name) == "stablehlo.constant"
            and op.result in self._constants
            and not _is_constant(self._constants[op.result])
        ]
        return list(dict.fromkeys(read + weights))

    def _outlined(
        self,
        name: str,
        state: Sequence[Value],
        captured: Sequence[Any],
        scope: Scope,
        emit: Callable[[Sequence[Value], Scope], Any],
    ) -> Any:
        """Define a private function; its parameters are the state and what it captures.

        Args:
            name: the beginning of its name.
            state: values with the shapes of its first parameters.
            captured: the values of the enclosing scope that it reads.
            scope: of the caller.
            emit: gives its result, a tuple, for its parameters and its own scope.
        """
        outer, kept = {**self._constants, **scope}, self._constants
        of_state = [_parameter(f"state_{place}", each, each.shape) for place, each in enumerate(tensors(state))]
        read = [outer[key] for key in captured]
        of_read = [
            _parameter(f"captured_{place}", each, each.compact_shape) for place, each in enumerate(tensors(read))
        ]
        parameters = [each.compact for each in (*of_state, *of_read)]
        inner = {key: each for key, each in outer.items() if _is_constant(each)}
        inner.update(zip(captured, regrouped(of_read, map(_is_complex, read)), strict=True))
        inner_state = regrouped(of_state, map(_is_complex, state))
        self._constants = {key: inner[key] for key in kept if key in inner}
        with self.builder.function(self.builder.get_unique_name(name), parameters, private=True):
            function = self.builder.emit_func_output(self._emitter.emit(emit(inner_state, inner)))
        self._constants = kept
        return function

    def _call_of(self, function: Any, state: Sequence[Value], captured: Sequence[Any], scope: Scope) -> Any:
        outer = {**self._constants, **scope}
        of_state = [self._emitter.full(each) for each in tensors(state)]
        read = tensors(outer[key] for key in captured)
        others = [self._emitter.reshaped(each.compact, each.compact_shape) for each in read]
        return relax.Call(function, [*of_state, *others])

    def _tuple(self, region: Any, arguments: Sequence[Value], scope: Scope) -> Any:
        return self._together(self._region(region, arguments, scope))

    def _together(self, values: Sequence[Value]) -> Any:
        return relax.Tuple([self._emitter.full(each) for each in tensors(values)])

    def _unpacked(self, expression: Any, results: Any) -> list[Value]:
        whole = self._emitter.emit(expression)
        kinds = [(shape_of(each), dtype_of(each)) for each in results for _ in range(1 + is_complex(each))]
        parts = [
            self._emitter.operand(relax.TupleGetItem(whole, place), shape, dtype)
            for place, (shape, dtype) in enumerate(kinds)
        ]
        return regrouped(parts, map(is_complex, results))


def _parameter(name: str, like: Operand, shape: Sequence[int]) -> Operand:
    """A parameter of this shape that stands for an operand."""
    return Operand(relax.Var(name, relax.TensorType(shape, like.dtype)), like.shape, like.dtype)


def _is_complex(value: Value) -> bool:
    return not isinstance(value, Operand)


def _is_constant(value: Value) -> bool:
    return all(isinstance(each.compact, tvm.ir.GenericConst) for each in tensors([value]))


def _zeros(value: Any) -> Value:
    """What takes the place of a result that could not be converted."""
    kind = ir.RankedTensorType(value.type) if isinstance(value.type, ir.RankedTensorType) else None
    dtype = PART_DTYPES.get(str(kind.element_type), "float32") if kind else "float32"
    zeros = Operand(relax.const(0, dtype), tuple(kind.shape) if kind else (), dtype)
    return ComplexOperand(zeros, zeros) if is_complex(value) else zeros
