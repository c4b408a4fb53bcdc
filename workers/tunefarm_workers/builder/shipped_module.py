"""The module that is measured and shipped, for both ABIs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tunefarm_schemas.tuning.workload import Abi, TensorArgument
from tunefarm_workers.builder.weight_packing import split_packing

ENTRY = "main"
PACK_ENTRY = "pack"


@dataclass(frozen=True)
class ShippedModule:
    """A scheduled module as it is compiled.

    ``packed`` maps positions of the workload's arguments to the tensors that ``entry`` takes instead. ``pack_entry``
    takes the plain tensors of those positions in order, then the packed ones. Empty for the stable ABI.
    """

    module: tvm.IRModule
    entry: str
    pack_entry: str | None
    packed: dict[int, TensorArgument]


def ship(scheduled: tvm.IRModule, abi: Abi) -> ShippedModule:
    """Convert ``scheduled`` to the form that an artifact contains."""
    if abi == "packed":
        module, packed = split_packing(scheduled)
        if packed:
            return ShippedModule(module=module, entry=ENTRY, pack_entry=PACK_ENTRY, packed=packed)
    return ShippedModule(module=scheduled, entry=ENTRY, pack_entry=None, packed={})


def changed_signature(shipped: ShippedModule, arguments: Sequence[TensorArgument]) -> str | None:
    """Return how the signature differs from the workload's, or None.

    A trace may change the shape of a parameter, and a function that is built in place does not check its arguments: it
    would access memory out of bounds.
    """
    given = [shipped.packed.get(position, argument) for position, argument in enumerate(arguments)]
    found = _difference(shipped.module[shipped.entry], given)
    if found is None and shipped.pack_entry is not None:
        positions = sorted(shipped.packed)
        given = [*(arguments[at] for at in positions), *(shipped.packed[at] for at in positions)]
        found = _difference(shipped.module[shipped.pack_entry], given)
    return found


def _difference(function: Any, given: Sequence[TensorArgument]) -> str | None:
    if len(function.params) != len(given):
        return f"it takes {len(function.params)} parameters where the workload has {len(given)}."
    for parameter, argument in zip(function.params, given, strict=True):
        expected, actual = _type_of(parameter), f"{argument.dtype}{list(argument.shape)}"
        if expected != actual:
            return f"its parameter {parameter.name} is {expected} where the workload's is {actual}."
    return None


def _type_of(parameter: Any) -> str:
    if not isinstance(parameter.ty, tvm.tirx.BufferType):
        return "no tensor"
    # Extents of functions from Relax are 64-bit integers, which print as T.int64(4).
    extents = (str(getattr(extent, "value", extent)) for extent in parameter.shape)
    return f"{parameter.dtype}[{', '.join(extents)}]"


def packed_inputs(shipped: ShippedModule, runtime_module: Any, inputs: list[Any]) -> list[Any]:
    """Return ``inputs`` with the packed positions replaced by the output of the ``pack`` function."""
    if shipped.pack_entry is None:
        return inputs
    positions = sorted(shipped.packed)
    packed = [tvm.runtime.empty(shipped.packed[at].shape, shipped.packed[at].dtype) for at in positions]
    runtime_module[shipped.pack_entry](*(inputs[at] for at in positions), *packed)
    replaced = list(inputs)
    for position, tensor in zip(positions, packed, strict=True):
        replaced[position] = tensor
    return replaced
