"""Shapes of the results of com.microsoft's operators, which ONNX does not infer."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import NodeProto, helper, numpy_helper

Shape = tuple[int, ...]
Shapes = Mapping[str, tuple[int, Shape]]
"""The element type and the shape of each value that has both."""
_Rule = Callable[[Any, Sequence[Shape | None], Mapping[str, Any]], Sequence[Shape | None]]


def shapes_of_microsoft(graph: Any, known: Shapes) -> list[Any]:
    """The ``ValueInfoProto`` of results that follow from ``known`` and are not in it."""
    found = dict(known)
    constants = {each.name: each for each in graph.initializer}
    added = []
    for node in graph.node:
        if node.domain != "com.microsoft" or all(name in found for name in node.output if name):
            continue
        for name, element_type, shape in _results(node, found, constants):
            if name not in found:
                found[name] = element_type, shape
                added.append(helper.make_tensor_value_info(name, element_type, shape))
    return added


def _results(node: NodeProto, found: Shapes, constants: Mapping[str, Any]) -> list[tuple[str, int, Shape]]:
    rule = _RULES.get(node.op_type)
    if rule is None or not node.input or node.input[0] not in found:
        return []
    shapes = [found[name][1] if name in found else None for name in node.input]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    # The number of tokens that a cache holds afterwards is a value.
    attributes["constants"] = [constants.get(name) for name in node.input]
    try:
        results = rule(node, shapes, attributes)
    except (IndexError, KeyError, TypeError, ValueError):
        return []  # the conversion says what is wrong with the node
    element_type = found[node.input[_OF_TYPE.get(node.op_type, 0)]][0]
    return [(name, element_type, shape) for name, shape in zip(node.output, results, strict=False) if name and shape]


def _same(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node, attributes
    return [shapes[0]]


def _same_with_sum(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node, attributes
    return [shapes[0], None, None, shapes[0]]


def _product(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    """A product of matrices neither of which is transposed with its batch."""
    del node
    if attributes.get("transBatchA", 0) or attributes.get("transBatchB", 0):
        return []
    operands = []
    for name, shape in zip("AB", shapes[:2], strict=True):
        turned = attributes.get(f"trans{name}", 0)
        operands.append((*shape[:-2], shape[-1], shape[-2]) if turned else shape)
    one, other = operands
    return [(*np.broadcast_shapes(one[:-2], other[:-2]), one[-2], other[-1])]


def _of_bits(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node
    return [(*shapes[0][:-1], attributes["N"])]


def _attention(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    batch, tokens = shapes[0][:2]
    width = shapes[1][1]
    sizes = attributes.get("qkv_hidden_sizes") or (width // 3,) * 3
    at = 8 if node.op_type == "QAttention" else 4
    past = shapes[at][3] if len(shapes) > at and shapes[at] else 0
    heads = attributes["num_heads"]
    return [(batch, tokens, sizes[2]), (2, batch, heads, past + tokens, sizes[0] // heads)]


def _multi_head(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node
    query, key, value = (list(shapes) + [None] * 3)[:3]
    batch, tokens, heads = query[0], query[1], attributes["num_heads"]
    if len(query) == 5:
        return [(batch, tokens, heads * query[4])]
    if value is None:
        return [(batch, tokens, heads * key[4])]
    if len(value) == 4:
        return [(batch, tokens, heads * value[3])]
    past = shapes[6][2] if len(shapes) > 6 and shapes[6] else 0
    present = [(batch, heads, past + each[1], each[2] // heads) for each in (key, value)]
    return [(batch, tokens, value[2]), *present]


def _grouped(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    query, key = shapes[:2]
    batch, tokens, width = query
    heads, of_keys = attributes["num_heads"], attributes["kv_num_heads"]
    elements = width // heads if key else width // (heads + 2 * of_keys)
    total = int(numpy_helper.to_array(attributes["constants"][6]).reshape(()))
    if node.input[3]:
        total = shapes[3][2] if attributes.get("sliding_window_cache", 0) else max(total, shapes[3][2])
    present = (batch, of_keys, total, elements)
    return [(batch, tokens, heads * elements), present, present]


def _linear_binary(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node, attributes
    return [tuple(np.broadcast_shapes(shapes[0], shapes[3]))]


def _embedded(node: Any, shapes: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    del node, attributes
    return [(*shapes[0], shapes[2][1])]


_OF_TYPE: Final = MappingProxyType({
    "DynamicQuantizeMatMul": 0, "EmbedLayerNormalization": 2, "GatherBlockQuantized": 2, "MatMulIntegerToFloat": 2,
    "QAttention": 3,
})  # fmt: skip
"""The inputs, by operator, whose type is that of the results. Otherwise it is the first."""
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType({
    **dict.fromkeys(
        ("BiasGelu", "FastGelu", "Gelu", "LayerNormalization", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax",
         "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization"), _same),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _same_with_sum),
    **dict.fromkeys(("DynamicQuantizeMatMul", "FusedMatMul", "MatMulIntegerToFloat", "TransposeMatMul"), _product),
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _linear_binary),
    "EmbedLayerNormalization": _embedded, "GroupQueryAttention": _grouped, "MatMulNBits": _of_bits,
    "MultiHeadAttention": _multi_head,
})  # fmt: skip
