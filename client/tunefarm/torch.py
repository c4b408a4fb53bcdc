"""Compiled models for torch: modules in, callables on torch tensors out."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tunefarm_schemas.bad_input import BadInput

if TYPE_CHECKING:
    from tunefarm.intake.tvm_objects import TargetLike
    from tunefarm.model.loaded_model import CompiledModel

_ALIGNMENT_BYTES: Final = 64


class TorchCallable:
    """A compiled model that takes and gives torch tensors, without copies of aligned contiguous ones."""

    def __init__(self, compiled: "CompiledModel", result: Any) -> None:
        """Used by ``compile``. ``result`` is torch's description of the module's nested result."""
        self.compiled = compiled
        self._result = result
        self._entry = compiled.entry()

    def __repr__(self) -> str:
        """One line with the inputs."""
        return repr(self.compiled).replace("CompiledModel", "TorchCallable", 1)

    def __call__(self, *inputs: Any) -> Any:
        """Run the model; the result has the nesting of the module's.

        Raises:
            BadInput: inputs are missing, or have another shape or type.
        """
        import torch
        import tvm
        from torch.utils import _pytree as pytree

        given = pytree.tree_leaves(inputs)
        if len(given) != len(self._entry.inputs):
            problem = f"{len(given)} tensors were given."
            raise BadInput("inputs", problem, f"Give {len(self._entry.inputs)}: {self.compiled!r}.")
        tensors = []
        for expected, tensor in zip(self._entry.inputs, given, strict=True):
            kind = str(tensor.dtype).removeprefix("torch.")
            if tuple(tensor.shape) != expected.shape or kind != expected.dtype:
                problem = f"{expected.name} is {kind}{list(tensor.shape)}."
                raise BadInput("inputs", problem, f"Give {expected.dtype}{list(expected.shape)}.")
            plain = tensor.detach().contiguous()
            plain = plain if plain.data_ptr() % _ALIGNMENT_BYTES == 0 else plain.clone()
            tensors.append(tvm.runtime.from_dlpack(plain))
        found = self.compiled.run_tensors(self._entry.name, tensors)
        leaves = [torch.from_dlpack(each) for each in _leaves(found)]
        return pytree.tree_unflatten(leaves, self._result)


def compile(  # noqa: A001 - it is reached as tunefarm.torch.compile
    model: Any, example_inputs: Sequence[Any], target: "TargetLike" = None, **options: Any
) -> TorchCallable:
    """Compile a torch module without measuring anything; ``options`` are those of ``tunefarm.compile``.

    Args:
        model: a ``torch.nn.Module``; it is exported in evaluation mode, and keeps its own.
        example_inputs: its positional arguments, as tensors of the shapes that it is compiled for.
        target: as for ``tunefarm.compile``.
        options: further arguments of ``tunefarm.compile``.

    Raises:
        BadInput: the module cannot be exported or compiled.
    """
    from tunefarm.compiler import compile_model
    from tunefarm.frontend.pytorch.module_export import export_module, save_exported

    exported = export_module(model, example_inputs)
    with tempfile.TemporaryDirectory(prefix="tunefarm-torch-") as folder:
        path = save_exported(exported, Path(folder) / f"{type(model).__name__}.pt2")
        compiled = compile_model(path, None, target, **options)
    return TorchCallable(compiled, exported.call_spec.out_spec)


def _leaves(result: Any) -> list[Any]:
    import tvm

    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [leaf for each in result for leaf in _leaves(each)]
