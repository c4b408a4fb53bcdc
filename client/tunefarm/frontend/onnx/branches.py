"""Replaces ``If`` by its branch, and ``Loop`` and ``Scan`` by their steps, where condition or count are known."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

_Constants = Mapping[str, npt.NDArray[np.generic]]
_Shapes = Mapping[str, tuple[int, ...] | None]
MAX_STEPS: Final = 256
"""Loops of more steps would make modules that take too long to build."""


def inline_branches(graph: Any, constants: _Constants, shapes: _Shapes) -> bool:
    """Whether a node was replaced; the graph changes.

    ``constants`` are those that it may read, and ``shapes`` those of its values, by name.
    """
    nodes: list[Any] = []
    changed = False
    for number, node in enumerate(graph.node):
        replacement = _replacement(node, constants, shapes, f"{node.name or node.op_type}/{number}", graph)
        changed |= replacement is not None
        nodes += [node] if replacement is None else replacement
    if changed:
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _replacement(node: Any, constants: _Constants, shapes: _Shapes, prefix: str, graph: Any) -> list[Any] | None:
    if node.domain not in {"", "ai.onnx"}:
        return None
    if node.op_type == "If" and node.input[0] in constants:
        condition = bool(constants[node.input[0]].reshape(-1)[0])
        branch = next(each.g for each in node.attribute if each.name == f"{'then' if condition else 'else'}_branch")
        names, inner = _inlined(branch, {}, prefix, graph)
        return inner + [
            _same(names.get(out.name, out.name), name)
            for out, name in zip(branch.output, node.output, strict=True)
            if name
        ]
    if node.op_type == "Loop":
        return _unrolled_loop(node, constants, prefix, graph)
    if node.op_type == "Scan":
        return _unrolled_scan(node, shapes, prefix, graph)
    return None


def _unrolled_loop(node: Any, constants: _Constants, prefix: str, graph: Any) -> list[Any] | None:
    body = next(each.g for each in node.attribute if each.name == "body")
    count = constants.get(node.input[0])
    condition = constants.get(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if count is None or not (condition is not None or len(node.input) < 2 or not node.input[1]):
        return None
    if condition is not None and not condition.reshape(-1)[0]:
        return None
    steps = int(count.reshape(-1)[0])
    if not 0 < steps <= MAX_STEPS or not _goes_on(body):
        return None
    carried, steps_given = list(node.input[2:]), []
    for step in range(steps):
        number, true = f"{prefix}/{step}/number", f"{prefix}/{step}/condition"
        graph.initializer.append(numpy_helper.from_array(np.asarray(step, np.int64), number))
        graph.initializer.append(numpy_helper.from_array(np.asarray(True), true))
        steps_given.append(([number, true], ()))
    nodes, carried, collected = _steps(body, body.output[1:], carried, steps_given, prefix, graph)
    return nodes + _same_as(carried, node) + _collected(node, carried, collected, [0] * len(collected), prefix, graph)


def _unrolled_scan(node: Any, shapes: _Shapes, prefix: str, graph: Any) -> list[Any] | None:
    """A step takes one element along an axis of each scanned input; what it gives is joined along an axis."""
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    body, scanned = given["body"], list(node.input[len(node.input) - given["num_scan_inputs"] :])
    carried = list(node.input[: len(node.input) - len(scanned)])
    axes = given.get("scan_input_axes", [0] * len(scanned))
    steps = {shape[axis] if (shape := shapes.get(name)) else None for name, axis in zip(scanned, axes, strict=True)}
    count = steps.pop()
    if steps or count is None or not 0 < count <= MAX_STEPS:
        return None
    nodes: list[Any] = []
    elements = []
    directions = given.get("scan_input_directions", [0] * len(scanned))
    for number, (name, axis, is_backward) in enumerate(zip(scanned, axes, directions, strict=True)):
        parts = _elements(name, axis, count, f"{prefix}/input/{number}", nodes, graph)
        elements.append(parts[::-1] if is_backward else parts)
    steps_given = [((), values) for values in zip(*elements, strict=True)]
    unrolled, carried, collected = _steps(body, body.output, carried, steps_given, prefix, graph)
    backward = given.get("scan_output_directions", [0] * len(collected))
    ordered = [parts[::-1] if is_backward else parts for parts, is_backward in zip(collected, backward, strict=True)]
    axes = given.get("scan_output_axes", [0] * len(collected))
    nodes += [*unrolled, *_same_as(carried, node)]
    return nodes + _collected(node, carried, ordered, axes, prefix, graph)


def _steps(
    body: Any,
    outputs: Sequence[Any],
    carried: list[str],
    given: Sequence[tuple[Sequence[str], Sequence[str]]],
    prefix: str,
    graph: Any,
) -> tuple[list[Any], list[str], list[list[str]]]:
    """The nodes of all steps of a body, what the last one carries on, and what each gives besides.

    ``given`` are the inputs of each step before and after what is carried.
    """
    nodes: list[Any] = []
    collected: list[list[str]] = [[] for _ in outputs[len(carried) :]]
    for step, (before, after) in enumerate(given):
        inputs = dict(zip((each.name for each in body.input), [*before, *carried, *after], strict=True))
        names, inner = _inlined(body, inputs, f"{prefix}/{step}", graph)
        nodes += inner
        results = [names.get(each.name, each.name) for each in outputs]
        for parts, name in zip(collected, results[len(carried) :], strict=True):
            parts.append(name)
        carried = results[: len(carried)]
    return nodes, carried, collected


def _elements(name: str, axis: int, count: int, prefix: str, nodes: list[Any], graph: Any) -> list[str]:
    """The elements along an axis, each without that axis; the nodes that cut them are added to ``nodes``."""
    sizes, axes = f"{prefix}/sizes", f"{prefix}/axis"
    graph.initializer.append(numpy_helper.from_array(np.ones(count, np.int64), sizes))
    graph.initializer.append(numpy_helper.from_array(np.asarray([axis], np.int64), axes))
    parts = [f"{prefix}/{step}/part" for step in range(count)]
    elements = [f"{prefix}/{step}/element" for step in range(count)]
    nodes.append(helper.make_node("Split", [name, sizes], parts, axis=axis))
    nodes += [
        helper.make_node("Squeeze", [part, axes], [element]) for part, element in zip(parts, elements, strict=True)
    ]
    return elements


def _goes_on(body: Any) -> bool:
    """Whether the condition that a body computes is the one it was given, or a constant that holds."""
    name, given = body.output[0].name, body.input[1].name
    for _ in range(len(body.node)):
        if name == given:
            return True
        source = next((each for each in body.node if name in each.output), None)
        if source is None:
            break
        if source.op_type == "Constant":
            return bool(numpy_helper.to_array(source.attribute[0].t).reshape(-1)[0])
        if source.op_type not in {"Identity", "Cast"}:
            return False
        name = source.input[0]
    initial = next((each for each in body.initializer if each.name == name), None)
    return name == given or (initial is not None and bool(numpy_helper.to_array(initial).reshape(-1)[0]))


def _same_as(carried: Sequence[str], node: Any) -> list[Any]:
    return [_same(value, name) for value, name in zip(carried, node.output, strict=False) if name]


def _collected(
    node: Any,
    carried: Sequence[str],
    values: Sequence[Sequence[str]],
    axes: Sequence[int],
    prefix: str,
    graph: Any,
) -> list[Any]:
    """Nodes that join what the steps gave along an axis; outputs at the end may be left out."""
    nodes: list[Any] = []
    for name, parts, axis in zip(node.output[len(carried) :], values, axes, strict=False):
        if name:
            place = f"{prefix}/result/{name}/axis"
            graph.initializer.append(numpy_helper.from_array(np.asarray([axis], np.int64), place))
            wide = [f"{part}/{name}/step" for part in parts]
            nodes += [helper.make_node("Unsqueeze", [part, place], [to]) for part, to in zip(parts, wide, strict=True)]
            nodes.append(helper.make_node("Concat", wide, [name], axis=axis))
    return nodes


def _inlined(body: Any, given: dict[str, str], prefix: str, graph: Any) -> tuple[dict[str, str], list[Any]]:
    """The nodes of a body under names of their own, and what its names became; its weights go into ``graph``."""
    names = dict(given)
    for tensor in body.initializer:
        names[tensor.name] = f"{prefix}/{tensor.name}"
        copy = onnx.TensorProto.FromString(tensor.SerializeToString())
        copy.name = names[tensor.name]
        graph.initializer.append(copy)
    for node in body.node:
        names |= {name: f"{prefix}/{name}" for name in node.output if name}
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in body.node]
    for node in nodes:
        node.name = f"{prefix}/{node.name or node.op_type}"
        _rename(node, names)
    return names, nodes


def _rename(node: Any, names: dict[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            _rename_inner(graph, names)


def _rename_inner(graph: Any, names: dict[str, str]) -> None:
    """What a nested body defines hides the same name around it."""
    own = {each.name for each in [*graph.input, *graph.initializer]} | {n for node in graph.node for n in node.output}
    outer = {name: new for name, new in names.items() if name not in own}
    for node in graph.node:
        _rename(node, outer)
    for output in graph.output:
        output.name = outer.get(output.name, output.name)


def _same(source: str, name: str) -> Any:
    return helper.make_node("Identity", [source], [name])
