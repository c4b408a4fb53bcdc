"""Decomposes exported programs into operators that have converters, without operators in place."""

import warnings
from typing import Any, Final

import torch
from torch.export import ExportedProgram

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.operators.linear_algebra import WHOLE
from tunefarm.frontend.pytorch.operators.recurrent import KEPT
from tunefarm.frontend.pytorch.weights import contents_of, memory_of
from tunefarm_schemas.bad_input import BadInput

_CHANGED_CONSTANT: Final = "is mutated in the forward method"
"""What torch says of a tensor that is an attribute of a module, but not a buffer."""


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program in core operators of torch, less those that have a converter.

    Where a module writes a buffer under another name as well, such as a cache that a list of layers holds, ``program``
    is changed to write the buffer.

    Raises:
        BadInput: it changes a tensor that is not a buffer.
    """
    _write_buffers(program)
    table: dict[Any, Any] = dict(torch.export.default_decompositions())
    for operator in (*KEPT, *WHOLE):
        table.pop(operator, None)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch copies what it deprecates
            return program.run_decompositions(table)
    except RuntimeError as error:
        if _CHANGED_CONSTANT not in str(error):
            raise
        problem = f"it changes a tensor that is not a buffer: {str(error).partition('. ')[0]}."
        raise BadInput(FIELD, problem, "Call register_buffer for each tensor that forward changes.") from error


def _write_buffers(program: ExportedProgram) -> None:
    """Use buffers in place of constants of the same memory: torch cannot decompose what writes one of them."""
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    buffers = {_memory(contents_of(program, buffer)): name for name, buffer in signature.inputs_to_buffers.items()}
    for name, constant in signature.inputs_to_lifted_tensor_constants.items():
        memory = _memory(program.constants[constant])
        if memory is not None and memory in buffers:
            nodes[name].replace_all_uses_with(nodes[buffers[memory]])
            program.constants[constant] = program.constants[constant].clone()


def _memory(tensor: Any) -> tuple[Any, ...] | None:
    """None for what has no elements in memory, such as a sparse tensor."""
    try:
        return memory_of(tensor) if tensor.numel() else None
    except (AttributeError, RuntimeError):
        return None
