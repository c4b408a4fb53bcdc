"""Translates an exported program of torch to Relax, by TVM's converters and ours. Called only in a confined child."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import torch
import tvm
from torch import fx
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from tunefarm.frontend.expressions.complex_numbers import ComplexParts
from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.model_state import RESULTS, ModelState
from tunefarm.frontend.pytorch.operators.complex_numbers import (
    converted,
    has_converter,
    involves_complex,
    is_complex,
)
from tunefarm.frontend.pytorch.operators.converters import CONVERTERS
from tunefarm.frontend.pytorch.operators.nodes import standing_for, value_of
from tunefarm.frontend.pytorch.operators.quantization import DECOMPOSITIONS
from tunefarm.frontend.pytorch.weights import shared_array, weight_of
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.unsupported_operators import BOXES, MASKS, UnsupportedOperator, refuse_unsupported
from tunefarm.frontend.weights_file import Array
from tunefarm.intake.user_file import describe
from tunefarm_schemas.bad_input import BadInput

Converters: TypeAlias = Mapping[str, Callable[[fx.Node, Any], Any]]
"""Functions of a node and an importer (``env``, ``block_builder``) that give a Relax expression, by operator."""

ENTRY: Final = "main"
_NAMESPACES: Final = frozenset({"aten", "prims", "quantized_decomposed", "torchvision", "transformers", "higher_order"})
_DECOMPOSITIONS: Final = 4
"""How often operators are decomposed into others that may have to be decomposed as well."""
_FURTHER: Final = {
    **DECOMPOSITIONS,
    **{
        operator: decomposition
        for operator, decomposition in decomposition_table.items()
        if decomposition.__module__ == "torch._decomp.decompositions"
    },
}
"""Torch's decompositions into its operators, and ours. Its others are into primitives, which have no converters."""
_DECOMPOSED: Final = frozenset({"_native_batch_norm_legit_functional.default"})
"""Operators of which TVM's converter gives some results only: that of a norm in training mode gives no statistics."""
_OF_TRUTH_VALUES: Final = frozenset({"add", "mul", "maximum", "minimum"})
"""Operators of numbers that torch has for truth values as well."""
_COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Operators that LLVM refuses for truth values."""
_CONTROL_FLOW: Final = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)
"""Operators that have no place in a dataflow block."""
_RANDOM: Final = frozenset(
    {
        "bernoulli.p",
        "bernoulli.default",
        "randn.default",
        "randn_like.default",
        "rand.default",
        "native_dropout.default",
        "exponential.default",
    }
)


def translated(program: ExportedProgram, state: ModelState, converters: Converters) -> RelaxModel:
    """Translate a program of static shapes whose operators are decomposed.

    Its parameters, buffers and constants become weights under torch's names, except those that nothing uses and
    the buffers of ``state``.

    Raises:
        BadInput: operators have no conversion, or weights have no contents.
    """
    importer = _ProgramImporter(converters)
    program = importer.in_known_operators(program)
    importer.refuse_unsupported(program.graph_module)
    return importer.translate(program, state)


class _ProgramImporter(ExportedProgramImporter):  # type: ignore[misc]
    """TVM's importer, which keeps buffers and constants as parameters, and uses our converters first."""

    def __init__(self, converters: Converters) -> None:
        super().__init__()
        ours = {name: _bound(function, self) for name, function in CONVERTERS.items()}
        self._of_user = {name: _bound(function, self) for name, function in converters.items()}
        self.update_convert_map(ours)

    def in_known_operators(self, program: ExportedProgram) -> ExportedProgram:
        """The program with decompositions for operators that have no converter."""
        for _ in range(_DECOMPOSITIONS):
            unknown = {node.target for node in _calls(program.graph_module) if not self._is_known(node)}
            further = {each: _FURTHER[each] for each in unknown if each in _FURTHER}
            if not further:
                break
            try:
                with torch.no_grad():
                    program = program.run_decompositions(further)
            except RuntimeError:  # sizes depend on values: the operators are refused by their names
                break
        return program

    def refuse_unsupported(self, graph_module: fx.GraphModule) -> None:
        """Refuse all operators without a converter at once, those of nested graphs included."""
        found = [
            UnsupportedOperator(operator=_operator(node), node=node.name, shapes=_shapes(node), advice=_advice(node))
            for node in _calls(graph_module)
            if not self._is_known(node)
        ]
        refuse_unsupported(found)

    def translate(self, program: ExportedProgram, state: ModelState) -> RelaxModel:
        """Translate a program whose operators all have converters."""
        inputs, parameters, arrays = _variables(program, state)
        self.block_builder = relax.BlockBuilder()
        attributes = {"num_input": len(inputs)}
        arguments = [*inputs.values(), *_flat(parameters.values())]
        nodes = program.graph.nodes
        with self.block_builder.function(name=ENTRY, params=arguments, attrs=attributes):
            if any(node.target in _CONTROL_FLOW for node in nodes):
                result = self._result(program, {**inputs, **parameters})
                self.block_builder.emit_func_output(result)
            else:
                with self.block_builder.dataflow():
                    result = self.block_builder.emit_output(self._result(program, {**inputs, **parameters}))
                self.block_builder.emit_func_output(result)
        version = torch.__version__.partition("+")[0]
        module = _with_one_entry(self.block_builder.get())
        return RelaxModel(module=module, weights={ENTRY: arrays}, framework=f"torch {version}")

    def _result(self, program: ExportedProgram, variables: Mapping[str, Any]) -> Any:
        """The output, or a tuple of the outputs if there are several, without those that are None."""
        outputs = self._translate_fx_graph(program.graph_module, program.graph.nodes, dict(variables))
        kinds = [specification.kind for specification in program.graph_signature.output_specs]
        chosen = [
            output
            for wanted in RESULTS
            for output, kind in zip(outputs, kinds, strict=True)
            if kind == wanted and not self._is_no_bias(output)
        ]
        if not chosen:
            raise BadInput(FIELD, "it returns no tensor.", "Return a tensor or a tuple of tensors.")
        return chosen[0] if len(chosen) == 1 else relax.Tuple(chosen)

    def _translate_fx_graph(self, graph_module: Any, nodes: Any, inputs_vars: Any, _custom_ops: Any = None) -> Any:
        """Translate the nodes of a graph. TVM's method of this name knows operators without their namespaces only."""
        for node in nodes:
            if node.op == "placeholder":
                if node.name in inputs_vars:
                    self.env[node] = inputs_vars[node.name]
            elif node.op == "get_attr":
                self.env[node] = getattr(graph_module, node.target)
            elif node.op == "call_function":
                with standing_for(self, self._promoted(node)):
                    result = _convert(self._converter(node), node)
                self.env[node] = self._as_in_torch(node, result)
            elif node.op == "output":
                _refuse_other_results(node.args[0])
                return self._flatten_output_args(self.retrieve_args(node)[0])
        raise ValueError("a graph has no output")

    def _converter(self, node: fx.Node) -> Callable[[fx.Node], Any]:
        name = self._user_name(node)
        if name is not None:
            return self._of_user[name]
        return partial(converted, importer=self) if involves_complex(node) else self.convert_map[node.target.__name__]

    def _promoted(self, node: fx.Node) -> dict[fx.Node, Any]:
        """Operands of integers in the type in which torch computes: TVM adds 0 to them instead of 0.5."""
        dtype = None if involves_complex(node) else _computed_in(node)
        if dtype is None:
            return {}
        kind, emit = self._convert_data_type(dtype), self.block_builder.emit
        return {each: emit(relax.op.astype(self.env[each], kind)) for each in _narrower(node, dtype)}

    def _as_in_torch(self, node: fx.Node, result: Any) -> Any:
        """The result in the element type that it has in torch: TVM multiplies halves to float32.

        Raises:
            BadInput: it has another shape than in torch, which shows an error of a converter.
        """
        expected = node.meta.get("val")
        place = f"{_operator(node)} at {node.name}"
        if isinstance(result, ComplexParts):
            for part in (result.real, result.imaginary):
                require_shape(place, expected, part)
            return result
        if isinstance(result, tvm.ir.Call):  # the next converter asks for its shape
            result = self.block_builder.emit(result)
        require_shape(place, expected, result)
        if not _is_tensor(result) or not isinstance(expected, torch.Tensor):
            return result
        dtype = self._convert_data_type(expected.dtype)
        same = str(result.ty.dtype) == dtype
        return result if same else self.block_builder.emit(relax.op.astype(result, dtype))

    def _user_name(self, node: fx.Node) -> str | None:
        names = (_operator(node), _operator(node).rpartition(".")[0], node.target.__name__)
        return next((name for name in names if name in self._of_user), None)

    def _is_known(self, node: fx.Node) -> bool:
        if self._user_name(node) is not None:
            return True
        if any(not isinstance(extent, int) for extent in getattr(value_of(node), "shape", ())):
            return False  # its size depends on data
        namespace = getattr(node.target, "namespace", None)
        foreign = namespace is not None and namespace not in _NAMESPACES
        name = node.target.__name__
        if not foreign and involves_complex(node):
            return has_converter(node)
        return not foreign and name in self.convert_map and name not in _RANDOM | _DECOMPOSED


