"""Exports a torch module of the caller's process, for which it need not be importable from a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunefarm.frontend.pytorch.dynamic_axes import DynamicAxis, symbolic_shapes
from tunefarm_schemas.bad_input import BadInput


def export_module(model: Any, example_inputs: Sequence[Any] | None, axes: Sequence[DynamicAxis] = ()) -> Any:
    """Export a ``torch.nn.Module`` in evaluation mode; it and its parts keep their modes. ``axes`` have symbolic sizes.

    Raises:
        BadInput: there are no example inputs, or torch cannot export it.
    """
    import torch

    if example_inputs is None:
        raise BadInput("example_inputs", "none were given.", "Give the module's arguments as a tuple of tensors.")
    modes = [(each, each.training) for each in model.modules()]
    try:
        return torch.export.export(
            model.eval(), tuple(example_inputs), dynamic_shapes=symbolic_shapes(model, len(example_inputs), axes)
        )
    except Exception as error:  # torch raises whatever it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        fix = "Export it with torch.export.export, and change what that names."
        raise BadInput("model", f"torch cannot export it: {reason}.", fix) from error
    finally:
        for each, was_training in modes:
            each.training = was_training


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
