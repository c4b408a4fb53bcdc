"""The contents of a program's parameters, buffers and constants."""

from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.weights_file import Array
from tunefarm_schemas.bad_input import BadInput

_BITS: Final = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
}


def contents_of(program: ExportedProgram, name: str) -> Any:
    """The parameter, buffer or constant of this name; None if there is none."""
    found = program.state_dict.get(name)
    return program.constants.get(name) if found is None else found


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Equal for tensors that are the same elements in memory."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def weight_of(program: ExportedProgram, specification: Any) -> torch.Tensor:
    """The contents of an input that is not the user's.

    Raises:
        BadInput: it is no tensor, has no contents, or is sparse or quantized.
    """
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    if specification.kind not in kinds:
        problem = f"it has {specification.target}, a constant of the kind {specification.kind.name}."
        raise BadInput(FIELD, problem, "Use tensors only.")
    tensor = contents_of(program, specification.target)
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        fix = "Load the weights before the export; a model on the device meta has none."
        raise BadInput(FIELD, f"the weight {specification.target} has no contents.", fix)
    if tensor.layout != torch.strided or tensor.is_quantized:
        fix = "Convert it with to_dense() or dequantize(), or quantize with torch.export's quantization (PT2E)."
        raise BadInput(FIELD, f"the weight {specification.target} is a sparse or quantized tensor.", fix)
    return tensor


def shared_array(name: str, tensor: torch.Tensor, shared: dict[tuple[Any, ...], Array]) -> Array:
    """The contents as an array; one array in ``shared`` for all weights that are the same memory."""
    key = memory_of(tensor)
    if tensor.numel() == 0 or key not in shared:
        shared[key] = array_of(name, tensor)
    return shared[key]


def array_of(name: str, tensor: torch.Tensor) -> Array:
    """The contents of a tensor.

    Raises:
        BadInput: numpy has no such element type.
    """
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    try:
        if plain.dtype in _BITS:
            bits, kind = _BITS[plain.dtype]
            return np.asarray(plain.view(bits).numpy().view(kind))
        return np.asarray(plain.numpy())
    except TypeError as error:
        raise BadInput(FIELD, f"the weight {name} has the element type {plain.dtype}.", "Use another one.") from error
