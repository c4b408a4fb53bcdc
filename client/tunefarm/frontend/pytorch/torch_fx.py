"""Models of torch by way of ``torch.fx``, where ``torch.export`` fails or a user asks for it.

A trace is exported, so that it has the operators, and the checks, of any other program. Where the user has converters
for what it calls (functions, methods or classes of modules), TVM's importer of traces converts it instead.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp
from tvm import relax
from tvm.relax.frontend.torch.fx_translator import TorchFXImporter

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.program_translation import Converters, require_shape
from tunefarm.frontend.pytorch.references import references_of_trace
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.relax_script import import_relax
from tunefarm.frontend.unsupported_operators import UnsupportedOperator, refuse_unsupported
from tunefarm.intake.user_file import describe
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.errors import TVM_ERRORS

_BATCH_NORMS: Final = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
_REGISTER: Final = "Register a converter in the file of the model: converters = {NAME: function}."
_TRACE_FIX: Final = "Make torch.fx.symbolic_trace(module) work: control flow must not depend on values of tensors."


class NotTraceable(BadInput):
    """Raised for a module that torch.fx cannot trace."""


@dataclass(frozen=True)
class TracedModule:
    """What a module calls for example inputs.

    Attributes:
        module: the trace, of torch's own modules and of the classes that have converters of the user.
        inputs: its inputs, in the order of its parameters.
        has_converters: whether it calls something that has a converter of the user.
    """

    module: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    has_converters: bool


def trace_of(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any], converters: Converters
) -> TracedModule:
    """Trace a module. Raises NotTraceable if that depends on values, or if it takes other inputs than tensors."""
    traced, inputs = _traced(module, arguments, keywords, _Tracer(converters))
    modules = dict(traced.named_modules())
    called = [_target(node, modules) for node in traced.graph.nodes]
    return TracedModule(traced, inputs, any(name.rpartition(".")[2] in converters for _, name in called))


def import_trace(trace: TracedModule, converters: Converters) -> RelaxModel:
    """Convert a trace by TVM's map of modules, functions and methods, which ``converters`` precede by their names.

    Raises:
        BadInput: operators have no conversion, or are converted to another shape.
    """
    importer, graph_module = _TraceImporter(trace.module, converters), trace.module
    refuse_unsupported(list(importer.unsupported(graph_module)))
    information = [(tuple(tensor.shape), importer.dtype_of(tensor)) for tensor in trace.inputs]
    try:
        converted = importer.from_fx(
            graph_module,
            information,
            keep_params_as_input=True,
            unwrap_unit_return_tuple=True,
            no_bind_return_tuple=False,
        )
    except TVM_ERRORS as error:
        fix = "Make torch.export.export(module, example_inputs) work."
        raise BadInput(FIELD, f"the trace of torch.fx cannot be converted: {describe(error)}.", fix) from error
    importer.require_shapes(graph_module)
    version = torch.__version__.partition("+")[0]
    references = references_of_trace(graph_module, trace.inputs)
    return replace(import_relax(converted, None), framework=f"torch {version}", references=references)


class _TraceImporter(TorchFXImporter):  # type: ignore[misc]
    """TVM's importer of traces, with a user's converters."""

    def __init__(self, module: torch.nn.Module, converters: Converters) -> None:
        super().__init__()
        bound = {name: self._bound(function) for name, function in converters.items()}
        kinds = {type(each) for each in module.modules()}
        self.update_convert_map(dict.fromkeys(_BATCH_NORMS, self._batch_norm))
        self.update_convert_map(bound)
        self.update_convert_map({kind: bound[kind.__name__] for kind in kinds if kind.__name__ in bound})

    def _bound(self, function: Any) -> Any:
        return lambda node: function(node, self)

    def _batch_norm(self, node: fx.Node) -> Any:
        """Normalise by the running statistics, where TVM's converter would normalise by those of the batch."""
        module = self.named_modules[node.target]
        mean, variance = (
            self._convert_torch_tensor_to_relax(each) for each in (module.running_mean, module.running_var)
        )
        scale, shift = module.weight, module.bias
        normalised = relax.op.nn.batch_norm(
            self.env[node.args[0]],
            relax.op.ones_like(mean) if scale is None else self.params[scale],
            relax.op.zeros_like(mean) if shift is None else self.params[shift],
            mean,
            variance,
            axis=1,
            epsilon=module.eps,
            training=False,
        )
        return self.block_builder.emit(relax.TupleGetItem(self.block_builder.emit(normalised), 0))

    def require_shapes(self, graph_module: fx.GraphModule) -> None:
        """Raise BadInput if a node was converted to another shape than it has in torch."""
        modules = dict(graph_module.named_modules())
        for node in graph_module.graph.nodes:
            if node in self.env and node.op.startswith("call_"):
                name = _target(node, modules)[1]
                require_shape(f"{name} at {node.name}", node.meta.get("tensor_meta"), self.env[node])

    def dtype_of(self, tensor: torch.Tensor) -> str:
        """TVM's name of its element type."""
        return str(self._convert_data_type(tensor.dtype))

    def unsupported(self, graph_module: fx.GraphModule) -> Iterator[UnsupportedOperator]:
        """The nodes without a converter."""
        modules = dict(graph_module.named_modules())
        for node in graph_module.graph.nodes:
            key, name = _target(node, modules)
            if key is not None and key not in self.convert_map:
                yield UnsupportedOperator(operator=name, node=node.name, shapes=_shapes(node), advice=_REGISTER)


