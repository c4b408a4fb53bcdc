"""Opens the lane that a worker's settings describe."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.farm.farm_message import queue_name
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.broker.order_server import OpenLane, Send
from tunefarm_workers.worker.device_farm import CheckedFarm, FarmMaker, maker_of
from tunefarm_workers.worker.lane_server import LaneServer
from tunefarm_workers.worker.settings import WorkerSettings

_COMPILE_LANE: Final = "tunefarm_workers.compile.pool_lane"
"""Imported only for compile workers."""


@dataclass(frozen=True)
class LaneContext:
    """The resources of a new lane.

    Attributes:
        scratch: a folder for this process alone.
        blobs: the store that all hosts share.
        send: sends replies.
        parts: closed when the lane's process ends.
    """

    settings: WorkerSettings
    fork_server: ForkServer
    scratch: Path
    blobs: Blobs
    send: Send
    lane_id: str
    parts: ExitStack


LaneOpener = Callable[[LaneContext], OpenLane]
"""Raises BadInput, ForkFailed."""


def opener_of(settings: WorkerSettings) -> tuple[LaneOpener, tuple[str, ...]]:
    """The function that opens the lane in ``settings``, and what its fork server loads. Raises BadInput."""
    if settings.worker_kind == "compile" and not settings.worker_farm:
        module = import_module(_COMPILE_LANE)
        return module.open_lane, module.PRELOAD
    maker, preload = maker_of(settings)
    return lambda context: _open_measuring(maker, context), preload


def _open_measuring(maker: FarmMaker, context: LaneContext) -> OpenLane:
    """A lane that measures on the device of its farm."""
    farm = maker(context.settings, context.fork_server, context.scratch, context.blobs)
    context.parts.callback(farm.close)
    class_id = farm.device.device_class.device_class_id
    return OpenLane(
        server=LaneServer(farm, context.blobs, context.send, context.lane_id, context.settings.worker_room),
        queue=queue_name(class_id, farm.code_generator),
        serves=f"device class {class_id[:16]}",
        device=farm.device,
        code_generator=farm.code_generator,
        processor=farm.processor,
        last_check=lambda: farm.last_check if isinstance(farm, CheckedFarm) else None,
    )
