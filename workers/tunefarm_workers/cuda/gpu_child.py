"""The child with a context on a GPU.

A context takes a third of a second to create and does not survive a fork, so one child serves an exploration until
something fails. Children of several explorations stay open. A failing kernel ends only its own.
"""

import os

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_workers.cuda.gpu_connection import GpuConnection
from tunefarm_workers.session.device.local_bench import LocalBench
from tunefarm_workers.session.device.session_child import serve_session


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: create the context, and serve until the channel closes."""
    serve_session(channel, payload, _opened)


def _opened(text: str) -> LocalBench:
    connection = GpuConnection.model_validate_json(text)
    if connection.device_type == "cuda":
        # Number devices as nvidia-smi does, make one visible, and disable the cache on disk.
        os.environ.update(
            CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(connection.index), CUDA_CACHE_DISABLE="1"
        )
    return LocalBench(connection.device_type, 0)
