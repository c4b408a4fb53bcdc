"""Types, attributes and constants of MLIR as Python values."""

import re
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

DTYPES: Final = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip
"""TVM's name of each element type that both know."""
_ELIDED: Final = "Export the constants with their contents: print the module without eliding large ones."
PART_DTYPES: Final = DTYPES | {"complex<f32>": "float32", "complex<f64>": "float64"}
"""The same, and that of the parts of complex numbers."""


class Unconvertible(Exception):
    """One operator cannot be converted; the message is the advice, as a sentence."""


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a ranked tensor, whose sizes are all known."""
    return tuple(ir.RankedTensorType(value.type).shape)


def dtype_of(value: Any) -> str:
    """TVM's name of the element type of a tensor; of complex numbers, that of their parts.

    Raises:
        Unconvertible: TVM has no such type, for example of quantized numbers.
    """
    name = str(ir.RankedTensorType(value.type).element_type)
    if name not in PART_DTYPES:
        raise Unconvertible(f"Convert tensors of {name} to {', '.join(DTYPES)} before the export.")
    return PART_DTYPES[name]


def is_complex(value: Any) -> bool:
    """Whether a value is a tensor of complex numbers."""
    return isinstance(value.type, ir.RankedTensorType) and str(value.type.element_type).startswith("complex<")


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's type of TVM's name."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def integers(op: Any, name: str) -> tuple[int, ...]:
    """An attribute that is an array of integers; empty if the operator lacks it."""
    return tuple(int(each) for each in op.attributes[name]) if name in op.attributes else ()


def integer(op: Any, name: str) -> int:
    """An attribute that is one integer."""
    return int(ir.IntegerAttr(op.attributes[name]).value)


def text(op: Any, name: str) -> str:
    """An attribute that is a string or the name of a function; empty if the operator lacks it."""
    return str(op.attributes[name].value) if name in op.attributes else ""


def pairs(op: Any, name: str, count: int) -> tuple[tuple[int, int], ...]:
    """An attribute of ``count`` pairs, such as padding; pairs of zeros if the operator lacks it."""
    if name not in op.attributes:
        return ((0, 0),) * count
    return tuple((int(low), int(high)) for low, high in np.array(op.attributes[name]).reshape(count, 2))


def contents(op: Any) -> npt.NDArray[np.generic]:
    """The value of a ``stablehlo.constant``; complex numbers as complex ones.

    Raises:
        Unconvertible: of an element type that TVM lacks, or elided in the text.
    """
    dtype, shape = numpy_dtype(dtype_of(op.result)), shape_of(op.result)
    if is_complex(op.result):
        return _filled(_printed(op, dtype).view(f"c{2 * dtype.itemsize}"), shape)
    attribute = op.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr):  # dense_resource<__elided__>
        raise Unconvertible(_ELIDED)
    if dtype == ml_dtypes.bfloat16:
        return _filled(_printed(op, dtype), shape)
    return np.array(attribute, dtype).reshape(shape)


def _filled(numbers: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """One number stands for all."""
    return np.array(np.broadcast_to(numbers.reshape(shape if numbers.size != 1 else ()), shape))


def _printed(op: Any, dtype: np.dtype[Any]) -> npt.NDArray[np.generic]:
    """What MLIR prints of a constant whose bytes the bindings do not give: numbers, or their bytes in hexadecimal."""
    found = re.search(r" dense<(.*)> : tensor<", op.operation.get_asm(), re.DOTALL)
    if found is None:
        raise Unconvertible(_ELIDED)
    body = found[1]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
    return np.array([_number(each, dtype) for each in re.split(r"[\s,()\[\]]+", body) if each], dtype)


def _number(printed: str, dtype: np.dtype[Any]) -> Any:
    """A number as MLIR prints it: what has no decimal form is printed as its bits."""
    if printed.startswith("0x"):
        return np.array(int(printed, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return dtype.type(float(printed))


def node_name(op: Any) -> str:
    """Where an operator stands: its name in the program that was traced if the file has it, else its result."""
    location = op.location
    if location.is_a_name() if hasattr(location, "is_a_name") else str(location).startswith('loc("'):
        name = str(location).removeprefix('loc("').split('"')[0]
        if name not in {"-", ""}:
            return name
    return str(op.results[0].get_name()) if len(op.results) else "the end of a block"


def operand_types(op: Any) -> str:
    """The types of the operands of an operator, for messages."""
    return ", ".join(str(each.type).removeprefix("tensor<").removesuffix(">") for each in op.operands)
