"""What torch computes for random inputs of a program, to compare a compiled model with."""

from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tunefarm.frontend.pytorch.program_translation import ENTRY, array_of
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array

COUNT: Final = 3
_LEAST: Final = 0.1
_TRUE: Final = 0.7
"""Share of truth values that are true."""


def references_of(program: ExportedProgram) -> tuple[ModelReference, ...]:
    """Results for three inputs, which are the same at each call; none if torch cannot run the program on them.

    Floats are normally distributed, and positive the last time, for models that take roots or logarithms of them.
    Integers do not exceed those of the example inputs, since they may be indices. Truth values are those of the example
    inputs, which may be a mask, the first time.
    """
    if program.example_inputs is None:
        return ()
    arguments, keywords = program.example_inputs
    try:
        with torch.no_grad():
            module = program.module()
            return tuple(_reference(module, arguments, keywords, seed) for seed in range(COUNT))
    except Exception:  # noqa: BLE001 - such as a guard of the program, or weights on a device that is not here
        return ()


def _reference(module: Any, arguments: Any, keywords: Any, seed: int) -> ModelReference:
    generator = torch.Generator().manual_seed(seed)
    given = pytree.tree_map(lambda leaf: _like(leaf, generator, seed), (arguments, dict(keywords)))
    inputs = _arrays(given)  # before the call, which may change them
    return ModelReference(ENTRY, inputs, _arrays(module(*given[0], **given[1])))


def _like(leaf: Any, generator: torch.Generator, seed: int) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0:
        return leaf
    if leaf.dtype == torch.bool:
        return leaf if seed == 0 else torch.rand(leaf.shape, generator=generator) < _TRUE
    if leaf.is_floating_point():
        normal = torch.randn(leaf.shape, generator=generator)
        return (normal if seed < COUNT - 1 else normal.abs() + _LEAST).to(leaf.dtype)
    if int(leaf.min()) < 0:
        return leaf
    return torch.randint(int(leaf.max()) + 1, leaf.shape, generator=generator, dtype=leaf.dtype)


def _arrays(tree: Any) -> tuple[Array, ...]:
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return tuple(array_of("a reference", leaf).copy() for leaf in leaves)
