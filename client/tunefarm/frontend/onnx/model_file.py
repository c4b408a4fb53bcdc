"""Reads the file of an ONNX model and its external data."""

import math
import os
import stat
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.numpy_helper import to_array

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

MAX_FILE_BYTES: Final = 2**31 - 1
"""The most that protobuf parses."""
_ARRAY = npt.NDArray[np.generic]
_FOUR_BITS: Final = frozenset({"UINT4", "INT4", "FLOAT4E2M1"})
_TWO_BITS: Final = frozenset({"UINT2", "INT2"})
_AGAIN: Final = "Export the model again."


def read_model_file(path: Path) -> Any:
    """The ``ModelProto`` in a file; external data stays where it is.

    Raises:
        BadInput: it is not a regular file, too large, or not an ONNX model.
    """
    with _open_regular(path, "model") as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            fix = "Save it with external data: onnx.save(model, path, save_as_external_data=True)."
            raise BadInput("model", f"{visible_line(path.name)} is larger than 2 GB.", fix)
        content = file.read()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        name = visible_line(path.name)
        raise BadInput("model", f"{name} is damaged or not an ONNX model: {visible_line(str(error))}", _AGAIN) from None
    if not model.graph.node and not model.graph.output:
        raise BadInput("model", f"{visible_line(path.name)} contains no ONNX graph.", _AGAIN)
    if not _is_text(model.graph):
        raise BadInput("model", f"{visible_line(path.name)} contains names that are not UTF-8.", _AGAIN)
    return model


def _is_text(graph: Any) -> bool:
    """Whether the names of a graph are text: protobuf gives others as bytes."""
    named = [*graph.initializer, *graph.input, *graph.output, *graph.value_info, *graph.node]
    names = [each.name for each in named]
    for node in graph.node:
        names += [node.op_type, node.domain, *node.input, *node.output]
    return all(isinstance(name, str) for name in names)


def array_of(tensor: Any, folder: Path) -> _ARRAY:
    """The contents of a ``TensorProto``, whether they are in the model or beside it.

    Raises:
        BadInput: they are missing, of another size than the shape and type of the tensor, or outside of ``folder``.
    """
    dtype = _dtype_of(tensor)
    shape = tuple(int(size) for size in tensor.dims)
    if any(size < 0 for size in shape):
        raise BadInput("model", f"Weight {visible_line(tensor.name)} has a negative dimension: {shape}.", _AGAIN)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _unpacked(_external_bytes(tensor, _packed_bytes(tensor, count, dtype), folder), tensor, dtype)
    if tensor.HasField("raw_data"):
        content = tensor.raw_data  # each access copies
        _check_length(tensor, len(content), _packed_bytes(tensor, count, dtype), "bytes")
        return _unpacked(content, tensor, dtype)
    numbers = count * 2 if dtype.kind == "c" else count
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    found = sum(len(getattr(tensor, field)) for field in fields)
    _check_length(tensor, found, _packed_bytes(tensor, count, dtype) if _is_packed(tensor) else numbers, "numbers")
    return np.asarray(to_array(tensor)).reshape(shape)


def _unpacked(content: Any, tensor: Any, dtype: np.dtype[Any]) -> _ARRAY:
    if not _is_packed(tensor):
        return np.frombuffer(content, dtype).reshape(tuple(tensor.dims))
    raw = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=bytes(content))
    return np.asarray(to_array(raw)).reshape(tuple(tensor.dims))


def _is_packed(tensor: Any) -> bool:
    return TensorProto.DataType.Name(tensor.data_type) in _FOUR_BITS | _TWO_BITS


def _dtype_of(tensor: Any) -> np.dtype[Any]:
    name = visible_line(tensor.name)
    try:
        dtype: np.dtype[Any] = np.dtype(tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, TypeError, ValueError):
        raise BadInput("model", f"Weight {name} has the unknown type {tensor.data_type}.", _AGAIN) from None
    if tensor.data_type == TensorProto.STRING:
        raise BadInput("model", f"Weight {name} holds strings.", "Encode strings as numbers before the model.")
    return dtype


def _packed_bytes(tensor: Any, count: int, dtype: np.dtype[Any]) -> int:
    kind = TensorProto.DataType.Name(tensor.data_type)
    if kind in _FOUR_BITS:
        return (count + 1) // 2
    if kind in _TWO_BITS:
        return (count + 3) // 4
    return count * dtype.itemsize


def _check_length(tensor: Any, found: int, expected: int, unit: str) -> None:
    """ONNX's own conversion takes too long or too short contents for some types."""
    if found != expected:
        what = f"{visible_line(tensor.name)} of shape {tuple(tensor.dims)} and type {_dtype_of(tensor)}"
        raise BadInput("model", f"Weight {what} has {found} {unit} instead of {expected}.", _AGAIN)


def _external_bytes(tensor: Any, expected: int, folder: Path) -> npt.NDArray[np.uint8]:
    name = visible_line(tensor.name)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    offset = _position(entries.get("offset", "0"), f"offset of weight {name}")
    length = _position(entries.get("length", str(expected)), f"length of weight {name}")
    if length != expected:
        problem = f"The external data of weight {name} have {length} bytes; its shape and type take {expected}."
        raise BadInput("model", problem, _AGAIN)
    path = _inside(entries.get("location", ""), folder, name)
    with _open_regular(path, f"external data of weight {name}") as file:
        size = os.fstat(file.fileno()).st_size
        if offset + length > size:
            problem = f"The external data of weight {name} end at byte {offset + length}, but {path.name} has {size}."
            raise BadInput("model", visible_line(problem), "Copy the whole file into the folder of the model.")
        content = np.empty(length, np.uint8)  # numpy.fromfile reads in small pieces, which takes ten times as long
        rest = content.data
        file.seek(offset)
        while rest:
            count = file.readinto(rest)
            if not count:
                problem = f"{visible_line(path.name)} became shorter while it was read."
                raise BadInput("model", problem, "Wait until it is written.")
            rest = rest[count:]
        return content


def _position(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput("model", f"The {what} is not a byte count: {visible_line(text)}.", _AGAIN)
    return int(text)


def _inside(location: str, folder: Path, name: str) -> Path:
    """The file of a location, which is relative to the folder of the model and does not leave it."""
    parts = Path(location).parts
    if not parts or Path(location).is_absolute() or ".." in parts or "\\" in location or "\0" in location:
        raise _outside(location, name)
    root = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(root / location))
    if not path.is_relative_to(root):
        raise _outside(location, name)
    return path


def _outside(location: str, name: str) -> BadInput:
    problem = f"The external data of weight {name} lie outside of the model's folder: {visible_line(location)}."
    fix = "Save them beside the model: onnx.save(model, path, save_as_external_data=True, location='weights.bin')."
    return BadInput("model", problem, fix)


def _open_regular(path: Path, what: str) -> Any:
    """A regular file, open for reading: a pipe or a device would block the reader."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        problem = f"The {what} cannot be read: {visible_line(path.name)}: {error.strerror}."
        raise BadInput("model", problem, "Name a file that exists and is readable.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInput("model", f"The {what} is not a regular file: {visible_line(path.name)}.", "Name a file.")
    return os.fdopen(descriptor, "rb", buffering=0)
