"""Compiled models for torch: modules in, callables on torch tensors out."""

import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunefarm.artifact.aligned_memory import ALIGNMENT_BYTES
from tunefarm.model.sizes.wanted_buckets import MAX_BUCKETS, WantedBuckets, named_sizes, size_range
from tunefarm_schemas.bad_input import BadInput

if TYPE_CHECKING:
    from tunefarm.intake.tvm_objects import TargetLike
    from tunefarm.model.loaded_model import CompiledModel


class TorchCallable:
    """A compiled model that takes and gives torch tensors, without copies of aligned contiguous ones.

    Calls of several threads run one after another. It has its own copy of buffers that the module changes, and changes
    inputs that the module changes.
    """

    def __init__(self, compiled: "CompiledModel", exported: Any) -> None:
        """Used by ``compile``. ``exported`` is the program of torch that was compiled."""
        import torch
        from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
        from torch.utils import _pytree as pytree

        self.compiled = compiled
        self._entry = compiled.entry()
        signature, call = exported.graph_signature, exported.call_spec
        self._arguments, self._result = call.in_spec, call.out_spec
        self._given = [each.arg for each in signature.input_specs if each.kind == InputKind.USER_INPUT]
        self._returned = [each.arg for each in signature.output_specs if each.kind == OutputKind.USER_OUTPUT]
        self._is_given = [isinstance(each, TensorArgument) for each in self._given]  # rather than a constant
        self._is_returned = [isinstance(each, TensorArgument) for each in self._returned]
        self._types = [getattr(torch, each.dtype) for each in self._entry.inputs]
        call_signature = exported.module_call_graph[0].signature
        self._names = list(call_signature.forward_arg_names or () if call_signature else ())
        self._positions = len(self._names) - len(exported.example_inputs[1])
        plain = pytree.tree_structure(((0,) * len(self._given), {}))
        self._takes_tensors = all(self._is_given) and self._arguments == plain
        self._strided = torch.strided
        self._lock = threading.Lock()
        self._initial: dict[str, Any] = {}
        self._changed: list[int] = []
        if len(self._entry.outputs) > sum(self._is_returned):
            self._find_state(exported)
        self.reset()

    def _find_state(self, exported: Any) -> None:
        """What the module changes, which costs the decomposition of the program."""
        from tunefarm.frontend.pytorch.decomposition import decomposed
        from tunefarm.frontend.pytorch.model_state import state_of
        from tunefarm.frontend.pytorch.weights import contents_of

        state = state_of(decomposed(exported))
        self._initial = {name: contents_of(exported, name).detach().clone() for name in state.buffers.values()}
        tensors = [each.name for each, is_tensor in zip(self._given, self._is_given, strict=True) if is_tensor]
        self._changed = [tensors.index(name) for name in state.inputs]

    @property
    def buffers(self) -> dict[str, Any]:
        """The buffers that the module changes, by torch's names, as the last call left them. The next changes them."""
        return dict(self._buffers)

    def reset(self) -> None:
        """Give the buffers the contents that they had at the export."""
        with self._lock:
            self._buffers = {name: tensor.clone() for name, tensor in self._initial.items()}

    def __repr__(self) -> str:
        """One line with the inputs."""
        return repr(self.compiled).replace("CompiledModel", "TorchCallable", 1)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the model; inputs are those of the module, and the result has the nesting of the module's.

        Raises:
            BadInput: inputs are missing, or have another structure, shape or type than those of the export.
        """
        from torch.utils import _pytree as pytree

        given = self._tensors_of(inputs, named)
        dispatch = self.compiled.dispatch
        for expected, dtype, tensor in zip(self._entry.inputs, self._types, given, strict=False):  # buffers follow
            if tensor.dtype != dtype or (dispatch is None and tensor.shape != expected.shape):
                kind = str(tensor.dtype).removeprefix("torch.")
                problem = f"{expected.name} is {kind}{list(tensor.shape)}."
                raise BadInput("inputs", problem, f"Give {expected.dtype}{list(expected.shape)}.")
            if not tensor.is_cpu or tensor.layout != self._strided:
                layout = str(tensor.layout).removeprefix("torch.")
                problem = f"{expected.name} is a {layout} tensor on the device {tensor.device}."
                raise BadInput("inputs", problem, "Give dense tensors on the CPU: tensor.to_dense() and tensor.cpu().")
        tensors = [each.detach() if each.requires_grad else each for each in given]
        results = iter(self._results_of(tensors))
        returned = zip(self._returned, self._is_returned, strict=True)
        outputs = [next(results) if is_tensor else each.value for each, is_tensor in returned]
        return pytree.tree_unflatten(outputs, self._result)

    def _results_of(self, tensors: list[Any]) -> list[Any]:
        """The tensors that the module returns; buffers and inputs that it changes have their new values."""
        with self._lock:
            dispatch, given = self.compiled.dispatch, [*tensors, *self._buffers.values()]
            if dispatch is None:
                leaves = self._run(self._entry.name, given)
            else:
                leaves = dispatch.serve(given, TorchOperations(), self._run)
            count = len(leaves) - len(self._buffers) - len(self._changed)
            changed = iter(leaves[count:])
            self._buffers = dict(zip(self._buffers, changed, strict=False))
            for position, value in zip(self._changed, changed, strict=True):
                if value is not tensors[position]:  # else it was updated in place
                    tensors[position].copy_(value)
            return leaves[:count]

    def _bound(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as they were at the export: by position, or by name.

        Raises:
            BadInput: one is missing or unknown.
        """
        given = {**dict(zip(self._names[: self._positions], inputs, strict=False)), **named}
        if given.keys() != set(self._names) or len(inputs) + len(named) != len(self._names):
            problem = f"{len(inputs)} inputs" + (f" and {', '.join(sorted(named))}" if named else "") + " were given."
            by_name = self._names[self._positions :]
            fix = f"Give {', '.join(self._names)}" + (f"; by name {', '.join(by_name)}." if by_name else ".")
            raise BadInput("inputs", problem, fix)
        arguments, by_name = self._names[: self._positions], self._names[self._positions :]
        return tuple(given[name] for name in arguments), {name: given[name] for name in by_name}

    def _tensors_of(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """The tensors among the arguments, in the order of the export."""
        import torch
        from torch.utils import _pytree as pytree

        is_plain = self._takes_tensors and len(inputs) == len(self._given) and not named
        if is_plain and all(isinstance(each, torch.Tensor) for each in inputs):
            return list(inputs)
        if named or self._positions < len(self._names):
            inputs, named = self._bound(inputs, named)
        leaves = pytree.tree_leaves((inputs, named))
        with suppress(ValueError):  # lists for tuples, and the like, have the same leaves in the same order
            leaves = self._arguments.flatten_up_to((inputs, named))
        kinds = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        if kinds != self._is_given:
            problem = f"{sum(kinds)} tensors were given, in another structure than at the export."
            fix = f"Give {sum(self._is_given)} as in the example: {self.compiled!r}."
            raise BadInput("inputs", problem, fix)
        tensors = []
        for leaf, argument, is_tensor in zip(leaves, self._given, kinds, strict=True):
            if is_tensor:
                tensors.append(leaf)
            elif leaf != getattr(argument, "value", leaf):
                problem = f"{argument.name} is {leaf!r}, and was {argument.value!r} at the export."
                raise BadInput("inputs", problem, "Give the same; compile the module again for another one.")
        return tensors

    def _run(self, entry: str, tensors: list[Any]) -> list[Any]:
        """The tensors of the result of one entry; those that were updated in place are the given ones."""
        import torch
        import tvm

        plain = [each.contiguous() for each in tensors]
        plain = [each if each.data_ptr() % ALIGNMENT_BYTES == 0 else each.clone() for each in plain]
        given = [tvm.runtime.from_dlpack(each) for each in plain]
        known = {each.data_ptr(): tensor for each, tensor in zip(given, plain, strict=True)}
        results = ((known.get(each.data_ptr()), each) for each in self.compiled.run_owned(entry, given))
        return [torch.from_dlpack(each) if tensor is None else tensor for tensor, each in results]


class TorchOperations:
    """What dispatch by size needs of torch's tensors."""

    def type_of(self, tensor: Any) -> tuple[str, tuple[int, ...]]:
        """The element type and the shape."""
        return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)

    def padded(self, tensor: Any, shape: tuple[int, ...], value: float | None) -> Any:
        """A larger tensor of ``shape`` with ``tensor`` at its beginning."""
        larger = tensor.new_full(shape, value or 0)
        larger[tuple(slice(extent) for extent in tensor.shape)] = tensor
        return larger

    def narrowed(self, tensor: Any, axis: int, start: int, end: int) -> Any:
        """A part of ``tensor``, as a view."""
        return tensor.narrow(axis, start, end - start)

    def joined(self, tensors: Sequence[Any], axis: int) -> Any:
        """Tensors one after the other."""
        import torch

        return torch.cat(list(tensors), axis)


