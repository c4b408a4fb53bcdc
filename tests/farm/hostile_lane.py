"""A real lane on this host whose candidates run the attacks named in their traces: ``tests.workers.hostile``."""

from pathlib import Path
from typing import Final

from tests.slow_device import slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.worker.settings import WorkerSettings

SETTINGS: Final = FarmSettings(build_lanes=2, memory_bytes=512 << 20, first_build_s=4.0, first_run_s=4.0)
PRELOAD: Final = (
    LOAD_TVM,
    "tests.workers.hostile:arm",
)


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:
    del settings, blobs
    return LocalFarm(fork_server, scratch=scratch, known=slow_device(), settings=SETTINGS)
