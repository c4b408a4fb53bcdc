"""What LiteRT computes for random inputs of a model, to compare a compiled one with."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tunefarm.frontend.random_inputs import Array, framework_results
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.tflite.detection import DETECTION

_BYTES: Final = 1
"""Size of the elements of quantized tensors, and of truth values."""


def references_of(path: Path, model: Any, module: Any) -> tuple[ModelReference, ...]:
    """Results for three inputs; none if LiteRT is not installed, or refuses the model or the inputs.

    Models with quantized tensors have none either: LiteRT quantizes activations at run time, too.

    Args:
        path: of a file that was checked.
        model: its tables, as ``read_tflite`` gives them.
        module: the Relax module that it was converted to.
    """
    return framework_results(module, lambda: partial(_outputs, _interpreter(path), _detections(model)))


def _interpreter(path: Path) -> Any:
    """LiteRT's interpreter. Raises ValueError for a model with quantized tensors."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # they use halves where the processor has them
    interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    types = {np.dtype(each["dtype"]) for each in interpreter.get_tensor_details()}
    if any(each.itemsize == _BYTES and each != np.dtype(bool) for each in types):
        raise ValueError("a tensor is quantized")
    return interpreter


def _detections(model: Any) -> tuple[int, ...]:
    """The tensors that the boxes of a detector are, then that of their number; none of other models."""
    graph = model.Subgraphs(0)
    for operator in map(graph.Operators, range(graph.OperatorsLength())):
        if model.OperatorCodes(operator.OpcodeIndex()).CustomCode() == DETECTION:
            return tuple(int(each) for each in operator.OutputsAsNumpy())
    return ()


def _outputs(interpreter: Any, detections: tuple[int, ...], inputs: list[Array]) -> tuple[Array, ...]:
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    numbers = [int(each["index"]) for each in interpreter.get_output_details()]
    results = {number: np.array(interpreter.get_tensor(number)) for number in numbers}
    if detections:
        *parts, count = detections
        found = int(interpreter.get_tensor(count)[0])
        for number in set(parts) & set(results):
            results[number][:, found:] = 0  # LiteRT leaves there what was in memory
    return tuple(results[number] for number in numbers)
