"""Replaces float operators between dequantize and quantize by integer arithmetic.

A convolution or matrix product of a dequantized activation with a dequantized constant becomes sums of products of
8-bit integers, which are converted to float only in registers: with a bias, a rectifier and a quantization behind it,
all of that is one multiplication, one addition and one rounding. Results are those of the float operators to within one
step: the sums are exact, and three roundings to float32 are left.

Matrix products of 8-bit integers that were widened, less a zero point that is known at run time, become such sums too.

Convolutions give their channels last. Operators behind them do so too where they can.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.channels_last.operators import channels_first_axes, channels_last_call, channels_last_of
from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.expressions import operator_of, scalar_of, uses_of, value_of
from tunefarm_search.relax.integer.operators import QUANTIZE, RANGES, Requantization
from tunefarm_search.relax.integer.products import FoundProducts, found_products
from tunefarm_search.relax.integer.run_time_products import (
    RunTimeProducts,
    ScaledProducts,
    is_dequantized_at_run_time,
    is_wide_product,
    run_time_products,
    scaled_products,
)
from tunefarm_search.relax.quantized_values import constant_values, quantized_tensor
from tunefarm_search.tvm.tensor_intrinsics.dot_products import DotProduct, dot_product_of

_Bounds = tuple[float | None, float | None]
_RESHAPES: Final = frozenset(f"relax.{name}" for name in ("reshape", "flatten", "expand_dims", "squeeze"))
_RECTIFIERS: Final[dict[str, _Bounds]] = {"relax.nn.relu": (0.0, None), "relax.nn.relu6": (0.0, 6.0)}


def with_integer_products(module: Any, target: Target) -> Any:
    """Compute in integers where operands are quantized and the processor of ``target`` has instructions for it."""
    dot_product = dot_product_of(target)
    if dot_product is None:
        return module
    rewritten = tvm.IRModule(module.functions, attrs=module.attrs)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function) and _computes_with_integers(function):
            rewriting = _Rewriting(rewritten, function, dot_product)
            changed = rewriting.visit_expr(function)
            # The mutator adds functions to a module of its own.
            for added, each in rewriting.builder_.get().functions.items():
                if isinstance(each, tvm.tirx.PrimFunc):
                    rewritten.update_func(added, each)
            rewritten.update_func(variable, changed)
    # Operators that read the same numbers quantize them in the same way.
    return relax.transform.EliminateCommonSubexpr()(rewritten)


def _computes_with_integers(function: Any) -> bool:
    found: list[bool] = []

    def look(each: Any) -> None:
        found.append(operator_of(each) == "relax.dequantize" or is_wide_product(each))

    relax.analysis.post_order_visit(function, look)
    return any(found)


@dataclass(frozen=True)
class _Replaced:
    """The float operator ``call`` of the given function, and the sums that replace it."""

    call: Any
    sums: Any
    found: FoundProducts


@dataclass(frozen=True)
class _Chain:
    """What stands between a replaced operator and a quantization: a bias, then bounds."""

    replaced: _Replaced
    bias: Any
    bounds: _Bounds


@mutator
class _Rewriting(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, function: Any, dot_product: DotProduct) -> None:
        super().__init__(module)
        self._dot_product = dot_product
        self._values = relax.analysis.get_var2val(function)
        self._uses = uses_of(function)
        self._replaced: list[_Replaced] = []

    def visit_call_(self, call: Any) -> Any:
        """Replace a call by integer arithmetic, or by the same operator with channels last."""
        visited = self.visit_expr_post_order(call)
        integers = self._requantized(call, visited) if operator_of(visited) == QUANTIZE else None
        if integers is not None:
            return integers
        wide = run_time_products(visited, self._value, self._dot_product)
        if wide is not None:
            return self._as_wide(wide)
        found = found_products(visited, self._value, self._dot_product)
        if found is not None:
            sums = self._sums(found)
            self._replaced.append(_Replaced(call, sums, found))
            return self._as_floats(sums, found)
        scaled = scaled_products(visited, self._value, self._dot_product)
        if scaled is not None:
            return self._as_scaled(scaled)
        if operator_of(visited) in _RESHAPES:
            return self._reshaped(visited)
        moved = channels_last_call(visited, self._value, self.builder_)
        return visited if moved is None else moved

    def _reshaped(self, visited: Any) -> Any:
        """The call, before the dequantization of its operand if there is one: products look for that."""
        dequantize = self._value(visited.args[0])
        if not is_dequantized_at_run_time(dequantize) and quantized_tensor(dequantize, self._value) is None:
            return visited
        integers = self.builder_.emit(relax.op.reshape(dequantize.args[0], visited.ty.shape))
        return relax.op.dequantize(integers, *dequantize.args[1:3], -1, "float32")

    def _value(self, expression: Any) -> Any:
        return value_of(expression, self.lookup_binding)

    def _sums(self, found: FoundProducts) -> Any:
        data, products = found.data, found.products
        if products.channels_first:
            moved = channels_last_of(data, self._value)
            if moved is not None:
                data, products = moved, replace(products, channels_first=False)
        packed = constant_of(products.weights.packed)
        return self.builder_.emit_te(products.sums, data, packed, primfunc_name_hint="integer_products")

    def _as_wide(self, found: RunTimeProducts) -> Any:
        """The integers that the product of wide ones would give."""
        packed = constant_of(found.products.weights.packed)
        sums = self.builder_.emit_te(found.products.sums, found.data, packed, primfunc_name_hint="integer_products")
        if found.zero_point is None:
            return relax.op.subtract(sums, constant_of(np.int32(found.shift) * found.totals)) if found.shift else sums
        shift = constant_of(np.array(found.shift, np.int32))
        zero_point = self.builder_.emit(relax.op.add(found.zero_point, shift)) if found.shift else found.zero_point
        return relax.op.subtract(sums, self.builder_.emit(relax.op.multiply(zero_point, constant_of(found.totals))))

    def _as_scaled(self, found: ScaledProducts) -> Any:
        """The floats that the product of dequantized operands would give."""
        floats = relax.op.astype(self.builder_.emit(self._as_wide(found.products)), "float32")
        factors = self.builder_.emit(relax.op.multiply(constant_of(found.factors), found.scale))
        return relax.op.multiply(self.builder_.emit(floats), factors)

    def _as_floats(self, sums: Any, found: FoundProducts) -> Any:
        """The sums as the float operator would give them, in its layout."""
        shifted = self.builder_.emit(relax.op.add(sums, constant_of(found.offsets)))
        floats = self.builder_.emit(relax.op.astype(shifted, "float32"))
        return self._in_layout(self.builder_.emit(relax.op.multiply(floats, constant_of(found.factors))), found)

    @staticmethod
    def _in_layout(result: Any, found: FoundProducts) -> Any:
        if not found.is_channels_first:
            return result
        return relax.op.permute_dims(result, channels_first_axes(len(result.ty.shape)))

    def _requantized(self, given: Any, visited: Any) -> Any:
        """The integers of a quantization of sums, if nothing else reads the numbers between; None otherwise."""
        scale, zero_point = (scalar_of(self._value(each)) for each in visited.args[1:3])
        dtype, chain = str(visited.attrs.out_dtype), self._chain(given.args[0])
        if scale is None or zero_point is None or dtype not in RANGES or chain is None:
            return None
        found = chain.replaced.found
        bias = _per_channel(chain.bias, found.factors.size, len(visited.ty.shape), is_first=found.is_channels_first)
        if bias is None:
            return None
        lowest, highest = _limits(dtype, chain.bounds, scale, int(zero_point))
        operator = Requantization(int(zero_point), lowest, highest, dtype)
        constants = [
            found.offsets,
            (found.factors.astype(np.float64) / scale).astype(np.float32),
            (bias / scale).astype(np.float32),
        ]
        integers = self.builder_.emit_te(
            operator.integers, chain.replaced.sums, *map(constant_of, constants), primfunc_name_hint="requantize"
        )
        return self._in_layout(integers, found)

    def _chain(self, expression: Any) -> "_Chain | None":
        """A replaced product with the bias and the bounds behind it; None if something else reads a number between."""
        bounds: _Bounds | None = (None, None)
        bias: Any = np.zeros(())
        value = self._read_once(expression)
        if operator_of(value) in {*_RECTIFIERS, "relax.clip"}:
            bounds = _bounds(value)
            value = self._read_once(value.args[0])
        if operator_of(value) == "relax.add":
            bias, value = self._bias(value)
        replaced = next((each for each in self._replaced if value is not None and each.call.same_as(value)), None)
        return None if replaced is None or bounds is None or bias is None else _Chain(replaced, bias, bounds)

    def _bias(self, addition: Any) -> tuple[Any, Any]:
        """The constant that is added, and what it is added to."""
        for constant, other in (reversed(addition.args), addition.args):
            values = constant_values(constant, self._original)
            if values is not None:
                return values, self._read_once(other)
        return None, None

    def _read_once(self, expression: Any) -> Any:
        """The value, in the given function, of a variable that is read once; None for others."""
        if isinstance(expression, relax.Var) and self._uses.get(expression, 0) == 1:
            return self._original(expression)
        return None

    def _original(self, expression: Any) -> Any:
        return self._values.get(expression) if isinstance(expression, relax.Var) else expression


def _bounds(call: Any) -> _Bounds | None:
    if operator_of(call) in _RECTIFIERS:
        return _RECTIFIERS[operator_of(call)]
    limits: list[Any] = [getattr(each, "value", None) for each in call.args[1:3]]
    if not all(isinstance(each, int | float) for each in limits):
        return None
    return float(limits[0]), float(limits[1])


def _limits(dtype: str, bounds: _Bounds, scale: float, zero_point: int) -> tuple[int, int]:
    """The lowest and the highest integer that a quantization of numbers between bounds gives."""
    lowest, highest = RANGES[dtype]
    below, above = (
        default if bound is None else int(np.clip(np.rint(bound / scale) + zero_point, lowest, highest))
        for bound, default in zip(bounds, (lowest, highest), strict=True)
    )
    return below, above


def _per_channel(bias: Any, channels: int, rank: int, *, is_first: bool) -> Any:
    """One number for each channel, from a constant that is added to a tensor of that rank; None if it has more."""
    if bias.size == 1:
        return np.full(channels, float(bias.reshape(())))
    extents = [1] * (rank - bias.ndim) + list(bias.shape)
    expected = [channels if axis == (1 if is_first else rank - 1) else 1 for axis in range(rank)]
    return bias.reshape(-1) if extents == expected else None
