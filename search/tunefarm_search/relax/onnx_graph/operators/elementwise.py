"""Operators on elements."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tunefarm_search.relax.onnx_graph.graph import FLOATS, NUMBERS, Unexportable
from tunefarm_search.relax.onnx_graph.model import onnx_type
from tunefarm_search.relax.onnx_graph.operator_call import OperatorCall

_Converter = Callable[[OperatorCall], str]
_BOOL: Final = ("bool",)
_INTEGERS: Final = ("int32", "int64")


def _same(operator: str, dtypes: Sequence[str]) -> _Converter:
    """An operator whose arguments are all tensors of one type."""

    def convert(call: OperatorCall) -> str:
        arguments = range(len(call.call.args))
        call.of_one_type(dtypes, *arguments)
        return call.graph.emit(operator, *(call.name(at) for at in arguments))

    return convert


def _opposite(operator: str, dtypes: Sequence[str]) -> _Converter:
    def convert(call: OperatorCall) -> str:
        return call.graph.emit("Not", _same(operator, dtypes)(call))

    return convert


def _astype(call: OperatorCall) -> str:
    found, wanted = call.kind(0).dtype, call.result.dtype
    if found in FLOATS and wanted in ("int8", "uint8"):
        raise Unexportable(f"{found} becomes {wanted}, which is undefined for large numbers")
    return call.graph.emit("Cast", call.name(0), to=onnx_type(wanted))


def _clip(call: OperatorCall) -> str:
    call.of_types((*NUMBERS, "int8", "uint8"), 0)
    dtype, limits = call.kind(0).dtype, [call.number(1), call.number(2)]
    if dtype not in FLOATS and not all(float(limit).is_integer() for limit in limits):
        raise Unexportable("integers have a limit that is not one")
    names = ["" if math.isinf(limit) else call.graph.scalar(limit, dtype) for limit in limits]
    return call.graph.emit("Clip", call.name(0), *names)


def _where(call: OperatorCall) -> str:
    call.of_types(_BOOL, 0)
    call.of_one_type((*NUMBERS, "uint8"), 1, 2)
    return call.graph.emit("Where", call.name(0), call.name(1), call.name(2))


def _rsqrt(call: OperatorCall) -> str:
    call.of_types(FLOATS, 0)
    return call.graph.emit("Reciprocal", call.graph.emit("Sqrt", call.name(0)))


def _square(call: OperatorCall) -> str:
    call.of_types(NUMBERS, 0)
    return call.graph.emit("Mul", call.name(0), call.name(0))


def _silu(call: OperatorCall) -> str:
    call.of_types(FLOATS, 0)
    return call.graph.emit("Mul", call.name(0), call.graph.emit("Sigmoid", call.name(0)))


def _gelu(approximate: str) -> _Converter:
    def convert(call: OperatorCall) -> str:
        call.of_types(FLOATS, 0)
        return call.graph.emit("Gelu", call.name(0), approximate=approximate)

    return convert


def _leaky_relu(call: OperatorCall) -> str:
    call.of_types(FLOATS, 0)
    return call.graph.emit("LeakyRelu", call.name(0), alpha=float(call.attributes.alpha))


def _softplus(call: OperatorCall) -> str:
    """TVM's is linear above ``threshold``, where it differs from the formula by less than the type can hold."""
    call.of_types(FLOATS, 0)
    beta, threshold = float(call.attributes.beta), float(call.attributes.threshold)
    if beta != 1 or threshold < 15:
        raise Unexportable(f"beta is {beta:g}, and threshold {threshold:g}")
    return call.graph.emit("Softplus", call.name(0))


def _prelu(call: OperatorCall) -> str:
    call.of_one_type(FLOATS, 0, 1)
    kind, slope = call.kind(0), call.kind(1)
    axis = kind.axis(int(call.attributes.axis))
    if slope.dimensions != 1 or slope.shape[0] not in (1, kind.shape[axis]):
        raise Unexportable("its slopes are not those of an axis")
    shape = [slope.shape[0]] + [1] * (kind.dimensions - axis - 1)
    return call.graph.emit("PRelu", call.name(0), call.graph.emit("Reshape", call.name(1), call.graph.integers(shape)))


def _floor_divide(call: OperatorCall) -> str:
    call.of_one_type(FLOATS, 0, 1)
    return call.graph.emit("Floor", call.graph.emit("Div", call.name(0), call.name(1)))


def _floor_mod(call: OperatorCall) -> str:
    call.of_one_type((*FLOATS, *_INTEGERS), 0, 1)
    if call.kind(0).dtype in _INTEGERS:
        return call.graph.emit("Mod", call.name(0), call.name(1), fmod=0)
    whole = call.graph.emit("Floor", call.graph.emit("Div", call.name(0), call.name(1)))
    return call.graph.emit("Sub", call.name(0), call.graph.emit("Mul", whole, call.name(1)))


def _bitwise(operator: str, of_bools: str) -> _Converter:
    def convert(call: OperatorCall) -> str:
        arguments = range(len(call.call.args))
        call.of_one_type((*_BOOL, *_INTEGERS, "int8", "uint8"), *arguments)
        chosen = of_bools if call.kind(0).dtype == "bool" else operator
        return call.graph.emit(chosen, *(call.name(at) for at in arguments))

    return convert


_COMPARED: Final = (*FLOATS, *_INTEGERS)
CONVERTERS: Final[Mapping[str, _Converter]] = MappingProxyType(
    {
        **{
            f"relax.{name}": _same(operator, NUMBERS)
            for name, operator in {
                "add": "Add",
                "subtract": "Sub",
                "multiply": "Mul",
                "divide": "Div",
                "maximum": "Max",
                "minimum": "Min",
                "abs": "Abs",
                "negative": "Neg",
                "sign": "Sign",
                "nn.relu": "Relu",
            }.items()
        },
        **{
            f"relax.{name}": _same(operator, FLOATS)
            for name, operator in {
                "power": "Pow",
                "exp": "Exp",
                "log": "Log",
                "sqrt": "Sqrt",
                "sigmoid": "Sigmoid",
                "tanh": "Tanh",
                "erf": "Erf",
                "floor": "Floor",
                "ceil": "Ceil",
                "sin": "Sin",
                "cos": "Cos",
                "isnan": "IsNaN",
                "nn.selu": "Selu",
            }.items()
        },
        **{
            f"relax.{name}": _same(operator, _COMPARED)
            for name, operator in {
                "greater": "Greater",
                "greater_equal": "GreaterOrEqual",
                "less": "Less",
                "less_equal": "LessOrEqual",
            }.items()
        },
        **{f"relax.logical_{name}": _same(name.capitalize(), _BOOL) for name in ("and", "or", "xor", "not")},
        **{
            f"relax.bitwise_{name}": _bitwise(f"Bitwise{name.capitalize()}", name.capitalize())
            for name in ("and", "or", "xor", "not")
        },
        "relax.equal": _same("Equal", _COMPARED),
        "relax.not_equal": _opposite("Equal", _COMPARED),
        "relax.astype": _astype,
        "relax.clip": _clip,
        "relax.where": _where,
        "relax.rsqrt": _rsqrt,
        "relax.square": _square,
        "relax.floor_divide": _floor_divide,
        "relax.floor_mod": _floor_mod,
        "relax.nn.silu": _silu,
        "relax.nn.gelu": _gelu("none"),
        "relax.nn.gelu_tanh": _gelu("tanh"),
        "relax.nn.leakyrelu": _leaky_relu,
        "relax.nn.softplus": _softplus,
        "relax.nn.prelu": _prelu,
    }
)
