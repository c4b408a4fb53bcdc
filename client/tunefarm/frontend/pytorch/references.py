"""What torch computes for random inputs of a program, to compare a compiled model with."""

from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tunefarm.frontend.pytorch.operators.nodes import HALVES
from tunefarm.frontend.pytorch.program_translation import ENTRY, array_of
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array

COUNT: Final = 3
_LEAST: Final = 0.1
_MAX_WIDENED: Final = 1 << 28
"""Elements of weights in halves: 1 GiB in float32."""
_TRUE: Final = 0.7
"""Share of truth values that are true."""


def references_of(program: ExportedProgram) -> tuple[ModelReference, ...]:
    """Results for three inputs, which are the same at each call; none if torch cannot run the program.

    They are for the example inputs alone if torch refuses others, such as boxes whose corners are in any order.
    Floats are normally distributed, and positive the last time, for models that take roots or logarithms of them.
    Integers do not exceed those of the example inputs, since they may be indices. Truth values are those of the example
    inputs, which may be a mask, the first time.
    """
    if program.example_inputs is None:
        return ()
    arguments, keywords = program.example_inputs
    try:
        with torch.no_grad():
            module, exact = program.module(), _Exact(program)
            try:
                return tuple(
                    _reference(module, exact, _alike((arguments, dict(keywords)), seed)) for seed in range(COUNT)
                )
            except Exception:  # noqa: BLE001 - such as an index out of bounds
                return (_reference(module, exact, (arguments, dict(keywords))),)
    except Exception:  # noqa: BLE001 - such as a guard of the program, or weights on a device that is not here
        return ()


def _alike(given: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return pytree.tree_map(lambda leaf: _like(leaf, generator, seed), given)


def _reference(module: Any, exact: "_Exact", given: Any) -> ModelReference:
    inputs, wide = _arrays(given), exact.inputs(given)  # before the call, which may change them
    outputs = module(*given[0], **given[1])
    return ModelReference(ENTRY, inputs, _arrays(outputs), exact.outputs(wide, outputs))


class _Exact:
    """A program in halves that is computed in float32."""

    def __init__(self, program: ExportedProgram) -> None:
        halves = sum(each.numel() for each in program.state_dict.values() if each.dtype in HALVES)
        self._is_needed = 0 < halves <= _MAX_WIDENED
        if self._is_needed:
            self._module = program.module(check_guards=False)  # they compare types
            self._tensors = _widened(dict((*self._module.named_parameters(), *self._module.named_buffers())))

    def inputs(self, given: Any) -> Any:
        """A copy of arguments and keywords."""
        return _widened(pytree.tree_map_only(torch.Tensor, torch.clone, given)) if self._is_needed else None

    def outputs(self, wide: Any, outputs: Any) -> tuple[Array, ...]:
        """The results for ``wide`` in the types of ``outputs``; none if it is not in halves, too large, or fails."""
        if not self._is_needed:
            return ()
        try:
            with _InFloat32():
                results = torch.func.functional_call(self._module, self._tensors, *wide)
        except Exception:  # noqa: BLE001 - such as an operator that takes halves alone
            return ()
        pairs = zip(_tensors(results), _tensors(outputs), strict=True)
        return _arrays([each.to(other.dtype) for each, other in pairs])


class _InFloat32(TorchDispatchMode):  # type: ignore[misc]
    """Operators that would return halves return float32."""

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*_widened(args), **_widened(kwargs or {}))


def _widened(tree: Any) -> Any:
    """Tensors and names of types that are halves, as float32."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.float() if leaf.dtype in HALVES else leaf
        return torch.float32 if isinstance(leaf, torch.dtype) and leaf in HALVES else leaf

    return pytree.tree_map(widen, tree)


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
    return tuple(array_of("a reference", leaf).copy() for leaf in _tensors(tree))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
