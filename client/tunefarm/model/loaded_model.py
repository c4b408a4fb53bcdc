"""Loads a compiled model into this process and calls it."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm.artifact.kernel_loading import use_recorded_threads
from tunefarm.artifact.shared_memory import array_of, element_type, has_view, tensor_of, usable_array
from tunefarm.frontend.weights_file import DamagedWeights, WeightMemory, have_huge_pages, read_weights
from tunefarm.model.array_inputs import ArrayInputs, signature_of
from tunefarm.model.library.region_opening import opened_regions
from tunefarm.model.model_folder import ModelFiles, read_model_folder
from tunefarm.model.sizes.numpy_arrays import NumpyOperations, leaves_of, nested_like
from tunefarm.model.sizes.size_dispatch import SizeDispatch
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.program import RELEASE_FUNCTION, in_place_name
from tunefarm_schemas.tuning.model import ModelEntry, ModelManifest
from tunefarm_schemas.tuning.workload import TensorArgument

Array = npt.NDArray[np.generic]
_LARGE_BYTES: Final = 1 << 14
"""Results from which on it pays to have TVM's VM release them after each call, which takes 0.3 us: if the caller drops
one, the next one gets its memory, which is still in the cache. Otherwise two buffers alternate.
"""


class OwnedResults:
    """Copies the results of one function that are memory of an input, of the model or of another result.

    TVM allocates the other results in each call, so that they are the caller's. All results of the first call are
    copied, and held until the second one: what returns the same memory then is the model's. Results that are memory of
    an input which the function updates are left.
    """

    def __init__(self, weights: Sequence[Any], updated: Sequence[int] = ()) -> None:
        """``weights`` are TVM's tensors that each call gets, ``updated`` the positions of updated inputs."""
        self._weights = frozenset(each.data_ptr() for each in weights)
        self._updated = updated
        self._first: list[Any] = []
        self._kept: frozenset[int] | None = None  # numbers of the results that are memory of the model

    def of(self, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """The results of a call, in order; all are tensors of TVM."""
        if self._kept is None and self._first:
            addresses = [each.data_ptr() for each in self._first]
            self._kept = frozenset(n for n, each in enumerate(results) if each.data_ptr() == addresses[n])
            self._first = []
        updated = {inputs[position].data_ptr() for position in self._updated}
        seen = {each.data_ptr() for each in inputs} - updated
        owned = []
        for number, each in enumerate(results):
            address = each.data_ptr()
            is_shared = self._kept is None or number in self._kept or address in seen or address in self._weights
            owned.append(each.copyto(each.device) if is_shared and address not in updated else each)
            updated.discard(address)
            seen.add(address)
        if self._kept is None:
            self._first = results
        return owned


class CompiledModel:
    """A compiled model in this process. Not for several threads at once."""

    def __init__(
        self,
        manifest: ModelManifest,
        machine: Any,
        kernels: Any,
        weights: Mapping[str, Sequence[Any]],
        folder: Path,
        *,
        update_in_place: bool,
    ) -> None:
        """Used by ``load_model``.

        ``machine`` is TVM's VM, ``kernels`` its library; ``weights`` are its tensors for each entry.
        """
        self.manifest = manifest
        self.folder = folder
        self._machine = machine
        self._kernels = kernels
        self._weights = weights
        self._entries = {entry.name: entry for entry in manifest.entries}
        self._updated = dict.fromkeys(self._entries, ()) | (_updated_positions(manifest) if update_in_place else {})
        # The VM makes a function each time that it is asked for one.
        self._functions = {
            name: machine[in_place_name(name) if self._updated[name] else name] for name in self._entries
        }
        self._release = None
        has_large_result = any(sum(_sizes_bytes(each.outputs)) >= _LARGE_BYTES for each in manifest.entries)
        # Models of earlier versions have no such function.
        if has_large_result and machine.module.implements_function(RELEASE_FUNCTION):
            self._release = machine[RELEASE_FUNCTION]
        self._results = {name: OwnedResults(weights[name], self._updated[name]) for name in self._entries}
        self._arrays = {each.name: ArrayInputs(each, self._updated[each.name]) for each in manifest.entries}
        self._types = {each.name: [element_type(output.dtype) for output in each.outputs] for each in manifest.entries}
        self._input_bytes = {each.name: _sizes_bytes(each.inputs) for each in manifest.entries}
        self._dispatch = None if manifest.dynamic is None else SizeDispatch(manifest, manifest.dynamic)

    def __repr__(self) -> str:
        """One line with the entries and their inputs."""
        entries = ", ".join(signature_of(entry) for entry in self.manifest.entries)
        return f"CompiledModel({self.manifest.name}: {entries})"

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(self._entries)

    def entry(self, name: str | None = None) -> ModelEntry:
        """The inputs and outputs of a function. ``name`` may be omitted if there is one, or one called main.

        Of a model with dynamic dimensions, it is the function of the largest sizes.

        Raises:
            BadInput: there is no such function.
        """
        if name is None and self._dispatch is not None:
            return self._dispatch.largest
        if name is None and len(self._entries) == 1:
            return next(iter(self._entries.values()))
        found = self._entries.get(name or "main")
        if found is None:
            problem = "the model has several functions." if name is None else f"the model has no function {name!r}."
            raise BadInput("entry", problem, f"Give one of: {', '.join(self._entries)}.")
        return found

    def __call__(self, *inputs: Any, entry: str | None = None, **named: Any) -> Any:
        """Run a function of the model on NumPy arrays, by position or by the names of its inputs.

        Returns an array, or a tuple of the same nesting as the model's result. Inputs of a model with dynamic
        dimensions have any sizes that it serves; ``entry`` runs the function of one bucket.

        Raises:
            BadInput: inputs are missing, or have another shape or type, or sizes that the model does not serve.
        """
        chosen = self.entry(entry)
        arrays = self._arrays[chosen.name].in_order(inputs, named)
        if entry is None and self._dispatch is not None:
            return self._served(self._dispatch, arrays)
        return self._run(chosen, arrays)

    @property
    def dispatch(self) -> SizeDispatch | None:
        """What serves sizes that are known at a call; None if shapes are constant."""
        return self._dispatch

    def _served(self, dispatch: SizeDispatch, given: Sequence[Any]) -> Any:
        nestings: list[Any] = []

        def run(entry: str, arrays: list[Array]) -> list[Array]:
            nestings.append(self._run(self.entry(entry), arrays))
            return leaves_of(nestings[-1])

        outputs = dispatch.serve([np.asarray(each) for each in given], NumpyOperations(), run)
        return nested_like(nestings[-1], iter(outputs))

    def _run(self, chosen: ModelEntry, arrays: Sequence[Any]) -> Any:
        usable, tensors = self._arrays[chosen.name].passed(arrays)
        result, owned = self._owned(chosen.name, tensors)
        # Arrays on arrays, one more for each call, would never be released.
        updated = {tensors[at].data_ptr(): usable[at] for at in self._updated[chosen.name] if has_view(usable[at])}
        given = [updated.get(each.data_ptr()) if updated else None for each in owned]
        results = zip(owned, self._types[chosen.name], given, strict=True)
        outputs = (array_of(each, dtype) if array is None else array for each, dtype, array in results)
        return nested_like(result, outputs)

    def run_owned(self, entry: str, tensors: Sequence[Any]) -> list[Any]:
        """As ``run_tensors``; returns the tensors of the result, out of their nesting, with memory of their own.

        Those in the place of updated inputs may have the memory of these.
        """
        return self._owned(entry, tensors)[1]

    def _owned(self, entry: str, tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The result, a tensor or nested tuples, and its tensors with memory of their own or of updated inputs."""
        if self._updated[entry]:
            tensors = _apart(tensors, self._input_bytes[entry], self._updated[entry])
        result = _tuples_of(self.run_tensors(entry, tensors))
        return result, self._results[entry].of(tensors, leaves_of(result))

    def run_tensors(self, entry: str, tensors: Sequence[Any]) -> Any:
        """Run a function on tensors of TVM, which are not checked beyond what the kernels check; returns TVM's."""
        result = self._functions[entry](*tensors, *self._weights[entry])
        if self._release is not None:
            self._release(None)
        return result

    def kernel(self, name: str) -> Any:
        """The function of the library with this name; None if it has none."""
        return self._kernels[name] if self._kernels.implements_function(name) else None

    def instrument(self, function: Callable[..., int]) -> None:
        """Call ``function`` before and after each call of the program, as TVM's ``set_instrument`` describes."""
        self._machine.set_instrument(function)


def load_model(
    folder: str | Path,
    *,
    functions: Collection[str] = (),
    shared_weights: bool = False,
    update_in_place: bool = False,
) -> CompiledModel:
    """Load a model that ``tunefarm compile`` wrote, after checking its files.

    Sets TVM's number of threads in this process to that of the model; if this is impossible, a warning names the
    variable to set.

    Args:
        folder: the folder.
        functions: names of external functions that the model may call. They must be registered with TVM before.
        shared_weights: map the weights from their file, so that the processes of a host hold them once. Otherwise each
            process copies them into huge pages, if the system has them: eleven models were 1.03 times as fast on
            average.
        update_in_place: let a call change the inputs that ``updated_inputs`` of the manifest names, such as the caches
            of a decoder, instead of copying them. Use the results in their place afterwards.

    Raises:
        BadInput: the folder holds no model, its files do not match, or it uses what is not permitted.
    """
    from tunefarm_workers.builder.sealed_library import sealed

    files = read_model_folder(str(folder), functions)
    try:
        held = sealed(files.library)
        try:
            return open_model(files, held, shared_weights=shared_weights, update_in_place=update_in_place)
        finally:
            os.close(held)
    finally:
        os.close(files.weights)


def open_model(
    files: ModelFiles, library: int, *, shared_weights: bool = False, update_in_place: bool = False
) -> CompiledModel:
    """Load a model from checked files, whose library is in the sealed memory ``library``.

    Both descriptors can be closed afterwards. The options are those of ``load_model``.

    Raises:
        BadInput: its weights are damaged, or TVM cannot load it.
    """
    import tvm
    import tvm_ffi

    from tunefarm_workers.builder.sealed_library import path_of

    manifest = files.manifest
    if manifest.num_cores > 0:
        use_recorded_threads(manifest.num_cores)
    weights = _weights_of(files, shared_weights=shared_weights)
    try:
        with opened_regions(manifest, files.folder):
            # tvm.runtime.load_module would derive the format from the resolved path, which has no suffix.
            kernels = tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(path_of(library), "so")
            program = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")(files.program)
            program.import_module(kernels)
            machine = tvm.relax.VirtualMachine(program, tvm.cpu())
        return CompiledModel(manifest, machine, kernels, weights, files.folder, update_in_place=update_in_place)
    except (RuntimeError, ValueError, OSError, AttributeError) as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise BadInput("folder", f"TVM cannot load it: {reason}.", "Compile it again for this machine.") from error


def _weights_of(files: ModelFiles, *, shared_weights: bool) -> dict[str, list[Any]]:
    is_copied = not shared_weights and have_huge_pages()
    try:
        arrays = read_weights(files.weights, WeightMemory.COPIED if is_copied else WeightMemory.WRITABLE)
        tensors = {name: tensor_of(usable_array(array)) for name, array in arrays.items()}
        named = {each.entry: [tensors[name] for name in each.weights] for each in files.manifest.entry_weights}
    except (DamagedWeights, KeyError, OSError) as error:
        raise BadInput("folder", f"its weights cannot be read: {error}.", "Compile the model again.") from error
    return {entry.name: named.get(entry.name, []) for entry in files.manifest.entries}


def _sizes_bytes(tensors: Sequence[TensorArgument]) -> list[int]:
    from tunefarm_workers.correctness.element_type import size_in_bytes

    return [size_in_bytes(each) for each in tensors]


def _updated_positions(manifest: ModelManifest) -> dict[str, tuple[int, ...]]:
    """Where the inputs stand that each entry can update, by the name of the entry."""
    names = {each.entry: frozenset(each.inputs) for each in manifest.updated_inputs}
    return {
        entry.name: tuple(at for at, each in enumerate(entry.inputs) if each.name in names.get(entry.name, ()))
        for entry in manifest.entries
    }


def _apart(tensors: Sequence[Any], sizes_bytes: Sequence[int], updated: Sequence[int]) -> Sequence[Any]:
    """``tensors``, with a copy of each updated one that shares memory with another: its update would change both."""
    begins = [each.data_ptr() for each in tensors]
    spans = sorted(zip(begins, sizes_bytes, range(len(begins)), strict=True))
    if all(one[0] + one[1] <= other[0] for one, other in pairwise(spans)):
        return tensors
    apart = list(tensors)
    for at in updated:
        end = begins[at] + sizes_bytes[at]
        others = ((begin, size) for begin, size, other in spans if other != at)
        if any(begin < end and begins[at] < begin + size for begin, size in others):
            apart[at] = tensors[at].copyto(tensors[at].device)
    return apart


def _tuples_of(result: Any) -> Any:
    import tvm

    if isinstance(result, tvm.runtime.Tensor):
        return result
    return tuple(_tuples_of(each) for each in result)
