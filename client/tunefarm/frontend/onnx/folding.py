"""Evaluates the parts of an ONNX graph that do not depend on its inputs: shapes, masks and conditions.

Once all sizes are given, shapes are constants. The converters then see them as numbers, and the Relax module is static.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tunefarm.frontend.onnx.branches import inline_branches
from tunefarm.frontend.onnx.structure import static_shape, with_shapes

MAX_FOLDED_ELEMENTS: Final = 1 << 20
_MAX_ROUNDS: Final = 64
_RANDOM: Final = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"}
)
OF_DATA: Final = frozenset({"NonZero", "Unique", "Compress"})
"""Their results are no larger than a few times their inputs, though their shapes are not inferred."""
_Array = npt.NDArray[np.generic]


def with_constants_folded(model: Any) -> Any:
    """The same model with constants in place of what can be computed, and with all shapes.

    Raises:
        BadInput: shapes or types contradict each other.
    """
    for _ in range(_MAX_ROUNDS):
        model = with_shapes(model)
        if not _fold(model.graph, model.opset_import, {}, {}):
            break
    return model


def _fold(
    graph: Any, opsets: Any, shapes: Mapping[str, tuple[int, ...] | None], constants: Mapping[str, _Array]
) -> bool:
    """Whether a node of a graph, or of a branch in it, was replaced; the graph changes.

    ``shapes`` and ``constants`` are those of the graphs around it.
    """
    own = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    shapes = {**shapes, **{each.name: static_shape(each) for each in [*graph.input, *graph.value_info, *graph.output]}}
    shapes |= {name: array.shape for name, array in own.items()}
    constants = {**constants, **own}
    folded = _fold_nodes(graph, opsets, shapes, constants)
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "If" else ():
            folded |= _fold(attribute.g, opsets, shapes, constants)
    return inline_branches(graph, constants, shapes) or folded


def _fold_nodes(
    graph: Any, opsets: Any, shapes: Mapping[str, tuple[int, ...] | None], constants: dict[str, _Array]
) -> bool:
    """Replace the nodes of a graph that are constants, which are added to ``constants``."""
    kept = {each.name for each in graph.output}
    found: dict[str, _Array] = {}
    rest = []
    for node in graph.node:
        values = None if kept.intersection(node.output) else _values(node, shapes, constants, opsets)
        if values is None:
            rest.append(node)
        else:
            found |= values
            constants |= values
    if not found:
        return False
    used = {name for node in rest for name in _names_used(node)}
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in rest]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in found.items() if name in used)
    return True


def _values(
    node: Any, shapes: Mapping[str, tuple[int, ...] | None], constants: Mapping[str, _Array], opsets: Any
) -> dict[str, _Array] | None:
    """The outputs of a node if they are constants, else None."""
    if node.domain not in {"", "ai.onnx"} or node.op_type in _RANDOM:
        return None
    if node.op_type in {"Shape", "Size"}:
        return _of_shape(node, shapes.get(node.input[0]))
    if not all(name in constants for name in node.input if name) or any(each.HasField("g") for each in node.attribute):
        return None
    if not all(_is_small(node, shapes.get(name)) for name in node.output if name):
        return None
    return _evaluated(node, constants, opsets)


def _of_shape(node: Any, shape: tuple[int, ...] | None) -> dict[str, _Array] | None:
    if shape is None:
        return None
    if node.op_type == "Size":
        return {node.output[0]: np.asarray(math.prod(shape), np.int64)}
    bounds = {each.name: each.i for each in node.attribute}
    return {node.output[0]: np.asarray(shape[bounds.get("start", 0) : bounds.get("end")], np.int64)}


def _is_small(node: Any, shape: tuple[int, ...] | None) -> bool:
    if shape is None:
        return node.op_type in OF_DATA
    return math.prod(shape) <= MAX_FOLDED_ELEMENTS


def _evaluated(node: Any, constants: Mapping[str, _Array], opsets: Any) -> dict[str, _Array] | None:
    names = list(dict.fromkeys(name for name in node.input if name))
    inputs = [helper.make_value_info(name, onnx.TypeProto()) for name in names]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    try:
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))
        found = evaluator.run(None, {name: constants[name] for name in names})
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None  # the converter says what is wrong with the node
    arrays = {name: np.asarray(value) for name, value in zip((n for n in node.output if n), found, strict=True)}
    return None if any(array.size > MAX_FOLDED_ELEMENTS for array in arrays.values()) else arrays


def _names_used(node: Any) -> list[str]:
    """What a node reads, with what its branches read from outside."""
    names = list(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            names += [each.name for each in graph.output]
            for inner in graph.node:
                names += _names_used(inner)
    return names
