"""Numbers the values of Relax functions, so that the same value has the same number before and after fusion."""

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tunefarm_search.relax.expressions import viewed_by

Structure = tuple[Any, ...]
_TUPLE = "tuple"


class ValueNumbers:
    """Gives equal numbers to values that the same calls compute from the same inputs and constants.

    A call of a Relax function of the module, as ``FuseOps`` makes them, has the number of what the function returns. A
    view has the number of what it views.
    """

    def __init__(self) -> None:
        self._numbers: dict[Structure, int] = {}
        self._structures: list[Structure] = []

    def of_parameters(self, function: Any) -> "dict[Any, int]":
        """Numbers of the parameters of an entry, by position: they are equal at each stage."""
        return {each: self._number(("input", at)) for at, each in enumerate(function.params)}

    def of_value(self, value: Any, known: dict[Any, int], module: Any, computed: set[int]) -> int:
        """The number of the value of a binding. ``known`` are those of variables; ``computed`` collects calls."""
        if isinstance(value, relax.Call):
            number = self._of_call(value, known, module, computed)
            computed.add(number)
            return number
        if isinstance(value, relax.Tuple):
            return self._number((_TUPLE, *(self.of_value(each, known, module, computed) for each in value.fields)))
        if isinstance(value, relax.TupleGetItem):
            return self._item(self.of_value(value.tuple_value, known, module, computed), int(value.index))
        if isinstance(value, relax.Var):
            return known[value] if value in known else self._number(("variable", value))
        if isinstance(value, tvm.ir.GenericConst):
            return self._number(("constant", value))
        if isinstance(value, relax.ShapeExpr):
            return self._number(("shape", str(value)))
        return self._number(("other", value))

    def _of_call(self, call: Any, known: dict[Any, int], module: Any, computed: set[int]) -> int:
        if (viewed := viewed_by(call, module)) is not None:
            return self.of_value(viewed, known, module, computed)
        called = call.op
        function = module.functions.get(called) if isinstance(called, tvm.ir.GlobalVar) else None
        arguments = [self.of_value(each, known, module, computed) for each in _tensors(call)]
        if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {}):
            inner = dict(zip(function.params, arguments, strict=True))
            for block in function.body.blocks:
                for binding in block.bindings:
                    inner[binding.var] = self.of_value(value_of(binding), inner, module, computed)
            return self.of_value(function.body.body, inner, module, computed)
        callees = tuple(_callee(each) for each in (called, *call.args[:1]))
        attributes = 0 if call.attrs is None else int(tvm_ffi.structural_hash(call.attrs))
        return self._number(("call", *callees, attributes, str(call.ty), *arguments))

    def _item(self, number: int, index: int) -> int:
        structure = self._structures[number]
        return int(structure[1 + index]) if structure[0] == _TUPLE else self._number(("item", number, index))

    def _number(self, structure: Structure) -> int:
        number = self._numbers.setdefault(structure, len(self._structures))
        if number == len(self._structures):
            self._structures.append(structure)
        return number


def value_of(binding: Any) -> Any:
    """What a binding computes; of a match with a type, what is matched."""
    return binding.value


def _tensors(call: Any) -> list[Any]:
    return [each for each in call.args if not isinstance(each, tvm.ir.GlobalVar | relax.ExternFunc)]


def _callee(expression: Any) -> str:
    if isinstance(expression, tvm.ir.GlobalVar):
        return str(expression.name_hint)
    if isinstance(expression, relax.ExternFunc):
        return str(expression.global_symbol)
    return str(expression.name) if isinstance(expression, tvm.ir.Op) else ""
