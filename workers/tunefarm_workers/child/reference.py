"""The child that computes the reference: the outputs of the untuned function."""

import time
from typing import Any, Final

import tvm
import tvm_ffi

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.builder.shipped_module import ENTRY
from tunefarm_workers.child.sampled_function import LONG_S, SampledFunction
from tunefarm_workers.child.task_process import HeldTask, held_task, input_tensor
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.conversation.messages import (
    ReferenceBroken,
    ReferenceFigures,
    ReferenceOrder,
    ReferenceStep,
    ReferenceTimed,
)
from tunefarm_workers.correctness.element_type import is_floating
from tunefarm_workers.correctness.float64_module import widen
from tunefarm_workers.correctness.guarded_tensor import GuardedTensor
from tunefarm_workers.correctness.inputs import InputArray
from tunefarm_workers.correctness.output_layout import reference_slot
from tunefarm_workers.correctness.output_transfer import send_outputs
from tunefarm_workers.correctness.reordered_module import with_faster_loops
from tunefarm_workers.threads.thread_placement import seal_with_threads

_MESSAGE_CHARACTERS = 2000
_MAX_TIMED_S: Final = 0.5
"""A slower function as written is not timed: the call would delay the candidates."""
_SHORT_S: Final = 0.05
_NOT_BUILT = (tvm.error.InternalError, ValueError, RuntimeError)
"""Raised by TVM if it cannot compile the reordered loops of a type."""


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - an entry's shape
    """Entry: run the function in its own types and in float64, on one set of inputs after the other."""
    order = ReferenceOrder.model_validate_json(payload)
    held = held_task()
    widened = _widened(held) if order.widen else None
    functions = [function for function in (_own(held), widened) if function is not None]
    estimate_s = functions[0].estimated_s()
    if estimate_s is not None:
        _send(channel, ReferenceTimed(latency_s=estimate_s))
    for set_number in range(order.sets):
        for function in list(functions):
            try:
                outputs = function.run(set_number)
            except Exception as error:  # noqa: BLE001 - reported as the answer
                message = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS]
                _send(channel, ReferenceBroken(double=function.double, message=message))
                functions.remove(function)
                continue
            slot = reference_slot(set_number, double=function.double)
            send_outputs(channel, slot, (output.contents() for output in outputs))
            _send(channel, ReferenceStep(set_number=set_number, double=function.double))
        if set_number == 0 and functions and not functions[0].double:
            _send(channel, functions[0].figures(estimate_s))
    for function in functions:
        if function.double or estimate_s is not None:
            continue
        if (latency_s := function.seconds_as_written()) is not None:
            _send(channel, ReferenceTimed(latency_s=latency_s))


def _send(channel: Channel, message: ReferenceStep | ReferenceBroken | ReferenceFigures | ReferenceTimed) -> None:
    channel.send(message.model_dump_json().encode())


def _own(held: HeldTask) -> "_UntunedFunction":
    return _UntunedFunction(held, held.module, held.arguments, double=False)


def _widened(held: HeldTask) -> "_UntunedFunction | None":
    if not any(is_floating(argument.tensor.dtype) for argument in held.arguments if argument.tensor.is_output):
        return None
    arguments = tuple(
        argument.model_copy(update={"tensor": argument.tensor.model_copy(update={"dtype": "float64"})})
        if is_floating(argument.tensor.dtype)
        else argument
        for argument in held.arguments
    )
    return _UntunedFunction(held, None, arguments, double=True)


class _UntunedFunction:
    """The untuned function in its own types or in float64, built at its first run."""

    def __init__(
        self,
        held: HeldTask,
        module: tvm.IRModule | None,
        arguments: tuple[Argument, ...],
        *,
        double: bool,
    ) -> None:
        self.double = double
        self._held = held
        self._module = module
        self._arguments = arguments
        self._function: Any = None
        self._is_as_written = True
        self._fastest_s = float("inf")
        self._build_s = 0.0

    def run(self, set_number: int) -> list[GuardedTensor]:
        """Run on one set of inputs and return the outputs."""
        if self._function is None:
            self._function = self._built(self._module or widen(self._held.order.module_json))
        outputs: list[GuardedTensor] = []
        tensors = self._tensors(set_number, outputs)
        seal_with_threads()
        self._fastest_s = min(self._fastest_s, _seconds_of(self._function, tensors))
        return outputs

    def estimated_s(self) -> float | None:
        """Estimate the latency of a call, if it is long."""
        sampled = None if self._module is None else SampledFunction.of(self._module, self._held.target)
        if sampled is None:
            return None
        tensors = self._tensors(0, [])
        seal_with_threads()
        try:
            latency_s = sampled.seconds(tensors)
        except RuntimeError:  # computing the outputs reports it
            return None
        return latency_s if latency_s >= LONG_S else None

    def figures(self, estimate_s: float | None) -> ReferenceFigures:
        """Return the figures from which the deadlines of candidates follow."""
        if not self._is_as_written and self._module is not None:
            self._build_s = _build_s(self._module, self._held.target)
        return ReferenceFigures(build_s=max(self._build_s, 1e-6), latency_s=estimate_s or self._fastest_s)

    def seconds_as_written(self) -> float | None:
        """Measure roughly the latency of the function without reordered loops; None if it is long."""
        if self._is_as_written:
            return self._fastest_s
        if self._fastest_s > _MAX_TIMED_S or self._module is None:
            return None
        function = build_in_place(self._module, self._held.target)[ENTRY]
        tensors = self._tensors(0, [])
        first_s = _seconds_of(function, tensors)
        return first_s if first_s > _SHORT_S else min(first_s, _seconds_of(function, tensors))

    def _built(self, module: tvm.IRModule) -> Any:
        faster = with_faster_loops(module)
        began_s = time.process_time()
        try:
            built = build_in_place(faster, self._held.target)[ENTRY]
        except _NOT_BUILT:
            return build_in_place(module, self._held.target)[ENTRY]
        self._build_s = time.process_time() - began_s
        self._is_as_written = tvm_ffi.structural_equal(faster, module)
        return built

    def _tensors(self, set_number: int, outputs: list[GuardedTensor]) -> list[Any]:
        pairs = zip(self._arguments, self._held.inputs(set_number), strict=True)
        return [self._tensor(argument, array, outputs) for argument, array in pairs]

    def _tensor(self, argument: Argument, array: InputArray | None, outputs: list[GuardedTensor]) -> Any:
        if array is not None and self.double and is_floating(argument.tensor.dtype):
            array = array.astype("float64")
        if not argument.tensor.is_output:
            assert array is not None, "an argument that is no output holds an input"
            return input_tensor(array, argument)
        output = GuardedTensor(argument.tensor, array)
        outputs.append(output)
        return output.tensor


def _build_s(module: tvm.IRModule, target: Any) -> float:
    """Return the processor time that building ``module`` takes."""
    began_s = time.process_time()
    build_in_place(module, target)[ENTRY]
    return time.process_time() - began_s


def _seconds_of(function: Any, tensors: list[Any]) -> float:
    """Return the processor time of this thread, which excludes pauses while others are timed."""
    start_s = time.thread_time()
    function(*tensors)
    return max(time.thread_time() - start_s, 1e-9)
