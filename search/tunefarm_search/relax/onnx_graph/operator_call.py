"""One call of a Relax operator, as its converter sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tunefarm_search.relax.constants import Array, array_of, is_constant
from tunefarm_search.relax.onnx_graph.graph import TYPES, Graph, Unexportable

Names = str | tuple[str, ...]
"""The ONNX values of a Relax variable: one, or those of a tuple."""


@dataclass(frozen=True)
class TensorKind:
    """Shape and element type."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def dimensions(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """An axis, counted from the end if it is negative, as one that is not."""
        return axis + self.dimensions if axis < 0 else axis


def kind_of(value: Any) -> TensorKind:
    """Shape and type of an expression of Relax, or of a type.

    Raises:
        Unexportable: it is not a tensor of a known shape and of a type that libraries compute with.
    """
    kind = getattr(value, "ty", value)
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        raise Unexportable("a value is not a tensor of known shape")
    extents = list(getattr(kind.shape, "values", kind.shape))
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        raise Unexportable("a shape is dynamic")
    shape, dtype = tuple(int(extent) for extent in extents), str(kind.dtype)
    if dtype not in TYPES:
        raise Unexportable(f"a tensor has the element type {dtype}")
    if 0 in shape:
        raise Unexportable("a tensor has no elements")
    return TensorKind(shape, dtype)


class OperatorCall:
    """The arguments, attributes and result of a call, and the graph that its converter adds nodes to.

    Every method raises ``Unexportable`` if the call has something else at that place.
    """

    def __init__(self, graph: Graph, call: Any, names: Mapping[Any, Names] | None) -> None:
        """``names`` are the values of variables; None only tries whether the call can be exported."""
        self.graph = graph
        self.call = call
        self.attributes = call.attrs
        self._names = names

    @property
    def operator(self) -> str:
        """Such as ``relax.add``."""
        return str(self.call.op.name)

    @property
    def results(self) -> tuple[TensorKind, ...]:
        """Of a call that returns a tuple: its elements. Else the one result."""
        kind = self.call.ty
        fields = kind.fields if isinstance(kind, relax.TupleType) else [kind]
        return tuple(kind_of(each) for each in fields)

    @property
    def result(self) -> TensorKind:
        """Of a call that returns one tensor."""
        return kind_of(self.call.ty)

    def kind(self, at: int) -> TensorKind:
        """Shape and type of an argument."""
        return kind_of(self.call.args[at])

    def name(self, at: int) -> str:
        """The ONNX value of an argument that is a tensor."""
        return self._value(self.call.args[at])

    def array(self, at: int) -> Array | None:
        """The contents of an argument that is a constant; None of others."""
        argument = self.call.args[at]
        return array_of(argument) if is_constant(argument) else None

    def fields(self, at: int) -> tuple[str, ...]:
        """The ONNX values of an argument that is a tuple of tensors."""
        argument = self.call.args[at]
        if isinstance(argument, relax.Tuple):
            return tuple(self._value(each) for each in argument.fields)
        kinds = self.field_kinds(at)
        if self._names is None:
            return tuple("?" for _ in kinds)
        found = self._names.get(argument)
        if not isinstance(found, tuple):
            raise Unexportable("a tuple is computed outside of the region")
        return found

    def field_kinds(self, at: int) -> tuple[TensorKind, ...]:
        """Shapes and types of an argument that is a tuple of tensors."""
        kind = self.call.args[at].ty
        if not isinstance(kind, relax.TupleType):
            raise Unexportable("an argument is not a tuple")
        return tuple(kind_of(each) for each in kind.fields)

    def integers(self, at: int) -> tuple[int, ...]:
        """An argument that is a shape or a tuple of integers."""
        argument = self.call.args[at]
        values = getattr(argument, "values", None) if isinstance(argument, relax.ShapeExpr) else None
        values = argument.fields if isinstance(argument, relax.Tuple) else values
        if values is None or not all(isinstance(value, tvm.tirx.IntImm) for value in values):
            raise Unexportable("an argument is not made of known integers")
        return tuple(int(value) for value in values)

    def number(self, at: int) -> float:
        """An argument that is a known number, or a constant of one element."""
        argument = self.call.args[at]
        if isinstance(argument, tvm.tirx.IntImm | tvm.tirx.FloatImm):
            return argument.value  # type: ignore[no-any-return]
        array = self.array(at)
        if array is None or array.size != 1:
            raise Unexportable("an argument is not a known number")
        return array.reshape(-1)[0].item()  # type: ignore[no-any-return]

    def of_types(self, dtypes: Sequence[str], *arguments: int) -> None:
        """Require element types of arguments."""
        for at in arguments:
            found = self.kind(at).dtype
            if found not in dtypes:
                raise Unexportable(f"it computes with {found}")

    def of_one_type(self, dtypes: Sequence[str], *arguments: int) -> None:
        """Require the same type of arguments, and which."""
        self.of_types(dtypes, *arguments)
        if len({self.kind(at).dtype for at in arguments}) != 1:
            raise Unexportable("its arguments have several element types")

    def _value(self, argument: Any) -> str:
        if is_constant(argument):
            kind_of(argument)
            return self.graph.constant(argument)
        if not isinstance(argument, relax.Var):
            raise Unexportable(f"an argument is a {type(argument).__name__}")
        if self._names is None:
            kind_of(argument)
            return "?"
        found = self._names.get(argument)
        if not isinstance(found, str):
            raise Unexportable("an argument is computed outside of the region")
        return found


def optional_integer(value: Any) -> int | None:
    """An attribute that may be missing."""
    return None if value is None else int(value)


def integers(value: Any) -> tuple[int, ...]:
    """An attribute that is a list of integers."""
    return tuple(int(each) for each in value)
