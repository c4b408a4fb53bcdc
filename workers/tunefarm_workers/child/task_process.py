"""A child that holds one exploration's module and inputs, and forks a child of its own for each candidate.

It never runs a kernel: threads do not survive a fork, so a child's first parallel kernel would wait for them forever.
"""

import json
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.server import serve
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.features.least_work import least_work
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.validation.foreign_input import require_permitted_module
from tunefarm_workers.builder.scheduled_module import target_of
from tunefarm_workers.builder.signature import arguments_of
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.conversation.messages import TaskOrder, TaskReady, TaskRefused
from tunefarm_workers.correctness.guarded_tensor import GuardedTensor
from tunefarm_workers.correctness.input_check import require_fitting
from tunefarm_workers.correctness.inputs import InputArray, make_inputs
from tunefarm_workers.threads.smt_detection import SmtDetection
from tunefarm_workers.threads.spread_kernels import smt_detection

_UNREADABLE = (
    tvm.error.InternalError,
    ValueError,
    AttributeError,
    TypeError,
    RuntimeError,
    json.JSONDecodeError,
)


@dataclass(frozen=True)
class HeldTask:
    """The state that children of a task process inherit."""

    order: TaskOrder
    module: tvm.IRModule
    target: Any
    arguments: tuple[Argument, ...]
    first_inputs: tuple[InputArray | None, ...]
    first_tensors: tuple[GuardedTensor | None, ...]
    first_checksums: tuple[int, ...]
    input_set_s: float
    """How long it took to make the first set of inputs."""
    smt_detection: SmtDetection | None = None

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        """The workload's parameters."""
        return tuple(argument.tensor for argument in self.arguments)

    def separate_threads(self, tries: int) -> bool:
        """Make at most ``tries`` attempts to get a physical core per thread; whether each has one."""
        return self.smt_detection is None or self.smt_detection.separate_threads(tries)

    def inputs(self, set_number: int) -> tuple[InputArray | None, ...]:
        """Return one set of inputs as arrays."""
        if set_number == 0:
            return self.first_inputs
        return _inputs(self.order, self.arguments, set_number)


_held: list[HeldTask] = []
"""Filled once, before the first fork: memory is how a fork server passes state on to its children."""


def held_task() -> HeldTask:
    """Return the task of the process that this process was forked from."""
    return _held[0]


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - an entry's shape
    """Entry of a task process: prepare, report, then serve forks until the channel closes."""
    order = TaskOrder.model_validate_json(payload)
    os.environ["TVM_NUM_THREADS"] = str(order.num_cores)
    try:
        _held.append(replace(hold(order), smt_detection=smt_detection(order.num_cores)))
    except BadInput as refusal:
        refused = TaskRefused(field=refusal.field, problem=refusal.problem, fix=refusal.fix)
        channel.send(refused.model_dump_json().encode())
        return
    held = _held[0]
    ready = TaskReady(arguments=held.arguments, input_set_s=held.input_set_s, least_work=least_work(held.module))
    channel.send(ready.model_dump_json().encode())
    serve(channel)


def hold(order: TaskOrder) -> HeldTask:
    """Parse the module and make its first inputs.

    Raises:
        BadInput: TVM cannot read the module or the target, or an argument cannot be drawn.
    """
    module, target = parse(order)
    arguments = arguments_of(module)
    require_fitting(arguments, order.input_specs, order.input_examples)
    began_s = time.monotonic()
    inputs = _inputs(order, arguments, 0)
    tensors = tuple(
        None if array is None or argument.tensor.is_output else GuardedTensor(argument.tensor, array)
        for argument, array in zip(arguments, inputs, strict=True)
    )
    input_set_s = time.monotonic() - began_s
    return HeldTask(
        order=order,
        module=module,
        target=target,
        arguments=arguments,
        first_inputs=inputs,
        first_tensors=tensors,
        first_checksums=tuple(0 if tensor is None else tensor.checksum() for tensor in tensors),
        input_set_s=input_set_s,
    )


def _inputs(order: TaskOrder, arguments: tuple[Argument, ...], set_number: int) -> tuple[InputArray | None, ...]:
    return make_inputs(
        arguments,
        seed=order.seed,
        set_number=set_number,
        distribution=order.distribution,
        specs=order.input_specs,
        examples=order.input_examples,
    )


def parse(order: TaskOrder) -> tuple[tvm.IRModule, Any]:
    """Parse the module and the target of an order.

    Raises:
        BadInput: TVM cannot read one of them, or one contains something that is not permitted.
    """
    try:
        module, target = load_json(order.module_json), target_of(order.target)
    except _UNREADABLE as error:
        raise BadInput("module", f"TVM cannot read it: {error}.", "Save it again with this version of TVM.") from error
    require_permitted_module(module, order.callees)
    return module, target


def input_tensor(array: InputArray, argument: Argument) -> Any:
    """Copy ``array`` to memory that TVM allocates, as a caller's would be."""
    if argument.tensor.dtype == "bool":
        tensor = tvm.runtime.empty(argument.tensor.shape, "bool")
        return tensor.copyfrom(array.astype(np.bool_))
    return tvm.runtime.tensor(array)
