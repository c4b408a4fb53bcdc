"""What torch computes for random inputs of a program, to compare a compiled model with."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tunefarm.frontend.pytorch.model_state import ModelState
from tunefarm.frontend.pytorch.operators.nodes import HALVES
from tunefarm.frontend.pytorch.program_translation import ENTRY
from tunefarm.frontend.pytorch.weights import array_of, contents_of
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array

COUNT: Final = 3
_LEAST: Final = 0.1
_MAX_WIDENED: Final = 1 << 28
"""Elements of weights in halves: 1 GiB in float32."""
_TRUE: Final = 0.7
"""Share of truth values that are true."""


def references_of(program: ExportedProgram, state: ModelState) -> tuple[ModelReference, ...]:
    """Results for three inputs, which are the same at each call; none if torch cannot run the program.

    They are for the example inputs alone if torch refuses others, such as boxes whose corners are in any order.
    Floats are normally distributed, and positive the last time, for models that take roots or logarithms of them.
    Integers do not exceed those of the example inputs, since they may be indices. Truth values are those of the example
    inputs, which may be a mask, the first time. The buffers of ``state`` are inputs and results.
    """
    if program.example_inputs is None:
        return ()
    arguments, keywords = program.example_inputs
    try:
        with torch.no_grad():
            buffers = {buffer: contents_of(program, buffer) for buffer in state.buffers.values()}
            examples = _Inputs(arguments, dict(keywords), buffers)
            function = _TorchFunction(program, state)
            module, exact = program.module(), _Exact(program, function)

            def reference(given: _Inputs) -> ModelReference:
                outputs = function.outputs(module, {}, _mapped(_copy, given))
                return ModelReference(ENTRY, _arrays(tuple(given)), _arrays(outputs), exact.outputs(given, outputs))

            return _for_inputs_like(examples, reference)
    except Exception:  # noqa: BLE001 - such as a guard of the program, or weights on a device that is not here
        return ()


def references_of_trace(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[ModelReference, ...]:
    """Results of a trace for inputs as those of ``references_of``."""

    def reference(given: _Inputs) -> ModelReference:
        return ModelReference(ENTRY, _arrays(given.arguments), _arrays(module(*_mapped(_copy, given).arguments)))

    try:
        with torch.no_grad():
            return _for_inputs_like(_Inputs(inputs, {}, {}), reference)
    except Exception:  # noqa: BLE001 - such as weights on a device that is not here
        return ()


def _for_inputs_like(
    examples: "_Inputs", reference: Callable[["_Inputs"], ModelReference]
) -> tuple[ModelReference, ...]:
    try:
        return tuple(reference(_alike(examples, seed)) for seed in range(COUNT))
    except Exception:  # noqa: BLE001 - such as an index out of bounds
        return (reference(examples),)


class _Inputs(NamedTuple):
    """The arguments of a program, and the contents of the buffers that it changes by torch's names."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    buffers: dict[str, torch.Tensor]


def _alike(examples: _Inputs, seed: int) -> _Inputs:
    generator = torch.Generator().manual_seed(seed)
    return _mapped(lambda leaf: _like(leaf, generator, seed), examples)


def _mapped(function: Callable[[Any], Any], inputs: _Inputs) -> _Inputs:
    return _Inputs(*pytree.tree_map(function, tuple(inputs)))


class _TorchFunction:
    """The function of a program, as torch computes it."""

    def __init__(self, program: ExportedProgram, state: ModelState) -> None:
        self._names = [str(each) for each in program.graph_signature.user_inputs]
        self._changed = state.inputs

    def outputs(self, module: Any, tensors: dict[str, torch.Tensor], inputs: _Inputs) -> list[torch.Tensor]:
        """What ``module`` returns with ``tensors`` in place of its own, and what it changed of ``inputs``, in place."""
        tensors = {**tensors, **inputs.buffers}
        found = torch.func.functional_call(module, tensors, inputs.arguments, inputs.keywords)
        named = dict(zip(self._names, pytree.tree_leaves((inputs.arguments, inputs.keywords)), strict=False))
        return [*_tensors(found), *inputs.buffers.values(), *(named[each] for each in self._changed)]


class _Exact:
    """A program in halves that is computed in float32."""

    def __init__(self, program: ExportedProgram, function: _TorchFunction) -> None:
        self._function = function
        halves = sum(each.numel() for each in program.state_dict.values() if each.dtype in HALVES)
        self._is_needed = 0 < halves <= _MAX_WIDENED
        if self._is_needed:
            self._module = program.module(check_guards=False)  # they compare types
            self._tensors = _widened(dict((*self._module.named_parameters(), *self._module.named_buffers())))

    def outputs(self, given: _Inputs, outputs: list[torch.Tensor]) -> tuple[Array, ...]:
        """The results for ``given`` in the types of ``outputs``; none if it is not in halves, too large, or fails."""
        if not self._is_needed:
            return ()
        try:
            with _InFloat32():
                found = self._function.outputs(self._module, self._tensors, _mapped(_widened, _mapped(_copy, given)))
        except Exception:  # noqa: BLE001 - such as an operator that takes halves alone
            return ()
        return _arrays([each.to(other.dtype) for each, other in zip(found, outputs, strict=True)])


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


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


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