def compile(  # noqa: A001 - it is reached as tunefarm.torch.compile
    model: Any,
    example_inputs: Any,
    target: "TargetLike" = None,
    *,
    dynamic: Mapping[str, Mapping[int, Any]] | None = None,
    pad: Mapping[str, float] | None = None,
    max_buckets: int = MAX_BUCKETS,
    exact_buckets: bool = False,
    **options: Any,
) -> TorchCallable:
    """Compile a torch module without measuring anything; ``options`` are those of ``tunefarm.compile``.

    Args:
        model: a ``torch.nn.Module``; it is exported in evaluation mode, and keeps its own.
        example_inputs: its arguments, as tensors of the shapes that it is compiled for: a tuple, one tensor, or a
            dictionary of keyword arguments, which calls then give by name, too.
        target: as for ``tunefarm.compile``.
        dynamic: axes whose size is known at a call, by the name of the argument of ``forward``: the sizes of buckets as
            a list, or the smallest and the largest size as a tuple, or as a ``torch.export.Dim`` with bounds. Axes with
            equal values are one dimension. ``{"x": {0: (1, 32)}}`` permits up to 32 rows, and sizes are chosen.
        pad: what inputs are padded with, by name; zero for others.
        max_buckets: the most sizes that are chosen for a range.
        exact_buckets: serve exactly the sizes of ``dynamic``, without padding. So one callable, with one state, serves
            pieces of a prompt and single tokens.
        options: further arguments of ``tunefarm.compile``.

    Raises:
        BadInput: the module cannot be exported or compiled, or its results depend on the padding.
    """
    from tunefarm.compiler import compile_model
    from tunefarm.frontend.pytorch.dynamic_axes import dynamic_axes, sized_examples
    from tunefarm.frontend.pytorch.example_inputs import example_inputs_of
    from tunefarm.frontend.pytorch.module_export import export_module, save_exported

    axes, examples = dynamic_axes(dynamic or {}), example_inputs_of(example_inputs)
    dimensions = tuple(
        named_sizes(each.places, each.sizes) if each.sizes else size_range(each.places, each.low, each.high)
        for each in axes
    )
    if dimensions:
        wanted = WantedBuckets(
            dimensions=dimensions, padding=pad or {}, max_buckets=max_buckets, is_exact=exact_buckets
        )
        wanted.require_usable()
        options["buckets"] = wanted
        examples = sized_examples(model, examples, axes)
    elif pad or exact_buckets:
        field = "pad" if pad else "exact_buckets"
        raise BadInput(field, "no axis is dynamic.", "Give dynamic={NAME: {AXIS: SIZES}}.")
    exported = export_module(model, examples, axes)
    with tempfile.TemporaryDirectory(prefix="tunefarm-torch-") as folder:
        path = save_exported(exported, Path(folder) / f"{type(model).__name__}.pt2")
        compiled = compile_model(path, None, target, update_in_place=True, **options)
    return TorchCallable(compiled, exported)
