"""Checks the structure of an ONNX graph, brings it to one opset, and infers its shapes."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import onnx
from onnx import checker, defs, helper, inliner, shape_inference

from tunefarm.frontend.onnx.microsoft_shapes import shapes_of_microsoft
from tunefarm.frontend.onnx.old_opsets import converted
from tunefarm.frontend.onnx.skeleton import all_nodes
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

OLDEST_OPSET: Final = 13
"""Graphs of an older opset are converted to it: from there on axes and bounds are inputs, as the converters expect."""
_SCAN_WITHOUT_BATCH: Final = 9
"""The opset since which Scan is what it is now. ONNX's conversion changes the inputs of the model."""
_MAX_PROBLEM: Final = 600
_OF_ONNXRUNTIME: Final = MappingProxyType({"LayerNormalization": 17, "SimplifiedLayerNormalization": None})
"""Operators that onnxruntime alone puts into ONNX's domain, and the opset since which ONNX does, too."""
_AGAIN: Final = "Export the model again, and check it with onnx.checker.check_model."


def check_structure(model: Any) -> None:
    """Raise ``BadInput`` unless the graph is one that ONNX describes."""
    newest = defs.onnx_opset_version()
    if opset_of(model) > newest:
        problem = f"The model has opset {opset_of(model)}; the installed onnx knows up to {newest}."
        raise BadInput("model", problem, f"Export it with opset_version={newest}, or install a newer onnx.")
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    for value in [*shaped.graph.input, *shaped.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()  # the checker requires shapes, which inference does not
    try:
        checker.check_model(shaped)
    except checker.ValidationError as error:
        raise BadInput("model", f"ONNX's checker refuses the model: {_first_lines(error)}", _AGAIN) from None


def with_domain_of_onnxruntime(model: Any) -> Any:
    """The same model, in which operators that onnxruntime alone puts into ONNX's domain are in its own."""
    opset = opset_of(model)
    unknown = {operator for operator, since in _OF_ONNXRUNTIME.items() if since is None or since > opset}
    own = [node for node in model.graph.node if node.domain in {"", "ai.onnx"} and node.op_type in unknown]
    for node in own:
        node.domain = "com.microsoft"
    if own and all(each.domain != "com.microsoft" for each in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def opset_of(model: Any) -> int:
    """The version of the operators of the default domain; 1 if the model does not state it."""
    return max((int(each.version) for each in model.opset_import if each.domain in {"", "ai.onnx"}), default=1)


def with_recent_opset(model: Any) -> Any:
    """The same model in an opset that the converters know; older than they know is converted by ONNX.

    Raises:
        BadInput: ONNX cannot convert it.
    """
    if opset_of(model) >= OLDEST_OPSET:
        return model
    if opset_of(model) < _SCAN_WITHOUT_BATCH and any(node.op_type == "Scan" for node in all_nodes(model.graph)):
        fix = f"Export it with opset_version={OLDEST_OPSET} or newer."
        raise BadInput("model", f"The model has opset {opset_of(model)}, in which Scan has batches.", fix)
    try:
        return converted(model, opset_of(model), OLDEST_OPSET)
    except RuntimeError as error:
        problem = f"The model has opset {opset_of(model)}, which cannot be converted: {_first_lines(error)}"
        raise BadInput("model", problem, f"Export it with opset_version={OLDEST_OPSET} or newer.") from None


def with_functions_inlined(model: Any, missing: Sequence[str]) -> Any:
    """The same model without functions of its own.

    Args:
        model: ONNX's ``ModelProto``.
        missing: standard operators without conversion; those that ONNX defines by other operators are replaced by them.
    """
    if model.functions:
        model = inliner.inline_local_functions(model, True)
    if not missing:
        return model
    typed = with_shapes(model)
    typed.graph.value_info.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in typed.graph.initializer
    )
    # ONNX asks for the type of an input that is left out, too, which has no name.
    typed.graph.value_info.append(helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None))
    names = [("", operator) for operator in missing]
    try:
        inlined = inliner.inline_selected_functions(typed, names, inline_schema_functions=True)
    except RuntimeError:
        return model  # the conversion names the operators
    kept = [each for each in inlined.graph.value_info if each.name]
    del inlined.graph.value_info[:]
    inlined.graph.value_info.extend(kept)
    return inlined


