"""The child that runs the untuned function, so that others have something to be right against."""

import mmap
from typing import Any

import tvm

from tunefarm_sandbox.channel import Channel
from tunefarm_workers.argument import Argument
from tunefarm_workers.eased_module import eased
from tunefarm_workers.element_type import is_floating
from tunefarm_workers.guarded_output import GuardedOutput
from tunefarm_workers.inputs import InputArray
from tunefarm_workers.messages import ReferenceBroken, ReferenceOrder, ReferenceStep
from tunefarm_workers.output_layout import OutputLayout
from tunefarm_workers.scheduled_module import build_scheduled
from tunefarm_workers.shipped_module import ENTRY
from tunefarm_workers.task_host import HeldTask, held_task, input_tensor
from tunefarm_workers.widened_module import widen

_MESSAGE_CHARACTERS = 2000
_NOT_BUILT = (tvm.error.InternalError, ValueError, RuntimeError)
"""What TVM raises where it cannot compile the reordered loops of a type, such as vectors of bfloat16."""


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: both forms of the function on every set of inputs, the first set first.

    ``descriptors`` holds the shared memory for the outputs in their own types, then that for the widened ones.
    """
    order = ReferenceOrder.model_validate_json(payload)
    held = held_task()
    widened = _widened(held, descriptors[1]) if order.widen else None
    forms = [form for form in (_own(held, descriptors[0]), widened) if form is not None]
    for set_number in range(order.sets):
        for form in list(forms):
            try:
                form.run(set_number)
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises is the answer
                message = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS]
                _send(channel, ReferenceBroken(double=form.double, message=message))
                forms.remove(form)
                continue
            _send(channel, ReferenceStep(set_number=set_number, double=form.double))


def _send(channel: Channel, message: ReferenceStep | ReferenceBroken) -> None:
    channel.send(message.model_dump_json().encode())


def _own(held: HeldTask, shared: int) -> "_Form":
    return _Form(held, held.module, held.arguments, shared, double=False)


def _widened(held: HeldTask, shared: int) -> "_Form | None":
    if not any(is_floating(argument.tensor.dtype) for argument in held.arguments if argument.tensor.is_output):
        return None
    arguments = tuple(
        argument.model_copy(update={"tensor": argument.tensor.model_copy(update={"dtype": "float64"})})
        if is_floating(argument.tensor.dtype)
        else argument
        for argument in held.arguments
    )
    return _Form(held, None, arguments, shared, double=True)


class _Form:
    """The untuned function in one choice of types, built at its first run."""

    def __init__(
        self,
        held: HeldTask,
        module: tvm.IRModule | None,
        arguments: tuple[Argument, ...],
        shared: int,
        *,
        double: bool,
    ) -> None:
        self.double = double
        self._held = held
        self._module = module
        self._arguments = arguments
        self._shared = shared
        self._layout = OutputLayout.of(tuple(argument.tensor for argument in arguments))
        self._function: Any = None

    def run(self, set_number: int) -> None:
        """Run on one set of inputs and write the outputs to its slot."""
        if self._function is None:
            self._function = self._built(self._module or widen(self._held.order.module_json))
        outputs: list[GuardedOutput] = []
        tensors: list[Any] = []
        for argument, array in zip(self._arguments, self._held.inputs(set_number), strict=True):
            tensors.append(self._tensor(argument, array, outputs))
        self._function(*tensors)
        memory = mmap.mmap(self._shared, 0)
        for output, offset in zip(outputs, self._layout.offsets_bytes, strict=True):
            output.copy_to(memory, set_number * self._layout.size_bytes + offset)

    def _built(self, module: tvm.IRModule) -> Any:
        try:
            return build_scheduled(eased(module), self._held.target)[ENTRY]
        except _NOT_BUILT:
            return build_scheduled(module, self._held.target)[ENTRY]

    def _tensor(self, argument: Argument, array: InputArray | None, outputs: list[GuardedOutput]) -> Any:
        if array is not None and self.double and is_floating(argument.tensor.dtype):
            array = array.astype("float64")
        if not argument.tensor.is_output:
            assert array is not None, "an argument that is no output holds an input"
            return input_tensor(array, argument)
        output = GuardedOutput(argument.tensor)
        if array is not None:
            output.fill(array)
        outputs.append(output)
        return output.tensor
