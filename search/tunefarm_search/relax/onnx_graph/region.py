"""Which Relax bindings have ONNX nodes of the same meaning, and the ONNX model of a function of such bindings."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tvm import relax

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.relax.constants import is_constant
from tunefarm_search.relax.onnx_graph.biases import with_biases
from tunefarm_search.relax.onnx_graph.graph import Graph, Unexportable
from tunefarm_search.relax.onnx_graph.model import OnnxRegion, region_of
from tunefarm_search.relax.onnx_graph.operator_call import Names, OperatorCall, kind_of
from tunefarm_search.relax.onnx_graph.operators import (
    convolution,
    creation,
    elementwise,
    indexing,
    layout,
    matmul,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
)
from tunefarm_search.relax.onnx_graph.recurrence import with_lstm
from tunefarm_search.relax.onnx_graph.transpositions import without_inner_transpositions

_CONVERTERS: Final[Mapping[str, Callable[[OperatorCall], Names]]] = MappingProxyType(
    {
        **convolution.CONVERTERS,
        **creation.CONVERTERS,
        **elementwise.CONVERTERS,
        **indexing.CONVERTERS,
        **layout.CONVERTERS,
        **matmul.CONVERTERS,
        **normalization.CONVERTERS,
        **pooling.CONVERTERS,
        **quantization.CONVERTERS,
        **reduction.CONVERTERS,
        **resize.CONVERTERS,
    }
)


def unsupported(module: Any, binding: Any) -> str | None:  # noqa: ARG001 - for operators that call its functions
    """Why a Relax binding cannot be exported; None if it can.

    Args:
        module: the ``IRModule`` that contains the binding, before operators are legalized.
        binding: a ``relax.VarBinding`` or another binding.
    """
    if not isinstance(binding, relax.VarBinding):
        return "it is not a binding of a variable"
    value = binding.value
    try:
        if isinstance(value, relax.Call):
            _converted(Graph(), value, None)
        elif isinstance(value, relax.Tuple):
            for each in value.fields:
                kind_of(each)
        elif isinstance(value, relax.Var | relax.TupleGetItem) or is_constant(value):
            kind_of(value)
        else:
            return f"it is a {type(value).__name__}"
    except Unexportable as reason:
        return str(reason)
    return None


def onnx_model(function: Any, location: str | None) -> OnnxRegion:
    """A Relax function as an ONNX model.

    Args:
        function: a ``relax.Function``. Its parameters are the inputs; its body binds values that are all supported,
            and returns a tensor or a tuple of tensors.
        location: the name of the file, beside that of the model, that holds the constants of 4 KiB and more, which
            ``place_weights`` completes; None embeds all constants.

    Raises:
        BadInput: something in the function cannot be exported.
    """
    graph = Graph()
    try:
        inputs = [_tensor(f"input{at}", each, is_output=False) for at, each in enumerate(function.params)]
        names: dict[Any, Names] = {
            parameter: each.name for parameter, each in zip(function.params, inputs, strict=True)
        }
        graph.shapes |= {each.name: each.shape for each in inputs}
        results = _results(graph, function.body, names)
        outputs = [_tensor(f"output{at}", kind, is_output=True) for at, kind in enumerate(_leaves(function.ret_ty))]
    except Unexportable as reason:
        raise BadInput("model", f"a part of it cannot be exported to ONNX: {reason}.", "Compile it by TVM.") from reason
    moved = without_inner_transpositions(graph, with_lstm(graph, results))
    for result, output in zip(moved, outputs, strict=True):
        graph.name_output(result, output.name)
    return region_of(with_biases(graph, frozenset(each.name for each in outputs)), inputs, outputs, location)


def _results(graph: Graph, body: Any, names: dict[Any, Names]) -> tuple[str, ...]:
    if not isinstance(body, relax.SeqExpr):
        return _flat(_value(graph, body, names))
    for block in body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                raise Unexportable("a binding is not one of a variable")
            names[binding.var] = _value(graph, binding.value, names)
    return _flat(_value(graph, body.body, names))


def _value(graph: Graph, value: Any, names: Mapping[Any, Names]) -> Names:
    if isinstance(value, relax.Call):
        return _converted(graph, value, names)
    if isinstance(value, relax.Tuple):
        return tuple(_one(_value(graph, each, names)) for each in value.fields)
    if isinstance(value, relax.TupleGetItem):
        return _value(graph, value.tuple_value, names)[int(value.index)]
    if is_constant(value):
        kind_of(value)
        return graph.constant(value)
    found = names.get(value) if isinstance(value, relax.Var) else None
    if found is None:
        raise Unexportable(f"a value is a {type(value).__name__}")
    return found


def _converted(graph: Graph, call: Any, names: Mapping[Any, Names] | None) -> Names:
    operator = getattr(call.op, "name", None)
    converter = _CONVERTERS.get(str(operator))
    if converter is None:
        raise Unexportable(f"{operator or 'a call of a function'} has no counterpart")
    try:
        converting = OperatorCall(graph, call, names)
        found = converter(converting)
        graph.shapes |= {name: kind.shape for name, kind in zip(_flat(found), converting.results, strict=True)}
    except Unexportable as reason:
        raise Unexportable(f"{operator}: {reason}") from reason
    return found


def _one(names: Names) -> str:
    if isinstance(names, tuple):
        raise Unexportable("a tuple contains a tuple")
    return names


def _flat(names: Names) -> tuple[str, ...]:
    return names if isinstance(names, tuple) else (names,)


def _leaves(kind: Any) -> Sequence[Any]:
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]


def _tensor(name: str, value: Any, *, is_output: bool) -> TensorArgument:
    kind = kind_of(value)
    return TensorArgument(name=name, shape=kind.shape, dtype=kind.dtype, is_output=is_output)
