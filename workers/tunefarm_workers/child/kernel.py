"""A compiled schedule with tensors to call it on."""

from functools import partial
from typing import Any

import tvm_ffi

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.builder.shipped_module import ShippedModule, packed_inputs
from tunefarm_workers.child.task_process import HeldTask, input_tensor
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.correctness.guarded_tensor import GuardedTensor
from tunefarm_workers.correctness.output_transfer import send_outputs
from tunefarm_workers.timing.call_timer import EVALUATOR, CacheFlush, CallTimer


def cache_flush(*, cold_cache: bool) -> CacheFlush | None:
    """Create what flushes the caches before calls, if they are to be cold."""
    return CacheFlush(partial(tvm_ffi.register_global_func, override=True)) if cold_cache else None


class Kernel:
    """A compiled candidate with its tensors, which hold the first set of inputs at first."""

    def __init__(self, held: HeldTask, shipped: ShippedModule, runtime_module: Any) -> None:
        self._held = held
        self._shipped = shipped
        self._module = runtime_module
        self._function = runtime_module[shipped.entry]
        self._outputs = {
            position: GuardedTensor(argument.tensor)
            for position, argument in enumerate(held.arguments)
            if argument.tensor.is_output
        }
        self.arguments: list[Any] = []
        self.feed(0)

    def timer(self, flush: CacheFlush | None) -> CallTimer:
        """Create a timer of its calls; with ``flush``, of cold ones."""
        evaluator = tvm_ffi.get_global_func(EVALUATOR)
        return CallTimer(self._module, self._shipped.entry, self.arguments, evaluator, flush)

    def feed(self, set_number: int) -> None:
        """Load one set of inputs, and clear the outputs."""
        arrays = self._held.inputs(set_number)
        tensors = [None if held is None else held.tensor for held in self._held.first_tensors]
        for position, argument in enumerate(self._held.arguments):
            array = arrays[position]
            if argument.tensor.is_output:
                output = self._outputs[position]
                output.clear()
                if array is not None:
                    output.fill(array)
                tensors[position] = output.tensor
            elif set_number > 0 and array is not None:
                tensors[position] = input_tensor(array, argument)
        self.arguments = packed_inputs(self._shipped, self._module, tensors)

    def call(self) -> None:
        """Call once on the loaded inputs."""
        self._function(*self.arguments)

    def send_outputs(self, channel: Channel, slot: int) -> None:
        """Send all outputs as ``slot``."""
        send_outputs(channel, slot, (output.contents() for output in self._outputs.values()))

    def overstepped(self, *, inputs: bool = True) -> Broken | None:
        """Return a failure if the kernel wrote around its outputs or, with ``inputs``, to or around its inputs."""
        if not all(output.guards_hold() for output in self._outputs.values()):
            return Broken(reason=FailureReason.WRONG_RESULT, message="The kernel wrote outside of its output.")
        if inputs and not self._inputs_hold():
            return Broken(reason=FailureReason.WRONG_RESULT, message="The kernel wrote to or beside an input.")
        return None

    def _inputs_hold(self) -> bool:
        return all(
            tensor is None or tensor.checksum() == before
            for tensor, before in zip(self._held.first_tensors, self._held.first_checksums, strict=True)
        )
