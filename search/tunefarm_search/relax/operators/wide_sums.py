"""Sums of halves in float32, as frameworks compute them.

TVM sums float16 and bfloat16 in their own type. A softmax of 32,000 elements of float16 is wrong by a quarter then, and
a sum of ones in bfloat16 stops growing at 256.
"""

from typing import Any, Final

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import MATMUL, operator_of, rewritten
from tunefarm_search.relax.products.convolution_kernels import ATTRIBUTES

_HALVES: Final = frozenset({"float16", "bfloat16"})
_SUMMED: Final = _HALVES | {"float32"}
"""Types of the results of products of halves that are summed in float32."""
_SUMS: Final = frozenset(
    f"relax.{name}"
    for name in (
        *("sum", "mean", "variance", "std", "prod", "einsum"),
        *("nn.softmax", "nn.log_softmax", "nn.instance_norm"),
        *(f"nn.{kind}_pool{rank}d" for kind in ("avg", "adaptive_avg") for rank in (1, 2, 3)),
    )
)
_SCANS: Final = {"relax.cumsum": relax.op.cumsum, "relax.cumprod": relax.op.cumprod}
_WITHOUT_BFLOAT16: Final = frozenset(
    f"relax.{name}" for name in ("nn.layer_norm", "nn.group_norm", "nn.rms_norm", "power", "mod", "floor_mod")
)
"""Operators that TVM has in float16 and float32."""
_OF_OTHER_RESULTS: Final = frozenset(f"relax.{name}" for name in ("isnan", "isinf", "isfinite", "argmax", "argmin"))
"""The same, whose results are truth values or indices."""
_CONVOLUTIONS: Final = {
    f"relax.nn.conv{rank}d{suffix}": (getattr(relax.op.nn, f"conv{rank}d{suffix}"), (*ATTRIBUTES, *more))
    for rank in (1, 2, 3)
    for suffix, more in (("", ()), ("_transpose", ("output_padding",)))
}


def with_wide_sums(module: Any, *, widens_operands: bool) -> Any:
    """Return the module with operators that sum halves computing in float32, and their results rounded to halves.

    Args:
        module: a Relax module in dataflow form.
        widens_operands: whether products and convolutions read float32 as well, for processors that compute with
            nothing narrower: operands are converted once instead of in each step, and constant ones when the model
            is built. Otherwise they read halves, as the matrix units of GPUs do.
    """
    return rewritten(module, _Widening(module, widens_operands))


@mutator
class _Widening(PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: Any, widens_operands: bool) -> None:
        super().__init__(module)
        self._widens_operands = widens_operands

    def visit_call_(self, call: Any) -> Any:
        visited, name = self.visit_expr_post_order(call), operator_of(call)
        kind = _kind_of(call)
        if kind in _SUMMED and (name == MATMUL or name in _CONVOLUTIONS) and _kind_of(call.args[0]) in _HALVES:
            wide = self._product(name, visited)
        elif name in _OF_OTHER_RESULTS and _kind_of(call.args[0]) == "bfloat16":
            return relax.Call(visited.op, [self._wide(each) for each in visited.args], visited.attrs)
        elif kind not in _HALVES:
            return visited
        elif name in _SUMS or (name in _WITHOUT_BFLOAT16 and kind == "bfloat16"):
            wide = relax.Call(visited.op, [self._wide(each) for each in visited.args], visited.attrs)
        elif name in _SCANS:
            attributes = visited.attrs
            axis = None if attributes.axis is None else int(attributes.axis)
            wide = _SCANS[name](self._wide(visited.args[0]), axis, "float32", bool(attributes.exclusive))
        else:
            return visited
        return wide if kind == "float32" else relax.op.astype(self.builder_.emit(wide), kind)

    def _product(self, name: str, call: Any) -> Any:
        operands = [self._wide(each) for each in call.args] if self._widens_operands else call.args
        if name == MATMUL:
            return relax.op.matmul(*operands, out_dtype="float32")
        convolve, attributes = _CONVOLUTIONS[name]
        given = {each: getattr(call.attrs, each) for each in attributes}
        return convolve(*operands, **given, out_dtype="float32")

    def _wide(self, argument: Any) -> Any:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._wide(each) for each in argument.fields])
        return self.builder_.emit(relax.op.astype(argument, "float32")) if _kind_of(argument) in _HALVES else argument


def _kind_of(expression: Any) -> str:
    """The element type of a tensor; empty for other expressions."""
    return str(expression.ty.dtype) if isinstance(getattr(expression, "ty", None), relax.TensorType) else ""
