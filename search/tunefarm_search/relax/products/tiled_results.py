"""Products of packed matrices whose results, and the elementwise operators behind them, keep the tiles as an axis.

In an array without that axis, a column is ``(column // columns, column % columns)`` of the sums, which TVM does not
simplify. Bias and activation would be a second pass over the result, which TVM does not compute in vectors.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import relax, te, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import array_of, constant_of, is_constant
from tunefarm_search.relax.expressions import (
    BINARY,
    ELEMENTWISE,
    FUSED,
    MATMUL,
    OPAQUE,
    VIEW,
    bound,
    extents_of,
    integers,
    operator_of,
    rewritten,
    value_of,
)
from tunefarm_search.relax.products.bfloat16_products import (
    packed_matrix,
    product_on_matrix_unit,
    rows_on_matrix_unit,
    suits_matrix_unit,
    with_more_rows,
)
from tunefarm_search.relax.products.convolution_kernels import PLANE, SPATIAL
from tunefarm_search.relax.products.direct_convolution import direct_convolution, sums_over_windows
from tunefarm_search.relax.products.grouped_convolution import grouped_convolution, sums_of_groups
from tunefarm_search.relax.products.legalization import product_of_tiles
from tunefarm_search.relax.products.narrow_constants import NarrowConstants
from tunefarm_search.relax.products.narrow_weights import COLUMNS, product_of_codes
from tunefarm_search.relax.products.packed_columns import packed_columns, with_packed_columns
from tunefarm_search.relax.products.padded_rows import padded_rows
from tunefarm_search.relax.products.winograd.convolution import winograd_convolution
from tunefarm_search.relax.products.winograd.stages import products_of_places, transformed_inputs, transformed_results


def with_tiled_results(
    module: Any, narrow: NarrowConstants, *, has_few_registers: bool, multiplies_bfloat16: bool = False
) -> Any:
    """Split the columns of products whose matrix can be packed, and of the elementwise operators behind them, in tiles.

    Matrices of ``narrow`` are read as they were. Processors with few vector registers get other rows
    (``padded_rows``). Products of bfloat16 have no tiles where the processor's matrix unit multiplies them.

    Variables keep their names. Each is followed by a view in the shape that it had, for the operators that are not
    elementwise.
    """
    return rewritten(module, _ResultTiling(module, narrow, has_few_registers, multiplies_bfloat16))


@mutator
class _ResultTiling(PyExprMutator):  # type: ignore[misc]
    def __init__(
        self, module: Any, narrow: NarrowConstants, has_few_registers: bool, multiplies_bfloat16: bool
    ) -> None:
        super().__init__(module)
        self._multiplies_bfloat16 = multiplies_bfloat16
        self._narrow = narrow
        self._has_few_registers = has_few_registers
        self._tiled: dict[Any, Any] = {}  # variables with tiles, by those that they replace

    def visit_var_binding_(self, binding: Any) -> None:
        whole = self._on_matrix_unit(binding.value)
        if whole is not None:
            self.set_var_remap(binding.var, bound(self.builder_, binding.var, whole))
            return
        tiled = self._on_tiles(binding.value)
        if tiled is None:
            super().visit_var_binding_(binding)
            return
        self._tiled[binding.var] = bound(self.builder_, binding.var, tiled)
        view = self._view(self._tiled[binding.var], extents_of(binding.var))
        self.set_var_remap(binding.var, bound(self.builder_, binding.var, view, "_view"))

    def _on_matrix_unit(self, value: Any) -> Any:
        """A product of bfloat16; None for other operators."""
        if not self._multiplies_bfloat16 or operator_of(value) != MATMUL:
            return None
        found, shape = self._narrow.bfloat16_matrix(value.args[1]), extents_of(value)
        data = None if found is None else self._in_bfloat16(value.args[0])
        if found is None or data is None or shape is None or not suits_matrix_unit(found, shape):
            return None
        packed, computed = constant_of(packed_matrix(found)), rows_on_matrix_unit(shape[-2])
        if computed > shape[-2]:
            data = self._stage(partial(with_more_rows, computed), OPAQUE, data)
        return self._stage(partial(product_on_matrix_unit, shape[-2]), FUSED, data, packed)

    def _in_bfloat16(self, expression: Any) -> Any:
        """What is converted to float32, in the shape of the result; None if it is of another type."""
        converted = self._value(expression)
        if operator_of(converted) == "relax.reshape":
            converted = self._value(converted.args[0])
        if operator_of(converted) != "relax.astype" or str(converted.args[0].ty.dtype) != "bfloat16":
            return None
        data, shape = converted.args[0], extents_of(expression)
        return data if extents_of(data) == shape else self.builder_.emit(self._view(data, shape))

    def _value(self, expression: Any) -> Any:
        return value_of(self.visit_expr(expression), self.lookup_binding)

    def _on_tiles(self, value: Any) -> Any:
        """The operator on tiles; None for those that are computed as they are."""
        name, shape = operator_of(value), extents_of(value)
        if shape is None or not shape:
            return None
        if name == MATMUL:
            return self._product(value, shape)
        if name in SPATIAL:
            grouped = self._grouped_convolution(value)
            return self._convolution(value, shape) if grouped is None and name in PLANE else grouped
        return self._elementwise(value, shape) if name in ELEMENTWISE | BINARY else None

    def _product(self, call: Any, shape: tuple[int, ...]) -> Any:
        weights = self._narrow.weights(call.args[1], math.prod(shape[:-1])) if shape[-1] % COLUMNS == 0 else None
        packed = self._packed(call.args[1], shape) if weights is None else None
        if weights is None and packed is None:
            return None
        left, padded = self.visit_expr(call.args[0]), self._padded(shape[-2] if len(shape) > 1 else 1)
        if weights is not None:
            function, given = partial(product_of_codes, padded, weights), [left, *map(constant_of, weights.constants)]
            attributes = {"op_pattern": FUSED}
            return self.builder_.call_te(function, *given, primfunc_name_hint="matmul", primfunc_attrs=attributes)
        function, dtype = partial(product_of_tiles, padded), str(call.ty.dtype)
        return self.builder_.call_te(function, left, packed, shape, dtype, primfunc_name_hint="matmul")

    def _padded(self, rows: int) -> int:
        return padded_rows(rows, has_few_registers=self._has_few_registers)

    def _packed(self, matrix: Any, shape: tuple[int, ...]) -> Any:
        """A matrix in tiles that the columns of a result of this shape fill; None if it stays as it is."""
        columns = packed_columns(matrix)
        if columns is None or shape[-1] % columns:
            return None
        return with_packed_columns(matrix, columns)

    def _convolution(self, call: Any, shape: tuple[int, ...]) -> Any:
        """Three functions by Winograd's algorithm, of which the last is fused with what follows, or one function."""
        convolution = winograd_convolution(call)
        if convolution is None:
            return self._direct_convolution(call, shape)
        kernels = constant_of(convolution.packed_kernels(array_of(call.args[1])))
        padded = self._padded(convolution.count)
        inputs = self._stage(partial(transformed_inputs, convolution, padded), OPAQUE, self.visit_expr(call.args[0]))
        products = self._stage(products_of_places, OPAQUE, inputs, kernels)
        return self._stage(partial(transformed_results, convolution), FUSED, products)

    def _direct_convolution(self, call: Any, shape: tuple[int, ...]) -> Any:
        convolution = direct_convolution(call)
        packed = None if convolution is None else self._packed(convolution.matrix, shape)
        if convolution is None or packed is None:
            return None
        data, padded = self.visit_expr(call.args[0]), self._padded(convolution.pixels)
        name = str(operator_of(call)).rpartition(".")[2]
        if self._has_few_registers and convolution.is_product:
            matrix = self.builder_.emit(self._view(data, (convolution.pixels, convolution.data[-1])))
            results, product = (convolution.pixels, shape[-1]), partial(product_of_tiles, padded)
            return self.builder_.call_te(product, matrix, packed, results, "float32", primfunc_name_hint=name)
        if len(shape) < len(convolution.data):
            data = self.builder_.emit(self._view(data, convolution.data))
        function, kernels = partial(sums_over_windows, convolution, padded), convolution.packed_kernels(packed)
        return self.builder_.call_te(function, data, kernels, primfunc_name_hint=name)

    def _grouped_convolution(self, call: Any) -> Any:
        convolution = grouped_convolution(call)
        if convolution is None:
            return None
        kernels = constant_of(convolution.packed_kernels(array_of(call.args[1])))
        data, function = self.visit_expr(call.args[0]), partial(sums_of_groups, convolution)
        return self.builder_.call_te(function, data, kernels, primfunc_name_hint="grouped_convolution")

    def _stage(self, function: Callable[..., te.Tensor], pattern: int, *tensors: Any) -> Any:
        name, attributes = getattr(function, "func", function).__name__, {"op_pattern": pattern}
        given = [self.builder_.emit(each) if isinstance(each, relax.Call) else each for each in tensors]
        return self.builder_.call_te(function, *given, primfunc_name_hint=name, primfunc_attrs=attributes)

    def _elementwise(self, call: Any, shape: tuple[int, ...]) -> Any:
        count = 2 if operator_of(call) in BINARY else 1
        operands, rest = call.args[:count], call.args[count:]
        known = [each for each in operands if each in self._tiled and extents_of(each) == shape]
        if not known:
            return None
        # It is fused with the last one, so a view of that must not stand between the two.
        last = self._tiled[max(known, key=list(self._tiled).index)]
        tiles = tuple(integers(last.ty.shape))
        found = [self._operand(each, shape, tiles) for each in operands]
        return None if any(each is None for each in found) else relax.Call(call.op, [*found, *rest], call.attrs)

    def _operand(self, operand: Any, shape: tuple[int, ...], tiles: tuple[int, ...]) -> Any:
        """An operand of an operator on ``tiles``; None if its elements are not those of columns."""
        own = extents_of(operand)
        if extents_of(self._tiled.get(operand)) == tiles:
            return self._tiled[operand]
        if own is None or len(own) > len(shape):
            return None
        if is_constant(operand):
            split = _split(own, shape, tiles) if own else ()
            return None if split is None else constant_of(array_of(operand).reshape(split))
        return self.builder_.emit(self._view(self.visit_expr(operand), tiles)) if own == shape else None

    def _view(self, tensor: Any, shape: Sequence[int] | None) -> Any:
        attributes = {"op_pattern": OPAQUE, VIEW: True}
        return self.builder_.call_te(_reshaped, tensor, shape, primfunc_name_hint="view", primfunc_attrs=attributes)


def _split(own: tuple[int, ...], shape: tuple[int, ...], tiles: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of an operand with as many axes as ``tiles`` for the columns, or one more if it has one column.

    None if ``tiles`` have one axis for all rows of ``shape``, and the operand has one row for some of them.
    """
    rows = own[:-1]
    if len(tiles) <= len(shape):
        rows = (math.prod(rows),)
        if rows[0] not in {1, tiles[0]}:
            return None
    return (*rows, *tiles[-2:]) if own[-1] == shape[-1] else (*rows, 1, 1)


def _reshaped(tensor: te.Tensor, shape: Sequence[int]) -> te.Tensor:
    return topi.reshape(tensor, shape)
