"""Shapes of the results of com.microsoft's operators, which ONNX does not infer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

Shape = tuple[int, ...]
Shapes = Mapping[str, tuple[int, Shape]]
"""The element type and the shape of each value that has both."""
_RANK_OF_PACKED: Final = 5
_RANK_OF_HEADS: Final = 4


@dataclass(frozen=True)
class _NodeFacts:
    """What is known of a node.

    Attributes:
        operator: its type.
        attributes: by their names.
        shapes: of its inputs, filled with None.
        constants: ONNX's ``TensorProto`` of its inputs that are constants.
    """

    operator: str
    attributes: Mapping[str, Any]
    shapes: Sequence[Any]
    constants: Sequence[Any]


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


def _results(node: Any, found: Shapes, constants: Mapping[str, Any]) -> list[tuple[str, int, Shape]]:
    rule, typed = _RULES.get(node.op_type), _OF_TYPE.get(node.op_type, 0)
    if rule is None or len(node.input) <= typed or any(node.input[each] not in found for each in (0, typed)):
        return []
    shapes = [found[name][1] if name in found else None for name in node.input]
    facts = _NodeFacts(
        node.op_type,
        {each.name: helper.get_attribute_value(each) for each in node.attribute},
        [*shapes, *[None] * (_MAX_INPUTS - len(shapes))],
        [constants.get(name) for name in node.input],
    )
    try:
        results = rule(facts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return []  # the conversion says what is wrong with the node
    element_type = found[node.input[typed]][0]
    return [(name, element_type, shape) for name, shape in zip(node.output, results, strict=False) if name and shape]


def _same(node: _NodeFacts) -> Sequence[Any]:
    return [node.shapes[0]]


def _same_with_sum(node: _NodeFacts) -> Sequence[Any]:
    return [node.shapes[0], None, None, node.shapes[0]]


def _broadcast(node: _NodeFacts) -> Sequence[Any]:
    """Of two quantized operands: each has a scale and a zero point."""
    return [tuple(np.broadcast_shapes(node.shapes[0], node.shapes[3]))]


def _product(node: _NodeFacts) -> Sequence[Any]:
    """A product of matrices neither of which is transposed with its batch."""
    if node.attributes.get("transBatchA", 0) or node.attributes.get("transBatchB", 0):
        return []
    operands = []
    for name, shape in zip("AB", node.shapes[:2], strict=True):
        turned = node.attributes.get(f"trans{name}", 0)
        operands.append((*shape[:-2], shape[-1], shape[-2]) if turned else shape)
    one, other = operands
    return [(*np.broadcast_shapes(one[:-2], other[:-2]), one[-2], other[-1])]


def _gemm(node: _NodeFacts) -> Sequence[Any]:
    is_quantized = node.operator == "QGemm"
    if is_quantized and node.shapes[7] is None:
        return []  # the result is of float32
    one, other = node.shapes[0], node.shapes[3 if is_quantized else 1]
    rows = one[1 if node.attributes.get("transA", 0) else 0]
    return [(rows, other[0 if node.attributes.get("transB", 0) else 1])]


def _joined(node: _NodeFacts) -> Sequence[Any]:
    """Behind the scale and the zero point of the result, each part has both."""
    parts = node.shapes[2 : len(node.constants) : 3]
    axis = node.attributes["axis"] % len(parts[0])
    return [(*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])]


def _chosen(node: _NodeFacts) -> Sequence[Any]:
    return [tuple(np.broadcast_shapes(node.shapes[0], node.shapes[1], node.shapes[4]))]


def _pooled_globally(node: _NodeFacts) -> Sequence[Any]:
    batch, *rest = node.shapes[0]
    ones = (1,) * (len(rest) - 1)
    return [(batch, *ones, rest[-1]) if node.attributes.get("channels_last", 0) else (batch, rest[0], *ones)]


def _as_standard(operator: str, operands: int) -> Callable[[_NodeFacts], Sequence[Any]]:
    """The rule that ONNX has for the operator of its own that reads the same first operands."""

    def rule(node: _NodeFacts) -> Sequence[Any]:
        known = defs.get_schema(operator).attributes
        names = [f"x{number}" for number in range(operands)]
        own = helper.make_node(
            operator, names, ["y"], **{name: value for name, value in node.attributes.items() if name in known}
        )
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, node.shapes, strict=False)
        ]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        inferred = shape_inference.infer_shapes(helper.make_model(helper.make_graph([own], "one", values, [result])))
        sizes = inferred.graph.output[0].type.tensor_type.shape.dim
        return [tuple(int(each.dim_value) for each in sizes)] if all(each.dim_value > 0 for each in sizes) else []

    return rule


def _of_bits(node: _NodeFacts) -> Sequence[Any]:
    return [(*node.shapes[0][:-1], node.attributes["N"])]


def _embedded(node: _NodeFacts) -> Sequence[Any]:
    return [(*node.shapes[0], node.shapes[2][1])]


def _attention(node: _NodeFacts) -> Sequence[Any]:
    (batch, tokens, _), (_, columns) = node.shapes[:2]
    sizes = node.attributes.get("qkv_hidden_sizes") or (columns // 3,) * 3
    past, heads = node.shapes[8 if node.operator == "QAttention" else 4], node.attributes["num_heads"]
    total = tokens + (past[3] if past else 0)
    return [(batch, tokens, sizes[2]), (2, batch, heads, total, sizes[0] // heads)]


def _multi_head(node: _NodeFacts) -> Sequence[Any]:
    query, key, value, *_ = node.shapes
    (batch, tokens), heads, past = query[:2], node.attributes["num_heads"], node.shapes[6]
    if len(query) == _RANK_OF_PACKED:
        return [(batch, tokens, heads * query[4])]
    if value is None:
        return [(batch, tokens, heads * key[4])]
    if len(value) == _RANK_OF_HEADS:
        return [(batch, tokens, heads * value[3])]
    present = [(batch, heads, each[1] + (past[2] if past else 0), each[2] // heads) for each in (key, value)]
    return [(batch, tokens, value[2]), *present]


def _grouped(node: _NodeFacts) -> Sequence[Any]:
    query, key, _, past, *_ = node.shapes
    (batch, tokens, width), heads, of_keys = query, node.attributes["num_heads"], node.attributes["kv_num_heads"]
    elements = width // heads if key else width // (heads + 2 * of_keys)
    rows = int(numpy_helper.to_array(node.constants[6]).reshape(()))
    if past:
        rows = past[2] if node.attributes.get("sliding_window_cache", 0) else max(rows, past[2])
    present = (batch, of_keys, rows, elements)
    return [(batch, tokens, heads * elements), present, present]


_MAX_INPUTS: Final = 17
"""Of an operator below."""
_OF_TYPE: Final = MappingProxyType({
    "DequantizeLinear": 1, "EmbedLayerNormalization": 2, "MatMulIntegerToFloat": 2, "QAttention": 3,
    "QLinearConcat": 1, "QLinearWhere": 1, "QuantizeLinear": 2,
})  # fmt: skip
"""The inputs, by operator, whose type is that of the results. Otherwise it is the first."""
_RULES: Final[Mapping[str, Callable[[_NodeFacts], Sequence[Any]]]] = MappingProxyType({
    **dict.fromkeys(
        ("BiasGelu", "DequantizeLinear", "FastGelu", "Gelu", "Inverse", "LayerNormalization", "QLinearLeakyRelu",
         "QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear", "QuickGelu", "RotaryEmbedding",
         "SimplifiedLayerNormalization"), _same),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _same_with_sum),
    **dict.fromkeys(("DynamicQuantizeMatMul", "FusedMatMul", "MatMulIntegerToFloat", "TransposeMatMul"), _product),
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast),
    "EmbedLayerNormalization": _embedded, "FusedConv": _as_standard("Conv", 2), "FusedGemm": _gemm,
    "GroupQueryAttention": _grouped, "MatMulNBits": _of_bits, "MultiHeadAttention": _multi_head, "QGemm": _gemm,
    "QLinearAveragePool": _as_standard("AveragePool", 1), "QLinearConcat": _joined,
    "QLinearGlobalAveragePool": _pooled_globally, "QLinearWhere": _chosen,
})  # fmt: skip
