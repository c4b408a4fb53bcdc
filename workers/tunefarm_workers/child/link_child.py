"""The child that compiles one schedule to a shared library."""

from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.builder.linker import link_kernel, linker_command
from tunefarm_workers.builder.scheduled_module import build_scheduled, replay
from tunefarm_workers.builder.shipped_module import ship
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.child.task_process import parse
from tunefarm_workers.conversation.messages import Broken, Linked, LinkOrder


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer with ``Linked`` and the library's bytes, or with ``Broken``."""
    order = LinkOrder.model_validate_json(payload)
    stage = FailureReason.INVALID_SCHEDULE
    try:
        module, target = parse(order.task)
        scheduled = replay(module, order.trace, callees=order.task.callees)
        stage = FailureReason.BUILD_ERROR
        shipped = ship(scheduled, order.task.abi)
        built = build_scheduled(shipped.module, target)
        folder = Path(order.folder)
        built.write_to_file(str(folder / "kernel.o"), "o")
        library = folder / "kernel.so"
        link_kernel(linker_command(), library, [str(folder / "kernel.o")], ["-lm"], folder)
        contents = library.read_bytes()
    except Exception as error:  # noqa: BLE001 - whatever a schedule raises is its result
        _send(channel, broken(stage, error))
        return
    packed = tuple(shipped.packed[position] for position in sorted(shipped.packed))
    _send(channel, Linked(entry=shipped.entry, pack_entry=shipped.pack_entry, packed_arguments=packed))
    channel.send(contents)


def _send(channel: Channel, message: Linked | Broken) -> None:
    channel.send(message.model_dump_json().encode())