def _with_one_entry(module: Any) -> Any:
    """The module, in which TVM's functions of branches and of parts of loops are private."""
    for name, function in module.functions_items():
        if name.name_hint != ENTRY:
            module.update_func(name, function.without_attr("global_symbol"))
    return module


def require_shape(place: str, expected: Any, result: Any) -> None:
    """Raise BadInput if a tensor has another shape than torch's, which shows an error of a converter."""
    if not _is_tensor(result) or not isinstance(getattr(expected, "shape", None), torch.Size):
        return
    shape = [getattr(extent, "value", None) for extent in result.ty.shape or ()]
    if shape != list(expected.shape):
        problem = f"{place} is converted to the shape {shape}, not {list(expected.shape)}."
        fix = "Register a converter for it in the file of the model: converters = {OPERATOR: function}."
        raise BadInput(FIELD, problem, fix)


def _is_tensor(result: Any) -> bool:
    return isinstance(result, relax.Expr) and isinstance(result.ty, relax.TensorType)


def _convert(convert: Callable[[fx.Node], Any], node: fx.Node) -> Any:
    try:
        return convert(node)
    except BadInput:
        raise
    except Exception as error:  # TVM's converters raise whatever they like
        problem = f"{_operator(node)} at {node.name} ({_shapes(node)}) cannot be converted: {describe(error)}."
        raise BadInput(FIELD, problem, _advice(node) or _REPLACE) from error


