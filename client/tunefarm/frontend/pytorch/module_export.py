"""Exports a torch module of the caller's process, for which it need not be importable from a file."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.dynamic_axes import DynamicAxis, symbolic_shapes
from tunefarm.frontend.pytorch.example_inputs import example_inputs_of
from tunefarm_schemas.bad_input import BadInput

_EXPORT_FIX: Final = "Make torch.export.export(module, example_inputs) work, or have it traced with torch.fx."
_EXPORT_FIXES: Final = MappingProxyType(
    {
        "is not a known type": "Return tensors, or tuples and dictionaries of them; have a decoder of the package "
        "transformers return no cache: model.config.use_cache = False.",
        "data-dependent": "Write conditions on values as torch.where or torch.cond, and let no size depend on values.",
    }
)
"""By what torch says."""


def export_module(model: Any, example_inputs: Any, axes: Sequence[DynamicAxis] = ()) -> Any:
    """Export a ``torch.nn.Module`` in evaluation mode; it and its parts keep their modes. ``axes`` have symbolic sizes.

    ``example_inputs`` are a tuple of arguments, a dictionary of keyword arguments, or one tensor.

    Raises:
        BadInput: there are no example inputs, or torch cannot export it.
    """
    if example_inputs is None:
        raise BadInput("example_inputs", "none were given.", "Give the module's arguments as a tuple of tensors.")
    examples = example_inputs_of(example_inputs)
    modes = [(each, each.training) for each in model.modules()]
    shapes = symbolic_shapes(model, examples, axes)
    try:
        evaluate(model)
        exported = exported_program(model, *examples, shapes=shapes)
    finally:
        for each, was_training in modes:
            each.training = was_training
    return _of_plain_tensors(exported)


def exported_program(
    module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None, *, shapes: Any = None
) -> Any:
    """The program that ``torch.export`` makes of a module.

    Raises:
        BadInput: torch cannot export it; what torch said is one line, without its stack and general advice.
    """
    import torch

    try:
        with torch.no_grad():  # buffers that the module writes would become part of the graph of gradients
            return torch.export.export(module, arguments, keywords, dynamic_shapes=shapes)
    except Exception as error:  # torch raises whatever it likes
        said = str(error)
        fix = next((fix for part, fix in _EXPORT_FIXES.items() if part in said), _EXPORT_FIX)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        reason = f"{type(error).__name__}: {lines[0][:300].rstrip('.') if lines else 'no message'}"
        raise BadInput(FIELD, f"torch.export cannot export the module: {reason}.", fix) from error


def evaluate(module: Any) -> None:
    """Put a module in evaluation mode. One that was exported before, as quantization gives it, keeps its mode."""
    with suppress(RuntimeError):
        module.eval()


def _of_plain_tensors(exported: Any) -> Any:
    """The program with the tensors that weights of quantized classes consist of, which files can hold."""
    import torch

    if all(type(each) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) for each in exported.state_dict.values()):
        return exported
    from tunefarm.frontend.pytorch.decomposition import decomposed

    return decomposed(exported)


def save_exported(exported: Any, path: Path) -> Path:
    """Write an exported program to a ``.pt2`` file; returns the path.

    Results in a structure that torch cannot write, such as those of ``topk``, are written as a tuple.
    """
    import torch
    from torch.utils import _pytree as pytree

    try:
        torch.export.save(exported, path)
    except RuntimeError:  # its subclass for what is not implemented
        signature = exported.module_call_graph[0].signature
        structure = signature.out_spec
        signature.out_spec = pytree.tree_structure((0,) * structure.num_leaves)
        try:
            torch.export.save(exported, path)
        finally:
            signature.out_spec = structure
    return path