def with_default_attributes(model: Any) -> Any:
    """The model, whose nodes state the defaults of attributes that ONNX's definitions by other operators read.

    ONNX itself leaves them out of what it infers and inlines.
    """
    opset = opset_of(model)
    for node in all_nodes(model.graph):
        if node.domain not in {"", "ai.onnx"} or not defs.has(node.op_type, opset, ""):
            continue
        schema = defs.get_schema(node.op_type, opset, "")
        if schema.has_function or schema.has_context_dependent_function:
            given = {each.name for each in node.attribute}
            defaults = [each.default_value for name, each in schema.attributes.items() if name not in given]
            node.attribute.extend(each for each in defaults if each.type)
    return model


def with_shapes(model: Any) -> Any:
    """The same model with the shapes and types that follow from its inputs, as ``value_info``.

    Raises:
        BadInput: they contradict each other, as with a weight of the wrong type.
    """
    forgetting = onnx.ModelProto()
    forgetting.CopyFrom(model)
    del forgetting.graph.value_info[:]  # those of the export may hold for other sizes
    for output in forgetting.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for node in forgetting.graph.node:
        # ONNX infers the shape of all frequencies where this attribute is missing, though half of them are the default.
        if node.op_type == "STFT" and all(each.name != "onesided" for each in node.attribute):
            node.attribute.append(helper.make_attribute("onesided", 1))
    inferred = _inferred(forgetting)
    while _asks_for_unknown_shapes(inferred.graph):
        more = shapes_of_microsoft(inferred.graph, _shapes_of(inferred.graph))
        if not more:
            break
        forgetting.graph.value_info.extend(more)
        inferred = _inferred(forgetting)
    return inferred


def _inferred(model: Any) -> Any:
    for of_values in (True, False):  # values that are shapes are followed too; where that fails, it may be ONNX's fault
        try:
            return shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=of_values)
        except shape_inference.InferenceError as error:
            problem = f"Shapes or types of the model contradict each other: {_first_lines(error)}"
    raise BadInput("model", problem, "Correct the weight or the sizes that it names.")


def _asks_for_unknown_shapes(graph: Any) -> bool:
    """Whether a shape is computed that is not known, in a graph with operators whose shapes ONNX does not infer."""
    if all(node.domain != "com.microsoft" for node in graph.node):
        return False
    known = _shapes_of(graph)
    return any(node.op_type in {"Shape", "Size"} and node.input[0] not in known for node in graph.node)


def _shapes_of(graph: Any) -> dict[str, tuple[int, tuple[int, ...]]]:
    """The element type and the shape of each value that has both."""
    shapes = {each.name: (each.data_type, tuple(each.dims)) for each in graph.initializer}
    for each in [*graph.input, *graph.value_info, *graph.output]:
        shape, element_type = static_shape(each), each.type.tensor_type.elem_type
        if shape is not None and element_type:
            shapes[each.name] = element_type, shape
    return shapes


def shape_text(value: Any) -> str:
    """The type and shape of a ``ValueInfoProto``, such as ``float32[1, 3, 224, 224]``."""
    tensor = value.type.tensor_type
    try:
        name = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except KeyError:
        name = "unknown"
    if not tensor.HasField("shape"):
        return f"{name}[?]"
    sizes = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    return f"{name}[{', '.join(sizes)}]"


def static_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a ``ValueInfoProto``; None if a dimension of it is unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(int(dim.dim_value) for dim in tensor.shape.dim)


def _first_lines(error: BaseException) -> str:
    return visible_line(" ".join(str(error).split())[:_MAX_PROBLEM])
