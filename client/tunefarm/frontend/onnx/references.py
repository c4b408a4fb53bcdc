"""What onnxruntime computes for random inputs of a model, to compare a compiled one with."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tunefarm.frontend.onnx.model_file import read_model_file
from tunefarm.frontend.onnx.skeleton import all_nodes
from tunefarm.frontend.random_inputs import Array, framework_results
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.startup.silent_import import import_onnxruntime
from tunefarm_schemas.host_cores import usable_physical_cores

_FATAL: Final = 4
"""The level of messages of onnxruntime: a model that it refuses is compared otherwise."""
_ROUNDING: Final = ("DynamicQuantize", "QGemm", "QLinear", "QuantizeLinear")
"""Operators that round to 8-bit integers begin so. A step that comes out differently changes all that follows."""
_ACCURACY: Final = "accuracy_level"
"""The attribute of MatMulNBits that says in which type it may compute."""
_EXACT: Final = 1
"""Its value for float32; larger ones stand for less."""


def references_of(path: Path, graph: Any, module: Any) -> tuple[ModelReference, ...]:
    """Results for three inputs; none if onnxruntime is not installed, or refuses the model or the inputs.

    Models that round to 8-bit integers have none either.

    Args:
        path: of a file that was checked.
        graph: ONNX's ``GraphProto`` of it.
        module: the Relax module that it was converted to.
    """
    if any(node.op_type.startswith(_ROUNDING) for node in all_nodes(graph)):
        return ()
    is_rounding = any(map(_rounds_products, all_nodes(graph)))
    return framework_results(module, lambda: partial(_outputs, _session(path, is_rounding=is_rounding)))


def _session(path: Path, *, is_rounding: bool) -> Any:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    source: str | bytes = str(path)
    if is_rounding:
        # Products that round their data to 8-bit integers for speed are not what the weights say.
        source = _with_exact_products(read_model_file(path)).SerializeToString()
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    # It pins its threads unless their number is given, which this process may not.
    options.intra_op_num_threads, options.inter_op_num_threads = usable_physical_cores(), 1
    options.log_severity_level = _FATAL
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _rounds_products(node: Any) -> bool:
    return any(each.name == _ACCURACY and each.i > _EXACT for each in node.attribute)


def _with_exact_products(model: Any) -> Any:
    for node in filter(_rounds_products, all_nodes(model.graph)):
        for each in node.attribute:
            if each.name == _ACCURACY:
                each.i = _EXACT
    return model


def _outputs(session: Any, inputs: list[Array]) -> tuple[Array, ...]:
    named = {each.name: array for each, array in zip(session.get_inputs(), inputs, strict=True)}
    return tuple(np.asarray(each) for each in session.run(None, named))