def _refuse_other_results(results: Any) -> None:
    for result in [results] if isinstance(results, fx.Node) else results:
        if isinstance(result, fx.Node) and is_complex(value_of(result)):
            raise BadInput(FIELD, f"it returns {result.name}, complex numbers.", "Return torch.view_as_real of them.")
        if result is not None and not isinstance(result, fx.Node):
            raise BadInput(FIELD, f"it returns {result!r}, which is not a tensor.", "Return tensors only.")


def _computed_in(node: fx.Node) -> torch.dtype | None:
    """The element type in which torch computes an elementwise operator, as far as its operands must be converted."""
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return None
    result = node.meta.get("val")
    if isinstance(result, torch.Tensor) and result.dtype != torch.bool:
        return result.dtype
    if node.target.__name__.partition(".")[0] in _OF_TRUTH_VALUES:
        return torch.int8  # what is not zero becomes true
    if any(isinstance(each, float) for each in node.args):
        return torch.float32
    compares = node.target.__name__.partition(".")[0] in _COMPARISONS
    return torch.int8 if compares and all(map(_is_truth_value, node.all_input_nodes)) else None


def _is_truth_value(node: fx.Node) -> bool:
    return bool(getattr(value_of(node), "dtype", None) == torch.bool)


def _narrower(node: fx.Node, dtype: torch.dtype) -> list[fx.Node]:
    """The operands of other types that are computed as ``dtype``, but for the condition of a choice."""
    operands = node.all_input_nodes
    if node.target.__name__.startswith(("where.", "masked_fill.")):
        operands = [each for each in operands if value_of(each).dtype != torch.bool]
    values = ((each, value_of(each)) for each in operands)
    # torch compares numbers with floats of any width in their own type.
    has_floats = dtype.is_floating_point and value_of(node).dtype != torch.bool
    return [
        each
        for each, value in values
        if isinstance(value, torch.Tensor) and value.dtype != dtype
        if has_floats or not value.is_floating_point()
    ]


