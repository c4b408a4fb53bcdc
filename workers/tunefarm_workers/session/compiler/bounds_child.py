"""The child that examines a schedule for another device on this host, where its inputs are."""

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_search.validation.memory_bounds import bounds_of
from tunefarm_workers.builder.shipped_module import ship
from tunefarm_workers.child.bounds_check import PROCESSORS, checked_call, refusal
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.child.task_process import held_task
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.session.device.default_schedule import scheduled_for
from tunefarm_workers.session.device.device_target import device_target
from tunefarm_workers.session.device.session_messages import BoundsOrder, Examined, Toolchain
from tunefarm_workers.threads.thread_placement import place_threads


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer a ``BoundsOrder`` with ``Examined``. Forked from the task's process."""
    order = BoundsOrder.model_validate_json(payload)
    channel.send(Examined(failure=_examined(order)).model_dump_json().encode())


def _examined(order: BoundsOrder) -> Broken | None:
    stage = FailureReason.INVALID_SCHEDULE
    held = held_task()
    try:
        target = device_target(order.target, Toolchain())
        shipped = ship(scheduled_for(held.module, order.trace, target), order.abi)
        stage = FailureReason.BUILD_ERROR
        bounds = bounds_of(shipped.module, target)
        kind = str(target.kind.name)
        refused = refusal(shipped, held.tensors, bounds, kind)
        if refused is not None or kind not in PROCESSORS:
            return refused
        place_threads(held.order.num_cores)
        return checked_call(held, shipped, bounds)
    except Exception as error:  # noqa: BLE001 - an error of a schedule is its result
        return broken(stage, error)
