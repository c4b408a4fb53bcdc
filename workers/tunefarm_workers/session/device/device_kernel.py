"""A library on a device with the tensors of its calls."""

import zlib
from typing import Any

import numpy as np

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.child.task_process import HeldTask
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.correctness.output_transfer import send_outputs
from tunefarm_workers.session.device.bench import Bench
from tunefarm_workers.session.device.session_messages import LibraryShape


class PlacedInputs:
    """The inputs of one task on the device. The first set stays there for the whole session."""

    def __init__(self, bench: Bench, held: HeldTask) -> None:
        self.held = held
        self._bench = bench
        self._first = self._placed(0)
        self._checksums = tuple(_checksum(tensor) for tensor in self._first)

    def of(self, set_number: int) -> tuple[Any, ...]:
        """One set of inputs by position; None for outputs."""
        return self._first if set_number == 0 else self._placed(set_number)

    def unchanged(self) -> bool:
        """Whether the first set is unmodified."""
        return all(_checksum(tensor) == before for tensor, before in zip(self._first, self._checksums, strict=True))

    def _placed(self, set_number: int) -> tuple[Any, ...]:
        arrays = self.held.inputs(set_number)
        return tuple(
            None if array is None or argument.tensor.is_output else self._bench.place(array, argument.tensor)
            for argument, array in zip(self.held.arguments, arrays, strict=True)
        )


class DeviceKernel:
    """A compiled candidate with the tensors of its calls, at first the first set of inputs."""

    def __init__(self, bench: Bench, inputs: PlacedInputs, module: Any, shape: LibraryShape) -> None:
        self._bench = bench
        self._inputs = inputs
        self._module = module
        self._shape = shape
        self._function = module[shape.entry]
        held = inputs.held
        self._outputs = {
            position: bench.output(argument.tensor)
            for position, argument in enumerate(held.arguments)
            if argument.tensor.is_output
        }
        self.arguments: list[Any] = []
        self.feed(0)

    def feed(self, set_number: int) -> None:
        """Set the inputs to one set, and clear the outputs."""
        held = self._inputs.held
        tensors = list(self._inputs.of(set_number))
        for position, output in self._outputs.items():
            output.clear()
            if held.arguments[position].holds_input:
                array = held.inputs(set_number)[position]
                assert array is not None, "an argument that holds an input has an array"
                output.fill(array)
            tensors[position] = output.tensor
        self.arguments = self._packed(tensors)

    def call(self) -> None:
        """Call once on the present inputs, and wait for the end."""
        self._function(*self.arguments)
        self._bench.synchronize()

    def send_outputs(self, channel: Channel, slot: int) -> None:
        """Send all outputs, under the number ``slot``."""
        send_outputs(channel, slot, (memoryview(output.contents().tobytes()) for output in self._outputs.values()))

    def overstepped(self, *, inputs: bool) -> Broken | None:
        """A failure if the kernel wrote outside of its outputs or, with ``inputs``, to the first set of inputs."""
        if not all(output.guards_hold() for output in self._outputs.values()):
            return Broken(reason=FailureReason.WRONG_RESULT, message="The kernel wrote outside of its output.")
        if inputs and not self._inputs.unchanged():
            return Broken(reason=FailureReason.WRONG_RESULT, message="The kernel changed one of its inputs.")
        return None

    def _packed(self, tensors: list[Any]) -> list[Any]:
        if self._shape.pack_entry is None:
            return tensors
        positions = [position for position, _ in self._shape.packed]
        packed = [self._bench.empty(tensor) for _, tensor in self._shape.packed]
        self._module[self._shape.pack_entry](*(tensors[position] for position in positions), *packed)
        self._bench.synchronize()
        for position, tensor in zip(positions, packed, strict=True):
            tensors[position] = tensor
        return tensors


def _checksum(tensor: Any) -> int:
    """A checksum that shows whether a kernel wrote to its input; 0 for no tensor."""
    if tensor is None:
        return 0
    return zlib.crc32(np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data)
