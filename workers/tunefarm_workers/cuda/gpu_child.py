"""The child that has a context on a graphics processor.

A context takes a third of a second to make and does not survive a fork, so the child serves one exploration for as long
as nothing fails. A kernel that goes wrong takes this child along and nobody else.
"""

import os

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.session.device.local_bench import LocalBench
from tunefarm_workers.session.device.session_child import serve_session


class GpuConnection(Frozen):
    """Which device of this host. ``device_type`` is as TVM names it."""

    device_type: str
    index: int


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: make the context, and serve until the channel closes."""
    serve_session(channel, payload, _opened)


def _opened(text: str) -> LocalBench:
    connection = GpuConnection.model_validate_json(text)
    if connection.device_type == "cuda":
        # The driver counts devices as nvidia-smi does, sees one of them, and keeps no files.
        os.environ.update(
            CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(connection.index), CUDA_CACHE_DISABLE="1"
        )
    return LocalBench(connection.device_type, 0)
