"""Converts an ONNX graph, with all its shapes known, to a Relax function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import onnx_input

from tunefarm.frontend.expressions.loops import ConditionalLoop
from tunefarm.frontend.onnx.nodes import attributes_of, constant_inputs, in_bytes, type_name
from tunefarm.frontend.onnx.operators.constants import constant
from tunefarm.frontend.onnx.operators.converters import advice_for, converter_of
from tunefarm.frontend.onnx.skeleton import all_nodes, names_from_outside, subgraphs
from tunefarm.frontend.onnx.structure import opset_of, shape_text, static_shape
from tunefarm.frontend.unsupported_operators import UnsupportedOperator, refuse_unsupported
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

_Array = npt.NDArray[np.generic]
MAX_ELEMENTS_INSIDE: Final = 8
"""Smaller arrays are constants of the module: converters need bounds, scales and axes as numbers."""
_REASON_CHARACTERS: Final = 200
_NO_LIMIT: Final = 2**62
_Emit = Callable[[Sequence[Any], Any, Any], Any]
# What converters raise for a node that they cannot express: all kinds, since they check little themselves.
_REFUSALS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class ConvertedGraph:
    """A Relax module with one function ``main``.

    Attributes:
        module: TVM's ``IRModule``.
        weights: the contents of the parameters that follow the inputs, in their order.
    """

    module: Any
    weights: tuple[_Array, ...]


def convert_graph(model: Any, weights: Mapping[str, _Array]) -> ConvertedGraph:
    """Convert a folded model.

    Args:
        model: ONNX's ``ModelProto`` with the shapes of all values; its weights are inputs.
        weights: the contents of the inputs that are weights, by name.

    Raises:
        BadInput: operators have no conversion; the error names all of them.
    """
    return _Conversion(model, weights).run()


def missing_operators(model: Any) -> tuple[str, ...]:
    """The standard operators of a model that have no conversion, those of bodies included."""
    opset = opset_of(model)
    found = {node.op_type for node in all_nodes(model.graph) if node.domain in {"", "ai.onnx"}} - {"If", "Loop", "Scan"}
    return tuple(sorted(each for each in found if converter_of("", each, opset) is None))


class _Conversion:
    """The state of one conversion: what each name of the graph became."""

    def __init__(self, model: Any, weights: Mapping[str, _Array]) -> None:
        graph = model.graph
        self._graph = graph
        self._opset = opset_of(model)
        given = {**weights, **{each.name: numpy_helper.to_array(each) for each in graph.initializer}}
        self._weights = {name: in_bytes(array) for name, array in given.items()}
        self._info = {each.name: each for each in [*graph.input, *graph.value_info, *graph.output]}
        self._values: dict[str, Any] = {}
        self._parameters: dict[str, Any] = {}
        self._refused: list[UnsupportedOperator] = []
        self._unknown: set[str] = set()
        self._builder = relax.BlockBuilder()
        self._used = {each.name for inner in [graph, *subgraphs(graph)] for each in inner.output}
        self._used |= {name for node in all_nodes(graph) for name in node.input}

    def run(self) -> ConvertedGraph:
        self._refused += [self._unsupported(node) for node in all_nodes(self._graph) if not self._is_known(node)]
        inputs = [self._variable(each.name) for each in self._graph.input if each.name not in self._weights]
        has_control_flow = any(node.op_type in _CONTROL_FLOW for node in self._graph.node)
        with self._builder.function("main"):
            if has_control_flow:
                result = _one_or_tuple(self._convert_all(self._graph))
            else:
                with self._builder.dataflow():
                    result = self._builder.emit_output(_one_or_tuple(self._convert_all(self._graph)))
            self._builder.emit_func_output(result, [*inputs, *self._parameters.values()])
        refuse_unsupported(self._refused)
        return self._without_unused(self._builder.get(), len(inputs))

    def _without_unused(self, module: Any, inputs: int) -> ConvertedGraph:
        """Drop the parameters that converters took as numbers."""
        function = module["main"]
        names = list(self._parameters)
        free = set(relax.analysis.free_vars(function.body))
        used = [(name, var) for name, var in zip(names, function.params[inputs:], strict=True) if var in free]
        parameters = [*function.params[:inputs], *(var for _, var in used)]
        kept = relax.Function(parameters, function.body, function.ret_ty, function.is_pure)
        module["main"] = kept.with_attrs({"global_symbol": "main", "num_input": inputs})
        return ConvertedGraph(module, tuple(self._weights[name] for name, _ in used))

    def _convert_all(self, graph: Any) -> list[Any]:
        """The results of a graph."""
        for node in graph.node:
            self._convert(node)
        if self._refused:
            return [relax.const(0.0)]  # TVM's builder is finished in order, and then the model is refused
        return [self._tensor(each.name) for each in graph.output]

    def _convert(self, node: Any) -> None:
        names = [name for name in node.output if name]
        if not self._is_known(node) or self._unknown.intersection(node.input):
            self._stand_in(names)
            return
        try:
            convert = _CONTROL_FLOW.get(node.op_type, _Conversion._operator)
            results = convert(self, node)
            if any(name in self._used for name in node.output[len(results) :]):
                raise ValueError(f"only {len(results)} of its {len(node.output)} outputs have a conversion")
            for name, result in zip(node.output, results, strict=False):
                self._check_type(name, result)
        except _REFUSALS as error:
            if isinstance(error, BadInput):
                raise
            # An If or a Loop fails for what was refused in its bodies.
            if node.op_type not in _CONTROL_FLOW or not self._refused:
                self._refused.append(self._unsupported(node, str(error)))
            self._stand_in(names)
            return
        self._values |= {name: result for name, result in zip(node.output, results, strict=False) if name}

    def _operator(self, node: Any) -> list[Any]:
        convert = converter_of(node.domain, node.op_type, self._opset)
        inputs = onnx_input([self._input(node, index) for index in range(len(node.input))])
        attributes = attributes_of(node)
        attributes["tvm_custom"] = {"name": node.name, "num_outputs": len(node.output)}
        result = convert(self._builder, inputs, attributes, [self._values, {}])
        if isinstance(result, relax.Tuple):
            if len(result) < len(node.output):
                raise ValueError(f"only the first {len(result)} of its {len(node.output)} outputs have a conversion")
            return [self._emitted(result[index], name) for index, name in enumerate(node.output)]
        result = self._emitted(result, node.output[0])
        if isinstance(getattr(result, "ty", None), relax.TupleType):
            parts = [relax.TupleGetItem(result, index) for index in range(len(result.ty.fields))]
            return [self._emitted(part, name) for part, name in zip(parts, node.output, strict=False)]
        return [result]

    def _emitted(self, expression: Any, name: str) -> Any:
        """Bind a computation to a variable, so that two uses of it do not compute it twice."""
        if isinstance(expression, tvm.ir.Call | relax.TupleGetItem):
            return self._builder.emit(expression, name_hint=name)
        return expression

    def _check_type(self, name: str, result: Any) -> None:
        """Refuse a result that is not what ONNX infers: TVM's converters ignore some attributes without a word."""
        expected, found = self._info.get(name), getattr(result, "ty", None)
        if isinstance(found, relax.TensorType) and not _is_static(found):
            raise ValueError("the data decide the size of its result")
        if expected is None or name not in self._used or not isinstance(found, relax.TensorType):
            return
        if not expected.type.tensor_type.elem_type:
            return
        shape = static_shape(expected)
        if shape is not None and (sizes := list(map(int, found.shape))) != list(shape):
            raise ValueError(f"its conversion has the shape {sizes}, not {list(shape)}")
        if str(found.dtype) != type_name(expected.type.tensor_type.elem_type):
            raise ValueError(f"its conversion has the type {found.dtype}")

    def _branch(self, node: Any) -> list[Any]:
        """A condition that only the run decides: Relax computes one of the branches."""
        condition = self._scalar(self._tensor(node.input[0]))
        graphs = {each.name: each.g for each in node.attribute}
        then, otherwise = self._body(graphs["then_branch"]), self._body(graphs["else_branch"])
        for name, one, other in zip(node.output, _types(then), _types(otherwise), strict=True):
            if one != other:
                raise ValueError(f"{visible_line(name)} is {one} in one branch and {other} in the other")
        result = self._builder.emit(relax.If(condition, then, otherwise))
        if len(node.output) == 1:
            return [result]
        return [self._builder.emit(relax.TupleGetItem(result, index)) for index in range(len(node.output))]

    def _body(self, graph: Any) -> Any:
        outside = dict(self._values)
        self._builder._begin_binding_block()  # noqa: SLF001 - TVM has no other way to build the body of an If
        try:
            results = self._body_results(graph)
        finally:
            block = self._builder._end_block()  # noqa: SLF001 - as above
            self._values = outside
        return relax.SeqExpr([block], _one_or_tuple(results))

    def _body_results(self, graph: Any) -> list[Any]:
        """The results of a body, whose own arrays are constants."""
        weights = self._weights
        inner = {each.name: in_bytes(numpy_helper.to_array(each)) for each in graph.initializer}
        self._weights = {**weights, **inner}
        self._values |= {name: constant(array) for name, array in inner.items()}
        try:
            return self._convert_all(graph)
        finally:
            self._weights = weights

    def _loop(self, node: Any) -> list[Any]:
        """A loop that ends by its condition or its number of steps, as functions of its state and what its body reads.

        The state is the number of the step, whether a further one follows, and what the loop carries.
        """
        body = next(each.g for each in node.attribute if each.name == "body")
        if len(body.output) != len(node.input) - 1:
            raise ValueError("it collects a result of each step, and the data decide how many there are")
        defaults = (relax.const(_NO_LIMIT, "int64"), relax.const(True, "bool"))
        limit, goes_on = (
            self._scalar(self._tensor(name)) if name else default
            for name, default in zip(node.input[:2], defaults, strict=True)
        )
        state = [relax.const(0, "int64"), goes_on]
        state += [self._tensor(name) for name in node.input[2:]]
        names = [name for name in names_from_outside(body) if self._is_captured(name)]
        captured = [limit, *(self._tensor(name) for name in names)]
        is_before_end, step = (
            self._function(part, [*state, *captured], names, body, emit)
            for part, emit in (("goes_on", self._is_within_limit), ("step", self._next_state))
        )
        loop = ConditionalLoop(self._builder, is_before_end, step, parts=len(state))
        _, _, *results = loop.run(state, captured)
        return results

    def _is_captured(self, name: str) -> bool:
        """Whether a name from outside of a body is a variable of the enclosing function."""
        if name in self._values:
            return isinstance(self._values[name], relax.Var)
        return name in self._weights and self._weights[name].size > MAX_ELEMENTS_INSIDE

    def _function(self, part: str, like: Sequence[Any], names: Sequence[str], body: Any, emit: _Emit) -> Any:
        """Define a private function of a loop's state, its limit and the values with these names."""
        outside = dict(self._values)
        parameters = [relax.Var(f"p{number}", each.ty) for number, each in enumerate(like)]
        own = parameters[: len(parameters) - len(names)]
        self._values |= dict(zip(names, parameters[len(own) :], strict=True))
        try:
            with self._builder.function(self._builder.get_unique_name(f"loop_{part}"), parameters, private=True):
                return self._builder.emit_func_output(emit(own[:-1], own[-1], body))
        finally:
            self._values = outside

    def _is_within_limit(self, state: Sequence[Any], limit: Any, _body: Any) -> Any:
        return self._builder.emit(relax.op.logical_and(relax.op.less(state[0], limit), state[1]))

    def _next_state(self, state: Sequence[Any], _limit: Any, body: Any) -> Any:
        for each, value in zip(body.input, state, strict=True):
            is_row = static_shape(each) == (1,) and not value.ty.ndim
            self._values[each.name] = self._builder.emit(relax.op.reshape(value, (1,))) if is_row else value
        results = self._body_results(body)
        number = self._builder.emit(relax.op.add(state[0], relax.const(1, "int64")))
        found = [number, self._scalar(results[0]), *results[1:]]
        for each, before, after in zip(body.output[1:], state[2:], found[2:], strict=True):
            if _type_text(before) != _type_text(after):
                changed = f"{_type_text(before)} to {_type_text(after)}"
                raise ValueError(f"{visible_line(each.name)} changes from {changed} from step to step")
        return self._builder.emit(relax.Tuple(found))

    def _scalar(self, value: Any) -> Any:
        """The value without axes, which is a single one."""
        return self._builder.emit(relax.op.reshape(value, ())) if value.ty.ndim else value

    def _input(self, node: Any, index: int) -> Any:
        name = node.input[index]
        if not name:
            return None
        if name in self._values:
            return self._values[name]
        array = self._weights[name]
        if array.size <= MAX_ELEMENTS_INSIDE or index in constant_inputs(node):
            return constant(array)
        return self._parameter(name, array)

    def _parameter(self, name: str, array: _Array) -> Any:
        parameter = relax.Var(name, relax.TensorType(array.shape, str(array.dtype)))
        self._values[name] = self._parameters.setdefault(name, parameter)  # another body may have read it
        return self._values[name]

    def _tensor(self, name: str) -> Any:
        """A value as a result of the graph, which is a tensor even where converters keep a shape."""
        if name not in self._values:
            return self._parameter(name, self._weights[name])
        value = self._values[name]
        if isinstance(value, relax.ShapeExpr):
            return relax.const([int(size) for size in value.values], "int64")
        return value

    def _variable(self, name: str) -> Any:
        tensor = self._info[name].type.tensor_type
        shape = [int(dim.dim_value) for dim in tensor.shape.dim]
        self._values[name] = relax.Var(name, relax.TensorType(shape, type_name(tensor.elem_type)))
        return self._values[name]

    def _stand_in(self, names: list[str]) -> None:
        """Let the nodes after a refused one be examined as well."""
        for name in names:
            value = self._info.get(name)
            if value is not None and value.type.tensor_type.elem_type and static_shape(value) is not None:
                self._variable(name)
            else:
                self._unknown.add(name)

    def _is_known(self, node: Any) -> bool:
        is_control_flow = node.op_type in _CONTROL_FLOW and not node.domain
        return is_control_flow or converter_of(node.domain, node.op_type, self._opset) is not None

    def _unsupported(self, node: Any, reason: str = "") -> UnsupportedOperator:
        shapes = ", ".join(self._shape(name) for name in node.input if name)
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        advice = advice_for(node.domain, node.op_type)
        if reason:
            line = visible_line(reason.strip().splitlines()[-1][:_REASON_CHARACTERS])
            advice = f"{operator}: {line}. {advice}".strip()
        return UnsupportedOperator(operator, node.name or node.output[0], shapes, advice)

    def _shape(self, name: str) -> str:
        if name in self._weights:
            return f"{self._weights[name].dtype}[{', '.join(map(str, self._weights[name].shape))}]"
        return shape_text(self._info[name]) if name in self._info else "?"


_CONTROL_FLOW: Final[Mapping[str, Callable[[_Conversion, Any], list[Any]]]] = {
    "If": _Conversion._branch,  # noqa: SLF001
    "Loop": _Conversion._loop,  # noqa: SLF001
}
"""Operators with bodies, which have no place in a dataflow block."""


def _one_or_tuple(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else relax.Tuple(results)


def _is_static(kind: Any) -> bool:
    return isinstance(kind.shape, relax.ShapeExpr) and all(isinstance(size, tvm.tirx.IntImm) for size in kind.shape)


def _types(branch: Any) -> list[str]:
    """The types and shapes of what a branch gives."""
    results = branch.body.fields if isinstance(branch.body, relax.Tuple) else [branch.body]
    return list(map(_type_text, results))


def _type_text(value: Any) -> str:
    """Such as ``float32[1, 3]``."""
    return f"{value.ty.dtype}{list(map(int, value.ty.shape))}"
