"""The way of an ONNX model from its file to Relax."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tunefarm.frontend.onnx.conversion import convert_graph, missing_operators
from tunefarm.frontend.onnx.folding import with_constants_folded
from tunefarm.frontend.onnx.input_sizes import fix_input_sizes
from tunefarm.frontend.onnx.model_file import read_model_file
from tunefarm.frontend.onnx.references import references_of
from tunefarm.frontend.onnx.skeleton import name_nodes, skeleton_of
from tunefarm.frontend.onnx.structure import (
    check_structure,
    opset_of,
    with_default_attributes,
    with_domain_of_onnxruntime,
    with_functions_inlined,
    with_recent_opset,
)
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

_NESTED_FUNCTIONS: Final = 2
"""ONNX defines some operators by others that it defines in the same way, such as a loss."""


def read_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    """Convert an ONNX model to Relax.

    Args:
        path: of the ``.onnx`` file; external data is read from its folder only.
        shapes: the sizes of inputs that the model leaves open, by the name of the input.

    Raises:
        BadInput: the file is damaged or not an ONNX model, an operator has no conversion, or a size is wrong.
    """
    try:
        return _read(path, shapes)
    except UnicodeDecodeError:
        fix = "Export the model again."
        raise BadInput("model", f"{visible_line(path.name)} contains text that is not UTF-8.", fix) from None


def _read(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    file = read_model_file(path)
    producer = " ".join(filter(None, [file.producer_name, file.producer_version]))
    framework = f"onnx opset {opset_of(file)}" + (f", {visible_line(producer)}" if producer else "")
    skeleton = skeleton_of(file, path.parent)
    model, weights = with_domain_of_onnxruntime(skeleton.model), skeleton.weights
    check_structure(model)
    notes = fix_input_sizes([each for each in model.graph.input if each.name not in weights], shapes)
    model = with_default_attributes(with_recent_opset(with_functions_inlined(model, ())))
    for _ in range(_NESTED_FUNCTIONS):
        model = with_functions_inlined(model, missing_operators(model))
    model = with_constants_folded(model)
    name_nodes(model.graph)
    converted = convert_graph(model, weights)
    references = references_of(path, model.graph, converted.module)
    return RelaxModel(converted.module, {"main": converted.weights}, framework, notes, references)
