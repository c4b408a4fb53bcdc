"""NumPy arrays as the inputs of a compiled model's function."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm.artifact.aligned_memory import aligned_copy
from tunefarm.artifact.shared_memory import element_type, has_view, tensor_of, usable_view
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry

Array = npt.NDArray[Any]


class ArrayInputs:
    """Checks arrays against the inputs of one function, and passes their memory on, or a copy of it.

    An array that kernels cannot read in place is copied into memory that is kept for the next call: new memory takes
    longer than a copy of some kilobytes. Inputs that the function updates are copied into new memory, which becomes
    that of a result. Not for several threads at once.
    """

    def __init__(self, entry: ModelEntry, updated: Collection[int] = ()) -> None:
        """``updated`` are the positions of the inputs that the function updates."""
        self._entry = entry
        self._names = [each.name for each in entry.inputs]
        self._expected = [(each.shape, element_type(each.dtype)) for each in entry.inputs]
        self._keeps = [position not in updated for position in range(len(entry.inputs))]
        self._kept: dict[int, tuple[Array, Any]] = {}

    def in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """The inputs by position. Raises BadInput if one is missing or unknown."""
        if not named and len(inputs) == len(self._names):
            return inputs
        rest = self._names[len(inputs) :]
        if len(inputs) > len(self._names) or set(rest) != set(named):
            given = f"{len(inputs)} inputs" + (f" and {', '.join(sorted(named))}" if named else "")
            raise BadInput("inputs", f"{self._entry.name} got {given}.", f"Call {signature_of(self._entry)}.")
        return [*inputs, *(named[name] for name in rest)]

    def passed(self, given: Sequence[Any]) -> tuple[list[Array], list[Any]]:
        """The arrays whose memory the function gets, and TVM's tensors of them. Raises BadInput for another type."""
        pairs = [self._passed(position, each) for position, each in enumerate(given)]
        return [array for array, _ in pairs], [tensor for _, tensor in pairs]

    def _passed(self, position: int, given: Any) -> tuple[Array, Any]:
        shape, dtype = self._expected[position]
        array = np.asarray(given)
        if array.shape != shape or array.dtype != dtype:
            expected = self._entry.inputs[position]
            problem = f"{expected.name} is {array.dtype}{list(array.shape)}."
            raise BadInput("inputs", problem, f"Give {expected.dtype}{list(expected.shape)}.")
        if not has_view(array):
            return array, tensor_of(array)
        view = usable_view(array)
        if view is not None:
            return array, view
        kept = self._kept.get(position)
        if kept is not None:
            kept[0][...] = array
            return kept
        copy = aligned_copy(array)
        pair = copy, tensor_of(copy)
        if self._keeps[position]:
            self._kept[position] = pair
        return pair


def signature_of(entry: ModelEntry) -> str:
    """A function with its inputs, as it is called."""
    given = ", ".join(f"{each.name}: {each.dtype}{list(each.shape)}" for each in entry.inputs)
    return f"{entry.name}({given})"