class _Tracer(fx.Tracer):  # type: ignore[misc]
    """Keeps torch's own modules and those of classes that have a converter of the user, and traces the others."""

    def __init__(self, kept: Converters) -> None:
        super().__init__()
        self._kept = kept

    def is_leaf_module(self, module: torch.nn.Module, qualified_name: str) -> bool:
        """Whether a module stays one node."""
        return type(module).__name__ in self._kept or super().is_leaf_module(module, qualified_name)


def _traced(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any], tracer: _Tracer
) -> tuple[fx.GraphModule, tuple[torch.Tensor, ...]]:
    try:
        given = inspect.signature(module.forward).bind(*arguments, **keywords)
        parameters = inspect.signature(module.forward).parameters.values()
        absent = {each.name: each.default for each in parameters if each.name not in given.arguments}
        graph = tracer.trace(module, concrete_args=absent or None)
        for node in [each for each in graph.nodes if each.op == "placeholder"]:
            if str(node.target).lstrip("*") not in given.arguments:
                _erase(graph, node)
        traced = fx.GraphModule(module, graph)
        inputs = [given.arguments[str(node.target).lstrip("*")] for node in graph.nodes if node.op == "placeholder"]
        if not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
            raise TypeError("its inputs are not all tensors")
        with torch.no_grad():
            ShapeProp(traced).propagate(*inputs)
    except Exception as error:
        raise NotTraceable(FIELD, f"torch.fx cannot trace the module: {describe(error)}.", _TRACE_FIX) from error
    return traced, tuple(inputs)


def _erase(graph: fx.Graph, node: fx.Node) -> None:
    """Remove a placeholder that stands for a constant, and the assertions that it is that constant."""
    for user in list(node.users):
        _erase(graph, user)
    graph.erase_node(node)


def _target(node: fx.Node, modules: Mapping[str, torch.nn.Module]) -> tuple[Any, str]:
    """The key of a node's converter, and its name; None for a node that needs none."""
    if node.op == "call_module":
        kind = type(modules[str(node.target)])
        return kind, f"{kind.__module__}.{kind.__qualname__}"
    if node.op == "call_function":
        name = getattr(node.target, "__name__", str(node.target))
        return name, name
    if node.op == "call_method":
        return node.target, f"Tensor.{node.target}"
    return None, ""


def _shapes(node: fx.Node) -> str:
    found = [argument.meta.get("tensor_meta") for argument in node.all_input_nodes]
    return ", ".join(
        f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in found if hasattr(each, "shape")
    )
