"""Reads a TFLite flatbuffer and checks what the converters rely on.

Python's flatbuffers verifies nothing: an offset of a damaged file may lead anywhere, also to a place that can be read.
"""

import math
import os
import stat
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import tflite

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

MAX_FILE_BYTES: Final = 2**31 - 1
_IDENTIFIER: Final = b"TFL3"
_VERSION: Final = 3
_ITEM_BYTES: Final = {
    tflite.TensorType.FLOAT32: 4, tflite.TensorType.FLOAT16: 2, tflite.TensorType.INT32: 4, tflite.TensorType.UINT8: 1,
    tflite.TensorType.INT64: 8, tflite.TensorType.BOOL: 1, tflite.TensorType.INT16: 2, tflite.TensorType.COMPLEX64: 8,
    tflite.TensorType.INT8: 1, tflite.TensorType.FLOAT64: 8, tflite.TensorType.UINT64: 8, tflite.TensorType.UINT32: 4,
    tflite.TensorType.UINT16: 2,
}  # fmt: skip
_AGAIN: Final = "Convert the model to TFLite again."


def read_tflite(path: Path) -> Any:
    """The model in a file, every table of it within bounds.

    Raises:
        BadInput: it is not a regular file, too large, or not a TFLite model.
    """
    content = _content(path)
    if content[4:8] != _IDENTIFIER:
        raise BadInput("model", f"{visible_line(path.name)} is not a TFLite model.", "Name a .tflite file.")
    try:
        model = tflite.Model.GetRootAsModel(content, 0)
        _check(model, len(content))
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError, struct.error) as error:
        raise damaged(f"a table is out of bounds ({visible_line(str(error))})") from None
    return model


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        problem = f"{visible_line(path.name)} cannot be read: {error.strerror}."
        raise BadInput("model", problem, "Name a file that exists and is readable.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise BadInput("model", f"{visible_line(path.name)} is not a regular file.", "Name a .tflite file.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise BadInput("model", f"{visible_line(path.name)} is larger than 2 GB.", "Quantise or split the model.")
        return file.read()


def _check(model: Any, size: int) -> None:
    if model.Version() != _VERSION:
        raise BadInput("model", f"The model has version {model.Version()} of TFLite's format, not {_VERSION}.", _AGAIN)
    _bounded(model.SubgraphsLength(), size, "subgraphs")
    _bounded(model.BuffersLength(), size, "buffers")
    _bounded(model.OperatorCodesLength(), size, "operator codes")
    if not model.SubgraphsLength():
        raise damaged("it has no subgraph")
    for index in range(model.SubgraphsLength()):
        subgraph = model.Subgraphs(index)
        _bounded(subgraph.TensorsLength(), size, "tensors")
        _bounded(subgraph.OperatorsLength(), size, "operators")
        for number in range(subgraph.TensorsLength()):
            _check_tensor(model, subgraph.Tensors(number), size)
        _check_operators(model, subgraph)


def _check_tensor(model: Any, tensor: Any, size: int) -> None:
    name = visible_line((tensor.Name() or b"").decode())
    shape = [int(each) for each in tensor.ShapeAsNumpy()] if tensor.ShapeLength() else []
    if any(each < 0 for each in shape):
        raise damaged(f"tensor {name} has the shape {shape}")
    if tensor.Buffer() >= model.BuffersLength():
        raise damaged(f"tensor {name} has no buffer {tensor.Buffer()}")
    buffer = model.Buffers(tensor.Buffer())
    if buffer.Offset() > 1 or buffer.Size() > 1:
        raise BadInput("model", f"Tensor {name} lies outside of the flatbuffer.", "Quantise or split the model.")
    length = buffer.DataLength()
    if length > size or (length and buffer.DataAsNumpy().size != length):
        raise damaged(f"the buffer of tensor {name} is longer than the file")
    item = _ITEM_BYTES.get(tensor.Type())
    if length and item and tensor.Sparsity() is None and length != math.prod(shape) * item:
        problem = f"Weight {name} of shape {tuple(shape)} has {length} bytes instead of {math.prod(shape) * item}."
        raise BadInput("model", problem, _AGAIN)
    _check_quantisation(tensor, shape, name)


def _check_quantisation(tensor: Any, shape: list[int], name: str) -> None:
    quantisation = tensor.Quantization()
    if quantisation is None or not quantisation.ScaleLength():
        return
    count = quantisation.ScaleLength()
    axis = quantisation.QuantizedDimension()
    if count > 1 and (not 0 <= axis < len(shape) or shape[axis] != count):
        raise damaged(f"tensor {name} of shape {tuple(shape)} has {count} scales along axis {axis}")
    scales = quantisation.ScaleAsNumpy()
    if not np.all(np.isfinite(scales)):
        raise damaged(f"tensor {name} has a scale that is not a number")


def _check_operators(model: Any, subgraph: Any) -> None:
    tensors, codes = subgraph.TensorsLength(), model.OperatorCodesLength()
    for index in _indices(subgraph, "Inputs") + _indices(subgraph, "Outputs"):
        if not 0 <= index < tensors:
            raise damaged(f"an input or output is tensor {index} of {tensors}")
    known = set(_indices(subgraph, "Inputs"))
    for number in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(number)
        if operator.OpcodeIndex() >= codes:
            raise damaged(f"operator {number} has the code {operator.OpcodeIndex()} of {codes}")
        inputs, outputs = _indices(operator, "Inputs"), _indices(operator, "Outputs")
        if not all(-1 <= each < tensors for each in inputs) or not all(0 <= each < tensors for each in outputs):
            raise damaged(f"operator {number} refers to a tensor that does not exist")
        for each in inputs:
            if each >= 0 and each not in known and not _has_contents(model, subgraph.Tensors(each)):
                name = visible_line((subgraph.Tensors(each).Name() or b"").decode())
                raise damaged(f"operator {number} reads tensor {each} ({name}), which nothing computes")
        known.update(outputs)


def _has_contents(model: Any, tensor: Any) -> bool:
    """Whether a tensor is a constant, or keeps its state between runs."""
    shape = tensor.ShapeAsNumpy() if tensor.ShapeLength() else np.ones(1)
    return bool(tensor.IsVariable()) or model.Buffers(tensor.Buffer()).DataLength() > 0 or not np.all(shape)


def _indices(table: Any, field: str) -> list[int]:
    if not getattr(table, f"{field}Length")():
        return []
    return [int(each) for each in getattr(table, f"{field}AsNumpy")()]


def _bounded(count: int, size: int, what: str) -> None:
    """A vector of offsets takes four bytes each."""
    if count * 4 > size:
        raise damaged(f"it claims to have {count} {what}")


def damaged(what: str) -> BadInput:
    """The refusal of a file whose tables do not fit together."""
    return BadInput("model", f"The TFLite model is damaged: {what}.", _AGAIN)