def _bound(function: Callable[[fx.Node, Any], Any], importer: Any) -> Callable[[fx.Node], Any]:
    return lambda node: function(node, importer)


def _variables(program: ExportedProgram, state: ModelState) -> tuple[dict[str, Any], dict[str, Any], tuple[Array, ...]]:
    """The variables of the inputs and of the weights, by their nodes, and the contents of the weights."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    inputs: dict[str, Any] = {}
    buffers = {name: _variable(name, nodes[name].meta["val"]) for name in state.buffers}
    parameters: dict[str, Any] = {}
    arrays: list[Array] = []
    shared: dict[tuple[Any, ...], Array] = {}
    for specification in program.graph_signature.input_specs:
        node = nodes[specification.arg.name]
        if specification.kind == InputKind.USER_INPUT:
            if isinstance(node.meta.get("val"), torch.Tensor):
                inputs[node.name] = _variable(node.name, node.meta["val"])
            elif node.users:
                fix = "Make it a constant of the module, or a tensor."
                raise BadInput(FIELD, f"its input {node.name} is not a tensor.", fix)
        elif node.users and node.name not in buffers:
            name, tensor = str(specification.target), weight_of(program, specification)
            if tensor.is_complex():
                parts = {f"{name}.real": tensor.resolve_conj().real, f"{name}.imag": tensor.resolve_conj().imag}
                parameters[node.name] = ComplexParts(*(_variable(each, part) for each, part in parts.items()))
            else:
                parts = {name: tensor}
                parameters[node.name] = _variable(name, tensor)
            arrays += [shared_array(each, part, shared) for each, part in parts.items()]
    return {**inputs, **buffers}, parameters, tuple(arrays)


def _flat(variables: Iterable[Any]) -> list[Any]:
    """The variables, with those of both parts in place of one of complex numbers."""
    pairs = ((each.real, each.imaginary) if isinstance(each, ComplexParts) else (each,) for each in variables)
    return [each for pair in pairs for each in pair]


def _variable(name: str, tensor: torch.Tensor) -> Any:
    try:
        dtype = ExportedProgramImporter._convert_data_type(tensor.dtype)  # noqa: SLF001 - TVM gives no other way to it
    except RuntimeError as error:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise BadInput(
            FIELD, f"{name} has the element type {kind}.", "Use floats or integers of TVM's types."
        ) from error
    return relax.Var(name, relax.TensorType([int(extent) for extent in tensor.shape], dtype))


def _calls(graph_module: fx.GraphModule) -> Iterator[fx.Node]:
    for module in graph_module.modules():
        if isinstance(module, fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


def _operator(node: fx.Node) -> str:
    target: Any = node.target
    name = target.__name__
    return f"{target.namespace}::{name}" if hasattr(target, "namespace") else str(name)


def _shapes(node: fx.Node) -> str:
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    return ", ".join(
        f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" for value in values if hasattr(value, "shape")
    )


_REPLACE: Final = "Replace it by other operators before the export."
_ADVICE: Final = (
    (("nonzero", "unique", "masked_select", "aten::index.Tensor"), MASKS),
    (("rand", "bernoulli", "dropout", "multinomial"), "Take random numbers as an input, and call eval() for dropout."),
    (("scan", "map"), "Unroll the loop, or export its body as a model of its own."),
    (("nms",), BOXES),
)


def _advice(node: fx.Node) -> str:
    name = _operator(node)
    if involves_complex(node):
        return "Compute it of the real and the imaginary parts, which torch.view_as_real gives."
    return next((advice for words, advice in _ADVICE if any(word in name for word in words)), "") or _registration(name)


def _registration(name: str) -> str:
    namespace, separator, _ = name.partition("::")
    if not separator or namespace in _NAMESPACES:
        return ""
    return 'Register a converter in the file of the model: converters = {"LIBRARY::OPERATOR": function}.'
