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
_SUMS: Final = frozenset(
    f"relax.{name}"
    for name in (
        *("sum", "mean", "variance", "std", "prod", "einsum"),
        *("nn.softmax", "nn.log_softmax", "nn.instance_norm"),
        *(f"nn.{kind}_pool{rank}d" for kind in ("avg", "adaptive_avg") for rank in (1, 2, 3)),
    )
)
_SCANS: Final = {"relax.cumsum": relax.op.cumsum, "relax.cumprod": relax.op.cumprod}
_WITHOUT_BFLOAT16: Final = frozenset({"relax.nn.layer_norm", "relax.nn.group_norm", "relax.nn.rms_norm", "relax.power"})
"""Operators that TVM has in float16 and float32."""
_CONVOLUTIONS: Final = {
    f"relax.nn.conv{rank}d{suffix}": (getattr(relax.op.nn, f"conv{rank}d{suffix}"), (*ATTRIBUTES, *more))
    for rank in (1, 2, 3)
    for suffix, more in (("", ()), ("_transpose", ("output_padding",)))
}


def with_wide_sums(module: Any) -> Any:
    """Return the module with operators that sum halves computing in float32, and their results rounded to halves."""
    return rewritten(module, _Widening(module))


@mutator
class _Widening(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        visited, name = self.visit_expr_post_order(call), operator_of(call)
        kind = _kind_of(call)
        if kind not in _HALVES:
            return visited
        if name in _SUMS or (name in _WITHOUT_BFLOAT16 and kind == "bfloat16"):
            wide = relax.Call(visited.op, [self._wide(each) for each in visited.args], visited.attrs)
        elif name in _SCANS:
            attributes = visited.attrs
            axis = None if attributes.axis is None else int(attributes.axis)
            wide = _SCANS[name](self._wide(visited.args[0]), axis, "float32", bool(attributes.exclusive))
        elif name == MATMUL:
            wide = relax.op.matmul(*visited.args, out_dtype="float32")
        elif name in _CONVOLUTIONS:
            convolve, attributes = _CONVOLUTIONS[name]
            given = {each: getattr(visited.attrs, each) for each in attributes}
            wide = convolve(*visited.args, **given, out_dtype="float32")
        else:
            return visited
        return relax.op.astype(self.builder_.emit(wide), kind)

    def _wide(self, argument: Any) -> Any:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._wide(each) for each in argument.fields])
        return self.builder_.emit(relax.op.astype(argument, "float32")) if _kind_of(argument) in _HALVES else argument


def _kind_of(expression: Any) -> str:
    """The element type of a tensor; empty for other expressions."""
    return str(expression.ty.dtype) if isinstance(getattr(expression, "ty", None), relax.TensorType) else ""
